"""Tests of startup costs. Commands import pandas and httpx only if they need them."""

import json
import subprocess
import sys
from collections.abc import Callable

from tests.support.created_home import created_home
from tests.support.operator_home import Keeper

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

BY_COMMAND = """
import json, sys
from datetime import datetime
from assets.cli import main
from assets.nightbook import Nightbook
variables, moment = json.loads(sys.argv[1])
nightbook = Nightbook(lambda: variables, lambda: datetime.fromisoformat(moment))
codes = [main([word, "-q"], nightbook) for word in ("run", "status")]
print(codes, [name in sys.modules for name in ("dagster", "pandas")])
"""


def _said(program: str, *words: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, *words], check=True, capture_output=True, text=True
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


def test_a_night_by_command_does_not_import_dagster(empty: Callable[..., Keeper]) -> None:
    """A night and a look at it import neither Dagster, which takes over a second, nor pandas."""
    keeper = empty()
    created_home(keeper.home)
    given = json.dumps([keeper.variables, keeper.sandbox.clock().isoformat()])
    *_, last = _said(BY_COMMAND, given).splitlines()
    assert last == "[0, 1] [False, False]"  # nothing starts the next night
