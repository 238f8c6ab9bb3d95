"""Both sides of a comparison: the ledgers' rows, and the part of the book that they cover."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of, literal
from warehouse.reconcile.book import Names, Resolution, columns, copy_rows
from warehouse.reconcile.match.inputs import MatchInputs
from warehouse.reconcile.model import (
    NO_AMOUNT,
    UNMAPPED,
    WHOLE,
    Alias,
    Key,
    Ledger,
    Notice,
    RejectedRow,
    alias_line,
)
from warehouse.reconcile.settings.config import LEDGER
from warehouse.reconcile.settings.toml import heading
from warehouse.reconcile.terms import FIELDS, NotReconciled
from warehouse.spreadsheet.reading.text import fold

# Queries for names that a `Reference` does not contain: account names, and names of venues on other
# days.
_NAMES_IN_BOOKS = {
    "account": "select account_name, [] from history.accounts "
    "where lower(trim(account_name)) in (select unnest($spellings))",
    "venue": "select venue_id, list(distinct display_name) from history.venues "
    "where (lower(trim(venue_id)) in (select unnest($spellings)) "
    "or lower(trim(display_name)) in (select unnest($spellings)))",
}

LEDGER_ROWS = "ledger_rows"
CoveredNames = Mapping[str, frozenset[str]]
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The book IDs that each file covers, by field. A file without IDs covers the whole book."""

    files: tuple[CoveredNames, ...]

    @property
    def is_whole(self) -> bool:
        """Whether at least one file covers the whole book."""
        return not all(self.files)

    def covers(self, fields: Sequence[str], key: Sequence[str]) -> bool:
        """Return whether at least one file covers a key."""
        values = {name: id_ for name, id_ in zip(fields, key, strict=True) if id_ != WHOLE}
        return any(
            all(values[name] in ids for name, ids in file.items() if name in values)
            for file in self.files
        )

    def predicate(self, table: str, files: Collection[int] | None = None) -> str:
        """Return an SQL condition for rows that any of these files covers. None means all files."""
        if files is None and self.is_whole:
            return "true"
        chosen = (
            _is_covered(file, table)
            for number, file in enumerate(self.files)
            if files is None or number in files
        )
        return " or ".join(dict.fromkeys(chosen)) or "false"


def _is_covered(file: CoveredNames, table: str) -> str:
    tests = (
        f"{table}.{name} in ({', '.join(map(literal, sorted(ids)))})" for name, ids in file.items()
    )
    return f"({' and '.join(tests) or 'true'})"


def scope_of(inputs: MatchInputs) -> Scope:
    """Return the part of the book that each file covers, as book IDs.

    Raises `NotReconciled` if the book does not have a covered name, or if the name is the title of
    one of the file's columns.
    """
    problems: dict[str, str] = {}
    files = []
    for file in inputs.ledger.sources:
        titles = inputs.ledger.remembered.get(file.fingerprint, {}).values()
        covered = {}
        for field, written in file.covers.items():
            found = [_find(inputs, field, name) for name in written]
            for name, resolution in zip(written, found, strict=True):
                if problem := _problem(field, name, resolution, titles):
                    words = f"{file.place_name} covers the {field} {name!r}, {problem}"
                    problems[words] = heading(LEDGER, file.fingerprint)
            covered[field] = frozenset(name.id for name in found if name.id is not None)
        files.append(covered)
    if problems:
        headings = " or ".join(dict.fromkeys(problems.values()))
        raise NotReconciled(
            f"{'; '.join(problems)}. The settings {', '.join(FIELDS)} under [file] name the part "
            "of the book that a file covers, and only that part would be compared. To name a "
            f"column instead, write the column's title under {headings}. To add a different "
            "spelling, write it under [alias]. Correct recon.toml or the tab name. Nothing was "
            "reconciled and nothing was changed."
        )
    return Scope(files=tuple(files))


def _find(inputs: MatchInputs, field: str, name: str) -> Resolution:
    """Look up a name in this book, or else in an earlier book that contains the name."""
    resolution = inputs.names(field).resolve(name)
    if resolution.id is not None or field not in _NAMES_IN_BOOKS:
        return resolution
    # Use a query to find accounts, because a book may have a million of them. Search earlier books
    # too, because there may be a ledger for a venue that the API does not list tonight.
    aliases, source = inputs.config.aliases.get(field, {}), inputs.source
    spellings = [fold(spelling) for spelling in (name, *aliases.values())]
    for days in ("=", "<"):
        query = f"{_NAMES_IN_BOOKS[field]} and snapshot_date {days} $day group by 1"
        rows = source.connection.execute(query, {"day": source.day, "spellings": spellings})
        found = Names(field, dict(rows.fetchall()), aliases).resolve(name)
        if found.id is not None:
            return found
    return resolution


def _problem(field: str, name: str, resolution: Resolution, titles: Collection[str]) -> str:
    """Return the reason why a file cannot cover a name, or an empty string."""
    if resolution.id is None:
        return f"which the book does not have{resolution.hint}"
    if name in titles and name != resolution.id:
        return f"but it is a column title, and the {field} with this name is {resolution.id!r}"
    return ""


def make_covered_rows(inputs: MatchInputs, scope: Scope) -> tuple[int, list[Notice]]:
    """Create the view `covered_rows`: the rows of `book_rows` that a ledger covers.

    Return the number of rows that are not covered, and a notice about them.
    """
    connection, is_covered = inputs.connection, scope.predicate("book_rows")
    connection.execute(f"create temp view covered_rows as from book_rows where {is_covered}")
    field = next((name for name in ("venue", "portfolio") if name in inputs.fields), "asset")
    rows = connection.execute(
        f"select {field}, count(*) from book_rows where not ({is_covered}) "
        "group by 1 order by 2 desc, 1"
    ).fetchall()
    number = sum(count for _, count in rows)
    if not number:
        return 0, []
    names = inputs.reference.display_names.get(field, {})
    parts = and_more([f"{names.get(id_, id_)} {count}" for id_, count in rows], _SHOWN)
    message = f"{count_of(number, 'position')} in the book {'is' if number == 1 else 'are'} "
    message += f"not compared, because no ledger covers {'it' if number == 1 else 'them'} "
    message += f"({field}: {parts})"
    return number, [Notice("medium", message, "book")]


def _rows_outside(inputs: MatchInputs, scope: Scope) -> tuple[str, list[Notice]]:
    """Return an SQL condition for ledger rows outside the part of the book that their file covers.

    Also return a notice for each file with the number of such rows.
    """
    tests, notices = ["false"], []
    for number, source in enumerate(inputs.ledger.sources):
        names = [name for name in source.covers if name in source.fields]
        if not names:
            continue
        covered = {name: ids for name, ids in scope.files[number].items() if name in names}
        is_inside = _is_covered(covered, "ledger_named")
        test = f"(file = {number} and not is_unmapped and not {is_inside})"
        query = f"select count(*) from ledger_named where {test}"
        if count := inputs.connection.execute(query).fetchall()[0][0]:
            parts = "; ".join(f"{name} {', '.join(source.covers[name])}" for name in names)
            verb = "is" if count == 1 else "are"
            message = f"{count_of(count, 'row')} {verb} not compared, because recon.toml says that "
            message += f"the file covers only one part of the book ({parts})"
            notices.append(Notice("medium", message, source.place_name))
            tests.append(test)
    return " or ".join(tests), notices


def make_book_side(inputs: MatchInputs, scope: Scope) -> None:
    """Create `book_side`: `covered_rows`, added up to each ledger's level of detail."""
    rows = book_at_levels("select * from covered_rows", inputs.ledger, scope)
    kind = "view" if inputs.ledger.levels == [inputs.fields] else "table"
    inputs.connection.execute(f"create temp {kind} book_side as {rows}")


def book_at_levels(rows: str, ledger: Ledger, scope: Scope) -> str:
    """Return an SQL query that sums up book rows, each at the level of the file with its key.

    A row whose key is not in any file stays at the finest level.
    """
    fields, levels = ledger.fields, ledger.levels
    if levels == [fields]:
        return rows
    # Each row belongs to the most detailed level that contains the row's key, so no amount is
    # compared twice. Several book rows may add up to the amount of a single row in a less detailed
    # file.
    chosen = " ".join(
        f"when {_has_key(ledger, level, scope)} then {number}"
        for number, level in enumerate(levels)
    )
    names = []
    for name in fields:
        without = [str(number) for number, level in enumerate(levels) if name not in level]
        is_whole = f"level_no in ({', '.join(without)})" if without else "false"
        names.append(f"case when {is_whole} then {literal(WHOLE)} else {name} end as {name}")
    return (
        f"select {', '.join(names)}, exact_sum(amount) as amount "
        f"from (select *, case {chosen} else -1 end as level_no from ({rows}) as b) group by all"
    )


def _has_key(ledger: Ledger, level: Sequence[str], scope: Scope) -> str:
    """Return an SQL condition for book rows whose key is in a file with this level of detail."""
    fields = ledger.fields
    files = {n for n, source in enumerate(ledger.sources) if (source.fields or fields) == level}
    same = " and ".join(
        f"l.{name} = {f'b.{name}' if name in level else literal(WHOLE)}" for name in fields
    )
    return (
        f"({scope.predicate('b', files)}) and exists "
        f"(select 1 from ledger_side as l where {same} and not l.is_unmapped)"
    )


def level_notices(ledger: Ledger) -> list[Notice]:
    """Return a notice if the files have different levels of detail."""
    if len(ledger.levels) < 2:  # noqa: PLR2004 - one level needs no notice
        return []
    message = "the files have different levels, and each is compared at its own level. Coarser "
    message += "files are compared with the positions that finer files do not have. If a file does "
    message += f"not have a field, the field is shown as {WHOLE}. If one of the files is a second "
    message += "ledger of the same book, set it to unused under [inbox]"
    return [Notice("medium", message)]


@dataclass(frozen=True, slots=True)
class KeyResolution:
    """The result of looking up all names: changed names, rejected rows by key, and notices."""

    aliases: tuple[Alias, ...]
    rejected: Mapping[Key, Sequence[RejectedRow]]
    notices: tuple[Notice, ...]


def make_ledger_side(inputs: MatchInputs, scope: Scope) -> KeyResolution:
    """Create `ledger_side`: the ledgers' amounts by key, except rows outside their file's scope."""
    # Leave the ledger rows in an Arrow table, which DuckDB can read, because a copy of a million
    # rows would need 100 MB.
    connection, ledger = inputs.connection, inputs.ledger
    connection.register(LEDGER_ROWS, _rows(ledger))
    resolved = {name: _resolve_names(inputs, name) for name in ledger.fields}
    _store_names(connection, resolved)
    aliases = [
        alias for name, matches in resolved.items() for alias in _aliases(connection, name, matches)
    ]
    _name_rows(connection, ledger.fields)
    outside, notices = _rows_outside(inputs, scope)
    _add_up_rows(connection, ledger.fields, outside)
    rejected: defaultdict[Key, list[RejectedRow]] = defaultdict(list)
    for row in ledger.rejected:
        if row.names:
            written = [(name, _written_name(ledger, row, name)) for name in ledger.fields]
            key = tuple(_id_of(text, resolved[name].get(text)) for name, text in written)
            rejected[key].append(row)
    return KeyResolution(tuple(aliases), dict(rejected), (*notices, *_notices(ledger, aliases)))


def tolerances(inputs: MatchInputs) -> tuple[dict[str, Decimal], list[Notice]]:
    """Return the tolerances by asset ID, and a notice for each unknown asset.

    If two names mean the same asset, the smaller tolerance applies.
    """
    names = inputs.names("asset")
    limits: dict[str, Decimal] = {}
    notices = []
    for written, amount in inputs.config.per_asset.items():
        match = names.resolve(written)
        if match.id is None:
            unused = "the tolerance under [tolerance.asset] is not used: unknown asset"
            notices.append(Notice("low", f"{unused}{match.hint}", "", written[:1000]))
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


def _resolve_names(inputs: MatchInputs, field: str) -> dict[str, Resolution]:
    """Look up all names in a field, except accounts that are spelled as in the book."""
    # A book may have a million accounts, and the ledger spells nearly all of them as the book does,
    # so look up only accounts that are spelled differently.
    connection, ledger, is_account = inputs.connection, inputs.ledger, field == "account"
    unknown = "where account not in (select account from covered_rows)" if is_account else ""
    rows = connection.execute(f"select distinct {field} from {LEDGER_ROWS} {unknown} order by 1")
    written = [row[0] for row in rows.fetchall()]
    names = inputs.names(field)
    if is_account:
        known = _accounts_like(connection, written) if written else {}
        names = Names(field, known, inputs.config.aliases.get(field, {}))
    rejected = (_written_name(ledger, row, field) for row in ledger.rejected if row.names)
    resolved = {name: names.resolve(name) for name in sorted({*written, *rejected})}
    if ledger.lacks(field):
        resolved[WHOLE] = Resolution(WHOLE, "as written")
    if is_account:
        # If an account in the ledger does not resemble any account in the book, treat it as a new
        # account.
        resolved = {
            name: Resolution(name, "as written")
            if match.how == "unknown" and not match.suggestion
            else match
            for name, match in resolved.items()
        }
    return resolved


def _accounts_like(
    connection: DuckDBPyConnection, written: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the book accounts that an unknown name may refer to.

    The ledger does not contain these accounts, or spells them with different capitals or spaces.
    """
    rows = connection.execute(
        "select distinct account from covered_rows where lower(trim(account)) in "
        f"(select unnest(?)) or account not in (select account from {LEDGER_ROWS})",
        [[fold(account) for account in written]],
    ).fetchall()
    return {row[0]: () for row in rows}


def _store_names(
    connection: DuckDBPyConnection, resolved: Mapping[str, Mapping[str, Resolution]]
) -> None:
    """Create the table `names`, which maps each name in a field to its ID."""
    rows = (
        (field, name, _id_of(name, match), match.id is not None)
        for field, matches in resolved.items()
        for name, match in matches.items()
    )
    types = dict.fromkeys(("field", "written", "id"), pa.string()) | {"is_known": pa.bool_()}
    copy_rows(connection, "names", types, rows)


def _written_name(ledger: Ledger, row: RejectedRow, name: str) -> str:
    return WHOLE if row.file in ledger.lacks(name) else row.names[FIELDS.index(name)]


def _id_of(written: str, match: Resolution | None) -> str:
    """Return the ID for a name. If the book does not contain the name, mark it as unmapped."""
    if match is None:
        return written
    return match.id if match.id is not None else UNMAPPED + fold(written)


def _aliases(
    connection: DuckDBPyConnection, field: str, resolved: Mapping[str, Resolution]
) -> Iterator[Alias]:
    """Yield each name in a field that is unknown or differs from the book, with its row count."""
    changed = {name: match for name, match in resolved.items() if match.how != "as written"}
    query = (
        f"select {field}, count(*) from {LEDGER_ROWS} where list_contains(?, {field}) group by 1"
    )
    counted = dict(connection.execute(query, [list(changed)]).fetchall()) if changed else {}
    for name, match in changed.items():
        yield Alias(
            field=field,
            written=name,
            id=match.id or "",
            how=match.how,
            rows=counted.get(name, 0),
            suggestion=match.suggestion,
            name=match.name,
        )


def _name_rows(connection: DuckDBPyConnection, fields: Key) -> None:
    """Create the view `ledger_named`: the ledger rows with IDs instead of names."""
    ids = [f"coalesce({field}_names.id, {LEDGER_ROWS}.{field}) as {field}" for field in fields]
    tests = [f"not coalesce({field}_names.is_known, true)" for field in fields]
    joins = [
        f"left join names as {field}_names on {field}_names.field = {literal(field)} "
        f"and {field}_names.written = {LEDGER_ROWS}.{field}"
        for field in fields
    ]
    connection.execute(
        f"create temp view ledger_named as select {', '.join(ids)}, "
        f"{' or '.join(tests)} as is_unmapped, line, amount, decimals, is_number, file "
        f"from {LEDGER_ROWS} {' '.join(joins)}"
    )


def _add_up_rows(connection: DuckDBPyConnection, fields: Key, outside: str) -> None:
    """Create `ledger_sums` for keys that have several rows, and `ledger_side` for all keys.

    `outside` is the SQL condition for rows that are not compared.
    """
    # Only a few keys have several rows. To find these keys, count the hashes of all keys, which
    # takes a third as long as grouping a million keys (measured). If two keys share a hash, both
    # are grouped, which is harmless.
    keys = columns((*fields, "is_unmapped"))
    rows = f"(select * from ledger_named where ({outside}) is not true)"
    connection.execute(
        f"create temp table repeated as select hash({keys}) as digest from {rows} "
        "group by 1 having count(*) > 1"
    )
    is_repeated = f"hash({keys}) in (select digest from repeated)"
    connection.execute(
        f"create temp table ledger_sums as select {keys}, min(line) as first, "
        "count(*) as rows, exact_sum(amount) as amount, list(line order by line) as lines, "
        "list(file order by line) as files, list(amount order by line) as amounts, "
        "min(decimals) as decimals, bool_and(is_number) as is_number "
        f"from {rows} where {is_repeated} group by {keys}"
    )
    connection.execute(
        f"create temp view ledger_side as select {keys}, 1 as rows, line, amount "
        f"from {rows} where not {is_repeated} "
        f"union all select {keys}, rows, first as line, amount from ledger_sums"
    )


def _notices(ledger: Ledger, aliases: Sequence[Alias]) -> Iterable[Notice]:
    for row in ledger.rejected:
        reason = f"{row.raw[:60]!r} is not a number" if row.reason == NO_AMOUNT else row.reason
        message = f"row {row.line} was rejected: {reason}"
        yield Notice("high", message, ledger.place(row), row.raw[:1000])
    for alias in aliases:
        if alias.rows and (action := _remedy(alias)):
            message = f"unknown {alias.field} in {count_of(alias.rows, 'row')}: {action}"
            yield Notice("medium", message, "", alias.written[:1000])
    for alias in aliases:
        if alias.how == "folded":
            message = f"{alias.field} read as {alias.name} in {count_of(alias.rows, 'row')}, "
            message += "although capitals or spaces differ"
            yield Notice("low", message, "", alias.written[:1000])


def _remedy(alias: Alias) -> str:
    """Return what to do about a name that is not in the book. Return "" for all other names."""
    table = f"[alias.{alias.field}] in recon.toml"
    add = f"add this line under {table}: {alias_line(alias)}"
    if alias.how == "ambiguous":
        return f"it may be {alias.suggestion}: replace ... with one of these names, and {add}"
    if alias.how == "wrong alias":
        return f'{table} reads it as "{alias.suggestion}", which is not in the book: correct it'
    if alias.how == "unknown" and alias.suggestion:
        return f'if it is "{alias.suggestion}", {add}'
    return f"replace ... with the name in the book, and {add}" if alias.how == "unknown" else ""
