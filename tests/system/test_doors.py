"""Tests of the recipes in DOORS.md: other programs open the book as the page describes."""

import csv
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import openpyxl
import pytest
import yaml

from tests.house.pages import ROOT
from tests.support import environments
from tests.support.books import Amount, night, published
from warehouse.export.export import export
from warehouse.query.read import tables
from warehouse.reference.inbox import receive
from warehouse.sql.dictionary import dbt_sources
from warehouse.storage.layout import Layout

PAGE = (ROOT / "warehouse" / "DOORS.md").read_text(encoding="utf-8")
HUGE = "90000000000000000000.000000000000000001"
NIGHTS = [
    night("20261119T021500Z", [Amount(HUGE)]),
    night("20261120T021500Z", [Amount(HUGE), Amount(HUGE, venue="v2"), Amount("1e-30", asset="E")]),
]
TWICE = "180000000000000000000.000000000000000002"


def recipe(door: str, language: str = "text") -> Iterator[str]:
    """Yield the code blocks of a language in the section of a client."""
    [section] = re.findall(rf"^## {door}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    yield from re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Create a home with one published night. Tests publish the second one themselves."""
    layout = Layout(tmp_path / "data")
    published(layout, NIGHTS[:1], "a")
    return layout


def ran(command: list[str], folder: Path) -> str:
    """Run a command, and return its output. A failure fails the test."""
    quiet = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "NO_COLOR": "1"}
    said = subprocess.run(
        command, cwd=folder, env=quiet, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def test_dbt_sources_match_the_tables_of_the_book(layout: Layout) -> None:
    """Each table and view is a source with its columns, and has tests for keys and NULL."""
    described = [each for each in tables(layout.database) if each.kind != "macro"]
    read = yaml.safe_load(dbt_sources.render(described))
    sources = {
        (source["schema"], table["name"]): table
        for source in read["sources"]
        for table in source["tables"]
    }
    assert sources.keys() == {(each.schema, each.name) for each in described}
    for each in described:
        columns = sources[each.schema, each.name]["columns"]
        said = [(line["name"], line["data_type"], line["description"]) for line in columns]
        assert said == list(each.columns)
    [key] = sources["main", "positions"]["data_tests"]
    assert key["unique"]["arguments"] == {
        "column_name": "row(portfolio_id, asset_id, is_custom_asset)"
    }
    [day, portfolio, name, *_] = sources["main", "portfolios"]["columns"]
    assert day["data_tests"] == ["not_null"]
    assert portfolio["data_tests"] == ["not_null", "unique"]
    assert "data_tests" not in name


@pytest.mark.torture
def test_the_dbt_project_builds_on_the_book(layout: Layout, tmp_path: Path) -> None:
    """The page's dbt project builds, its tests pass, sums are exact, and it sees a new night."""
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text(
        'name: exposure\nprofile: exposure\nversion: "1.0"\nmodels: {+materialized: table}\n'
    )
    [profile] = recipe("dbt", "yaml")
    (project / "profiles.yml").write_text(profile.replace("BOOK", str(layout.database)))
    commands, model = recipe("dbt")
    (project / "models" / "exposure.sql").write_text(model)
    sources = dbt_sources.render(tables(layout.database))
    (project / "models" / "sources.yml").write_text(sources)
    dbt = environments.python("clients").with_name("dbt")
    _, build, freshness = commands.splitlines()
    tested = sources.count("not_null") + sources.count("unique")
    said = ran([str(dbt), *build.split()[1:], "--warn-error"], project)
    assert f"PASS={tested + 1} WARN=0 ERROR=0" in said
    published(layout, NIGHTS, "b")
    ran([str(dbt), "run"], project)
    with duckdb.connect(str(project / "exposure.duckdb"), read_only=True) as own:
        found = own.execute("from exposure select * replace (snapshot_date::text as snapshot_date)")
        rows = found.fetchall()
    assert sorted(rows) == [
        ("2026-11-19", "BTC", False, HUGE),
        ("2026-11-20", "BTC", False, TWICE),
        ("2026-11-20", "E", False, f"0.{'0' * 29}1"),
    ]
    old = subprocess.run(
        [str(dbt), *freshness.split()[1:]], cwd=project, capture_output=True, text=True, check=False
    )
    assert "WARN freshness of nightbook_ops.snapshots" in old.stdout


ALCHEMY = """
import json, subprocess, sys
from sqlalchemy import create_engine, exc, inspect, text
from sqlalchemy.pool import NullPool

uri, parameters = sys.argv[1], json.loads(sys.argv[2])
QUESTION = text("select max(snapshot_date)::text, exact_sum(amount_text) "
    "from balances where asset_id = 'BTC'")
engines = [create_engine(uri, poolclass=NullPool, **parameters), create_engine(uri, **parameters)]

def ask(engine):
    with engine.connect() as connection:
        return [*connection.execute(QUESTION).one()]

seen = inspect(engines[0])
names = {schema: seen.get_view_names(schema=schema) + seen.get_table_names(schema=schema)
    for schema in seen.get_schema_names() if schema.startswith("nightbook.")}
columns = {column["name"]: str(column["type"])
    for column in seen.get_columns("holdings", schema="nightbook.main")}
with engines[0].connect() as connection:
    total, whole = connection.execute(text("select total, total_text from holdings")).one()
    try:
        connection.execute(text("create table mine (a int)"))
    except exc.DBAPIError as problem:
        refused = str(problem)
before = [ask(engine) for engine in engines]
print(json.dumps([names, columns, str(total), whole, refused, before]), flush=True)
sys.stdin.readline()
print(json.dumps([ask(engine) for engine in engines]))
"""


@pytest.mark.torture
def test_superset_reads_the_book_through_sqlalchemy(layout: Layout) -> None:
    """Superset sees schemas, types and exact decimals, cannot write, and blocks no new night."""
    [uri], [parameters] = recipe("Superset"), recipe("Superset", "json")
    uri = uri.strip().replace("BOOK", str(layout.database))
    command = [str(environments.python("clients")), "-W", "ignore", "-c", ALCHEMY, uri, parameters]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        # The program stays connected while the next night is published.
        published(layout, NIGHTS, "b")
        rest, _ = process.communicate("next\n", timeout=60)
    names, columns, total, whole, refused, before = json.loads(line)
    for each in tables(layout.database):
        assert each.kind == "macro" or each.name in names[f"nightbook.{each.schema}"]
    assert (columns["total"], columns["total_text"]) == ("NUMERIC(38, 18)", "VARCHAR")
    assert (total, whole) == (HUGE, HUGE)
    assert "read-only" in refused
    assert before == [["2026-11-19", HUGE]] * 2
    # A connection pool returns the older night, as the page says.
    assert json.loads(rest) == [["2026-11-20", TWICE], ["2026-11-19", HUGE]]


def converted(file: Path, options: list[str]) -> list[tuple[object, ...]]:
    """Return the rows of a file as LibreOffice reads and saves it."""
    out = file.parent / "out"
    profile = f"-env:UserInstallation={(file.parent / 'profile').as_uri()}"
    ran(["soffice", profile, *options, "--outdir", str(out), str(file)], file.parent)
    sheet = openpyxl.load_workbook(out / f"{file.stem}.xlsx").active
    assert sheet is not None
    return list(sheet.iter_rows(values_only=True))


@pytest.mark.torture
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not on this machine")
def test_libreoffice_reads_our_csv_without_losing_a_digit(layout: Layout) -> None:
    """LibreOffice keeps each cell's text with the page's column types, but not without them."""
    published(layout, NIGHTS, "b")
    folder = layout.exports
    export(layout.database, folder, as_of=None, formats=["csv"], program_version="1")
    file = folder / "holdings-2026-11-20.machines.csv"
    with file.open(newline="", encoding="utf-8") as lines:
        wanted = [tuple(cell or None for cell in row) for row in csv.reader(lines)]
    [command] = recipe("LibreOffice")
    options = re.findall(r"--\S+(?: xlsx)?", command.replace('"', ""))
    options = [word for option in options for word in option.split()]
    assert converted(file, options) == wanted
    plain = [re.sub("1/2/.*", "", option) for option in options]
    assert HUGE not in {cell for row in converted(file, plain) for cell in row}


EXPORTS = {
    "kraken": "ledgers.csv",
    "fireblocks": "transactions.json",
    "interactive-brokers": "cash.csv",
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_becomes_transactions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query for an export writes exact rows that reference/transactions/ takes."""
    samples = ROOT / "tests" / "golden" / "exports"
    folder = tmp_path / "reference" / "transactions"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    shutil.copy(samples / EXPORTS[name], tmp_path)
    [query] = recipe("Transactions from an export", f"sql {name}")
    duckdb.connect().execute(query)
    Path("transactions.csv").rename(folder / "a.csv")
    with (folder / "a.csv").open() as found, (samples / f"{name}.csv").open() as wanted:
        expected = list(csv.DictReader(wanted))
        rows = [{name: row[name] for name in expected[0]} for row in csv.DictReader(found)]
    assert sorted(map(str, rows)) == sorted(map(str, expected))
    inbox = receive(tmp_path / "reference", datetime(2026, 11, 21, tzinfo=UTC))
    assert [(file.rows, file.reject_count) for file in inbox.received] == [(len(expected), 0)]
