"""Control totals of one book: what the JSON, the lake, the warehouse and the workbook say.

Totals are per asset, in exact decimals; different assets are never added up.
"""

# ruff: noqa: S608 - names of tables are ours; values are parameters

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from warehouse.contract.book import BOOK, PORTFOLIO_ID
from warehouse.contract.model import literal
from warehouse.exact import EXACT, exact, plain
from warehouse.export.staged_tables import count_rounded_rows
from warehouse.query.book import EXHIBITS, Exhibit, OpenBook
from warehouse.query.connect import records
from warehouse.query.firm_state import shared_portfolios
from warehouse.spreadsheet.writing.cells import LONGEST_NUMBER

ACCOUNTS, HOLDINGS, ASSETS, VENUES = (exhibit.title for exhibit in EXHIBITS)
# Custom assets of one id are not the same asset in two organisations: no holding is their sum.
OF_ALL = " (of all sources that define one: a check, no holding)"
Asset = tuple[str, bool]
_WITNESSES = ("in_json", "in_lake", "in_warehouse")


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalLine:
    """One figure as each place has it, in plain digits; None where a place does not state it."""

    kind: str
    of: str
    is_custom: bool
    places: tuple[str | None, ...]
    sheets: tuple[str | None, ...]

    @property
    def ties(self) -> bool:
        """Whether all that state it agree, and somebody does."""
        stated = {text for text in (*self.places, *self.sheets) if text is not None}
        return len(stated) == 1


@dataclass(frozen=True, slots=True)
class ExpectedTotals:
    """What the sheets of one exhibit must come to: rows, rows with rounded numbers, totals."""

    exhibit: Exhibit
    rows: int
    rounded: int
    sums: Mapping[Asset, str]


def promise(source: OpenBook, exhibit: Exhibit) -> ExpectedTotals:
    """Count and add up an exhibit in DuckDB, before anything of it is written."""
    summed = "asset_id, is_custom_asset, exact_sum(total_text)"
    query = f"select {summed} from {exhibit.staged_name} group by all"
    rows = source.connection.execute(query).fetchall()
    return ExpectedTotals(
        exhibit,
        source.rows[exhibit.title],
        count_rounded_rows(source, exhibit),
        {(asset, custom): total for asset, custom, total in rows},
    )


def totals(source: OpenBook, promises: Sequence[ExpectedTotals]) -> tuple[TotalLine, ...]:
    """Return rows of the counted tables, then the total of every asset, by name."""
    query = f"select * from ops.control_totals where {source.of_snapshots} order by all"
    control_totals = records(source.connection, query)
    if source.is_firm and shared_portfolios(source.connection, source.day):
        control_totals += _set_aside(source)
    sums = _sums(promises, control_totals)
    if source.is_firm:
        sums = [replace(line, of=f"{line.of}{OF_ALL}") if line.is_custom else line for line in sums]
    return (*_counts(source, control_totals), *sums)


def _set_aside(source: OpenBook) -> Iterator[dict[str, Any]]:
    """Yield, negative, what control totals hold of portfolios that count for another source."""
    counted = [table.name for table in BOOK if PORTFOLIO_ID.name in table.names]
    queries = [
        f"select {literal(name)} as table_name, 'rows' as measure, '' as asset_id, "
        f"false as is_custom_asset, count(*)::varchar as total from internal.{name} as given "
        "semi join internal.set_aside using (source, snapshot_date, portfolio_id) "
        "where snapshot_date = $day"
        for name in counted
    ]
    queries.append(
        "select 'balances', 'sum', asset_id, is_custom_asset, exact_sum(amount_text) "
        "from internal.balances as given "
        "semi join internal.set_aside using (source, snapshot_date, portfolio_id) "
        "where snapshot_date = $day group by asset_id, is_custom_asset"
    )
    for query in queries:
        result = source.connection.execute(query, {"day": source.day})
        for *key, total in result.fetchall():
            negative = plain(exact(total).copy_negate())
            names = ("table_name", "measure", "asset_id", "is_custom_asset")
            yield dict(zip(names, key, strict=True)) | dict.fromkeys(_WITNESSES, negative)


def _counts(source: OpenBook, control_totals: Sequence[Mapping[str, Any]]) -> list[TotalLine]:
    sheets = {"accounts": ACCOUNTS, "positions": HOLDINGS}
    counts = _places(control_totals, "rows", lambda row: (row["table_name"], False))
    return [
        TotalLine(
            kind="rows",
            of=table,
            is_custom=False,
            places=_texts(places),
            sheets=(str(source.rows[sheets[table]]),) if table in sheets else (),
        )
        for (table, _), places in counts.items()
    ]


def _places(
    control_totals: Sequence[Mapping[str, Any]],
    measure: str,
    key: Callable[[Mapping[str, Any]], Asset],
) -> dict[Asset, list[Decimal | None]]:
    """Return what each witness says of each key, over the buckets and the sources of the book."""
    places: dict[Asset, list[Decimal | None]] = {}
    for row in control_totals:
        if row["measure"] == measure:
            sums = places.setdefault(key(row), [Decimal(0)] * len(_WITNESSES))
            for index, name in enumerate(_WITNESSES):
                sums[index] = _add(sums[index], row[name])
    return places


def _texts(places: Sequence[Decimal | None]) -> tuple[str | None, ...]:
    return tuple(None if total is None else plain(total) for total in places)


def _sums(
    promises: Sequence[ExpectedTotals], control_totals: Sequence[Mapping[str, Any]]
) -> list[TotalLine]:
    places = _places(control_totals, "sum", lambda row: (row["asset_id"], row["is_custom_asset"]))
    sheets = [promised.sums for promised in promises]
    none: list[Decimal | None] = [None] * len(_WITNESSES)
    return [
        TotalLine(
            kind="total",
            of=asset[0],
            is_custom=asset[1],
            places=_texts(places.get(asset, none)),
            sheets=tuple(sums.get(asset, "0") for sums in sheets),
        )
        for asset in sorted({*places, *(asset for sums in sheets for asset in sums)})
    ]


def _add(total: Decimal | None, text: str | None) -> Decimal | None:
    if total is None or text is None:
        return None
    return EXACT.add(total, exact(text))


def numbers_of(source: OpenBook, asset: Asset) -> list[float | None]:
    """Return the totals of the accounts of an asset as numbers; None for text only."""
    wanted = "asset_id = ? and is_custom_asset = ?"
    query = f"select total_text from {EXHIBITS[0].staged_name} where {wanted}"
    rows = source.connection.execute(query, [*asset]).fetchall()
    return [float(text) if len(text) <= LONGEST_NUMBER else None for (text,) in rows]
