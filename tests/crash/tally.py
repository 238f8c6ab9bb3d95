"""Counts of the torture tests, which are printed after each test and added up at the end."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest


def told(report: pytest.TestReport) -> list[tuple[str, dict[str, int]]]:
    """Return the counts that a test recorded under the name `torture`."""
    return [(value[0], value[1]) for name, value in report.user_properties if name == "torture"]  # type: ignore[index]  # recorded as a pair, and workers send it as a pair


def line(what: str, counts: dict[str, int]) -> str:
    """Format counts as one line for a person."""
    return f"{what}: " + ", ".join(f"{number:,} {name}" for name, number in counts.items())


def lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each kind of count, and one with the sums of all that have states."""
    sums: dict[str, Counter[str]] = {}
    for report in reports:
        for what, counts in told(report):
            sums.setdefault(what, Counter()).update(counts)
    found = [line(what, counts) for what, counts in sorted(sums.items())]
    whole: Counter[str] = Counter()
    for counts in sums.values():
        if "states" in counts:
            whole.update(counts)
    return [*found, line("all", whole)] if whole else found


class Progress:
    """A plugin that prints the counts of each test, and all counts at the end."""

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal
        self._reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a line for each count of a test."""
        if report.when == "call" and told(report):
            self._reports.append(report)
            for what, counts in told(report):
                self._terminal.write_line(f"  {line(what, counts)} ({report.duration:.0f} s)")

    def pytest_terminal_summary(self) -> None:
        """Print all counts."""
        if self._reports:
            self._terminal.section("torture")
            for one in lines(self._reports):
                self._terminal.write_line(one)
