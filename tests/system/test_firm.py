"""Tests of a firm of several organisations: one book from homes that are independent."""

import contextlib
import io
import json
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path

import dagster as dg
import duckdb
import openpyxl
import pytest

from assets.cli import main
from assets.graph.firm import firm_definitions
from assets.home.source_nights import shard_of, take_nights
from tests.support.firm_home import DOWN, FIRST, HELD, SECOND, FirmHome, firm_of
from warehouse.export.export import export
from warehouse.sql.catalog import views
from warehouse.storage.firm import read_firm

ANALYSTS = (Path(__file__).parents[2] / "warehouse" / "ANALYSTS.md").read_text("utf-8")


@pytest.fixture(scope="module", params=[3, pytest.param(10, marks=pytest.mark.torture)])
def home(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> FirmHome:
    """Create a firm of three or ten organisations, of which one is down and one is held."""
    made = firm_of(tmp_path_factory.mktemp("firm"), request.param)
    made.publish()
    return made


@pytest.fixture
def book(home: FirmHome) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the firm's book as any client does."""
    with duckdb.connect(str(home.layout.database), read_only=True) as connection:
        yield connection


def test_ops_nights_has_a_row_for_each_organisation(
    home: FirmHome, book: duckdb.DuckDBPyConnection
) -> None:
    """The table ops.nights has one row per organisation, with its state and the reason for a gap.

    The reason is that of the guard for a held organisation, and that of the run for a failed one.
    """
    rows = book.execute(
        "select source, is_in_book, state, as_of, reason from ops.nights "
        "where snapshot_date = ? order by source",
        [SECOND.date()],
    ).fetchall()
    assert [row[0] for row in rows] == sorted(home.names)
    told = {row[0]: row[1:] for row in rows}
    assert told.pop(DOWN) == (False, "no snapshot", FIRST.date(), "its API does not answer")
    is_in_book, state, as_of, reason = told.pop(HELD)
    assert (is_in_book, state, as_of) == (False, "held", FIRST.date())
    assert "empty" in reason or "no portfolios" in reason, reason
    assert set(told.values()) == {(True, "accepted", SECOND.date(), "")}


def test_sums_over_the_firm_match_the_landed_bytes(
    home: FirmHome, book: duckdb.DuckDBPyConnection
) -> None:
    """Sums equal a second calculation from the bodies, and custom assets stay per organisation."""
    expected: dict[tuple[str, bool, str | None], Decimal] = defaultdict(Decimal)
    with localcontext(prec=200):
        for name in set(home.names) - {DOWN, HELD}:
            for (asset, is_custom), total in home.landed_totals(name, SECOND.date()).items():
                expected[asset, is_custom, name if is_custom else None] += total
    rows = book.execute(
        "select asset_id, is_custom_asset, custom_of, total_text, missing_sources "
        "from firm_holdings_by_asset"
    ).fetchall()
    assert {tuple(row[:3]): Decimal(row[3]) for row in rows} == expected
    assert {row[4] for row in rows} == {", ".join(sorted((DOWN, HELD)))}
    by_venue = book.execute(
        "select asset_id, is_custom_asset, custom_of, exact_sum(total_text) "
        "from firm_holdings_by_venue group by all"
    ).fetchall()
    assert {tuple(row[:3]): Decimal(row[3]) for row in by_venue} == {
        key: total for key, total in expected.items() if key in {tuple(r[:3]) for r in by_venue}
    }


def test_firm_views_match_the_warehouse_of_each_organisation(
    home: FirmHome, book: duckdb.DuckDBPyConnection
) -> None:
    """Each view has exactly the rows of an organisation's own warehouse, with the source first.

    Organisations that are not in the book have no rows.
    """
    well = home.names[0]
    with duckdb.connect(str(home.of(well).database), read_only=True) as own:
        for view in views():
            firm = book.execute(f"select * from {view.name} where source = ?", [well])
            assert firm.description[0][0] == "source"
            rows = {row[1:] for row in firm.fetchall()}
            assert rows == set(own.execute(f"select * from {view.name}").fetchall()), view.name
            sources = book.execute(f"select distinct source from {view.name}").fetchall()
            assert not {DOWN, HELD} & {row[0] for row in sources}, view.name
    as_of = "select * from account_balances_as_of('2026-11-21')"
    assert not book.execute(f"{as_of} except select * from account_balances").fetchall()
    assert not book.execute(f"select * from account_balances except {as_of}").fetchall()


def test_the_previous_book_includes_all_organisations(
    home: FirmHome, book: duckdb.DuckDBPyConnection
) -> None:
    """The book of the previous night includes organisations that are missing tonight."""
    sources = book.execute("select distinct source from holdings_as_of('2026-11-20')").fetchall()
    assert {row[0] for row in sources} == set(home.names)
    nights = book.execute("select sources, listed from firm_nights order by snapshot_date")
    count = len(home.names)
    assert nights.fetchall() == [(count, count), (count - 2, count)]


def test_the_workbook_has_sources_first_and_lists_missing_ones(home: FirmHome) -> None:
    """The workbook has the rows of the organisations in the book, and names are never formulas."""
    exported = export(
        home.layout.database,
        home.layout.exports,
        as_of=None,
        formats=("xlsx",),
        program_version="0",
    )
    assert any(DOWN in notice and "2026-11-20" in notice for notice in exported.notices)
    book = openpyxl.load_workbook(exported.files[0])
    accounts = list(book["Accounts"].iter_rows(values_only=True))
    assert accounts[0][0] == "Source"
    assert {row[0] for row in accounts[1:]} == set(home.names) - {DOWN, HELD}
    assert all(cell.data_type == "s" for cell in book["Accounts"]["A"])
    gate = {row[0]: row[1:3] for row in book["Sources"].iter_rows(values_only=True)}
    assert gate[DOWN] == ("no", "no snapshot")
    assert gate[HELD] == ("no", "held")
    assert gate[home.names[0]] == ("yes", "accepted")
    assert any(
        "ties out" in str(cell)
        for row in book["Summary"].iter_rows(values_only=True)
        for cell in row
    )


def _run(home: FirmHome, *words: str) -> tuple[int, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = main(words, home.nightbook)
    return code, out.getvalue()


def test_status_and_report_show_held_or_missing_sources(home: FirmHome) -> None:
    """A held organisation makes status exit with 3, and the report names a missing one's error."""
    code, said = _run(home, "status")
    assert code == 3
    assert f"{len(home.names) - 2} of {len(home.names)} organisations" in said
    assert "its API does not answer" in said
    code, said = _run(home, "report")
    page = Path(said.split("\n")[-2]).read_text("utf-8")
    assert code == 0
    assert "its API does not answer" in page
    assert "<b>gamma</b>" not in page
    code, said = _run(home, "snapshots")
    assert code == 2
    assert "works on the nights of one organisation" in said


ERRORS = 4


def test_only_planted_errors_in_the_ledger_of_a_firm_are_breaks(
    home: FirmHome,
) -> None:
    """Only the planted errors are breaks. Organisations without a book today are not compared."""
    inbox = home.layout.home / "reconcile" / "inbox"
    code, said = _run(home, "reconcile", "init")
    assert code == 0, said
    with duckdb.connect(str(home.layout.database), read_only=True) as book:
        rows = book.execute(
            "select source, portfolio_name, venue_name, account_name, asset_id || "
            "case when is_custom_asset then ' (custom)' else '' end, total_text "
            "from account_balances order by all"
        ).fetchall()
        gone = book.execute(
            "select source, portfolio_name, venue_id, account_name, asset_id, total_text "
            "from account_balances_as_of('2026-11-20') where source = ? limit 5",
            [DOWN],
        ).fetchall()
    sizeable = [place for place, row in enumerate(rows) if len(row[5]) > 6]
    wrong = [list(row) for row in rows]
    with localcontext(prec=200):
        for place in sizeable[:: len(sizeable) // ERRORS][:ERRORS]:
            wrong[place][5] = format(Decimal(rows[place][5]) + 1, "f")
    ledger = openpyxl.Workbook()
    sheet = ledger.active
    sheet.append(["Entity", "Portfolio", "Venue", "Account", "Asset", "Quantity"])
    for row in [*wrong, *gone]:
        sheet.append(row)
        for cell in sheet[sheet.max_row]:
            cell.data_type = "s"
    inbox.mkdir(parents=True, exist_ok=True)
    ledger.save(inbox / "ledger-2026-11-21.xlsx")
    code, said = _run(home, "reconcile", "run")
    assert code == 3, said
    _, breaks = _run(home, "reconcile", "status", "--format", "jsonl")
    told = [json.loads(line) for line in breaks.splitlines()]
    assert {each["result"] for each in told} == {"Amount differs"}
    assert len(told) == ERRORS
    assert {Decimal(each["difference"]) for each in told} <= {Decimal(1), Decimal(-1)}
    assert "did not deliver" in said
    [workbook] = (home.layout.home / "reconcile" / "out").rglob("*.xlsx")
    code, said = _run(home, "reconcile", "verify", str(workbook))
    assert code == 0, said


def test_each_run_uses_only_its_own_settings(
    home: FirmHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run uses its own folder without the firm's settings, and returns its last message."""
    monkeypatch.setenv("NIGHTBOOK_API_KEY", "the-firms-own")
    script = (
        "import os, sys; names = [n for n in os.environ if n.startswith('NIGHTBOOK_')]; "
        'print(\'{"words": "%s in %s"}\' % (names, os.path.basename(os.getcwd()))); '
        "sys.exit(3 if '0' in os.getcwd()[-1] else 0)"
    )
    sources = read_firm(home.layout.home).sources
    ended = take_nights(
        sources,
        2,
        day=None,
        unless_taken=False,
        tell=lambda *_, **__: None,
        command=(sys.executable, "-c", script),
    )
    assert {each.source: each.words for each in ended} == {
        name: f"[] in organisation {home.names.index(name)}" for name in home.names
    }
    assert [each.code for each in ended if each.source == home.names[0]] == [3]
    shards = [shard_of(source, 4) for source in sources]
    assert shards == [shard_of(source, 4) for source in sources]
    assert set(shards) <= {1, 2, 3, 4}


def test_the_firm_job_rebuilds_nights_and_reports_failures(home: FirmHome, tmp_path: Path) -> None:
    """The job rebuilds one organisation's landed night, and reports the failure of the other."""
    copy = FirmHome(tmp_path / "copy", home.names)
    shutil.copytree(home.root, copy.root, symlinks=True)
    well = home.names[0]
    copy.describe(well, DOWN)
    definitions = firm_definitions(copy.nightbook)
    key = dg.MultiPartitionKey({"date": SECOND.date().isoformat(), "shard": "1"})
    job = definitions.resolve_job_def("firm_night")
    result = job.execute_in_process(partition_key=key, raise_on_error=True)
    assert result.success
    [check] = result.get_asset_check_evaluations()
    assert not check.passed
    assert set(check.metadata) == {DOWN}
    assert "exit code" in str(check.metadata[DOWN].value)
    with duckdb.connect(str(copy.layout.database), read_only=True) as book:
        rows = book.execute("select source, is_listed from ops.sources order by source").fetchall()
        gone = {row[0] for row in rows if not row[1]}
        assert gone == set(home.names) - {well, DOWN}
        held = book.execute("select distinct source from history.balances").fetchall()
        assert {row[0] for row in held} == {well, DOWN}


def test_the_queries_of_the_page_return_rows(book: duckdb.DuckDBPyConnection) -> None:
    """The firm queries in ANALYSTS.md return rows, except those about shared portfolios."""
    section = ANALYSTS.partition("## Several organisations\n")[2].partition("\n## ")[0]
    queries = [
        query
        for block in re.findall(r"```text\n(.*?)```", section, re.DOTALL)
        for query in block.split(";\n")
        if query.strip()
    ]
    assert len(queries) == 6
    answers = [book.execute(query).fetchall() for query in queries]
    assert [not answer for answer in answers] == ["shared" in query for query in queries]
    assert {(row[0], row[1].isoformat()) for row in answers[-1]} >= {
        (DOWN, "2026-11-20"),
        (HELD, "2026-11-20"),
    }
