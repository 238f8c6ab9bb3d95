"""Tests of `nightbook prove`, which compares the sums of query engines with control totals."""

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from assets.cli import main
from tests.support import environments
from tests.support.nights import STARTED, Book, small, take
from tests.support.shared import some_daily
from warehouse.storage.layout import Layout

HUGE = "90000000000000000000"
TRUE = "180000000000000000000.5"
WRAPPED = "-160282366920938463462.8746074317682114"  # Polars prints one digit less.
_COMMAND = (sys.executable, "-m", "assets.cli", "--home")
DAY, DAY_BEFORE = "2026-11-21", "2026-11-20"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create two nights: one with small sums, and one whose BTC total does not fit into 128 bits.

    Two amounts of the second night are stored only as text.
    """
    layout = Layout(tmp_path_factory.mktemp("home"))
    take(layout, small("0.000000000000000001"), STARTED)
    book = small(HUGE)
    [portfolio] = book.portfolios
    [position] = portfolio["positions"]
    position["accounts"] += [
        _account("second", f"{HUGE}.5"),
        _account("third", "-0.000000000000000001"),
        _account("fourth", "0.000000000000000001"),
    ]
    texts = {"assetId": "ETH", "isCustomAsset": True}
    accounts = [_account("a", "1e30"), _account("b", "1e-19"), _account("c", "-7.25")]
    portfolio["positions"].append(texts | {"accounts": accounts})
    take(layout, Book([portfolio], book.venues), STARTED + timedelta(days=1))
    return layout.home


def _account(name: str, amount: str) -> dict[str, Any]:
    return {"venueId": "v1", "name": name, "balance": {"margin": {"locked": amount}}}


def proved(
    home: Path, engine: str, *words: str, packages: Path | None = None
) -> tuple[int, list[Any]]:
    """Run the command with an engine from a separate environment. Return its exit code and rows."""
    path = os.pathsep.join(map(str, filter(None, (environments.ROOT, packages))))
    ran = subprocess.run(
        [*_COMMAND, str(home), "prove", "--all", "--engine", engine, "--format", "json", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def _differing(nights: list[Any]) -> dict[str, dict[str, str | None]]:
    return {
        night["date"]: {line["asset_id"]: line["engine"] for line in night["differences"]}
        for night in nights
    }


def _packages(engine: str) -> Path | None:
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is none here")
    side = {"polars": "engines", "spark": "spark"}.get(engine)
    return environments.packages(side) if side else None


@pytest.mark.parametrize(
    ("engine", "sum_"),
    [
        ("duckdb", None),
        ("pyarrow", WRAPPED),
        ("polars", WRAPPED),
        pytest.param("spark", None, marks=pytest.mark.torture),
    ],
)
def test_wrong_sums_of_an_engine_fail_the_command(
    home: Path, engine: str, sum_: str | None
) -> None:
    """Beyond 1.7e20, an engine fails or wraps around. The command prints both sums and fails."""
    code, nights = proved(home, engine, packages=_packages(engine))
    assert (code, [night["is_equal"] for night in nights]) == (1, [True, False])
    [difference] = nights[1]["differences"]
    assert difference["asset_id"] == "BTC"
    assert (difference["engine"] or "none").startswith(sum_ or "none")
    assert nights[1]["differences"][0]["stated"] == TRUE
    # Amounts that are stored only as text are added and counted.
    assert [(night["rows"], night["stated_rows"], night["texts"]) for night in nights] == [
        (1, 1, 0),
        (7, 7, 2),
    ]


@pytest.mark.parametrize(
    "engine",
    some_daily(["duckdb", "pyarrow", "polars", "spark"], 4),
)
def test_every_engine_is_exact_with_the_exact_option(home: Path, engine: str) -> None:
    """With --exact, every engine computes the control totals, in separate parts or in 256 bits."""
    code, nights = proved(home, engine, "--exact", packages=_packages(engine))
    assert (code, _differing(nights)) == (0, {DAY_BEFORE: {}, DAY: {}})


def test_the_output_shows_both_sums_and_the_next_command(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text has a line for each night, the differences below it, and the command to try next."""
    assert main(["--home", str(home), "prove", "--engine", "pyarrow"]) == 1
    said = capsys.readouterr()
    assert f"BTC: pyarrow has {WRAPPED}56, but the control total is {TRUE}" in said.out
    assert "2 amounts too large for DECIMAL(38,18), so the exact texts were added up" in said.out
    assert " prove --engine pyarrow --exact" in said.err
    assert main(["--home", str(home), "prove", "--as-of", DAY_BEFORE]) == 0
    assert main(["--home", str(home), "prove", "--as-of", "2026-01-01"]) == 2


def test_a_missing_engine_fails_with_a_remedy(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If an engine is not installed, the command exits with 2 and says what to install."""
    assert main(["--home", str(home), "prove", "--engine", "polars"]) == 2
    assert "pip install 'nightbook[polars]'" in capsys.readouterr().err
