"""Older clients: every query of the dictionary answers in real older DuckDB as it does in ours."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import environments
from tests.support.books import Amount, night, published
from tests.support.shared import some_daily
from warehouse.sql.dictionary.render import examples
from warehouse.storage.layout import Layout

OLDER = {"duckdb12": "1.2.2", "duckdb14": "1.4.5", "duckdb15": "1.5.6"}
CLIENT = """
import json, sys, duckdb
book = duckdb.connect(sys.argv[1], read_only=True)
book.execute("set TimeZone = 'UTC'")
said = {}
for name, query in json.load(sys.stdin):
    try:
        rows = book.execute(query).fetchall()
        said[name] = sorted(str([str(value) for value in row]) for row in rows)
    except Exception as error:
        said[name] = [repr(error)]
json.dump([duckdb.__version__, said], sys.stdout)
"""
NIGHTS = [
    night("20261118T021500Z", [Amount("1e30"), Amount("3", "p2"), Amount("7", venue="v2")]),
    night("20261120T021500Z", [Amount("1e29"), Amount("-0.5", "p3", bucket="invented")]),
]


def asked(python: Path | str, database: Path) -> tuple[str, Mapping[str, list[str]]]:
    """Which DuckDB it is, and what it says to each query of the dictionary, in any order."""
    queries = [
        (f"{number} {name}", re.sub(r" limit [0-9]+$", "", sql))
        for number, (name, sql) in enumerate(examples())
    ]
    answer = subprocess.run(
        [str(python), "-c", CLIENT, str(database)],
        input=json.dumps(queries),
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    version, said = json.loads(answer.stdout)
    return version, said


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of two nights with a gap between, and amounts that no decimal holds."""
    layout = Layout(tmp_path_factory.mktemp("older"))
    published(layout, NIGHTS, "a")
    return layout.database


@pytest.fixture(scope="module")
def now(database: Path) -> Mapping[str, list[str]]:
    """What the DuckDB that wrote the file says."""
    return asked(sys.executable, database)[1]


@pytest.mark.parametrize("name", some_daily(OLDER, 3))
def test_an_older_client_gives_every_answer(
    name: str, database: Path, now: Mapping[str, list[str]]
) -> None:
    """The file opens in a real older DuckDB, and each table, view, macro and question answers."""
    version, said = asked(environments.python(name), database)
    assert version == OLDER[name]
    assert not {words for words, rows in now.items() if "Error" in str(rows)}
    assert said == now
