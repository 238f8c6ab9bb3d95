"""Tests of the roll-forward, in which opening and causes add up exactly to closing."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.books import Amount, exact, fits, night, published
from tests.support.shared import tries
from warehouse.storage.layout import Layout

DAYS = (date(2026, 11, 17), date(2026, 11, 20))
CAUSES = ("new_accounts", "gone_accounts", "increased", "decreased")
PARTS = ("opening", *CAUSES, "closing")
COUNTS = ("accounts_new", "accounts_gone", "accounts_increased", "accounts_decreased")
AMOUNTS = st.builds(
    Amount,
    st.sampled_from(["0", "1.10", "-2.5e3", "1e30", "-1e30", "1e-19", "99999999999999999999.5"]),
    portfolio=st.sampled_from(["p1", "p2"]),
    asset=st.sampled_from(["BTC", "ETH"]),
    account=st.sampled_from(["main", "cold"]),
    bucket=st.sampled_from(["trading", "invented"]),
    custom=st.booleans(),
)
BOOKS = st.lists(
    AMOUNTS, max_size=14, unique_by=lambda a: (a.portfolio, a.asset, a.account, a.bucket, a.custom)
)
Account = tuple[str, str, bool, str]


def by_account(amounts: Iterable[Amount]) -> dict[Account, str]:
    """Return the exact total of each account."""
    found: dict[Account, list[str]] = defaultdict(list)
    for one in amounts:
        found[one.portfolio, one.asset, one.custom, one.account].append(one.text)
    return {account: exact(texts) for account, texts in found.items()}


def less(text: str) -> str:
    """Return the amount with the opposite sign."""
    return text[1:] if text.startswith("-") else f"-{text}"


def told(old: list[Amount], new: list[Amount]) -> dict[tuple[str, bool], dict[str, list[str]]]:
    """Compute the parts of each asset's roll-forward in Python."""
    before, now = by_account(old), by_account(new)
    found: dict[tuple[str, bool], dict[str, list[str]]] = {}
    for account in before.keys() | now.keys():
        parts = found.setdefault((account[1], account[2]), {name: [] for name in PARTS})
        if account in before:
            parts["opening"].append(before[account])
        if account in now:
            parts["closing"].append(now[account])
        delta = exact([now.get(account, "0"), less(before.get(account, "0"))])
        if account not in before:
            parts["new_accounts"].append(delta)
        elif account not in now:
            parts["gone_accounts"].append(delta)
        elif delta != "0":
            parts["decreased" if delta.startswith("-") else "increased"].append(delta)
    return found


@settings(max_examples=tries(2, 30), deadline=None, derandomize=True)
@given(BOOKS, BOOKS)
def test_the_opening_total_and_causes_equal_the_closing_total(
    tmp_path_factory: pytest.TempPathFactory, old: list[Amount], new: list[Amount]
) -> None:
    """Each part is equal to the sum that Python computes.

    The opening total and the four causes add up exactly to the closing total.
    """
    layout = Layout(tmp_path_factory.mktemp("rolled"))
    nights = [
        night(f"{day:%Y%m%d}T021500Z", amounts)
        for day, amounts in zip(DAYS, (old, new), strict=True)
    ]
    published(layout, nights, "a")
    wanted = told(old, new)
    texts = ", ".join(f"{name}_text" for name in PARTS)
    columns = f"asset_id, is_custom_asset, {texts}, {', '.join(PARTS)}, {', '.join(COUNTS)}"
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        query = f"select {columns} from roll_forward"
        found = connection.execute(query).fetchall()
        between = query.replace("roll_forward", f"roll_forward_between('{DAYS[0]}', '{DAYS[1]}')")
        assert sorted(connection.execute(between).fetchall(), key=str) == sorted(found, key=str)
    assert {row[:2] for row in found} == wanted.keys()
    for asset, custom, *rest in found:
        parts = wanted[asset, custom]
        said = dict(zip(PARTS, rest, strict=False))
        assert said == {name: exact(parts[name]) for name in PARTS}
        assert exact(said[name] for name in PARTS[:-1]) == said["closing"]
        assert tuple(rest[6:12]) == tuple(fits(text) for text in said.values())
        assert rest[12:] == [len(parts[name]) for name in CAUSES]


def test_a_roll_forward_uses_the_newest_books_by_its_dates(tmp_path: Path) -> None:
    """A roll-forward uses the newest books on or before its two dates.

    A date before the first book is an error, and so are dates in reverse order.
    """
    layout = Layout(tmp_path)
    nights = [
        night("20261117T021500Z", [Amount("1")]),
        night("20261119T021500Z", [Amount("2.5"), Amount("4", "p2")]),
        night("20261120T021500Z", [Amount("4", "p2", account="cold")]),
    ]
    published(layout, nights, "a")
    columns = f"opening_date, closing_date, {', '.join(PARTS)}"
    with duckdb.connect(str(layout.database), read_only=True) as connection:

        def ask(first: str, last: str) -> list[tuple[object, ...]]:
            query = f"select {columns} from roll_forward_between('{first}', '{last}')"
            return connection.execute(query).fetchall()

        assert ask("2026-11-18", "2026-11-19") == [
            (DAYS[0], date(2026, 11, 19), 1, 4, 0, Decimal("1.5"), 0, Decimal("6.5"))
        ]
        assert ask("2026-11-19", "2026-11-20") == [
            (date(2026, 11, 19), DAYS[1], Decimal("6.5"), 4, Decimal("-6.5"), 0, 0, 4)
        ]
        with pytest.raises(duckdb.InvalidInputException, match="write the earlier day first"):
            ask("2026-11-19", "2026-11-17")
        for days in (("2025-01-01", "2026-01-01"), ("2026-01-01", "2026-11-17")):
            with pytest.raises(duckdb.InvalidInputException, match=f"no book .*{days[0]}"):
                ask(*days)
