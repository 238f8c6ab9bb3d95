"""Tests of two runs at once, in separate processes: one works, and the other says so and fails."""

import asyncio
import hashlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from pipelines.sandbox.server import serve
from tests.support.operator_home import THIRD, Clock, Keeper, Sandbox, amounts_of

pytestmark = pytest.mark.torture

ROOT = Path(__file__).parents[3]
DAY = THIRD + timedelta(days=1)
START = """
import json, sys
from datetime import datetime
from assets.nightbook import Nightbook
variables, moment = json.loads(sys.argv[1])
nightbook = Nightbook(lambda: variables, lambda: datetime.fromisoformat(moment))
"""
BY_HAND = f"""{START}
from assets.cli import main
sys.exit(main(["run"], nightbook))
"""
BY_DAGSTER = f"""{START}
from assets.definitions import assemble
from assets.graph.sensors import NIGHTLY
from assets.graph.step import failure_message, run_config
ran = assemble(nightbook).resolve_job_def(NIGHTLY).execute_in_process(
    partition_key=moment[:10], run_config=run_config("CRITICAL"), raise_on_error=False
)
failed = [failure_message(event) for event in ran.all_events if event.is_step_failure]
print(*failed, file=sys.stderr)
sys.exit(0 if ran.success else 1)
"""
SCRIPTS = {"command line": BY_HAND, "Dagster": BY_DAGSTER}


class Waiting(Sandbox):
    """A sandbox that delays all responses until a test sets `goes_on`."""

    def __init__(self) -> None:
        self.asked, self.goes_on = threading.Event(), threading.Event()
        super().__init__(Clock())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request as soon as `goes_on` is set."""
        self.asked.set()
        await asyncio.to_thread(self.goes_on.wait)
        await super().__call__(scope, receive, send)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    """Serve a waiting sandbox on a socket, in the night after the three."""
    shown = Waiting()
    shown.clock.night(DAY)
    with serve(shown) as served:
        shown.origin = served.origin
        yield shown
        shown.goes_on.set()


def started(keeper: Keeper, script: str) -> "subprocess.Popen[str]":
    """Start a run in a separate process."""
    given = json.dumps([keeper.variables, keeper.sandbox.clock.moment.isoformat()])
    return subprocess.Popen(
        [sys.executable, "-c", script, given],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tree(home: Path) -> dict[str, str]:
    """Return the digest of every file in a home, except Dagster's own files."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.relative_to(home).parts[0] != "dagster"
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("command line", "command line"),
        ("command line", "Dagster"),
        pytest.param("Dagster", "command line", marks=pytest.mark.torture),
        pytest.param("Dagster", "Dagster", marks=pytest.mark.torture),
    ],
)
def test_a_second_run_fails_and_names_the_first(
    first: str, second: str, copied: Keeper, waiting: Waiting
) -> None:
    """While one run pulls, a second run fails, names the first, and changes no file in the home."""
    keeper = Keeper(copied.home, waiting)
    with started(keeper, SCRIPTS[first]) as working:
        assert waiting.asked.wait(60)
        before = tree(keeper.home)
        with started(keeper, SCRIPTS[second]) as other:
            out, err = other.communicate(timeout=60)
        assert other.returncode == 1
        assert f"taking the snapshot of {DAY}, process {working.pid}, since {DAY}" in out + err
        assert "This run wrote nothing" in out + err
        assert "Traceback" not in err
        assert working.poll() is None
        assert tree(keeper.home) == before
        waiting.goes_on.set()
        _, err = working.communicate(timeout=120)
        assert (working.returncode, err.strip()) == (0, "")
    rows = keeper.ask(
        "select portfolio_id, asset_id, venue_id, account_name, bucket, state, amount_text "
        f"from history.balances where snapshot_date = '{DAY}'"
    )
    assert sorted(rows) == amounts_of(DAY)


def test_two_simultaneous_runs_land_one_night(copied: Keeper, waiting: Waiting) -> None:
    """If two runs start at the same time, exactly one of them lands the night."""
    keeper = Keeper(copied.home, waiting)
    runs = [started(keeper, BY_HAND) for _ in range(2)]
    assert waiting.asked.wait(60)
    deadline = time.monotonic() + 60
    while all(run.poll() is None for run in runs) and time.monotonic() < deadline:
        time.sleep(0.05)
    waiting.goes_on.set()
    ends = {(*run.communicate(timeout=120), run.returncode) for run in runs}
    assert sorted(code for *_, code in ends) == [0, 1]
    assert len(list((keeper.layout.landing / str(DAY)).iterdir())) == 1
