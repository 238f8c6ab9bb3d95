"""A sheet's notation for amounts, units, signs and dates, and the ledger's day."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.exact import plain
from warehouse.reconcile.ledger.amounts import (
    BLANK,
    DECIMAL_MARKS,
    NEEDS_WORD,
    Rules,
    add_up,
    evidence,
    footnote_mark,
    is_plain,
    negate,
    read,
    taken_apart,
    without_footnote,
)
from warehouse.reconcile.ledger.columns import LedgerBody
from warehouse.reconcile.ledger.dates import DATE, ORDERS, date_of, order_of
from warehouse.reconcile.ledger.header import Header, Layer, question_of_order
from warehouse.reconcile.ledger.words import OPPOSITE
from warehouse.reconcile.model import Amount, Ledger, LedgerSource, Notice
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import UNITS, Decimals, day_in
from warehouse.reconcile.settings.toml import quote_list, setting
from warehouse.reconcile.terms import Ambiguous, Late, choices
from warehouse.spreadsheet.reading.delimited_text import Cells, Row
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import as_text, first_text, fold, text_at


def telling_cells(cells: pa.Array) -> list[str]:
    """Return the few cells that show how a column's amounts are written, in column order."""
    # Return all cells that are not plain amounts. Of the plain amounts, return one of each kind:
    # valid in both conventions, only with a decimal point, or only with a decimal comma.
    is_unclear = pc.not_equal(cells, "")
    unsure = pc.match_substring_regex(cells, _UNSURE)
    firsts = [pc.index(unsure, pa.scalar(value=True)).as_py()]
    for decimals, mark in DECIMAL_MARKS.items():
        has_mark = pc.match_substring(cells, mark)
        plain = is_plain(cells, decimals)
        is_unclear = pc.and_not(is_unclear, plain)
        sure = pc.and_not(pc.and_(plain, has_mark), unsure)
        firsts.append(pc.index(sure, pa.scalar(value=True)).as_py())
    rows = {*pc.indices_nonzero(is_unclear).to_pylist(), *firsts} - {-1}
    texts: list[str] = cells.take(pa.array(sorted(rows), pa.int64())).to_pylist()
    return texts


# An amount like 1.234 is valid in both decimal conventions, so it does not reveal which of them is
# used.
_UNSURE = "^-?[1-9][0-9]{0,2}[.,][0-9]{3}$"
_CENTS = Decimal("0.01")
_BELOW = 20  # number of rows to search for notes at the end of a sheet


def unit_of(body: LedgerBody) -> tuple[Decimal, list[Notice]]:
    """Return the factor by which a sheet's amounts are multiplied, and notices about the factor.

    Raises `Ambiguous` if a title specifies the smallest unit of one asset, but the sheet contains
    several assets.
    """
    head = body.head
    unit, source = _stated_unit(body)
    if head.shape.unit is None and 0 < unit < 1:
        _ask_for_unit(body, unit, source)
    return unit, [] if unit == 1 else [_notice(unit, source, head)]


def _stated_unit(body: LedgerBody) -> tuple[Decimal, str]:
    """Return a sheet's unit and where it was found: recon.toml or a string in the sheet."""
    head = body.head
    if head.shape.unit is not None:
        return head.shape.unit, "recon.toml"
    titles = [head.titles[at] for at in head.amount_columns]
    above = [as_text(cell) for row in islice(head.grid.rows, head.row) for cell in row]
    for text in (*titles, *above, *_notes_below(body)):
        if word := head.words.unit_of(text):
            return UNITS[word], repr(text[:60])
    for title in titles:
        if factor := head.words.native_factor(title):
            return Decimal(factor), repr(title[:60])
    return Decimal(1), ""


def _notes_below(body: LedgerBody) -> Iterator[str]:
    """Yield likely notes at the end of a sheet: rows with a single string that is not a name."""
    rows = body.head.grid.rows
    for row in range(max(body.head.body, len(rows) - _BELOW), len(rows)):
        texts = [text for cell in rows[row] if (text := as_text(cell).strip())]
        if len(texts) == 1 and not body.known_names.dimension_of(texts[0]):
            yield texts[0]


def _ask_for_unit(body: LedgerBody, unit: Decimal, source: str) -> None:
    head = body.head
    at = head.columns.get("asset")
    assets = [asset for asset in body.counts(at)[0] if asset] if at is not None else []
    is_cents = unit == _CENTS and all(head.words.is_cell(asset, "currency") for asset in assets)
    if len(assets) > 1 and not is_cents:
        raise Ambiguous(
            f"{head.place}: {source} gives the smallest unit of one asset, but the ledger has "
            f"several assets ({', '.join(assets[:4])}).",
            choices(head.table, setting("unit", plain(unit)), setting("unit", "one")),
        )


def _notice(unit: Decimal, source: str, head: Header) -> Notice:
    return Notice(
        "medium",
        f"each amount was multiplied by {unit:,f}, as specified by {source}. If that is wrong, add "
        f"{setting('unit', 'one')} under {head.table} to recon.toml",
        head.place,
    )


_DECIMAL, _DATES = "decimal", "dates"
_DECIMAL_LINES = (
    'decimal = "point"   # amounts are written like 1,234.5',
    'decimal = "comma"   # amounts are written like 1.234,5',
)

# Words in footnotes. If a footnote contains one of them, the amounts with its mark may have a
# different sign or unit, or may not count.
_CHANGES = re.compile(
    r"thousand|million|billion|tsd|mio|mrd|tausend|millier|miles|migliaia|satoshi|wei\b|lamport"
    r"|\bin [a-z]{2,8}\b|short|loan|owe|liabil|negativ|borrow|debit|credit|soll|haben|cancel|void"
    r"|storn|pending|not yet|unsettled|estimat|gesch",
    re.IGNORECASE,
)


def rules_of(head: Header) -> Rules:
    """Determine how a sheet's amounts are written, reusing an earlier decision if there is one.

    Raises `Ambiguous` if the column does not reveal its decimal convention, or uses two.
    """
    # If one amount is valid in only one convention, use that convention for the whole column. Do
    # not just look for dots and commas, because a column of amounts like `1.234` may use either
    # convention.
    word = head.shape.negative_word
    footnotes = head.shape.footnotes
    cells = _telling(head)
    _ask_for_footnotes(head, cells)
    cells = [without_footnote(cell, footnotes) if isinstance(cell, str) else cell for cell in cells]
    if not word and head.sign is None:
        _ask_for_negative_word(head, cells)
    if head.shape.decimals:
        return Rules(head.shape.decimals, word, footnotes)
    sure, unsure = evidence(cells, word)
    settled = head.context.remembered.setdefault(head.fingerprint, {})
    if len(sure) > 1:
        examples = " and ".join(repr(cell[:40]) for cell in sure.values())
        raise Ambiguous(
            f"{head.location}: the amounts are written in two ways, {examples}: one with a decimal "
            f"{' and one with a decimal '.join(rule.value for rule in sure)}. Amounts that are not "
            "written the way you choose will be rejected.",
            choices(head.table, *_DECIMAL_LINES),
        )
    if sure:
        decimals = next(iter(sure))
        settled[_DECIMAL] = decimals.value
        return Rules(decimals, word, footnotes)
    if unsure and _DECIMAL in settled:
        return Rules(Decimals(settled[_DECIMAL]), word, footnotes)
    if unsure:
        raise Ambiguous(
            f"{head.location}: {unsure!r} contains either a decimal separator or a thousands "
            "separator, and no other amount in the column shows which of the two it is.",
            choices(head.table, *_DECIMAL_LINES),
        )
    return Rules(None, word, footnotes)


def _ask_for_footnotes(head: Header, cells: Sequence[object]) -> None:
    """Raise `Ambiguous` if amounts are followed by marks that seem to refer to footnotes."""
    found = {mark: cell for cell in cells if (mark := footnote_mark(cell))}
    settled = head.shape.footnotes
    if found.keys() <= set(settled):
        return
    examples = " and ".join(repr(as_text(cell)[:40]) for cell in [*found.values()][:2])
    notes = [note for mark in found if (note := _footnote(head.grid, mark))]
    explained = f" The file says {' and '.join(map(repr, notes))}." if notes else ""
    line = f"footnotes = {quote_list(dict.fromkeys([*settled, *found]))}"
    # A footnote or a letter may mean that amounts are in thousands, or that they are debts, so a
    # person must decide.
    is_harmless = not any(map(_CHANGES.search, notes)) and not any(map(str.isalpha, "".join(found)))
    message = (
        f"{head.location}: amounts like {examples} are followed by a mark that looks like a "
        f"footnote mark.{explained} With this setting, the amounts are read without the mark."
    )
    raise Ambiguous(message, f"{head.table}\n{line}" if is_harmless else choices(head.table, line))


def _footnote(grid: Grid, mark: str) -> str:
    """Return the line in a sheet that begins with a footnote mark, or an empty string."""
    texts = (first_text(row) for row in chain(grid.rows[:HEAD], reversed(grid.rows[-HEAD:])))
    return next((text[:80] for text in texts if text.startswith(mark) and text != mark), "")


def _ask_for_negative_word(head: Header, cells: Sequence[object]) -> None:
    """Raise `Ambiguous` if amounts are marked CR or DR."""
    example = next((cell for cell in cells if taken_apart(as_text(cell)) == NEEDS_WORD), None)
    if example is not None:
        raise Ambiguous(
            f"{head.location}: amounts like {as_text(example)[:40]!r} say CR or DR, and the file "
            "does not show which of the two means negative.",
            choices(head.table, 'negative_word = "CR"', 'negative_word = "DR"'),
        )


def _telling(head: Header) -> Sequence[object]:
    """Return the cells that show how amounts are written."""
    cells: list[object] = []
    rows = head.grid.rows
    for column in head.amount_columns:
        if isinstance(rows, Cells):
            cells += telling_cells(rows.column(column).slice(head.body))
        else:
            cells += _column(rows, column)[head.body :]
    return cells


def dates_of(head: Header) -> tuple[Sequence[date | None], frozenset[int]]:
    """Return the date of each row (or None), and the rows whose date cannot be read.

    Unlike a row without a date, a row whose date cannot be read may belong to a different day.
    Raises `Ambiguous` if a date like 01/02/2026 may be in January or February, or if no date can be
    read.
    """
    column = head.columns.get("as_of")
    if column is None:
        return [None] * len(head.grid.rows), frozenset()
    cells = _column(head.grid.rows, column)
    order = head.shape.dates or order_of(dict.fromkeys(cells[head.body :]))
    settled = head.context.remembered.setdefault(head.fingerprint, {})
    if order == "?":
        order = settled.get(_DATES, "?")
    if order == "?":
        example = next(cell for cell in cells[head.body :] if order_of([cell]) == "?")
        raise question_of_order(
            f"{head.location}: the date {example!r} could begin with the day or the month, and no "
            "other date in the column shows which one is right.",
            list(dict.fromkeys(cells[head.body :])),
            head.table,
            head.context.day,
        )
    if order:
        settled[_DATES] = order
    dates = {cell: date_of(cell, order) for cell in set(cells)}
    invalid = {cell for cell, day in dates.items() if day is None and as_text(cell).strip()}
    rows = [row for row, cell in enumerate(cells) if row >= head.body and cell in invalid]
    if rows and not any(dates[cell] for cell in cells[head.body :]):
        _ask_for_dates(head, [(row, cells[row]) for row in rows])
    return [dates[cell] for cell in cells], frozenset(rows)


def _ask_for_dates(head: Header, invalid: Sequence[tuple[int, object]]) -> None:
    """Raise `Ambiguous` for a date column without valid dates, unless it contains only notes."""
    amounts = _column(head.grid.rows, head.columns["amount"])
    example = next((cell for row, cell in invalid if as_text(amounts[row]).strip()), None)
    if example is not None:
        title = head.titles[head.columns["as_of"]]
        raise Ambiguous(
            f"{head.location}: the {title!r} column seems to contain each row's date, but values "
            f"like {as_text(example)[:40]!r} are not valid dates. Write dates as YYYY-MM-DD, for "
            "example 2026-11-20. If the column does not contain the rows' dates, use this setting "
            "to ignore it.",
            choices(head.table, 'as_of = ""'),
        )


def _column(rows: Sequence[Row], column: int) -> list[object]:
    if isinstance(rows, Cells):
        texts: list[object] = rows.column(column).to_pylist()
        return texts
    return [row[column] if len(row) > column else "" for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountReader:
    """A reader for a sheet's amounts that knows their decimal convention, unit and signs.

    `positive_word` is the only word in the sign column that recon.toml does not list.
    """

    head: Header
    rules: Rules
    unit: Decimal = Decimal(1)
    positive_word: str = ""

    def read_all(
        self, layer: Layer, rows: Iterable[Row], assets: Iterable[str]
    ) -> list[Amount | str]:
        """Return each row's amount, or the reason why it cannot be used.

        Each distinct cell is parsed only once.
        """
        parse = lru_cache(maxsize=None, typed=True)(partial(read, rules=self.rules))
        places = [term.column for term in layer.terms]
        terms = ([parse(row[at] if len(row) > at else "") for at in places] for row in rows)
        return list(map(partial(self._add_terms, layer), rows, terms, assets))

    def _add_terms(
        self, layer: Layer, cells: Row, terms: Sequence[Amount | str], asset: str
    ) -> Amount | str:
        """Add up the columns of a row's amount, then apply the row's unit and sign."""
        # Some columns that are added up may be blank, for example `locked` if nothing is locked. If
        # all of them are blank, the sum is blank too, not 0.
        parts: list[Amount] = []
        for term, part in zip(layer.terms, terms, strict=True):
            if isinstance(part, Amount):
                parts.append(negate(part) if term.is_negative else part)
            elif part != BLANK or len(layer.terms) == 1:
                return part
        if not parts:
            return BLANK
        unit = self._unit(cells, asset)
        if isinstance(unit, str):
            return unit
        is_plain = len(parts) == 1 and unit == 1
        amount = parts[0] if is_plain else add_up(parts, unit)
        return amount if self.head.sign is None else self._apply_sign(amount, cells)

    def _unit(self, cells: Row, asset: str) -> Decimal | str:
        """Return the factor for a row's unit, or the reason why the unit cannot be used."""
        if self.head.unit is None:
            return self.unit
        word = text_at(cells, self.head.unit)
        factor = factor_of(word, self.head, asset)
        return f"the unit {word[:40]!r} is unknown" if factor is None else factor * self.unit

    def _apply_sign(self, amount: Amount, cells: Row) -> Amount | str:
        """Apply the sign that a word in the same row specifies."""
        word = text_at(cells, self.head.sign)
        is_minus = is_negative(word, self.head)
        if is_minus is None and word and fold(word) == fold(self.positive_word):
            is_minus = False
        if is_minus is None and not word and amount.text == "0":
            return amount
        if is_minus is None:
            return f"the sign {word[:40]!r} is unknown"
        return negate(amount) if is_minus else amount


def is_negative(word: str, head: Header) -> bool | None:
    """Return whether a word in the sign column makes an amount negative, or None if unknown."""
    shape, words = head.shape, head.words
    name = fold(word)
    if name in map(fold, shape.negative_words):
        return True
    if name in map(fold, shape.positive_words) or word == "+":
        return False
    side = words.side_of(word)
    negative = {words.side_of(text) for text in shape.negative_words}
    if side and side in negative:
        return None if OPPOSITE[side] in negative else True
    return False if OPPOSITE.get(side, "") in negative else None


def factor_of(word: str, head: Header, asset: str) -> Decimal | None:
    """Return a unit's factor for an asset, or None if the unit is unknown."""
    name = fold(word)
    for known, factor in head.shape.unit_words.items():
        if fold(known) == name:
            return factor
    return Decimal(1) if name and name == fold(asset) else None


_STATED, _MADE = "stated", "made"

# The words before a date show whether the amounts are for that day, or whether the report was only
# created on that day.
_WORDS = re.compile(
    r"\b(?:(?P<made>print|creat|generat|export|produc|made|run|download|extract|gedruckt|druck"
    r"|erstellt|erzeugt|imprim|[e\u00e9]dit|cr[e\u00e9][e\u00e9]|g[e\u00e9]n[e\u00e9]r|impres|stampa)"
    r"|(?P<stated>as[ -](?:of|at)\b|per\b|stand\b|stichtag|valuation|value date|balance date"
    r"|position date|business date|au\b|al\b|situation))",
    re.IGNORECASE,
)


def title_day(rows: Iterable[Row], day: date) -> date | None:
    """Return the date found in the rows above the header, or None.

    A date after words like `as of` takes precedence over other dates. The date on which a report
    was printed does not count. If several dates are equally good, for example the two ends of a
    period, return the book's day if it is one of them, or else the latest date.
    """
    days_by_kind: dict[str, list[date]] = {_STATED: [], "": [], _MADE: []}
    for row in rows:
        label = ""
        for cell in row:
            for about, written in _days(cell, label, day):
                days_by_kind[about].append(written)
            label = as_text(cell) or label
    counting = days_by_kind[_STATED] or days_by_kind[""]
    return day if day in counting else max(counting, default=None)


def _days(cell: object, label: str, day: date) -> Iterator[tuple[str, date]]:
    """Yield the dates in a cell, each classified by the words before it.

    If a date like 02/03/2026 can mean two days, and one of them is the book's day, yield that day.
    """
    if isinstance(cell, date):
        yield _kind_of_words(label), cell.date() if isinstance(cell, datetime) else cell
    elif isinstance(cell, str):
        end, about = 0, _kind_of_words(label)
        for written in DATE.finditer(cell):
            about = _kind_of_words(cell[end : written.start()]) or about
            end = written.end()
            read = [date_of(written[0], order) for order in ORDERS]
            days = [read_day for read_day in read if read_day is not None]
            if days:
                yield about, day if day in days else days[0]


def _kind_of_words(words: str) -> str:
    """Classify the words before a date by the known word that is closest to the date."""
    kinds = [word.lastgroup or "" for word in _WORDS.finditer(words)]
    return kinds[-1] if kinds else ""


def day_of(source: LedgerSource) -> date | None:
    """Return a ledger's day.

    A date in its rows or titles takes precedence over one in its names.
    """
    return source.as_of or day_in(source.sheet) or day_in(source.name)


def late_sources(ledger: Ledger, config: Config, day: date) -> list[LedgerSource]:
    """Return the ledgers from other days that recon.toml does not allow for this day."""
    return [
        source
        for source in ledger.sources
        if day_of(source) not in (None, day)
        and source.name not in config.late.get(day.isoformat(), ())
    ]


def question_of_late(late: Sequence[LedgerSource], day: date) -> Late:
    """Build the question that asks whether to use other days' ledgers."""
    sentences = " and ".join(f"{source.name} is as of {day_of(source)}" for source in late)
    lines = [setting(name, "used") for name in dict.fromkeys(source.name for source in late)]
    return Late(
        f"The book is as of {day}, but {sentences}. A ledger for another day is not used, because "
        "the comparison would show breaks that are already settled. Put the ledger for the book's "
        "day into the inbox, or remove the other ledger. To use the other ledger anyway, add its "
        "line to recon.toml.",
        choices(f"[late.{day}]", *lines),
    )
