"""Tests of the findings of a person's own rules: where they appear, and that they are kept."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import environments
from tests.support.books import Amount
from tests.support.priced_books import ask, drop, publish, read_at
from tests.warehouse.query.test_connect_older_clients import OLDER, asked
from warehouse.database.own_findings import damaged_findings
from warehouse.storage.layout import Layout

FIRST = read_at("20261119T021500Z", [Amount("1")])
SECOND = read_at("20261120T021500Z", [Amount("2")])
THIRD = read_at("20261121T021500Z", [Amount("3")])
HISTORY = (
    "select day(snapshot_date), words from history.findings where kind like 'own%' order by all"
)


def check(home: Path, sql: str, name: str = "a.sql") -> None:
    """Write a check."""
    (home / "checks").mkdir(exist_ok=True)
    (home / "checks" / name).write_text(sql)


def causes(layout: Layout) -> list[Any]:
    """Return the causes of the alerts about own findings."""
    return [row[0] for row in ask(layout, "select cause from ops.attention where code = 'own'")]


def test_a_check_sees_the_new_book_and_its_rows_are_findings_of_the_night(tmp_path: Path) -> None:
    """The rows of a check on the new book are in findings, and each night keeps its own."""
    check(tmp_path, "select 'v1' as venue_id, total_text as total from holdings")
    publish(tmp_path, [FIRST])
    layout = publish(tmp_path, [FIRST, SECOND], "b")
    found = "select severity, kind, venue_id, words from findings where kind = 'own_check'"
    assert ask(layout, found) == [("medium", "own_check", "v1", "a.sql: total=2")]
    assert ask(layout, HISTORY) == [(19, "a.sql: total=1"), (20, "a.sql: total=2")]


def test_the_newest_book_is_checked_again_in_each_publish(tmp_path: Path) -> None:
    """A changed or removed check changes the findings of the newest book only."""
    check(tmp_path, "select 1 as x")
    publish(tmp_path, [FIRST])
    publish(tmp_path, [FIRST, SECOND], "b")
    check(tmp_path, "select 2 as x")
    layout = publish(tmp_path, [FIRST, SECOND], "c")
    assert ask(layout, HISTORY) == [(19, "a.sql: x=1"), (20, "a.sql: x=2")]
    (tmp_path / "checks" / "a.sql").unlink()
    layout = publish(tmp_path, [FIRST, SECOND], "d")
    assert ask(layout, HISTORY) == [(19, "a.sql: x=1")]


def test_a_rebuild_has_what_was_found_at_the_time(tmp_path: Path) -> None:
    """After a rebuild from scratch, the earlier nights have the same findings as before."""
    check(tmp_path, "select total_text as total from holdings")
    publish(tmp_path, [FIRST])
    check(tmp_path, "select 'new' as rule")
    before = ask(publish(tmp_path, [FIRST, SECOND], "b"), HISTORY)
    assert before == [(19, "a.sql: total=1"), (20, "a.sql: rule=new")]
    (tmp_path / "warehouse" / "current").unlink()
    assert ask(publish(tmp_path, [FIRST, SECOND], "c"), HISTORY) == before
    assert list(damaged_findings(tmp_path)) == []


def test_damaged_findings_are_named_and_stop_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rebuild without readable findings says so, and publishes the book."""
    check(tmp_path, "select 1 as x")
    publish(tmp_path, [FIRST])
    publish(tmp_path, [FIRST, SECOND], "b")
    [first, _] = sorted((tmp_path / "reference" / "kept").iterdir())
    first.write_text("{")
    (tmp_path / "warehouse" / "current").unlink()
    layout = publish(tmp_path, [FIRST, SECOND], "c")
    assert ask(layout, HISTORY) == [(20, "a.sql: x=1")]
    assert "own findings of 2026-11-19 were not loaded" in capsys.readouterr().err
    assert [path for path, _ in damaged_findings(tmp_path)] == [first]


def test_an_alert_has_one_cause_until_a_book_without_it(tmp_path: Path) -> None:
    """An alert names the rule and the first book in a row that has findings of the rule."""
    check(tmp_path, "-- alert: yes\nselect total_text from holdings")
    assert causes(publish(tmp_path, [FIRST])) == ["own_check:a.sql:2026-11-19"]
    layout = publish(tmp_path, [FIRST, SECOND], "b")
    assert causes(layout) == ["own_check:a.sql:2026-11-19"]
    check(tmp_path, "-- alert: yes\nselect 1 where false")
    assert causes(publish(tmp_path, [FIRST, SECOND], "c")) == []
    check(tmp_path, "-- alert: yes\nselekt")
    layout = publish(tmp_path, [FIRST, SECOND, THIRD], "d")
    assert causes(layout) == ["own_check_failed:a.sql:2026-11-21"]


def test_a_home_without_rules_is_not_changed(tmp_path: Path) -> None:
    """Without rules, no file is kept, and no finding is stored."""
    layout = publish(tmp_path, [FIRST])
    assert not (tmp_path / "reference").exists()
    assert ask(layout, "from ops.own_findings") == []


@pytest.mark.parametrize("name", ["duckdb12"])
def test_an_old_duckdb_reads_the_findings(tmp_path: Path, name: str) -> None:
    """DuckDB 1.2 opens the file and has the same findings and alerts."""
    check(tmp_path, "-- alert: yes\nselect total_text as total from holdings")
    publish(tmp_path, [FIRST])
    layout = publish(tmp_path, [FIRST, SECOND], "b")
    queries = [("findings", "from findings"), ("alerts", "from ops.attention")]
    now = asked(sys.executable, layout.database, queries)[1]
    version, said = asked(environments.python(name), layout.database, queries)
    assert version == OLDER[name]
    assert "total=2" in str(now["findings"])
    assert said == now


def test_a_price_of_zero_is_a_finding(tmp_path: Path) -> None:
    """A price of 0 is named, because it makes a value 0. Other prices are not."""
    lines = ("BTC,,USD,0.00,2026-11-19,x", "ETH,,USD,1,2026-11-19,x", "SOL,,EUR,0,2026-11-19,x")
    drop(tmp_path, "a.csv", *lines)
    amounts = [Amount("1", asset=asset) for asset in ("BTC", "ETH", "SOL")]
    layout = publish(tmp_path, [read_at("20261119T021500Z", amounts)], currency="USD")
    words = "The price of BTC is 0 USD, as of 2026-11-19 from x. So the value of this asset is 0."
    query = "select severity, words from findings where kind = 'price_zero'"
    assert ask(layout, query) == [("low", words)]
