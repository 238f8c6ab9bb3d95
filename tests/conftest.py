"""Options and hooks of the whole test suite, and the comparison with golden files."""

import atexit
import gc
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

from tests.crash.tally import Progress
from tests.support.shared import BY_DAY, BY_NIGHT, memory_with

# Fixtures that several folders of tests share.
pytest_plugins = [
    "tests.support.empty_warehouses",
    "tests.support.isolation",
    "tests.support.operator",
    "tests.support.three_nights",
    "tests.support.two_nights",
]
GOLDEN = Path(__file__).parent / "golden"
FUZZ = Path(__file__).parent / "fuzz"
# Four times the space that homes of the daily tests were seen to use, which is 1 GB.
DAILY_ROOM = 4 << 30
# No deadline, because the time of one example on a busy machine proves nothing.
settings.register_profile("day", deadline=None, max_examples=BY_DAY)
settings.register_profile("torture", deadline=None, max_examples=BY_NIGHT)
settings.load_profile("day")


@atexit.register
def _end_quietly() -> None:
    """Discard everything that is written to standard error after the last line of the result.

    Hypothesis references the functions that it was given, and through their globals the DuckDB
    module, until the interpreter ends. DuckDB's binding (nanobind) then lists its objects that were
    not freed, forty lines after the result. Our own code has ended by then.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the test suite.

    With `--torture`, the long tests run completely. Without it, only a share of them runs.
    """
    parser.addoption("--lakehouse", action="store_true", help="run the tests on real stores")
    parser.addoption("--torture", action="store_true", help="run the long tests whole")
    parser.addoption("--golden-update", action="store_true", help="write tests/golden anew")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and apply the options.

    With `--torture`, Hypothesis tries more examples, and the counts of the tests are printed.
    """
    config.addinivalue_line("markers", "torture: long; runs with --torture only")
    config.addinivalue_line("markers", "lakehouse: needs servers; runs with --lakehouse only")
    if config.getoption("--torture"):
        settings.load_profile("torture")
    elif not config.getoption("--lakehouse") and (memory := memory_with(DAILY_ROOM)):
        # Homes of daily tests are in memory, so that no test waits for a disk. For tests that write
        # much, this saves a third of the time and a fifth of the CPU time (measured). With
        # --torture, homes are on the disk.
        tempfile.tempdir = os.environ["TMPDIR"] = str(memory)
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal and config.getoption("--torture"):
        config.pluginmanager.register(Progress(terminal), "torture")


def pytest_sessionstart(session: pytest.Session) -> None:
    """End all tests on Ctrl-C or SIGTERM, even if a command handles the signal itself."""

    # A shell that starts the tests with `&` makes them ignore Ctrl-C, and Dagster handles SIGTERM
    # like Ctrl-C. With this handler, neither is ignored. Servers that a test started end too.
    def stop(number: int, _: FrameType | None) -> None:
        session.shouldstop = f"stopped by {signal.Signals(number).name}"
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def pytest_collection(session: pytest.Session) -> None:
    """Turn off garbage collection during imports, because nearly all objects remain in use."""
    if session.config.getoption("dist", "no") == "no":  # xdist's controller does not collect tests
        gc.disable()


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, and collect less often afterwards.

    Scanning them took 2 % of the whole run. Collecting after every 700 new objects, which is
    Python's default, takes a tenth of a reconciliation.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that the options do not choose. pytest reports their number."""
    left = [item for item in items if not _is_chosen(item, config)]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


def _is_chosen(item: pytest.Item, config: pytest.Config) -> bool:
    """Return True if the options choose the test: a daily one, a long one or one on stores."""
    needs_stores = item.get_closest_marker("lakehouse") is not None
    if needs_stores or config.getoption("--lakehouse"):
        return needs_stores and bool(config.getoption("--lakehouse"))
    if config.getoption("--torture"):
        return _is_long(item) or _grows(item)
    return not _is_long(item)


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("torture") is not None


def _grows(item: pytest.Item) -> bool:
    """Return True if `--torture` makes the test longer: a fixture, Hypothesis or a folder."""
    fixtures = {"sized", "no_workbook"} & set(getattr(item, "fixturenames", ()))
    tries_more = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return bool(fixtures or tries_more) or item.path.is_relative_to(FUZZ)


@pytest.fixture(scope="session")
def golden(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """Return a function that compares a text with its golden file, or updates the file."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if pytestconfig.getoption("--golden-update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        kept = path.read_text(encoding="utf-8") if path.is_file() else ""
        assert text == kept, f"tests/golden/{name} differs: look, then pytest --golden-update"

    return compare
