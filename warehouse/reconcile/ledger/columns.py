"""What of a ledger's file is not used: tabs, columns and rows, each with its reason or a question.

What is left out may make the comparison coarser, hold amounts of its own, or change what the
amounts mean: then it is a question and not a remark. Whoever answers it is not asked again.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.wording import count_of
from warehouse.exact import exact
from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.dates import date_of, is_date
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.words import Words
from warehouse.reconcile.model import FilePart, Unused
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.toml import setting
from warehouse.reconcile.terms import FIELDS, LEDGER_FIELDS, Ambiguous, choices, letters
from warehouse.spreadsheet.reading.delimited_text import Cells
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import as_text, first_text, fold, text_at

_NAMED = ("portfolio", "venue", "account")

_WANTED = tuple(name for name in LEDGER_FIELDS if name != "asset")

_SHOWN = 4

_FEW_VALUES, _MOST_VALUES, _REPEATED = 12, 100, 2

_TELLING = 3  # characters of a word that tells even if all rows have it

_NUMBERED = 5  # rows that show that a column only numbers them

_DIGITS = Decimal(36)  # beyond the decimals of any asset, and the powers of ten of any unit

_YEARS = range(1900, 2101)

_TIME = re.compile(
    r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?( ?[ap]m)?( ?[a-z]{1,4})?", re.IGNORECASE
)

_PERIOD = r"(?:[0-9]{1,2}[./-])?(?:19|20)[0-9]{2}(?:\W?[a-z]{0,2}[0-9]{0,2})?"

_CODE = re.compile(rf"(?!{_PERIOD}$)(?=.*[0-9])[\w:./#+=-]{{6,}}", re.IGNORECASE)

_MOST_STARTS = 20_000  # different first texts of rows in which words for sums are looked for

_SAMPLE = 2000  # different values of a column that are looked at

_FEW = 0.1  # the part of the keys that may stand under other dates only

_NUMBER = re.compile(
    r"[(+\-\u2212]?[\s$\u20ac\u00a3]*[0-9][0-9\s.,'\u2019\u00a0\u202f]*(e[+-]?[0-9]+)?[\s%)-]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class UnknownColumn:
    """A column that no field takes: its title, what most of its values are, and different ones.

    Only rows with an amount count for the rest: `counts` has how many of them have a value, "" if
    they have none, for the commonest of the `different` values. `is_suspect` says that the values
    differ so that they may change what the amounts mean.
    """

    place: int
    title: str
    kind: str
    values: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    different: int = 0
    rows: int = 0
    is_suspect: bool = False

    @property
    def examples(self) -> str:
        """Its first values, for a question."""
        values = [value or "(blank)" for value in self.counts] if self.is_suspect else self.values
        shown = values[: _SHOWN if self.is_suspect else 2]
        more = ", ..." if self.is_suspect and len(values) > len(shown) else ""
        return ", ".join(value[:30] for value in shown) + more


@dataclass(frozen=True, slots=True)
class LedgerBody:
    """The rows below a header that have an amount of their own, column by column, as texts."""

    grid: Grid
    head: Header
    known: KnownNames
    _rows: dict[int, pa.Array] = field(default_factory=dict)

    def counts(self, place: int) -> tuple[dict[str, int], int, int]:
        """Return how many rows have each common value, and the number of values and of rows."""
        column = self.column(place)
        counted = pc.value_counts(column)
        different = len(counted)
        if different > _SAMPLE:
            order = pc.array_sort_indices(counted.field("counts"), order="descending")
            counted = counted.take(order[:_SAMPLE])
        values = {item["values"]: item["counts"] for item in counted.to_pylist()}
        return values, different, len(column)

    def column(self, place: int) -> pa.Array:
        """Return the cells of a column without spaces around them."""
        if not self._rows:
            self._rows[0] = self._with_amounts()
        return self._all(place).filter(self._rows[0])

    def pairs(self, place: int, other: int, most: int | None = None) -> list[tuple[str, str]]:
        """Return the different pairs of values that two columns have, in all or the first rows."""
        columns = {"first": self.column(place), "second": self.column(other)}
        table = pa.table(columns).slice(0, most)
        rows = table.group_by(["first", "second"]).aggregate([]).to_pylist()
        return [(row["first"], row["second"]) for row in rows]

    def dates_for_each_key(self, place: int) -> float:
        """Return how many values of a column a key has on average."""
        names = [name for name in FIELDS if name in self.head.columns]
        table = pa.table({name: self.column(self.head.columns[name]) for name in names})
        keys = table.group_by(names).aggregate([]).num_rows
        dated = table.append_column("date", self.column(place))
        dates = dated.group_by([*names, "date"]).aggregate([]).num_rows
        return float(dates / max(keys, 1))

    def _all(self, place: int) -> pa.Array:
        start = self.head.body
        if isinstance(self.grid.rows, Cells):
            return pc.utf8_trim_whitespace(self.grid.rows.column(place).slice(start))
        rows = islice(self.grid.rows, start, None)
        return pa.array([text_at(row, place) for row in rows], pa.string())

    def _with_amounts(self) -> pa.Array:
        """Return which rows have an amount and are not the sum of others."""
        head = self.head
        is_used = pa.repeat(pa.scalar(value=False), len(self.grid.rows) - head.body)
        for place in head.amount_places:
            cells = self._all(place)
            is_title = pc.equal(cells, head.titles[place])
            is_used = pc.or_(is_used, pc.and_not(pc.not_equal(cells, ""), is_title))
        asset = head.columns.get("asset")
        first = self._first_texts()
        names = first if asset is None else self._all(asset)
        starts = pc.unique(first).to_pylist()
        if len(starts) > _MOST_STARTS:
            return is_used  # with sums there is a question more, and none less
        words = [text for text in starts if head.words.total_name(text) is not None]
        rows = pc.indices_nonzero(pc.is_in(first, pa.array(words, pa.string()))).to_pylist()
        sums = [row for row in rows if self._is_sum(first[row].as_py(), names[row].as_py())]
        numbers = pa.array(range(len(first)), pa.int64())
        return (
            pc.and_not(is_used, pc.is_in(numbers, pa.array(sums, pa.int64()))) if sums else is_used
        )

    def _first_texts(self) -> pa.Array:
        """Return the first text of each row."""
        first = self._all(0)
        for place in range(1, len(self.head.titles)):
            is_blank = pc.equal(first, "")
            if not pc.any(is_blank).as_py():
                break
            first = pc.if_else(is_blank, self._all(place), first)
        return first

    def _is_sum(self, first: str, asset: str) -> bool:
        """Return whether a row adds up others, by its first text and its asset."""
        group = self.head.words.total_name(first)
        if group is None or self.known.dimension_of(first):
            return False
        is_sum = not asset or self.head.words.total_name(asset) == ""
        return is_sum or bool(self.known.dimension_of(group))


def holds_amounts(rows: Iterable[Sequence[object]]) -> bool:
    """Return whether some row has a text and a number beside it."""
    for row in rows:
        kinds = {_kind(cell) for cell in row}
        if "number" in kinds and "text" in kinds:
            return True
    return False


def rows_above(grid: Grid, head: Header, where: str) -> Iterator[Unused]:
    """Yield the rows above the header, louder where amounts stand in them."""
    filled = [row for row in range(head.row) if first_text(grid.rows[row])]
    if filled:
        rows = [grid.rows[row] for row in filled]
        severity = "medium" if holds_amounts(rows) else "low"
        first, last = (grid.line(row) for row in (filled[0], filled[-1]))
        name = f"row {first}" if first == last else f"rows {first} to {last}"
        stands = "it stands above the header and is not read"
        words = stands if first == last else "they stand above the header and are not read"
        words += f": {' | '.join(filter(None, map(as_text, rows[0])))[:60]}"
        yield Unused(
            file=where,
            kind=FilePart.ROW,
            name=name,
            reason=words,
            severity=severity,
            count=len(rows),
        )


def lacking_fields(head: Header, config: Config, covers: Collection[str] = ()) -> list[str]:
    """Return the parts of the key that nothing in a ledger says and nobody decided about."""
    wanted = _WANTED if config.level is None else config.level
    settled = {*head.fields, *covers, *(name for name, at in head.shape.columns.items() if not at)}
    return [field for field in wanted if field not in settled]


def unused_columns(
    body: LedgerBody, lacking: Sequence[str], where: str
) -> tuple[list[Unused], list[UnknownColumn]]:
    """Return the columns that are not used, and those that a person must say something about.

    A person must explain a column whose values differ so that they may change what the amounts
    mean, a column of words if the ledger has no column for a part of the key, and a column of
    figures that may be amounts.
    """
    head = body.head
    asked: list[UnknownColumn] = []
    unused: list[Unused] = []
    for place, title in enumerate(head.titles):
        if place in head.places:
            continue
        column = _column(body, place)
        reason = _reason(column, head, lacking)
        if not reason:
            asked.append(column)
        elif title or column.kind:
            unused.append(Unused(where, FilePart.COLUMN, repr(column.title), reason))
    return unused, asked


def _unused_by(title: str, head: Header) -> str:
    profile = head.profile
    if profile and fold(title) in map(fold, profile.shape.unused):
        return f"it is no part of what is held, as is known of {profile.name}"
    return "recon.toml says that it is unused"


def _reason(column: UnknownColumn, head: Header, lacking: Sequence[str]) -> str:
    """Return why a column is not needed; nothing where it may be."""
    title = head.titles[column.place] or column.title
    field = head.words.field_of(title) or head.words.also_field_of(title)
    if {fold(title), fold(column.title)} & set(map(fold, head.shape.unused)):
        return _unused_by(title, head)
    if is_sign(column, head):
        return f"recon.toml says {setting('sign', '')}" if head.shape.sign == "" else ""
    if field and head.shape.columns.get(field) == "":
        return f"recon.toml says {setting(field, '')}"
    return "" if column.is_suspect else _reason_of_kind(column, head, field, lacking)


def _reason_of_kind(column: UnknownColumn, head: Header, field: str, lacking: Sequence[str]) -> str:
    if field in head.columns:
        return f"the {field} is read from {head.title_of(head.columns[field])!r}"
    kinds = {"": "it is empty", "date": "it holds dates", "index": "it numbers the rows"}
    if column.kind in kinds:
        return kinds[column.kind]
    of_kind = _reason_of_words if column.kind == "text" else _reason_of_figures
    return of_kind(column, head, lacking)


def is_sign(column: UnknownColumn, head: Header) -> bool:
    """Return whether every value of a column is a side of an amount, like debit or short."""
    values = [value for value in column.values if value]
    if set(values) == {"-"} and head.words.role_of(head.titles[column.place]) != "sign":
        return False  # a dash in place of nothing
    sides = {head.words.side_of(value) for value in values}
    return bool(sides) and "" not in sides and sides != {"positive"}


def _may_change_amounts(column: UnknownColumn, body: LedgerBody) -> bool:
    """Return whether the values of a column differ so that they may change what amounts mean."""
    # A column that is harmless today may not be tomorrow. So its values count, whatever its title.
    values = [value for value in column.counts if value]
    is_other_day = column.place in body.head.days
    if not values or is_other_day or any(_repeats_names(column, body, name) for name in FIELDS):
        return False
    if _has_telling_value(column, values, body.head):
        return True
    if any(body.known.has(field, value) for field in _NAMED for value in values):
        return True
    is_date = column.kind == "date"  # of which only the days count, and not the times
    if not is_date and not _are_few(column.different, column.rows):
        return False
    may_matter = {"number": _numbers_matter, "date": _dates_matter}.get(column.kind, _texts_matter)
    return may_matter(column, body)


def _has_telling_value(column: UnknownColumn, values: Sequence[str], head: Header) -> bool:
    """Return whether some value changes what amounts mean, even if every row has it."""
    words = head.words
    if column.different == 1 and words.factor_of(values[0]) not in ("", "1"):
        return True  # one unit for all rows, however short its word is
    if words.is_void(head.titles[column.place]) and any(map(words.is_mark, values)):
        return True
    return any(_is_telling(value, words) for value in values)


def _is_telling(value: str, words: Words) -> bool:
    """Return whether a word changes what an amount means even if every row has it."""
    is_short = len(value) < _TELLING and value.isascii()
    if is_short or not any(map(str.isalpha, value)):
        return False
    is_unit = words.factor_of(value) not in ("", "1")
    return is_unit or words.is_void(value) or words.side_of(value) == "negative"


def _are_few(different: int, rows: int) -> bool:
    is_repeated = different <= min(_MOST_VALUES, rows // _REPEATED)
    return different > 1 and (different <= _FEW_VALUES or is_repeated)


def _repeats_names(column: UnknownColumn, body: LedgerBody, name: str) -> bool:
    """Return whether a column only says in other words what a column that is read says."""

    def is_same(pairs: Iterable[tuple[str, str]]) -> bool:
        return all(not value or body.known.is_same(name, value, other) for value, other in pairs)

    place, stated = body.head.columns.get(name), body.head.names.get(name, "")
    if place is None:
        return bool(stated) and is_same((value, stated) for value in column.counts)
    # A few rows show most differences, and a million different pairs take seconds.
    return is_same(body.pairs(column.place, place, _SAMPLE)) and is_same(
        body.pairs(column.place, place)
    )


def _is_of_each(column: UnknownColumn, body: LedgerBody, name: str) -> bool:
    """Return whether each name of a field has one value, and each value is of one name."""
    place = body.head.columns.get(name)
    if place is None:
        return False
    pairs = body.pairs(column.place, place)
    return len(pairs) == len({value for value, _ in pairs}) == len({of for _, of in pairs})


def _is_of_each_row(column: UnknownColumn) -> bool:
    return max(column.counts.values()) == 1


def _texts_matter(column: UnknownColumn, body: LedgerBody) -> bool:
    head = body.head
    title = head.titles[column.place]
    if all(_TIME.fullmatch(value) for value in column.counts if value):
        return False
    is_code = all(_CODE.fullmatch(value) for value in column.counts)
    if is_code or head.words.is_asset_name(title):
        is_row = is_code and _is_of_each_row(column)
        return not is_row and not _is_of_each(column, body, "asset")
    field = head.words.field_of(title) or head.words.also_field_of(title)
    return field in ("", "asset") or not _is_of_each(column, body, field)


def _dates_matter(column: UnknownColumn, body: LedgerBody) -> bool:
    del body
    days = {date_of(value, "day first") or value for value in column.counts}
    return _are_few(len(days), column.rows)


def _numbers_matter(column: UnknownColumn, body: LedgerBody) -> bool:
    """Return whether figures may be factors, flags, years or numbers of things."""
    values = [value for value in column.counts if value not in ("", "-", "--")]
    title = body.head.titles[column.place]
    is_named = body.head.words.is_figure(title) or body.head.words.is_number(title)
    if _is_numbering(values, column) and (is_named or len(values) >= _NUMBERED):
        return False
    if all(map(is_factor, values)):
        return len({*column.counts}) > 1
    is_single = _is_of_each_row(column) or _has_one_for_each_asset(column, body)
    return not (is_single and is_named) and not _is_of_each_row(column)


def _is_numbering(values: Sequence[str], column: UnknownColumn) -> bool:
    is_whole = all(value.isdecimal() for value in values)
    numbers = [int(value) for value in values] if is_whole else []
    is_row = _is_of_each_row(column) and "" not in column.counts
    return is_row and bool(numbers) and numbers == [*range(numbers[0], numbers[0] + len(numbers))]


def _has_one_for_each_asset(column: UnknownColumn, body: LedgerBody) -> bool:
    place = body.head.columns.get("asset")
    if place is None:
        return False
    pairs = body.pairs(column.place, place)
    return len(pairs) == len({asset for _, asset in pairs})


def is_factor(text: str) -> bool:
    """Return whether a figure may be a power of ten, an exponent, a sign, a flag or a year."""
    try:
        value = exact(text.replace(" ", "").replace(",", "").replace("'", ""))
    except ArithmeticError:
        return False
    if value == value.to_integral_value() and (abs(value) <= _DIGITS or int(value) in _YEARS):
        return True
    return value > 0 and value == Decimal(1).scaleb(value.adjusted())


def _reason_of_words(column: UnknownColumn, head: Header, lacking: Sequence[str]) -> str:
    if head.words.is_remark(head.titles[column.place]):
        return "it holds remarks, or describes the asset"
    return "" if lacking else "it is not used for matching"


def _reason_of_figures(column: UnknownColumn, head: Header, lacking: Sequence[str]) -> str:
    if head.words.is_figure(head.titles[column.place]):
        return "it holds prices, values or other figures"
    if column.place in head.days:
        return f"it holds the amounts of another day, {head.days[column.place]}"
    if "amount" in head.shape.columns:
        return f"recon.toml says {setting('amount', head.shape.columns['amount'])}"
    return (
        "it holds numbers of things"
        if head.words.is_number(head.titles[column.place]) and not lacking
        else ""
    )


def _column(body: LedgerBody, place: int) -> UnknownColumn:
    """Return a column with its values, and whether they may change what the amounts mean."""
    grid, head = body.grid, body.head
    values = list(_values(grid, head, place))
    title = head.titles[place]
    if not title or len([other for other in head.titles if fold(other) == fold(title)]) > 1:
        title = letters(place)
    if not values:
        return UnknownColumn(place, title, "")
    texts = tuple(as_text(value).strip() for value in values)
    if _is_index(values) and not head.titles[place]:
        return UnknownColumn(place, title, "index", texts)
    kinds = [_kind(value) for value in values]
    kind = max(("text", "number", "date"), key=kinds.count)
    column = UnknownColumn(place, title, kind, texts, *body.counts(place))
    return replace(column, is_suspect=_may_change_amounts(column, body))


def _values(grid: Grid, head: Header, place: int) -> Iterable[object]:
    """Return different values of a column that are not blank, not all of very many."""
    start = head.body
    if isinstance(grid.rows, Cells):
        texts = pc.unique(grid.rows.column(place).slice(start)).slice(0, _SAMPLE).to_pylist()
        return [text for text in texts if text.strip()]
    cells = (row[place] for row in islice(grid.rows, start, None) if len(row) > place)
    seen: dict[object, None] = {}
    for cell in cells:
        if as_text(cell).strip():
            seen[cell] = None
        if len(seen) == _SAMPLE:
            break
    return list(seen)


def _kind(cell: object) -> str:
    """Return `number`, `date` or `text`; nothing of a blank cell."""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return "number"
    text = as_text(cell).strip()
    if not text or text in ("-", "--"):
        return ""
    if is_date(cell):
        return "date"
    return "number" if _NUMBER.fullmatch(text) else "text"


def _is_index(values: Sequence[object]) -> bool:
    texts = [as_text(value).strip() for value in values]
    start = int(texts[0]) if texts[0] in ("0", "1") else -1
    return start >= 0 and texts == [str(start + place) for place in range(len(texts))]


def rows_of_other_dates(
    grid: Grid, head: Header, days: Sequence[date | None], day: date | None, where: str
) -> Iterator[Unused]:
    """Yield the rows of other dates; raise `Ambiguous` where the column may state no such thing.

    A ledger of many days repeats its keys day by day. The date of the last movement does not: its
    keys would have no row at all.
    """
    stated = {row_day for row_day in days[head.body :] if row_day is not None}
    if day is None or not stated - {day}:
        return
    places = [head.columns[field] for field in FIELDS if field in head.columns]
    now: set[tuple[str, ...]] = set()
    then: set[tuple[str, ...]] = set()
    number = 0
    for row, cells in islice(enumerate(grid.rows), head.body, None):
        key = tuple(as_text(cells[place]) if len(cells) > place else "" for place in places)
        is_other = days[row] not in (None, day)
        number += is_other
        (then if is_other else now).add(key)
    gone = len(then - now)
    title = head.titles[head.columns["as_of"]]
    repeats = 2 * len(now & then) > len(now)
    if gone > _FEW * len(now | then) and not repeats and "as_of" not in head.shape.columns:
        raise Ambiguous(
            f"{where}: by the column {title!r} {number} of {len(days) - head.body} rows would "
            f"be of other days than {day} and be left out, and {gone} of {len(now | then)} "
            "positions with them. It may be the date of the last movement.",
            choices(
                head.table,
                'as_of = ""   # all rows count',
                f"{setting('as_of', title)}   # rows of other days are left out",
            ),
        )
    words = f"another date than {day} in {title!r}"
    words += (
        f"; {count_of(gone, 'position')} {'has' if gone == 1 else 'have'} no other row"
        if gone
        else ""
    )
    yield Unused(
        file=where,
        kind=FilePart.ROW,
        name="",
        reason=words,
        severity="medium" if gone else "low",
        count=number,
    )
