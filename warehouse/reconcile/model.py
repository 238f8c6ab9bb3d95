"""Reconciliation records: all data that is stored or passed between the steps."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.model import count_of
from warehouse.exact import EXACT, exact, total
from warehouse.reconcile.settings.materiality import Materiality
from warehouse.reconcile.settings.toml import setting
from warehouse.reconcile.terms import FIELDS, display_asset
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, units

Steps = tuple[str, str, str]

STEPPED = tuple(
    f"{side} {step}"
    for side in ("Ledger", "Book", "Breaks")
    for step in ("opening", "movement", "closing")
)

EQUAL = "equal"
UNMAPPED = "?"
Key = tuple[str, ...]
DisplayNames = Mapping[str, Mapping[str, str]]  # names by field and ID
OPEN, ACCEPTED = "Open", "Explained - accepted"
BY_RULE, NEEDS_SECOND = "Accepted by rule", "Needs a second person"
_CUT = 30_000
ENGINE = "nightbook"
REASONS = ("root_cause", "comment")  # the fields that explain why a break was accepted
AGE_BANDS = (("0-1 days", 0, 1), ("2-4 days", 2, 4), ("5-29 days", 5, 29), ("30+ days", 30, 10**6))
UNASSIGNED = "Unassigned"
TITLES = ("When, UTC", "Who", "Action", "Subject", "Details", "File", "SHA-256 of the file")
FLOAT_DIGITS = 15  # number of significant digits that a spreadsheet stores in a number cell
NO_AMOUNT = "it is not an amount"
Remembered = dict[str, dict[str, str]]
WHOLE = "(all)"  # the value of a field that the row's own file lacks, but another file has

LINES = pa.schema(
    [pa.field(name, pa.string()) for name in FIELDS]
    + [pa.field("amount", pa.string()), pa.field("decimals", pa.int32())]
    + [pa.field("is_number", pa.bool_()), pa.field("unit", pa.string())]
    + [pa.field("file", pa.int64()), pa.field("line", pa.int64())]
)

SEVERITIES = ("high", "medium", "low")
TIED, OPEN_BREAKS = 0, 3
SETTINGS_DIGEST = "SHA-256 of recon.toml"  # a label in the evidence for a result
FINGERPRINT = "fingerprint of all nights so far"  # another label
SAID = ("status", "owner", "root_cause", "comment")  # the fields of a break that people fill in
STATUSES = (OPEN, "In progress", "Waiting", ACCEPTED)
DERIVED = (
    BY_RULE,
    NEEDS_SECOND,
)  # statuses that nightbook sets because of the limits in recon.toml
SETTLED = (ACCEPTED, BY_RULE)


class Result(Enum):
    """The result for one key. If several results apply, the first one in this order counts.

    The values are codes. Results, positions and packs store them, and digests contain them, so a
    value must never change. `label` is the wording that people see.
    """

    REJECTED = "Rejected"
    UNMAPPED = "Unmapped"
    NOT_DELIVERED = "Portfolio not delivered"
    NOT_IN_LEDGER = "Not in ledger"
    NOT_IN_SNAPSHOT = "Not in snapshot"
    MATCHED = "Matched"
    MATCHED_ZERO = "Matched (zero)"
    PRECISION = "Ledger precision"
    TOLERANCE = "Within tolerance"
    DIFFERS = "Amount differs"

    @property
    def label(self) -> str:
        """The result's name in workbooks and messages."""
        return "Not in book" if self is Result.NOT_IN_SNAPSHOT else self.value


BREAK_RESULTS = (
    Result.REJECTED,
    Result.UNMAPPED,
    Result.NOT_IN_LEDGER,
    Result.NOT_IN_SNAPSHOT,
    Result.DIFFERS,
)

NEAR_RESULTS = (Result.PRECISION, Result.TOLERANCE)


class Tie(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of both sides for one asset, or for one asset at a venue or in a portfolio.

    Amounts are exact strings. `broken` is the part of the difference that comes from breaks, and
    `near` is the part that comes from keys within tolerance or within the ledger's precision.
    """

    level: str
    of: str
    asset: str
    keys: int
    breaks: int
    ledger: str
    snapshot: str
    difference: str
    broken: str
    near: str

    @property
    def adds_up(self) -> bool:
        """Whether the difference is exactly the sum of `broken` and `near`."""
        return exact(self.difference) == EXACT.add(exact(self.broken), exact(self.near))

    @property
    def result(self) -> str:
        """The result of the comparison: `equal`, `within tolerance`, or `differs`."""
        if self.breaks:
            return "differs"
        return EQUAL if self.difference == "0" == self.near else "within tolerance"


@dataclass(frozen=True, slots=True)
class RollForwardLine:
    """An asset's roll-forward: opening, movement and closing of ledger, book and breaks.

    If an opening is unknown, it is empty, and so is the movement.
    """

    asset: str
    ledger: Steps
    snapshot: Steps
    breaks: Steps

    @property
    def steps(self) -> tuple[str, ...]:
        """All nine amounts, in the order of the column titles in `STEPPED`."""
        return (*self.ledger, *self.snapshot, *self.breaks)

    @property
    def has_breaks(self) -> bool:
        """Whether the asset has breaks now or had breaks in the previous run."""
        return any(text not in ("", "0") for text in self.breaks)

    @property
    def adds_up(self) -> bool:
        """Whether the opening and the movement add up to the closing on each side."""
        return all(
            EXACT.add(exact(opening), exact(movement)) == exact(closing)
            for opening, movement, closing in (self.ledger, self.snapshot, self.breaks)
            if opening
        )

    @property
    def line(self) -> list[str]:
        """The workbook row: the asset's display name, the amounts, and whether they add up."""
        known = [side for side in (self.ledger, self.snapshot) if side[0]]
        words = ("not checked", "book only", "yes")[len(known)] if self.adds_up else "NO"
        return [display_asset(self.asset), *self.steps, words]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name that differs between the ledger and the book, and the ID that was found (if any).

    `name` is the ID's display name, and `rows` is the number of ledger rows with the name. `how` is
    `folded` or `alias` if the ID was found, or `suggested` if only the amounts suggest the name. If
    no ID was found, `how` is `unknown`, `ambiguous` or `wrong alias` (see `Resolution`).
    """

    field: str
    written: str
    id: str
    how: str
    rows: int
    suggestion: str
    name: str = ""


class Notice(msgspec.Struct, frozen=True):
    """A notice shown with a result. Its severity is high, medium or low."""

    severity: str
    message: str
    location: str = ""
    raw: str = ""

    @property
    def line(self) -> str:
        """The notice as one line that starts with its location, if it has one."""
        return f"{self.location}: {self.message}" if self.location else self.message


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """One break on one day. Amounts are exact strings.

    `change` is new, returned, changed or unchanged since the previous run. `accepted` is the
    accepted difference, or an empty string. `value` is the difference without its sign, multiplied
    by the price, or None if there is no valid price. `price_state` is priced, stale, missing, or
    unread if the difference is unknown. It is empty if breaks have no values.
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
    value: str | None = None
    currency: str = ""
    price_state: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the break's key.

        If the break was not compared, its fields do not change.
        """
        return tuple(name for name in FIELDS if name in self.names)

    @property
    def level(self) -> tuple[str, ...]:
        """The fields that have values in the break's ledger.

        Less detailed ledgers have fewer fields.
        """
        pairs = zip(self.fields, self.key, strict=True)
        return tuple(name for name, value in pairs if value != WHOLE)

    def key_at(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return the break's key for these fields, with `WHOLE` for each missing field."""
        values = dict(zip(self.fields, self.key, strict=True))
        return tuple(values.get(name, WHOLE) for name in fields)

    @property
    def is_open(self) -> bool:
        """Whether the break has not been accepted."""
        return self.status not in SETTLED

    @property
    def result_words(self) -> str:
        """The result's name in workbooks and messages. `result` is the stored code."""
        return Result(self.result).label

    @property
    def is_unread(self) -> bool:
        """Whether the ledger amount could not be read, so the difference is unknown."""
        return self.ledger is None and self.result == Result.REJECTED.value

    @property
    def difference_words(self) -> str:
        """The difference with thousands separators, or a note that the amount was not read."""
        return "amount not read" if self.is_unread else f"{Decimal(self.difference):,f}"

    @property
    def value_words(self) -> str:
        """The value with its currency, or the reason why there is none. Empty without prices."""
        if self.value is not None:
            return f"{exact(self.value):,f} {self.currency}"
        return self.price_state and f"no value ({self.price_state})"

    @property
    def ordered_names(self) -> dict[str, str]:
        """The names in the break's key, sorted by field, because JSON does not keep their order."""
        return {name: self.names[name] for name in FIELDS if name in self.names}

    @property
    def place(self) -> str:
        """The names in the break's key, on one line."""
        return " / ".join(" ".join(name.split()) for name in self.ordered_names.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a comparison. The database view `compared` contains all keys.

    `levels` contains each file's level. `uncovered` counts the book positions that no ledger
    covers. `ids` maps key numbers to break IDs. `renamed` maps the new IDs of breaks to their
    earlier IDs. `settled` maps the keys of previous breaks that a setting now ignores to their
    results. `not_compared` are earlier breaks that no ledger in this run covers, so they do not
    change. On a first run, `opening` contains the previous book's amounts by asset. `proposals` are
    notices that are shown first, because one line in recon.toml can settle many breaks.
    """

    day: date
    fields: Key
    levels: frozenset[Key]
    counts: Mapping[Result, int]
    uncovered: int
    breaks: tuple[Break, ...]
    ids: Mapping[int, str]
    renamed: Mapping[str, str]
    aliases: tuple[Alias, ...]
    notices: tuple[Notice, ...]
    digest: str
    settled: Mapping[Key, str] = field(default_factory=dict)
    not_compared: tuple[Break, ...] = ()
    opening: Mapping[str, str] | None = None
    proposals: tuple[Notice, ...] = ()
    forgiven: tuple[tuple[str, str, str, str], ...] = ()

    def closing_reason(self, break_: Break) -> str:
        """Return the reason why a break from the previous run no longer exists."""
        if break_.level not in self.levels:
            level = ", ".join(break_.level)
            return (
                f"no longer compared per {level}: it now matches, is on neither side, or is a "
                "break at a different level"
            )
        key = break_.key_at(self.fields)
        return self.settled.get(key, "it now matches, or is no longer on either side")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDecision:
    """A break's status, who set it and when, and the episode and difference that it applies to."""

    status: str = OPEN
    episode: int = 1
    accepted: str = ""
    on: str = ""
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The fields and status decisions of all breaks at one revision."""

    revision: int
    breaks: Mapping[str, Mapping[str, str]]
    decisions: Mapping[str, StatusDecision]

    def of(self, break_id: str, field: str) -> str:
        """Return the value of a field of a break. The default for the status is Open."""
        return self.breaks.get(break_id, {}).get(field, OPEN if field == "status" else "")

    def decision(self, break_id: str) -> StatusDecision:
        """Return the status decision on a break. If nobody has decided, the status is Open."""
        return self.decisions.get(break_id, StatusDecision())


class FilePart(Enum):
    """The parts of the inbox that a run may leave unused: a file, a tab, a column or a row."""

    FILE = "file"
    TAB = "tab"
    COLUMN = "column"
    ROW = "row"


@dataclass(frozen=True, slots=True)
class Unused:
    """An unused file, tab, column or set of rows, with the reason.

    Rows that are only counted have no name. Other rows have a name like `row 1`. The severity is
    high if the part may contain money and nobody has decided about it. In that case, the run's exit
    code is not 0.
    """

    file: str
    kind: FilePart
    name: str
    reason: str
    severity: str = "low"
    count: int = 1

    @property
    def location(self) -> str:
        """The file name, followed by the part of the file that is not used."""
        return self.file if self.kind is FilePart.FILE else f"{self.file}: {self.part}"

    @property
    def part(self) -> str:
        """The part of the file that is not used, like `column 'Price'` or `3 rows`."""
        if self.kind is FilePart.ROW:
            return self.name or count_of(self.count, "row")
        return f"{self.kind.value} {self.name}"

    @property
    def notice(self) -> Notice:
        """The notice that this part of the file is not used."""
        return Notice(self.severity, f"not used: {self.reason}", self.location)


class LedgerSource(msgspec.Struct, frozen=True, kw_only=True):
    """One file or sheet that was read, with its counts of used, skipped and rejected rows.

    `covers` maps fields to the names in recon.toml or the tab's name. The file is compared only
    with this part of the book. `profile` is the program that exported the file, if known.
    """

    name: str
    sheet: str
    sha256: str
    as_of: date | None
    rows: int
    used: int
    skipped: Mapping[str, int]
    rejected: int
    fingerprint: str
    fields: tuple[str, ...]
    covers: Mapping[str, tuple[str, ...]]
    profile: str

    @property
    def place_name(self) -> str:
        """The file name, and the tab if the file has tabs."""
        return f"{self.name}!{self.sheet}" if self.sheet else self.name

    def place(self, line: int) -> str:
        """Return the location of a row, like `ledger.xlsx!Sheet1:12`."""
        return f"{self.place_name}:{line}"

    @property
    def is_complete(self) -> bool:
        """Whether each row of the file was used, skipped or rejected."""
        return self.rows == self.used + sum(self.skipped.values()) + self.rejected


class ResolvedBreak(Break, frozen=True, kw_only=True):
    """A previous run's break that no longer exists, with its last status, owner and comment."""

    closed_on: date
    closed_because: str


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of a comparison: its level, its files, and the unused parts of the inbox."""

    level: str
    files: tuple[tuple[str, str, str], ...]
    unused: tuple[Unused, ...]
    in_all: str
    forgiven: tuple[tuple[str, str, str, str], ...]
    materiality: Materiality | None = None

    @property
    def message(self) -> str:
        """The comparison level and the unused parts of the inbox, on one line."""
        return f"Compared per {self.level}; not used: {self.in_all or 'nothing'}."


class ShownTexts(msgspec.Struct, frozen=True, kw_only=True):
    """Workbook content that is stored with a run: names, roll-forward and unlisted results.

    `left_out` are the results whose positions the workbook does not list.
    """

    names: Mapping[str, Mapping[str, str]] = {}
    rolled: tuple[tuple[str, ...], ...] = ()
    left_out: tuple[str, ...] = ()


class DaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that apply to a day. `words` maps their paths in recon.toml to values."""

    digest: str
    words: Mapping[str, str]
    run_id: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The stored result of one run, which `status`, `history` and `verify` read.

    `uncovered` counts the book positions that no ledger covers. `no` is the run's number within
    its day.
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
    ties: tuple[Tie, ...]
    not_compared: tuple[Break, ...]
    uncovered: int
    workbook: ShownTexts = ShownTexts()
    coverage: Coverage
    written: str = ""
    day_settings: DaySettings
    sources: tuple[LedgerSource, ...]
    notices: tuple[Notice, ...]
    evidence: Mapping[str, str]
    revision: int
    made_at: str
    by: str
    no: int = 0

    @property
    def position_count(self) -> int:
        """The number of compared positions."""
        return sum(self.counts.values())

    @property
    def open_breaks(self) -> int:
        """The number of breaks that nobody has accepted."""
        return sum(break_.is_open for break_ in self.breaks)

    @property
    def accepted_by_rule(self) -> str:
        """The number and the total value of the breaks accepted by rule, or an empty string."""
        values = [item.value for item in self.breaks if item.status == BY_RULE and item.value]
        if not values:
            return ""
        value = f"{exact(total(values)):,f} {self.breaks[0].currency}"
        return f"{count_of(len(values), 'break')} accepted by rule, {value} in all"

    @property
    def unsolved_breaks(self) -> list[Break]:
        """The open breaks, including earlier ones that tonight's ledgers do not cover."""
        return [break_ for break_ in (*self.breaks, *self.not_compared) if break_.is_open]

    @property
    def pending(self) -> int:
        """The number of earlier nights' open breaks that were not compared."""
        return sum(break_.is_open for break_ in self.not_compared)

    @property
    def extent(self) -> str:
        """The number of compared positions, and the total number if some were not compared."""
        return describe_extent(self.position_count, self.uncovered, self.pending)

    @property
    def is_whole(self) -> bool:
        """Whether every position of the book and every earlier open break was compared."""
        return bool(self.position_count) and not self.uncovered and not self.pending

    @property
    def settings_digest(self) -> str:
        """The SHA-256 of recon.toml."""
        return self.evidence[SETTINGS_DIGEST]

    @property
    def unread(self) -> list[str]:
        """Unused parts of the inbox that nobody has decided about, each with the reason."""
        return [
            f"{item.name}: {item.reason}"
            for item in self.coverage.unused
            if item.severity == "high"
        ]

    @property
    def is_lost(self) -> bool:
        """Whether any ledger data or any earlier open break was not compared."""
        undelivered = self.counts[Result.NOT_DELIVERED.value]
        lost = self.rejected or undelivered or self.unread or self.pending
        return bool(lost or not self.position_count)

    @property
    def exit_code(self) -> int:
        """The exit code: 3 if anything is open, rejected, undelivered or unread, otherwise 0.

        It is also 3 if no position was compared, or if an earlier open break was not compared.
        """
        return OPEN_BREAKS if self.open_breaks or self.is_lost else TIED

    @property
    def message(self) -> str:
        """A summary of the result, in one paragraph."""
        equal = self.counts[Result.MATCHED.value] + self.counts[Result.MATCHED_ZERO.value]
        settled = (
            (self.counts[Result.TOLERANCE.value], "within tolerance"),
            (self.counts[Result.PRECISION.value], "within the ledger's precision"),
        )
        parts = [f"{equal:,} equal", *(f"{count:,} {how}" for count, how in settled if count)]
        positions, matched = self.position_count, equal + sum(count for count, _ in settled)
        # Round down, so that only a book without any break has matched by 100 %.
        share = Decimal(1000 * matched // positions) / 10 if positions else Decimal(0)
        rate = f"{matched:,} of {positions:,} matched ({share} %); " if positions else ""
        rate += f"{self.accepted_by_rule}; " if self.accepted_by_rule else ""
        return (
            f"{self.day}: {self.extent} {format_level(self.coverage.level)}; {', '.join(parts)}, "
            f"{count_of(len(self.breaks), 'break')} ({self.open_breaks:,} open), "
            f"{count_of(self.rejected, 'row')} rejected; {rate}"
            f"not used: {self.coverage.in_all or 'nothing'}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The state before a run: the previous result, the comments, and access to earlier breaks.

    `may_open` returns whether a run for this day may reopen a break. A run for the latest day may
    reopen any break. For breaks that occurred before this day, `latest_occurrences` returns the
    last occurrence number and the day of the first occurrence, by break ID. `acceptors` returns
    the people who accepted a break, since anybody last set a different status.
    """

    day: date
    prior: Run | None
    comments: State
    may_open: Callable[[str], bool]
    latest_occurrences: Callable[[Collection[str]], Mapping[str, tuple[int, str]]]
    acceptors: Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class SignatureCells:
    """The two cells to the right of a role's label: the name and the comment."""

    role: str
    who: str
    comment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookEdits:
    """The edits in one of our workbooks, and the run and the revision that the workbook shows.

    `rows` maps break IDs to the yellow cells, by field. `written` is the name of the stored
    imprint. `wording` is the workbook's wording version.
    """

    path: Path
    sha256: str
    run_id: str
    base_revision: int
    who: str
    at: datetime
    rows: Mapping[str, Mapping[str, str]]
    written: str
    wording: int
    signatures: tuple[SignatureCells, ...] = ()

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name


class TrendNight(NamedTuple):
    """A night's open breaks by age band and by owner, including breaks that were not compared.

    Breaks without an owner are counted under an empty name.
    """

    day: date
    ages: tuple[int, ...]
    owners: Mapping[str, int]


class TrailLine(NamedTuple):
    """One line of the audit trail. `subject` is a break, a day or a month."""

    at: str
    user: str
    action: str
    subject: str
    details: str
    file: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """An exact amount: its digits, the number of decimal places in the original, and its unit.

    `is_number` is true if the amount was in a number cell of a spreadsheet, which stores 15 digits.
    """

    text: str
    decimals: int
    unit: str = ""
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A used ledger row: its amount, its location, and its names as written, in field order."""

    names: tuple[str, ...]
    amount: Amount
    file: int
    line: int


class LedgerRows:
    """The ledger rows that are used, ordered by file and line.

    They are stored by column, because a million row objects would need a gigabyte.
    """

    def __init__(self) -> None:
        self._tables: list[pa.Table] = [LINES.empty_table()]

    def add_all(self, columns: Mapping[str, pa.Array]) -> None:
        """Add many rows, given as the columns of `LINES`."""
        self._tables.append(pa.table(dict(columns), LINES))

    @property
    def table(self) -> pa.Table:
        """All rows, as a table with the columns of `LINES`."""
        if len(self._tables) > 1:
            self._tables = [_in_order(pa.concat_tables(self._tables))]
        return self._tables[0]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[LedgerRow]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> LedgerRow:
        row = (column[place].as_py() for column in self.table.itercolumns())
        *names, text, decimals, is_number, unit, file, line = row
        return LedgerRow(tuple(names), Amount(text, decimals, unit, is_number), file, line)


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A ledger row that could not be read, and the reason. `names` contains the readable names."""

    names: tuple[str, ...]
    raw: str
    reason: str
    file: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All ledger rows in a run. `fields` are the fields that occur in at least one ledger."""

    fields: tuple[str, ...]
    lines: LedgerRows
    rejected: Sequence[RejectedRow]
    sources: tuple[LedgerSource, ...]
    notices: tuple[Notice, ...]
    remembered: Remembered
    unused: tuple[Unused, ...] = ()

    @property
    def levels(self) -> list[tuple[str, ...]]:
        """The distinct levels of the files, most detailed first."""
        levels = {source.fields or self.fields for source in self.sources}
        return sorted(levels, key=lambda level: (-len(level), [FIELDS.index(f) for f in level]))

    def lacks(self, name: str) -> list[int]:
        """Return the indexes of the files that lack a field."""
        return [
            number
            for number, source in enumerate(self.sources)
            if name not in (source.fields or self.fields)
        ]

    def place(self, line: LedgerRow | RejectedRow) -> str:
        """Return the file name and the number of a row."""
        return self.sources[line.file].place(line.line)


Severe = TypeVar("Severe", Notice, Unused)


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that a person or the engine set in one field of a break.

    A status entry also contains the episode and the `accepted` difference that it applies to. If
    the status was copied from an earlier ID, `said_on` and `said_by` are the decision's day and
    author. An entry with `is_restored` is not part of the state. It only shows readers which value
    applies.
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
    """Entries that were stored in one step, from a workbook or by the engine.

    `read_for` is the day of the run that read the workbook. The engine's entries apply to
    `engine_day`, and withdraw the annotations that they replace.
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
    """A signature on a result, and the number of its open breaks.

    `entered_by` is the user who entered the signature, if that is a different person. `source` is
    the workbook that contained the signature, if any.
    """

    role: str
    who: str
    comment: str
    at: str
    day: date
    run_id: str
    digest: str
    open_breaks: int
    entered_by: str = ""
    source: str = ""
    sha256: str = ""
    no: int = 0

    @property
    def open_breaks_phrase(self) -> str:
        """The number of open breaks at signing, as part of a sentence."""
        number = self.open_breaks
        return f"with {count_of(number, 'open break')}" if number else "with no open break"

    @property
    def description(self) -> str:
        """A description of the signature, on one line."""
        signed = f"signed by {self.who} as {self.role} at {moment(self.at)} UTC"
        entered = f"entered by {self.entered_by}" if self.entered_by else ""
        about = " ".join(filter(None, (signed, self.open_breaks_phrase)))
        return ", ".join(filter(None, (about, entered)))


class Restatement(msgspec.Struct, frozen=True, kw_only=True):
    """A rerun of a closed day: the user, the reason, and the previous result."""

    day: date
    who: str
    why: str
    at: str
    run_before: str
    digest_before: str
    no: int = 0


class ClosedDay(msgspec.Struct, frozen=True, kw_only=True):
    """A day in a closed month, with the day's result."""

    day: date
    run_id: str
    digest: str
    settings: str


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a month's pack. `through` is the last closed day.

    `basis` is a digest of the content, so that an unchanged month is not closed twice. `pack`,
    `sha256` and `size` are the file's name, digest and size in bytes.
    """

    month: str
    version: int
    through: date
    days: tuple[ClosedDay, ...]
    who: str
    at: str
    why: str
    basis: str
    pack: str
    sha256: str
    size: int
    no: int = 0

    @property
    def description(self) -> str:
        """A description of the closing, on one line."""
        return (
            f"{self.month} was closed through {self.through} by {self.who} at {moment(self.at)} "
            f"UTC: {self.pack}, SHA-256 {self.sha256}"
        )


def alias_line(alias: Alias) -> str:
    """Return the recon.toml line that defines an alias for an unknown name."""
    is_one = alias.how in {"unknown", "suggested"} and alias.suggestion
    return setting(alias.written, alias.suggestion if is_one else "...")


def in_cell(text: str) -> str:
    """Return a string as a workbook cell shows it, truncated if it is too long for a cell."""
    if units(text) <= CELL_LIMIT:
        return text
    return f"{text[: _CUT // 2]} ... (truncated: the full text is in ops.annotations)"


def count_ages(breaks: Iterable[Break], day: date) -> tuple[int, ...]:
    """Count breaks by their age on a day, for each age band."""
    ages = [(day - break_.first_seen).days for break_ in breaks]
    return tuple(sum(low <= age <= high for age in ages) for _, low, high in AGE_BANDS)


def moment(at: str) -> str:
    """Convert an ISO 8601 timestamp to UTC, without fractions of a second."""
    return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def stacked_twice(ledger: Ledger) -> Iterator[str]:
    """Yield the locations of rows with the same key in different files."""
    if len(ledger.sources) < 2:  # noqa: PLR2004 - one file stacks nothing
        return
    table = ledger.lines.table
    counted = table.group_by(list(FIELDS)).aggregate([("file", "count_distinct")])
    several = counted.filter(pc.greater(counted["file_count_distinct"], 1)).select(FIELDS)
    numbered = table.append_column("row", pa.array(range(len(ledger.lines)), pa.int64()))
    rows = numbered.join(several, list(FIELDS), join_type="left semi")["row"].combine_chunks()
    seen: dict[tuple[str, ...], LedgerRow] = {}
    for row in rows.sort():
        line = ledger.lines[row.as_py()]
        first = seen.setdefault(line.names, line)
        if first.file != line.file:
            yield f"{ledger.place(first)} and {ledger.place(line)}"


def worst_first(items: Iterable[Severe]) -> list[Severe]:
    """Sort notices or unused parts by severity, worst first."""
    return sorted(items, key=lambda item: SEVERITIES.index(item.severity))


def totals(unused: Sequence[Unused]) -> str:
    """Return the number of unused parts by kind, like `1 file, 2 columns`."""
    numbers = {kind: sum(item.count for item in unused if item.kind is kind) for kind in FilePart}
    return ", ".join(count_of(number, kind.value) for kind, number in numbers.items() if number)


def describe_extent(compared: int, uncovered: int, pending: int = 0) -> str:
    """Return the number of compared positions, and the total if ledgers do not cover all positions.

    `pending` counts the open breaks from earlier nights that could not be compared.
    """
    words = f"{count_of(compared, 'position')} compared"
    if uncovered:
        words = f"{compared:,} of {count_of(compared + uncovered, 'position')} compared"
    if pending:
        words += f", {count_of(pending, 'open break')} from earlier nights could not be compared"
    return words


def describe_levels(ledger: Ledger) -> str:
    """Return the level of the comparison, or each file's level if the levels differ."""
    levels = {source.fields for source in ledger.sources}
    if len(levels) <= 1:
        return ", ".join(ledger.fields)
    return "; ".join(f"{item.place_name} at {', '.join(item.fields)}" for item in ledger.sources)


def format_level(level: str) -> str:
    """Format a level for use in a sentence: `per portfolio, asset and venue`."""
    if ";" in level:
        return f"({level})"
    *first, last = level.split(", ")
    return f"per {', '.join(first)} and {last}" if first else f"per {last}"


def lines_of(ledger: Ledger) -> list[tuple[str, str, str]]:
    """Return one line per tab that was read, with its name, level and row counts."""
    return [(item.place_name, ", ".join(item.fields), _rows(item)) for item in ledger.sources]


def unused_by_reason(unused: Iterable[Unused]) -> list[tuple[str, str, str]]:
    """Group unused parts by reason, and return each group's severity, location and reason."""
    groups: dict[tuple[str, str, FilePart, str], list[Unused]] = {}
    for item in worst_first(unused):
        groups.setdefault((item.severity, item.file, item.kind, item.reason), []).append(item)
    lines = []
    for (severity, file, kind, reason), same in groups.items():
        names = ", ".join(item.name for item in same)
        noun = kind.value if sum(item.count for item in same) == 1 else f"{kind.value}s"
        location = f"file {names}" if kind is FilePart.FILE else f"{file}: {noun} {names}"
        if kind is FilePart.ROW:
            location = f"{file}: {', '.join(item.part for item in same)}"
        lines.append((severity, location, reason))
    return lines


def to_json(record: msgspec.Struct) -> dict[str, Any]:
    """Convert a record to JSON values."""
    content: dict[str, Any] = msgspec.to_builtins(record)
    return content


def pending_breaks(run: Run | None) -> dict[str, Break]:
    """Return a run's breaks by ID, including breaks that it could not compare."""
    return {break_.id: break_ for break_ in (*run.breaks, *run.not_compared)} if run else {}


def breaks_by_id(run: Run | None) -> dict[str, Break]:
    """Return a run's breaks by ID."""
    return {break_.id: break_ for break_ in run.breaks} if run else {}


def _in_order(table: pa.Table) -> pa.Table:
    """Return the rows sorted by file and line. If they are already sorted, do not copy them."""
    places = pc.add(pc.shift_left(table["file"], 32), table["line"]).combine_chunks()
    if table.num_rows and pc.any(pc.less(places[1:], places[:-1])).as_py():
        table = table.take(pc.array_sort_indices(places))
    return table.combine_chunks()


def _rows(source: LedgerSource) -> str:
    skipped = sum(source.skipped.values())
    rows = f"{count_of(source.rows, 'row')}: {source.used} used, {skipped} skipped"
    return f"{rows}, {source.rejected} rejected"
