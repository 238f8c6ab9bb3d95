"""The join of the ledger with the book, and the counts, totals and digest of the result.

Amounts on both sides are plain digits in one canonical form, so equal strings are equal amounts,
however many digits they have.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

import hashlib
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from warehouse.exact import exact, subtract
from warehouse.reconcile.book import columns, copy_rows
from warehouse.reconcile.model import (
    BREAK_RESULTS,
    NEAR_RESULTS,
    Key,
    Result,
    RollForwardLine,
    Run,
    Steps,
    Tie,
)
from warehouse.reconcile.terms import TOTALLED

_BATCH = 20_000
_DECIMAL = r"-?0*[0-9]{1,20}(\.[0-9]{1,18})?"  # must match the pattern in exact_sum.sql
_SIDES = ("ledger", "snapshot")

# Use this expression only once in a query, because planning it takes DuckDB 25 % of the run time of
# a small ledger.
_SUMS = "[coalesce(total['text'], '0') for total in internal.exact_sums(parts)] as sums"


def is_in(results: Sequence[Result]) -> str:
    """Return an SQL condition that is true for rows with one of these results."""
    return f"result in ({', '.join(repr(result.value) for result in results)})"


IS_BREAK = is_in(BREAK_RESULTS)

# Each total consists of three sums: all keys, breaks, and keys within tolerance or precision.
_PARTS = {"all": "true", "broken": IS_BREAK, "near": is_in(NEAR_RESULTS)}


def join_sides(connection: DuckDBPyConnection, fields: Key) -> None:
    """Create the table `pairs` from `ledger_side` and `book_side`, numbered in key order.

    A pair has both sides' amounts. If a side does not have the key, its amount is NULL.
    """
    keys = ", ".join(
        f"case when l.rows is null then s.{name} else l.{name} end as {name}" for name in fields
    )
    same = " and ".join(f"l.{name} = s.{name}" for name in fields)
    # Number the rows after sorting, because a window function that sorts takes twice as long. Leave
    # out columns that are only needed for unequal pairs, because sorting moves every column (both
    # measured).
    connection.execute(
        "create temp table pairs as select *, row_number() over () as no from ("
        f"select {keys}, l.amount as ledger, s.amount as snapshot, coalesce(l.rows, 0) as rows, "
        "l.line, coalesce(l.is_unmapped, false) as is_unmapped "
        f"from ledger_side as l full outer join book_side as s on {same} and not l.is_unmapped "
        f"order by {', '.join(fields)}, is_unmapped)"
    )


def store_keys(
    connection: DuckDBPyConnection, name: str, fields: Key, keys: Collection[Key]
) -> None:
    """Create a temporary table with these keys."""
    copy_rows(connection, name, dict.fromkeys(fields, pa.string()), keys)


def compared_keys(connection: DuckDBPyConnection, fields: Key, keys: Collection[Key]) -> set[Key]:
    """Return the subset of these keys that was compared."""
    store_keys(connection, "keys_gone", fields, keys)
    names = columns(fields)
    return {*connection.execute(f"from keys_gone semi join pairs using ({names})").fetchall()}


def totals_of_book(connection: DuckDBPyConnection) -> dict[str, Decimal]:
    """Return the sum of the book's amounts by asset, counting debts as positive amounts."""
    rows = connection.execute(
        f"select asset, internal.exact_sums([{_canonical_part('size')}])[1]['text'] "
        "from (select asset, ltrim(snapshot, '-') as size from pairs "
        "where snapshot is not null) group by 1"
    ).fetchall()
    return {asset: exact(amount) for asset, amount in rows}


def counts(connection: DuckDBPyConnection) -> dict[Result, int]:
    """Count keys by result, in the order of `Result`."""
    query = "select result, count(*) from compared group by 1"
    numbers = dict(connection.execute(query).fetchall())
    return {result: numbers.get(result.value, 0) for result in Result}


def digest(connection: DuckDBPyConnection, fields: Key, also: Sequence[str]) -> str:
    """Return the SHA-256 of `also` and of all keys, in order, with their amounts and results."""
    # Signatures depend on this digest. Each part of a key is preceded by its length. So two
    # different tables never produce the same bytes, no matter which characters their names contain.
    sha256 = hashlib.sha256("\x1e".join((*fields, *also)).encode())
    cells = ", ".join(f"strlen({name}), {name}" for name in fields)
    rows = connection.sql(
        f"select chr(30) || concat_ws(chr(31), {cells}, coalesce(ledger, '?'), "
        "coalesce(snapshot, '?'), result) as row from compared order by no"
    )
    for batch in rows.to_arrow_reader(_BATCH):
        sha256.update(_bytes(batch.column(0)))
    return sha256.hexdigest()


def decimals_of(amount: str) -> str:
    """Return the SQL expression for the number of decimal places in a canonical amount."""
    return f"(strlen({amount}) - coalesce(nullif(instr({amount}, '.'), 0), strlen({amount})))"


def tie_totals(connection: DuckDBPyConnection, fields: Key) -> list[Tie]:
    """Return the totals by asset, then by venue and by portfolio if the keys have these fields."""
    levels = [name for name in TOTALLED if name in fields]
    _add_up(connection, levels)
    names = ", ".join(levels)
    sets = ", ".join(f"({name}, asset)" for name in levels)
    order = ", ".join(f"{name} nulls first" for name in reversed(levels))
    parts = (_part(f"sums[{number}]") for number in range(1, 1 + len(_PARTS) * len(_SIDES)))
    rows = connection.execute(
        f"select * exclude (parts), {_SUMS} from ("
        f"select {names}, sum(keys)::bigint, sum(breaks)::bigint, [{', '.join(parts)}] as parts "
        f"from totals group by grouping sets ({sets})) order by {order}"
    ).fetchall()
    return [_tie(levels, *row) for row in rows]


def roll_forward(
    ties: Sequence[Tie], prior: Run | None, book_before: Mapping[str, str] | None
) -> list[RollForwardLine]:
    """Return a line for each asset in this or the previous run. Assets with breaks come first.

    If there was no previous run, the snapshot's opening is the asset's total in the previous book.
    """
    now = {tie.asset: tie for tie in ties if tie.level == "asset"}
    then = {tie.asset: tie for tie in (prior.ties if prior else ()) if tie.level == "asset"}
    lines = []
    for asset in sorted({*now, *then, *(book_before or {})}):
        steps: list[Steps] = []
        for name in ("ledger", "snapshot", "broken"):
            opening = getattr(then.get(asset), name, "0")
            if prior is None:
                is_known = name == "snapshot" and book_before is not None
                opening = (book_before or {}).get(asset, "0") if is_known else ""
            closing = getattr(now.get(asset), name, "0")
            steps.append((opening, subtract(closing, opening) if opening else "", closing))
        lines.append(RollForwardLine(asset, *steps))
    return sorted(lines, key=lambda line: not line.has_breaks)


def _bytes(strings: pa.StringArray) -> memoryview:
    """Return the bytes of all strings in an array, without creating Python strings."""
    _, ends, characters = strings.buffers()
    offsets = memoryview(ends).cast("i")[strings.offset :]
    return memoryview(characters)[offsets[0] : offsets[len(strings)]]


def _part(amount: str) -> str:
    """Return an SQL aggregate for a partial exact sum of amounts in any notation."""
    is_decimal = f"regexp_full_match({amount}, '{_DECIMAL}')"
    number = f"case when {is_decimal} then try_cast({amount} as decimal(38, 18)) end"
    return f"internal.exact_part({number}, {amount})"


def _canonical_part(amount: str) -> str:
    """Return an SQL aggregate for a partial exact sum of canonical amounts."""
    # Count the decimals instead of matching a pattern, which is three times slower (measured). The
    # count is enough, because a cast does not round an amount with at most 18 decimals.
    number = f"case when {decimals_of(amount)} <= 18 then try_cast({amount} as decimal(38, 18)) end"
    return f"internal.exact_part({number}, {amount})"


def _add_up(connection: DuckDBPyConnection, by: Sequence[str]) -> None:
    """Create the table `totals`, grouped by these fields: key count, break count and six sums.

    There are three sums, as named in `_PARTS`, each for the ledger and for the book.
    """
    fields = ", ".join(by)
    # In nearly all pairs, the two amounts are equal, so one sum is enough for both sides.
    equal = f"result = '{Result.MATCHED.value}'"
    unequal = f"not {equal} and result <> '{Result.NOT_DELIVERED.value}'"
    amounts = (f"case when {test} then {side} end" for test in _PARTS.values() for side in _SIDES)
    connection.execute(
        f"create temp table totals as select * exclude (parts), {_SUMS} from ("
        f"select {fields}, keys, breaks, [part, part, null, null, null, null] as parts from ("
        f"select {fields}, count(*) as keys, 0 as breaks, {_canonical_part('ledger')} as part "
        f"from compared where {equal} group by {fields}) union all "
        f"select {fields}, count(*), count(*) filter (where {IS_BREAK}), "
        f"[{', '.join(map(_part, amounts))}] from compared where {unequal} group by {fields})"
    )


def _tie(levels: Sequence[str], *row: Any) -> Tie:
    """Build a total from a row. Its level is the row's last field that is not NULL."""
    *names, keys, breaks, sums = row
    level, name = [pair for pair in zip(levels, names, strict=True) if pair[1] is not None][-1]
    difference, broken, near = map(subtract, sums[::2], sums[1::2])
    return Tie(
        level=level,
        of=name,
        asset=names[0],
        keys=keys,
        breaks=breaks,
        ledger=sums[0],
        snapshot=sums[1],
        difference=difference,
        broken=broken,
        near=near,
    )
