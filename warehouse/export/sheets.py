"""The sheets of the positions workbook."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from warehouse.contract.model import literal, quote_identifier
from warehouse.export.staged_tables import columns_of, longest, longest_whole, meanings
from warehouse.export.totals import TotalLine
from warehouse.query.book import PORTFOLIO_NAME, VALUES, VENUE_NAME, Exhibit, OpenBook
from warehouse.query.connect import records
from warehouse.query.lookup_keys import key_of_columns
from warehouse.spreadsheet.writing.cells import pieces
from warehouse.spreadsheet.writing.layout import (
    MAX_WIDTH,
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
    """Yield the columns for lookups from other workbooks.

    They are the last columns, because existing lookups count the columns from the left.
    """
    yield SheetColumn(
        LOOKUP_KEY,
        "Key",
        "lookup_key: Identifies the row, and is the same in every export and reconciliation. Use "
        "it with XLOOKUP, VLOOKUP and MATCH.",
        SheetColumnKind.TEXT,
        width=21,
        is_printed=False,
    )
    if "venue_id" in exhibit.key:
        meaning = "venue_name: Display name of the venue. The reconciliation uses the same name."
        yield SheetColumn(
            VENUE_NAME, "Venue name", meaning, SheetColumnKind.TEXT, width=24, is_printed=False
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
_PRINTED_EVIDENCE = 6
_WIDEST_EVIDENCE = 66  # maximum column width, wide enough for a SHA-256
_PLACES = ("In the JSON", "In the lake", "In the warehouse")
FLAG = "is_custom_asset"
# The meanings of two columns on the evidence sheet.
_KIND = (
    "The kind of the row: run (a fact about the night), rows (the row count of a table), total "
    "(the total of an asset) or body (an API response)."
)
_VALUE = (
    "The value. For a body: the SHA-256, which changes if the response changes. If the value is "
    "guards, nightbook's automatic checks accepted the night, not a person."
)
_DECIMALS = 11  # column width for the decimal point and the decimal places
_DIGITS = SheetColumn(
    "digits",
    "Digits",
    'digits: "exact" if every number in the row equals its exact text. "rounded" if an amount has '
    'more than 15 digits, because a number cell keeps only 15. "text only" if an amount does not '
    "fit in a number cell.",
    SheetColumnKind.DIGITS,
    width=10,
)


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table whose cells are all text, and whose rows are in memory and not in a view.

    Each row maps the `source` of a column to the cell's string, or to None for an empty cell.
    """

    columns: tuple[SheetColumn, ...]
    rows: Sequence[Mapping[str, str | None]]


def shown_columns(source: OpenBook, exhibit: Exhibit) -> tuple[SheetColumn, ...]:
    """Return a sheet's columns: names, total, counts, the parts of the total, and all others.

    The parts are amounts such as free and locked. If there are many, they are not printed.
    """
    kinds = columns_of(source, exhibit)
    texts = longest(source, exhibit)
    whole = longest_whole(source, exhibit)
    meaning_of = meanings(exhibit)

    def column(name: str, kind: SheetColumnKind, *, printed: bool = True) -> SheetColumn:
        source = name if kind is SheetColumnKind.EXACT else name.removesuffix("_text")
        meaning = f"{source}: {meaning_of[source]}".replace("NULL if", "Empty if")
        width = fitting(texts.get(name, len(title(name))))
        if kind is SheetColumnKind.NUMBER:
            # Leave room for the digits before the decimal point, their thousands separators, and
            # the decimal places.
            width = max(12.0, whole[name] + whole[name] // 3 + _DECIMALS + 1.0)
        heading = _TITLES.get(source, title(source))
        return SheetColumn(name, heading, meaning, kind, width=width, is_printed=printed)

    text, count = SheetColumnKind.TEXT, SheetColumnKind.COUNT
    number, exact = SheetColumnKind.NUMBER, SheetColumnKind.EXACT
    values = [name for name in kinds if name in VALUES]
    texts_of = [name for name in values if name.endswith("_text")]
    parts = [name for name in kinds if name.endswith("_text") and name not in (TOTAL, *values)]
    names = [PORTFOLIO_NAME] * (PORTFOLIO_NAME in kinds)
    names += [name for name in exhibit.key if name not in _OFF_PAPER]
    return (
        *(column(name, text) for name in names),
        column(TOTAL, number),
        _DIGITS,
        column(TOTAL, exact),
        *(column(name, count) for name in _COUNTS if name in kinds),
        *(column(name, number if name in texts_of else text) for name in values),
        *(column(name, number, printed=len(parts) <= _PRINTED_PARTS) for name in parts),
        *(column(name, text, printed=False) for name in exhibit.key if name == "portfolio_id"),
        *(column(name, count, printed=False) for name in _OFF_PAPER[1:] if name in kinds),
        *(column(name, exact, printed=False) for name in (*parts, *texts_of)),
        *lookup_columns(exhibit),
    )


def fill_sheet(
    source: OpenBook,
    exhibit: Exhibit,
    sheet: TableSheet,
    shortened: Mapping[str, str],
    styles: Styles,
) -> Iterator[RowsXml]:
    """Yield the rows for one sheet of an exhibit. `shortened` maps long texts to shorter ones."""
    sources = {column.source for column in sheet.columns} - {_DIGITS.source}
    values = {name: _value_sql(exhibit, name) for name in sources}
    first, after = sheet.start, sheet.start + sheet.rows
    query = RowsQuery(
        columns=sheet.columns,
        values=values,
        # Use `rowid` as the position of a row, because a staged table preserves the order of
        # insertion.
        number=f"rowid - {first} + 2",
        rows=f"{exhibit.staged_name} where rowid >= {first} and rowid < {after}",
    )
    yield from stream_rows(source.connection, query, styles, shortened, source.on_rows)


def _value_sql(exhibit: Exhibit, name: str) -> str:
    """Return the SQL expression for the value of an exhibit's column."""
    if name == LOOKUP_KEY:
        return key_of_columns(exhibit.key)
    if name == FLAG:
        return f"case when {FLAG} then {literal(yes(True))} else {literal(yes(False))} end"
    return quote_identifier(name)


def fill_texts(
    table: TextTable, sheet: TableSheet, shortened: Mapping[str, str], styles: Styles
) -> Iterator[RowsXml]:
    """Yield the rows for one sheet of a `TextTable`."""
    values = {
        column.source: [row.get(column.source) for row in table.rows] for column in sheet.columns
    }
    yield from render_rows(sheet.columns, [values], styles, shortened)


def yes(flag: object) -> str:
    """Return `yes` or `no`, because spreadsheet programs translate TRUE and FALSE."""
    return "yes" if flag else "no"


def evidence_sheet(source: OpenBook, lines: Iterable[TotalLine], program_version: str) -> TextTable:
    """Build the evidence sheet: facts about the night, control totals, and API response digests."""
    totals = (_line(line, [*source.rows]) for line in lines)
    rows = [*_about(source, program_version), *totals, *_bodies(source)]
    headers = (
        ("Kind", _KIND),
        ("Of", "The item, table, asset or request that the row is about."),
        ("Custom", "For a total: yes if the organisation defined the asset itself."),
        ("Value", _VALUE),
        (_PLACES[0], "The exact row count or total in the API's responses (JSON)."),
        ("Ties", "yes if all places that show the figure agree to the last digit."),
        (_PLACES[1], "The row count or total in the stored files (the lake)."),
        (_PLACES[2], "The row count or total in the database (the warehouse)."),
        *(
            (exhibit.title, f"The row count or total on sheet {exhibit.title}.")
            for exhibit in source.exhibits
        ),
    )
    figures = {*_PLACES, *source.rows}
    columns = tuple(
        SheetColumn(
            name,
            name,
            meaning,
            SheetColumnKind.EXACT if name in figures else SheetColumnKind.TEXT,
            width=width_of(name, (row.get(name) for row in rows), _WIDEST_EVIDENCE),
            is_printed=position < _PRINTED_EVIDENCE,
        )
        for position, (name, meaning) in enumerate(headers)
    )
    return TextTable(columns, rows)


def width_of(header: str, texts: Iterable[str | None], widest: int = MAX_WIDTH) -> float:
    """Return the column width that fits the header and all values."""
    return fitting(max(len(text or "") for text in (header, *texts)), widest)


def _about(source: OpenBook, program_version: str) -> Iterator[dict[str, str | None]]:
    snapshot, build = source.snapshot, source.build
    facts = {
        "as of": source.day.isoformat(),
        "book": source.snapshot_id,
        "started reading the API": f"{snapshot['started_at']:%Y-%m-%d %H:%M:%S} UTC",
        "finished reading the API": f"{snapshot['finished_at']:%Y-%m-%d %H:%M:%S} UTC",
        "state": snapshot["state"],
        "decided by": snapshot["decided_by"],
        "requests": str(snapshot["request_count"]),
        "failed requests": str(snapshot["failed_request_count"]),
        "bytes received": plain_text(snapshot["byte_count"] or None),
        "records rejected": plain_text(snapshot["reject_count"]),
        "values kept as text only": plain_text(snapshot["inexact_count"]),
        "workbook written by": f"nightbook {program_version}",
        "database written by": f"nightbook {build['program_version']}",
        "version of the database schema": build["schema_version"],
        "version of DuckDB in the database": build["duckdb_version"],
        "version of the database": build["version"],
        "fingerprint of all nights so far": build.get("fingerprint"),
    }
    for of, value in facts.items():
        yield {"Kind": "run", "Of": of, "Value": value}


def plain_text(value: object) -> str | None:
    """Convert a value to the text of a cell, or None if the cell is empty."""
    if isinstance(value, bool):
        return yes(value)
    return None if value is None else str(value)


def _line(line: TotalLine, sheets: Sequence[str]) -> dict[str, str | None]:
    row: dict[str, str | None] = {
        "Kind": line.kind,
        "Of": line.of,
        "Ties": "yes" if line.ties else "NO",
    }
    row |= dict(zip(_PLACES, line.places, strict=True))
    if line.kind == "total":
        return row | {"Custom": yes(line.is_custom)} | dict(zip(sheets, line.sheets, strict=True))
    sheet = {"accounts": "Accounts", "positions": "Holdings"}.get(line.of)
    return row | ({sheet: line.sheets[0]} if sheet and line.sheets else {})


def _bodies(source: OpenBook) -> Iterator[dict[str, str | None]]:
    query = f"select * from ops.requests where {source.of_snapshots} order by all"  # noqa: S608 - ids are ours and quoted
    for row in records(source.connection, query):
        request = f"GET {row['path']}" + (f"?{row['query']}" if row["query"] else "")
        value = row["sha256"] or f"no body: {row['error'] or 'not in this part'}"
        yield {"Kind": "body", "Of": request, "Value": value}


def long_text_sheet(shortened: Mapping[str, str]) -> TextTable:
    """Build a table of the texts that do not fit in a cell, split into numbered pieces."""
    rows = [
        {"Text no.": str(no), "Piece": str(piece_no), "Text": piece}
        for no, text in enumerate(shortened, 1)
        for piece_no, piece in enumerate(pieces(text), 1)
    ]
    columns = tuple(
        SheetColumn(name, name, meaning, SheetColumnKind.TEXT, width=width)
        for name, meaning, width in (
            ("Text no.", "The number that the shortened cells show.", 10),
            ("Piece", "The piece number. Join all pieces of a text without a separator.", 8),
            ("Text", "One piece of the text.", 120),
        )
    )
    return TextTable(columns, rows)
