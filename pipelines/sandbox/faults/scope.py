"""What a fault is and where it strikes: its scope in paths, objects, days and requests."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from urllib.parse import unquote

from pipelines.sandbox.world.world import Record


@dataclass(frozen=True, slots=True)
class Fault:
    """A named fault with its scope; every part of the scope that is not given is everything.

    `path` is a pattern for the path below the prefix as it was sent, `/venues/*`. `venue` and
    `portfolio` are ids: the objects that are changed, and for a fault of the transport the
    requests for that object. `count` is how many matching requests it strikes, `after` how many
    it lets pass first, `since` the first day of the world on which it strikes. `seconds` and
    `mib` are sizes of the faults that have one.
    """

    name: str
    path: str = "*"
    venue: str | None = None
    portfolio: str | None = None
    count: int | None = None
    after: int = 0
    since: date | None = None
    seconds: float | None = None
    mib: int | None = None

    def seconds_or(self, default: float) -> float:
        """Return how long it lasts, or what is usual."""
        return default if self.seconds is None else self.seconds

    def bytes_or(self, default_mib: int) -> int:
        """Return how large it is, or what is usual."""
        return (default_mib if self.mib is None else self.mib) * 1024 * 1024

    def strikes(self, path: str, day: date | None, *, objects: bool) -> bool:
        """Does a request for this path, on this day, lie in the scope.

        With `objects`, the request itself must be for the venue or portfolio that is named.
        """
        if not fnmatchcase(path, self.path):
            return False
        if self.since is not None and day is not None and day < self.since:
            return False
        if not objects:
            return True
        collection, _, subpath = path.strip("/").partition("/")
        named = {"venues": self.venue, "portfolios": self.portfolio}.get(collection)
        if self.venue is None and self.portfolio is None:
            return True
        return named is not None and unquote(subpath.partition("/")[0]) == named


class Rehearsal:
    """Faults that are being rehearsed, and how many requests each has seen."""

    def __init__(self, faults: Iterable[Fault], *, of_transport: Iterable[str] = ()) -> None:
        self._faults = tuple(faults)
        self._seen = [0] * len(self._faults)
        self._of_transport = frozenset(of_transport)

    def due(self, path: str, day: date | None = None) -> tuple[Fault, ...]:
        """Return the faults that strike this request; asking counts as the request."""
        struck = []
        for number, fault in enumerate(self._faults):
            objects = fault.name in self._of_transport
            if not fault.strikes(path, day, objects=objects):
                continue
            # Requests are counted before `after` and `count` decide, also those that are let pass.
            seen = self._seen[number]
            self._seen[number] += 1
            if seen >= fault.after and (fault.count is None or seen < fault.after + fault.count):
                struck.append(fault)
        return tuple(struck)


def target(records: list[Record], resource: str, fault: Fault) -> Record | None:
    """Return the record that a fault changes: the one it names, or the largest, or the first by id.

    None where the fault names an object of another kind, or one that is not there.
    """
    named = {"Portfolio": fault.portfolio, "Venue": fault.venue}.get(resource)
    foreign = {"Portfolio": fault.venue, "Venue": fault.portfolio}.get(resource, fault.portfolio)
    if foreign is not None and named is None:
        return None
    # Another fault may have struck before, so that a record is null or lacks its id.
    fitting = [record for record in records if record and named in {None, record.get("id")}]
    return min(fitting, key=_size_and_id, default=None)


def _size_and_id(record: Record) -> tuple[int, str]:
    return -len(record.get("positions") or ()), str(record.get("id"))
