"""A landed snapshot's manifest: its requests, and the result of rechecking the lists."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from pipelines.landing import night_folders
from pipelines.landing.night_folders import MANIFEST, DamagedFile
from pipelines.landing.notices import ResponseNotice

# The results of the recheck at the end of a pull, and the results of requests for portfolios that
# have disappeared from the list.
STILL, MOVED, MOVING, UNKNOWN = "still", "moved", "moving", "unknown"
REFUSED, DELETED, THERE, UNTOLD = "access refused", "not found", "still there", "not told"
# The purposes of a request.
BOOK, REPLACED, CLOSING, CONFIRMING = "book", "replaced", "closing", "confirming"


@dataclass(frozen=True, slots=True)
class Window:
    """The result of rechecking the lists at the end of a pull.

    `state` has four values. `still`: nothing changed during the pull. `moved`: a list changed, but
    was stable when it was reread. `moving`: a list also changed during the reread. `unknown`: the
    recheck failed. `moved` describes the changes. `missing` contains the portfolios that have
    disappeared since the previous book, each with the API's response to a request by ID. If
    portfolios had disappeared from the list, `second_count` is the number of portfolios in the
    second read, and `second_after` is the number of seconds between the two reads.
    """

    state: str = UNKNOWN
    moved: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    second_count: int | None = None
    second_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """A request that a pull sent, and its result, as a row in `ops.requests`. Times are in UTC.

    `purpose` has four values. `book`: the tables are built from the response. `replaced`: the list
    was reread, because it had changed. `closing`: the response was only compared, not stored.
    `confirming`: the request was sent for a portfolio that had left the list.
    """

    request_no: int
    operation: str
    venue_id: str | None
    path: str
    query: str
    status: int | None = None
    attempts: int = 0
    sent_at: str | None = None
    received_at: str | None = None
    byte_count: int | None = None
    sha256: str | None = None
    file: str | None = None
    error: str | None = None
    purpose: str = BOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A landed snapshot's manifest. Times are ISO 8601 in UTC. `origin` is the API's address.

    `signs` suggest that responses are incomplete, and `notices` contains their messages (older
    manifests have only `notices`). `stored` maps each compressed file to its SHA-256, because some
    bits of a compressed file can change without changing the content. `started_at` is the start
    time by the corrected clock. `machine_started_at` is the start time by this machine's clock, or
    None in older manifests. `follows` is the newest earlier night that was accepted, pruned or not
    yet judged.
    """

    snapshot_id: str
    snapshot_date: date
    timezone: str
    started_at: str
    finished_at: str
    origin: str
    program_version: str
    clock_skew_ms: int | None
    notices: tuple[str, ...]
    answers: tuple[RequestRecord, ...]
    stored: Mapping[str, str]
    window: Window = field(default_factory=Window)
    machine_started_at: str | None = None
    signs: tuple[ResponseNotice, ...] = ()
    follows: str | None = None

    @property
    def machine_date(self) -> date:
        """The business date according to this machine's clock.

        It differs from `snapshot_date` if the clock is wrong.
        """
        if self.machine_started_at is None:
            return self.snapshot_date
        moment = datetime.fromisoformat(self.machine_started_at)
        return moment.astimezone(ZoneInfo(self.timezone)).date()

    @property
    def is_date_doubtful(self) -> bool:
        """Whether the server's clock and this machine's clock disagree about the business date."""
        return self.machine_date != self.snapshot_date

    @property
    def book(self) -> list[RequestRecord]:
        """The requests whose responses are used to build the tables."""
        return [answer for answer in self.answers if answer.purpose == BOOK]

    def responses_of(self, operation: str) -> list[RequestRecord]:
        """Return the requests for an operation whose responses are used to build the tables."""
        return [a for a in self.book if a.operation == operation and a.file is not None]


def load_manifest(folder: Path) -> Manifest:
    """Read a landed snapshot's manifest. Raises `DamagedFile` if it was changed."""
    return convert_manifest(night_folders.read(folder / MANIFEST), folder)


def convert_manifest(content: dict[str, Any], folder: Path) -> Manifest:
    """Convert verified JSON to a manifest. Raises `DamagedFile` if a field or path is wrong."""
    try:
        _check_fields(content, Manifest)
        _check_fields(set().union(*content["answers"]), RequestRecord)
        manifest = msgspec.convert(content, Manifest)
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        problem = f"different fields than this version of nightbook writes ({error})"
        raise DamagedFile(folder / MANIFEST, problem, "a manifest from this version") from None
    day = manifest.snapshot_date.isoformat()
    if folder.parts[-2:] != (day, manifest.snapshot_id):
        problem = f"the manifest of {manifest.snapshot_id} on {day}"
        expected = f"the manifest of {folder.name} on {folder.parent.name}"
        raise DamagedFile(folder / MANIFEST, problem, expected)
    return manifest


def _check_fields(content: Iterable[str], model: type[Manifest | RequestRecord]) -> None:
    """Raise `TypeError` if there are fields that this version of nightbook does not know."""
    if unknown_fields := set(content) - {field_.name for field_ in fields(model)}:
        raise TypeError(f"{model.__name__} has unknown fields: {', '.join(sorted(unknown_fields))}")
