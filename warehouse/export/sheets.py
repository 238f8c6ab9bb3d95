"""The sheets of the positions workbook."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from warehouse.contract.firm import NIGHTS, SOURCE
from warehouse.contract.model import literal, quote_identifier
from warehouse.export.staged_tables import columns_of, longest, longest_whole, meanings
from warehouse.export.totals import TotalLine
from warehouse.query.book import EXHIBITS, PORTFOLIO_NAME, VENUE_NAME, Exhibit, OpenBook
from warehouse.query.connect import records
from warehouse.query.origins import key_of_columns
from warehouse.spreadsheet.writing.cells import LONG_TEXTS, pieces
from warehouse.spreadsheet.writing.layout import (
    WIDEST,
    SheetColumn,
    SheetColumnKind,
    TableSheet,
    fitting,
    title,
)
from warehouse.spreadsheet.writing.rows import (
    RowsQuery,
    RowsXml,
    Styles,
    render_rows,
    stream_rows,
)

LOOKUP_KEY = "lookup_key"


def lookup_columns(exhibit: Exhibit) -> Iterator[SheetColumn]:
    """Yield what lookups from another workbook go by: last, for older lookups count columns."""
    yield SheetColumn(
        LOOKUP_KEY,
        "Key",
        "lookup_key: the same text for the same position in every workbook of nightbook, for "
        "XLOOKUP, VLOOKUP and MATCH.",
        SheetColumnKind.TEXT,
        width=21,
        is_printed=False,
    )
    if "venue_id" in exhibit.key:
        words = "venue_name: what people call the venue, as the reconciliation shows it."
        yield SheetColumn(
            VENUE_NAME, "Venue name", words, SheetColumnKind.TEXT, width=24, is_printed=False
        )


TOTAL = "total_text"
_TITLES = {
    PORTFOLIO_NAME: "Portfolio",
    "portfolio_id": "Portfolio id",
    "asset_id": "Asset",
    "is_custom_asset": "Custom",
    "venue_id": "Venue",
    "account_name": "Account",
    "duplicate_no": "Duplicate no.",
    "balance_count": "Amounts stated",
}
_COUNTS = ("portfolios", "accounts", "venues")
_OFF_PAPER = ("portfolio_id", "duplicate_no", "balance_count")
_PRINTED_PARTS = 3
_PRINTED_PROOF = 6
_WIDEST_PROOF = 66  # a SHA-256 is seen whole
_PLACES = ("In the JSON", "In the lake", "In the warehouse")
FLAG = "is_custom_asset"
_DECIMALS = 11  # the point and what the number format shows behind it
_DIGITS = SheetColumn(
    "digits",
    "Digits",
    "digits: exact where every number of the row is its exact text; rounded where one has more "
    "than 15 digits, of which the number keeps 15; text only where no number can hold one.",
    SheetColumnKind.DIGITS,
    width=10,
)


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells of a table that is no view: column by column, texts or None."""

    columns: tuple[SheetColumn, ...]
    values: Mapping[str, Sequence[str | None]]

    @classmethod
    def of(
        cls, columns: tuple[SheetColumn, ...], rows: Sequence[Mapping[str, str | None]]
    ) -> "TextTable":
        """Return a table of rows by the sources of its columns."""
        return cls(
            columns, {column.source: [row.get(column.source) for row in rows] for column in columns}
        )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.values.values())))


def shown_columns(source: OpenBook, exhibit: Exhibit) -> tuple[SheetColumn, ...]:
    """Return the columns of a sheet: names, totals, parts and counts, then the rest.

    Many parts stay off the paper, for which the total is.
    """
    kinds = columns_of(source, exhibit)
    texts = longest(source, exhibit)
    whole = longest_whole(source, exhibit)
    meaning_of = meanings(exhibit)

    def columns_of_kind(
        names: Iterable[str], kind: SheetColumnKind, *, printed: bool = True
    ) -> Iterator[SheetColumn]:
        for name in names:
            width = fitting(texts.get(name, len(title(name))))
            if kind is SheetColumnKind.NUMBER:
                width = _number_width(whole[name])
            yield _column(name, kind, meaning_of, width, printed=printed)

    exact = [name for name in kinds if name.endswith("_text")]
    parts = [name for name in exact if name != TOTAL]
    names = [name for name in (SOURCE.name, PORTFOLIO_NAME) if name in kinds]
    names += [name for name in exhibit.key if name not in (*_OFF_PAPER, SOURCE.name)]
    return (
        *columns_of_kind(names, SheetColumnKind.TEXT),
        *columns_of_kind([TOTAL], SheetColumnKind.NUMBER),
        _DIGITS,
        *columns_of_kind([TOTAL], SheetColumnKind.EXACT),
        *columns_of_kind([name for name in _COUNTS if name in kinds], SheetColumnKind.COUNT),
        *columns_of_kind(parts, SheetColumnKind.NUMBER, printed=len(parts) <= _PRINTED_PARTS),
        *columns_of_kind(
            [name for name in exhibit.key if name == "portfolio_id"],
            SheetColumnKind.TEXT,
            printed=False,
        ),
        *columns_of_kind(
            [name for name in _OFF_PAPER[1:] if name in kinds], SheetColumnKind.COUNT, printed=False
        ),
        *columns_of_kind(parts, SheetColumnKind.EXACT, printed=False),
        *lookup_columns(exhibit),
    )


def _column(
    name: str, kind: SheetColumnKind, meaning_of: Mapping[str, str], width: float, *, printed: bool
) -> SheetColumn:
    column = name if kind is SheetColumnKind.EXACT else name.removesuffix("_text")
    heading, meaning = _TITLES.get(column, title(column)), f"{column}: {meaning_of[column]}"
    return SheetColumn(name, heading, meaning, kind, width=width, is_printed=printed)


def _number_width(whole: int) -> float:
    """Return a width for the digits before the point with their commas, and those behind."""
    return max(12.0, whole + whole // 3 + _DECIMALS + 1.0)


def fill_sheet(
    source: OpenBook,
    exhibit: Exhibit,
    sheet: TableSheet,
    shortened: Mapping[str, str],
    styles: Styles,
) -> Iterator[RowsXml]:
    """Yield the rows of one sheet of an exhibit; `shortened` has what texts too long show."""
    sources = {column.source for column in sheet.columns} - {_DIGITS.source}
    values = {name: _value_sql(exhibit, name) for name in sources}
    first, after = sheet.start, sheet.start + sheet.rows
    query = RowsQuery(
        columns=sheet.columns,
        values=values,
        # A staged table has its rows in the order in which they were put in.
        number=f"rowid - {first} + 2",
        rows=f"{exhibit.staged_name} where rowid >= {first} and rowid < {after}",
    )
    yield from stream_rows(source.connection, query, styles, shortened, source.on_rows)


def _value_sql(exhibit: Exhibit, name: str) -> str:
    """Return the SQL of what a column shows."""
    if name == LOOKUP_KEY:
        return key_of_columns(exhibit.key)
    if name == FLAG:
        return f"case when {FLAG} then {literal(yes(True))} else {literal(yes(False))} end"
    return quote_identifier(name)


def filled_texts(
    table: TextTable, sheet: TableSheet, shortened: Mapping[str, str], styles: Styles
) -> Iterator[RowsXml]:
    """Yield the rows of one sheet of texts."""
    part = slice(sheet.start, sheet.start + sheet.rows)
    values = {name: column[part] for name, column in table.values.items()}
    yield from render_rows(sheet.columns, [values], styles, shortened)


def yes(flag: object) -> str:
    """Return a flag in words that do not change with the reader's language."""
    return "yes" if flag else "no"


def evidence(source: OpenBook, lines: Iterable[TotalLine], program_version: str) -> TextTable:
    """Return what is behind the figures: versions, control totals, and the bodies."""
    rows = [*_about(source, program_version), *map(_line, lines), *_bodies(source)]
    heads = (
        ("Kind", "run, rows, total or body."),
        ("Of", "What is stated: a setting, a table, an asset, or a request."),
        ("Custom", "For a total: whether the asset is custom."),
        ("Value", "The text itself; for a body the SHA-256 of its bytes as landed."),
        (_PLACES[0], "Counted or summed in the landed bodies, exact."),
        ("Ties", "yes where all that state the figure agree to the last digit."),
        (_PLACES[1], "The same in the Parquet files."),
        (_PLACES[2], "The same in the database."),
        *((exhibit.title, f"The same over sheet {exhibit.title}.") for exhibit in EXHIBITS),
    )
    figures = {*_PLACES, *(exhibit.title for exhibit in EXHIBITS)}
    columns = tuple(
        SheetColumn(
            name,
            name,
            meaning,
            SheetColumnKind.EXACT if name in figures else SheetColumnKind.TEXT,
            width=width_of(name, (row.get(name) for row in rows), _WIDEST_PROOF),
            is_printed=position < _PRINTED_PROOF,
        )
        for position, (name, meaning) in enumerate(heads)
    )
    return TextTable.of(columns, rows)


def width_of(head: str, texts: Iterable[str | None], widest: int = WIDEST) -> float:
    """Return the width of a column in which a head and texts are seen whole."""
    return fitting(max(len(text or "") for text in (head, *texts)), widest)


def _about(source: OpenBook, program_version: str) -> Iterator[dict[str, str | None]]:
    snapshot, build = source.snapshot, source.build
    facts = {
        "as of": source.day.isoformat(),
        "book": source.snapshot_id,
        "read from": f"{snapshot['started_at']:%Y-%m-%d %H:%M:%S} UTC",
        "read until": f"{snapshot['finished_at']:%Y-%m-%d %H:%M:%S} UTC",
        "state": snapshot["state"],
        "decided by": snapshot["decided_by"],
        "requests": str(snapshot["request_count"]),
        "requests given up": str(snapshot["failed_request_count"]),
        "bytes received": str(snapshot["byte_count"]),
        "records rejected": plain_text(snapshot["reject_count"]),
        "values kept as text only": plain_text(snapshot["inexact_count"]),
        "workbook made by": f"nightbook {program_version}",
        "warehouse made by": f"nightbook {build['program_version']}",
        "schema of the warehouse": build["schema_version"],
        "DuckDB that wrote it": build["duckdb_version"],
    }
    for of, value in facts.items():
        yield {"Kind": "run", "Of": of, "Value": value}


def plain_text(value: object) -> str | None:
    """Return what a cell of a text table says of a value."""
    if isinstance(value, bool):
        return yes(value)
    return None if value is None else str(value)


def _line(line: TotalLine) -> dict[str, str | None]:
    row: dict[str, str | None] = {
        "Kind": line.kind,
        "Of": line.of,
        "Ties": "yes" if line.ties else "NO",
    }
    row |= dict(zip(_PLACES, line.places, strict=True))
    if line.kind == "total":
        sheets = (exhibit.title for exhibit in EXHIBITS)
        return row | {"Custom": yes(line.is_custom)} | dict(zip(sheets, line.sheets, strict=True))
    sheet = {"accounts": "Accounts", "positions": "Holdings"}.get(line.of)
    return row | ({sheet: line.sheets[0]} if sheet and line.sheets else {})


def _bodies(source: OpenBook) -> Iterator[dict[str, str | None]]:
    query = f"select * from ops.requests where {source.of_snapshots} order by all"  # noqa: S608 - ids are ours and quoted
    for row in records(source.connection, query):
        asked = f"{row['source']}: " if source.is_firm else ""
        asked += f"GET {row['path']}" + (f"?{row['query']}" if row["query"] else "")
        value = row["sha256"] or f"no body: {row['error']}"
        yield {"Kind": "body", "Of": asked, "Value": value}


def long_texts(shortened: Mapping[str, str]) -> TextTable:
    """Return every text that no cell can hold, whole, in numbered pieces."""
    rows = [
        {"Text no.": str(no), "Piece": str(piece_no), "Text": piece}
        for no, text in enumerate(shortened, 1)
        for piece_no, piece in enumerate(pieces(text), 1)
    ]
    columns = tuple(
        SheetColumn(name, name, meaning, SheetColumnKind.TEXT, width=width)
        for name, meaning, width in (
            ("Text no.", "The number its cells give.", 10),
            ("Piece", "Pieces follow each other without a gap.", 8),
            ("Text", f"One piece of the text. {LONG_TEXTS} are cut nowhere else.", 120),
        )
    )
    return TextTable.of(columns, rows)


SOURCES = "Sources"
_HEADS = {
    "source": "Source",
    "is_in_book": "In these figures",
    "state": "State",
    "snapshot_id": "Snapshot",
    "as_of": "Last book",
    "reason": "Why not",
}


def source_sheet(source: OpenBook) -> TextTable:
    """Return a row for each organisation of the firm, with what its night came to."""
    query = "select * from ops.nights where snapshot_date = ? order by source"
    rows = [
        {name: plain_text(row[name]) for name in _HEADS}
        for row in records(source.connection, query, source.day)
    ]
    columns = tuple(
        SheetColumn(
            name,
            head,
            f"{name}: {NIGHTS.column(name).meaning}",
            SheetColumnKind.TEXT,
            width=width_of(head, (row[name] for row in rows)),
        )
        for name, head in _HEADS.items()
    )
    return TextTable.of(columns, rows)
