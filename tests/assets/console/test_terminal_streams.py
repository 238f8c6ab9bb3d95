"""Tests of output streams that fail: the command still completes its work."""

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
from tests.support.created_home import created_home
from tests.support.operator_home import FIRST, Keeper

ROOT = Path(__file__).parents[3]


class Failing(io.StringIO):
    """A stream that fails after a number of characters."""

    def __init__(self, error: OSError, takes: int = 0) -> None:
        super().__init__()
        self.failure, self.takes = error, takes

    def write(self, text: str) -> int:
        """Write the text, or fail if there is no room for it."""
        self.takes -= len(text)
        if self.takes < 0:
            raise self.failure
        return super().write(text)


def test_output_after_an_error_is_dropped() -> None:
    """After the first error, further output is dropped and the error is kept."""
    full = Failing(OSError(28, "No space left on device"), takes=3)
    steady = SafeStream(full)
    print("ab", file=steady)
    print("cd", file=steady)
    full.takes = 100
    print("ef", file=steady, flush=True)
    assert (full.getvalue(), str(steady.error)) == ("ab\n", "[Errno 28] No space left on device")


def test_a_character_that_a_stream_cannot_encode_is_escaped() -> None:
    """A character that a stream cannot encode is written as an escape sequence."""
    raw = io.BytesIO()
    steady = SafeStream(io.TextIOWrapper(raw, encoding="ascii"))
    print("\u2713 Z\u00fcrich", file=steady, flush=True)
    assert (raw.getvalue(), steady.error) == (b"\\u2713 Z\\xfcrich\n", None)


def test_writing_to_a_closed_output_does_not_fail() -> None:
    """If standard output is closed, as in some services, writing does not fail."""
    steady = SafeStream(None)
    print("anything", file=steady, flush=True)
    assert (steady.error, steady.isatty()) == (None, False)


@pytest.mark.torture
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), BrokenPipeError(32, "Broken pipe")]
)
def test_a_night_succeeds_even_if_its_log_fails(
    empty: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """If the disk of the log is full or its reader died, the night is published and succeeds."""
    keeper = empty()
    created_home(keeper.home)
    keeper.sandbox.clock.night(FIRST)
    monkeypatch.setattr(sys, "stdout", Failing(error, takes=20))
    assert main(["run"], keeper.nightbook) == 0
    assert keeper.ask("select count(*) > 0 from balances") == [(True,)]


def test_a_failed_run_exits_with_1_even_if_its_log_fails(
    empty: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed run exits with 1, even if its output cannot be written."""
    keeper = empty()
    created_home(keeper.home)
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
def test_a_query_fails_if_its_output_is_lost(
    nights: Keeper, words: tuple[str, ...], redirected: str, code: int
) -> None:
    """If a full disk loses the output of `query`, the command fails, but without a traceback.

    `report` succeeds, because it has written its file. A closed output is not an error either.
    """
    typed = f'set -o pipefail; "$@" {redirected}'
    command = ["bash", "-c", typed, "bash", sys.executable, "-m", "assets.cli", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | nights.variables, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert (b"Writing to standard output failed" in done.stderr) == (redirected == ">/dev/full")


@pytest.mark.torture
def test_a_successful_run_writes_nothing_to_stderr(copied: Keeper) -> None:
    """A successful run writes nothing to stderr, even when libraries report leaks at exit."""
    day = snapshots.landed_snapshots(copied.layout)[-1].snapshot_date
    done = subprocess.run(
        [sys.executable, "-m", "assets.cli", "run", "--date", str(day)],
        cwd=ROOT,
        env=os.environ | copied.variables,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
