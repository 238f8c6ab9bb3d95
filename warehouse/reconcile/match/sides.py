"""The part of the book that the ledgers cover: only that is compared, and the rest is counted."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of, literal
from warehouse.query.book import OpenBook
from warehouse.reconcile.book import Names, Reference, Resolution, columns, copy_table
from warehouse.reconcile.model import (
    NO_AMOUNT,
    UNMAPPED,
    WHOLE,
    Alias,
    Ledger,
    Notice,
    RejectedRow,
    alias_line,
)
from warehouse.reconcile.settings.config import LEDGER, Config
from warehouse.reconcile.settings.toml import heading
from warehouse.reconcile.terms import FIELDS, NotReconciled, display_asset
from warehouse.spreadsheet.reading.text import fold

# Accounts are not among the names of a reference, and venues only those of its own day.
_IN_BOOKS = {
    "account": "select account_name, [] from history.accounts "
    "where lower(trim(account_name)) in (select unnest($spellings))",
    "venue": "select venue_id, list(distinct display_name) from history.venues "
    "where (lower(trim(venue_id)) in (select unnest($spellings)) "
    "or lower(trim(display_name)) in (select unnest($spellings)))",
}

Covered = Mapping[str, frozenset[str]]

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The parts of the book that the ledgers cover, by file; an empty one is the whole book."""

    files: tuple[Covered, ...]

    @property
    def is_whole(self) -> bool:
        """Whether some file covers the whole book."""
        return not all(self.files)

    def covers(self, fields: Sequence[str], key: Sequence[str]) -> bool:
        """Return whether a key is in what some file covers."""
        values = dict(zip(fields, key, strict=True))
        return any(
            all(
                values[name] in ids
                for name, ids in file.items()
                if values.get(name, WHOLE) != WHOLE
            )
            for file in self.files
        )

    def outside(self, number: int, fields: Collection[str]) -> str:
        """Return the SQL of a row of a file that the file does not cover, by the fields it says."""
        covered = {name: ids for name, ids in self.files[number].items() if name in fields}
        return f"not is_unmapped and not ({_predicate(covered, 'ledger_named')})"

    def predicate(self, table: str, files: Collection[int] | None = None) -> str:
        """Return the SQL of being covered by one of these files, or by any."""
        chosen = [
            file for number, file in enumerate(self.files) if files is None or number in files
        ]
        return (
            " or ".join(dict.fromkeys(f"({_predicate(file, table)})" for file in chosen)) or "false"
        )


def _predicate(file: Covered, table: str) -> str:
    tests = (
        f"{table}.{name} in ({', '.join(literal(id_) for id_ in sorted(ids))})"
        for name, ids in file.items()
    )
    return " and ".join(tests) or "true"


def scope_of(source: OpenBook, ledger: Ledger, reference: Reference, config: Config) -> Scope:
    """Return what the files cover, by the ids of the book.

    Raises `NotReconciled` if a file covers a name that the book does not have, or the title of one
    of its columns.
    """
    problems: dict[str, str] = {}
    files = []
    for file in ledger.sources:
        titles = ledger.remembered.get(file.fingerprint, {}).values()
        covered = {}
        for field, written in file.covers.items():
            found = [_find(source, field, name, reference, config) for name in written]
            for name, resolution in zip(written, found, strict=True):
                if problem := _problem(field, name, resolution, titles):
                    words = f"{file.place_name} covers the {field} {name!r}, {problem}"
                    problems[words] = heading(LEDGER, file.fingerprint)
            covered[field] = frozenset(name.id for name in found if name.id is not None)
        files.append(covered)
    if problems:
        headings = " or ".join(dict.fromkeys(problems.values()))
        raise NotReconciled(
            f"{'; '.join(problems)}. The lines {', '.join(FIELDS)} under [file] name the part of "
            "the book that a file covers, and only that part would be compared. To name a column, "
            f"write its title under {headings}. To name another spelling, write it under [alias]. "
            "Correct recon.toml, or the name of the tab. Nothing was reconciled and nothing was "
            "changed."
        )
    return Scope(files=tuple(files))


def _find(
    source: OpenBook, field: str, name: str, reference: Reference, config: Config
) -> Resolution:
    """Return the id of a name in the book, or in an earlier book that had it."""
    aliases = config.aliases.get(field, {})
    known = reference.names.get(field, {})
    resolution = Names(field, known, aliases).resolve(name)
    if resolution.id is not None or field not in _IN_BOOKS:
        return resolution
    # An account is found by a query, because a book may have a million of them. A venue that the
    # API does not list tonight still has a ledger.
    spellings = [fold(spelling) for spelling in (name, *aliases.values())]
    for days in ("=", "<"):
        query = f"{_IN_BOOKS[field]} and snapshot_date {days} $day group by 1"
        rows = source.connection.execute(query, {"day": source.day, "spellings": spellings})
        before = dict(rows.fetchall())
        found = Names(field, before, aliases).resolve(name)
        if found.id is not None:
            return found
    return resolution


def _problem(field: str, name: str, resolution: Resolution, titles: Collection[str]) -> str:
    """Return why a file cannot cover a name; nothing if it can."""
    if resolution.id is None:
        meant = f"; perhaps {resolution.suggestion!r}" if resolution.suggestion else ""
        return f"which the book does not have{meant}"
    if name in titles and name != resolution.id:
        return f"but that is the title of a column; the {field} of this name is {resolution.id!r}"
    return ""


def set_aside(
    connection: DuckDBPyConnection, scope: Scope, fields: Sequence[str], reference: Reference
) -> tuple[int, list[Notice]]:
    """Take the rows that no ledger covers out of `book_side`.

    Returns how many they are, and a notice that counts them.
    """
    if scope.is_whole:
        return 0, []
    where = "venue" if "venue" in fields else "portfolio" if "portfolio" in fields else "asset"
    outside = f"not ({scope.predicate('book_side')})"
    rows = connection.execute(
        f"select {where}, count(*) from book_side where {outside} group by 1 order by 2 desc, 1"
    ).fetchall()
    connection.execute(f"delete from book_side where {outside}")
    number = sum(row[1] for row in rows)
    if not number:
        return 0, []
    names = reference.display_names.get(where, {})
    parts = and_more([f"{names.get(id_, id_)} {count}" for id_, count in rows], _SHOWN)
    words = f"{count_of(number, 'position')} of the book {'is' if number == 1 else 'are'} "
    words += f"covered by no ledger and not compared ({where}: {parts})"
    return number, [Notice("medium", words, "book")]


def rows_outside(
    connection: DuckDBPyConnection, ledger: Ledger, scope: Scope
) -> tuple[str, list[Notice]]:
    """Return the SQL of rows of `ledger_named` that are not of what their file covers.

    A notice of each file tells how many they are; the SQL is empty where there are none.
    """
    outside, notices = [], []
    for number, source in enumerate(ledger.sources):
        names = [name for name in source.covers if name in source.fields]
        if not names:
            continue
        test = f"file = {number} and {scope.outside(number, names)}"
        rows = connection.execute(f"select count(*) from ledger_named where {test}").fetchone()
        count = rows[0] if rows else 0
        if count:
            covered = "; ".join(f"{name} {', '.join(source.covers[name])}" for name in names)
            words = f"{count_of(count, 'row')} {'is' if count == 1 else 'are'} of something else "
            words += f"than recon.toml says the file covers ({covered}): not compared"
            notices.append(Notice("medium", words, source.place_name))
            outside.append(f"({test})")
    return " or ".join(outside), notices


def assign_levels(connection: DuckDBPyConnection, ledger: Ledger, scope: Scope) -> None:
    """Bring every row of `book_side` to the level at which the ledgers have its key.

    What no file has stays as it is, at the finest level.
    """
    levels = ledger.levels
    fields = ledger.fields
    if levels == [fields]:
        return
    keys = ", ".join(fields)
    connection.execute("create or replace temp table book_left as select * from book_side")
    connection.execute(
        f"create or replace temp table book_taken as select {keys}, amount from book_side limit 0"
    )
    for level in levels:
        of_level = {
            number
            for number, source in enumerate(ledger.sources)
            if (source.fields or fields) == level
        }
        _take(connection, fields, level, scope.predicate("b", of_level))
    # Many fine rows of the book become one amount beside the one row of a coarse file.
    connection.execute(
        f"create or replace temp table book_side as select {keys}, exact_sum(amount) as amount "
        f"from (select {keys}, amount from book_taken union all "
        f"select {keys}, amount from book_left) group by {keys}"
    )
    connection.execute("drop table book_left; drop table book_taken")


def _take(
    connection: DuckDBPyConnection, fields: Sequence[str], level: Sequence[str], covered: str
) -> None:
    """Move the rows whose keys the files of a level have, as those files say them."""
    # Called for the finest level first. What it takes is gone from `book_left`, so that no amount
    # is compared twice; a key that the files do not have stays for the next, coarser level.
    whole = literal(WHOLE)
    key = ", ".join(name if name in level else f"{whole} as {name}" for name in fields)
    same = " and ".join(f"l.{name} = b.{name}" for name in level)
    same += "".join(f" and l.{name} = {whole}" for name in fields if name not in level)
    is_in_ledger = (
        f"({covered}) and "
        f"exists (select 1 from ledger_side as l where {same} and not l.is_unmapped)"
    )
    connection.execute(
        f"insert into book_taken select {key}, amount from book_left as b where {is_in_ledger}"
    )
    connection.execute(f"delete from book_left as b where {is_in_ledger}")


def level_notices(ledger: Ledger) -> list[Notice]:
    """Return what a reader must know where files have different levels."""
    if len(ledger.levels) < 2:  # noqa: PLR2004 - as long as all have one level
        return []
    words = "the files have different levels: each is compared at its own, the coarser ones with "
    words += f"what the finer ones do not hold, and {WHOLE} stands for what a file does not say. A "
    words += "second ledger of the same book is no part of it: set it aside under [inbox]"
    return [Notice("medium", words)]


LEDGER_ROWS = "ledger_rows"


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
