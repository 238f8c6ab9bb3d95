"""A book's control totals in the JSON, the lake, the warehouse and the workbook.

Each asset has one exact total. Amounts of different assets are never added up.
"""

# ruff: noqa: S608 - table names are our own, and values are parameters

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warehouse.export.staged_tables import count_rounded_rows
from warehouse.query.book import EXHIBITS, Exhibit, OpenBook
from warehouse.spreadsheet.writing.cells import MAX_NUMBER_LENGTH

ACCOUNTS, HOLDINGS, ASSETS, VENUES = (exhibit.title for exhibit in EXHIBITS)
Asset = tuple[str, bool]
_SOURCES = ("in_json", "in_lake", "in_warehouse")
_SHEETS = {"accounts": ACCOUNTS, "positions": HOLDINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalLine:
    """One figure's values in the JSON, the lake, the warehouse and the sheets, in plain digits.

    A value is None if the figure is not stated there.
    """

    kind: str
    of: str
    is_custom: bool
    places: tuple[str | None, ...]
    sheets: tuple[str | None, ...]

    @property
    def ties(self) -> bool:
        """Whether at least one place states the figure, and all stated values are equal."""
        stated = {text for text in (*self.places, *self.sheets) if text is not None}
        return len(stated) == 1


@dataclass(frozen=True, slots=True)
class ExpectedTotals:
    """The row count, the number of rows with rounded amounts, and the totals of an exhibit."""

    exhibit: Exhibit
    rows: int
    rounded: int
    sums: Mapping[Asset, str]


def expect_totals(source: OpenBook, exhibit: Exhibit) -> ExpectedTotals:
    """Count an exhibit's rows and add up its amounts in DuckDB, before anything is written."""
    summed = "asset_id, is_custom_asset, exact_sum(total_text)"
    query = f"select {summed} from {exhibit.staged_name} group by all"
    rows = source.connection.execute(query).fetchall()
    return ExpectedTotals(
        exhibit,
        source.rows[exhibit.title],
        count_rounded_rows(source, exhibit),
        {(asset, custom): total for asset, custom, total in rows},
    )


def control_totals(source: OpenBook, expected: Sequence[ExpectedTotals]) -> list[TotalLine]:
    """Return each table's row count, then each asset's total, sorted by name."""
    lines: list[TotalLine] = []
    sums: dict[Asset, tuple[str | None, ...]] = {}
    for measure, name, is_custom, *places in _stated_totals(source):
        if measure == "rows":
            sheet = _SHEETS.get(name, "")
            rows = (str(source.rows[sheet]),) if sheet in source.rows else ()
            lines.append(
                TotalLine(kind="rows", of=name, is_custom=False, places=(*places,), sheets=rows)
            )
        else:
            sums[name, is_custom] = (*places,)
    not_stated = (None,) * len(_SOURCES)
    for name, is_custom in sorted(set(sums).union(*(exhibit.sums for exhibit in expected))):
        lines.append(
            TotalLine(
                kind="total",
                of=name,
                is_custom=is_custom,
                places=sums.get((name, is_custom), not_stated),
                sheets=tuple(exhibit.sums.get((name, is_custom), "0") for exhibit in expected),
            )
        )
    return lines


def _stated_totals(source: OpenBook) -> list[tuple[Any, ...]]:
    """Return the control totals as rows: measure, table or asset, custom flag, and each total.

    A total is None if one of the figures to add up is missing.
    """
    names = ", ".join(_SOURCES)
    query = (
        f"select measure, if(measure = 'rows', table_name, asset_id), is_custom_asset, {names} "
        f"from ops.control_totals where {source.of_snapshots}"
    )
    totals = ", ".join(f"if(bool_or({name} is null), null, exact_sum({name}))" for name in _SOURCES)
    query = (
        f"select measure, name, is_custom, {totals} "
        f"from ({query}) as stated (measure, name, is_custom, {names}) "
        "group by all order by measure, name, is_custom"
    )
    return source.connection.execute(query).fetchall()


def numbers_of(source: OpenBook, exhibit: Exhibit, asset: Asset) -> list[float | None]:
    """Return an asset's totals in a table as floats, or None for totals too long for a cell."""
    wanted = "asset_id = ? and is_custom_asset = ?"
    query = f"select total_text from {exhibit.staged_name} where {wanted}"
    rows = source.connection.execute(query, [*asset]).fetchall()
    return [float(text) if len(text) <= MAX_NUMBER_LENGTH else None for (text,) in rows]
