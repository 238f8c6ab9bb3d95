"""A plugin that reads workbooks and runs queries in the test's own process.

Otherwise, each read starts a child process, which takes a hundred times the CPU time of a small
workbook. Tests that are marked `isolated`, and all tests with `--torture`, start real children.
"""

import importlib
from collections.abc import Iterator

import pytest

from warehouse.isolation import ChildLimits, ChildStopped
from warehouse.query import child
from warehouse.spreadsheet.reading import workbook


def run_here(function: str, request: bytes, limits: ChildLimits) -> bytes:
    """Call `module:function` with a request as the child process does, but without any limit."""
    del limits
    module, _, name = function.partition(":")
    process = getattr(importlib.import_module(module), name)
    try:
        result: bytes = process(request)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust is not an Exception
        raise ChildStopped from error
    return result


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "isolated: starts a child process for each workbook or query"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Replace child processes during a test and its fixtures, unless the test is `isolated`."""
    is_isolated = item.get_closest_marker("isolated") or item.config.getoption("--torture")
    with pytest.MonkeyPatch.context() as patch:
        if not is_isolated:
            for caller in (child, workbook):
                patch.setattr(caller, "run_in_child", run_here)
        return (yield)
