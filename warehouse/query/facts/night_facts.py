"""Facts about a night, and lookups in the book by ID or name."""

import difflib
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.query.connect import records
from warehouse.query.formats import printable

_NIGHT = (
    "select snapshot_id, snapshot_date, reject_count from ops.snapshots "
    "where is_book and snapshot_date = ?"
)
_WAITING = "select snapshot_id from ops.snapshots where state = ? and snapshot_id > ? order by all"
# A query for portfolios with an incomplete list of positions, accounts or balances: the reported
# count is unreadable, or higher than the number of rows.
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

_MAX_SHOWN = 8
_GUARDS = "guards"


class NotInBook(LookupError):
    """The book contains no portfolio, asset, venue or account with the given ID or name."""

    exit_code = 2


class AmbiguousName(LookupError):
    """Several portfolios, assets, venues or accounts in the book have the given name."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class NamedThing:
    """A portfolio, asset, venue or account, with its ID, and its name if it has one."""

    id: str
    name: str | None = None

    @property
    def label(self) -> str:
        """The ID and name on one line, for messages."""
        name = "" if self.name is None or self.name == self.id else f" ({printable(self.name)})"
        return f"{printable(self.id)!r}{name}"

    @property
    def names(self) -> tuple[str, ...]:
        """The ID and, if there is one, the name."""
        return (self.id,) if self.name is None else (self.id, self.name)


def night_facts(connection: DuckDBPyConnection, day: date) -> dict[str, Any]:
    """Return facts about one date's book, as values that JSON can represent.

    - `rejects`: the number of API objects that could not be read.
    - `incomplete_portfolios`: portfolios with fewer rows than the API counted.
    - `waiting`: newer nights that are held.
    """
    [row] = records(connection, _NIGHT, day)
    waiting = connection.execute(_WAITING, [HELD, row["snapshot_id"]]).fetchall()
    incomplete = connection.execute(_INCOMPLETE, {"day": day}).fetchall()
    return {
        "snapshot_id": row["snapshot_id"],
        "as_of": row["snapshot_date"].isoformat(),
        "rejects": row["reject_count"] or 0,
        "incomplete_portfolios": [portfolio for (portfolio,) in incomplete],
        "waiting": [snapshot for (snapshot,) in waiting],
    }


def notices_for_reader(
    connection: DuckDBPyConnection,
    book: Mapping[str, Any],
    portfolios: Collection[str],
    until: datetime | None = None,
) -> Iterator[str]:
    """Yield notices about a book for a reader who may only see these portfolios.

    `book` is a row of `ops.snapshots`. Held nights that began after `until` are left out. Reasons
    are never shown, because they may name other portfolios.
    """
    facts = night_facts(connection, book["snapshot_date"])
    last = f"{until.astimezone(UTC):%Y%m%dT%H%M%SZ}" if until else "~"
    if incomplete := [name for name in facts["incomplete_portfolios"] if name in portfolios]:
        listed = and_more(incomplete, _MAX_SHOWN)
        yield f"Some amounts of these portfolios could not be read and are in no total: {listed}."
    elif facts["rejects"]:
        yield "Some values in the API's responses could not be read and are in no total."
    if waiting := [night for night in facts["waiting"] if night <= last]:
        yield f"Newer nights are held and not included: {and_more(waiting[-3:], 3)}."
    if book["decided_by"] not in {None, _GUARDS} and book["state"] == ACCEPTED:
        yield "The guards did not accept this night. A person accepted it."
    query = "select distinct snapshot_id from ops.decisions where snapshot_date = ? and state = ?"
    rows = connection.execute(f"{query} order by all", [book["snapshot_date"], ACCEPTED]).fetchall()
    if others := [night for (night,) in rows if night != book["snapshot_id"]]:
        yield f"This book restates its date, and replaced an earlier book: {', '.join(others)}."


def choose(
    name: str, things: Sequence[NamedThing], *, noun: str, location: str, undone: str = "traced"
) -> NamedThing:
    """Return the item of `things` with this ID or name. Ignore case if no match is exact.

    `noun`, `location` and `undone` are for messages. Raises `NotInBook` or `AmbiguousName`.
    """
    folded = name.casefold()
    by_id = [thing for thing in things if thing.id == name]
    by_name = [thing for thing in things if thing.name == name]
    by_case = [thing for thing in things if folded in map(str.casefold, thing.names)]
    for matches in (by_id, by_name, by_case):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise AmbiguousName(
                f"{printable(name)!r} matches {count_of(len(matches), noun)} in {location}: "
                f"{_list_labels(matches)}. Nothing was {undone}. Use the ID: --{noun} "
                f"{shlex.quote(printable(matches[0].id))}"
            )
    raise NotInBook(
        f"There is no {noun} {printable(name)!r} in {location}. "
        f"{_list_alternatives(name, things, noun)} Nothing was {undone}."
    )


def _list_labels(things: Sequence[NamedThing]) -> str:
    return and_more([thing.label for thing in things], _MAX_SHOWN)


def _list_alternatives(name: str, things: Sequence[NamedThing], noun: str) -> str:
    """Return a message that lists the names to choose from, with the most similar names first."""
    if not things:
        return f"It contains no {noun}s."
    by_name = {known.casefold(): thing for thing in things for known in thing.names}
    similar = difflib.get_close_matches(name.casefold(), by_name, n=_MAX_SHOWN)
    ordered = dict.fromkeys([*(by_name[known] for known in similar), *things])
    return f"It has {count_of(len(things), noun)}: {_list_labels(list(ordered))}."
