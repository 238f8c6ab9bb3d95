"""Tests of startup costs. Commands import pandas, httpx and Dagster only if they need them."""

import subprocess
import sys

ARRAYS = """
import sys
from warehouse.query.pandas_blocker import leave_pandas_out
leave_pandas_out()
import pyarrow as pa
import pyarrow.compute as pc
texts = pa.array(["a", None])
pc.equal(texts, "a"), pa.array([1]).to_numpy()
assert "pandas" not in sys.modules
frame = pa.table({"text": texts, "number": pa.array([1, 2])}).to_pandas()
assert "pandas" in sys.modules
print(frame.shape, frame["number"].tolist())
leave_pandas_out()
import pandas as pd
print(pa.array(pd.Series([1.0, float("nan")]), from_pandas=True).to_pylist())
"""

NIGHT = """
import sys
from assets.definitions import assemble
from assets.nightbook import Nightbook
assemble(Nightbook())
from warehouse.contract.ops import REQUESTS
from warehouse.storage.parquet import rows_batch
rows_batch(REQUESTS, [])
print("pandas" in sys.modules)
"""

OFFLINE = """
import sys
import assets.commands.nights, assets.commands.nights, assets.commands.reconcile
print("httpx" in sys.modules)
import pipelines.edge.client
print("httpx" in sys.modules, "rich" in sys.modules)
"""

WITHOUT_DAGSTER = """
import importlib, sys
names = "api backup export install nights query reconcile report snapshots tables trace verify"
for name in names.split():
    importlib.import_module(f"assets.commands.{name}")
    assert "dagster" not in sys.modules, name
from assets.commands import doctor
print("dagster" in sys.modules)
"""


def _said(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout


def test_creating_arrays_does_not_import_pandas() -> None:
    """Arrays are created without importing pandas, and `to_pandas` still works afterwards."""
    assert _said(ARRAYS).splitlines() == ["(2, 2) [1, 2]", "[1.0, None]"]


def test_a_night_does_not_import_pandas() -> None:
    """The modules that Dagster loads to run a night create tables without importing pandas."""
    assert _said(NIGHT) == "False\n"


def test_commands_that_only_read_files_do_not_load_httpx() -> None:
    """Commands that only read files do not import httpx, such as deciding and reconciling.

    The API client imports httpx, but not rich, because it does not need a command line.
    """
    assert _said(OFFLINE).splitlines() == ["False", "True False"]


def test_a_command_loads_dagster_only_if_needed() -> None:
    """Importing Dagster takes over a second, so a backup or a query does not import it."""
    assert _said(WITHOUT_DAGSTER) == "True\n"
