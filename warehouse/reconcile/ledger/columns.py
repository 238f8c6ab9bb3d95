"""Functions that find a ledger's unused columns and rows, and the columns to ask about.

An unused column may make the comparison less detailed, contain amounts, or change the meaning of
the amounts. A person must explain such a column in recon.toml.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.model import count_of
from warehouse.exact import exact
from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.amount_reader import is_negative
from warehouse.reconcile.ledger.dates import ORDERS, date_of, is_date, month_title
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.words import Words
from warehouse.reconcile.model import FilePart, Notice, Unused
from warehouse.reconcile.settings.layout import UNUSED
from warehouse.reconcile.settings.toml import setting
from warehouse.reconcile.terms import (
    FIELDS,
    LEDGER_FIELDS,
    Ambiguous,
    NotReconciled,
    choices,
    letters,
)
from warehouse.spreadsheet.reading.delimited_text import Cells
from warehouse.spreadsheet.reading.text import as_text, first_text, fold, text_at

NAMED_DIMENSIONS = ("portfolio", "venue", "account")
_WANTED = tuple(name for name in LEDGER_FIELDS if name != "asset")
_EXAMPLES = 4
_MAX_SHOWN = 8  # maximum number of values of an unused column in a message
SAID_UNUSED = "recon.toml says that it is unused"
_FEW_VALUES, _MAX_VALUES, _REPEATED = 12, 100, 2
_MIN_WORD_LENGTH = 3  # minimum length of a word that matters even if it is in every row
_MAX_TITLE_LENGTH = 60  # maximum number of characters of a title line in a message
_NUMBERED = 5  # minimum number of consecutive numbers to recognise as row numbers
# No asset has more decimal places than this, and no unit has a larger exponent.
_MAX_DIGIT = Decimal(36)
_YEARS = range(1900, 2101)
# A date further from the book's day than this is not the date of the amounts, but a maturity.
_NEAR_DAYS = 400
_MIN_DATED = 3  # minimum number of rows with one date, because two rows may have it by chance

_TIME = re.compile(
    r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?( ?[ap]m)?( ?[a-z]{1,4})?", re.IGNORECASE
)

_PERIOD = r"(?:[0-9]{1,2}[./-])?(?:19|20)[0-9]{2}(?:\W?[a-z]{0,2}[0-9]{0,2})?"
_CODE = re.compile(rf"(?!{_PERIOD}$)(?=.*[0-9])[\w:./#+=-]{{6,}}", re.IGNORECASE)
# If the rows begin with more distinct strings than this, do not search for total lines.
_MAX_STARTS = 20_000
_SAMPLE = 2000  # maximum number of distinct values to check in a column
_FEW = 0.1  # ask a person if more than this fraction of the keys has no row for the ledger's day

_MINUS = re.compile(r"[^0-9]*[-\u2212(]")
_NUMBER = re.compile(
    r"[(+\-\u2212]?[\s$\u20ac\u00a3]*[0-9][0-9\s.,'\u2019\u00a0\u202f]*(e[+-]?[0-9]+)?[\s%)-]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class UnknownColumn:
    """A column that is not assigned to any field: its title, values and most common kind of value.

    `counts`, `different` and `rows` cover only rows with an amount. `counts` contains the row count
    for each of the most common values ("" is a blank cell), `different` is the number of distinct
    values, and `rows` is the number of rows. `is_suspect` means that the values may change the
    meaning of the amounts.
    """

    index: int
    title: str
    kind: str
    values: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    different: int = 0
    rows: int = 0
    is_suspect: bool = False

    @property
    def examples(self) -> str:
        """The first values in the column, formatted for a question."""
        values = [value or "(blank)" for value in self.counts] if self.is_suspect else self.values
        shown = values[: _EXAMPLES if self.is_suspect else 2]
        more = ", ..." if self.is_suspect and len(values) > len(shown) else ""
        return ", ".join(value[:30] for value in shown) + more


@dataclass(frozen=True)
class LedgerBody:
    """The rows with an amount below a header, as columns of strings."""

    head: Header

    @property
    def known_names(self) -> KnownNames:
        """The names that the book contains."""
        return self.head.context.known

    def counts(self, column: int) -> tuple[dict[str, int], int, int]:
        """Count the rows of each common value, the distinct values, and all rows with an amount."""
        cells = self.column(column)
        counted = pc.value_counts(cells)
        different = len(counted)
        if different > _SAMPLE:
            order = pc.array_sort_indices(counted.field("counts"), order="descending")
            counted = counted.take(order[:_SAMPLE])
        values = {item["values"]: item["counts"] for item in counted.to_pylist()}
        return values, different, len(cells)

    def values(self, column: int | None) -> list[str]:
        """Return a column's common values except blanks, or an empty list if `column` is None."""
        return [] if column is None else [value for value in self.counts(column)[0] if value]

    def column(self, column: int) -> pa.Array:
        """Return the cells of a column, without outer spaces, from the rows that have an amount."""
        return self._all(column).filter(self._is_used)

    def pairs(self, column: int, other: int, most: int | None = None) -> list[tuple[str, str]]:
        """Return distinct value pairs from two columns, from all rows or the first `most` rows."""
        cells = {"first": self.column(column), "second": self.column(other)}
        rows = pa.table(cells).slice(0, most).group_by(["first", "second"]).aggregate([])
        return [(row["first"], row["second"]) for row in rows.to_pylist()]

    def dates_for_each_key(self, column: int) -> float:
        """Return a column's mean number of distinct values per key.

        Without name columns, all rows belong to one key, for example the file's only asset.
        """
        names = [name for name in FIELDS if name in self.head.columns]
        cells = {name: self.column(self.head.columns[name]) for name in names}
        dated = pa.table({**cells, "date": self.column(column)})
        keys = dated.group_by(names).aggregate([]).num_rows if names else 1
        return float(dated.group_by([*names, "date"]).aggregate([]).num_rows / max(keys, 1))

    def has_name(self, name: str) -> bool:
        """Return whether any cell in a name column has this name."""
        return fold(name) in self._names

    @cached_property
    def _names(self) -> set[str]:
        columns = [column for key, column in self.head.columns.items() if key in FIELDS]
        texts = chain.from_iterable(pc.unique(self._all(at)).to_pylist() for at in columns)
        return {*map(fold, texts)}

    def _all(self, column: int) -> pa.Array:
        rows, start = self.head.grid.rows, self.head.body
        if isinstance(rows, Cells):
            return pc.utf8_trim_whitespace(rows.column(column).slice(start))
        texts = [text_at(row, column) for row in islice(rows, start, None)]
        return pa.array(texts, pa.string())

    @cached_property
    def _is_used(self) -> pa.Array:
        """A mask of the rows that have an amount and are not total lines."""
        head = self.head
        is_used = pa.repeat(pa.scalar(value=False), len(head.grid.rows) - head.body)
        for column in head.amount_columns:
            cells = self._all(column)
            is_title = pc.equal(cells, head.titles[column])
            is_used = pc.or_(is_used, pc.and_not(pc.not_equal(cells, ""), is_title))
        asset = head.columns.get("asset")
        first = self._first_texts()
        names = first if asset is None else self._all(asset)
        starts = pc.unique(first).to_pylist()
        if len(starts) > _MAX_STARTS:
            # If a total line is not detected, there may be an extra question, but no question is
            # omitted.
            return is_used
        words = [text for text in starts if head.words.total_name(text) is not None]
        rows = pc.indices_nonzero(pc.is_in(first, pa.array(words, pa.string()))).to_pylist()
        totals = [row for row in rows if is_total(head, first[row].as_py(), names[row].as_py())]
        numbers = pa.array(range(len(first)), pa.int64())
        return pc.and_not(is_used, pc.is_in(numbers, pa.array(totals, pa.int64())))

    def _first_texts(self) -> pa.Array:
        """Return the first string in each row."""
        first = self._all(0)
        for column in range(1, len(self.head.titles)):
            is_blank = pc.equal(first, "")
            if not pc.any(is_blank).as_py():
                break
            first = pc.if_else(is_blank, self._all(column), first)
        return first


def is_total(
    head: Header, first: str, asset: str, is_name: Callable[[str], bool] = lambda _: False
) -> bool:
    """Return whether a row is a total line, judging by its first string and its asset.

    `is_name` returns whether a string is a name that occurs in the rows.
    """
    # An asset or an account may be called `total`. So the word must be the first string in the row,
    # and the asset must be blank or the same word. If there is a name next to the word ("Total
    # Kraken"), the book must contain the name. A row with the asset `Total Return` is not a total
    # line.
    group, known = head.words.total_name(first), head.context.known
    if group is None or known.dimension_of(first):
        return False
    if not asset or head.words.total_name(asset) == "":
        return True
    if not group and first.rstrip().endswith(":"):
        return True  # `Total:`, then the asset, because no account is called that
    is_known = bool(known.dimension_of(group))
    return bool(group) and (is_known or (asset == first and is_name(group)))


def has_amounts(rows: Iterable[Sequence[object]]) -> bool:
    """Return whether any row has both text and a number."""
    kinds = ({_kind(cell) for cell in row} for row in rows)
    return any({"number", "text"} <= found for found in kinds)


def rows_above(head: Header) -> Iterator[Unused]:
    """Yield the rows above the header. The severity is higher if they contain amounts."""
    grid = head.grid
    filled = [row for row in range(head.row) if first_text(grid.rows[row])]
    if not filled:
        return
    rows = [grid.rows[row] for row in filled]
    severity = "medium" if has_amounts(rows) else "low"
    first, last = (grid.line(row) for row in (filled[0], filled[-1]))
    name = f"row {first}" if first == last else f"rows {first} to {last}"
    texts = " | ".join(filter(None, map(as_text, rows[0])))
    reason = "it is" if first == last else "they are"
    more = "..." if len(texts) > _MAX_TITLE_LENGTH else ""
    reason += f' above the header row: "{texts[:_MAX_TITLE_LENGTH]}{more}"'
    yield Unused(head.place, FilePart.ROW, name, reason, severity, len(rows))


def missing_fields(head: Header) -> list[str]:
    """Return the key fields that neither the ledger nor a setting specifies."""
    level = head.context.config.level
    wanted = _WANTED if level is None else level
    unread = (name for name, at in head.shape.columns.items() if not at)
    settled = {*head.fields, *head.covers, *unread}
    return [field for field in wanted if field not in settled]


def unused_columns(
    body: LedgerBody, missing: Sequence[str]
) -> tuple[list[Unused], list[UnknownColumn]]:
    """Return the unused columns, and the columns that a person must explain.

    A person must explain a column if its values may change the meaning of the amounts, if it
    contains words and the ledger lacks part of the key, or if it contains figures that may be
    amounts.
    """
    asked: list[UnknownColumn] = []
    unused: list[Unused] = []
    for index, title in enumerate(body.head.titles):
        if index in body.head.used_columns:
            continue
        column = _column(body, index)
        reason = next(_reasons(column, body.head, missing))
        if not reason:
            asked.append(column)
        elif title or column.kind:
            part = repr(column.title)
            severity = "medium" if reason.startswith(f"{SAID_UNUSED},") else "low"
            unused.append(Unused(body.head.place, FilePart.COLUMN, part, reason, severity))
    return unused, asked


def is_declared_unused(column: UnknownColumn, head: Header) -> bool:
    """Return whether a setting says that a column is unused."""
    titles = {fold(head.titles[column.index] or column.title), fold(column.title)}
    return bool(titles & set(map(fold, head.shape.unused)))


def _warning(column: UnknownColumn) -> str:
    """Return the values of an unused column that could change the amounts, each with its count."""
    if not column.is_suspect:
        return ""
    counts = sorted(column.counts.items(), key=lambda item: (item[1], item[0]))
    shown = [f"{value[:30] or '(blank)'} \u00d7{count}" for value, count in counts]
    more = ", ..." if len(shown) > _MAX_SHOWN else ""
    return f", but it could change amounts: {', '.join(shown[:_MAX_SHOWN])}{more}"


def require_no_use(head: Header) -> None:
    """Raise `NotReconciled` if `unused` in recon.toml names a column that is used."""
    by_profile = set(map(fold, head.profile.shape.unused if head.profile else ()))
    used = {fold(head.title_of(column)) for column in head.used_columns}
    stated = [title for title in head.shape.unused if fold(title) not in by_profile]
    if both := [title for title in stated if fold(title) in used]:
        titles = ", ".join(map(repr, both))
        raise NotReconciled(
            f"{head.place}: recon.toml lists {titles} under `{UNUSED}`, but nightbook reads names, "
            f"amounts, dates, signs or units from there. Nothing was reconciled. Take {titles} off "
            "the list, or name another column for these in recon.toml."
        )


def _reasons(column: UnknownColumn, head: Header, missing: Sequence[str]) -> Iterator[str]:
    """Yield reasons why a column is not needed. Only the first one is used.

    An empty reason means that a person must explain the column.
    """
    title = head.titles[column.index] or column.title
    field = head.words.field_of(title) or head.words.second_field_of(title)
    if is_declared_unused(column, head):
        if head.profile and fold(title) in map(fold, head.profile.shape.unused):
            yield f"this column of the {head.profile.name} export does not contain holdings"
        yield f"{SAID_UNUSED}{_warning(column)}"
    if is_sign(column, head):
        yield f"recon.toml says {setting('sign', '')}" if head.shape.sign == "" else ""
    if field and head.shape.columns.get(field) == "":
        yield f"recon.toml says {setting(field, '')}"
    if column.is_suspect:
        yield ""
    if field in head.columns:
        yield f"the {field} is read from {head.title_of(head.columns[field])!r}"
    yield from _reasons_of_kind(column, head, missing)


def _reasons_of_kind(column: UnknownColumn, head: Header, missing: Sequence[str]) -> Iterator[str]:
    """Yield reasons why a column of this kind is not needed. The last reason is an empty string."""
    title = head.titles[column.index]
    kinds = {"": "it is empty", "date": "it contains dates", "index": "it contains row numbers"}
    if column.kind in kinds:
        yield kinds[column.kind]
    elif column.kind == "text" and head.words.is_remark(title):
        yield "it contains remarks, or describes the asset"
    elif column.kind == "text":
        yield "" if missing else "it is not needed for matching"
    elif head.words.is_title(title, "figure"):
        yield "it contains prices, values or other figures"
    elif column.index in head.days:
        yield f"it contains the amounts for a different day, {head.days[column.index]}"
    elif "amount" in head.shape.columns:
        yield f"recon.toml says {setting('amount', head.shape.columns['amount'])}"
    elif head.words.is_title(title, "number") and not missing:
        yield "it contains counts, not amounts"
    yield ""


def signs_by_word(body: LedgerBody, column: int) -> dict[str, set[int]]:
    """Return the signs of the amounts in the rows with each word of a column: 1, -1 or both."""
    signs: dict[str, set[int]] = {}
    for amounts in body.head.amount_columns:
        for word, text in body.pairs(column, amounts):
            if re.search("[1-9]", text):
                is_minus = bool(_MINUS.match(text) or text.endswith(("-", "\u2212")))
                signs.setdefault(word, set()).add(-1 if is_minus else 1)
    return signs


def doubled_signs(body: LedgerBody) -> Iterator[Notice]:
    """Yield a notice if negative amounts have a negative word in the sign column."""
    head = body.head
    if head.sign is None:
        return
    signs = signs_by_word(body, head.sign)
    words = [word for word, found in signs.items() if -1 in found and is_negative(word, head)]
    if words:
        message = (
            f"amounts that are already negative have {' or '.join(map(repr, words[:_EXAMPLES]))} "
            f"in the {head.title_of(head.sign)!r} column, so they were read as positive. If the "
            f"amounts have the right signs, remove `sign` and add the column to `{UNUSED}`"
        )
        yield Notice("high", message, head.place)


def is_sign(column: UnknownColumn, head: Header) -> bool:
    """Return whether all values in a column are sides, such as debit or short."""
    values = [value for value in column.values if value]
    # If a column contains only dashes, they mean blank cells, unless the title says that the column
    # contains signs.
    if set(values) == {"-"} and head.words.role_of(head.titles[column.index]) != "sign":
        return False
    sides = {head.words.side_of(value) for value in values}
    return bool(sides) and "" not in sides and sides != {"positive"}


def _may_change_amounts(column: UnknownColumn, body: LedgerBody) -> bool:
    """Return whether a column's values may change the meaning of the amounts."""
    # Decide by a column's values, not by its title, because a column that is harmless today may
    # change amounts tomorrow.
    values = [value for value in column.counts if value]
    is_other_day = column.index in body.head.days
    if not values or is_other_day or any(_repeats_names(column, body, name) for name in FIELDS):
        return False
    if _has_strong_value(column, values, body.head):
        return True
    dimensions = (*NAMED_DIMENSIONS, "bucket")
    if any(body.known_names.has(field, value) for field in dimensions for value in values):
        return True
    # Do not count the distinct values of a date column here, because the times of the dates usually
    # differ. `_dates_matter` counts distinct days.
    if column.kind != "date" and not _are_few(column.different, column.rows):
        return False
    if column.kind == "date":
        return _dates_matter(column)
    return (_numbers_matter if column.kind == "number" else _texts_matter)(column, body)


def _has_strong_value(column: UnknownColumn, values: Sequence[str], head: Header) -> bool:
    """Return whether any value changes the meaning of amounts, even if it is in every row."""
    words = head.words
    if column.different == 1 and words.factor_of(values[0]) not in ("", "1"):
        # If all rows have the same unit, the column matters, even if the word for the unit is
        # short.
        return True
    if column.different == 1 and words.part_of(values[0]):
        return True
    if words.is_void(head.titles[column.index]) and any(words.is_cell(v, "mark") for v in values):
        return True
    return any(_is_strong(value, words) for value in values)


def _is_strong(value: str, words: Words) -> bool:
    """Return whether a word changes the meaning of amounts, even if it is in every row."""
    is_short = len(value) < _MIN_WORD_LENGTH and value.isascii()
    if is_short or not any(map(str.isalpha, value)):
        return False
    is_unit = words.factor_of(value) not in ("", "1")
    return is_unit or words.is_void(value) or words.side_of(value) == "negative"


def _are_few(different: int, rows: int) -> bool:
    is_repeated = different <= min(_MAX_VALUES, rows // _REPEATED)
    return different > 1 and (different <= _FEW_VALUES or is_repeated)


def _repeats_names(column: UnknownColumn, body: LedgerBody, name: str) -> bool:
    """Return whether a column only repeats a field's names, or other names for the same IDs."""

    def is_same(pairs: Iterable[tuple[str, str]]) -> bool:
        known = body.known_names
        return all(not value or known.is_same(name, value, other) for value, other in pairs)

    field_column, stated = body.head.columns.get(name), body.head.names.get(name, "")
    if field_column is None:
        return bool(stated) and is_same((value, stated) for value in column.counts)
    # Compare the first rows first, because they usually show whether the columns differ. A million
    # comparisons take seconds.
    return all(is_same(body.pairs(column.index, field_column, most)) for most in (_SAMPLE, None))


def _is_one_to_one(column: UnknownColumn, body: LedgerBody, name: str) -> bool:
    """Return whether a field's names and a column's values correspond one to one."""
    pairs = _pairs_with(column, body, name)
    values = {value for value, _ in pairs}
    return bool(pairs) and _has_one_for_each(pairs) and len(pairs) == len(values)


def _has_one_for_each(pairs: Sequence[tuple[str, str]]) -> bool:
    return len(pairs) == len({name for _, name in pairs})


def _pairs_with(column: UnknownColumn, body: LedgerBody, name: str) -> list[tuple[str, str]]:
    """Return distinct value pairs from a column and from the column of a field, if there is one."""
    field_column = body.head.columns.get(name)
    return [] if field_column is None else body.pairs(column.index, field_column)


def _is_unique(column: UnknownColumn) -> bool:
    return max(column.counts.values()) == 1


def _texts_matter(column: UnknownColumn, body: LedgerBody) -> bool:
    words, title = body.head.words, body.head.titles[column.index]
    if all(_TIME.fullmatch(value) for value in column.counts if value):
        return False
    is_code = all(_CODE.fullmatch(value) for value in column.counts)
    if is_code or words.is_asset_name(title):
        return not (is_code and _is_unique(column)) and not _is_one_to_one(column, body, "asset")
    field = words.field_of(title) or words.second_field_of(title)
    return field in ("", "asset") or not _is_one_to_one(column, body, field)


def _dates_matter(column: UnknownColumn) -> bool:
    days = {date_of(value, "day first") or value for value in column.counts}
    return _are_few(len(days), column.rows)


def states_other_day(column: UnknownColumn, head: Header) -> bool:
    """Return whether all rows have one date or month that is near the book's day, but not it.

    If another column or a title has the day of the amounts, the column does not matter.
    """
    day = head.context.day
    has_day = "as_of" in {*head.columns, *head.shape.columns} or head.layers[0].day == day
    if has_day or column.rows < _MIN_DATED or "" in column.counts:
        return False
    days = {date_of(value, order) for value in column.counts for order in ORDERS} - {None}
    if days:
        return len(column.counts) == 1 and day not in days and any(_is_near(d, day) for d in days)
    [(rest, month), *others] = {month_title(value) for value in column.counts}
    if month is None or rest or others:
        return False
    return (month.year, month.month) != (day.year, day.month)


def _is_near(found: date | None, day: date) -> bool:
    return found is not None and abs((found - day).days) <= _NEAR_DAYS


def _numbers_matter(column: UnknownColumn, body: LedgerBody) -> bool:
    """Return whether a column's figures may change the meaning of the amounts."""
    values = [value for value in column.counts if value not in ("", "-", "--")]
    title = body.head.titles[column.index]
    is_named = any(body.head.words.is_title(title, kind) for kind in ("figure", "number"))
    if _is_numbering(values, column) and (is_named or len(values) >= _NUMBERED):
        return False
    if all(map(is_factor, values)):
        return len({*column.counts}) > 1
    pairs = _pairs_with(column, body, "asset")
    is_price = is_named and bool(pairs) and _has_one_for_each(pairs)
    return not is_price and not _is_unique(column)


def _is_numbering(values: Sequence[str], column: UnknownColumn) -> bool:
    is_whole = all(value.isdecimal() for value in values)
    numbers = [int(value) for value in values] if is_whole else []
    is_row = _is_unique(column) and "" not in column.counts
    return is_row and bool(numbers) and numbers == [*range(numbers[0], numbers[0] + len(numbers))]


def is_factor(text: str) -> bool:
    """Return whether a figure may be a power of ten, an exponent, a sign, a flag or a year."""
    try:
        value = exact(text.replace(" ", "").replace(",", "").replace("'", ""))
    except ArithmeticError:
        return False
    if not value.is_finite():  # A cell with `inf` or `nan` is not a number.
        return False
    is_digit = abs(value) <= _MAX_DIGIT
    if value == value.to_integral_value() and (is_digit or int(value) in _YEARS):
        return True
    return value > 0 and value == Decimal(1).scaleb(value.adjusted())


def _column(body: LedgerBody, index: int) -> UnknownColumn:
    """Describe a column: its values, and whether they may change the meaning of the amounts."""
    titles = body.head.titles
    values = _values(body, index)
    title = titles[index]
    if not title or list(map(fold, titles)).count(fold(title)) > 1:
        title = letters(index)
    if not values:
        return UnknownColumn(index, title, "")
    texts = tuple(as_text(value).strip() for value in values)
    if not titles[index] and texts[0] in ("0", "1"):
        numbers = range(int(texts[0]), int(texts[0]) + len(texts))
        if list(texts) == list(map(str, numbers)):
            return UnknownColumn(index, title, "index", texts)
    kinds = [_kind(value) for value in values]
    kind = max(("text", "number", "date"), key=kinds.count)
    column = UnknownColumn(index, title, kind, texts, *body.counts(index))
    is_suspect = _may_change_amounts(column, body) or states_other_day(column, body.head)
    return replace(column, is_suspect=is_suspect)


def _values(body: LedgerBody, index: int) -> list[object]:
    """Return the first distinct non-blank values in a column."""
    rows, start = body.head.grid.rows, body.head.body
    if isinstance(rows, Cells):
        texts = pc.unique(rows.column(index).slice(start)).slice(0, _SAMPLE).to_pylist()
        return [text for text in texts if text.strip()]
    cells = (row[index] for row in islice(rows, start, None) if len(row) > index)
    seen: dict[object, None] = {}
    for cell in cells:
        if as_text(cell).strip():
            seen[cell] = None
        if len(seen) == _SAMPLE:
            break
    return list(seen)


def _kind(cell: object) -> str:
    """Classify a cell as `number`, `date` or `text`. Return an empty string for a blank cell."""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return "number"
    text = as_text(cell).strip()
    if not text or text in ("-", "--"):
        return ""
    if is_date(cell):
        return "date"
    return "number" if _NUMBER.fullmatch(text) else "text"


def rows_of_other_dates(
    head: Header, days: Sequence[date | None], day: date | None
) -> Iterator[Unused]:
    """Yield an unused part for all rows that have a date other than `day`.

    Raises `Ambiguous` if the column may not be the balance date.
    """
    # A ledger that covers several days has the same keys on each day. If the column is the date of
    # the last movement, most keys have only one date.
    stated = {row_day for row_day in days[head.body :] if row_day is not None}
    if day is None or not stated - {day}:
        return
    columns = [head.columns[field] for field in FIELDS if field in head.columns]
    is_other = [row_day not in (None, day) for row_day in days[head.body :]]
    keys: tuple[set[tuple[str, ...]], set[tuple[str, ...]]] = (set(), set())
    for cells, other in zip(islice(head.grid.rows, head.body, None), is_other, strict=True):
        keys[other].add(tuple(as_text(cells[at]) if len(cells) > at else "" for at in columns))
    (now, then), number = keys, sum(is_other)
    lost = len(then - now)
    title = head.titles[head.columns["as_of"]]
    repeats = 2 * len(now & then) > len(now)
    if lost > _FEW * len(now | then) and not repeats and "as_of" not in head.shape.columns:
        raise Ambiguous(
            f"{head.place}: in the {title!r} column, {number} of {len(days) - head.body} rows have "
            f"a date other than {day}. Without these rows, {lost} of {len(now | then)} positions "
            "would have no row. The column may contain the date of the last movement.",
            choices(
                head.table,
                'as_of = ""   # all rows count',
                f"{setting('as_of', title)}   # rows with other dates are left out",
            ),
        )
    reason = f"a date other than {day} in {title!r}"
    if lost:
        verb = "has" if lost == 1 else "have"
        reason += f"; {count_of(lost, 'position')} {verb} no row that counts"
    yield Unused(head.place, FilePart.ROW, "", reason, "medium" if lost else "low", number)
