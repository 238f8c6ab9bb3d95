"""The long sheets of the positions workbook: their columns, and the rows that fill them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warehouse.export_source import (
    EXHIBITS,
    PORTFOLIO_NAME,
    Exhibit,
    NotExported,
    Source,
    batches,
    columns_of,
    longest,
    longest_whole,
    meanings,
    records,
    rows_rounded,
)
from warehouse.export_totals import Line, Tally
from warehouse.workbook.cells import LONG_TEXTS, LONGEST_NUMBER, SIGNIFICANT, Digits, pieces
from warehouse.workbook.columns import Column, Kind, Sheet, fitting, title
from warehouse.workbook.rows import Rows, Styles

TOTAL = "total_text"
_PLACES = ("In the JSON", "In the lake", "In the warehouse")
FLAG = "is_custom_asset"
_DECIMALS = 11  # the point and what the number format shows behind it
_DIGITS = Column(
    "digits",
    "Digits",
    "digits: exact where every number of the row is its exact text; rounded where one has more "
    "than 15 digits, of which the number keeps 15; text only where no number can hold one.",
    Kind.DIGITS,
    10,
)


@dataclass(frozen=True, slots=True)
class Texts:
    """Cells of a table that is no view: column by column, texts or None."""

    columns: tuple[Column, ...]
    values: Mapping[str, Sequence[str | None]]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.values.values())))


@dataclass(slots=True)
class Written:
    """What is being written of one exhibit: the texts that stand for long ones, and its counts."""

    shown: Mapping[str, str]
    tally: Tally = field(default_factory=Tally)
    not_exact: int = 0


def shown_columns(source: Source, exhibit: Exhibit) -> tuple[Column, ...]:
    """The columns of a sheet: names, amounts, digits, exact total, counts; then the others."""
    kinds = columns_of(source, exhibit)
    texts = longest(source, exhibit)
    whole = longest_whole(source, exhibit)
    words = meanings(exhibit)

    def column(name: str, kind: Kind, width: float, *, printed: bool = True) -> Column:
        heading = title(name.removesuffix("_text") if kind is Kind.NUMBER else name)
        heading = {PORTFOLIO_NAME: "Portfolio", "venue_id": "Venue", "asset_id": "Asset"}.get(
            name, heading
        )
        shown = name.removesuffix("_text") if kind is Kind.NUMBER else name
        return Column(name, heading, f"{shown}: {words[shown]}", kind, width, printed)

    names = [PORTFOLIO_NAME] if PORTFOLIO_NAME in kinds else []
    names += [name for name in exhibit.key if name not in ("portfolio_id", "duplicate_no")]
    exact = [name for name in kinds if name.endswith("_text")]
    counts = [name for name in ("portfolios", "accounts", "venues") if name in kinds]
    rest = [name for name in ("duplicate_no", "balance_count") if name in kinds]
    return (
        *(column(name, Kind.TEXT, fitting(texts.get(name, 6))) for name in names),
        *(column(name, Kind.NUMBER, _number_width(whole[name])) for name in exact),
        _DIGITS,
        column(TOTAL, Kind.EXACT, fitting(texts[TOTAL])),
        *(column(name, Kind.COUNT, 11) for name in counts),
        *(
            column(name, Kind.TEXT, fitting(texts[name]), printed=False)
            for name in exhibit.key
            if name == "portfolio_id"
        ),
        *(column(name, Kind.COUNT, 11, printed=False) for name in rest),
        *(
            column(name, Kind.EXACT, fitting(texts[name]), printed=False)
            for name in exact
            if name != TOTAL
        ),
    )


def _number_width(whole: int) -> float:
    """Wide enough for the digits before the point with their commas, and those behind."""
    return max(12.0, whole + whole // 3 + _DECIMALS + 1.0)


def filled(
    source: Source,
    exhibit: Exhibit,
    sheet: Sheet,
    written: Written,
    styles: Styles,
) -> Iterator[bytes]:
    """The rows of one sheet of an exhibit; after its last part all is held against the source."""
    rows = Rows(sheet.columns, styles, written.shown)
    names = tuple(dict.fromkeys(c.source for c in sheet.columns if c.kind is not Kind.DIGITS))
    first = 2
    for batch in batches(source, exhibit, names, start=sheet.start, rows=sheet.rows):
        values: dict[str, Sequence[Any]] = dict(zip(names, batch, strict=True))
        written.tally.add(values)
        values[FLAG] = [yes(flag) for flag in values[FLAG]]
        yield rows.render(values, first)
        first += len(batch[0])
    written.not_exact += rows.worst[Digits.ROUNDED] + rows.worst[Digits.TEXT_ONLY]
    if sheet.part == sheet.parts:
        _hold(source, exhibit, written)


def _hold(source: Source, exhibit: Exhibit, written: Written) -> None:
    written.tally.compare(source, exhibit)
    rounded = rows_rounded(source, exhibit, SIGNIFICANT, LONGEST_NUMBER)
    if written.not_exact != rounded:
        raise NotExported(
            f"{written.not_exact} rows of {exhibit.title} were marked as rounded and {rounded} "
            "have amounts of more than 15 digits. The file was thrown away and the one before it "
            "stands. This is a fault of the program."
        )


def filled_texts(
    given: Texts, sheet: Sheet, shown: Mapping[str, str], styles: Styles
) -> Iterator[bytes]:
    """The rows of one sheet of texts."""
    rows = Rows(sheet.columns, styles, shown)
    part = slice(sheet.start, sheet.start + sheet.rows)
    if sheet.rows:
        yield rows.render({name: values[part] for name, values in given.values.items()}, 2)


def yes(flag: object) -> str:
    """A flag in words that do not change with the reader's language."""
    return "yes" if flag else "no"


def evidence(source: Source, lines: Iterable[Line], program_version: str) -> Texts:
    """What stands behind the figures: versions, control totals, and the bodies they came from."""
    rows = [*_about(source, program_version), *map(_line, lines), *_bodies(source)]
    heads = (
        ("Kind", "run, rows, total or body.", 8),
        ("Of", "What is stated: a setting, a table, an asset, or a request.", 44),
        ("Custom", "For a total: whether the asset is custom.", 9),
        ("Value", "The text itself; for a body its SHA-256 as landed.", 40),
        (_PLACES[0], "Counted or summed in the landed bodies, exact.", 26),
        (_PLACES[1], "The same in the Parquet files.", 26),
        (_PLACES[2], "The same in the database.", 26),
        *((exhibit.title, f"The same over sheet {exhibit.title}.", 26) for exhibit in EXHIBITS),
        ("Ties", "yes where all that state the figure agree to the last digit.", 8),
    )
    figures = {*_PLACES, *(exhibit.title for exhibit in EXHIBITS)}
    columns = tuple(
        Column(name, name, meaning, Kind.EXACT if name in figures else Kind.TEXT, width)
        for name, meaning, width in heads
    )
    values = {column.source: [row.get(column.source) for row in rows] for column in columns}
    return Texts(_fitted(columns, values), values)


def _fitted(
    columns: tuple[Column, ...], values: Mapping[str, Sequence[str | None]]
) -> tuple[Column, ...]:
    return tuple(
        Column(
            c.source,
            c.title,
            c.meaning,
            c.kind,
            fitting(max([len(c.title) + 2, *(len(text or "") for text in values[c.source])])),
        )
        for c in columns
    )


def _about(source: Source, program_version: str) -> Iterator[dict[str, str | None]]:
    snapshot, build = source.snapshot, source.build
    said = {
        "as of": source.day.isoformat(),
        "snapshot": source.snapshot_id,
        "read from": f"{snapshot['started_at']:%Y-%m-%d %H:%M:%S} UTC",
        "read until": f"{snapshot['finished_at']:%Y-%m-%d %H:%M:%S} UTC",
        "state": snapshot["state"],
        "decided by": snapshot["decided_by"],
        "requests": str(snapshot["request_count"]),
        "requests given up": str(snapshot["failed_request_count"]),
        "bytes received": str(snapshot["byte_count"]),
        "records rejected": _text(snapshot["reject_count"]),
        "values kept as text only": _text(snapshot["inexact_count"]),
        "workbook made by": f"nightbook {program_version}",
        "warehouse made by": f"nightbook {build['program_version']}",
        "schema of the warehouse": build["schema_version"],
        "DuckDB that wrote it": build["duckdb_version"],
    }
    for of, value in said.items():
        yield {"Kind": "run", "Of": of, "Value": value}


def _text(count: object) -> str | None:
    return None if count is None else str(count)


def _line(line: Line) -> dict[str, str | None]:
    row: dict[str, str | None] = {
        "Kind": line.kind,
        "Of": line.of,
        "Ties": "yes" if line.ties else "NO",
    }
    row |= dict(zip(_PLACES, line.places, strict=True))
    if line.kind == "total":
        sheets = (exhibit.title for exhibit in EXHIBITS)
        return row | {"Custom": yes(line.is_custom)} | dict(zip(sheets, line.sheets, strict=True))
    shown = {"accounts": "Accounts", "positions": "Holdings"}.get(line.of)
    return row | ({shown: line.sheets[0]} if shown and line.sheets else {})


def _bodies(source: Source) -> Iterator[dict[str, str | None]]:
    query = "select * from ops.requests where snapshot_id = ? order by request_no"
    for row in records(source.connection, query, source.snapshot_id):
        asked = f"GET {row['path']}" + (f"?{row['query']}" if row["query"] else "")
        value = row["sha256"] or f"no body: {row['error']}"
        yield {"Kind": "body", "Of": asked, "Value": value}


def long_texts(shown: Mapping[str, str]) -> Texts:
    """Every text that no cell can hold, whole, in numbered pieces."""
    rows = [
        {"Text no.": str(no), "Piece": str(place), "Text": piece}
        for no, text in enumerate(shown, 1)
        for place, piece in enumerate(pieces(text), 1)
    ]
    columns = (
        Column("Text no.", "Text no.", "The number its cells give.", Kind.TEXT, 10),
        Column("Piece", "Piece", "Pieces follow each other without a gap.", Kind.TEXT, 8),
        Column(
            "Text",
            "Text",
            f"One piece of the text. {LONG_TEXTS} are cut nowhere else.",
            Kind.TEXT,
            120,
        ),
    )
    return Texts(columns, {c.source: [row[c.source] for row in rows] for c in columns})
