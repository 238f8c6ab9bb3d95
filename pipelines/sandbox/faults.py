"""Faults: situations that an operator can rehearse with the sandbox.

`NAME[,path=PATTERN][,venue=ID][,portfolio=ID][,count=N][,after=N][,since=DATE][,seconds=S]`

A fault is of a `FaultKind`, which says what the fault changes. `FAULTS` contains the kinds that the
command `nightbook sandbox` offers. Callers may pass other kinds to `parse`, as tests do.
"""

import copy
import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from urllib.parse import unquote

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.specification import RefusalError, SandboxResponse, encode, error_response
from pipelines.sandbox.world.world import Calendar, Record, World

EXAMPLE = "internal-error,path=/venues/*,count=2"
# The parts of a scope, each with an example and its meaning. A missing part matches everything.
SCOPES: Mapping[str, str] = {
    "path=/venues/*": "only requests whose encoded path (without the prefix) matches this pattern",
    "venue=ID": "only this venue, or requests for it",
    "portfolio=ID": "only this portfolio, or requests for it",
    "count=N": "only the first N matching requests",
    "after=N": "all matching requests except the first N",
    "since=2026-11-21": "only from this day onwards in the simulated world",
    "seconds=N": "the duration, for faults that have one",
}
_PARSERS: Mapping[str, Callable[[str], object]] = {
    "path": str,
    "venue": str,
    "portfolio": str,
    "count": int,
    "after": int,
    "since": date.fromisoformat,
    "seconds": float,
}
_HTML = {"Content-Type": "text/html; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Scene:
    """The data, keys and clocks from which a response is made, and the path of its request.

    `path` is the path below the prefix, as it was sent.
    """

    world: Calendar
    keys: Mapping[str, Caller]
    clock: Callable[[], int]  # Unix time in milliseconds
    today: Callable[[], date]  # the simulated date
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """A kind of fault: its description, and the steps of a response that it changes.

    `scene` and `world` return a changed copy. `records` changes copies of the response's records in
    place, and knows their resource. `response` returns another response, in which a header with an
    empty value is not sent. `delay` is the default number of seconds to wait before the response.
    """

    description: str
    scene: "Callable[[Scene, Fault], Scene] | None" = None
    world: "Callable[[World, Fault], World] | None" = None
    records: "Callable[[list[Record], str, Fault], None] | None" = None
    response: "Twist | None" = None
    delay: float = 0

    @property
    def changes_objects(self) -> bool:
        """True if the scope names the venue or portfolio to change, not the one requested."""
        return self.world is not None or self.records is not None


@dataclass(frozen=True, slots=True)
class Fault:
    """A named fault with its scope: the requests and objects that it affects (by default all).

    `path` is a pattern for the path below the prefix, as it was sent, for example `/venues/*`.
    `venue` and `portfolio` are the IDs of the objects to change or, if the kind does not change
    objects, of the requested objects. The fault skips the first `after` matching requests, then
    affects `count` requests, and starts on the world's day `since`. `seconds` is the duration of
    faults that have one.
    """

    name: str
    kind: FaultKind = field(repr=False)
    path: str = "*"
    venue: str | None = None
    portfolio: str | None = None
    count: int | None = None
    after: int = 0
    since: date | None = None
    seconds: float | None = None

    def seconds_or(self, default: float) -> float:
        """Return the fault's duration in seconds, or the default if none was given."""
        return default if self.seconds is None else self.seconds

    def strikes(self, path: str, day: date | None) -> bool:
        """Return whether the fault applies to a request for this path on this day."""
        if not fnmatchcase(path, self.path):
            return False
        if self.since is not None and day is not None and day < self.since:
            return False
        if self.kind.changes_objects or (self.venue is None and self.portfolio is None):
            return True
        collection, _, subpath = path.strip("/").partition("/")
        named = {"venues": self.venue, "portfolios": self.portfolio}.get(collection)
        return named is not None and unquote(subpath.partition("/")[0]) == named


Twist = Callable[[SandboxResponse, Fault, Scene], SandboxResponse]


class FaultCounter:
    """The active faults, with a counter of the requests that each fault has matched."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        self._seen = [0] * len(self._faults)

    def due(self, path: str, day: date | None = None) -> tuple[Fault, ...]:
        """Count a request, and return the faults that affect this request."""
        affecting = []
        for number, fault in enumerate(self._faults):
            if not fault.strikes(path, day):
                continue
            # Count all matching requests, including the requests that `after` skips.
            seen = self._seen[number]
            self._seen[number] += 1
            if seen >= fault.after and (fault.count is None or seen < fault.after + fault.count):
                affecting.append(fault)
        return tuple(affecting)


def delay_of(due: Iterable[Fault]) -> float:
    """Return the number of seconds to wait before the response is sent."""
    return sum(fault.seconds_or(fault.kind.delay) for fault in due if fault.kind.delay)


def change_scene(due: Iterable[Fault], scene: Scene) -> Scene:
    """Apply the faults that change the scene of one request."""
    for fault in due:
        scene = fault.kind.scene(scene, fault) if fault.kind.scene else scene
    return scene


def change_world(due: Iterable[Fault], world: World) -> World:
    """Apply the faults that change the world."""
    for fault in due:
        world = fault.kind.world(world, fault) if fault.kind.world else world
    return world


def change_records(due: Iterable[Fault], records: list[Record], resource: str) -> list[Record]:
    """Apply the faults that change records to a copy of a response's records."""
    due = [fault for fault in due if fault.kind.records]
    records = copy.deepcopy(records) if due else records
    for fault in due:
        if fault.kind.records:
            fault.kind.records(records, resource, fault)
    return records


def change_response(
    due: Iterable[Fault], response: SandboxResponse, scene: Scene
) -> SandboxResponse:
    """Apply the faults that change the finished response."""
    for fault in due:
        response = fault.kind.response(response, fault, scene) if fault.kind.response else response
    return response


def target(records: list[Record], resource: str, fault: Fault) -> Record | None:
    """Choose the record that a fault changes: the named record or, by default, the largest.

    If several are equally large, choose the first by ID. Return None if the fault names an object
    of a different kind or one that does not exist.
    """
    named = {"Portfolio": fault.portfolio, "Venue": fault.venue}.get(resource)
    foreign = {"Portfolio": fault.venue, "Venue": fault.portfolio}.get(resource, fault.portfolio)
    if foreign is not None and named is None:
        return None
    # Skip None and use `get`, because another fault may have appended null or removed an ID.
    fitting = [record for record in records if record and named in {None, record.get("id")}]
    return min(fitting, key=_size_and_id, default=None)


def _size_and_id(record: Record) -> tuple[int, str]:
    return -len(record.get("positions") or ()), str(record.get("id"))


def page(status: int, title: str, **headers: str) -> SandboxResponse:
    """Return a response with an HTML page, as from a proxy."""
    text = f"<!doctype html><html><head><title>{title}</title></head><body>{title}</body></html>"
    return SandboxResponse(status, text.encode(), _HTML | headers)


def refuse(status: int, code: str, headers: Mapping[str, str] | None = None) -> Twist:
    """Return a response fault that replaces each response with an error envelope."""
    refusal = RefusalError(status, (code, f"A simulated {code}."), headers=headers)
    return lambda _response, _fault, _scene: error_response(refusal, {})


def alter(change: Callable[[bytes], bytes] = bytes, **headers: str) -> Twist:
    """Return a response fault that changes the bytes of the body, and sets headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def act(response: SandboxResponse, _fault: Fault, _scene: Scene) -> SandboxResponse:
        return replace(response, body=change(response.body), headers={**response.headers, **named})

    return act


def _throttle(_response: SandboxResponse, fault: Fault, _scene: Scene) -> SandboxResponse:
    return page(429, "Too Many Requests", **{"Retry-After": f"{fault.seconds_or(2):g}"})


def _with_cursor(body: bytes) -> bytes:
    return encode({**json.loads(body), "meta": {"nextCursor": "bmV4dA==", "total": 1000}})


def _skew_clock(scene: Scene, fault: Fault) -> Scene:
    ahead_ms = int(fault.seconds_or(45) * 1000)
    return replace(scene, clock=lambda: scene.clock() + ahead_ms)


def _remove_portfolio(world: World, fault: Fault) -> World:
    removed = target(list(world.portfolios), "Portfolio", fault)
    return replace(
        world,
        portfolios=tuple(portfolio for portfolio in world.portfolios if portfolio is not removed),
    )


def _empty_venue(world: World, fault: Fault) -> World:
    listed = dict(world.instruments or {})
    largest = max(listed, key=lambda venue: (len(listed[venue]), venue), default="")
    return replace(world, instruments=listed | {fault.venue or largest: ()})


FAULTS: Mapping[str, FaultKind] = {
    "429": FaultKind(
        description="429 with Retry-After: 2 (or `seconds`)",
        response=_throttle,
    ),
    "authentication-failed": FaultKind(
        description="401 AUTHENTICATION_FAILED",
        response=refuse(401, "AUTHENTICATION_FAILED"),
    ),
    "clock-skew": FaultKind(
        description="the server's clock is ahead by 45 s or by `seconds`, which may be negative",
        scene=_skew_clock,
    ),
    "internal-error": FaultKind(
        description="500 with INTERNAL_SERVER_ERROR in an envelope",
        response=refuse(500, "INTERNAL_SERVER_ERROR"),
    ),
    "json-cut": FaultKind(
        description="the document is truncated",
        response=alter(lambda body: body[: len(body) // 2]),
    ),
    "meta-cursor": FaultKind(
        description="`meta` has a cursor and a total",
        response=alter(_with_cursor),
    ),
    "portfolio-vanished": FaultKind(
        description="the largest portfolio, or the named one, is missing",
        world=_remove_portfolio,
    ),
    "portfolios-empty": FaultKind(
        description="there are no portfolios at all",
        world=lambda world, _: replace(world, portfolios=()),
    ),
    "slow": FaultKind(
        description="a good response arrives after 2 s, or after `seconds`",
        delay=2,
    ),
    "venue-instruments-empty": FaultKind(
        description="one venue lists no instruments",
        world=_empty_venue,
    ),
}


def parse(text: str, kinds: Mapping[str, FaultKind] = FAULTS) -> Fault:
    """Parse a fault and its scope. For invalid input, raises ValueError with suggestions."""
    name, *scopes = text.split(",")
    if name not in kinds:
        similar = " or ".join(map(repr, difflib.get_close_matches(name, [*kinds, "list"])))
        question = f" Did you mean {similar}?" if similar else ""
        raise ValueError(
            f"There is no fault named {name!r}.{question} For all names, type: nightbook sandbox "
            "--fault list"
        )
    values: dict[str, object] = {}
    for scope in scopes:
        key, _, value = scope.partition("=")
        try:
            values[key] = _PARSERS[key](value)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"The fault {name!r} has an invalid scope {scope!r}. A scope is one of "
                f"{', '.join(f'{known}=' for known in _PARSERS)}, with an integer for count and "
                "after, a number for seconds and a date like 2026-11-21 for since."
            ) from error
    return Fault(name, kinds[name], **values)  # type: ignore[arg-type] # _PARSERS converts each
