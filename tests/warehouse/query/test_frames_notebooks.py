"""Tests of the notebooks, which run from top to bottom, as in Jupyter and marimo, and offline."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import environments
from tests.support.books import Amount, exact, night, published
from warehouse.storage.layout import Layout

NOTEBOOKS = sorted((Path(__file__).parents[3] / "warehouse" / "notebooks").glob("*.ipynb"))
HUGE = "99999999999999999999.9"
NIGHTS = [
    night("20261117T021500Z", [Amount(HUGE), Amount("1", "p2")]),
    night("20261118T021500Z", [Amount(HUGE), Amount(HUGE, "p2")]),
    night("20261120T021500Z", [Amount(HUGE), Amount(HUGE, "p2"), Amount("1e-30", asset="<b>&")]),
]
OFFLINE = """
import sys
def refuse(event, arguments):
    if event == "socket.connect":
        raise PermissionError(f"a notebook went to the network: {arguments}")
sys.addaudithook(refuse)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish three nights with a gap, and with sums that exceed the decimal type of any tool."""
    home = tmp_path_factory.mktemp("notebooks") / "data"
    published(Layout(home), NIGHTS, "a")
    return home


def ran(home: Path, *words: str, more: Mapping[str, str] | None = None) -> str:
    """Run a program in the folder of the home, assert that it succeeds, and return its output."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=home.parent,
        env={**os.environ, "NIGHTBOOK_HOME": str(home), **(more or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def cells(notebook: Path) -> list[str]:
    """Return the code of a notebook, cell by cell."""
    content = json.loads(notebook.read_text("utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 4)
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    return ["".join(cell["source"]) for cell in code]


LOOKS = {
    "a_first_look": "print(dict(zip(per_asset['asset_id'], per_asset['total_text'])))",
    "exposure_over_time": "print(Charts(drawings)._repr_html_())\nprint(moved.to_string())",
}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_cell_by_cell(home: Path, notebook: Path) -> None:
    """A notebook runs cell by cell, as in Jupyter, without the network.

    Its sums are exact, and names do not become markup.
    """
    program = "\n".join([OFFLINE, *cells(notebook), LOOKS[notebook.stem]])
    said = ran(home, "-W", "error", "-c", program)
    twice = exact([HUGE, HUGE])
    assert twice in said
    if notebook.stem == "exposure_over_time":
        assert said.count("<svg") == 2
        assert re.search(r"<b>&\s+False\s+(NaN|None)\s+0\.0{29}1\s+0\.0{29}1", said), "new"
        assert said.index("<h4>BTC</h4>") < said.index("<h4>&lt;b&gt;&amp;</h4>")
        assert "<h4>&lt;b&gt;&amp;</h4>" in said
        assert "highest 199999999999999999999.8, lowest" in said
    else:
        assert "'<b>&': '0.000000000000000000000000000001'" in said
        assert "the book is of 2026-11-20, not of tonight" in said
        assert "True" in said, "pandas and exact_total say the same"


@pytest.mark.torture
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_marimo(home: Path, notebook: Path) -> None:
    """A notebook runs in marimo, after it is converted with the command in its first cell.

    marimo requires that no name is defined twice.
    """
    marimo = {"PYTHONPATH": str(environments.packages("engines"))}
    made = home.parent / f"{notebook.stem}.py"
    ran(home, "-m", "marimo", "convert", str(notebook), "-o", str(made), more=marimo)
    assert "app = marimo.App()" in made.read_text("utf-8")
    ran(home, str(made), more=marimo)
    assert f"marimo convert {notebook.name} -o {made.name}" in notebook.read_text("utf-8")
