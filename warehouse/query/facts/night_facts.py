"""Facts of a night, and the choice of the nights to compare."""

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of
from warehouse.contract.states import HELD
from warehouse.query.connect import records
from warehouse.query.firm_state import has_sources, shared_portfolios
from warehouse.query.printable import printable

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


_SHOWN = 8


class NothingThere(LookupError):
    """What was asked for is not in the book."""

    exit_code = 2


class SeveralMeant(LookupError):
    """What was asked for may be several things of the book."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class NamedThing:
    """Something that has an id, and may have a name for people."""

    id: str
    name: str | None = None

    @property
    def words(self) -> str:
        """As a person reads it, on one line."""
        name = "" if self.name is None or self.name == self.id else f" ({printable(self.name)})"
        return f"{printable(self.id)!r}{name}"

    @property
    def handles(self) -> tuple[str, ...]:
        """What it may be called."""
        return (self.id,) if self.name is None else (self.id, self.name)


def choose(asked: str, there: Sequence[NamedThing], *, noun: str, where: str) -> NamedThing:
    """Return what has that id, or else that name, at last whatever its case.

    Raises `NothingThere` and `SeveralMeant`.
    """
    folded = asked.casefold()
    by_case = [thing for thing in there if folded in map(str.casefold, thing.handles)]
    by_id = [thing for thing in there if thing.id == asked]
    for meant in (by_id, [thing for thing in there if thing.name == asked], by_case):
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise SeveralMeant(
                f"{printable(asked)!r} may be {count_of(len(meant), noun)} of {where}: "
                f"{_list_words(meant)}. Nothing was traced. Give the id, as --{noun} "
                f"{shlex.quote(printable(meant[0].id))}"
            )
    raise NothingThere(
        f"There is no {noun} {printable(asked)!r} in {where}. {_what_is_there(asked, there, noun)} "
        "Nothing was traced."
    )


def _list_words(things: Sequence[NamedThing]) -> str:
    return and_more([thing.words for thing in things], _SHOWN)


def _what_is_there(asked: str, there: Sequence[NamedThing], noun: str) -> str:
    """Say what there is, what is spelt most like it first."""
    if not there:
        return f"It has no {noun} at all."
    by_handle = {handle.casefold(): thing for thing in there for handle in thing.handles}
    near = difflib.get_close_matches(asked.casefold(), by_handle, n=_SHOWN)
    ordered = dict.fromkeys([*(by_handle[handle] for handle in near), *there])
    return f"It has {count_of(len(there), noun)}: {_list_words(list(ordered))}."
