"""The snapshot's side: one book of the published warehouse, grouped to the level of the ledger."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from duckdb import DuckDBPyConnection

from warehouse.contract.book import KNOWN_BALANCES
from warehouse.contract.model import literal, quote_identifier
from warehouse.query.book import OpenBook
from warehouse.reconcile.terms.dimensions import (
    BETWEEN_SOURCE,
    CUSTOM,
    display_asset,
    key_expression,
)
from warehouse.reconcile.terms.notices import Notice

_DOCUMENTED = {(bucket, state) for bucket, states in KNOWN_BALANCES.items() for state in states}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The names of the book and of the nights before it: ids, and what else they are called.

    `delivered` are the portfolios of this book; others are known from earlier nights. `closed` are
    venues that are not trading, with their status. `sources` are the organisations of a firm.
    """

    names: Mapping[str, Mapping[str, Sequence[str]]]
    display_names: Mapping[str, Mapping[str, str]]
    delivered: frozenset[str]
    closed: Mapping[str, str]
    notices: tuple[Notice, ...]
    sources: frozenset[str] = frozenset()


def make_book_side(connection: DuckDBPyConnection, day: date, fields: tuple[str, ...]) -> None:
    """Make the table `book_side` of a day: the key columns of these fields, and the exact amount.

    What the API does not state is no row: an absent part of a balance is not a zero.
    """
    # It is made of the tables and not of a view, whose other columns cost twice as much (measured).
    keys = ", ".join(f"{key_expression(name)} as {name}" for name in fields)
    rows = f"select {keys}, amount, amount_text from history.balances where {_on(day)}"
    if "bucket" not in fields:
        # Of an account of which nothing is stated the total is zero.
        rows += (
            f" union all select {keys}, 0::decimal(38, 18), '0' from history.accounts "
            f"where {_on(day)} and coalesce(balance_count, 0) = 0"
        )
    # Nearly all sums are those of decimals. To ask only the others of `exact_sums`, which says the
    # same of both, takes a third off (measured).
    connection.execute(
        f"create or replace temp table book_side as select {', '.join(fields)}, case "
        "when part['texts'] is null then regexp_replace(part['small']::varchar, '\\.?0+$', '') "
        "else internal.exact_sums([part])[1]['text'] end as amount "
        f"from (select {', '.join(fields)}, internal.exact_part_where(internal.exact_split("
        f"amount, amount_text), true) as part from ({rows}) group by all)"
    )


def amounts_of(
    connection: DuckDBPyConnection,
    day: date,
    fields: tuple[str, ...],
    assets: Collection[str] | None = None,
) -> dict[tuple[str, ...], str]:
    """Return the amounts of the book of a day by key, of some assets or all."""
    make_book_side(connection, day, fields)
    return amounts_in_book_side(connection, fields, assets)


def amounts_in_book_side(
    connection: DuckDBPyConnection, fields: tuple[str, ...], assets: Collection[str] | None
) -> dict[tuple[str, ...], str]:
    """Return the amounts of `book_side` by key, of some assets or all."""
    rows = connection.execute(
        f"select {columns(fields)}, amount from book_side where ? or list_contains(?, asset)",
        [assets is None, sorted(assets or ())],
    ).fetchall()
    return {row[:-1]: row[-1] for row in rows}


def _on(day: date) -> str:
    return f"snapshot_date = date {literal(day.isoformat())}"


def read_reference(source: OpenBook, stale_hours: int) -> Reference:
    """Read the names that the book and its past know."""
    ask = source.connection.execute
    day = f"date {literal(source.day.isoformat())}"
    portfolios = ask(
        "select portfolio_id, arg_max(name, snapshot_date), max(snapshot_date), "
        f"arg_max(updated_at, snapshot_date) from history.portfolios where snapshot_date <= {day} "
        "group by 1 order by 1"
    ).fetchall()
    venues = ask(
        f"select venue_id, display_name, trading_status from history.venues "
        f"where snapshot_date = {day} order by 1"
    ).fetchall()
    assets = ask(
        f"select distinct {key_expression('asset')} from history.positions "
        f"where snapshot_date <= {day} union "
        f"select distinct unnest([base_asset, term_asset]) from history.instruments "
        f"where snapshot_date = {day}"
    ).fetchall()
    delivered = frozenset(row[0] for row in portfolios if row[2] == source.day)
    clock = source.snapshot["started_at"]
    return Reference(
        names={
            "portfolio": {row[0]: [row[1]] if row[1] else [] for row in portfolios},
            "asset": asset_names(row[0] for row in assets if row[0]),
            "venue": {row[0]: [row[1]] if row[1] else [] for row in venues},
            "bucket": _buckets(source, day),
        },
        display_names={
            "portfolio": {row[0]: row[1] or row[0] for row in portfolios},
            "venue": {row[0]: row[1] or row[0] for row in venues},
        },
        delivered=delivered,
        closed={row[0]: row[2] or "unknown" for row in venues if row[2] != "trading"},
        notices=tuple(
            _stale([row for row in portfolios if row[0] in delivered], clock, stale_hours)
        ),
        sources=frozenset(row[0].partition(BETWEEN_SOURCE)[0] for row in portfolios)
        if source.is_firm
        else frozenset(),
    )


def _buckets(source: OpenBook, day: str) -> dict[str, list[str]]:
    rows = source.connection.execute(
        f"select distinct bucket, state from history.balances where snapshot_date = {day}"
    ).fetchall()
    return {
        f"{bucket} {state}": [f"{bucket}{mark}{state}" for mark in "_./-"]
        for bucket, state in {*_DOCUMENTED, *rows}
    }


def asset_names(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return keys of assets and what they may be called: a bare id means the listed one."""
    assets = sorted(set(keys))
    listed = {key for key in assets if not key.endswith(CUSTOM)}
    return {
        key: []
        if key in listed
        else [display_asset(key)] + ([] if key[:-1] in listed else [key.removesuffix(CUSTOM)])
        for key in assets
    }


def _stale(
    portfolios: Sequence[tuple[str, str | None, object, datetime | None]],
    clock: datetime,
    hours: int,
) -> Iterable[Notice]:
    for portfolio, name, _, updated in portfolios:
        if updated is not None and (clock - updated) / timedelta(hours=1) > hours:
            yield Notice(
                "medium",
                f"portfolio {name or portfolio} was last updated {updated:%Y-%m-%d %H:%M} UTC, "
                f"more than {hours} hours before the book was read",
                "book",
                portfolio,
            )


def columns(fields: Iterable[str]) -> str:
    """Return the fields as a list of quoted columns."""
    return ", ".join(map(quote_identifier, fields))
