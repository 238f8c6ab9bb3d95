"""Amounts of which a file keeps some decimals, settled where they stand: a million of them.

What is not plainly what rounding leaves stays a mismatch, and is looked at in Python, by the same
rule (`precision`). A pair in Python costs 40 microseconds and a kilobyte (measured).
"""

# ruff: noqa: S608 - names are ours

from collections.abc import Collection, Mapping
from decimal import Decimal

import pyarrow as pa
from duckdb import DuckDBPyConnection

from warehouse.exact import exact, plain
from warehouse.reconcile.matching.classify import Forgiven, noise
from warehouse.reconcile.matching.join import EngineRule, Result, decimals_of
from warehouse.reconcile.matching.key_resolution import LEDGER_ROWS, copy_table
from warehouse.reconcile.matching.precision import KeptDigits, largest_loss
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.precision import Kept, Precision, Way

_MOST_DECIMALS = 17  # half a unit of which is a DECIMAL(38,18)
_MARKED = f"result = '{Result.PRECISION.value}'"


def engine_rule(digits: KeptDigits, config: Config) -> EngineRule | None:
    """Return the SQL of what the files leave of the book's amounts, None where nothing is."""
    files = {
        number: precision for number, precision in digits.by_file.items() if _is_simple(precision)
    }
    if not files or config.ledger_rounding == "written":  # which counts before it
        return None
    halves = " ".join(
        f"when {number} then '{plain(_half(precision))}'::decimal(38, 18)"
        for number, precision in files.items()
    )
    places = " ".join(
        f"when {number} then {precision.number}" for number, precision in files.items()
    )
    # Below 1e19 a difference is a DECIMAL(38,18) too; a cast that would round is none.
    gap = " - ".join(f"try_cast({side} as decimal(37, 18))" for side in ("ledger", "snapshot"))
    return EngineRule(
        rows=f"select line, case file {halves} end as half, case file {places} end as places "
        f"from {LEDGER_ROWS} where not is_number",
        test=f"rows = 1 and not is_unmapped and ledger <> snapshot and {decimals_of('ledger')} "
        f"<= places and {decimals_of('snapshot')} <= 18 and abs({gap}) <= half",
    )


def _is_simple(precision: Precision) -> bool:
    is_nearest = precision.kept is Kept.DECIMALS and precision.way is Way.NEAREST
    return is_nearest and 0 <= precision.number <= _MOST_DECIMALS


def _half(precision: Precision) -> Decimal:
    return largest_loss(precision, Decimal(0))


def settled_sums(
    connection: DuckDBPyConnection,
    fields: tuple[str, ...],
    digits: KeptDigits,
    totals: Mapping[str, Decimal],
    without: Collection[tuple[str, ...]],
) -> dict[str, Forgiven]:
    """Return by asset what `compare` settled; keys of which more is to be said are mismatches."""
    if not digits.by_file:
        return {}
    columns = {name: pa.array([key[n] for key in without]) for n, name in enumerate(fields)}
    if without:
        copy_table(connection, "keys_without", pa.table(columns))
        names = ", ".join(fields)
        unsettle(connection, f"({names}) in (select ({names}) from keys_without)")
    rows = connection.execute(
        "select asset, file, count(*), sum(abs(ledger::decimal(38, 18) - "
        "snapshot::decimal(38, 18)))::varchar from compared "
        f"inner join (select line, file from {LEDGER_ROWS}) using (line) "
        f"where {_MARKED} group by 1, 2 order by 1, 2"
    ).fetchall()
    sums: dict[str, Forgiven] = {}
    for asset, file, keys, amount in rows:
        total = totals.get(asset, Decimal(0))
        allowed = noise(_half(digits.by_file[file]))
        sums[asset] = sums.get(asset, Forgiven(total)).plus(keys, exact(amount), allowed)
    return sums


def unsettle(connection: DuckDBPyConnection, test: str = "true") -> None:
    """Make mismatches of what was settled, of all keys or of those with which a test holds."""
    connection.execute(
        f"update compared set result = '{Result.MATCHED.value}' where {_MARKED} and {test}"
    )
