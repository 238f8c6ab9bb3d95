"""Tests of the lake with other engines, which read it without nightbook and keep every digit."""

import datetime as dt
import json
import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

from tests.support import environments
from tests.support.books import Amount, Night, night, written
from warehouse.storage.layout import Layout

TEXTS = ["1.000000000000000001", "99999999999999999999.999999999999999999", "-0", "1e30", "1e-19"]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Create a lake with two nights, and a staged file that is not accepted yet."""
    layout = Layout(tmp_path_factory.mktemp("lake"))
    written(layout, [_night(19), _night(20)])
    held = layout.staged_file("balances", "20261121T021500Z")
    held.parent.mkdir(parents=True)
    held.write_bytes(b"not for readers")
    return layout


def _night(day: int) -> Night:
    amounts = [Amount(text, asset=f"A{number}") for number, text in enumerate(TEXTS)]
    made = night(f"202611{day}T021500Z", amounts)
    rows = {name: list(lines) for name, lines in made.rows.items()}
    rows["portfolios"][0]["name"] = None if day == 19 else "Ἀθήνα"
    return replace(made, rows=rows)


def sent(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows of day, asset, amount and text in order."""
    return sorted(found, key=lambda row: (row[0], row[1]))


def wanted() -> list[tuple[Any, ...]]:
    """Return the rows of both nights, with an amount only if DECIMAL(38,18) can store it."""
    exact = [Decimal(text) for text in TEXTS[:3]]
    return [
        (dt.date(2026, 11, day), f"A{number}", (*exact, None, None)[number], text)
        for day in (19, 20)
        for number, text in enumerate(TEXTS)
    ]


def test_duckdb_reads_the_lake_exactly(layout: Layout) -> None:
    """One glob reads a table over all nights, with exact amounts and the date as a DATE."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "select snapshot_date, asset_id, amount, amount_text "
            f"from read_parquet('{layout.lake}/balances/*/*.parquet')"
        )
        kinds = [str(column[1]) for column in found.description]
        assert kinds == ["DATE", "VARCHAR", "DECIMAL(38,18)", "VARCHAR"]
        assert sent(found.fetchall()) == wanted()


def test_duckdb_reads_only_the_files_of_the_requested_day(layout: Layout) -> None:
    """A filter on the date reads only the files of that day."""
    query = f"from read_parquet('{layout.lake}/balances/*/*.parquet', hive_partitioning = true)"
    with duckdb.connect() as connection:
        asked = f"{query} where snapshot_date = '2026-11-20'"
        plan = connection.execute(f"explain {asked}").fetchall()
        assert "Scanning Files: 1/2" in plan[0][1]
        assert len(connection.execute(asked).fetchall()) == len(TEXTS)


def test_pandas_reads_one_night_exactly(layout: Layout) -> None:
    """With Arrow types, a file has exact decimals, NULL differs from zero, and sums are exact."""
    path = layout.parquet("balances", dt.date(2026, 11, 20), "20261120T021500Z")
    frame = pd.read_parquet(path, dtype_backend="pyarrow", partitioning=None)
    assert frame["amount"].dtype == pd.ArrowDtype(pa.decimal128(38, 18))
    assert frame["amount"].isna().tolist() == [False, False, False, True, True]
    assert frame["amount"].sum() == Decimal("100000000000000000001.000000000000000000")
    assert frame["amount_text"].tolist() == TEXTS


def test_pandas_reads_all_nights_exactly(layout: Layout) -> None:
    """The folder of a table is one data frame. Partitioning is off, because files have the date."""
    frame = pd.read_parquet(layout.lake / "balances", dtype_backend="pyarrow", partitioning=None)
    columns = ["snapshot_date", "asset_id", "amount", "amount_text"]
    found = [
        tuple(None if value is pd.NA else value for value in row)
        for row in frame[columns].itertuples(index=False, name=None)
    ]
    assert sent(found) == wanted()


def test_arrow_reads_all_nights_exactly(layout: Layout) -> None:
    """A dataset that is partitioned by date reads only the files of the requested days."""
    days = pa.schema([("snapshot_date", pa.date32())])
    dataset = pyarrow.dataset.dataset(
        layout.lake / "balances", partitioning=pyarrow.dataset.partitioning(days, flavor="hive")
    )
    day = pa.scalar(dt.date(2026, 11, 20))
    kept = pyarrow.dataset.field("snapshot_date") == day
    assert len(list(dataset.get_fragments(filter=kept))) == 1
    found = dataset.to_table(filter=kept).select(["amount_text"]).column(0).to_pylist()
    assert found == TEXTS


def test_a_missing_name_is_null_and_others_are_exact(layout: Layout) -> None:
    """A missing name is NULL, and any other name is exactly as it was sent."""
    path = layout.lake / "portfolios"
    frame = pd.read_parquet(path, dtype_backend="pyarrow", partitioning=None)
    named = frame.sort_values("snapshot_date")["name"]
    assert named.isna().tolist() == [True, False]
    assert named.tolist()[1] == "Ἀθήνα"


def test_every_column_has_a_comment(layout: Layout) -> None:
    """Each column of a file has a comment that explains its meaning."""
    path = layout.parquet("balances", dt.date(2026, 11, 20), "20261120T021500Z")
    schema = pyarrow.dataset.dataset(path).schema
    assert all(schema.field(name).metadata[b"comment"] for name in schema.names)


POLARS = """
import json, polars, sys
lazy = polars.scan_parquet(f"{sys.argv[1]}/*/*.parquet", hive_partitioning=False)
frame = lazy.select("snapshot_date", "asset_id", "amount", "amount_text").collect()
assert frame.schema["amount"] == polars.Decimal(38, 18)
print(json.dumps(frame.rows(), default=str))
"""
SPARK = """
import json, sys
from pyspark.sql import SparkSession
build = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = build.config("spark.sql.session.timeZone", "UTC").getOrCreate()
frame = session.read.parquet(sys.argv[1])
found = frame.select("snapshot_date", "asset_id", "amount", "amount_text")
assert dict(found.dtypes)["amount"] == "decimal(38,18)"
print(json.dumps([tuple(row) for row in found.collect()], default=str))
"""


def elsewhere(python: Path, script: str, folder: Path) -> list[tuple[Any, ...]]:
    """Run a program in another environment, and return the rows that it reads from the lake."""
    ran = subprocess.run(
        [str(python), "-c", script, str(folder)],
        capture_output=True,
        check=True,
        text=True,
        timeout=180,
    )
    rows = json.loads(ran.stdout.splitlines()[-1])
    return [
        (dt.date.fromisoformat(day), asset, None if amount is None else Decimal(amount), text)
        for day, asset, amount, text in rows
    ]


def test_polars_reads_the_lake_exactly(layout: Layout) -> None:
    """Polars scans the same glob lazily and keeps the decimals."""
    rows = elsewhere(environments.python("engines"), POLARS, layout.lake / "balances")
    assert sent(rows) == wanted()


@pytest.mark.torture
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, and there is none here")
def test_spark_reads_the_lake_exactly(layout: Layout) -> None:
    """Spark finds the partitions automatically and keeps the decimals."""
    rows = elsewhere(environments.python("spark"), SPARK, layout.lake / "balances")
    assert sent(rows) == wanted()
