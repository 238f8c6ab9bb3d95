"""The figures of a position, with the requests that returned them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.states import PRUNED
from warehouse.query.connect import records
from warehouse.query.facts.night_facts import AmbiguousName, NamedThing, NotInBook, choose
from warehouse.query.facts.published_sums import PublishedSum, published_sums
from warehouse.query.formats import text

_NIGHTS = """
select * from ops.snapshots where snapshot_date <= coalesce(?::date, 'infinity')
order by snapshot_date desc, snapshot_id desc
"""
_PORTFOLIOS = """
select portfolio_id, name from history.portfolios where snapshot_date = ? order by all
"""
_POSITIONS = """
select asset_id, is_custom_asset from history.positions
where snapshot_date = ? and portfolio_id = ? order by all
"""
_ACCOUNTS = """
select accounts.portfolio_id, accounts.venue_id, venues.display_name as venue_name,
    accounts.account_name, accounts.duplicate_no, balances.bucket, balances.state,
    balances.amount_text
from history.accounts as accounts
left join history.balances as balances
    using (snapshot_date, portfolio_id, asset_id, is_custom_asset, venue_id, account_name,
        duplicate_no)
left join history.venues as venues using (snapshot_date, venue_id)
where accounts.snapshot_date = ? and accounts.portfolio_id = ? and accounts.asset_id = ?
    and accounts.is_custom_asset = ?
order by all
"""
_REQUESTS = """
select * exclude (snapshot_date, snapshot_id) from ops.requests
where snapshot_id = ? and operation = 'list_portfolios' and purpose = 'book'
order by request_no
"""
_REJECTS = "select request_no, path, reason, value from ops.rejects where snapshot_id = ?"

_ACCOUNT = ("venue_id", "venue_name", "account_name", "duplicate_no")


class NightPruned(LookupError):
    """The figures for the requested date were pruned. `known` describes the remaining facts."""

    exit_code = 1

    def __init__(self, snapshot: Mapping[str, Any], known: str = "") -> None:
        self.snapshot = snapshot
        super().__init__(
            f"Snapshot {snapshot['snapshot_id']} of {snapshot['snapshot_date']} was pruned at "
            f"{text(snapshot['decided_at'])} ({snapshot['reason']}): its bodies and rows were "
            f"deleted, so its figures cannot be traced.{known}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSelection:
    """A selection of figures from a book. A filter that is None selects everything.

    `portfolio` and `venue` are IDs or names.
    """

    portfolio: str
    asset: str
    is_custom: bool | None = None
    venue: str | None = None
    account: str | None = None
    as_of: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionAccount:
    """One account of a position. `texts` maps bucket and state to the amount as text."""

    venue_id: str
    venue_name: str | None
    account_name: str
    duplicate_no: int
    texts: Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedFigures:
    """A position in one book, with its accounts, its sums, and the API requests that returned it.

    `snapshot` is a row of `ops.snapshots`. `requests` and `rejects` are rows of `ops.requests` and
    `ops.rejects`.
    """

    snapshot: Mapping[str, Any]
    requests: Sequence[Mapping[str, Any]]
    rejects: Sequence[Mapping[str, Any]]
    portfolio: NamedThing
    asset_id: str
    is_custom_asset: bool
    accounts: Sequence[PositionAccount]
    sums: Sequence[PublishedSum]


def figures(connection: DuckDBPyConnection, wanted: FigureSelection) -> TracedFigures:
    """Return the selected figures.

    Raises `NotInBook`, `AmbiguousName` or `NightPruned`, with a message that helps to correct the
    selection.
    """
    snapshot = _find_book(connection, wanted.as_of)
    day, snapshot_id = snapshot["snapshot_date"], snapshot["snapshot_id"]
    portfolios = [NamedThing(*row) for row in connection.execute(_PORTFOLIOS, [day]).fetchall()]
    portfolio = choose(
        wanted.portfolio, portfolios, noun="portfolio", location=f"the book of {day}"
    )
    asset_id, is_custom = _find_asset(connection, day, portfolio, wanted)
    rows = records(connection, _ACCOUNTS, day, portfolio.id, asset_id, is_custom)
    rows = _select_rows(rows, wanted, f"{asset_id!r} of portfolio {portfolio.label}")
    parameters = {"day": day, "snapshot": snapshot_id, "portfolio": portfolio.id}
    parameters |= {"asset": asset_id, "custom": is_custom}
    return TracedFigures(
        snapshot=snapshot,
        requests=records(connection, _REQUESTS, snapshot_id),
        rejects=records(connection, _REJECTS, snapshot_id),
        portfolio=portfolio,
        asset_id=asset_id,
        is_custom_asset=is_custom,
        accounts=_accounts(rows),
        sums=published_sums(connection, rows, parameters),
    )


def _find_book(connection: DuckDBPyConnection, as_of: date | None) -> Mapping[str, Any]:
    """Return the newest book on or before a date. Raises `NightPruned` if that night was pruned."""
    nights = records(connection, _NIGHTS, as_of)
    books = [night for night in nights if night["is_book"]]
    if not any(book["snapshot_date"] == as_of for book in books):
        for night in nights:
            if night["snapshot_date"] == as_of and night["state"] == PRUNED:
                raise NightPruned(night)
    if books:
        return books[0]
    raise NotInBook(
        f"There is no book{f' on or before {as_of}' if as_of else ' yet'}, so nothing was "
        "traced. List the nights with: nightbook snapshots"
    )


def _find_asset(
    connection: DuckDBPyConnection, day: date, portfolio: NamedThing, wanted: FigureSelection
) -> tuple[str, bool]:
    positions = records(connection, _POSITIONS, day, portfolio.id)
    ids = [NamedThing(name) for name in dict.fromkeys(row["asset_id"] for row in positions)]
    location = f"portfolio {portfolio.label} on {day}"
    asset = choose(wanted.asset, ids, noun="asset", location=location).id
    kinds = [row["is_custom_asset"] for row in positions if row["asset_id"] == asset]
    if wanted.is_custom is None and len(kinds) > 1:
        raise AmbiguousName(
            f"{asset!r} is both a custom asset and a normal asset in {location}. Nothing was "
            "traced. Choose one with --custom or --no-custom"
        )
    if wanted.is_custom is not None and wanted.is_custom not in kinds:
        kind = "is not a custom asset" if wanted.is_custom else "is a custom asset"
        raise NotInBook(f"{asset!r} {kind} in {location}. Nothing was traced.")
    return asset, kinds[0] if wanted.is_custom is None else wanted.is_custom


def _select_rows(
    rows: list[dict[str, Any]], wanted: FigureSelection, location: str
) -> list[dict[str, Any]]:
    """Return the rows of the selected venue and account."""
    if wanted.venue is not None:
        names = {row["venue_id"]: row["venue_name"] for row in rows}
        venues = [NamedThing(*item) for item in names.items()]
        venue = choose(wanted.venue, venues, noun="venue", location=location)
        rows = [row for row in rows if row["venue_id"] == venue.id]
        location = f"{location} at {venue.label}"
    if wanted.account is not None:
        accounts = [NamedThing(name) for name in dict.fromkeys(row["account_name"] for row in rows)]
        account = choose(wanted.account, accounts, noun="account", location=location)
        rows = [row for row in rows if row["account_name"] == account.id]
    return rows


def _accounts(rows: list[dict[str, Any]]) -> list[PositionAccount]:
    by_account = groupby(rows, lambda row: {name: row[name] for name in _ACCOUNT})
    return [
        PositionAccount(
            **key,
            texts={
                (row["bucket"], row["state"]): row["amount_text"]
                for row in several
                if row["amount_text"] is not None
            },
        )
        for key, several in by_account
    ]
