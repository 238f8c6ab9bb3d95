"""The rows of a sheet: names, labels above them, totals, and used, skipped or rejected rows."""

import dataclasses
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import chain, combinations_with_replacement, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.model import count_of
from warehouse.exact import EXACT, exact, plain
from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.amounts import (
    BLANK,
    add_up,
    split_footnote,
    without_footnote,
)
from warehouse.reconcile.ledger.columns import LedgerBody, is_total
from warehouse.reconcile.ledger.conventions import _MARKS, AmountReader, is_plain
from warehouse.reconcile.ledger.dates import is_date
from warehouse.reconcile.ledger.header import Header, Layer
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.titles import find_columns
from warehouse.reconcile.model import Amount, FilePart, LedgerRows, Notice, RejectedRow, Unused
from warehouse.reconcile.settings.layout import ANY, NAME, SPELLED, Decimals
from warehouse.reconcile.settings.toml import quote, quote_list, setting
from warehouse.reconcile.terms import FIELDS, REQUIRED_NAMES, Ambiguous, choices
from warehouse.spreadsheet.reading.delimited_text import Cells, Row
from warehouse.spreadsheet.reading.formats.open_document import NO_VALUE
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.printed_tables import is_page_number, without_digits
from warehouse.spreadsheet.reading.text import as_text, first_text, fold, text_at

_FIRST_ROW = itemgetter(0)


@dataclass(frozen=True, slots=True)
class MergedCells:
    """The merged cells below a header, by column: first row, last row and first column of each."""

    # In order of their first rows, for a ledger of 100,000 rows may have as many of them: to look
    # at each for every row took minutes.
    by_column: Mapping[int, Sequence[tuple[int, int, int]]]

    def top_of(self, row: int, column: int) -> tuple[int, int] | None:
        """Return the row and column with the content of a merged blank cell, or None."""
        cells = self.by_column.get(column, ())
        number = bisect_left(cells, row, key=_FIRST_ROW)
        if not number or cells[number - 1][1] < row:
            return None
        first, _, left = cells[number - 1]
        return first, left


def merged_cells(grid: Grid, head: Header) -> MergedCells:
    """Return the merged cells in the columns of a header."""
    by_column: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for (top, left), (bottom, right) in sorted(grid.merged):
        if top > head.row:
            for column in head.columns.values():
                if left <= column <= right:
                    by_column[column].append((top, bottom, left))
    return MergedCells(by_column)


_SEVERAL = 2

_LOOKED_AT = 2000  # rows that show a layout: all of a million cost a second (measured)

_DIGITS = re.compile("[0-9]")


@dataclass(frozen=True, slots=True)
class RowLabels:
    """The names that rows get from lines above them, and the rows that only name other rows."""

    names: Mapping[int, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    label_rows: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Label:
    """A line that names a group: the name, and its dimension if it is certain."""

    dimension: str
    name: str


def row_labels(grid: Grid, head: Header, known: KnownNames, where: str) -> RowLabels:
    """Return the names that rows take from above; raise `Ambiguous` where it must be said."""
    shape = head.shape
    if shape.groups is None:
        _ask_for_groups(grid, head, known, where)
    if shape.fill_down is None:
        _ask_to_fill_down(grid, head, where)
    if not shape.groups and not shape.fill_down:
        return RowLabels()
    filled = _filled_fields(head)
    last: dict[str, str] = {}
    group: dict[str, str] = {}
    names: dict[int, dict[str, str]] = {}
    label_rows = set()
    for row in range(head.body, len(grid.rows)):
        cells = grid.rows[row]
        label = label_of(cells, head, known) if shape.groups else None
        if label is not None and label.dimension == "asset" and "asset" not in (shape.groups or ()):
            label = None  # a row of the ledger whose amount is blank: it is rejected, not lost
        if label is not None:
            _enter_group(group, label, shape.groups or (), is_nested=row - 1 in label_rows)
            label_rows.add(row)
        elif first_text(cells) and not _is_total(cells, head):
            _fill(last, cells, filled)
            names[row] = {**group, **last}
    return RowLabels(names, frozenset(label_rows))


def _filled_fields(head: Header) -> list[tuple[int, str]]:
    """Return the columns that are filled down, from left to right, with their fields."""
    wanted = head.shape.fill_down or ()
    places = {place for title in wanted for place in find_columns(title, head.titles)}
    return sorted(
        (place, name)
        for name, place in head.columns.items()
        if name in FIELDS and (place in places or "*" in wanted)
    )


def _fill(last: dict[str, str], cells: Row, filled: Sequence[tuple[int, str]]) -> None:
    """Fill in the names of a row. A new name also resets all names to its right."""
    is_new = False
    for place, name in filled:
        if text := text_at(cells, place):
            last[name], is_new = text, True
        elif is_new:
            last.pop(name, None)


def _enter_group(
    group: dict[str, str], label: Label, dimensions: Sequence[str], *, is_nested: bool
) -> None:
    """Set the group of a label, and end the groups inside it."""
    # A label that does not say its dimension is one level deeper than the label right above it,
    # and otherwise of the deepest level.
    dimension = label.dimension
    if dimension not in dimensions:
        depth = sum(name in group for name in dimensions) if is_nested else len(dimensions) - 1
        dimension = dimensions[min(depth, len(dimensions) - 1)]
    for name in dimensions[dimensions.index(dimension) :]:
        group.pop(name, None)
    group[dimension] = label.name


def label_of(cells: Row, head: Header, known: KnownNames) -> Label | None:
    """Return the group that a line names, or None if it does not name a group."""
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    is_name = bool(texts) and any(letter.isalnum() for letter in texts[0])
    if not is_name or head.words.total_name(texts[0]) is not None:
        return None
    title, _, name = texts[0].partition(":")
    dimension = head.words.field_of(title) or head.words.second_field_of(title)
    if len(texts) == 1 and isinstance(next(cell for cell in cells if as_text(cell).strip()), str):
        is_said = bool(name.strip()) and dimension in FIELDS
        text = name.strip() if is_said else texts[0].rstrip(":").strip()
        return Label(dimension if is_said else known.dimension_of(text), text)
    if len(texts) == _SEVERAL and dimension in FIELDS and texts[0].endswith(":"):
        return Label(dimension, texts[1])
    # The compact form of a pivot table: the group stands where the asset does, with its total.
    text = text_at(cells, head.columns.get("asset"))
    dimension = known.dimension_of(text) if text == texts[0] else ""
    if dimension not in ("", "asset") and not known.has("asset", text):
        return Label(dimension, text)
    return None


def _is_total(cells: Row, head: Header) -> bool:
    return head.words.total_name(first_text(cells)) is not None


def _ask_for_groups(grid: Grid, head: Header, known: KnownNames, where: str) -> None:
    """Raise `Ambiguous` if lines name a dimension that no column states."""
    missing = [name for name in FIELDS if name not in head.fields and name != "bucket"]
    if not missing:
        return
    sure: dict[str, str] = {}
    unsure = []
    for row in range(head.body, min(len(grid.rows), head.body + _LOOKED_AT) - 1):
        label = label_of(grid.rows[row], head, known)
        if label is None:
            continue
        if label.dimension in missing:
            sure.setdefault(label.dimension, label.name)
        elif not label.dimension and _has_amount(grid.rows[row + 1], head):
            unsure.append(label.name)
    # Lines that differ in their digits alone are pages of a report, and no names.
    if not sure and len({_DIGITS.sub("", name) for name in unsure}) < _SEVERAL:
        return
    examples = ", ".join(map(repr, [*sure.values(), *unsure][:3]))
    if not sure:
        lines = [f"groups = [{quote(name)}]" for name in missing]
        raise Ambiguous(
            f"{where}: lines like {examples} have no amount of their own. They may name the "
            f"{' or the '.join(missing)} of the lines below them, which no column says, but the "
            "book does not know these names.",
            choices(head.table, *lines, "groups = []   # these lines are only notes"),
        )
    raise Ambiguous(
        f"{where}: lines like {examples} have no amount of their own and seem to name the "
        f"{' and the '.join(sure)} of the lines below them, which no column says.",
        f"{head.table}\ngroups = {quote_list(sure)}"
        "   # from the outer to the inner one; [] where these lines are only notes",
    )


def _has_amount(cells: Row, head: Header) -> bool:
    return any(letter.isdigit() for letter in text_at(cells, head.columns["amount"]))


def _ask_to_fill_down(grid: Grid, head: Header, where: str) -> None:
    """Raise `Ambiguous` if a column seems to name only the first row of each group."""
    titles = [
        head.title_of(head.columns[name])
        for name in REQUIRED_NAMES
        if name in head.columns and _is_left_out(grid, head, head.columns[name])
    ]
    if titles:
        raise Ambiguous(
            f"{where}: the column {' and '.join(map(repr, titles))} is blank in rows that have an "
            "amount, and no name in it is repeated: it seems to name only the first row of each "
            "group.",
            f"{head.table}\nfill_down = {quote_list(titles)}"
            "   # or [], where rows with a blank are to be rejected",
        )


def _is_left_out(grid: Grid, head: Header, place: int) -> bool:
    """Return whether a column has blanks beside amounts, and never twice the same name in a row."""
    merged = merged_cells(grid, head)
    amount = head.columns["amount"]
    blanks, last = 0, ""
    for row in range(head.body, min(len(grid.rows), head.body + _LOOKED_AT)):
        cells = grid.rows[row]
        if not text_at(cells, amount) or merged.top_of(row, place) or _is_total(cells, head):
            continue
        name = text_at(cells, place)
        if not (name or last) or (name and name == last):
            return False
        blanks += not name
        last = name or last
    return blanks >= _SEVERAL


_NEAR = Decimal("1e-13")  # of a total that a number cell of 15 digits holds

_MOST_ROWS = 200_000  # above, adding up in Python costs more than reading the file


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLine:
    """A total line: its amount, and the folded name of its group, if it has one."""

    line: int
    text: str
    group: str
    amount: Amount


@dataclass(slots=True)
class _GroupSum:
    """The sum of some rows, with their number and their assets."""

    amount: Decimal = Decimal(0)
    rows: int = 0
    assets: set[str] = dataclasses.field(default_factory=set)

    def add(self, amount: Decimal, asset: str) -> None:
        """Add one row."""
        self.amount = EXACT.add(self.amount, amount)
        self.rows += 1
        self.assets.add(asset)

    def agrees(self, total: Amount) -> bool:
        """Return whether it is a total as it is written; a number cell has 15 digits of it."""
        stated = exact(total.text)
        if not total.is_number:
            return stated == self.amount
        return abs(stated - self.amount) <= _NEAR * max(abs(stated), abs(self.amount))


def check_totals(totals: Sequence[SumLine], rows: pa.Table, place: str) -> Iterator[Notice]:
    """Yield how many totals agree with their rows, and each that surely does not.

    A total is of the rows since the total before it, of all rows of the group that it names, or of
    all rows above it. One that adds up different assets says nothing where it does not agree: it
    may be a value.
    """
    if rows.num_rows > _MOST_ROWS:
        yield Notice("low", f"{count_of(len(totals), 'total line')} not added up again", place)
        return
    agreeing = 0
    for total, sums in _sums(sorted(totals, key=lambda item: item.line), rows):
        if any(candidate.agrees(total.amount) for candidate in sums):
            agreeing += 1
        elif sums and len(sums[0].assets) == 1:
            yield Notice(
                "high",
                f"{total.text!r} says {total.amount.text}, and its "
                f"{count_of(sums[0].rows, 'row')} add up to {plain(sums[0].amount)}: a row is "
                "missing, twice or wrong",
                f"{place}:{total.line}",
            )
    if agreeing:
        lines = f"{count_of(agreeing, 'total line')} {'agrees' if agreeing == 1 else 'agree'}"
        yield Notice("low", f"{lines} with the rows", place)


def _sums(totals: Iterable[SumLine], rows: pa.Table) -> Iterator[tuple[SumLine, list[_GroupSum]]]:
    """Yield each total with the sums that it may be of, the likeliest first."""
    # One pass: running sums of all rows, of those since the last total, and of each name.
    above, since = _GroupSum(), _GroupSum()
    named: dict[str, _GroupSum] = {}
    lines = rows["line"].to_pylist()
    columns = [rows[name].to_pylist() for name in FIELDS]
    amounts = rows["amount"].to_pylist()
    asset = FIELDS.index("asset")
    row = 0
    for total in totals:
        while row < len(lines) and lines[row] < total.line:
            amount, names = exact(amounts[row]), [column[row] for column in columns]
            for group in (
                above,
                since,
                *(named.setdefault(fold(name), _GroupSum()) for name in set(names) if name),
            ):
                group.add(amount, names[asset])
            row += 1
        of_group = named.get(total.group) if total.group else None
        yield total, [group for group in (of_group, since, above) if group and group.rows]
        since = _GroupSum()


_MOST = 0.5  # of the different names that the book does not know

_MOST_PARTS = 8  # words of a text in which names are looked for

_PART = re.compile(r"[^\W_]+")

_AROUND = re.compile(r"[^\W_](?:.*[^\W_])?")

# Text beside a name that makes it the name of something else, like a future or a loan.
_OTHER_THING = re.compile(
    r"perp|swap|fut|option|call|put\b|warrant|short|long|loan|borrow|debt|margin|staked|locked|wrapped"
    r"|lp\b|[0-9]{4}",
    re.IGNORECASE,
)

Rename = Callable[[str], str]


def renames_of(head: Header, known: KnownNames) -> dict[str, Rename]:
    """Return by field the functions that remove the text around the names of a sheet."""
    patterns = {field: _regex(text) for field, text in head.shape.spellings.items()}
    marks = head.shape.footnotes

    def rename(field: str, text: str) -> str:
        if known.has(field, text):
            return text
        bare = without_footnote(text, marks)
        text = bare if known.has(field, bare) else text
        match = patterns[field].fullmatch(text.strip()) if field in patterns else None
        return match["name"] if match else text

    fields = SPELLED if marks else [field for field in SPELLED if field in patterns]
    return {field: partial(rename, field) for field in fields}


def rename_all(names: pa.Array, rename: Rename) -> pa.Array:
    """Return a column of names, each renamed; each different name is looked at once."""
    coded = names.dictionary_encode()
    renamed = pa.array([rename(text) for text in coded.dictionary.to_pylist()], pa.string())
    return renamed.take(coded.indices)


def ask_for_spellings(body: LedgerBody, where: str) -> None:
    """Raise `Ambiguous` if most names of a column are names of the book with text around them."""
    head, known = body.head, body.known
    renames = renames_of(head, known)
    for field in SPELLED:
        place = head.columns.get(field)
        if place is None or not known.folded.get(field):
            continue
        written = [text for text in body.counts(place)[0] if text]
        unknown = [text for text in written if not known.has(field, text)]
        unknown = [text for text in unknown if field not in renames or renames[field](text) == text]
        examples = " and ".join(repr(text[:40]) for text in unknown[:2])
        marks = [mark for text in unknown if (mark := _mark(text, field, known))]
        if marks:
            listed = quote_list(dict.fromkeys([*head.shape.footnotes, *marks]))
            raise Ambiguous(
                f"{where}: {examples} have a mark behind a name of the book, which seems to refer "
                "to a footnote.",
                f"{head.table}\nfootnotes = {listed}",
            )
        pattern = _spelling(unknown, field, known)
        if pattern and field not in head.shape.spellings and len(unknown) > _MOST * len(written):
            raise Ambiguous(
                f"{where}: {examples} are names of the book's {field}s with other text around "
                f"them. With this setting, {NAME} is the name, and the text around it is not read.",
                f"{head.table}\n{setting(f'{field}_spelling', pattern)}",
            )


def _mark(text: str, field: str, known: KnownNames) -> str:
    name, mark = split_footnote(text)
    return mark if known.has(field, name) else ""


def _spelling(unknown: Sequence[str], field: str, known: KnownNames) -> str:
    """Return the pattern of most of these texts, or an empty string."""
    patterns = [list(_patterns(text.strip(), field, known)) for text in unknown]
    for number in (0, 1):  # one text around all names, then any text
        # A text counts once for each pattern, and the order must not depend on hashes.
        unique = (dict.fromkeys(pair[number] for pair in found) for found in patterns)
        counted = Counter(chain.from_iterable(unique))
        pattern, count = max(counted.items(), key=itemgetter(1), default=("", 0))
        # One name alone may have a text beside it by chance, if no space is between them.
        is_sure = count > 1 or (count == 1 and " " in pattern and pattern.count(ANY) == 0)
        if is_sure and count > _MOST * len(unknown):
            return pattern
    return ""


def _patterns(text: str, field: str, known: KnownNames) -> Iterator[tuple[str, str]]:
    """Yield the spellings of a text around each name in it: with its other text, and with any."""
    parts = list(_PART.finditer(text))[:_MOST_PARTS]
    for first, last in combinations_with_replacement(parts, 2):
        before, after = text[: first.start()], text[last.end() :]
        name = text[first.start() : last.end()]
        is_thing = any(mark in before + after for mark in f"{NAME}{ANY}")
        if known.has(field, name) and not is_thing and not _OTHER_THING.search(before + after):
            general = f"{_AROUND.sub(ANY, before)}{NAME}{_AROUND.sub(ANY, after)}"
            yield f"{before}{NAME}{after}", general


def _regex(pattern: str) -> re.Pattern[str]:
    parts = map(re.escape, pattern.replace(ANY, "\0").replace(NAME, "\1"))
    wildcards: Mapping[str, str] = {"\0": ".+?", "\1": "(?P<name>.+?)"}
    return re.compile("".join(wildcards.get(part, part) for part in parts))


def plain_rows(
    cells: Cells, head: Header, layer: Layer, decimals: Decimals, is_read: Sequence[bool] | None
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Return the plain rows below the header: their numbers, and columns except `file` and `line`.

    A row is plain if it has one cell for each title, its amount is written in plain digits, and no
    required name is blank or a word for a total. `is_read` says for each row whether its date is
    read. None means that all rows are read.
    """
    rows, columns = cells.whole(head.body, len(head.titles))
    amount = columns[layer.terms[0].place]
    # A header that is repeated on each page is not a row. Its amount is the title.
    is_title = pc.equal(amount, head.titles[layer.terms[0].place])
    is_used = pc.and_not(is_plain(amount, decimals), is_title)
    if is_read is not None:
        is_used = pc.and_(is_used, pa.array(is_read, pa.bool_()).take(rows))
    for field in REQUIRED_NAMES:
        if field in head.columns:
            # Check each different name once, because a column has few names and a million cells.
            column = columns[head.columns[field]]
            others = [
                text
                for text in pc.unique(column).to_pylist()
                if not text.strip() or head.words.total_name(text) is not None
            ]
            is_used = pc.and_not(is_used, pc.is_in(column, pa.array(others, pa.string())))
    rows = rows.filter(is_used)
    stated = {**head.names, **layer.names}
    names = {
        field: columns[head.columns[field]].filter(is_used)
        if field in head.columns
        else pa.repeat(stated.get(field, ""), len(rows))
        for field in FIELDS
    }
    texts, written = plain_amounts(amount.filter(is_used), decimals)
    is_number = pa.repeat(pa.scalar(value=False), len(rows))
    unit = pa.repeat("", len(rows))
    return rows, names | {
        "amount": texts,
        "decimals": written,
        "is_number": is_number,
        "unit": unit,
    }


def plain_amounts(cells: pa.Array, decimals: Decimals) -> tuple[pa.Array, pa.Array]:
    """Return plain amounts in canonical form, and the decimals that each was written with."""
    mark = _MARKS[decimals]
    texts = cells if mark == "." else pc.replace_substring(cells, mark, ".")
    point = pc.find_substring(texts, ".")
    has_part = pc.greater_equal(point, 0)
    part = pc.subtract(pc.binary_length(texts), pc.add(point, 1))
    plain = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    # To choose between two texts is to copy them all, so it is done where there is a choice.
    if not pc.all(has_part).as_py():
        plain = pc.if_else(has_part, plain, texts)
    is_less_zero = pc.equal(plain, "-0")
    if pc.any(is_less_zero).as_py():
        plain = pc.if_else(is_less_zero, "0", plain)
    return plain, pc.if_else(has_part, part, 0).cast(pa.int32())


_OTHER_DATE = "another date"

# The errors that programs show for a name like =Hedge, =-Hedge or =@Hedge.
_UNKNOWN_NAME = ("#NAME?", "#VALUE!", "Err:508", "Err:509", "Err:510")

_ASSET = FIELDS.index("asset")


@dataclass(slots=True, kw_only=True)
class SheetReading:
    """One sheet while it is read, and what came of its rows; `days` are the dates of its rows.

    `labels` are the names that rows take from above, `totals` the lines that add up others;
    `seen_names` are all names in its cells, folded, once such a line asks for them. `headings` are
    the rows above its header, which are repeated on every page. `renames` take by field the names
    out of the text around them.
    """

    number: int
    grid: Grid
    head: Header
    fields: tuple[str, ...]
    amounts: AmountReader
    labels: RowLabels
    merged: MergedCells
    days: Sequence[date | None]
    undated: frozenset[int]
    day: date | None
    context: ReadingContext
    place: str
    lines: LedgerRows
    used: int = 0
    rejected: list[RejectedRow] = dataclasses.field(default_factory=list)
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)
    totals: list[SumLine] = dataclasses.field(default_factory=list)
    seen_names: set[str] = dataclasses.field(default_factory=set)
    headings: frozenset[str] = frozenset()
    renames: Mapping[str, Rename] = dataclasses.field(default_factory=dict)
    notices: list[Notice] = dataclasses.field(default_factory=list)
    unused: list[Unused] = dataclasses.field(default_factory=list)


def read_rows(reading: SheetReading) -> None:
    """Read every row of a sheet, with one amount for each layer."""
    for layer in reading.head.layers:
        for row in _read_plain_rows(reading, layer):
            _read_row(reading, row, layer)
    if reading.totals:
        rows = reading.lines.table
        own = rows.filter(pc.equal(rows["file"], reading.number))
        reading.notices += check_totals(reading.totals, own, reading.place)
    reading.unused += [
        Unused(reading.place, FilePart.ROW, "", reason, "low", number)
        for reason, number in sorted(reading.skipped.items())
        if reason != _OTHER_DATE
    ]


def _read_plain_rows(reading: SheetReading, layer: Layer) -> Iterable[int]:
    """Read the rows that can be read as columns. Return the other rows, to be read one by one."""
    head, grid = reading.head, reading.grid
    numbers = range(head.body, len(grid.rows))
    is_plain_sheet = head.is_plain and reading.amounts.unit == 1 and not reading.labels.names
    if not isinstance(grid.rows, Cells) or not is_plain_sheet:
        return numbers
    is_read = None
    if reading.day is not None or reading.undated:
        is_read = [
            day in (None, reading.day) and row not in reading.undated
            for row, day in enumerate(reading.days)
        ]
    decimals = reading.amounts.rules.decimals or Decimals.POINT
    rows, columns = plain_rows(grid.rows, head, layer, decimals, is_read)
    for name, rename in reading.renames.items():
        columns[name] = rename_all(columns[name], rename)
    columns["file"] = pa.repeat(reading.number, len(rows))
    columns["line"] = pc.add(rows, grid.line(0))
    reading.lines.add_all(columns)
    reading.used += len(rows)
    is_left = np.ones(len(numbers), bool)
    is_left[rows.to_numpy() - numbers.start] = False
    others: list[int] = (np.flatnonzero(is_left) + numbers.start).tolist()
    return others


def _read_row(reading: SheetReading, row: int, layer: Layer) -> None:
    cells = reading.grid.rows[row]
    names, skipped = _names(reading, row, cells, layer)
    if skipped:
        reading.skipped[skipped] += 1
        if skipped == "total line":
            _keep_total(reading, row, cells, layer)
        return
    amount, raw = _amount(reading, row, names, layer), _raw(reading, row, layer)
    line = reading.grid.line(row)
    if isinstance(amount, str):
        if amount == BLANK and _may_be_blank(reading):
            reading.skipped["blank amount"] += 1
            return
        if amount == BLANK and not reading.grid.is_blank_sure:
            amount += ", or an error that this format does not show: save the ledger as xlsx"
        reading.rejected.append(RejectedRow(names, raw, amount, reading.number, line))
        return
    asset = names[_ASSET]
    if amount.unit and fold(amount.unit) != fold(asset):
        factor = reading.head.words.factor_of(amount.unit)
        words_ = f"the amount is written in {amount.unit} in a row of {asset}; it was "
        words_ += f"multiplied by {factor}" if factor not in ("", "1") else "used"
        reading.notices.append(Notice("medium", words_, f"{reading.place}:{line}", raw))
        amount = add_up([amount], Decimal(factor)) if factor else amount
    reading.lines.add(names, amount, reading.number, line)
    reading.used += 1


def _may_be_blank(reading: SheetReading) -> bool:
    """Return whether a blank amount is left out: where it is settled, or of one among several."""
    # Of a column for each venue most cells of a row are blank: nothing is held there.
    may_be = reading.context.config.blank == "skip" or len(reading.head.layers) > 1
    return may_be and reading.grid.is_blank_sure


def _keep_total(reading: SheetReading, row: int, cells: Row, layer: Layer) -> None:
    """Keep a total line if its amount can be read."""
    texts = (as_text(cell).strip() for cell in cells)
    text = next((t for t in texts if reading.head.words.total_name(t) is not None), "")
    amount = reading.amounts.read(cells, layer)
    if isinstance(amount, Amount) and len(reading.head.layers) == 1:
        group = fold(reading.head.words.total_name(text) or "")
        line = reading.grid.line(row)
        reading.totals.append(SumLine(line=line, text=text, group=group, amount=amount))


def _names(
    reading: SheetReading, row: int, cells: Row, layer: Layer
) -> tuple[tuple[str, ...], str]:
    """Return the names of a row by field, and why it is skipped, if it is."""
    reason = _reason_of_cells(reading, row, cells)
    if reason:
        return (), reason
    head = reading.head
    stated = {**head.names, **layer.names, **reading.labels.names.get(row, {})}
    names = tuple(stated.get(name) or _name_of(reading, row, cells, name) for name in FIELDS)
    if _is_total_row(reading, cells):
        return names, "total line"
    if _is_of_page(reading, cells, layer, names[_ASSET]):
        return names, "page header"
    has_amount = any(
        (len(cells) > place and cells[place] != "") or (row, place) in reading.grid.errors
        for place in head.amount_columns
    )
    is_named = "asset" in head.columns and bool(names[_ASSET]) and not is_date(names[_ASSET])
    if not has_amount and not is_named:
        return names, "title or note"
    if reading.day is not None and reading.days[row] not in (None, reading.day):
        return names, _OTHER_DATE
    return names, _row_word(head, cells, head.shape.skip_rows, is_listed=True)


def _row_word(
    head: Header, cells: Row, words: Mapping[str, Sequence[str]], *, is_listed: bool
) -> str:
    """Return the first word of a row that recon.toml lists, or does not list, by its column."""
    for title, column in head.rows.items():
        word = text_at(cells, column)
        if (fold(word) in map(fold, words.get(title, ()))) == is_listed:
            return f"{title!r} says {(word if is_listed else word[:40])!r}"
    return ""


def _reason_of_cells(reading: SheetReading, row: int, cells: Row) -> str:
    """Return the reason to skip a row regardless of its names, or an empty string."""
    head = reading.head
    if all(cell in ("", None) for cell in cells):
        return "blank line"
    if row in reading.labels.label_rows:
        return "name of a group"
    place = head.columns["amount"]
    is_title = len(cells) > place and cells[place] == head.titles[place]
    return "header repeated" if is_title and _is_header(head, cells) else ""


def _is_header(head: Header, cells: Row) -> bool:
    return [fold(as_text(cell)) for cell in cells] == [fold(title) for title in head.titles]


def heading_of(cells: Row) -> str:
    """Return the texts of a row without numbers, so that the headings of all pages are equal."""
    return without_digits(" ".join(filter(None, map(str.strip, map(as_text, cells)))))


def _is_of_page(reading: SheetReading, cells: Row, layer: Layer, asset: str) -> bool:
    """Return whether a row is the heading of a page, which a report repeats among its rows."""
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    pairs = (f"{first} {second}" for first, second in pairwise(texts))
    has_number = any(map(is_page_number, (*texts, *pairs)))
    is_repeated = heading_of(cells) in reading.headings
    if not has_number and not is_repeated:
        return False
    # `Page 2` in two cells may put the 2 below the amounts, but then nothing names an asset.
    is_amount = isinstance(reading.amounts.read(cells, layer), Amount)
    return not is_amount or (has_number and (is_repeated or not asset))


def _is_total_row(reading: SheetReading, cells: Row) -> bool:
    """Return whether a row is a total line."""
    asset = text_at(cells, reading.head.columns.get("asset"))
    known, is_name = reading.context.known, partial(_is_seen, reading)
    return is_total(reading.head, known, first_text(cells), asset, is_name)


def _is_seen(reading: SheetReading, name: str) -> bool:
    """Return whether a name stands in a column of names, as rows above a total have it."""
    if not reading.seen_names:
        places = [place for field, place in reading.head.columns.items() if field in FIELDS]
        rows = reading.grid.rows[reading.head.body :]
        reading.seen_names |= {fold(text_at(row, place)) for row in rows for place in places}
    return fold(name) in reading.seen_names


def _name_of(reading: SheetReading, row: int, cells: Row, name: str) -> str:
    """Return the name of a field in a row, without the text around it.

    The name in merged cells is in the first of them.
    """
    column = reading.head.columns.get(name)
    if column is None:
        return ""
    text = as_text(cells[column]) if len(cells) > column else ""
    if not text and (top := reading.merged.top_of(row, column)):
        text = as_text(reading.grid.rows[top[0]][top[1]])
    rename = reading.renames.get(name)
    return rename(text) if rename is not None and text else text


def _amount(reading: SheetReading, row: int, names: tuple[str, ...], layer: Layer) -> Amount | str:
    """Return the amount of a row, or the reason why it cannot be used."""
    grid, places, cells = reading.grid, reading.head.columns, reading.grid.rows[row]
    fields = [(name, at) for name, at in places.items() if name != "amount"]
    for name, where in (*fields, *(("amount", term.place) for term in layer.terms)):
        if (row, where) in grid.errors:
            return _reason_of_error(name, grid.errors[row, where])
    if any(as_text(extra) for extra in cells[len(reading.head.titles) :]):
        return "the row has more cells than the header"
    for name in REQUIRED_NAMES:
        if name in reading.head.fields and not names[FIELDS.index(name)].strip():
            return f"the {name} is blank"
    if word := _row_word(reading.head, cells, reading.head.shape.keep_rows, is_listed=False):
        return f"recon.toml does not say whether a row counts if {word}"
    if row in reading.undated:
        return f"the date {text_at(cells, places['as_of'])[:40]!r} is not understood"
    return reading.amounts.read(cells, layer, names[_ASSET])


def _reason_of_error(name: str, error: str) -> str:
    """Return why a cell without a value cannot be used, and what to do about it."""
    if name in FIELDS and error.startswith((NO_VALUE, *_UNKNOWN_NAME)):
        shown = "" if error == NO_VALUE else f" ({error})"
        return (
            f"the {name} is a formula without a result{shown[:40]}. If it is a name that begins "
            "with =, +, - or @, type an apostrophe before it ('=Name). If it is a formula, let its "
            "program calculate it"
        )
    return f"the {name} is an error cell: {error}"[:200]


def _raw(reading: SheetReading, row: int, layer: Layer) -> str:
    """Return the content of the cells of an amount."""
    cells = reading.grid.rows[row]
    texts = (
        reading.grid.errors.get((row, term.place), as_text(cells[term.place]))
        for term in layer.terms
        if len(cells) > term.place
    )
    return " | ".join(texts)
