"""What the ledgers cover of the book: only that is compared, and the rest is counted."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.contract.wording import and_more, count_of
from warehouse.reconcile.ledger.model import WHOLE, Ledger, LedgerSource
from warehouse.reconcile.matching.names import Names
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms.notices import Notice

Covered = Mapping[str, frozenset[str]]
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The parts of the book that the ledgers cover, by file; an empty one is the whole book.

    `notices` are names in recon.toml that are none of this book.
    """

    files: tuple[Covered, ...]
    notices: tuple[Notice, ...] = ()

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


def scope_of(ledger: Ledger, reference: Reference, config: Config) -> Scope:
    """Return what the files cover, by the ids of the book."""
    notices: dict[str, Notice] = {}
    names = {
        name: Names(name, reference.names.get(name, {}), config.aliases.get(name, {}))
        for source in ledger.sources
        for name in source.covers
    }
    files = tuple(_ids_of(source, names, notices) for source in ledger.sources)
    return Scope(files=files, notices=tuple(notices.values()))


def _ids_of(
    source: LedgerSource, names: Mapping[str, Names], notices: dict[str, Notice]
) -> dict[str, frozenset[str]]:
    """Return the ids that a file covers by field; a name of nothing stands for itself."""
    covered = {}
    for field, written in source.covers.items():
        ids = set()
        for name in written:
            resolution = names[field].resolve(name)
            ids.add(resolution.id if resolution.id is not None else name)
            if resolution.id is None and field != "account":
                meant = f"; perhaps {resolution.suggestion!r}" if resolution.suggestion else ""
                notices[name] = Notice(
                    "high",
                    f"it is said to cover the {field} {name!r}, which is none of this book{meant}: "
                    "mend it in recon.toml",
                    source.place_name,
                )
        covered[field] = frozenset(ids)
    return covered


def set_aside(
    connection: DuckDBPyConnection, scope: Scope, fields: Sequence[str], reference: Reference
) -> list[Notice]:
    """Take what no ledger covers out of `book_side`, and what is outside of them out of the ledger.

    Returns one notice with the count of each.
    """
    notices = list(scope.notices)
    if scope.is_whole:
        return notices
    where = "venue" if "venue" in fields else "portfolio" if "portfolio" in fields else "asset"
    outside = f"not ({scope.predicate('book_side')})"
    rows = connection.execute(
        f"select {where}, count(*) from book_side where {outside} group by 1 order by 2 desc, 1"
    ).fetchall()
    connection.execute(f"delete from book_side where {outside}")
    number = sum(row[1] for row in rows)
    if number:
        names = reference.display_names.get(where, {})
        parts = and_more([f"{names.get(id_, id_)} {count}" for id_, count in rows], _SHOWN)
        words = f"{count_of(number, 'position')} of the book {'is' if number == 1 else 'are'} "
        words += f"covered by no ledger and not compared ({where}: {parts})"
        notices.append(Notice("medium", words, "book"))
    return notices


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
