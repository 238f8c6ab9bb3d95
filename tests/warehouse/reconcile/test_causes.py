"""Tests of suggested causes in a simulated month, in which the real causes are known."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import simulated_month
from tests.support.reconciliation_home import Desk

pytestmark = pytest.mark.usefixtures("no_workbook")


@pytest.mark.torture
@pytest.mark.parametrize("nights", [4, pytest.param(30, marks=pytest.mark.torture)])
def test_suggested_causes_are_usually_right(
    tmp_path: Path, nights: int, record_property: Callable[[str, object], None]
) -> None:
    """For each cause, at least four in five suggestions are right.

    At least half of the breaks with this cause get the suggestion.
    """
    found = Counter(simulated_month.nights(Desk(tmp_path), nights))
    told = simulated_month.table(found)
    lines = [
        f"{cause:<18} there {there:>4}, suggested {said:>4}, rightly {right:>4}, "
        f"precision {right / max(said, 1):.2f}, recall {right / max(there, 1):.2f}"
        for cause, (there, said, right) in told.items()
    ]
    print("\n".join(lines))
    record_property("causes", "\n".join(lines))
    wrong = [
        line
        for line, (_, said, right) in zip(lines, told.values(), strict=True)
        if said and 5 * right < 4 * said
    ]
    assert wrong == []
    seldom = [
        line
        for line, (there, _, right) in zip(lines, told.values(), strict=True)
        if there and 2 * right < there
    ]
    assert seldom == []
    assert sum(said for _, said, _ in told.values()) > 20 * nights / 2
