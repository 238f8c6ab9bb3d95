"""What a command does never hangs on who reads what it says."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assets.cli import main
from assets.console.terminal import SafeStream
from pipelines.landing import snapshots
from tests.support.operator_home import FIRST, Keeper

ROOT = Path(__file__).parents[3]


class Failing(io.StringIO):
    """A stream that takes some letters, and then no more."""

    def __init__(self, error: OSError, takes: int = 0) -> None:
        super().__init__()
        self.failure, self.takes = error, takes

    def write(self, text: str) -> int:
        """Take it, or fail."""
        self.takes -= len(text)
        if self.takes < 0:
            raise self.failure
        return super().write(text)


def test_what_cannot_be_said_is_dropped_and_why_is_kept() -> None:
    """The first failure is the last: nothing more is tried."""
    full = Failing(OSError(28, "No space left on device"), takes=3)
    steady = SafeStream(full)
    print("ab", file=steady)
    print("cd", file=steady)
    full.takes = 100
    print("ef", file=steady, flush=True)
    assert (full.getvalue(), str(steady.error)) == ("ab\n", "[Errno 28] No space left on device")


def test_a_letter_that_a_stream_cannot_show_is_shown_by_its_number() -> None:
    """A log in another alphabet is no reason to stop."""
    raw = io.BytesIO()
    steady = SafeStream(io.TextIOWrapper(raw, encoding="ascii"))
    print("\u2713 Z\u00fcrich", file=steady, flush=True)
    assert (raw.getvalue(), steady.error) == (b"\\u2713 Z\\xfcrich\n", None)


def test_without_standard_output_there_is_nothing_to_fail() -> None:
    """A service may be started with it closed."""
    steady = SafeStream(None)
    print("anything", file=steady, flush=True)
    assert (steady.error, steady.isatty()) == (None, False)


@pytest.mark.torture
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), BrokenPipeError(32, "Broken pipe")]
)
def test_a_night_is_taken_whoever_reads_along(
    empty: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """A full disk under the log, or a logger that died: the book is there, and the code is its."""
    keeper = empty()
    keeper.sandbox.clock.night(FIRST)
    monkeypatch.setattr(sys, "stdout", Failing(error, takes=20))
    assert main(["run"], keeper.nightbook) == 0
    assert keeper.ask("select count(*) > 0 from balances") == [(True,)]


def test_a_night_that_fails_says_so_whoever_reads_along(
    empty: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code does not become 0 because nobody read why."""
    keeper = empty()
    keeper.sandbox.clock.night(FIRST)
    keeper.sandbox.show("authentication-failed")
    monkeypatch.setattr(sys, "stdout", Failing(BrokenPipeError(32, "Broken pipe")))
    assert main(["run"], keeper.nightbook) == 1


@pytest.mark.parametrize(
    ("words", "redirected", "code"),
    [
        (("query", "select 1"), ">/dev/full", 1),
        (("query", "select 1"), ">&-", 0),
        (("query", "select 1"), "| true", 0),
        (("snapshots",), "2>&-", 0),
        (("report",), ">/dev/full", 0),
    ],
)
def test_an_answer_that_reaches_nobody_is_a_failure(
    nights: Keeper, words: tuple[str, ...], redirected: str, code: int
) -> None:
    """What was done is done; an answer that a full disk lost is not, and no trace is shown."""
    typed = f'set -o pipefail; "$@" {redirected}'
    command = ["bash", "-c", typed, "bash", sys.executable, "-m", "assets.cli", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | nights.variables, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert (b"Writing to standard output failed" in done.stderr) == (redirected == ">/dev/full")


@pytest.mark.torture
def test_a_run_that_ends_well_says_nothing_on_standard_error(copied: Keeper) -> None:
    """Not even as its process ends, when libraries list what they take for leaks."""
    day = snapshots.landed_snapshots(copied.layout)[-1].snapshot_date
    done = subprocess.run(
        [sys.executable, "-m", "assets.cli", "run", "--date", str(day)],
        cwd=ROOT,
        env=os.environ | copied.variables,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
