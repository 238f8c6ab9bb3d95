"""Join the two sides: a full outer join of keys and exact amounts.

Both sides hold amounts in one canonical form of plain digits, so that equal texts are equal
amounts, however many digits they have; no decimal type is asked to hold or to subtract them.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from warehouse.exact import exact, subtract
from warehouse.reconcile.book import columns, copy_table
from warehouse.reconcile.match.sides import LEDGER_ROWS
from warehouse.reconcile.model import _BREAKS, _NEAR, Result, RollForwardLine, Steps, Tie
from warehouse.reconcile.terms import TOTALLED

_BATCH = 20_000

_DECIMAL = r"-?0*[0-9]{1,20}(\.[0-9]{1,18})?"  # as in exact_sum.sql

_SIDES = ("ledger", "snapshot")


def _is_in(results: tuple[Result, ...]) -> str:
    return f"result in ({', '.join(repr(result.value) for result in results)})"


# The three sums of each total, as predicates: of all keys, of breaks, and of what is forgiven.
_PARTS = {"all": "true", "broken": _is_in(_BREAKS), "near": _is_in(_NEAR)}

_UNSETTLED = f"result = '{Result.MATCHED.value}'"  # before results are stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One key on which the sides are not equal, as the join found it.

    `no` numbers the keys in their order; `lines` are the places of its rows in the ledger.
    """

    no: int
    key: tuple[str, ...]
    ledger: str | None
    snapshot: str | None
    rows: int
    lines: tuple[int, ...]
    decimals: int
    is_number: bool
    is_unmapped: bool

    @property
    def amounts(self) -> tuple[Decimal, Decimal]:
        """The ledger's amount and the snapshot's; zero of a side that lacks the key."""
        return exact(self.ledger or "0"), exact(self.snapshot or "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRule:
    """What settles a mismatch where it stands: `rows` by line, and the test with their columns."""

    rows: str
    test: str


def compare(
    connection: DuckDBPyConnection, fields: tuple[str, ...], rule: EngineRule | None = None
) -> None:
    """Make the table `compared` of `ledger_side` and `book_side`, in the order of the keys.

    What the rule settles is ledger precision, and no mismatch.
    """
    keys = ", ".join(
        f"case when l.rows is null then s.{name} else l.{name} end as {name}" for name in fields
    )
    same = " and ".join(f"l.{name} = s.{name}" for name in fields)
    # Both sides go before the keys are put in order: of a million keys the peak is a hundred
    # megabytes lower, for 0.3 CPU s (measured).
    connection.execute(
        "create or replace temp table joined as "
        f"select {keys}, l.amount as ledger, s.amount as snapshot, coalesce(l.rows, 0) as rows, "
        "l.line, coalesce(l.is_unmapped, false) as is_unmapped "
        f"from ledger_side as l full outer join book_side as s on {same} and not l.is_unmapped"
    )
    connection.execute("drop table book_side")
    # Numbered after they are put in order, for a window over that order costs twice as much, and
    # with nothing that only the mismatches need: each column more is moved with its row (measured).
    rows, result = "joined", f"'{Result.MATCHED.value}'"
    if rule is not None:
        rows = f"(select joined.*, {rule.test} as is_left from joined "
        rows += f"left join ({rule.rows}) using (line))"
        result = f"case when is_left then '{Result.PRECISION.value}' else {result} end"
    connection.execute(
        f"create or replace temp table compared as select *, {result} as result, "
        "row_number() over () as no from ("
        f"select * from {rows} order by {', '.join(fields)}, is_unmapped)"
    )
    connection.execute("drop table joined")


def mismatches(
    connection: DuckDBPyConnection,
    fields: tuple[str, ...],
    rejected: Collection[tuple[str, ...]] = (),
    every: int = 1,
) -> Iterator[Pair]:
    """Yield every key whose amounts are not the same text, also those that one side lacks.

    `rejected` are keys of rows that could not be read: they are odd, whatever else they hold. Of
    very many only each so-maniest, by its number, may be enough.
    """
    columns_ = [pa.array([key[n] for key in rejected], pa.string()) for n in range(len(fields))]
    copy_table(connection, "rejected_keys", pa.table(dict(zip(fields, columns_, strict=True))))
    unread = f"or ({', '.join(fields)}) in (select ({', '.join(fields)}) from rejected_keys)"
    cursor = connection.execute(
        f"select no, {columns(fields)}, ledger, snapshot, rows, coalesce(lines, [line]), "
        "coalesce(s.decimals, r.decimals, 0), coalesce(s.is_number, r.is_number, false), "
        "is_unmapped from (select * from compared where (is_unmapped or ledger is distinct from "
        f"snapshot {unread if rejected else ''}) and {_UNSETTLED} and hash(no) % {every} = 0) "
        "left join (select first as line, lines, decimals, is_number from ledger_sums) as s "
        "using (line) "
        f"left join (select line, decimals, is_number from {LEDGER_ROWS}) as r using (line) "
        "order by no"
    )
    wide = len(fields)
    while rows := cursor.fetchmany(_BATCH):
        for row in rows:
            ledger, snapshot, count, lines, decimals, is_number, is_unmapped = row[wide + 1 :]
            yield Pair(
                no=row[0],
                key=row[1 : wide + 1],
                ledger=ledger,
                snapshot=snapshot,
                rows=count,
                lines=tuple(line for line in lines if line is not None),
                decimals=decimals,
                is_number=is_number,
                is_unmapped=is_unmapped,
            )


def compared_keys(
    connection: DuckDBPyConnection, fields: tuple[str, ...], keys: Collection[tuple[str, ...]]
) -> set[tuple[str, ...]]:
    """Return those of some keys that were compared."""
    columns_ = [pa.array([key[n] for key in keys], pa.string()) for n in range(len(fields))]
    copy_table(connection, "some_keys", pa.table(dict(zip(fields, columns_, strict=True))))
    names = columns(fields)
    return {*connection.execute(f"from some_keys semi join compared using ({names})").fetchall()}


def count_mismatches(connection: DuckDBPyConnection) -> int:
    """Return how many keys have amounts that are not the same text."""
    test = f"(is_unmapped or ledger is distinct from snapshot) and {_UNSETTLED}"
    # Fetched to its end, for a connection with half a result registers no table.
    rows = connection.execute(f"select count(*) from compared where {test}").fetchall()
    return int(rows[0][0])


def totals_of_book(connection: DuckDBPyConnection) -> dict[str, Decimal]:
    """Return by asset what the book has of it, debts as what they are without their sign."""
    rows = connection.execute(
        f"select asset, internal.exact_sums([{_canonical_part('size')}])[1]['text'] "
        "from (select asset, ltrim(snapshot, '-') as size from compared "
        "where snapshot is not null) group by 1"
    ).fetchall()
    return {asset: exact(amount) for asset, amount in rows}


def store_results(connection: DuckDBPyConnection, results: Mapping[int, Result]) -> None:
    """Write the results of the mismatches into `compared`; all others are matched."""
    table = pa.table(
        {
            "number": pa.array(list(results), pa.int64()),
            "result": pa.array([result.value for result in results.values()], pa.string()),
        }
    )
    copy_table(connection, "results", table)
    connection.execute("update compared set result = results.result from results where number = no")


def counts(connection: DuckDBPyConnection) -> dict[Result, int]:
    """Return how many keys have each result, in the fixed order."""
    numbers = dict(
        connection.execute("select result, count(*) from compared group by 1").fetchall()
    )
    return {result: numbers.get(result.value, 0) for result in Result}


def digest(connection: DuckDBPyConnection, fields: tuple[str, ...], also: Sequence[str]) -> str:
    """Return the SHA-256 of every key, both amounts and the result, in order, and of `also`."""
    # A signature is bound to it. Each part of a key is preceded by its length, so that no two
    # tables of keys give the same bytes, whatever letters stand in their names.
    sha256 = hashlib.sha256("\x1e".join((*fields, *also)).encode())
    cells = ", ".join(f"strlen({name}), {name}" for name in fields)
    rows = connection.sql(
        f"select chr(30) || concat_ws(chr(31), {cells}, coalesce(ledger, '?'), "
        "coalesce(snapshot, '?'), result) as row from compared order by no"
    )
    for batch in rows.to_arrow_reader(_BATCH):
        sha256.update(_bytes(batch.column(0)))
    return sha256.hexdigest()


def _bytes(texts: pa.StringArray) -> memoryview:
    """Return what an array of texts holds, one behind the other: no text of it is made."""
    _, ends, letters = texts.buffers()
    places = memoryview(ends).cast("i")[texts.offset :]
    return memoryview(letters)[places[0] : places[len(texts)]]


def decimals_of(amount: str) -> str:
    """Return the SQL of how many decimals an amount in its canonical form has."""
    return f"(strlen({amount}) - coalesce(nullif(instr({amount}, '.'), 0), strlen({amount})))"


def _part(text: str) -> str:
    """Return the SQL of a part of an exact sum, of any texts: an aggregate."""
    is_decimal = f"regexp_full_match({text}, '{_DECIMAL}')"
    number = f"case when {is_decimal} then try_cast({text} as decimal(38, 18)) end"
    return f"internal.exact_part({number}, {text})"


def _canonical_part(amount: str) -> str:
    """Return the SQL of a part of an exact sum, of amounts in their canonical form."""
    # To prove each text by a pattern takes three times the time (measured). Of canonical ones the
    # decimals are counted: a cast rounds nothing that has no more than the type.
    number = f"case when {decimals_of(amount)} <= 18 then try_cast({amount} as decimal(38, 18)) end"
    return f"internal.exact_part_where(internal.exact_split({number}, {amount}), true)"


# To plan the sums of parts took a quarter of the run of a small ledger: it is done once for all.
_SUMS = "[coalesce(total['text'], '0') for total in internal.exact_sums(parts)] as sums"


def add_up(connection: DuckDBPyConnection, by: Sequence[str]) -> None:
    """Make the table `totals`: by these fields how many keys, and a list of six exact sums.

    Of both sides: of all keys, of those that are breaks, and of those within tolerance.
    """
    fields = ", ".join(by)
    # Where the amounts are equal one sum serves both sides; the others are few.
    equal = f"result = '{Result.MATCHED.value}'"
    unequal = f"not {equal} and result <> '{Result.NOT_DELIVERED.value}'"
    texts = (f"case when {test} then {side} end" for test in _PARTS.values() for side in _SIDES)
    connection.execute(
        f"create or replace temp table totals as select * exclude (parts), {_SUMS} from ("
        f"select {fields}, keys, breaks, [part, part, null, null, null, null] as parts from ("
        f"select {fields}, count(*) as keys, 0 as breaks, {_canonical_part('ledger')} as part "
        f"from compared where {equal} group by {fields}) union all "
        f"select {fields}, count(*), count(*) filter (where {_PARTS['broken']}), "
        f"[{', '.join(map(_part, texts))}] from compared where {unequal} group by {fields})"
    )


def totals(connection: DuckDBPyConnection, levels: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the table `totals` by asset, then by asset and each further level.

    A row has the name at each level, None where it is of all; keys, breaks and a list of six sums.
    """
    names = ", ".join(levels)
    sets = ", ".join(f"({name}, asset)" for name in levels)
    order = ", ".join(f"{name} nulls first" for name in reversed(levels))
    parts = (_part(f"sums[{number}]") for number in range(1, 1 + len(_PARTS) * len(_SIDES)))
    return connection.execute(
        f"select * exclude (parts), {_SUMS} from ("
        f"select {names}, sum(keys), sum(breaks), [{', '.join(parts)}] as parts "
        f"from totals group by grouping sets ({sets})) order by {order}"
    ).fetchall()


def tie_totals(connection: DuckDBPyConnection, fields: tuple[str, ...]) -> list[Tie]:
    """Return the totals of every asset, then of every venue and portfolio that the level has."""
    levels = [name for name in TOTALLED if name in fields]
    add_up(connection, levels)
    return list(_ties(connection, levels))


def _ties(connection: DuckDBPyConnection, levels: Sequence[str]) -> Iterator[Tie]:
    for row in totals(connection, levels):
        *names, keys, breaks, sums = row
        ledger, snapshot, broken_ledger, broken_snapshot, near_ledger, near_snapshot = sums
        level, name = [pair for pair in zip(levels, names, strict=True) if pair[1] is not None][-1]
        yield Tie(
            level=level,
            of=name,
            asset=names[0],
            keys=int(keys),
            breaks=int(breaks),
            ledger=ledger,
            snapshot=snapshot,
            difference=subtract(ledger, snapshot),
            broken=subtract(broken_ledger, broken_snapshot),
            near=subtract(near_ledger, near_snapshot),
        )


def roll_forward(
    ties: Sequence[Tie], before: Sequence[Tie] | None, book_before: Mapping[str, str] | None
) -> list[RollForwardLine]:
    """Return every asset that this run or the one before it has, those with breaks first.

    Where there was no run before, the book before is the opening of the snapshot.
    """
    now = {tie.asset: tie for tie in ties if tie.level == "asset"}
    then = {tie.asset: tie for tie in before or () if tie.level == "asset"}
    lines = []
    for asset in sorted({*now, *then, *(book_before or {})}):
        steps: list[Steps] = []
        for name in ("ledger", "snapshot", "broken"):
            opening = getattr(then.get(asset), name, "0")
            if before is None:
                is_known = name == "snapshot" and book_before is not None
                opening = (book_before or {}).get(asset, "0") if is_known else ""
            closing = getattr(now.get(asset), name, "0")
            steps.append((opening, subtract(closing, opening) if opening else "", closing))
        lines.append(RollForwardLine(asset, *steps))
    return sorted(lines, key=lambda line: not line.has_breaks)
