"""Every published sum that an asset's accounts are part of, with its parts added up again.

The parts are the texts that the API sent, added up by code that shares nothing with the views.
"""

# ruff: noqa: S608 - the names are those of this module; values are parameters

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.exact import EXACT, exact, plain
from warehouse.query.connect import stream_records

_PARTS = """
select portfolio_id, venue_id, account_name, duplicate_no, bucket, amount_text
from history.balances
where snapshot_date = $day and asset_id = $asset and is_custom_asset = $custom
"""


@dataclass(frozen=True, slots=True)
class _View:
    """Where a sum is published: its rows by `key` within one asset, and its figures."""

    name: str
    key: tuple[str, ...]
    rows: str
    figures: tuple[str, ...] = ("total_text",)


_VIEWS = (
    _View(
        "account_balances",
        ("portfolio_id", "venue_id", "account_name", "duplicate_no"),
        "account_balances_as_of($day) where portfolio_id = $portfolio and",
    ),
    _View("holdings", ("portfolio_id",), "holdings_as_of($day) where"),
    _View("holdings_by_venue", ("venue_id",), "holdings_by_venue_as_of($day) where"),
    _View("holdings_by_asset", (), "holdings_by_asset_as_of($day) where"),
    _View(
        "ops.control_totals",
        ("bucket",),
        "ops.control_totals where measure = 'sum' and snapshot_id = $snapshot and",
        ("in_json", "in_lake", "in_warehouse"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSum:
    """One published sum: its view and key, its figures by column, and its parts added up again.

    `ties_out` says whether every published figure is the sum of its parts, to the last digit.
    """

    view: str
    key: Mapping[str, Any]
    figures: Mapping[str, str | None]
    parts: int
    sum_of_parts: str
    ties_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The asset of a portfolio in one book; `rows` are its accounts and amounts that are meant."""

    snapshot: Mapping[str, Any]
    portfolio_id: str
    asset_id: str
    is_custom_asset: bool
    rows: list[dict[str, Any]]

    @property
    def parameters(self) -> dict[str, Any]:
        """What the queries ask by."""
        return {
            "day": self.snapshot["snapshot_date"],
            "asset": self.asset_id,
            "custom": self.is_custom_asset,
        }


def published_sums(connection: DuckDBPyConnection, place: Place) -> list[PublishedSum]:
    """Return every published sum that one of the rows is part of."""
    own = [row | {"portfolio_id": place.portfolio_id} for row in place.rows]
    keys = {view: dict.fromkeys(_key_of(row, view) for row in own) for view in _VIEWS}
    totals = _add_up(connection, place, keys)
    return [
        sum_ for view in _VIEWS for sum_ in _sums_of(connection, place, view, keys[view], totals)
    ]


Key = tuple[Any, ...]
Totals = dict[tuple[str, Key], tuple[int, Decimal]]


def _key_of(row: Mapping[str, Any], view: _View) -> Key:
    return tuple(row[column] for column in view.key)


def _add_up(
    connection: DuckDBPyConnection, place: Place, keys: Mapping[_View, Mapping[Key, None]]
) -> Totals:
    """Add up all amounts of the asset by the keys that are meant, and count them."""
    totals: Totals = defaultdict(lambda: (0, Decimal(0)))
    for row in stream_records(connection, _PARTS, place.parameters):
        amount = exact(row["amount_text"])
        for view, meant in keys.items():
            if (key := _key_of(row, view)) in meant:
                count, total = totals[view.name, key]
                totals[view.name, key] = count + 1, EXACT.add(total, amount)
    return totals


def _sums_of(
    connection: DuckDBPyConnection,
    place: Place,
    view: _View,
    keys: Mapping[Key, None],
    totals: Totals,
) -> Iterator[PublishedSum]:
    columns = ", ".join((*view.key, *view.figures))
    query = (
        f"select {columns} from {view.rows} asset_id = $asset and is_custom_asset = $custom "
        "order by all"
    )
    more = {"portfolio": place.portfolio_id, "snapshot": place.snapshot["snapshot_id"]}
    asked = {
        name: value for name, value in (place.parameters | more).items() if f"${name}" in query
    }
    for row in stream_records(connection, query, asked):
        key = _key_of(row, view)
        if key in keys:
            count, total = totals[view.name, key]
            figures = {column: row[column] for column in view.figures}
            yield PublishedSum(
                view=view.name,
                key=dict(zip(view.key, key, strict=True)),
                figures=figures,
                parts=count,
                sum_of_parts=plain(total),
                ties_out=all(figure == plain(total) for figure in figures.values()),
            )
