"""Options of the whole suite, and texts that are kept and compared whole."""

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
from tests.support.shared import memory_with

GROWING = (
    "fuzz/",
    "pipelines/records/test_fast_reader_laws.py",
    "warehouse/reconcile/ledger/test_body.py",
    "warehouse/spreadsheet/test_rows.py",
    "warehouse/sql/test_catalog.py",
    "warehouse/sql/test_catalog_exact_parts.py",
    "warehouse/sql/test_catalog_roll_forward.py",
)
# Fixtures that several folders of tests share.
pytest_plugins = [
    "tests.support.empty_warehouses",
    "tests.support.operator",
    "tests.support.three_nights",
    "tests.support.two_nights",
]
GOLDEN = Path(__file__).parent / "golden"
# Four times what homes of the daily tests were seen to take: 1 GB.
DAILY_ROOM = 4 << 30
# How long one example takes says nothing about the law, on a machine that does other things too.
settings.register_profile("daily", deadline=None, max_examples=20)
settings.register_profile("torture", deadline=None, max_examples=300)
settings.load_profile("daily")


@atexit.register
def _end_quietly() -> None:
    """Let nothing be written after the last line.

    Hypothesis keeps the functions that it was given, and by their globals the module of DuckDB,
    until the interpreter is gone. DuckDB's binding (nanobind) then lists what of it was left, forty
    lines after the result. Nothing of ours runs any more at that time.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--torture` runs the long tests, whole; without it they run a share of themselves."""
    parser.addoption("--lakehouse", action="store_true", help="run the tests on real stores")
    parser.addoption("--torture", action="store_true", help="run the long tests whole")
    parser.addoption("--golden-update", action="store_true", help="write tests/golden anew")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Tests marked `torture` are left out without the option; with it, what they count is told."""
    config.addinivalue_line("markers", "torture: long; runs with --torture only")
    config.addinivalue_line("markers", "lakehouse: needs servers; runs with --lakehouse only")
    if config.getoption("--torture"):
        settings.load_profile("torture")
    elif not config.getoption("--lakehouse") and (memory := memory_with(DAILY_ROOM)):
        # Homes of daily tests lie in memory, where nobody waits for a disk: a third of the time of
        # what writes much, and a fifth of its CPU (measured). With --torture they lie on the disk.
        tempfile.tempdir = os.environ["TMPDIR"] = str(memory)
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal and config.getoption("--torture"):
        config.pluginmanager.register(Progress(terminal), "torture")


def pytest_sessionstart(session: pytest.Session) -> None:
    """End all tests at Ctrl-C or SIGTERM, also where a command takes it for its own end."""

    # Also where a shell began them with `&`, which ignores Ctrl-C: of SIGTERM Dagster makes what
    # that is. Servers that a test has started end too.
    def stop(number: int, _: FrameType | None) -> None:
        session.shouldstop = f"stopped by {signal.Signals(number).name}"
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def pytest_collection(session: pytest.Session) -> None:
    """Look for no garbage while tests are imported: nearly all of it stays."""
    if session.config.getoption("dist", "no") == "no":  # who hands tests out collects none
        gc.disable()


def pytest_collection_finish() -> None:
    """Take what was imported for no garbage: to look through it took 2 % of the whole run."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long ones out, or with the option the short ones; pytest says how many."""
    left = [item for item in items if not _is_chosen(item, config)]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


def _is_chosen(item: pytest.Item, config: pytest.Config) -> bool:
    """Whether it belongs to what is run: the daily tests, the long ones, or those on stores."""
    needs_stores = item.get_closest_marker("lakehouse") is not None
    if needs_stores or config.getoption("--lakehouse"):
        return needs_stores and bool(config.getoption("--lakehouse"))
    if config.getoption("--torture"):
        return _is_long(item) or _grows(item)
    return not _is_long(item)


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("torture") is not None


def _grows(item: pytest.Item) -> bool:
    """Whether it does more with the option, because of a fixture, its folder or its file."""
    fixtures = {"sized", "no_workbook"} & set(getattr(item, "fixturenames", ()))
    return bool(fixtures) or str(item.path.relative_to(GOLDEN.parent)).startswith(GROWING)


@pytest.fixture(scope="session")
def golden(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """Compare a text with the kept one of that name; `--golden-update` keeps the new one."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if pytestconfig.getoption("--golden-update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        kept = path.read_text(encoding="utf-8") if path.is_file() else ""
        assert text == kept, f"tests/golden/{name} differs: look, then pytest --golden-update"

    return compare
