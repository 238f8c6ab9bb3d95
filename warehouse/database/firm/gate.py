"""The sources in a firm's book on each night, and the reason why a source is missing."""

# ruff: noqa: S608 - names are ours; values are parameters

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.book import PORTFOLIOS
from warehouse.contract.firm import NIGHTS, SOURCES, of_firm
from warehouse.contract.states import ACCEPTED, NO_SNAPSHOT
from warehouse.database.firm.ddl import stored_as
from warehouse.database.firm.load import LoadedSource
from warehouse.database.load import fill
from warehouse.query.connect import records

# If several sources list a portfolio, only one of them counts it: its owner in firm.toml, or the
# source whose name is first in the alphabet. If a source cannot be read now, use its last known
# book. Otherwise its portfolios would move to a different source, or count twice.
_SHARED_PORTFOLIOS = f"""
insert into ops.shared_portfolios
with owners as (
    select unnest(?::varchar[]) as portfolio_id, unnest(?::varchar[]) as owner
),
seen_by_several as (
    select portfolio_id from {stored_as(of_firm(PORTFOLIOS))}
    group by portfolio_id having count(distinct source) > 1
),
claims as (
    select nights.source, nights.snapshot_date, portfolios.portfolio_id, owners.owner
    from ops.nights as nights
    inner join {stored_as(of_firm(PORTFOLIOS))} as portfolios
        on portfolios.source = nights.source and portfolios.snapshot_date = nights.as_of
    semi join seen_by_several on seen_by_several.portfolio_id = portfolios.portfolio_id
    left join owners on owners.portfolio_id = portfolios.portfolio_id
),
ranked as (
    select
        *,
        first_value(source) over (
            partition by snapshot_date, portfolio_id
            order by coalesce(source = owner, false) desc, source
        ) as counted_for,
        count(*) over (partition by snapshot_date, portfolio_id) as sources
    from claims
)
select source, snapshot_date, portfolio_id, counted_for, coalesce(counted_for = owner, false)
from ranked
where sources > 1
"""
UNREADABLE = "unreadable"
LoadResult = LoadedSource | str
"""The result of reading a source: the loaded data, or the reason it failed."""


def record_sources(
    connection: DuckDBPyConnection,
    known: Mapping[str, Mapping[str, Any]],
    results: Mapping[str, LoadResult],
    now: datetime,
) -> tuple[str, ...]:
    """Replace the rows of `ops.sources`.

    Return messages about unreadable, new and removed sources.
    """
    rows = [_source_row(name, known.get(name), result, now) for name, result in results.items()]
    for name, row in known.items():
        if name not in results:
            gone = row["gone_since"] or now
            rows.append({**row, "is_listed": False, "gone_since": gone, "problem": None})
    fill(connection, SOURCES, sorted(rows, key=lambda row: str(row["source"])))
    listed = {name for name, row in known.items() if row["is_listed"]}
    added = sorted(results.keys() - listed) if known else []
    removed = sorted(listed - results.keys())
    return (
        *(
            f"{name} cannot be read, so the nights from {name} in the book are unchanged: {reason}"
            for name, reason in results.items()
            if isinstance(reason, str)
        ),
        *(f"{name} is new in firm.toml, and the book now includes its nights" for name in added),
        *(
            f"{name} is no longer in firm.toml, and the book no longer includes its nights"
            for name in removed
        ),
    )


def _source_row(
    name: str, before: Mapping[str, Any] | None, result: LoadResult, now: datetime
) -> dict[str, Any]:
    row = dict(before or {"source": name, "since": now, "version": None, "schema_version": None})
    row |= {"is_listed": True, "gone_since": None, "problem": None}
    if isinstance(result, str):
        return row | {"problem": result}
    return row | {"version": result.version, "schema_version": result.schema_version}


def record_nights(
    connection: DuckDBPyConnection, day: date | None, notes: Mapping[str, str]
) -> date | None:
    """Replace the rows of `ops.nights`. Return the date of the newest book, if there is one.

    `day` is the requested night. `notes` maps the name of each source without that night to the
    reason.
    """
    sources = records(connection, "select * from ops.sources where is_listed order by source")
    snapshots = records(connection, "select * from ops.snapshots order by snapshot_id")
    before = {(row["source"], row["snapshot_date"]): row for row in _known_nights(connection)}
    dates = {row["snapshot_date"] for row in snapshots} | ({day} if day else set())
    # Include nights that earlier publishes recorded, because a night does not appear in the
    # snapshots if no source could be read.
    dates |= {night for _, night in before}
    rows = []
    for source in sources:
        own = [row for row in snapshots if row["source"] == source["source"]]
        for row in _nights_of(source, own, sorted(dates), before):
            note = notes.get(row["source"], "") if row["snapshot_date"] == day else ""
            if row["state"] == NO_SNAPSHOT:
                row["reason"] = note or row["reason"]
            elif row["state"] == UNREADABLE and note not in row["reason"]:
                row["reason"] += f"; {note}"
            rows.append(row)
    fill(connection, NIGHTS, rows)
    return max((row["snapshot_date"] for row in rows if row["is_in_book"]), default=None)


def _known_nights(connection: DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return the existing rows of `ops.nights` for sources that are still in firm.toml."""
    return records(
        connection,
        "select * from ops.nights semi join (from ops.sources where is_listed) using (source)",
    )


def record_shared_portfolios(connection: DuckDBPyConnection, owners: Mapping[str, str]) -> None:
    """Store each portfolio that several sources can see, and the source that it counts for."""
    connection.execute("delete from ops.shared_portfolios")
    connection.execute(_SHARED_PORTFOLIOS, [list(owners), list(owners.values())])


def sources_set_aside(connection: DuckDBPyConnection) -> list[str]:
    """Return the sources with a portfolio that counts for another source on at least one date."""
    query = "select distinct source from internal.set_aside"
    return [source for (source,) in connection.execute(query).fetchall()]


def sources_set_aside_lately(connection: DuckDBPyConnection, newest: date | None) -> list[str]:
    """Return sources with a portfolio counted for another source in one of their last two books.

    Sources that are not in the newest book are omitted.
    """
    query = (
        "select distinct source from internal.set_aside semi join ("
        "select source, unnest(max(snapshot_date, 2)) as snapshot_date from ops.nights "
        "where is_in_book group by source having max(snapshot_date) = ?"
        ") using (source, snapshot_date)"
    )
    return [source for (source,) in connection.execute(query, [newest]).fetchall()]


def _nights_of(
    source: Mapping[str, Any],
    snapshots: Sequence[Mapping[str, Any]],
    dates: Sequence[date],
    before: Mapping[tuple[str, date], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return one row for each date from the source's first snapshot to the last date."""
    newest = {row["snapshot_date"]: row for row in snapshots}
    books = {row["snapshot_date"]: row for row in snapshots if row["is_book"]}
    as_of: date | None = None
    rows = []
    for date_ in dates:
        as_of = date_ if date_ in books else as_of
        if not newest.get(date_) and date_ != dates[-1] and date_ < min(newest, default=date_):
            continue
        row = books.get(date_) or newest.get(date_)
        known = before.get((source["source"], date_))
        if date_ in books:
            state, reason = ACCEPTED, ""
        elif row:
            state, reason = row["state"], row["reason"]
        elif source["problem"] and (date_ == dates[-1] or not known):
            state, reason = UNREADABLE, source["problem"]
        elif known and (known["state"] == NO_SNAPSHOT or source["problem"]):
            state, reason = known["state"], known["reason"]
        else:
            state, reason = NO_SNAPSHOT, "no night was pulled"
        rows.append(
            {
                "source": source["source"],
                "snapshot_date": date_,
                "is_in_book": date_ in books,
                "state": state,
                "snapshot_id": row["snapshot_id"] if row else None,
                "as_of": as_of,
                "reason": reason,
            }
        )
    return rows
