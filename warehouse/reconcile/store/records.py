"""What the reconciliation stores: results, comments and signatures, as typed records.

The names of fields are the keys of the JSON files. A field that older files lack has a default.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import msgspec
from msgspec import structs

from warehouse.contract.wording import count_of
from warehouse.reconcile.ledger.coverage import extent_words
from warehouse.reconcile.ledger.model import WHOLE, LedgerSource, Unused
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.totals import Tie
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.notices import Notice

TIED, OPEN_BREAKS = 0, 3
OPEN, ACCEPTED = "Open", "Explained - accepted"
SETTINGS_DIGEST = "SHA-256 of recon.toml"  # as the evidence of a result calls it
SAID = ("status", "owner", "root_cause", "comment")  # what people say of a break
STATUSES = (OPEN, "In progress", "Waiting", ACCEPTED)


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """One break of one day; amounts are exact texts.

    `change` is new, returned, changed or unchanged since the run before; `accepted` is the
    difference that was accepted, empty where none is.
    """

    id: str
    episode: int
    key: tuple[str, ...]
    names: Mapping[str, str]
    result: str
    ledger: str | None
    snapshot: str | None
    difference: str
    rows: int
    source: str
    rule: str
    placement: str
    cause: str
    note: str
    first_seen: date
    ever_seen: date
    age_days: int
    change: str
    status: str = OPEN
    owner: str = ""
    root_cause: str = ""
    comment: str = ""
    accepted: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The level of its key; a break that was not compared keeps that of its own night."""
        return tuple(name for name in FIELDS if name in self.names)

    @property
    def level(self) -> tuple[str, ...]:
        """The fields that its ledger has; a coarse file beside finer ones lacks some."""
        pairs = zip(self.fields, self.key, strict=True)
        return tuple(name for name, value in pairs if value != WHOLE)

    def key_at(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return its key with these fields; `WHOLE` is the value of a field that it lacks."""
        values = dict(zip(self.fields, self.key, strict=True))
        return tuple(values.get(name, WHOLE) for name in fields)

    @property
    def is_open(self) -> bool:
        """Whether nobody has accepted it."""
        return self.status != ACCEPTED

    @property
    def result_words(self) -> str:
        """The result as people see it; `result` is its code."""
        return Result(self.result).words

    @property
    def is_unread(self) -> bool:
        """Whether the ledger's amount could not be read, so that no difference is known."""
        return self.ledger is None and self.result == Result.REJECTED.value

    @property
    def difference_words(self) -> str:
        """The difference as people see it."""
        return "amount not read" if self.is_unread else self.difference

    @property
    def ordered_names(self) -> dict[str, str]:
        """The names of the position, in the order of the fields; JSON has them in another one."""
        return {name: self.names[name] for name in FIELDS if name in self.names}

    @property
    def place(self) -> str:
        """The names of the position in one line."""
        return " / ".join(self.ordered_names.values())


class ResolvedBreak(Break, frozen=True, kw_only=True):
    """A break of the run before that is gone, with what was last written about it."""

    closed_on: date
    closed_because: str


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """At which level was compared, and what of the inbox was not used."""

    level: str
    files: tuple[tuple[str, str, str], ...]
    unused: tuple[Unused, ...]
    in_all: str
    forgiven: tuple[tuple[str, str, str, str], ...] = ()

    @property
    def words(self) -> str:
        """The level and what was not used, in one line."""
        return f"Compared at {self.level}; not used: {self.in_all or 'nothing'}."


class ShownTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What of the workbook follows from no other part of a result: names and roll-forward.

    `left_out` are the results whose keys its long table does not list; an older run says nothing.
    """

    names: Mapping[str, Mapping[str, str]]
    rolled: tuple[tuple[str, ...], ...]
    left_out: tuple[str, ...] = ()


class DaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings a day was reconciled with; `words` are None where an older run kept none."""

    digest: str
    words: Mapping[str, str] | None
    run_id: str


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run: what `status`, `history` and `verify` read.

    `uncovered` counts the positions of the book that no ledger covers; older runs did not keep it.
    """

    name: str
    day: date
    run_id: str
    digest: str
    snapshot_id: str
    fields: tuple[str, ...]
    counts: Mapping[str, int]
    rejected: int
    breaks: tuple[Break, ...]
    resolved: tuple[ResolvedBreak, ...]
    episodes: Mapping[str, tuple[int, str]]
    ties: tuple[Tie, ...]
    not_compared: tuple[Break, ...] = ()
    uncovered: int | None = None
    workbook: ShownTexts | None = None
    coverage: Coverage | None = None
    written: str = ""
    day_settings: DaySettings | None = None
    sources: tuple[LedgerSource, ...]
    notices: tuple[Notice, ...]
    evidence: Mapping[str, str]
    revision: int
    made_at: str
    by: str = ""
    no: int = 0

    @property
    def position_count(self) -> int:
        """How many positions were compared."""
        return sum(self.counts.values())

    @property
    def open_breaks(self) -> int:
        """How many breaks nobody has accepted."""
        return sum(break_.is_open for break_ in self.breaks)

    @property
    def unsolved_breaks(self) -> list[Break]:
        """The open breaks, with those of before that no ledger of the night says anything of."""
        return [break_ for break_ in (*self.breaks, *self.not_compared) if break_.is_open]

    @property
    def extent(self) -> str:
        """How many positions were compared, and of how many if that is not the whole book."""
        pending = len(self.unsolved_breaks) - self.open_breaks
        return extent_words(self.position_count, self.uncovered or 0, pending)

    @property
    def settings_digest(self) -> str:
        """The SHA-256 of recon.toml, where an older run kept it."""
        return self.evidence.get(SETTINGS_DIGEST, "")

    @property
    def unread(self) -> list[Unused]:
        """What of the inbox was not used and nobody decided about."""
        unused = self.coverage.unused if self.coverage else ()
        return [item for item in unused if item.severity == "high"]

    @property
    def exit_code(self) -> int:
        """3 if a break is open, a row was rejected, or something was not delivered or read.

        It is 3 as well if no position was compared, or if an open break of before was not.
        """
        lost = self.counts[Result.NOT_DELIVERED.value] or self.rejected
        is_open = self.unsolved_breaks or lost or self.unread or not self.position_count
        return OPEN_BREAKS if is_open else TIED


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One field of one break as somebody, or the engine, set it.

    A status also has the episode and the `accepted` difference that it was decided on; where it is
    taken over from another id, `said_on` and `said_by` say whose decision it was. One that is
    `is_restored` only tells a reader of the list what holds again.
    """

    break_id: str
    field: str
    value: str
    episode: int | None = None
    accepted: str | None = None
    said_on: str | None = None
    said_by: str | None = None
    note: str | None = None
    is_restored: bool = False


class Annotation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one workbook, or the engine, had to say: entries of one moment.

    `read_for` is the day of the run that read a workbook. Entries of the engine are about
    `engine_day`, and take back the files that they replace.
    """

    who: str
    at: str
    source: str
    sha256: str
    run_id: str
    base_revision: int
    entries: tuple[Entry, ...]
    read_for: str | None = None
    notices: tuple[Notice, ...] = ()
    engine_day: str | None = None
    replaces: tuple[int, ...] = ()
    no: int = 0


class Signature(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One signature below one result; older ones do not say how many breaks were open.

    `entered_by` is who typed it where that is somebody else; `source` the workbook it stood in.
    """

    role: str
    who: str
    comment: str
    at: str
    day: date
    run_id: str
    digest: str
    open_breaks: int | None = None
    entered_by: str = ""
    source: str = ""
    sha256: str = ""
    no: int = 0

    @property
    def open_words(self) -> str:
        """With how many open breaks it was signed, where that is known."""
        if self.open_breaks is None:
            return ""
        number = self.open_breaks
        return f"with {count_of(number, 'open break')}" if number else "with no open break"

    @property
    def words(self) -> str:
        """The signature in one line."""
        signed = f"signed by {self.who} as {self.role} at {self.at}"
        entered = f"entered by {self.entered_by}" if self.entered_by else ""
        about = " ".join(filter(None, (signed, self.open_words)))
        return ", ".join(filter(None, (about, entered)))


def to_json(record: msgspec.Struct) -> dict[str, Any]:
    """Return a record as JSON holds it."""
    content: dict[str, Any] = msgspec.to_builtins(record)
    return content


def with_present_ages(result: RunResult) -> RunResult:
    """Return a result whose ages count from the first day of the present occurrence.

    Older results counted them from the first day of the first occurrence.
    """
    ages = [(result.day - break_.first_seen).days for break_ in result.breaks]
    if all(break_.age_days == age for break_, age in zip(result.breaks, ages, strict=True)):
        return result
    breaks = (
        structs.replace(break_, age_days=age)
        for break_, age in zip(result.breaks, ages, strict=True)
    )
    return structs.replace(result, breaks=tuple(breaks))


def pending_breaks(result: RunResult | None) -> dict[str, Break]:
    """Return the breaks of a result by their id, with those that it could not compare."""
    return breaks_by_id(result) | {
        break_.id: break_ for break_ in (result.not_compared if result else ())
    }


def breaks_by_id(result: RunResult | None) -> dict[str, Break]:
    """Return the breaks of a result by their id."""
    return {break_.id: break_ for break_ in (result.breaks if result else ())}
