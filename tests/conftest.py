"""Options of the whole suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--torture` runs the long tests whole; without it they run a share of themselves."""
    parser.addoption("--torture", action="store_true", help="run the long tests whole")
