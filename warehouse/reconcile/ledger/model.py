"""What a ledger is once it is read: every row used, skipped or rejected, and where it stands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.wording import count_of
from warehouse.reconcile.ledger.cells.amounts import Amount
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.notices import Notice

Remembered = dict[str, dict[str, str]]
WHOLE = "(all)"  # in a key of a file that has no such field, beside files that have it
LINES = pa.schema(
    [pa.field(name, pa.string()) for name in FIELDS]
    + [pa.field("amount", pa.string()), pa.field("decimals", pa.int32())]
    + [pa.field("is_number", pa.bool_()), pa.field("unit", pa.string())]
    + [pa.field("file", pa.int64()), pa.field("line", pa.int64())]
)
_TOGETHER = 100_000


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One used row: its names as written by field, its amount, and where it stands."""

    names: tuple[str, ...]
    amount: Amount
    file: int
    line: int


class LedgerRows:
    """Used rows in the order of their files, however they were added.

    They are held column by column: a million of them as objects would take a gigabyte.
    """

    def __init__(self) -> None:
        self._loose: list[tuple[object, ...]] = []
        self._tables: list[pa.Table] = []
        self._whole: pa.Table | None = None

    def add(self, names: tuple[str, ...], amount: Amount, file: int, line: int) -> None:
        """Take in one row."""
        about = (amount.text, amount.decimals, amount.is_number, amount.unit, file, line)
        self._loose.append((*names, *about))
        if len(self._loose) == _TOGETHER:
            self._gather()

    def add_all(self, columns: Mapping[str, pa.Array]) -> None:
        """Take in many rows by the columns of `LINES`."""
        self._tables.append(pa.table(dict(columns), LINES))
        self._whole = None

    def _gather(self) -> None:
        if self._loose:
            columns = zip(*self._loose, strict=True)
            self.add_all(dict(zip(LINES.names, map(list, columns), strict=True)))
            self._loose.clear()

    @property
    def table(self) -> pa.Table:
        """All of them by the columns of `LINES`."""
        self._gather()
        if self._whole is None:
            self._whole = _in_order(pa.concat_tables(self._tables or [LINES.empty_table()]))
            self._tables = [self._whole]
        return self._whole

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[LedgerRow]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> LedgerRow:
        row = [column[place].as_py() for column in self.table.itercolumns()]
        wide = len(FIELDS)
        text, decimals, is_number, unit, file, line = row[wide:]
        return LedgerRow(tuple(row[:wide]), Amount(text, decimals, unit, is_number), file, line)


def _in_order(table: pa.Table) -> pa.Table:
    """Sort rows as they stand in the files; nothing is moved where they do already."""
    places = pc.add(pc.shift_left(table["file"], 32), table["line"]).combine_chunks()
    if table.num_rows and pc.any(pc.less(places[1:], places[:-1])).as_py():
        table = table.take(pc.array_sort_indices(places))
    return table.combine_chunks()


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """One row that could not be read: where, what stood there, why; `names` as far as they go."""

    names: tuple[str, ...]
    raw: str
    reason: str
    file: int
    line: int


class FilePart(Enum):
    """What a thing is that was not used."""

    FILE = "file"
    TAB = "tab"
    COLUMN = "column"
    ROW = "row"


@dataclass(frozen=True, slots=True)
class Unused:
    """A file, tab, column or some rows that were not used, with the reason.

    Rows that are only counted have no name, others one like `row 1`.
    `high` is what may hold money and what nobody decided about: a run with one of them does not
    end with 0.
    """

    file: str
    kind: FilePart
    name: str
    reason: str
    severity: str = "low"
    count: int = 1

    @property
    def where(self) -> str:
        """Return the file, and what in it."""
        return self.file if self.kind is FilePart.FILE else f"{self.file}: {self.part}"

    @property
    def part(self) -> str:
        """Return what of its file it is, like `column 'Price'` or `3 rows`."""
        if self.kind is FilePart.ROW:
            return self.name or count_of(self.count, "row")
        return f"{self.kind.value} {self.name}"

    @property
    def notice(self) -> Notice:
        """Return what is said of it."""
        return Notice(self.severity, f"not used: {self.reason}", self.where)


class LedgerSource(msgspec.Struct, frozen=True, kw_only=True, rename={"fingerprint": "print"}):
    """One file or sheet that was read, and its count: `rows` = used + skipped + rejected.

    `covers` is what it is of, by field as recon.toml or its tab says it; it is held against that
    part of the book alone. `profile` is the program whose export it is, where that is known.
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
    fields: tuple[str, ...] = ()
    covers: Mapping[str, tuple[str, ...]] = {}
    profile: str = ""

    @property
    def place_name(self) -> str:
        """Return the file, and the tab where it has some."""
        return f"{self.name}!{self.sheet}" if self.sheet else self.name

    def place(self, line: int) -> str:
        """Return where a row stands, like `ledger.xlsx!Sheet1:12`."""
        return f"{self.place_name}:{line}"

    @property
    def is_complete(self) -> bool:
        """Whether every row is accounted for."""
        return self.rows == self.used + sum(self.skipped.values()) + self.rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All ledgers of one run, stacked: `fields` are those that one of them has at least.

    `unused` is what stands in their files and was not used.
    """

    fields: tuple[str, ...]
    lines: LedgerRows
    rejected: Sequence[RejectedRow]
    sources: tuple[LedgerSource, ...]
    notices: tuple[Notice, ...]
    remembered: Remembered
    unused: tuple[Unused, ...] = ()

    @property
    def levels(self) -> list[tuple[str, ...]]:
        """Return the levels of the files, the finest first."""
        levels = {source.fields or self.fields for source in self.sources}
        return sorted(levels, key=lambda level: (-len(level), [FIELDS.index(f) for f in level]))

    def lacks(self, name: str) -> list[int]:
        """Return the numbers of the sources that have no such field, of those that others have."""
        return [
            number
            for number, source in enumerate(self.sources)
            if name not in (source.fields or self.fields)
        ]

    def place(self, line: LedgerRow | RejectedRow) -> str:
        """Return where a row stands."""
        return self.sources[line.file].place(line.line)


def stacked_twice(ledger: Ledger) -> Iterator[str]:
    """Yield keys that two files hold, by the places of their first rows."""
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
