"""The row counts and sums for each asset in a balances file, calculated by several engines.

By default, an engine adds up the amounts in its usual way, which shows its behaviour above 1.7e20.
With `in_parts`, it adds integer and fractional parts separately, which does not overflow. An engine
is imported only if it is used, so Polars and Spark need not be installed.
"""

# ruff: noqa: S608 - the file is ours, and a literal

import functools
import importlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.lakehouse.errors import NotInstalled
from warehouse.contract.model import literal

_KEY = ["asset_id", "is_custom_asset"]
_WIDE = pa.decimal256(76, 18)
_PACKAGES = {"duckdb": "duckdb", "pyarrow": "pyarrow"} | {
    name: f"nightbook[{name}]" for name in ("polars", "spark")
}


class _Engine(Protocol):
    def __call__(self, file: str, *, in_parts: bool) -> Iterator[tuple[Any, ...]]: ...


def engine_sums(engine: str, file: Path, *, in_parts: bool) -> list[tuple[Any, ...]]:
    """Add up the amounts in a balances file with one engine.

    Return a row for each asset: asset_id, is_custom_asset, the number of rows, the number of
    amounts that are not NULL, and the sum or the sums of its parts. A sum is None if the engine
    could not add up the amounts or returned NULL. Raises `NotInstalled`.
    """
    try:
        return list(_ENGINES[engine](str(file), in_parts=in_parts))
    except ModuleNotFoundError as error:
        raise NotInstalled(f"{engine} is not available: {error}", _PACKAGES[engine]) from error


def _duckdb(file: str, *, in_parts: bool) -> Iterator[tuple[Any, ...]]:
    duckdb = importlib.import_module("duckdb")
    sums = "sum(trunc(amount)), sum(amount - trunc(amount))" if in_parts else "sum(amount)"
    source = f"read_parquet({literal(file)}, hive_partitioning = false)"
    counts = f"select asset_id, is_custom_asset, count(*), count(amount) from {source} group by all"
    with duckdb.connect() as connection:
        for *key, rows, numbers in connection.execute(counts).fetchall():
            # Run a separate query for each asset, because an error does not name the asset and
            # discards all sums in the query.
            query = f"select {sums} from {source} where asset_id = ? and is_custom_asset = ?"
            try:
                row = connection.execute(query, key).fetchone()
            except duckdb.OutOfRangeException:
                row = (None,)
            yield (*key, rows, numbers, *row)


def _pyarrow(file: str, *, in_parts: bool) -> Iterator[tuple[Any, ...]]:
    rows = pq.read_table(file, columns=[*_KEY, "amount"], partitioning=None)
    if in_parts:
        # Use 256-bit decimals, which can store all sums, instead of splitting the amounts.
        rows = rows.set_column(2, "amount", rows["amount"].cast(_WIDE))
    counts = [([], "count_all"), ("amount", "count")]
    sums = rows.group_by(_KEY).aggregate([*counts, ("amount", "sum")])
    names = [*_KEY, "count_all", "amount_count", "amount_sum"]
    yield from (tuple(row[name] for name in names) for row in sums.to_pylist())


def _polars(file: str, *, in_parts: bool) -> Iterator[tuple[Any, ...]]:
    polars = importlib.import_module("polars")
    amount = polars.col("amount")
    sums = [amount.sum().alias("whole")]
    if in_parts:
        # Convert the amount to text before splitting it, because dividing decimals would lose
        # digits.
        text = amount.cast(polars.String)
        sign = (
            polars.when(text.str.starts_with("-"))
            .then(polars.lit("-0."))
            .otherwise(polars.lit("0."))
        )
        halves = text.str.split_exact(".", 1)
        whole = halves.struct.field("field_0").cast(polars.Decimal(38, 0))
        part = (sign + halves.struct.field("field_1")).cast(polars.Decimal(38, 18))
        sums = [whole.sum().alias("whole"), part.sum().alias("part")]
    frame = polars.read_parquet(file, columns=[*_KEY, "amount"], hive_partitioning=False)
    grouped = frame.group_by(_KEY).agg(
        polars.len().alias("rows"), amount.count().alias("numbers"), *sums
    )
    yield from grouped.rows()


@functools.cache
def _session() -> Any:
    sql = importlib.import_module("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ModuleNotFoundError("Spark needs Java 17 or later")
    builder = sql.SparkSession.builder.appName("nightbook prove")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _spark(file: str, *, in_parts: bool) -> Iterator[tuple[Any, ...]]:
    # Use `try_sum`, which returns NULL instead of raising an error that ends the whole query.
    sums = "try_sum(amount)"
    if in_parts:
        # Split the text of the amount, because subtracting the floor returns a DECIMAL(38,16),
        # which loses digits.
        halves = "split(cast(amount as string), '[.]')"
        sign = "if(cast(amount as string) like '-%', '-0.', '0.')"
        sums = (
            f"sum(cast({halves}[0] as decimal(38, 0))), "
            f"sum(cast(concat({sign}, {halves}[1]) as decimal(38, 18)))"
        )
    session = _session()
    # Enable ANSI mode, in which decimals are converted to text without an exponent.
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.read.parquet(file).createOrReplaceTempView("balances")
    counts = "select asset_id, is_custom_asset, count(*), count(amount)"
    grouped = session.sql(f"{counts}, {sums} from balances group by 1, 2")
    yield from (tuple(row) for row in grouped.collect())


_ENGINES: dict[str, _Engine] = {
    "duckdb": _duckdb,
    "polars": _polars,
    "pyarrow": _pyarrow,
    "spark": _spark,
}
