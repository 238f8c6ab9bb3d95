"""What the page is made of: sections of sentences, charts and tables, each with its query."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from markupsafe import Markup, escape

from warehouse.contract.model import count_of
from warehouse.report import wording
from warehouse.report.answers import QueryRows, Record

Cell = Callable[[Record], Any]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: its head, what it shows of a row, and whether it is a number."""

    head: str
    cell: Cell
    is_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlock:
    """Heads, cells, the query, and `more`: what is said where rows are left out."""

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Markup, ...], ...]
    more: str
    sql: str


@dataclass(frozen=True, slots=True)
class Chart:
    """An SVG drawing with what it is called (it may be from the wire) and what it shows."""

    title: Markup
    svg: Markup
    caption: Markup
    sql: str


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page: its figure in a word, paragraphs, then charts and tables."""

    key: str
    title: str
    figure: str
    _: KW_ONLY
    notes: tuple[Markup, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[TableBlock, ...] = ()

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries of the charts that no table below them shows."""
        in_tables = {table.sql for table in self.tables}
        return tuple(
            dict.fromkeys(chart.sql for chart in self.charts if chart.sql not in in_tables)
        )


def name_column(head: str, column: str) -> TableColumn:
    """Return a column of names or texts."""
    return TableColumn(head, lambda row: wording.name(row[column]))


def name_or_id(head: str, column: str) -> TableColumn:
    """Show a name, or the id in `..._id` where there is none."""
    return TableColumn(
        head,
        lambda row: wording.name(row[f"{column}_id"] if row[column] is None else row[column]),
    )


def asset(head: str = "Asset") -> TableColumn:
    """Return the asset of a row; it takes both `asset_id` and `is_custom_asset` to tell one."""
    return TableColumn(
        head, lambda row: wording.custom(row["asset_id"], is_custom=row["is_custom_asset"])
    )


def amount(head: str, column: str, *, signed: bool = False) -> TableColumn:
    """Return a column of amounts, rounded for the eye, each with its exact text."""
    return TableColumn(head, lambda row: wording.amount(row[column], signed=signed), is_number=True)


def count(head: str, column: str) -> TableColumn:
    """Return a column of whole numbers."""
    return TableColumn(head, lambda row: wording.digits(row[column]), is_number=True)


def date(head: str, column: str) -> TableColumn:
    """Return a column of dates."""
    return TableColumn(head, lambda row: wording.day(row[column]))


def moment(head: str, column: str) -> TableColumn:
    """Return a column of times."""
    return TableColumn(head, lambda row: wording.moment(row[column]))


def table(
    title: str, answered: QueryRows, columns: tuple[TableColumn, ...], most: int | None = None
) -> TableBlock:
    """Return the rows of an answer as cells, or its first; a sentence says what was left out."""
    rows = tuple(
        tuple(escape(column.cell(row)) for column in columns) for row in answered.rows[:most]
    )
    left = answered.count - len(rows)
    more = f"{count_of(left, 'more row')} not shown here: the query gives all." if left else ""
    return TableBlock(title=title, columns=columns, rows=rows, more=more, sql=answered.sql)


def with_rows(*tables: TableBlock) -> tuple[TableBlock, ...]:
    """Return the tables in which something stands."""
    return tuple(table for table in tables if table.rows)


def sentence_section(key: str, title: str, figure: str, sentence: str) -> Section:
    """Return a section that says one thing, where there is nothing to show."""
    return Section(key, title, figure, notes=(note(sentence),))


def note(text: str, *values: object) -> Markup:
    """Return a sentence of ours around values; each is escaped."""
    return Markup(text).format(*values)  # noqa: S704 - text is written in this package
