"""Tests of the command that combines the books of several homes."""

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from assets.cli import main
from pipelines.landing.lock import hold_writer_lock
from tests.house.pages import ROOT
from tests.support.books import Amount, exact, night, published_once
from warehouse.database.combine import work_of
from warehouse.storage.layout import Layout

NIGHTS = {"alpha": "20261120T021500Z", "beta": "20261120T021600Z", "late": "20261119T021500Z"}
AMOUNTS = {
    "alpha": [Amount("0.1", "p1"), Amount("1", "p1", "X", custom=True)],
    "beta": [Amount("99", "p1"), Amount("0.2", "q1"), Amount("2", "q1", "X", custom=True)],
    "late": [Amount("0.3", "r1", venue="v2")],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which contains three homes."""
    for name, snapshot_id in NIGHTS.items():
        published_once(Layout(tmp_path / name), [night(snapshot_id, AMOUNTS[name])], "a")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_says_what_the_file_contains(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command prints the book of each home and the shared things, and warns about dates."""
    assert main(["combine", "alpha", "beta", "third=late", "--out", "group.duckdb"]) == 0
    said = capsys.readouterr()
    first, *books, shared, left_out = said.out.splitlines()
    assert first == f"{place / 'group.duckdb'}: 3 homes"
    assert books == [
        "  alpha: the book of 2026-11-20, 20261120T021500Z",
        "  beta: the book of 2026-11-20, 20261120T021600Z",
        "  third: the book of 2026-11-19, 20261119T021500Z",
    ]
    assert shared.endswith(": 1 custom asset, 1 portfolio, 1 venue")
    assert "findings" in left_out
    dates, customs = said.err.splitlines()
    assert dates.startswith("The books have different dates")
    assert customs.startswith("Custom assets with one ID in several homes")
    with duckdb.connect("group.duckdb", read_only=True) as connection:
        [total] = connection.execute(
            "select exact_sum(amount_text) from balances where not is_custom_asset"
        ).fetchall()
    assert total == (exact(["0.1", "0.2", "0.3"]),)


def test_the_queries_of_the_page_run_on_the_file(place: Path) -> None:
    """The queries about several organisations on the page for analysts return rows."""
    assert main(["combine", "alpha", "beta", "--out", "group.duckdb"]) == 0
    page = (ROOT / "warehouse" / "ANALYSTS.md").read_text("utf-8")
    section = page.partition("## Several organisations")[2].partition("\n## ")[0]
    queries = section.partition("```text\n")[2].partition("```")[0].splitlines()
    assert len(queries) == 3
    with duckdb.connect(str(place / "group.duckdb"), read_only=True) as connection:
        assert all(connection.execute(query).fetchall() for query in queries)


@pytest.mark.parametrize(
    ("homes", "out"),
    [
        (("alpha", "alpha"), "group.duckdb"),
        (("alpha", "alpha=beta"), "group.duckdb"),
        (("alpha", "beta"), "beta/group.duckdb"),
        (("alpha",), "beta"),
        ((), "group.duckdb"),
    ],
)
def test_wrong_arguments_are_rejected(
    place: Path, capsys: pytest.CaptureFixture[str], homes: tuple[str, ...], out: str
) -> None:
    """Homes with one name, a file in a home, a folder and no home are rejected with code 2."""
    before = sorted(place.rglob("*"))
    assert main(["combine", *homes, "--out", out]) == 2
    assert capsys.readouterr().err
    assert sorted(place.rglob("*")) == before


def test_a_home_that_is_away_is_an_error_with_a_command(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a home is not there, the exit code is 1, and the file is not written."""
    assert main(["combine", "alpha", "other", "--out", "group.duckdb"]) == 1
    said = capsys.readouterr().err
    assert f"other ({place / 'other'}) has no published book. Nothing was combined" in said
    assert f"--home {place / 'other'} status" in said
    assert not (place / "group.duckdb").exists()


def test_two_commands_do_not_write_one_file(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a command writes the file, another one fails and names the first."""
    with hold_writer_lock(
        work_of(place / "group.duckdb"), "combining", datetime(2026, 11, 20, 7, tzinfo=UTC)
    ):
        assert main(["combine", "alpha", "--out", "group.duckdb"]) == 1
    assert "combining, process" in capsys.readouterr().err
    assert main(["combine", "alpha", "--out", "group.duckdb"]) == 0
