"""Sheet rows as XML, written by DuckDB: one SELECT returns one string per row.

A row of 27 cells takes 10 microseconds of CPU time. XlsxWriter takes 9 microseconds for a single
cell (measured), so it writes everything except the rows of tables. Python handles only texts that
are not plain (see `PLAIN`).
"""

# ruff: noqa: S608 - texts are quoted, and `RowsQuery` has only SQL of ours

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import duckdb
import numpy as np
import pyarrow as pa
from duckdb import DuckDBPyConnection
from xlsxwriter.utility import xl_col_to_name

from warehouse.contract.model import literal, quote_identifier
from warehouse.spreadsheet.writing.cells import (
    CELL_LIMIT,
    MAX_NUMBER_LENGTH,
    PLAIN,
    SIGNIFICANT,
    Digits,
    text_cell,
)
from warehouse.spreadsheet.writing.layout import (
    DECIMALS,
    MIN_DECIMALS,
    SheetColumn,
    SheetColumnKind,
)

_ROW_NUMBER = "number of the row"
BATCH = 1024  # number of rows in a batch, which is about a megabyte of XML
AMOUNT = r"-?[0-9]+(\.[0-9]+)?"
_TEXTS = (SheetColumnKind.TEXT, SheetColumnKind.EXACT)
_FUNCTION_NUMBERS = itertools.count(1)
# The height of a row with one line, and the height of the tallest row, in points.
LINE, HIGHEST = 15, 405
RowsXml = bytes | memoryview  # the XML of one or more rows


@dataclass(frozen=True, slots=True)
class Styles:
    """One sheet's style numbers, read from the model row that XlsxWriter wrote.

    `plain` and `hostile` map column letters to styles. `hostile` is for texts that would become
    formulas if a person typed them. `amounts` contains one style for each number of decimal
    places, starting with two.
    """

    plain: Mapping[str, str]
    hostile: Mapping[str, str]
    amounts: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsQuery:
    """The SQL that selects one sheet's rows.

    `rows` is the SQL after `from`. `values` maps each source to SQL that returns a whole number for
    COUNT, the exact amount as text for NUMBER and EXACT, and otherwise a text. DIGITS needs no
    source. `number` is the row number in the sheet. The first row below the header is row 2.
    """

    columns: tuple[SheetColumn, ...]
    values: Mapping[str, str]
    number: str
    rows: str


def stream_rows(
    connection: DuckDBPyConnection,
    query: RowsQuery,
    styles: Styles,
    shortened: Mapping[str, str],
    on_rows: Callable[[int], None] = lambda _: None,
) -> Iterator[memoryview]:
    """Yield the query's rows as XML. After each batch, call `on_rows` with its number of rows.

    `shortened` maps texts that are too long to the shorter texts in their cells. Raises
    `ValueError` if the value of a NUMBER is not an amount.
    """

    @lru_cache(maxsize=10_000)
    def render_text(text: str, plain: str, hostile: str) -> str:
        return text_cell(shortened.get(text, text), plain, hostile)

    # Run a query to end the caller's query, because DuckDB cannot create a function during a query.
    connection.execute("select 1").fetchall()
    name = f"text_cell_{next(_FUNCTION_NUMBERS)}"
    connection.create_function(name, render_text, ["VARCHAR"] * 3, "VARCHAR")
    try:
        rows = connection.sql(_Statement(query, styles, name).sql())
        with rows.to_arrow_reader(BATCH) as reader:
            for batch in reader:
                yield _bytes(batch.column(0))
                on_rows(batch.num_rows)
    except (
        duckdb.InvalidInputException,
        OSError,
    ) as error:  # If DuckDB raises an error, pyarrow converts it to an OSError.
        raise ValueError(str(error)) from error
    finally:
        connection.remove_function(name)


def render_rows(
    columns: tuple[SheetColumn, ...],
    batches: Iterable[Mapping[str, Sequence[object]]],
    styles: Styles,
    shortened: Mapping[str, str],
) -> Iterator[memoryview]:
    """Convert rows in memory to XML. The first row is row 2 of the sheet.

    Each batch maps sources to values: integers for COUNT, otherwise strings. Raises `ValueError` if
    the value of a NUMBER is not an amount.
    """
    fields = {
        column.source: pa.int64() if column.kind is SheetColumnKind.COUNT else pa.string()
        for column in columns
        if column.kind is not SheetColumnKind.DIGITS
    }
    schema = pa.schema({_ROW_NUMBER: pa.int64()} | fields)

    def record_batches() -> Iterator[pa.RecordBatch]:
        first = 2
        for values in batches:
            rows = range(first, first + len(next(iter(values.values()))))
            columns = [pa.array(values[name], kind) for name, kind in fields.items()]
            yield pa.record_batch([pa.array(rows, pa.int64()), *columns], schema=schema)
            first = rows.stop

    query = RowsQuery(
        columns=columns,
        values={name: quote_identifier(name) for name in fields},
        number=quote_identifier(_ROW_NUMBER),
        rows="given",
    )
    # One thread is enough, because DuckDB reads the batches in turn while the caller packs rows.
    with duckdb.connect(config={"threads": 1}) as connection:
        reader = pa.RecordBatchReader.from_batches(schema, record_batches())
        connection.register("given", reader)
        yield from stream_rows(connection, query, styles, shortened)


def _bytes(texts: pa.Array) -> memoryview:
    """Return the bytes of an array's strings without copying them."""
    _, ends, characters = texts.buffers()
    first, last = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]]
    return memoryview(characters)[int(first) : int(last)]


@dataclass(frozen=True, slots=True)
class _Statement:
    """The SELECT for a sheet. It checks amounts, renders text cells, and then renders rows."""

    query: RowsQuery
    styles: Styles
    text_cell: str

    def sql(self) -> str:
        """Return the complete SELECT statement."""
        columns = [(letter, column) for letter, column in self._columns() if column.kind in _TEXTS]
        texts = {_text(letter): self._text(letter, column) for letter, column in columns}
        tall = [_text(letter) for letter, column in columns if not self._is_amount(column)]
        values = [f"{sql} as {_value(name)}" for name, sql in self.query.values.items()]
        proved = [f"{self._check_amount(name)} as {_amount(name)}" for name in self._amounts()]
        rendered = [f"{sql} as {text}" for text, sql in texts.items()]
        cells = ", ".join(self._cell(letter, column) for letter, column in self._columns())
        return (
            f"select concat('<row r=\"', row_no, {_height(tall)}, '\">', {cells}, '</row>') "
            f"from (select *, {self._decimals_of_row()} as row_decimals "
            f"from (select {', '.join(['*', *proved, *rendered])} "
            f"from (select ({self.query.number})::varchar as row_no, {', '.join(values)} "
            f"from {self.query.rows})))"
        )

    def _decimals_of_row(self) -> str:
        """Return SQL for the number of decimal places that all amounts in a row show."""
        # Calculate the number of decimal places once, in a separate column, because all amounts in
        # the row need it. This makes an export 10 % faster.
        decimals = [f"coalesce({_decimals(_amount(name))}, 0)" for name in self._amounts()]
        return f"greatest({', '.join([*decimals, '0'])})"

    def _columns(self) -> Iterator[tuple[str, SheetColumn]]:
        for index, column in enumerate(self.query.columns):
            yield str(xl_col_to_name(index)), column

    def _amounts(self) -> list[str]:
        kind = SheetColumnKind.NUMBER
        return list(
            dict.fromkeys(column.source for column in self.query.columns if column.kind is kind)
        )

    def _is_amount(self, column: SheetColumn) -> bool:
        """Return whether `_check_amount` checks every text of a column."""
        # Texts that `_check_amount` accepts need no further check and have only one line. Skipping
        # the second check saves 8 % of an export's time.
        return column.source in self._amounts()

    def _check_amount(self, source: str) -> str:
        value = _value(source)
        message = "is not an amount in plain digits, so no file was written"
        return (
            f"case when {value} is null or regexp_full_match({value}, '{AMOUNT}') then {value} "
            f"else error(left({value}, 60) || ' {message}') end"
        )

    def _text(self, letter: str, column: SheetColumn) -> str:
        """Return SQL for the end of a text cell, after the row number in the cell's name."""
        value, plain = _value(column.source), self.styles.plain[letter]
        is_exact = column.kind is SheetColumnKind.EXACT
        is_drawn = column.is_printed and not is_exact
        pattern = f"{PLAIN}|[0-9.-]*" if is_exact else PLAIN
        is_plain = f"regexp_full_match({value}, '{pattern}')"
        return (
            f"case when {value} is null then {self._blank(letter) if is_drawn else 'null'} "
            f"when strlen({value}) <= {CELL_LIMIT} "
            f"and {'true' if self._is_amount(column) else is_plain} "
            f"then concat({_inline(plain, value)}) "
            f"else {self.text_cell}({value}, '{plain}', '{self.styles.hostile[letter]}') end"
        )

    def _blank(self, letter: str) -> str:
        return literal(f'" s="{self.styles.plain[letter]}"/>')

    def _cell(self, letter: str, column: SheetColumn) -> str:
        """Return comma-separated SQL expressions for a cell. A missing cell is NULL."""
        # Use `concat` for many pieces, because every `||` copies all earlier pieces.
        start, plain = f"'<c r=\"{letter}', row_no", self.styles.plain[letter]
        if column.kind is SheetColumnKind.TEXT and column.is_printed:
            return f"{start}, {_text(letter)}"  # The text of a printed text column is never NULL.
        if column.kind in _TEXTS:
            return f"'<c r=\"{letter}' || row_no || {_text(letter)}"
        if column.kind is SheetColumnKind.NUMBER:
            return self._number(letter, column)
        if column.kind is SheetColumnKind.COUNT:
            value, begin = _value(column.source), literal(f'" s="{plain}"><v>')
            cell = f"concat({start}, {begin}, {value}, '</v></c>')"
            return f"case when {value} is not null then {cell} end"
        return f"{start}, {_inline(plain, self._digits())}"

    def _number(self, letter: str, column: SheetColumn) -> str:
        start, amount = f"'<c r=\"{letter}', row_no", _amount(column.source)
        shown = (
            f"case when row_decimals <= {DECIMALS} then row_decimals "
            f"else greatest({DECIMALS}, {_decimals(amount)}) end"
        )
        styles = ", ".join(literal(f'" s="{style}"><v>') for style in self.styles.amounts)
        index = f"greatest(0, least({DECIMALS + 1}, {shown}) - {MIN_DECIMALS}) + 1"
        # Parse the printed number to check it, because DuckDB 2.0.0 prints 2 to the power of 81 as
        # twice the value.
        double = f"{amount}::double"
        number = (
            f"case when strlen({amount}) <= {SIGNIFICANT} then {amount} "
            f"when try_cast({double}::varchar as double) = {double} then {double}::varchar "
            f"else format('{{:.17g}}', {double}) end"
        )
        blank = f"else concat({start}, {self._blank(letter)}) " if column.is_printed else ""
        return (
            f"case when strlen({amount}) <= {MAX_NUMBER_LENGTH} "
            f"then concat({start}, [{styles}][{index}], {number}, '</v></c>') {blank}end"
        )

    def _digits(self) -> str:
        """Return SQL for a row's label, which describes the least exact number in the row."""
        amounts = [_amount(name) for name in self._amounts()]
        longest = ", ".join([*(f"strlen({amount})" for amount in amounts), "0"])
        rounded = " or ".join(is_rounded(amount) for amount in amounts)
        words = {digits: literal(digits.words) for digits in Digits}
        return (
            f"case when greatest({longest}) > {MAX_NUMBER_LENGTH} then {words[Digits.TEXT_ONLY]} "
            f"when {rounded or 'false'} then {words[Digits.ROUNDED]} "
            f"else {words[Digits.EXACT]} end"
        )


def is_rounded(amount: str) -> str:
    """Return SQL that tests whether an amount has more digits than a number cell can store."""
    digits = f"strlen(trim(replace({amount}, '.', ''), '-0'))"
    return f"(strlen({amount}) > {SIGNIFICANT} and {digits} > {SIGNIFICANT})"


def _inline(style: str, text: str) -> str:
    """Return comma-separated SQL for the end of a text cell whose text needs no escaping."""
    return f"""{literal(f'" s="{style}" t="inlineStr"><is><t>')}, {text}, '</t></is></c>'"""


def _value(source: str) -> str:
    return quote_identifier(f"value {source}")


def _amount(source: str) -> str:
    return quote_identifier(f"amount {source}")


def _text(letter: str) -> str:
    return quote_identifier(f"text {letter}")


def _height(texts: list[str]) -> str:
    """Return SQL for a row's height. The height is NULL if every string in the row has one line."""
    if not texts:
        return "null"
    lines = ", ".join(f"strlen({text}) - strlen(replace({text}, chr(10), ''))" for text in texts)
    several = " or ".join(f"contains({text}, chr(10))" for text in texts)
    height = f"least({LINE} * (1 + greatest({lines})), {HIGHEST})"
    return f"case when {several} then '\" ht=\"' || {height} || '\" customHeight=\"1' end"


def _decimals(amount: str) -> str:
    """Return SQL for the number of digits after an amount's decimal point."""
    return f"(strlen({amount}) - coalesce(nullif(instr({amount}, '.'), 0), strlen({amount})))"
