"""The ledger's side: written names become ids, and rows of one key are added up."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from warehouse.contract.wording import count_of
from warehouse.reconcile.ledger.cells.amounts import NO_AMOUNT
from warehouse.reconcile.ledger.model import WHOLE, Ledger, RejectedRow
from warehouse.reconcile.matching.names import Names, Resolution
from warehouse.reconcile.matching.scope import Scope, rows_outside
from warehouse.reconcile.matching.snapshot import Reference, columns
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.dimensions import FIELDS, display_asset
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.text import fold

UNMAPPED = "?"
LEDGER_ROWS = "ledger_rows"


def is_unmapped(id_: str) -> bool:
    """Return whether a part of a key is a name that the book does not have."""
    return id_.startswith(UNMAPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """One name that was not taken as written: what it was taken for, how, and how often.

    `name` is what people call the id. `how` is a code: folded, alias, unknown, or suggested for a
    name that only its amounts lead to.
    """

    field: str
    written: str
    id: str
    how: str
    rows: int
    suggestion: str
    name: str = ""


def alias_line(alias: Alias) -> str:
    """Return the line of recon.toml that settles a name that was not matched."""
    return setting(alias.written, alias.suggestion or "...")


@dataclass(frozen=True, slots=True)
class KeyResolution:
    """What became of the names: those not as written, rejected rows by key, and notices."""

    aliases: tuple[Alias, ...]
    rejected: Mapping[tuple[str, ...], Sequence[RejectedRow]]
    notices: tuple[Notice, ...]


def make_ledger_side(
    connection: DuckDBPyConnection,
    ledger: Ledger,
    reference: Reference,
    config: Config,
    scope: Scope,
) -> KeyResolution:
    """Make the table `ledger_side` from the lines of a ledger, without what is out of its scope."""
    # The rows stay where they are, in Arrow: DuckDB reads them there, and a copy costs a tenth of
    # a gigabyte for a million of them.
    connection.register(LEDGER_ROWS, _rows(ledger))
    aliases: list[Alias] = []
    resolved: dict[str, dict[str, Resolution]] = {}
    for name in ledger.fields:
        written = _written_names(connection, name)
        names_of_book = _names_of(connection, name, reference, written)
        names = Names(name, names_of_book, config.aliases.get(name, {}))
        resolved[name] = _resolve_names(connection, name, names, written, ledger)
        aliases += _aliases(connection, name, resolved[name])
    others = [name for name in ledger.fields if not _is_as_written(resolved[name])]
    _name_rows(connection, ledger.fields, others)
    outside, notices = rows_outside(connection, ledger, scope)
    if outside:
        _name_rows(connection, ledger.fields, others, without=outside)
    _add_up_rows(connection, ledger.fields)
    rejected: dict[tuple[str, ...], list[RejectedRow]] = {}
    for key, row in _rejections(ledger, resolved):
        rejected.setdefault(key, []).append(row)
    return KeyResolution(tuple(aliases), rejected, (*notices, *_notices(ledger, aliases)))


def tolerances(reference: Reference, config: Config) -> tuple[dict[str, Decimal], list[Notice]]:
    """Return the tolerance of each asset by its id, and notices of names that are no asset.

    Where two names are of one asset the smaller one counts.
    """
    names = Names("asset", reference.names["asset"], config.aliases.get("asset", {}))
    limits: dict[str, Decimal] = {}
    notices = []
    for written, amount in config.per_asset.items():
        match = names.resolve(written)
        if match.id is None:
            meant = f'; perhaps "{display_asset(match.suggestion)}"' if match.suggestion else ""
            words = f"[tolerance.asset] in recon.toml names no asset of this book{meant}: unused"
            notices.append(Notice("low", words, "", written[:1000]))
        else:
            limits[match.id] = min(amount, limits.get(match.id, amount))
    return limits, notices


def _rows(ledger: Ledger) -> pa.Table:
    table = ledger.lines.table
    for name in ledger.fields:
        lacking = pa.array(ledger.lacks(name), pa.int64())
        if len(lacking):
            names = pc.if_else(pc.is_in(table["file"], lacking), WHOLE, table[name])
            table = table.set_column(table.column_names.index(name), name, names)
    table = table.select([*ledger.fields, "amount", "decimals", "is_number", "file"])
    return table.append_column("line", pa.arange(0, table.num_rows))


def copy_table(connection: DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Make an Arrow table a temporary table of the connection."""
    connection.register("given_rows", table)
    connection.execute(f"create or replace temp table {name} as select * from given_rows")
    connection.unregister("given_rows")


def _written_names(connection: DuckDBPyConnection, name: str) -> list[str]:
    """Return the different names of a field; of accounts those that the book does not have."""
    # A book may have a million accounts, and nearly all stand in the ledger as they are.
    unfound = "where account not in (select account from book_side)" if name == "account" else ""
    rows = connection.execute(f"select distinct {name} from {LEDGER_ROWS} {unfound} order by 1")
    return [row[0] for row in rows.fetchall()]


def _names_of(
    connection: DuckDBPyConnection, name: str, reference: Reference, written: Sequence[str]
) -> Mapping[str, Iterable[str]]:
    """Return the names of a field; of accounts only those that one not found may be."""
    # Only those whose name the ledger does not have, or has in another case, are candidates.
    if name != "account":
        return reference.names.get(name, {})
    if not written:
        return {}
    rows = connection.execute(
        "select distinct account from book_side where lower(trim(account)) in "
        f"(select unnest(?)) or account not in (select account from {LEDGER_ROWS})",
        [[fold(account) for account in written]],
    ).fetchall()
    return {row[0]: () for row in rows}


def _resolve_names(
    connection: DuckDBPyConnection,
    name: str,
    names: Names,
    written: Sequence[str],
    ledger: Ledger,
) -> dict[str, Resolution]:
    """Return what every written name of a field stands for; an account of the book is itself."""
    rejected = (_written_name(ledger, row, name) for row in ledger.rejected if row.names)
    resolved = {text: names.resolve(text) for text in sorted({*written, *rejected})}
    if ledger.lacks(name):
        resolved[WHOLE] = Resolution(WHOLE, "as written")
    if name == "account":
        # An account that only the ledger has, and that is like none of the book, is simply new.
        resolved = {
            text: match if match.id or match.suggestion else Resolution(text, "as written")
            for text, match in resolved.items()
        }
    table = pa.table(
        {
            "written": pa.array(list(resolved), pa.string()),
            "id": pa.array([_key(text, match) for text, match in resolved.items()], pa.string()),
            "is_known": pa.array([match.id is not None for match in resolved.values()], pa.bool_()),
        }
    )
    copy_table(connection, f"names_{name}", table)
    return resolved


def _written_name(ledger: Ledger, row: RejectedRow, name: str) -> str:
    return WHOLE if row.file in ledger.lacks(name) else row.names[FIELDS.index(name)]


def _key(written: str, match: Resolution) -> str:
    return match.id if match.id is not None else UNMAPPED + fold(written)


def _aliases(
    connection: DuckDBPyConnection, name: str, resolved: Mapping[str, Resolution]
) -> Iterable[Alias]:
    odd = {text: match for text, match in resolved.items() if match.how != "as written"}
    if not odd:
        return
    counted = dict(
        connection.execute(
            f"select {name}, count(*) from {LEDGER_ROWS} where list_contains(?, {name}) group by 1",
            [list(odd)],
        ).fetchall()
    )
    for text, match in odd.items():
        yield Alias(
            field=name,
            written=text,
            id=match.id or "",
            how=match.how,
            rows=counted.get(text, 0),
            suggestion=match.suggestion,
            name=match.name,
        )


def _is_as_written(resolved: Mapping[str, Resolution]) -> bool:
    """Return whether every name of a field stands for itself."""
    return all(text == match.id for text, match in resolved.items())


def _name_rows(
    connection: DuckDBPyConnection,
    fields: Sequence[str],
    others: Sequence[str],
    without: str = "false",
) -> None:
    """Put the id of each name in its place, and leave out some rows.

    `others` are the fields in which some name is not its own id.
    """
    joins = " ".join(
        f"left join names_{name} on names_{name}.written = {LEDGER_ROWS}.{name}" for name in others
    )
    ids = ", ".join(
        f"coalesce(names_{name}.id, {LEDGER_ROWS}.{name}) as {name}" if name in others else name
        for name in fields
    )
    tests = [f"not coalesce(names_{name}.is_known, true)" for name in others]
    connection.execute(
        f"create or replace temp view ledger_named as select * from (select {ids}, "
        f"{' or '.join(tests) or 'false'} as is_unmapped, line, amount, decimals, is_number, file "
        f"from {LEDGER_ROWS} {joins}) "
        f"as ledger_named where ({without}) is not true"
    )


def _add_up_rows(connection: DuckDBPyConnection, fields: tuple[str, ...]) -> None:
    """Make `ledger_side`, by key how many rows and their sum, and `ledger_sums` of several rows."""
    # Few keys have several rows, and all others stay where they are: to count the digests of a
    # million keys takes a third of the time that it takes to group the keys (measured). Another
    # key of the same digest is grouped too, for nothing.
    keys = columns((*fields, "is_unmapped"))
    digest = f"hash({keys})"
    connection.execute(
        f"create or replace temp table digests_twice as select {digest} as digest "
        "from ledger_named group by 1 having count(*) > 1"
    )
    several = connection.execute("select count(*) from digests_twice").fetchall()[0][0]
    is_twice = f"{digest} in (select digest from digests_twice)" if several else "false"
    connection.execute(
        f"create or replace temp table ledger_sums as select {keys}, min(line) as first, "
        "count(*) as rows, exact_sum(amount) as amount, list(line order by line) as lines, "
        "min(decimals) as decimals, bool_and(is_number) as is_number "
        f"from ledger_named where {is_twice} group by {keys}"
    )
    connection.execute(
        f"create or replace temp view ledger_side as select {keys}, 1 as rows, line, amount "
        f"from ledger_named where not {is_twice} "
        f"union all select {keys}, rows, first as line, amount from ledger_sums"
    )


def _rejections(
    ledger: Ledger, resolved: Mapping[str, Mapping[str, Resolution]]
) -> Iterator[tuple[tuple[str, ...], RejectedRow]]:
    for row in ledger.rejected:
        if row.names:
            written = {name: _written_name(ledger, row, name) for name in ledger.fields}
            key = tuple(
                _key(text, resolved[name].get(text, Resolution(text, "as written")))
                for name, text in written.items()
            )
            yield key, row


def _notices(ledger: Ledger, aliases: Sequence[Alias]) -> Iterable[Notice]:
    for row in ledger.rejected:
        reason = f"{row.raw[:60]!r} is not a number" if row.reason == NO_AMOUNT else row.reason
        words = f"row {row.line}: {reason}; rejected"
        yield Notice("high", words, ledger.place(row), row.raw[:1000])
    for alias in aliases:
        if alias.how == "unknown" and alias.rows:
            meant = f'; perhaps "{alias.suggestion}"' if alias.suggestion else ""
            words = f"unknown {alias.field} in {count_of(alias.rows, 'row')}{meant}: settle it in "
            words += f"recon.toml under [alias.{alias.field}] by {alias_line(alias)}"
            yield Notice("medium", words, "", alias.written[:1000])
    for alias in aliases:
        if alias.how == "folded":
            rows = count_of(alias.rows, "row")
            words = f"{alias.field} taken for {alias.name} by case and spaces in {rows}"
            yield Notice("low", words, "", alias.written[:1000])
