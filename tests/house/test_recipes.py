"""Tests of every recipe of every page on a hostile book: the sums are exact.

The book has amounts above 1.7e20, for which sums of DECIMAL(38,18) wrap in some tools, and amounts
that this type cannot store at all (NULL with a text). It also has tiny amounts next to huge
amounts, an account without amounts, and a custom asset with the name of a listed asset.
`tests.support.books.exact` computes the expected sums.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from assets.commands.demo import HELD, OVER_TIME
from tests.house.pages import EVERY_TEXT, blocks, queries
from tests.support import environments
from tests.support.books import Amount, exact, night, published
from tests.support.dictionary_examples import examples
from warehouse.query.formats import text
from warehouse.query.read import keep_open, run
from warehouse.sql.dictionary.render import QUESTIONS
from warehouse.storage.layout import Layout

HUGE = "90000000000000000000"
LAST = [
    Amount(HUGE, venue="v1"),
    Amount(HUGE, venue="v2"),
    Amount(HUGE, portfolio="p2", state="locked"),
    Amount("0.000000000000000001", portfolio="p2"),
    Amount("-7.25", asset="ETH"),
    Amount("5", custom=True),
]
NEXT = [
    *LAST,
    Amount("1e40", portfolio="p3", venue="v2", account="inexact"),
    Amount("1e-30", portfolio="p3", account="inexact"),
    Amount("0.1234567890123456789012345", asset="ETH", venue="v2", bucket="invented", state="due"),
    Amount("99999999999999999999.999999999999999999", asset="ETH", portfolio="p2", state="locked"),
    Amount("99999999999999999999.999999999999999999", asset="ETH", portfolio="p3", state="locked"),
]
NIGHTS = {"2026-11-19": LAST, "2026-11-20": NEXT}
SILENT = [{"portfolio_id": "p1", "asset_id": "ETH", "venue_id": "v1", "account_name": "silent"}]
NUMBER = re.compile(r"(?<![\w.-])-?\d{4,}(?:\.\d+)?(?![\w-])|(?<![\w.-])-?\d+\.\d+(?![\w-])")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder whose `data` is a home with two hostile nights, as the pages name it."""
    place = tmp_path_factory.mktemp("recipes")
    nights = [
        night(f"{day.replace('-', '')}T021500Z", amounts, {"accounts": SILENT})
        for day, amounts in NIGHTS.items()
    ]
    published(Layout(place / "data"), nights, "a")
    return place


@pytest.fixture(scope="module")
def database(folder: Path) -> Iterator[Path]:
    """Open the published file once for all queries."""
    file = Layout(folder / "data").database
    with keep_open(file):
        yield file


def sums(amounts: Iterable[Amount], *names: str) -> list[tuple[str, ...]]:
    """Return the exact sums of amounts for each combination of these fields, in order."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for amount in amounts:
        groups[tuple(str(getattr(amount, name)) for name in names)].append(amount.text)
    return sorted((*key, exact(texts)) for key, texts in groups.items())


def total(day: str, asset: str = "BTC", custom: str = "False") -> str:
    """Return the exact total of an asset on a day."""
    found = {line[:2]: line[2] for line in sums(NIGHTS[day], "asset", "custom")}
    return found[asset, custom]


def _interpreter(block: str) -> str:
    """Return the Python for a block: ours, or a side environment for packages we do not need."""
    if "pyspark" in block:
        if shutil.which("java") is None:
            pytest.skip("Spark needs Java, and there is none here")
        return str(environments.python("spark"))
    return sys.executable if "open_book" in block else str(environments.python("engines"))


def _quick_java(folder: Path) -> Mapping[str, str]:
    """Return settings with which Spark starts quickly, because it reads only a few rows here."""
    (folder / "spark-defaults.conf").write_text(
        "spark.master local[1]\nspark.ui.enabled false\nspark.sql.shuffle.partitions 1\n",
        encoding="utf-8",
    )
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return {"SPARK_CONF_DIR": str(folder), "JAVA_TOOL_OPTIONS": java}


def _ran(folder: Path, program: str, more: Mapping[str, str] | None = None) -> str:
    """Run a program in the folder and return its output. Fail the test if the program fails."""
    binaries = Path(sys.executable).parent
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    (folder / "recipe.py").write_text(program, encoding="utf-8")
    quick = _quick_java(folder) if "pyspark" in program else {}
    # An earlier test with `--home` leaves its setting in the environment.
    clean = {name: value for name, value in os.environ.items() if "NIGHTBOOK" not in name}
    ran = subprocess.run(
        [_interpreter(program), "-W", "error::UserWarning", "recipe.py"],
        cwd=folder,
        env={**clean, "PATH": path, **quick, **(more or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


# Spark needs ten seconds of CPU to start, and is not used every day.
PROGRAMS = [
    pytest.param(number, marks=pytest.mark.torture if "pyspark" in block else ())
    for number, block in enumerate(blocks("python"))
]


@pytest.mark.parametrize("number", PROGRAMS)
def test_every_python_recipe_is_exact(folder: Path, number: int) -> None:
    """A recipe prints the exact sum of every asset that it adds up, and no other amount."""
    block = blocks("python")[number]
    days = NIGHTS if "data/lake" in block else {"2026-11-20": NEXT}
    every = {line[-1] for amounts in days.values() for line in sums(amounts, "asset", "custom")}
    wanted = {total(day) for day in days} if "asset_id = 'BTC'" in block else every
    assert set(NUMBER.findall(_ran(folder, block))) == {one for one in wanted if len(one) > 1}


BTC = [amount for amount in NEXT if amount.asset == "BTC" and not amount.custom]
ETH = {day: [amount for amount in NIGHTS[day] if amount.asset == "ETH"] for day in NIGHTS}
ASSET = "asset_id, is_custom_asset"
HELD_OF_EACH = (ASSET, "total_text", sums(NEXT, "asset", "custom"))
BTC_OVER_TIME = [(day, total(day)) for day in NIGHTS]
QUERIES: Mapping[str, tuple[str, str, Sequence[tuple[str, ...]]]] = {
    "How much of each asset do we hold, free": HELD_OF_EACH,
    "Which venues keep our BTC": ("venue_id", "total_text", sums(BTC, "venue")),
    "Which portfolios hold BTC": ("portfolio_id", "total_text", sums(BTC, "portfolio")),
    "Which amounts are locked": (
        ASSET,
        "locked",
        sums([amount for amount in NEXT if amount.state == "locked"], "asset", "custom"),
    ),
    "How did each asset change in the last": (
        ASSET,
        "delta",
        sums(NEXT[len(LAST) :], "asset", "custom"),
    ),
    "How much of each asset did we hold on a given day": HELD_OF_EACH,
    "How much BTC did we hold": ("snapshot_date", "total", BTC_OVER_TIME),
    "What explains the change": (ASSET, "closing_text", HELD_OF_EACH[-1]),
    HELD: HELD_OF_EACH,
    OVER_TIME: ("snapshot_date", "btc", BTC_OVER_TIME),
    "select asset_id, is_custom_asset, total_text, venues from holdings_by_asset": HELD_OF_EACH,
    "select asset_id, is_custom_asset, opening_text": (ASSET, "closing_text", HELD_OF_EACH[-1]),
    "select snapshot_date, is_custom_asset, exact_sum(amount_text)": (
        "snapshot_date",
        "exact_sum(amount_text)",
        [(day, exact(amount.text for amount in ETH[day])) for day in NIGHTS],
    ),
}


def _every_query() -> dict[str, str]:
    """Return each query of the pages and of the demo's output, by its question or text."""
    asked = {question.words: question.sql for question in QUESTIONS}
    typed = {sql: sql for sql in (HELD, OVER_TIME, *queries()) if sql not in asked.values()}
    return asked | typed


@pytest.mark.parametrize("words", QUERIES)
def test_every_query_with_a_sum_is_exact(database: Path, words: str) -> None:
    """A query of a page returns the exact sum of each asset, venue, portfolio or night."""
    keys, column, wanted = QUERIES[words]
    [sql] = [sql for name, sql in _every_query().items() if name.startswith(words)]
    answer = run(database, sql)
    rows = [dict(zip(answer.columns, map(text, row), strict=True)) for row in answer.rows]
    found = [
        (
            *(
                row[key].capitalize() if key == "is_custom_asset" else row[key]
                for key in keys.split(", ")
            ),
            row[column],
        )
        for row in rows
    ]
    assert sorted(line for line in found if line[-1] not in ("0", "")) == sorted(wanted)


@pytest.mark.parametrize(("name", "sql"), [*_every_query().items(), *examples()])
def test_every_query_works_on_a_hostile_book(database: Path, name: str, sql: str) -> None:
    """No query of a page fails on amounts that overflow its types."""
    assert run(database, sql).columns, name


def test_page_queries_add_up_the_text_of_amounts() -> None:
    """Queries add up the text of amounts, because `sum(amount)` ignores amounts that are NULL."""
    told = {**_every_query(), **dict(examples())}
    assert not [sql for sql in told.values() if re.search(r"(?<!_)sum\((?!\w*_text)", sql)]


# The claims of the analyst's page about each tool: it returns a wrong number, or `raises`.
CLAIMS = """
from decimal import Decimal
import pandas as pd, polars as pl, pyarrow as pa, pyarrow.compute as pc

texts = ["90000000000000000000", "90000000000000000000", "0.000000000000000001"]
table = pa.table({"k": [1] * 3, "x": pa.array(map(Decimal, texts), pa.decimal128(38, 18))})
frame, lines = table.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(table)
x, total = frame["x"], pl.col("x").sum()
cases = {
    "pyarrow sum": lambda: pc.sum(table["x"]).as_py(),
    "pyarrow group_by": lambda: table.group_by("k").aggregate([("x", "sum")])["x_sum"][0].as_py(),
    "pandas sum": lambda: x.sum(),
    "pandas groupby": lambda: frame.groupby("k")["x"].sum().iloc[0],
    "pandas pivot_table": lambda: frame.pivot_table("x", "k", aggfunc="sum").iloc[0, 0],
    "pandas share": lambda: x / x.sum(),
    "pandas describe": lambda: x.describe(),
    "polars group_by": lambda: lines.group_by("k").agg(total)["x"][0],
    "polars over": lambda: lines.select(total.over("k"))["x"][0],
    "polars sum": lambda: lines["x"].sum(),
    "polars lazy": lambda: lines.lazy().group_by("k").agg(total).collect(),
    "python sum": lambda: sum(map(Decimal, texts)),
}
for name, case in cases.items():
    try:
        print(name, case(), sep=": ")
    except Exception as problem:
        print(name, "raises", sep=": ")
"""
WRONG = "-160282366920938463463.374"


@pytest.mark.torture
def test_claims_about_other_tools_are_true(folder: Path) -> None:
    """Each tool returns a wrong number silently, or raises an error, as the analyst's page says."""
    said = dict(line.split(": ") for line in _ran(folder, CLAIMS).splitlines())
    raising = {"pandas share", "pandas describe", "polars sum", "polars lazy"}
    assert {name for name, words in said.items() if words == "raises"} == raising
    wrong = {name for name, words in said.items() if words.startswith(WRONG)}
    assert wrong == said.keys() - raising - {"python sum"}
    assert said["python sum"] == "180000000000000000000.0000000"


FETCH = """
import duckdb

book = duckdb.connect("data/warehouse/current/nightbook.duckdb", read_only=True)
timed = "select schema_name, table_name from duckdb_tables() where not internal union all " \
    "select schema_name, view_name from duckdb_views() where not internal"
for schema, name in book.sql(timed).fetchall():
    every = book.sql(f"from {schema}.{name}")
    every.df(), every.pl(), every.to_arrow_table()
    try:
        every.fetchall()
    except duckdb.Error as problem:
        assert "pytz" in str(problem), problem
        print("pytz")
"""


@pytest.mark.torture
def test_the_page_installs_every_package_that_python_needs(folder: Path, tmp_path: Path) -> None:
    """With `pytz` and `duckdb`, every table can be fetched. Without `pytz`, only as data frames."""
    assert "pip install duckdb pytz" in EVERY_TEXT
    assert "pytz" in _ran(folder, FETCH)
    (tmp_path / "pytz").symlink_to(environments.packages("duckdb14") / "pytz")
    assert _ran(folder, FETCH, {"PYTHONPATH": str(tmp_path)}) == ""
