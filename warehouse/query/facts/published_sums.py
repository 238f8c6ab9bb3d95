"""The published sums that include the amounts of a position."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.exact import EXACT, exact, plain
from warehouse.query.connect import stream_records

# ruff: noqa: S608 - names come from this module; values are parameters

# ruff: noqa: S608 - names come from this module; values are parameters


_PARTS = """
select portfolio_id, venue_id, account_name, duplicate_no, bucket, amount_text
from history.balances
where snapshot_date = $day and asset_id = $asset and is_custom_asset = $custom
"""

Key = tuple[Any, ...]
Totals = dict[tuple[str, Key], tuple[int, Decimal]]


@dataclass(frozen=True, slots=True)
class _View:
    """A view that contains sums: its name, key columns, SQL for its rows, and sum columns."""

    name: str
    key: tuple[str, ...]
    rows: str
    figures: tuple[str, ...] = ("total_text",)

    @property
    def query(self) -> str:
        """The query for all sums of an asset in this view."""
        columns = ", ".join((*self.key, *self.figures))
        return (
            f"select {columns} from {self.rows} asset_id = $asset and is_custom_asset = $custom "
            "order by all"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSum:
    """One published sum: its view and key, its figures by column, and the sum of its parts.

    `ties_out` is true if each published figure equals the sum of its parts exactly.
    """

    view: str
    key: Mapping[str, Any]
    figures: Mapping[str, str | None]
    parts: int
    sum_of_parts: str
    ties_out: bool


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


def published_sums(
    connection: DuckDBPyConnection,
    rows: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, Any],
) -> list[PublishedSum]:
    """Return all published sums that contain at least one amount from a position's `rows`."""
    keys = {view: {_key_of(row, view) for row in rows} for view in _VIEWS}
    totals: Totals = defaultdict(lambda: (0, Decimal(0)))
    # For each view, count and add up the asset's amounts by key.
    for row in _stream(connection, _PARTS, parameters):
        amount = exact(row["amount_text"])
        for view, wanted_keys in keys.items():
            if (key := _key_of(row, view)) in wanted_keys:
                count, total = totals[view.name, key]
                totals[view.name, key] = count + 1, EXACT.add(total, amount)
    return [
        sum_
        for view in _VIEWS
        for sum_ in _sums_of_view(view, _stream(connection, view.query, parameters), keys, totals)
    ]


def _stream(
    connection: DuckDBPyConnection, query: str, parameters: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield a query's rows. Parameters that the query does not use are ignored."""
    used = {name: value for name, value in parameters.items() if f"${name}" in query}
    return stream_records(connection, query, used)


def _key_of(row: Mapping[str, Any], view: _View) -> Key:
    return tuple(row[column] for column in view.key)


def _sums_of_view(
    view: _View, rows: Iterable[Mapping[str, Any]], keys: Mapping[_View, set[Key]], totals: Totals
) -> Iterator[PublishedSum]:
    for row in rows:
        key = _key_of(row, view)
        if key in keys[view]:
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
