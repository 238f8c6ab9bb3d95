"""Tests of real older DuckDB clients, which return the same rows as our own version."""

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support import environments
from tests.support.books import Amount, Night, night, published
from tests.support.dictionary_examples import examples
from tests.support.shared import some_daily
from warehouse.storage.layout import Layout

OLDER = {"duckdb12": "1.2.2", "duckdb13": "1.3.2", "duckdb14": "1.4.5", "duckdb15": "1.5.6"}
CLIENT = """
import json, sys, duckdb
book = duckdb.connect(sys.argv[1], read_only=True)
book.execute("set TimeZone = 'UTC'")
book.execute("set enable_progress_bar = false")  # it is printed where the answer is
said = {}
for name, query in json.load(sys.stdin):
    try:
        rows = book.execute(query).fetchall()
        said[name] = sorted(str([str(value) for value in row]) for row in rows)
    except Exception as error:
        said[name] = [repr(error)]
json.dump([duckdb.__version__, said], sys.stdout)
"""
# Computes a digest of each table and view in several files. A client that has failed once may not
# work any more, so the program reports the failure and stops.
READER = """
import hashlib, json, sys, duckdb
read = {}
for file in json.load(sys.stdin):
    try:
        name = "connect"
        book = duckdb.connect(file, read_only=True)
        book.execute("set TimeZone = 'UTC'")
        names = book.execute(
            "select schema_name || '.' || table_name from duckdb_tables() where not internal "
            "union all select schema_name || '.' || view_name from duckdb_views() "
            "where not internal order by all").fetchall()
        for (name,) in names:
            rows = book.execute(f"from {name}").fetchall()
            text = "".join(sorted(str([str(value) for value in row]) for row in rows))
            read[f"{file} {name}"] = hashlib.sha256(text.encode()).hexdigest()
    except Exception as error:
        read[f"{file} {name}"] = repr(error)
        break
    book.close()
json.dump([duckdb.__version__, read], sys.stdout)
"""
KINDS = ("book", "book", "late", "held", "rejected")
NIGHTS = [
    night("20261118T021500Z", [Amount("1e30"), Amount("3", "p2"), Amount("7", venue="v2")]),
    night("20261120T021500Z", [Amount("1e29"), Amount("-0.5", "p3", bucket="invented")]),
]


def printed() -> list[tuple[str, str]]:
    """Return every statement in the dictionary with a unique name, but without its row limit."""
    return [
        (f"{number} {name}", re.sub(r" limit [0-9]+$", "", sql))
        for number, (name, sql) in enumerate(examples())
    ]


def asked(
    python: Path | str, database: Path, queries: Sequence[tuple[str, str]] = (), seconds: int = 120
) -> tuple[str, Mapping[str, list[str]]]:
    """Return the DuckDB version and the sorted rows of each query, by default of the dictionary."""
    answer = subprocess.run(
        [str(python), "-c", CLIENT, str(database)],
        input=json.dumps(queries or printed()),
        capture_output=True,
        check=True,
        text=True,
        timeout=seconds,
    )
    version, said = json.loads(answer.stdout)
    return version, said


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish two nights with a gap between them, and amounts that do not fit a decimal."""
    layout = Layout(tmp_path_factory.mktemp("older"))
    published(layout, NIGHTS, "a")
    return layout.database


@pytest.fixture(scope="module")
def now(database: Path) -> Mapping[str, list[str]]:
    """Return the rows of each query in the DuckDB version that wrote the file."""
    return asked(sys.executable, database)[1]


@pytest.mark.parametrize("name", some_daily(OLDER, 3))
def test_an_older_client_returns_the_same_rows(
    name: str, database: Path, now: Mapping[str, list[str]]
) -> None:
    """A real older DuckDB can open the file.

    Each statement in the dictionary returns the same rows as in the version that wrote the file.
    """
    version, said = asked(environments.python(name), database)
    assert version == OLDER[name]
    assert not {words for words, rows in now.items() if "Error" in str(rows)}
    assert said == now


def test_clients_that_follow_every_pointer_can_read_each_file(tmp_path: Path) -> None:
    """After two books and a held night, DuckDB 1.2 and 1.3 can read every table and view.

    These versions follow every pointer in the file.
    """
    *_, file = chain(tmp_path, ("book", "book", "held"), random.Random(1))
    assert differences([file], ("duckdb12", "duckdb13")) == {}


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(12))
def test_every_client_can_read_twelve_nights_of_any_kind(tmp_path: Path, seed: int) -> None:
    """Every client can read every table and view in the file after each of twelve nights.

    The nights are books, late, held or rejected.
    """
    rng = random.Random(seed)
    kinds = ("book", *rng.choices(KINDS, k=11))
    assert differences(list(chain(tmp_path, kinds, rng)), OLDER) == {}


def chain(folder: Path, kinds: Iterable[str], rng: random.Random) -> Iterator[Path]:
    """Publish a night of each kind in turn, and yield a copy of the file after each of them."""
    layout, nights = Layout(folder / "home"), list[Night]()
    for number, kind in enumerate(kinds):
        nights.append(_night_of(kind, number, rng))
        newest = {one.day: one.snapshot_id for one in nights if one.state == "accepted"}
        shown = [replace(one, is_book=newest.get(one.day) == one.snapshot_id) for one in nights]
        published(layout, shown, f"v{number}")
        yield Path(shutil.copy(layout.database, folder / f"{number}-{kind}.duckdb"))


def _night_of(kind: str, number: int, rng: random.Random) -> Night:
    """Return a night. A late night has an earlier day, which may already have a book."""
    started = datetime(2026, 11, 1, 2, 15, number, tzinfo=UTC) + timedelta(days=number)
    if kind == "late":
        started -= timedelta(days=rng.randint(1, 3))
    amounts = [
        Amount(str(rng.randint(1, 10**9)), f"p{n % 7}", f"A{n % 30}", f"v{n % 5}", f"a{n}")
        for n in range(rng.randint(5, 300))
    ]
    state = "accepted" if kind in ("book", "late") else kind
    return night(f"{started:%Y%m%dT%H%M%SZ}", amounts, state=state)


def differences(files: list[Path], clients: Iterable[str]) -> dict[str, str]:
    """Return the tables that older clients read differently from ours, and their failures."""
    now = read_whole(sys.executable, files)[1]
    found = {name: value for name, value in now.items() if "Error" in value}
    assert len(now) > 50
    for client in clients:
        version, read = read_whole(environments.python(client), files)
        assert version == OLDER[client]
        changed = {name for name, value in read.items() if now.get(name) != value}
        found |= {f"{client} {name}": read.get(name, "") for name in changed | now.keys() - read}
    return found


def read_whole(python: Path | str, files: list[Path]) -> tuple[str, Mapping[str, str]]:
    """Return the DuckDB version, and the digest of every table and view that it reads."""
    answer = subprocess.run(
        [str(python), "-c", READER],
        input=json.dumps([str(file) for file in files]),
        capture_output=True,
        check=True,
        text=True,
        timeout=300,
    )
    version, read = json.loads(answer.stdout)
    return version, read


ATTACHED = """
import re, sys, duckdb
book, page, mine = sys.argv[1:]
[block] = re.findall("```text\\n(attach .*?)```", open(page, encoding="utf-8").read(), re.DOTALL)
statements = block.replace("data/warehouse/current/nightbook.duckdb", book).split(";")
connection = duckdb.connect(mine)
connection.execute(statements[0])
try:
    connection.execute(statements[2])
except duckdb.Error as error:
    print("exact_sums does not exist" in str(error))
connection.execute(statements[1])
print(connection.execute(statements[2]).fetchall())
print(len(connection.execute("from nightbook.holdings_as_of('2026-11-20')").fetchall()))
print(len(connection.execute("from nightbook.known_at(now())").fetchall()))
connection.execute("create table labels as select 1")
print(len(connection.execute("from mine.labels").fetchall()))
"""


@pytest.mark.parametrize("client", [sys.executable, *OLDER])
def test_macros_of_an_attached_book_work_as_the_page_says(tmp_path: Path, client: str) -> None:
    """The page's search path lets macros work in an attached book, in each supported DuckDB."""
    layout = Layout(tmp_path / "home")
    published(layout, [night("20261120T021500Z", [Amount("1e30"), Amount("0.5", "p2")])], "a")
    python = client if client == sys.executable else environments.python(client)
    page = Path(__file__).parents[3] / "warehouse" / "ANALYSTS.md"
    words = (str(layout.database), str(page), str(tmp_path / "mine.duckdb"))
    said = subprocess.run(
        [python, "-c", ATTACHED, *words], capture_output=True, check=True, text=True
    )
    total = "1" + "0" * 30 + ".5"
    assert said.stdout.splitlines() == ["True", f"[('BTC', '{total}')]", "2", "1", "1"]
