"""Checks: queries that return wrong rows, run on the newest book before it is published.

The checks in `checks/` are written by hand. Key checks are generated from the contract. A failed
check prevents the publish if its severity is `error`, and is only reported if it is `warning`.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

from collections.abc import Collection
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from warehouse.contract.book import BOOK
from warehouse.contract.model import Table, quote_identifier
from warehouse.query.connect import scalar
from warehouse.sql.catalog import checks as sql_files

ERROR = "error"
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, its rule, the severity of a failure, and its query."""

    name: str
    meaning: str
    severity: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check: the number of wrong rows, and the first wrong row as a string."""

    name: str
    meaning: str
    severity: str
    wrong_rows: int
    example: str | None

    @property
    def is_ok(self) -> bool:
        """Whether there are no wrong rows."""
        return self.wrong_rows == 0

    @property
    def stops(self) -> bool:
        """Whether the result prevents the publication of the book."""
        return self.severity == ERROR and not self.is_ok

    @property
    def failure(self) -> str:
        """The message for a failed check."""
        return (
            f"check {self.name} found {self.wrong_rows} wrong rows (first: {self.example}); "
            f"expected: {self.meaning}"
        )


def every_check() -> tuple[Check, ...]:
    """Return all checks: the files in `checks/`, then the key checks."""
    files = (
        Check(sql_file.name, sql_file.comment, sql_file.entries["severity"], sql_file.sql)
        for sql_file in sql_files()
    )
    return (*files, *map(_key_check, BOOK))


def _key_check(table: Table) -> Check:
    meaning = f"No two rows of {table.name} have the same {', '.join(table.key)}."
    return Check(f"{table.name}_key", meaning, ERROR, _key_query(table))


def _key_query(table: Table) -> str:
    # Group only rows with equal 64-bit hashes by their keys, because grouping all 1,259,451 amounts
    # by seven text columns takes twice as long and needs 180 MB (measured).
    names = ", ".join(map(quote_identifier, table.key))
    rows, digest = f"from {quote_identifier(table.name)}", f"hash({names})"
    return (
        f"select {names}, count(*) as row_count {rows} "
        f"where {digest} in (select {digest} {rows} group by {digest} having count(*) > 1) "
        f"group by {names} having count(*) > 1"
    )


def run_checks(
    connection: DuckDBPyConnection, left_out: Collection[str] = ()
) -> tuple[CheckResult, ...]:
    """Run all checks on the newest book of an open warehouse, except the checks in `left_out`."""
    return tuple(_run(connection, check) for check in every_check() if check.name not in left_out)


def _run(connection: DuckDBPyConnection, check: Check) -> CheckResult:
    # Sort the rows, so that the example is the same after a rebuild.
    result = connection.execute(f"select * from ({check.sql}) order by all limit 1")
    names = [column[0] for column in result.description or ()]
    wrong, example = 0, None
    if row := result.fetchone():
        wrong = scalar(connection, f"select count(*) from ({check.sql})")
        cells = (f"{name}={value}" for name, value in zip(names, row, strict=True))
        example = ", ".join(cells)[:_LONGEST]
    return CheckResult(
        name=check.name,
        meaning=check.meaning,
        severity=check.severity,
        wrong_rows=wrong,
        example=example,
    )
