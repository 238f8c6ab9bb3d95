"""Files of different levels: each is held against the book at its own.

A unit of the book is compared once. Where a file has its key at the finest level, it is compared
there; what no finer file has goes to the files of the next coarser level, as one amount for each of
their keys. So one coarse file makes no other coarser, and all sums are those of the whole book.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Sequence

from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.reconcile.ledger.model import WHOLE, Ledger
from warehouse.reconcile.matching.scope import Scope
from warehouse.reconcile.terms.notices import Notice


def assign(connection: DuckDBPyConnection, ledger: Ledger, scope: Scope) -> None:
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


def notices(ledger: Ledger) -> list[Notice]:
    """Return what a reader must know where files have different levels."""
    if len(ledger.levels) < 2:  # noqa: PLR2004 - as long as all have one level
        return []
    words = "the files have different levels: each is compared at its own, the coarser ones with "
    words += f"what the finer ones do not hold, and {WHOLE} stands for what a file does not say. A "
    words += "second ledger of the same book is no part of it: set it aside under [inbox]"
    return [Notice("medium", words)]
