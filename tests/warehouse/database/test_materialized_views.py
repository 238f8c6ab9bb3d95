"""Tests of materialized views, which keep each night's rows as the view had them on that night."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.books import Amount, exact, night, published
from tests.support.shared import some_daily
from warehouse.sql.catalog import MATERIALIZED
from warehouse.storage.layout import Layout

HUGE = "99999999999999999999.9"
NIGHTS = [
    night("20261117T021500Z", [Amount(HUGE), Amount(HUGE, "p2"), Amount("1e-30", venue="v2")]),
    night("20261118T021500Z", [Amount(HUGE), Amount("-1e40", asset="ETH", custom=True)]),
    night("20261119T021500Z", [Amount("3", "p2", bucket="invented"), Amount("0", "p3")]),
    night("20261120T021500Z", [Amount("50", "p2"), Amount("0.000000000000000001", "p2", "ETH")]),
]


def _rows(layout: Layout, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(layout.database), read_only=True) as reader:
        return reader.execute(query).fetchall()


@dataclass(frozen=True)
class Nightly:
    """A home whose nights were published one by one, and the rows of each view after each night."""

    layout: Layout
    rows: dict[tuple[str, date], list[Any]]

    def require_same(self, layout: Layout) -> None:
        """Assert that the history in a home has the recorded rows for each view and night."""
        with duckdb.connect(str(layout.database), read_only=True):
            for (name, day), said in self.rows.items():
                query = f"from history.{name} where snapshot_date = '{day}' order by all"
                assert _rows(layout, query) == said, (name, day)


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Nightly:
    """Publish four nights one by one, and record the rows of each view."""
    nights = Nightly(Layout(tmp_path_factory.mktemp("nightly")), {})
    for count, newest in enumerate(NIGHTS, start=1):
        published(nights.layout, NIGHTS[:count], f"v{count}")
        with duckdb.connect(str(nights.layout.database), read_only=True):  # Keep the file open.
            for name in MATERIALIZED:
                said = _rows(nights.layout, f"from internal.{name} order by all")
                assert said == _rows(nights.layout, f"from {name} order by all")
                nights.rows[name, newest.day] = said
    return nights


@pytest.mark.parametrize(
    "steps",
    some_daily([[[0, 1, 2, 3]], [[0, 3], [0, 2, 3], [0, 1, 2, 3]]], 2),
    ids=["at once", "late ones"],
)
def test_history_has_the_rows_of_each_night(
    tmp_path: Path, nightly: Nightly, steps: list[list[int]]
) -> None:
    """In any order of loading, history has the rows that each view had on each night.

    Each night is compared with the night before it.
    """
    nightly.require_same(nightly.layout)
    layout = Layout(tmp_path)
    for number, step in enumerate(steps):
        published(layout, [NIGHTS[n] for n in step], f"v{number}")
    nightly.require_same(layout)


def test_a_removed_night_leaves_no_rows(tmp_path: Path) -> None:
    """A removed night leaves no rows, and the next night is compared with the one before it."""
    layout, alone = Layout(tmp_path / "a"), Layout(tmp_path / "b")
    published(layout, NIGHTS, "v0")
    published(layout, [NIGHTS[0], *NIGHTS[2:]], "v1")
    published(alone, [NIGHTS[0], *NIGHTS[2:]], "v0")
    for name in MATERIALIZED:
        query = f"from history.{name} order by all"
        assert _rows(layout, query) == _rows(alone, query)
    assert _rows(layout, "select count(*) from history.findings")[0][0] > 0


def test_sums_over_many_nights_are_exact(tmp_path: Path) -> None:
    """Sums over many nights are exact, even if the amounts do not fit a decimal."""
    layout = Layout(tmp_path)
    published(layout, NIGHTS, "a")
    query = (
        "select snapshot_date, asset_id, is_custom_asset, exact_sum(total_text), "
        "max(portfolio_name) from history.holdings where portfolio_id = 'p1' group by all"
    )
    wanted = {
        (one.day, key[0], key[1]): exact(
            line["amount_text"]
            for line in one.rows["balances"]
            if (line["asset_id"], line["is_custom_asset"], line["portfolio_id"]) == (*key, "p1")
        )
        for one in NIGHTS
        for key in {
            (line["asset_id"], line["is_custom_asset"])
            for line in one.rows["balances"]
            if line["portfolio_id"] == "p1"
        }
    }
    rows = _rows(layout, query)
    assert {row[:3]: row[3] for row in rows} == wanted
    assert {row[4] for row in rows} == {"Portfolio p1"}
