"""All faults that tests simulate: the ten of `nightbook sandbox`, and the rare ones.

The scope of some faults has `mib=N`, their size in MiB.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from urllib.parse import unquote

from pipelines.sandbox import faults
from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.faults import FAULTS, Fault, FaultKind, Scene
from pipelines.sandbox.specification import RefusalError, SandboxResponse, error_response
from tests.support.faults.answers import ANSWER_FAULTS, BODY_FAULTS, SIZED
from tests.support.faults.records import RECORD_FAULTS
from tests.support.faults.wire import REFUSED, WIRE_FAULTS
from tests.support.faults.worlds import WORLD_FAULTS


def _lose_access(scene: Scene, _fault: Fault) -> Scene:
    keys = {
        key: Caller(caller.secret, frozenset(), caller.resources)
        for key, caller in scene.keys.items()
    }
    return replace(scene, keys=keys)


def _next_day(scene: Scene, _fault: Fault) -> Scene:
    return replace(scene, today=lambda: scene.today() + timedelta(days=1))


def _fail_venues(response: SandboxResponse, _fault: Fault, scene: Scene) -> SandboxResponse:
    collection, _, below = scene.path.strip("/").partition("/")
    venue, _, subpath = below.partition("/")
    venues = scene.world.at(scene.today()).venues
    failing = sorted(str(record["id"]) for record in venues)[::4]
    is_list = (collection, subpath) == ("venues", "instruments")
    if not is_list or unquote(venue) not in failing or response.status != HTTPStatus.OK:
        return response
    error = ("INTERNAL_SERVER_ERROR", "A simulated venue failure.")
    return error_response(RefusalError(500, error), {})


SERVICE_FAULTS: Mapping[str, FaultKind] = {
    name: FAULTS[name] for name in ("slow", "clock-skew")
} | {
    "access-lost": FaultKind(
        description="the key has no access: no portfolio is listed, and IDs return ACCESS_DENIED",
        scene=_lose_access,
    ),
    "venues-fail": FaultKind(
        description="requests for the instruments of every fourth venue return 500",
        response=_fail_venues,
    ),
    "next-day": FaultKind(
        description="the server returns the next day's data (with `after`, this starts during the "
        "night)",
        scene=_next_day,
    ),
}
KINDS: Mapping[str, FaultKind] = {
    **SERVICE_FAULTS,
    **ANSWER_FAULTS,
    **BODY_FAULTS,
    **WORLD_FAULTS,
    **RECORD_FAULTS,
    **{name: FaultKind(description=words) for name, (words, _) in WIRE_FAULTS.items()},
    REFUSED: FaultKind(
        description="the port is closed, either forever or for `seconds` (no other scope is "
        "possible)"
    ),
}
DESCRIPTIONS: Mapping[str, str] = {name: kind.description for name, kind in KINDS.items()}


def parse(text: str) -> Fault:
    """Parse a fault and its scope, as the sandbox does for its own faults."""
    parts = text.split(",")
    sizes = [int(part.removeprefix("mib=")) for part in parts if part.startswith("mib=")]
    fault = faults.parse(",".join(part for part in parts if not part.startswith("mib=")), KINDS)
    for mib in sizes:
        fault = replace(fault, kind=replace(fault.kind, response=SIZED[fault.name](mib)))
    return fault
