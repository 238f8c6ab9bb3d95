"""The part of the book that the ledgers cover: only that is compared, and the rest is counted."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.contract.wording import and_more, count_of
from warehouse.query.book import OpenBook
from warehouse.reconcile.ledger.model import WHOLE, Ledger
from warehouse.reconcile.matching.names import Names, Resolution
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.settings.config import LEDGER, Config
from warehouse.reconcile.settings.toml_table import heading
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.reconcile.terms.notices import Notice
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
