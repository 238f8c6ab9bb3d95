"""What a reader of figures must know of their night: which it is, and what is missing in it."""

from datetime import date
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.states import HELD
from warehouse.query.connect import records
from warehouse.query.firm_state import has_sources, shared_portfolios

_NIGHT = """
select snapshot_id, snapshot_date, coalesce(reject_count, 0) as rejects
from ops.snapshots
where is_book and snapshot_date = ?
"""
_WAITING = "select snapshot_id from ops.snapshots where state = ? and snapshot_id > ? order by all"
_FIRM_NIGHT = """
select snapshot_id, snapshot_date, coalesce(reject_count, 0) as rejects
from firm_nights
where snapshot_date = ?
"""
_FIRM_WAITING = (
    "select source || ' ' || snapshot_id from ops.snapshots where state = ? and snapshot_date >= ? "
    "order by all"
)
_MISSING = (
    "select source from ops.nights where not is_in_book and snapshot_date = ? order by source"
)
# A list of which the API's own count could not be read, or says more than there are.
_INCOMPLETE = """
select portfolio_id
from history.portfolios
where snapshot_date = $day and position_count is null
union
select positions.portfolio_id
from history.positions as positions
left join (
    select portfolio_id, asset_id, is_custom_asset, count(*) as number
    from history.accounts
    where snapshot_date = $day
    group by all
) as listed using (portfolio_id, asset_id, is_custom_asset)
where positions.snapshot_date = $day
    and (account_count is null or account_count > coalesce(listed.number, 0))
union
select accounts.portfolio_id
from history.accounts as accounts
left join (
    select portfolio_id, asset_id, is_custom_asset, venue_id, account_name, duplicate_no,
        count(*) as number
    from history.balances
    where snapshot_date = $day
    group by all
) as stated
    using (portfolio_id, asset_id, is_custom_asset, venue_id, account_name, duplicate_no)
where accounts.snapshot_date = $day
    and (balance_count is null or balance_count > coalesce(stated.number, 0))
order by all
"""


def night_facts(connection: DuckDBPyConnection, day: date) -> dict[str, Any]:
    """Return the facts of the book of a date, as values that JSON can hold.

    `rejects` counts what the API sent and nobody could read, `incomplete_portfolios` are those of
    which the tables hold less than the API counted, and `waiting` are newer nights that are held.
    A firm's book also says which organisations it does not hold, and which portfolios several of
    them see although firm.toml does not say for which they count.
    """
    of_firm = _firm_facts(connection, day) if has_sources(connection) else {}
    [row] = records(connection, _FIRM_NIGHT if of_firm else _NIGHT, day)
    waiting = (
        connection.execute(_FIRM_WAITING, [HELD, day])
        if of_firm
        else connection.execute(_WAITING, [HELD, row["snapshot_id"]])
    ).fetchall()
    incomplete = connection.execute(_INCOMPLETE, {"day": day}).fetchall()
    return {
        "snapshot_id": row["snapshot_id"],
        "as_of": row["snapshot_date"].isoformat(),
        "rejects": row["rejects"],
        "incomplete_portfolios": [portfolio for (portfolio,) in incomplete],
        "waiting": [snapshot for (snapshot,) in waiting],
        **of_firm,
    }


def _firm_facts(connection: DuckDBPyConnection, day: date) -> dict[str, Any]:
    missing = connection.execute(_MISSING, [day]).fetchall()
    return {
        "missing_sources": [source for (source,) in missing],
        "undecided_portfolios": [
            portfolio.portfolio_id
            for portfolio in shared_portfolios(connection, day)
            if not portfolio.is_settled
        ],
    }
