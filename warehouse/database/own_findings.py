"""Findings of a person's own rules: the thresholds and the SQL checks of a home.

The rules are applied to the newest book in each publish. The findings are kept in one file per
snapshot in `reference/kept/`, so that a rebuild and a restored backup still have them.
"""

# ruff: noqa: S608 - names are ours; values are parameters

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path

import duckdb
import msgspec
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.contract.reference import FILES, OWN_FINDINGS
from warehouse.database import load
from warehouse.database.ddl import PRICE_SETTINGS, stored_as
from warehouse.database.load import Book, Contents
from warehouse.database.materialization import materialize_comparison
from warehouse.query.connect import records, scalar
from warehouse.reference.own_checks import OwnFinding, run_own_checks
from warehouse.sql.catalog import finding_rules
from warehouse.storage.layout import Layout, write_bytes

_TABLE = stored_as(OWN_FINDINGS)


class KeptFindings(msgspec.Struct, frozen=True):
    """The findings of a snapshot, and the SHA-256 of their JSON."""

    sha256: str
    findings: list[OwnFinding]


def load_findings(
    connection: DuckDBPyConnection, home: Path, removed: Iterable[date], books: Sequence[Book]
) -> None:
    """Delete the findings of removed dates, and load the kept findings of the loaded books."""
    for day in removed:
        connection.execute(f"delete from {_TABLE} where snapshot_date = ?", [day])
    for book in books:
        found = _read(_path(home, book.snapshot_id))
        if isinstance(found, str):
            message = f"The own findings of {book.snapshot_date} were not loaded. The file {found}"
            print(message, file=sys.stderr)
        elif found:
            _insert(connection, book.snapshot_date, found)


def apply_rules(connection: DuckDBPyConnection, layout: Layout, contents: Contents) -> None:
    """Apply the rules of the home to its newest book, and replace the findings of that book.

    The views in schema main must show the book. If there are checks, this commits the transaction.
    """
    if not contents.books:
        return
    book = max(contents.books, key=lambda book: book.snapshot_date)
    day, folder = book.snapshot_date, layout.home / "checks"
    path, columns = _path(layout.home, book.snapshot_id), ", ".join(OwnFinding.__struct_fields__)
    query = f"select {columns} from {_TABLE} where snapshot_date = ? order by finding_no"
    before = [OwnFinding(**row) for row in records(connection, query, day)]
    found = list[OwnFinding]()
    if connection.execute(f"select 1 from {stored_as(FILES)} limit 1").fetchall():
        found += _findings_in_tables(connection, day)
    if folder.is_dir():
        with load.detach_file(connection, load.group_for(load.longest(contents))) as file:
            found += run_own_checks(folder, file)
    if found != before:
        connection.execute(f"delete from {_TABLE} where snapshot_date = ?", [day])
        _insert(connection, day, found)
        materialize_comparison(connection, day)
    # Keep the findings before the version is swapped in. If the publish is interrupted, the next
    # publish applies the rules to the same book, and replaces the file.
    if _read(path) != found:
        try:
            write_bytes(path, msgspec.json.encode(KeptFindings(_digest_of(found), found)))
        except OSError as error:
            print(f"The own findings of {day} were not kept: {error}", file=sys.stderr)


def damaged_findings(home: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file of kept findings that is damaged, with the problem."""
    for path in sorted(_path(home, "").parent.glob("findings-*.json")):
        if isinstance(problem := _read(path), str):
            yield path, problem


def _findings_in_tables(connection: DuckDBPyConnection, day: date) -> Iterator[OwnFinding]:
    """Yield the findings of our SQL about reference tables, such as thresholds."""
    names = _placeholders(connection, day)
    load.save(connection)
    for rule in finding_rules():
        if not scalar(connection, f"select 1 from reference.{rule.entries['reads']} limit 1"):
            continue
        sql = re.sub(r"\$(\w+)", lambda match: names[match[1]], rule.sql)
        try:
            yield from [OwnFinding(**row) for row in records(connection, sql)]
        except duckdb.Error as error:
            connection.execute("rollback")
            connection.execute("begin")
            words = f"The rules of {rule.name} could not be applied: {error}".partition("\n")[0]
            yield OwnFinding(
                kind="threshold_undecided", name=rule.name, severity="high", words=words
            )


def _placeholders(connection: DuckDBPyConnection, day: date) -> dict[str, str]:
    """Return the SQL for the names in our own rules: the dates, the currency and the groups."""
    before = load.newest_date(connection, day)
    currency = scalar(connection, f"select max(currency) from {PRICE_SETTINGS}")
    query = "select list(distinct scope order by scope) from reference.thresholds"
    scopes = {*(scalar(connection, query) or ()), "book"} - {"asset"}
    names = {
        "day": f"date '{day}'",
        "before": f"date '{before}'" if before else "null::date",
        "currency": literal(currency) if currency else "null::varchar",
    }
    period = f"{names['currency']}, coalesce({names['before']}, {names['day']}), {names['day']}"
    groups = (
        f"select {literal(scope)} as scope, * "
        f"from internal.value_groups({literal(scope)}, {period})"
        for scope in sorted(scopes)
    )
    return names | {"groups": " union all ".join(groups)}


def _insert(connection: DuckDBPyConnection, day: date, found: Sequence[OwnFinding]) -> None:
    rows = [
        {"snapshot_date": day, "finding_no": number, **msgspec.structs.asdict(finding)}
        for number, finding in enumerate(found, 1)
    ]
    load.insert_rows(connection, OWN_FINDINGS, rows)


def _path(home: Path, snapshot_id: str) -> Path:
    return home / "reference" / "kept" / f"findings-{snapshot_id}.json"


def _digest_of(found: list[OwnFinding]) -> str:
    return hashlib.sha256(msgspec.json.encode(found)).hexdigest()


def _read(path: Path) -> list[OwnFinding] | str:
    """Return the findings in a file, or its problem. A missing file has no findings."""
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=KeptFindings)
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        return f"{path} cannot be read ({error})"
    return kept.findings if kept.sha256 == _digest_of(kept.findings) else f"{path} has changed"
