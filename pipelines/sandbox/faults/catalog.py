"""The catalog of faults, the parser for their names, and their effects on one request.

`NAME[,path=PATTERN][,venue=ID][,portfolio=ID][,count=N][,after=N][,since=DATE][,seconds=S][,mib=N]`
"""

import copy
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.faults.answers import ANSWER_FAULTS, BODY_FAULTS
from pipelines.sandbox.faults.records import RECORD_FAULTS
from pipelines.sandbox.faults.wire import REFUSED, WIRE_FAULTS
from pipelines.sandbox.faults.worlds import WORLD_FAULTS, Fault, Rehearsal
from pipelines.sandbox.specification import RefusalError, SandboxResponse
from pipelines.sandbox.world.world import Record, World

_TWISTS = {**ANSWER_FAULTS, **BODY_FAULTS}
_SERVICE_FAULTS = {
    "slow": "a good response arrives after 2 s, or after `seconds`",
    "clock-skew": "the server's clock is ahead by 45 s or by `seconds`, which may be negative",
    "access-lost": "the key has no access: no portfolio is listed, and IDs return ACCESS_DENIED",
    "venues-fail": "requests for the instruments of every fourth venue return 500",
    "next-day": "the server returns the next day's data (with `after`, this starts during the "
    "night)",
}
_CONNECTION_FAULTS = {
    REFUSED: "the port is closed, either forever or for `seconds` (no other scope is possible)"
}

DESCRIPTIONS: Mapping[str, str] = {
    **_SERVICE_FAULTS,
    **{
        name: fault[0]
        for faults in (_TWISTS, WORLD_FAULTS, RECORD_FAULTS, WIRE_FAULTS)
        for name, fault in faults.items()
    },
    **_CONNECTION_FAULTS,
}

_SCOPES: Mapping[str, Callable[[str], object]] = {
    "path": str,
    "venue": str,
    "portfolio": str,
    "count": int,
    "after": int,
    "since": date.fromisoformat,
    "seconds": float,
    "mib": int,
}
EXAMPLE = "internal-error,path=/venues/*,count=2"
SCOPES: Mapping[str, str] = {
    "path=/venues/*": "only requests whose encoded path (without the prefix) matches this pattern",
    "venue=ID": "only this venue, or requests for it",
    "portfolio=ID": "only this portfolio, or requests for it",
    "count=N": "only the first N matching requests",
    "after=N": "all matching requests except the first N",
    "since=2026-11-21": "only from this day onwards in the simulated world",
    "seconds=N": "the duration, for faults that have one",
    "mib=N": "the size in MiB, for faults that have one",
}
"""The parts of a scope, each with an example and its meaning. A missing part matches everything."""
# These faults affect only requests for the venue or portfolio that their scope names, if any. All
# other faults change the venue or portfolio itself.
_OF_TRANSPORT = frozenset(DESCRIPTIONS) - WORLD_FAULTS.keys() - RECORD_FAULTS.keys()


def parse(text: str) -> Fault:
    """Parse a fault and its scope. For invalid input, raises ValueError with suggestions."""
    name, *scopes = text.split(",")
    if name not in DESCRIPTIONS:
        similar = " or ".join(map(repr, difflib.get_close_matches(name, [*DESCRIPTIONS, "list"])))
        question = f" Did you mean {similar}?" if similar else ""
        raise ValueError(
            f"There is no fault named {name!r}.{question} For all names, type: nightbook sandbox "
            "--fault list"
        )
    values: dict[str, object] = {}
    for scope in scopes:
        key, _, value = scope.partition("=")
        try:
            values[key] = _SCOPES[key](value)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"The fault {name!r} has an invalid scope {scope!r}. A scope is one of "
                f"{', '.join(f'{known}=' for known in _SCOPES)}, with an integer for count, after "
                "and mib, a number for seconds and a date like 2026-11-21 for since."
            ) from error
    return Fault(name, **values)  # type: ignore[arg-type] # _SCOPES converts each to its type


def of_application(faults: Iterable[Fault]) -> Rehearsal:
    """Return the faults that the application simulates, with a request counter for each fault."""
    chosen = [fault for fault in faults if fault.name not in {*WIRE_FAULTS, *_CONNECTION_FAULTS}]
    return Rehearsal(chosen, of_transport=_OF_TRANSPORT)


def of_wire(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return the faults that the proxy simulates in the bytes on the wire."""
    return tuple(fault for fault in faults if fault.name in {*WIRE_FAULTS, *_CONNECTION_FAULTS})


@dataclass(frozen=True, slots=True)
class DueFaults:
    """The faults that affect one request. The methods apply them to the response."""

    due: tuple[Fault, ...] = ()

    def _seconds(self, name: str, default: float) -> float:
        return sum(fault.seconds_or(default) for fault in self.due if fault.name == name)

    @property
    def delay(self) -> float:
        """The number of seconds to wait before the response is sent."""
        return self._seconds("slow", 2)

    @property
    def skew_ms(self) -> int:
        """The number of milliseconds to add to the server's clock."""
        return int(self._seconds("clock-skew", 45) * 1000)

    def day(self, day: date) -> date:
        """Return the date to simulate, which is one day later if the fault `next-day` is active."""
        return day + timedelta(days=sum(fault.name == "next-day" for fault in self.due))

    def caller(self, caller: Caller) -> Caller:
        """Return the caller. If `access-lost` is active, the caller has no portfolios."""
        if any(fault.name == "access-lost" for fault in self.due):
            return Caller(caller.secret, frozenset(), caller.resources)
        return caller

    def world(self, world: World) -> World:
        """Apply the faults that change the world, and return the changed world."""
        for fault in self.due:
            if fault.name in WORLD_FAULTS:
                world = WORLD_FAULTS[fault.name][1](world, fault)
        return world

    def records(self, records: list[Record], resource: str) -> list[Record]:
        """Apply the record faults to a copy of a response's records, and return the copy."""
        due = [fault for fault in self.due if fault.name in RECORD_FAULTS]
        if due:
            records = copy.deepcopy(records)
        for fault in due:
            RECORD_FAULTS[fault.name][1](records, resource, fault)
        return records

    def check_venue(self, venue: str | None, world: World) -> None:
        """Raise RefusalError if the fault `venues-fail` is active and affects this venue."""
        failing = set(sorted(str(record["id"]) for record in world.venues)[::4])
        if venue in failing and any(fault.name == "venues-fail" for fault in self.due):
            raise RefusalError(500, ("INTERNAL_SERVER_ERROR", "A simulated venue failure."))

    def answer(self, response: SandboxResponse, now: int) -> SandboxResponse:
        """Apply the response faults, and return the response. `now` is in Unix milliseconds."""
        for fault in self.due:
            if fault.name in _TWISTS:
                response = _TWISTS[fault.name][1](response, fault, now)
        return response
