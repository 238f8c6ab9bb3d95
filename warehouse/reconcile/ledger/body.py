"""Functions that read a sheet's rows, and decide which rows to use, skip or reject."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache, partial, reduce
from itertools import chain, combinations_with_replacement, pairwise, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.model import count_of
from warehouse.exact import EXACT, exact, plain
from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.amounts import (
    BLANK,
    add_up,
    is_plain,
    plain_amounts,
    split_footnote,
    without_footnote,
)
from warehouse.reconcile.ledger.columns import LedgerBody, is_total
from warehouse.reconcile.ledger.conventions import AmountReader
from warehouse.reconcile.ledger.dates import is_date
from warehouse.reconcile.ledger.header import Header, Layer
from warehouse.reconcile.ledger.titles import find_columns
from warehouse.reconcile.model import Amount, FilePart, LedgerRows, Notice, RejectedRow, Unused
from warehouse.reconcile.settings.layout import ANY, NAME, SPELLED, Decimals
from warehouse.reconcile.settings.toml import quote, quote_list, setting
from warehouse.reconcile.terms import FIELDS, REQUIRED_NAMES, Ambiguous, choices
from warehouse.spreadsheet.reading.delimited_text import Cells, Row
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import as_text, first_text, fold, text_at
from warehouse.spreadsheet.reading.xml_workbooks import NO_VALUE

Texts = npt.NDArray[np.object_]  # an array of strings, one for each row
# A table of rows, stored as columns of objects. Do not use a data frame, because importing pandas
# takes as long as reading a small ledger.
Table = dict[str, Texts]
_SEVERAL = 2
# Search only the first rows for a layout, because searching a million rows takes a second
# (measured).
_LOOKED_AT = 2000
_DIGITS = re.compile("[0-9]")
_NUMBERS = re.compile("[0-9]+")
_PAGE_NUMBER = re.compile(
    r"\W*(?:page|pg|seite|blatt|pagina|p\u00e1gina|\u0441\u0442\u0440\u0430\u043d\u0438\u0446\u0430"
    r"|\u0441\u0442\u0440|\u30da\u30fc\u30b8)(?:\W+(?:no|nr))?\W*[0-9]+"
    r"(?:\W*(?:of|von|van|de|di|sur|\u0438\u0437)\W*[0-9]+|\W+[0-9]+)?\W*",
    re.IGNORECASE,
)


def _array(values: Iterable[object]) -> Texts:
    return np.fromiter(values, object)


def merged_blocks(head: Header, column: int) -> Iterator[tuple[slice, str]]:
    """Yield the text of each merged cell in a column, and the cell's rows except the first one.

    Rows are counted from the first row below the header. The cells' rows do not overlap. A ledger
    with 100,000 rows can have 100,000 merged cells.
    """
    grid = head.grid
    ranges = [
        (top, bottom, left)
        for (top, left), (bottom, right) in sorted(grid.merged)
        if head.row < top < len(grid.rows) and left <= column <= right
    ]
    for (top, bottom, left), (following, *_) in pairwise([*ranges, (len(grid.rows), 0, 0)]):
        first, last = max(top + 1, head.body), min(bottom, following)
        cells = grid.rows[top]
        text = as_text(cells[left]) if len(cells) > left else ""
        yield slice(first - head.body, max(first, last + 1) - head.body), text


@dataclass(frozen=True, slots=True)
class RowLabels:
    """The names that rows inherit from the rows above, by field, and a mask of the label rows.

    The arrays have one item for each row below the header. If a row does not inherit a name, the
    item is an empty string.
    """

    names: Mapping[str, Texts] = dataclasses.field(default_factory=dict)
    is_label: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """A row that names a group: the group's name, and its dimension if known."""

    dimension: str
    name: str


def row_labels(head: Header) -> RowLabels:
    """Return the names that rows inherit from rows above.

    Raise `Ambiguous` if a person must decide.
    """
    shape = head.shape
    if shape.groups is None:
        _ask_for_groups(head)
    if shape.fill_down is None:
        _ask_to_fill_down(head)
    if not shape.groups and not shape.fill_down:
        return RowLabels()
    rows = head.grid.rows[head.body :]
    labels = [_group_label(cells, head) for cells in rows]
    is_label = np.array([label is not None for label in labels], bool)
    has_text = [bool(first_text(cells)) and not _is_total(cells, head) for cells in rows]
    is_row = ~is_label & np.array(has_text, bool)
    groups = [*_groups(labels, shape.groups or ())]
    names = {name: _array(group.get(name, "") for group in groups) for name in FIELDS}
    is_new = np.zeros(len(rows), bool)
    places = np.arange(len(rows))
    for column, name in _filled_fields(head):
        texts = _texts(rows, column)
        is_named = is_row & (texts != "")
        named = np.maximum.accumulate(np.where(is_named, places, -1))
        # If a column further left has a new name, stop filling down this column.
        stopped = np.maximum.accumulate(np.where(is_new, places, 0))
        names[name] = np.where(named >= stopped, texts[named], names[name])
        is_new |= is_named
    return RowLabels({name: np.where(is_row, names[name], "") for name in names}, is_label)


def _group_label(cells: Row, head: Header) -> Label | None:
    """Return the group that a row names, if recon.toml says that rows can name groups."""
    groups = head.shape.groups
    label = label_of(cells, head) if groups else None
    # If rows are not grouped by asset, a row with only an asset is a ledger row with a blank
    # amount.
    is_row = label is not None and label.dimension == "asset" and "asset" not in (groups or ())
    return None if is_row else label


def _groups(
    labels: Sequence[Label | None], dimensions: Sequence[str]
) -> Iterator[Mapping[str, str]]:
    """Yield each row's group names, by dimension."""
    group: dict[str, str] = {}
    for before, label in pairwise([None, *labels]):
        if label is not None:
            group = _enter_group(group, label, dimensions, is_nested=before is not None)
        yield group


def _filled_fields(head: Header) -> list[tuple[int, str]]:
    """Return the columns to fill down, from left to right, each with its field."""
    wanted = head.shape.fill_down or ()
    columns = {column for title in wanted for column in find_columns(title, head.titles)}
    return sorted(
        (column, name)
        for name, column in head.columns.items()
        if name in FIELDS and (column in columns or "*" in wanted)
    )


def _enter_group(
    group: Mapping[str, str], label: Label, dimensions: Sequence[str], *, is_nested: bool
) -> dict[str, str]:
    """Return the groups of the rows below a label.

    The label replaces its group and inner groups.
    """
    # A label with an unknown dimension is one level deeper than the label in the row above. If the
    # row above is not a label, the label gets the deepest level.
    dimension = label.dimension
    if dimension not in dimensions:
        depth = sum(name in group for name in dimensions) if is_nested else len(dimensions) - 1
        dimension = dimensions[min(depth, len(dimensions) - 1)]
    inside = dimensions[dimensions.index(dimension) :]
    outside = {name: text for name, text in group.items() if name not in inside}
    return {**outside, dimension: label.name}


def label_of(cells: Row, head: Header) -> Label | None:
    """Return the group that a row names, or None if it does not name a group."""
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    is_name = bool(texts) and any(letter.isalnum() for letter in texts[0])
    if not is_name or head.words.total_name(texts[0]) is not None:
        return None
    known = head.context.known
    title, _, name = texts[0].partition(":")
    dimension = head.words.field_of(title) or head.words.second_field_of(title)
    if len(texts) == 1 and isinstance(next(cell for cell in cells if as_text(cell).strip()), str):
        is_said = bool(name.strip()) and dimension in FIELDS
        text = name.strip() if is_said else texts[0].rstrip(":").strip()
        return Label(dimension if is_said else known.dimension_of(text), text)
    if len(texts) == _SEVERAL and dimension in FIELDS and texts[0].endswith(":"):
        return Label(dimension, texts[1])
    # In a compact pivot table, the asset column also contains the name of each group, next to the
    # total of the group.
    text = text_at(cells, head.columns.get("asset"))
    dimension = known.dimension_of(text) if text == texts[0] else ""
    if dimension not in ("", "asset") and not known.has("asset", text):
        return Label(dimension, text)
    return None


def _is_total(cells: Row, head: Header) -> bool:
    return head.words.total_name(first_text(cells)) is not None


def _ask_for_groups(head: Header) -> None:
    """Raise `Ambiguous` if rows seem to name a dimension that has no column."""
    missing = [name for name in FIELDS if name not in head.fields and name != "bucket"]
    if not missing:
        return
    rows = head.grid.rows[head.body : head.body + _LOOKED_AT]
    sure: dict[str, str] = {}
    unsure = []
    for cells, below in pairwise(rows):
        label = label_of(cells, head)
        if label is None:
            continue
        if label.dimension in missing:
            sure.setdefault(label.dimension, label.name)
        elif not label.dimension and _has_amount(below, head):
            unsure.append(label.name)
    # Rows that differ only in their digits are lines like `Page 2`, not names.
    if not sure and len({_DIGITS.sub("", name) for name in unsure}) < _SEVERAL:
        return
    examples = ", ".join(map(repr, [*sure.values(), *unsure][:3]))
    if not sure:
        lines = [f"groups = [{quote(name)}]" for name in missing]
        raise Ambiguous(
            f"{head.location}: rows like {examples} do not have an amount. They may be "
            f"headings with the {' or the '.join(missing)} of the rows below them, because no "
            "column contains it. But the book does not contain these names.",
            choices(head.table, *lines, "groups = []   # these rows are only notes"),
        )
    raise Ambiguous(
        f"{head.location}: rows like {examples} do not have an amount. They seem to be "
        f"headings with the {' and the '.join(sure)} of the rows below them, because no column "
        "contains it.",
        f"{head.table}\ngroups = {quote_list(sure)}"
        "   # from the outermost to the innermost, or [] if these rows are only notes",
    )


def _has_amount(cells: Row, head: Header) -> bool:
    return any(letter.isdigit() for letter in text_at(cells, head.columns["amount"]))


def _ask_to_fill_down(head: Header) -> None:
    """Raise `Ambiguous` if a column seems to name only the first row of each group."""
    titles = [
        head.title_of(head.columns[name])
        for name in REQUIRED_NAMES
        if name in head.columns and _is_left_out(head, head.columns[name])
    ]
    if titles:
        raise Ambiguous(
            f"{head.location}: the {' and '.join(map(repr, titles))} column is blank in some rows "
            "that have an amount, and no name is repeated in the column. Each name seems to apply "
            "to all rows down to the next name.",
            f"{head.table}\nfill_down = {quote_list(titles)}"
            "   # or [], if rows with a blank name must be rejected",
        )


def _is_left_out(head: Header, column: int) -> bool:
    """Return whether a column has blanks next to amounts, but never repeats the previous name."""
    rows = head.grid.rows[head.body : head.body + _LOOKED_AT]
    amount = head.columns["amount"]
    is_row = np.array(
        [text_at(row, amount) != "" and not _is_total(row, head) for row in rows], bool
    )
    for block, _ in merged_blocks(head, column):
        is_row[block] = False
    names = _texts(rows, column)[is_row]
    named = names[names != ""]
    is_repeated = (named[1:] == named[:-1]).any()
    starts_named = len(named) > 0 and names[0] != ""
    return bool(starts_named and not is_repeated and len(names) - len(named) >= _SEVERAL)


_NEAR = Decimal("1e-13")  # relative error of a total in a number cell, which keeps only 15 digits
# If there are more rows, do not check the totals, because that takes longer than reading the file.
_MOST_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLine:
    """A total line: its amount, and its group's name in lower case, or an empty string."""

    line: int
    text: str
    group: str
    amount: Amount


@dataclass(slots=True)
class _GroupSum:
    """A group of rows: the sum of their amounts, the row count, and their assets."""

    amount: Decimal = Decimal(0)
    rows: int = 0
    assets: set[str] = dataclasses.field(default_factory=set)

    def add(self, amount: Decimal, asset: str) -> None:
        """Add a row's amount and asset to the group."""
        self.amount = EXACT.add(self.amount, amount)
        self.rows += 1
        self.assets.add(asset)

    def agrees(self, total: Amount) -> bool:
        """Return whether a total equals this sum. Totals from number cells have only 15 digits."""
        stated = exact(total.text)
        if not total.is_number:
            return stated == self.amount
        return abs(stated - self.amount) <= _NEAR * max(abs(stated), abs(self.amount))


def check_totals(totals: Sequence[SumLine], rows: pa.Table, location: str) -> Iterator[Notice]:
    """Yield a notice for each wrong total, and notices that count the correct and unchecked totals.

    A total may be the sum of the rows since the previous total, of all rows in the group that it
    names, or of all rows above it. A sum over different assets is not reported as wrong, because it
    may be a sum of values in one currency.
    """
    if rows.num_rows > _MOST_ROWS:
        yield Notice(
            "low", f"{count_of(len(totals), 'total line')} not compared with the rows", location
        )
        return
    agreeing = unchecked = 0
    for total, sums in _sums(sorted(totals, key=lambda item: item.line), rows):
        if any(candidate.agrees(total.amount) for candidate in sums):
            agreeing += 1
        elif sums and len(sums[0].assets) == 1:
            yield Notice(
                "high",
                f"{total.text!r} says {total.amount.text}, but its {count_of(sums[0].rows, 'row')} "
                f"{'adds' if sums[0].rows == 1 else 'add'} up to {plain(sums[0].amount)}. A row "
                "may be missing, wrong or repeated",
                f"{location}:{total.line}",
            )
        else:
            unchecked += 1
    if agreeing:
        lines = f"{count_of(agreeing, 'total line')} {'agrees' if agreeing == 1 else 'agree'}"
        yield Notice("low", f"{lines} with the rows", location)
    if unchecked:
        lines = f"{count_of(unchecked, 'total line')} could not be checked"
        reason = "because there are no rows above, or the rows above have different assets"
        yield Notice("low", f"{lines}, {reason}", location)


def _sums(totals: Iterable[SumLine], rows: pa.Table) -> Iterator[tuple[SumLine, list[_GroupSum]]]:
    """Yield each total with the sums that it may represent, most likely first."""
    # Calculate all sums in a single pass: over all rows, over the rows since the last total, and
    # over the rows with each name.
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


_MOST = 0.5  # a spelling must match more than this fraction of the unknown names
_MOST_PARTS = 8  # maximum number of words in a string to search for names
_PART = re.compile(r"[^\W_]+")
_AROUND = re.compile(r"[^\W_](?:.*[^\W_])?")

# Words that give the name next to them a different meaning, such as a future or a loan.
_OTHER_THING = re.compile(
    r"perp|swap|fut|option|call|put\b|warrant|short|long|loan|borrow|debt|margin|staked|locked|wrapped"
    r"|lp\b|[0-9]{4}",
    re.IGNORECASE,
)

Rename = Callable[[str], str]


def renames_of(head: Header) -> dict[str, Rename]:
    """Map each field to a function that removes the text around the field's names."""
    patterns = {field: _regex(text) for field, text in head.shape.spellings.items()}
    known, marks = head.context.known, head.shape.footnotes

    def rename(field: str, text: str) -> str:
        if known.has(field, text):
            return text
        bare = without_footnote(text, marks)
        text = bare if known.has(field, bare) else text
        match = patterns[field].fullmatch(text.strip()) if field in patterns else None
        return match["name"] if match else text

    fields = SPELLED if marks else [field for field in SPELLED if field in patterns]
    return {field: partial(rename, field) for field in fields}


def rename_all(names: pa.Array, rename: Rename | None) -> pa.Array:
    """Rename every name in a column. Each distinct name is looked up only once."""
    if rename is None:
        return names
    coded = names.dictionary_encode()
    renamed = [rename(text) if text else "" for text in coded.dictionary.to_pylist()]
    return pa.array(renamed, pa.string()).take(coded.indices)


def ask_for_spellings(body: LedgerBody) -> None:
    """Raise `Ambiguous` if most names in a column are book names with text around them."""
    head, known = body.head, body.known_names
    renames = renames_of(head)
    for field in SPELLED:
        column = head.columns.get(field)
        if column is None or not known.folded.get(field):
            continue
        written = [text for text in body.counts(column)[0] if text]
        unknown = [text for text in written if not known.has(field, text)]
        unknown = [text for text in unknown if field not in renames or renames[field](text) == text]
        examples = " and ".join(repr(text[:40]) for text in unknown[:2])
        marks = [mark for text in unknown if (mark := _mark(text, field, known))]
        if marks:
            listed = quote_list(dict.fromkeys([*head.shape.footnotes, *marks]))
            raise Ambiguous(
                f"{head.place}: names like {examples} are names from the book, followed by a "
                "mark that seems to refer to a footnote.",
                f"{head.table}\nfootnotes = {listed}",
            )
        pattern = _spelling(unknown, field, known)
        if pattern and field not in head.shape.spellings and len(unknown) > _MOST * len(written):
            raise Ambiguous(
                f"{head.place}: strings like {examples} are names of the book's {field}s with "
                f"other text before or after them. In this setting, {NAME} represents the name, "
                "and the other text is ignored.",
                f"{head.table}\n{setting(f'{field}_spelling', pattern)}",
            )


def _mark(text: str, field: str, known: KnownNames) -> str:
    name, mark = split_footnote(text)
    return mark if known.has(field, name) else ""


def _spelling(unknown: Sequence[str], field: str, known: KnownNames) -> str:
    """Return the spelling that most of these strings share, or an empty string."""
    patterns = [list(_patterns(text.strip(), field, known)) for text in unknown]
    # First try a spelling with the exact text around the names, then a pattern that allows any
    # text.
    for number in (0, 1):
        # Count each distinct string once for each pattern. Use a dict, because the order of a set
        # is not reproducible.
        unique = (dict.fromkeys(pair[number] for pair in found) for found in patterns)
        counted = Counter(chain.from_iterable(unique))
        pattern, count = max(counted.items(), key=itemgetter(1), default=("", 0))
        # If only one name has text around it, a space must separate the text from the name. Without
        # a space, the match may be a coincidence.
        is_sure = count > 1 or (count == 1 and " " in pattern and pattern.count(ANY) == 0)
        if is_sure and count > _MOST * len(unknown):
            return pattern
    return ""


def _patterns(text: str, field: str, known: KnownNames) -> Iterator[tuple[str, str]]:
    """Yield two patterns for each name in a string: exact, and with wildcards around the name."""
    parts = list(_PART.finditer(text))[:_MOST_PARTS]
    for first, last in combinations_with_replacement(parts, 2):
        before, after = text[: first.start()], text[last.end() :]
        name = text[first.start() : last.end()]
        has_placeholder = any(mark in before + after for mark in f"{NAME}{ANY}")
        if (
            known.has(field, name)
            and not has_placeholder
            and not _OTHER_THING.search(before + after)
        ):
            general = f"{_AROUND.sub(ANY, before)}{NAME}{_AROUND.sub(ANY, after)}"
            yield f"{before}{NAME}{after}", general


def _regex(pattern: str) -> re.Pattern[str]:
    parts = map(re.escape, pattern.replace(ANY, "\0").replace(NAME, "\1"))
    wildcards: Mapping[str, str] = {"\0": ".+?", "\1": "(?P<name>.+?)"}
    return re.compile("".join(wildcards.get(part, part) for part in parts))


def plain_rows(
    cells: Cells, head: Header, layer: Layer, decimals: Decimals, is_read: Sequence[bool] | None
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Find the plain rows below the header. Return their row numbers and their columns.

    A row is plain if it has one cell for each title, its amount is written in plain digits, and no
    required name is blank or a word for a total. `is_read` has a flag for each row, which is true
    if the row's date is read. If it is None, all rows are read. The columns `file` and `line` are
    not returned.
    """
    rows, columns = cells.whole(head.body, len(head.titles))
    amount = columns[layer.terms[0].column]
    # Skip a header that is repeated on each page. Its amount cell contains the title.
    is_title = pc.equal(amount, head.titles[layer.terms[0].column])
    is_used = pc.and_not(is_plain(amount, decimals), is_title)
    if is_read is not None:
        is_used = pc.and_(is_used, pa.array(is_read, pa.bool_()).take(rows))
    for field in REQUIRED_NAMES:
        if field in head.columns:
            # Check each distinct name once, because a million cells may contain only a few names.
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


_BATCH = 50_000  # number of rows to read at once
_OTHER_DATE = "another date"

# Errors that spreadsheet programs show if a person types a name like =Hedge, =-Hedge or =@Hedge.
_UNKNOWN_NAME = ("#NAME?", "#VALUE!", "Err:508", "Err:509", "Err:510")
_BLANK_UNSURE = ", or is an error that this file format does not show: save the ledger as xlsx"


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetReading:
    """A sheet to read, and all decisions on how to read it.

    `number` is the file's number, `days` has the date of each row in the sheet, and `undated` has
    the rows whose date cannot be read. Only rows for `day` are read, unless `day` is None.
    `headings` are the rows above the header, which a report repeats on every page. `renames` remove
    the text around each field's names.
    """

    body: LedgerBody
    fields: tuple[str, ...]
    amounts: AmountReader
    labels: RowLabels
    days: Sequence[date | None]
    undated: frozenset[int]
    day: date | None
    number: int
    headings: frozenset[str]
    renames: Mapping[str, Rename]
    notices: list[Notice]
    unused: list[Unused]

    @property
    def head(self) -> Header:
        """The sheet's header."""
        return self.body.head

    @property
    def grid(self) -> Grid:
        """The sheet's cells."""
        return self.head.grid


@dataclass(slots=True)
class BodyRows:
    """The result of reading a sheet: used and rejected rows, and skipped rows counted by reason.

    `lines` has the used rows from all sheets. `totals` are the total lines whose amount can be
    read.
    """

    lines: LedgerRows
    used: int = 0
    rejected: list[RejectedRow] = dataclasses.field(default_factory=list)
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)
    totals: list[SumLine] = dataclasses.field(default_factory=list)

    def use(self, columns: Mapping[str, Any]) -> None:
        """Add used rows, given as one array for each column in `LINES`."""
        self.lines.add_all(columns)
        self.used += len(columns["line"])


def read_rows(reading: SheetReading, lines: LedgerRows) -> BodyRows:
    """Read every row in a sheet, and add an entry to `lines` for each amount in a used row.

    Also add notices and skipped rows to the lists in `reading`.
    """
    found = BodyRows(lines)
    for layer in reading.head.layers:
        numbers = _read_plain_rows(reading, layer, found)
        # Read the rows in batches, because the cells of a million rows would need a gigabyte.
        size = len(numbers) if reading.grid.merged else _BATCH
        for start in range(0, len(numbers), max(size, 1)):
            _read_rows(reading, layer, _table(reading, layer, numbers[start : start + size]), found)
    if found.totals:
        rows = lines.table
        own = rows.filter(pc.equal(rows["file"], reading.number))
        reading.notices.extend(check_totals(found.totals, own, reading.head.place))
    reading.unused.extend(
        Unused(reading.head.place, FilePart.ROW, "", reason, "low", number)
        for reason, number in sorted(found.skipped.items())
        if reason != _OTHER_DATE
    )
    return found


def _read_plain_rows(reading: SheetReading, layer: Layer, found: BodyRows) -> Sequence[int]:
    """Use a text file's plain rows, which need no checks. Return the numbers of the other rows."""
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
    for name in FIELDS:
        columns[name] = rename_all(columns[name], reading.renames.get(name))
    columns["file"] = pa.repeat(reading.number, len(rows))
    columns["line"] = pc.add(rows, grid.line(0))
    found.use(columns)
    others: list[int] = np.setdiff1d(numbers, rows, assume_unique=True).tolist()
    return others


def _table(reading: SheetReading, layer: Layer, numbers: Sequence[int]) -> Table:
    """Return rows as a table with `number`, `line`, `cells`, and one column of names per field.

    `number` counts from 0, and `line` is the row number that programs show.
    """
    cells = [reading.grid.rows[row] for row in numbers]
    columns = {
        "number": _array(numbers),
        "line": _array(map(reading.grid.line, numbers)),
        "cells": _array(cells),
    }
    return columns | {name: _names_of(reading, layer, numbers, cells, name) for name in FIELDS}


def _keep(rows: Table, is_kept: npt.NDArray[np.bool_]) -> Table:
    return {name: column[is_kept] for name, column in rows.items()}


def _names_of(
    reading: SheetReading, layer: Layer, numbers: Sequence[int], cells: Sequence[Row], field: str
) -> Texts:
    """Return each row's name in a field, without any other text in the cell."""
    head = reading.head
    column = head.columns.get(field)
    names = np.full(len(cells), layer.names.get(field) or head.names.get(field) or "", object)
    if column is not None and not names.any():
        names = _array(as_text(row[column]) if len(row) > column else "" for row in cells)
        # The row numbers of a merged block are also indexes into `names`, because a sheet with
        # merged cells is read in a single batch.
        for block, text in merged_blocks(head, column):
            names[block] = np.where(names[block] == "", text, names[block])
        names = rename_all(pa.array(names, pa.string()), reading.renames.get(field)).to_numpy(False)
    if field not in reading.labels.names:
        return names
    above = reading.labels.names[field][np.array(numbers, int) - head.body]
    return np.where(above != "", above, names)


def _read_rows(reading: SheetReading, layer: Layer, rows: Table, found: BodyRows) -> None:
    """Use, skip or reject each of these rows, depending on the first reason that applies."""
    read = partial(reading.amounts.read_all, layer)
    rows["amount"] = _array(read(rows["cells"], repeat("")))
    rows["reason"] = _first_reasons(rows, _skip_reasons(reading, rows))
    found.skipped.update(rows["reason"][rows["reason"] != ""])
    if len(reading.head.layers) == 1:
        found.totals += _total_lines(reading, _keep(rows, rows["reason"] == "total line"))
    rows = _keep(rows, rows["reason"] == "")
    if reading.head.unit is not None:
        # Read the amounts again, now with each row's asset. If the unit is the asset's own name,
        # the factor is 1.
        rows["amount"] = _array(read(rows["cells"], rows["asset"]))
    rows["reason"] = _first_reasons(rows, _faults(reading, layer, rows))
    is_blank = rows["reason"] == BLANK
    # If a sheet has a column for each venue, most cells are blank, because no venue has all assets.
    may_be_blank = reading.head.context.config.blank == "skip" or len(reading.head.layers) > 1
    if not reading.grid.is_blank_sure:
        rows["reason"] = np.where(is_blank, BLANK + _BLANK_UNSURE, rows["reason"])
    elif may_be_blank:
        found.skipped.update(repeat("blank amount", is_blank.sum()))
        rows = _keep(rows, ~is_blank)
    is_used = rows["reason"] == ""
    found.rejected += [
        RejectedRow(
            tuple(rows[name][index] for name in FIELDS),
            _raw(reading, layer, rows, index),
            rows["reason"][index],
            reading.number,
            rows["line"][index],
        )
        for index in np.flatnonzero(~is_used).tolist()
    ]
    _use_rows(reading, layer, _keep(rows, is_used), found)


def _first_reasons(rows: Table, reasons: Iterable[Texts]) -> Texts:
    """Return the first non-empty reason for each row."""
    return reduce(
        lambda first, reason: np.where(first == "", reason, first),
        reasons,
        np.full(len(rows["cells"]), "", object),
    )


def _if(conditions: Iterable[bool], reason: str) -> Texts:
    """Return an array with `reason` for each true condition, and "" for each false condition."""
    return np.where(np.fromiter(conditions, bool), reason, "")


def _skip_reasons(reading: SheetReading, rows: Table) -> Iterator[Texts]:
    """Yield arrays of reasons to skip rows. Each array covers all rows."""
    head, cells, assets = reading.head, rows["cells"], rows["asset"]
    yield _if((all(cell in ("", None) for cell in row) for row in cells), "blank line")
    if reading.labels.is_label is not None:
        is_label = reading.labels.is_label[rows["number"].astype(int) - head.body]
        yield _if(is_label, "group name")
    yield _if(map(partial(_repeats_header, head), cells), "header repeated")
    is_sum = partial(is_total, head, is_name=reading.body.has_name)
    yield _if(
        map(cache(is_sum), map(first_text, cells), _texts(cells, head.columns.get("asset"))),
        "total line",
    )
    is_heading = partial(_is_page_heading, reading.headings)
    yield _if(map(is_heading, cells, rows["amount"], assets), "page header")
    is_name = map(cache(lambda name: name != "" and not is_date(name)), assets)
    is_named = np.fromiter(is_name, bool) & ("asset" in head.columns)
    has_amount = map(partial(_has_amount_cell, reading), rows["number"], cells)
    is_note = ~np.fromiter(has_amount, bool) & ~is_named
    yield _if(is_note, "title or note")
    if reading.day is not None:
        days = (reading.days[row] for row in rows["number"])
        yield _if((day not in (None, reading.day) for day in days), _OTHER_DATE)
    yield from _row_words(head, cells, head.shape.skip_rows, is_listed=True)


def _texts(cells: Iterable[Row], column: int | None) -> Texts:
    """Return a column's cells as stripped strings."""
    return _array(text_at(row, column) for row in cells)


def _repeats_header(head: Header, cells: Row) -> bool:
    column = head.columns["amount"]
    is_title = len(cells) > column and cells[column] == head.titles[column]
    return is_title and [fold(as_text(cell)) for cell in cells] == [*map(fold, head.titles)]


def _has_amount_cell(reading: SheetReading, row: int, cells: Row) -> bool:
    """Return whether any amount cell in a row has content or an error."""
    return any(
        (len(cells) > column and cells[column] != "") or (row, column) in reading.grid.errors
        for column in reading.head.amount_columns
    )


def heading_of(cells: Row) -> str:
    """Return a row's text without digits, so that a heading is the same on every page."""
    return _NUMBERS.sub("0", " ".join(filter(None, map(str.strip, map(as_text, cells)))))


def _is_page_heading(
    headings: Collection[str], cells: Row, amount: Amount | str, asset: str
) -> bool:
    """Return whether a row is a page heading that a report repeats on every page."""
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    has_number = any(map(_PAGE_NUMBER.fullmatch, chain(texts, map(" ".join, pairwise(texts)))))
    is_repeated = heading_of(cells) in headings
    if isinstance(amount, str):
        return has_number or is_repeated
    # A heading like `Page 2` may be split into two cells, with the 2 in the amount column. Such a
    # row does not have an asset.
    return has_number and (is_repeated or not asset)


def _row_words(
    head: Header, cells: Iterable[Row], words: Mapping[str, Sequence[str]], *, is_listed: bool
) -> Iterator[Texts]:
    """Yield reasons to skip the rows with listed words, or to reject the rows with other words."""
    before = "" if is_listed else "recon.toml does not say whether a row counts if "
    for title, column in head.rows.items():
        listed = {*map(fold, words.get(title, ()))}
        yield _array(
            f"{before}the {title!r} column contains {(word if is_listed else word[:40])!r}"
            if (fold(word) in listed) == is_listed
            else ""
            for word in _texts(cells, column)
        )


def _faults(reading: SheetReading, layer: Layer, rows: Table) -> Iterator[Texts]:
    """Yield arrays of reasons to reject rows. Each array covers all rows."""
    head, grid, cells = reading.head, reading.grid, rows["cells"]
    columns = [(name, column) for name, column in head.columns.items() if name != "amount"]
    columns += [("amount", term.column) for term in layer.terms]
    for name, column in columns if grid.errors else ():
        errors = (grid.errors.get((row, column), "") for row in rows["number"])
        yield _array(error and _reason_of_error(name, error) for error in errors)
    is_long = (any(map(as_text, row[len(head.titles) :])) for row in cells)
    yield _if(is_long, "the row has more cells than the header")
    for name in REQUIRED_NAMES:
        if name in head.fields:
            yield _if((not text.strip() for text in rows[name]), f"the {name} is blank")
    yield from _row_words(head, cells, head.shape.keep_rows, is_listed=False)
    if reading.undated:
        yield _array(
            f"the date {text[:40]!r} cannot be read" if row in reading.undated else ""
            for row, text in zip(rows["number"], _texts(cells, head.columns["as_of"]), strict=True)
        )
    yield _array(amount if isinstance(amount, str) else "" for amount in rows["amount"])


def _reason_of_error(name: str, error: str) -> str:
    """Return why a cell without a value cannot be used, and what to do about it."""
    if name in FIELDS and error.startswith((NO_VALUE, *_UNKNOWN_NAME)):
        shown = "" if error == NO_VALUE else f" ({error})"
        return (
            f"the {name} is a formula without a result{shown[:40]}. If it is a name that begins "
            "with =, +, - or @, type an apostrophe before it ('=Name). If it is a formula, "
            "recalculate it in your spreadsheet program"
        )
    return f"the cell with the {name} contains an error: {error}"[:200]


def _total_lines(reading: SheetReading, rows: Table) -> Iterator[SumLine]:
    """Yield the total lines whose amount can be read."""
    total_name = reading.head.words.total_name
    for line, cells, amount in zip(rows["line"], rows["cells"], rows["amount"], strict=True):
        texts = (as_text(cell).strip() for cell in cells)
        text = next((t for t in texts if total_name(t) is not None), "")
        if isinstance(amount, Amount):
            group = fold(total_name(text) or "")
            yield SumLine(line=line, text=text, group=group, amount=amount)


def _raw(reading: SheetReading, layer: Layer, rows: Table, index: int) -> str:
    """Return the unparsed content of the cells that make up a row's amount."""
    number, cells, errors = rows["number"][index], rows["cells"][index], reading.grid.errors
    places = [term.column for term in layer.terms if len(cells) > term.column]
    return " | ".join(errors.get((number, at), as_text(cells[at])) for at in places)


def _use_rows(reading: SheetReading, layer: Layer, rows: Table, found: BodyRows) -> None:
    """Add used rows to the result. Convert amounts in other units, and add a notice for each."""
    amounts: list[Amount] = rows["amount"].tolist()
    for index, (amount, asset) in enumerate(zip(amounts, rows["asset"], strict=True)):
        if not amount.unit or fold(amount.unit) == fold(asset):
            continue
        factor = reading.head.words.factor_of(amount.unit)
        used = f"multiplied by {factor}" if factor not in ("", "1") else "used unchanged"
        message = (
            f"the amount is in {amount.unit}, but the row's asset is {asset}. The amount was {used}"
        )
        location = f"{reading.head.place}:{rows['line'][index]}"
        raw = _raw(reading, layer, rows, index)
        reading.notices.append(Notice("medium", message, location, raw))
        if factor:
            amounts[index] = add_up([amount], Decimal(factor))
    columns: dict[str, Any] = {name: rows[name].tolist() for name in (*FIELDS, "line")}
    parts = ("decimals", "is_number", "unit")
    columns |= {part: [getattr(amount, part) for amount in amounts] for part in parts}
    columns["amount"] = [amount.text for amount in amounts]
    found.use({**columns, "file": [reading.number] * len(amounts)})
