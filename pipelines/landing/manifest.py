"""What a landed snapshot is: its manifest, its requests, and how still the book stood."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from pipelines.landing import night_folders
from pipelines.landing.night_folders import MANIFEST, Damaged
from pipelines.landing.notices import AnswerNotice

# How still the book stood, and what became of a portfolio that is gone from the list.
STILL, MOVED, MOVING, UNKNOWN = "still", "moved", "moving", "unknown"
REFUSED, DELETED, THERE, UNTOLD = "access refused", "not found", "still there", "not told"


@dataclass(frozen=True, slots=True)
class Window:
    """What the end of a pull found out about its beginning.

    `state` is `still`; `moved`: it was read again and then stood still; `moving`: it moved again;
    or `unknown`: the end could not be read. `moved` says what differed. `missing` has, for
    portfolios of the book before that are gone, what the API said when asked for them by id.
    `second_count` and `second_after` are of the second read of a list that had lost some: how many
    portfolios it had, and how many seconds after the first it was asked for.
    """

    state: str = UNKNOWN
    moved: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    second_count: int | None = None
    second_after: int | None = None


BOOK, REPLACED, CLOSING, CONFIRMING = "book", "replaced", "closing", "confirming"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request of a snapshot and what came: the row of `ops.requests`, times in UTC.

    `purpose` is `book` for what the tables are made of. What else was asked: `replaced` was read
    again because the book moved, `closing` was only compared and is not kept, `confirming` asked
    for a portfolio that had gone from the list.
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
    """What a landed snapshot is. Times are ISO 8601 in UTC; `origin` is where it was read.

    `notices` are the texts of `signs`: what the answers said against their being whole (older
    manifests have notices alone). `stored` has the SHA-256 of each file as it lies there,
    compressed: some bits of a compressed file may change without changing what it says.
    `started_at` is by the corrected clock, and `machine_started_at` the same moment by this
    machine's own; None where nobody noted it. `follows` is the newest night that was landed before
    and is a book or may become one.
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
    signs: tuple[AnswerNotice, ...] = ()
    follows: str | None = None

    @property
    def machine_date(self) -> date:
        """The business date by this machine's own clock: not `snapshot_date` where that is off."""
        if self.machine_started_at is None:
            return self.snapshot_date
        moment = datetime.fromisoformat(self.machine_started_at)
        return moment.astimezone(ZoneInfo(self.timezone)).date()

    @property
    def is_date_doubtful(self) -> bool:
        """Whether the server's time and this machine's give different business dates."""
        return self.machine_date != self.snapshot_date

    @property
    def book(self) -> list[RequestRecord]:
        """The requests that the tables are made of."""
        return [answer for answer in self.answers if answer.purpose == BOOK]

    def answers_of(self, operation: str) -> list[RequestRecord]:
        """Return those of an operation that were answered."""
        return [a for a in self.book if a.operation == operation and a.file is not None]


def load_manifest(folder: Path) -> Manifest:
    """Read the manifest of a landed snapshot; raises `Damaged` where it was changed."""
    return convert_manifest(night_folders.read(folder / MANIFEST), folder)


def convert_manifest(content: dict[str, Any], folder: Path) -> Manifest:
    """Return what a proved manifest says that is or is to be in a folder; raises `Damaged`."""
    try:
        _check_fields(content, Manifest)
        _check_fields(set().union(*content["answers"]), RequestRecord)
        manifest = msgspec.convert(content, Manifest)
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        problem = f"other fields than this version of nightbook writes ({error})"
        raise Damaged(folder / MANIFEST, problem, "a manifest of this version") from None
    day = manifest.snapshot_date.isoformat()
    if folder.parts[-2:] != (day, manifest.snapshot_id):
        problem = f"the manifest of {manifest.snapshot_id} of {day}"
        raise Damaged(folder / MANIFEST, problem, f"that of {folder.name} of {folder.parent.name}")
    return manifest


def _check_fields(content: Iterable[str], model: type[Manifest | RequestRecord]) -> None:
    """Raise where a manifest has fields that this version would drop in silence."""
    if strange := set(content) - {field_.name for field_ in fields(model)}:
        raise TypeError(f"{model.__name__} has {', '.join(sorted(strange))}")
