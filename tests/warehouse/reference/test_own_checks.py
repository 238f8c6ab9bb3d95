"""Tests of a person's own checks: their headers, their rows, and hostile SQL and files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.books import Amount, published_once
from tests.support.priced_books import read_at
from warehouse.reference import own_checks
from warehouse.reference.own_checks import OwnFinding, run_own_checks
from warehouse.storage.layout import Layout

pytestmark = pytest.mark.isolated
NIGHTS = [read_at("20261120T021500Z", [Amount("2"), Amount("3", venue="v2", asset="ETH")])]


def found(home: Path, *checks: str | bytes) -> list[OwnFinding]:
    """Return the findings of checks in a home with a small book."""
    layout, folder = Layout(home), home / "checks"
    if not layout.database.exists():
        published_once(layout, NIGHTS, "a")
    folder.mkdir(exist_ok=True)
    for number, check in enumerate(checks):
        content = check if isinstance(check, bytes) else check.encode()
        (folder / f"c{number}.sql").write_bytes(content)
    return list(run_own_checks(folder, layout.database))


def test_each_row_is_a_finding(tmp_path: Path) -> None:
    """The header gives severity, alert and meaning. Three columns are used, others are words."""
    check = """-- Severity: HIGH
-- alert: yes
-- No ETH may be held.
-- It is forbidden: see https://example.com
select portfolio_id, venue_id, 'Sell it.' as words, asset_id, sum(amount) as total, null as no_one
from balances where asset_id = 'ETH' group by all;
"""
    [finding] = found(tmp_path, check.replace("It is forbidden", "It is forbidden --"))
    assert finding == OwnFinding(
        kind="own_check",
        name="c0.sql",
        severity="high",
        portfolio_id="p1",
        venue_id="v2",
        words="c0.sql: No ETH may be held. Sell it. asset_id=ETH, total=3, no_one=NULL",
        is_alert=True,
    )


def test_a_check_without_rows_or_header_is_fine(tmp_path: Path) -> None:
    """A check without a row has no finding. Without a header, a row is a medium finding."""
    [finding] = found(
        tmp_path, "select 1 where false", "select 1 as x", "-- Just words.\nselect 1 where false"
    )
    assert (finding.severity, finding.is_alert, finding.words) == ("medium", False, "c1.sql: x=1")


def test_only_the_first_rows_are_kept_and_the_others_are_counted(tmp_path: Path) -> None:
    """Of many rows, a hundred are findings, and one more finding says how many there were."""
    many = found(tmp_path, "from range(250)")
    assert len(many) == 101
    assert many[-1].words == "c0.sql: It found 250 rows. The first 100 are findings."
    [*_, last] = found(tmp_path, "from range(10_000_000_000)")
    assert last.words == "c0.sql: It found at least 100,100 rows. The first 100 are findings."


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-- sevrity: high", "sevrity: high"),
        ("-- severity: urgent", "severity: urgent"),
        ("--alert:maybe", "alert:maybe"),
        ("-- alert: no\n-- alert: yes", "alert: yes"),
    ],
)
def test_an_unknown_line_of_a_header_is_a_finding(tmp_path: Path, line: str, words: str) -> None:
    """A wrong setting is never ignored silently, and the check still runs."""
    problem, row = found(tmp_path, f"{line}\nselect 1 as x")
    assert (problem.kind, problem.severity, row.kind) == ("own_check_failed", "high", "own_check")
    assert f"its header has the line {words!r}" in problem.words


HOSTILE = {
    "copy balances to '{home}/stolen.csv'": "read-only|disabled|Permission",
    "select * from read_text('{home}/secret.txt')": "disabled by configuration|Permission",
    "from '{home}/secret.txt'": "disabled|Permission|does not exist",
    "install httpfs": "disabled|Permission",
    "load httpfs": "disabled|Permission",
    "attach '{home}/other.duckdb'": "disabled|Permission|Cannot attach",
    "set memory_limit = '100GB'": "locked",
    "create table x as select 1": "read-only",
    "delete from history.balances": "read-only",
    "select 1; select 2": "has 2 statements",
    "": "is empty",
    "selekt 1": "syntax error",
    "select * from no_such_table": "does not exist",
    "select max(amount_text) from balances": "text",
    "from read_csv('https://example.com/x.csv')": "disabled|Permission|httpfs",
    "select getenv('HOME')": "does not exist|getenv",
    "select '\xff'": "not UTF-8",
}


@pytest.mark.parametrize("sql", HOSTILE)
def test_hostile_sql_is_one_finding_and_changes_nothing(tmp_path: Path, sql: str) -> None:
    """A check cannot write, read files, attach, install or change settings."""
    (tmp_path / "secret.txt").write_text("secret")
    content = sql.format(home=tmp_path).encode("latin-1")
    assert found(tmp_path) == []
    before = sorted(path.name for path in tmp_path.iterdir())
    [finding] = found(tmp_path, content)
    assert finding.kind == "own_check_failed"
    assert any(part in finding.words for part in HOSTILE[sql].split("|")), finding.words
    assert "secret" not in finding.words.replace(f"{tmp_path}/secret.txt", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "sql",
    [
        "with recursive r as (select 1 as n union all select n + 1 from r) select max(n) from r",
        "select repeat('x', 2000000000) || repeat('y', 2000000000) || i from range(10) t(i)",
        "select count(*) from range(1000000) a, range(1000000) b where a.range * b.range % 7 = 9",
    ],
)
def test_a_check_without_end_is_stopped(
    tmp_path: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that takes too much time or memory is one finding."""
    monkeypatch.setattr(own_checks, "CHECK_SECONDS", 2.0)
    [finding] = found(tmp_path, sql)
    assert finding.kind == "own_check_failed"
    assert "longer than 2 seconds" in finding.words or "emory" in finding.words


def test_long_cells_are_cut(tmp_path: Path) -> None:
    """A cell of many megabytes is cut in the child process."""
    [finding] = found(
        tmp_path, "select repeat('x', 50000000) as words, repeat('p', 9999) as portfolio_id"
    )
    assert finding.words.startswith("c0.sql: xxx")
    assert (len(finding.words) < 500, len(finding.portfolio_id or "")) == (True, 400)


def test_checks_that_do_not_fit_in_the_time_limit_are_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time limit for all checks, each check that was not run is a finding."""
    monkeypatch.setattr(own_checks, "TOTAL_SECONDS", 0.0)
    findings = found(tmp_path, "-- alert: yes\nselect 1 where false", "select 1 where false")
    assert [finding.is_alert for finding in findings] == [True, False]
    assert all("already took 0 seconds" in finding.words for finding in findings)


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)


@pytest.mark.parametrize("make", [_link, os.mkfifo, Path.mkdir, _large])
def test_only_small_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Links, pipes, folders and large files are findings. Files of other types are ignored."""
    (tmp_path / "checks").mkdir()
    make(tmp_path / "checks" / "z\n.sql")
    (tmp_path / "checks" / "notes.md").touch()
    failed, other = sorted(found(tmp_path, "select 1 as x"), key=lambda finding: finding.name)[::-1]
    assert (failed.kind, failed.name, other.name) == ("own_check_failed", "z .sql", "c0.sql")


def test_too_many_checks_are_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of checks is limited, and the finding says so."""
    monkeypatch.setattr(own_checks, "MAX_CHECKS", 1)
    failed, _ = found(tmp_path, "select 1", "select 2")
    assert "it has 2 checks. The first 1 are run" in failed.words
    (tmp_path / "file").touch()
    [unread] = run_own_checks(tmp_path / "file", Layout(tmp_path).database)
    assert "the folder cannot be read" in unread.words
