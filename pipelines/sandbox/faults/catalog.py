"""All faults by name, how one is asked for in text, and what they do to one request.

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
    "slow": "a good answer comes after 2 s, or `seconds`",
    "clock-skew": "the server's clock is 45 s ahead, or `seconds`; behind, if they are negative",
    "access-lost": "the key has lost its portfolios: the list is empty, one is ACCESS_DENIED",
    "venues-fail": "the instruments of every fourth venue are answered with 500",
    "next-day": "the world of the next day is served; with `after`, it moves during the night",
}
_CONNECTION_FAULTS = {REFUSED: "the port is closed, for ever or `seconds`; it has no other scope"}

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
    "path=/venues/*": "only requests for such a path, as it is sent after the prefix",
    "venue=ID": "only this venue, or requests for it",
    "portfolio=ID": "only this portfolio, or requests for it",
    "count=N": "only the first N requests that match",
    "after=N": "not the first N requests that match",
    "since=2026-11-21": "only from this day of the invented world on",
    "seconds=N": "how long, for a fault that lasts",
    "mib=N": "how many MiB, for a fault that has a size",
}
"""The parts of a scope with an example and the meaning; each that is not given means everything."""
# These strike the request for the named venue or portfolio; the others change that object.
_OF_TRANSPORT = frozenset(DESCRIPTIONS) - WORLD_FAULTS.keys() - RECORD_FAULTS.keys()


def parse(text: str) -> Fault:
    """Read the fault that a text asks for; ValueError tells the names like it, or the scopes."""
    name, *scopes = text.split(",")
    if name not in DESCRIPTIONS:
        near = " or ".join(map(repr, difflib.get_close_matches(name, [*DESCRIPTIONS, "list"])))
        meant = f" Did you mean {near}?" if near else ""
        raise ValueError(
            f"There is no fault called {name!r}.{meant} `nightbook sandbox --fault list` lists all."
        )
    values: dict[str, object] = {}
    for scope in scopes:
        key, _, value = scope.partition("=")
        try:
            values[key] = _SCOPES[key](value)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"The fault {name!r} was asked for with {scope!r}. A scope is one of "
                f"{', '.join(f'{known}=' for known in _SCOPES)}, with a whole number for count, "
                "after and mib, a number for seconds and a date like 2026-11-21 for since."
            ) from error
    return Fault(name, **values)  # type: ignore[arg-type] # _SCOPES made each of its own type


def of_application(faults: Iterable[Fault]) -> Rehearsal:
    """Return those faults that the application shows, ready to strike."""
    chosen = [fault for fault in faults if fault.name not in {*WIRE_FAULTS, *_CONNECTION_FAULTS}]
    return Rehearsal(chosen, of_transport=_OF_TRANSPORT)


def of_wire(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return those faults that need the front before the socket."""
    return tuple(fault for fault in faults if fault.name in {*WIRE_FAULTS, *_CONNECTION_FAULTS})


@dataclass(frozen=True, slots=True)
class DueFaults:
    """What the faults that are due do to one request."""

    due: tuple[Fault, ...] = ()

    def _seconds(self, name: str, default: float) -> float:
        return sum(fault.seconds_or(default) for fault in self.due if fault.name == name)

    @property
    def delay(self) -> float:
        """Seconds to wait before the answer."""
        return self._seconds("slow", 2)

    @property
    def skew_ms(self) -> int:
        """How far the server's clock is ahead."""
        return int(self._seconds("clock-skew", 45) * 1000)

    def day(self, day: date) -> date:
        """Return the day of the world that is served."""
        return day + timedelta(days=sum(fault.name == "next-day" for fault in self.due))

    def caller(self, caller: Caller) -> Caller:
        """Return the caller, with or without access to portfolios."""
        if any(fault.name == "access-lost" for fault in self.due):
            return Caller(caller.secret, frozenset(), caller.resources)
        return caller

    def world(self, world: World) -> World:
        """Return the world, less or more than it should be."""
        for fault in self.due:
            if fault.name in WORLD_FAULTS:
                world = WORLD_FAULTS[fault.name][1](world, fault)
        return world

    def records(self, records: list[Record], resource: str) -> list[Record]:
        """Return the records of an answer, not as they should be; the world keeps its own."""
        struck = [fault for fault in self.due if fault.name in RECORD_FAULTS]
        if struck:
            records = copy.deepcopy(records)
        for fault in struck:
            RECORD_FAULTS[fault.name][1](records, resource, fault)
        return records

    def check_venue(self, venue: str | None, world: World) -> None:
        """Refuse the instruments of every fourth venue, where that is the fault."""
        failing = set(sorted(str(venue_["id"]) for venue_ in world.venues)[::4])
        if venue in failing and any(fault.name == "venues-fail" for fault in self.due):
            raise RefusalError(500, ("INTERNAL_SERVER_ERROR", "A rehearsed failure of a venue."))

    def answer(self, answer: SandboxResponse, now: int) -> SandboxResponse:
        """Return the answer as it goes out."""
        for fault in self.due:
            if fault.name in _TWISTS:
                answer = _TWISTS[fault.name][1](answer, fault, now)
        return answer
