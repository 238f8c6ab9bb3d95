"""Tests of progress reports: a bar in a terminal, and a line now and then in a log."""

import json
import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from assets.console.rows import JsonLog
from assets.console.terminal import TerminalProgress, progress_reporter
from assets.nightbook import DEFAULT_EVENT, INFO, Nightbook
from assets.publishing import publish
from assets.publishing.publish import rebuild
from pipelines.flatten import flatten
from pipelines.sandbox.world.world import LivingWorld
from tests.support import nights
from tests.support.operator_home import Clock, Keeper
from warehouse.export.export import export
from warehouse.progress import BYTES, ROWS, Progress, Tally
from warehouse.storage.layout import Layout

START = Clock().moment


@pytest.fixture
def clock() -> Clock:
    """Return a clock that a test can change."""
    return Clock()


def _nightbook(clock: Clock, watch: Callable[[Progress], None] | None = None) -> Nightbook:
    return Nightbook(dict, clock, watch=watch)


def test_a_bar_is_redrawn_after_each_finished_item(clock: Clock) -> None:
    """The bar is drawn after each finished item, and at most ten times a second in between."""
    seen: list[Progress] = []
    requests = Tally(
        progress_reporter(_nightbook(clock, seen.append), None, "pulling"), 2, "requests", BYTES
    )
    for _ in range(1_000):
        requests.add(amount=256_000)
        clock.moment += timedelta(seconds=0.001)
    requests.add(1)
    requests.add(1)
    assert [one.done for one in seen] == [0] * 10 + [1, 2]
    assert seen[-1].words == "2 of 2 requests, 256.0 MB"


def test_a_log_has_a_line_every_ten_seconds(clock: Clock) -> None:
    """A log gets a line every ten seconds, so a night that takes a few seconds has no such line."""
    lines: list[str] = []
    log = JsonLog(clock, {"night": "2026-03-03"}, lines.append)
    rows = Tally(progress_reporter(_nightbook(clock), log, "flattening"), 300, "portfolios", ROWS)
    for _ in range(300):
        rows.add(1, 4_000)
        clock.moment += timedelta(seconds=0.1)
    assert len(lines) == 2
    assert '"event": "flattening", "words": "101 of 300 portfolios, 404,000 rows"' in lines[0]


def test_progress_without_a_bar_or_log_prints_nothing(clock: Clock) -> None:
    """Without a bar and a log, progress is not printed."""
    Tally(progress_reporter(_nightbook(clock), None, "publishing"), 1, "nights loaded").add(1)


def test_flattening_reports_the_rows_that_it_wrote(tmp_path: Path) -> None:
    """Flattening reports all rows that it wrote, and then the progress of both control totals."""
    layout = Layout(tmp_path)
    manifest = nights.land(layout, nights.of_world(LivingWorld().at(START.date())), START)
    told: list[Progress] = []
    parts = (
        flatten.flatten_portfolios(layout, manifest, told.append),
        flatten.flatten_venues(layout, manifest, say=told.append),
    )
    last = {one.things: one for one in told}
    rows = [sum(table.rows for table in part.tables.values()) for part in parts]
    here = last["venues"], last["venues with their instruments"]
    assert last["portfolios"].amount == rows[0] > 0
    assert sum(one.amount for one in here) == rows[1] > 0
    assert all(one.done == one.known > 0 for one in last.values())
    assert [one.done for one in told if one.things == "control totals"] == [0, 1, 2, 0, 1, 2]


def test_a_rebuild_shows_a_bar_for_each_step(
    two_nights: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a terminal, a rebuild from landing shows a bar for each step, and then prints a line."""
    home = shutil.copytree(two_nights, tmp_path / "home", symlinks=True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    teller = TerminalProgress()
    keeper = Nightbook(
        lambda: {"NIGHTBOOK_HOME": str(home)}, Clock(), tell=teller, watch=teller.watch
    )
    rebuild(keeper, from_landing=True)
    teller("done", event=DEFAULT_EVENT, level=INFO)
    said = capsys.readouterr().out
    for things in ("nights made", "nights loaded", "nights checked"):
        assert f"[........................] 0 of 2 {things}" in said
        assert f"[########################] 2 of 2 {things}" in said
    assert said.endswith("\r\x1b[K  done\n")


def test_a_bar_is_removed_before_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If work fails, its bar is removed, so that the error starts on an empty line."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    def fail() -> None:
        with TerminalProgress() as teller:
            assert teller.watch is not None
            teller.watch(Progress(done=1, known=2, things="requests", amount=1_500_000, of=BYTES))
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        fail()
    said = capsys.readouterr().out
    assert said == "\r\x1b[K  [############............] 1 of 2 requests, 1.5 MB\r\x1b[K"


def test_an_export_reports_the_rows_that_it_writes(tmp_path: Path) -> None:
    """An export reports every row that it writes to the workbook and to both kinds of CSV files."""
    layout = Layout(tmp_path)
    nights.take(layout, nights.of_world(LivingWorld().at(START.date())), START)
    publish.refresh(Nightbook(lambda: {"NIGHTBOOK_HOME": str(tmp_path)}, Clock()))
    told: list[Progress] = []
    done = export(
        layout.database,
        layout.exports,
        as_of=None,
        formats=("xlsx", "csv", "parquet"),
        program_version="0",
        say=told.append,
    )
    assert told[0].done == 0
    assert told[-1].done == told[-1].known == 3 * sum(done.rows.values()) > 0


@pytest.mark.torture
def test_a_retry_is_logged_with_its_reason_and_delay(empty: Callable[..., Keeper]) -> None:
    """A retry is logged with its reason and delay, but without advice if the night succeeds."""
    keeper = empty()
    keeper.sandbox.show("503,count=2,path=/portfolios")
    said = keeper("run")
    assert (said.code, said.err) == (0, "")
    told = [line["words"] for line in map(json.loads, said.out.splitlines())]
    retries = [words for words in told if words.startswith("retry: ")]
    assert len(retries) == 2
    assert all(
        re.fullmatch(r"retry: GET \S+: [^.]*, so it is retried in \d\.\d s", one) for one in retries
    )
