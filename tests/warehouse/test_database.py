"""Publishing: everything of a night at once or nothing, and nobody locked out."""

from decimal import Decimal
from pathlib import Path

import duckdb

from tests.books import Amount, Night, night, published
from warehouse.layout import Layout


def rows(layout: Layout, query: str) -> list[tuple[object, ...]]:
    """What a reader of the published file is answered."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        return connection.execute(query).fetchall()


FIRST = night("20261119T021500Z", [Amount("1.5"), Amount("2", state="locked")])
SECOND = night("20261120T021500Z", [Amount("4"), Amount("9", asset="ETH")])


def test_a_night_can_be_read_under_the_plain_names(tmp_path: Path) -> None:
    """The newest book answers under the plain names, all of them in history."""
    layout = Layout(tmp_path)
    done = published(layout, [FIRST, SECOND], "a")
    assert done.loaded == (FIRST.day, SECOND.day)
    assert rows(layout, "select asset_id, amount from balances order by all") == [
        ("BTC", Decimal(4)),
        ("ETH", Decimal(9)),
    ]
    assert rows(layout, "select count(*) from history.balances") == [(4,)]
    assert rows(layout, "select asset_id, total_text from holdings_as_of('2026-11-19')") == [
        ("BTC", "3.5")
    ]


def test_nothing_at_all_is_a_well_formed_warehouse(tmp_path: Path) -> None:
    """A first night that is held shows empty tables, not an error."""
    layout = Layout(tmp_path)
    held = Night(FIRST.snapshot_id, FIRST.rows, state="held", is_book=False)
    published(layout, [held], "a")
    assert rows(layout, "select * from holdings") == []
    assert rows(layout, "select reason from ops.gaps") == [("held",)]
