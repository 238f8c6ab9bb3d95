"""Tests of the movement between two books: nothing is plugged, and nothing is guessed."""

import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.support import environments
from tests.support.books import Amount, exact
from tests.support.priced_books import ask, drop, publish, read_at
from tests.warehouse.query.test_connect_older_clients import OLDER, asked
from warehouse.storage.layout import Layout

FIRST, SECOND = "20261120T021500Z", "20261121T021500Z"
TITLES = "time,portfolio,venue,account,asset_id,is_custom_asset,amount,kind,reference"
DAYS = "'2026-11-20', '2026-11-21'"


def moved(home: Path, before: list[Amount], after: list[Amount], *lines: str) -> Layout:
    """Publish two books with a file of transactions between them."""
    if lines:
        drop(home, "transactions/a.csv", TITLES, *lines)
    return publish(home, [read_at(FIRST, before), read_at(SECOND, after)])


def keys(layout: Layout, columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the movement."""
    return ask(layout, f"select {columns} from movement_between({DAYS}) order by all")


def test_a_movement_is_explained_to_the_last_digit(tmp_path: Path) -> None:
    """Opening, in, out and fees add up to the closing amount of each account and asset."""
    long = "123456789012345678901234567890123456789012.345678901234567890"
    layout = moved(
        tmp_path,
        [Amount(long), Amount("1", state="locked"), Amount("5", custom=True), Amount("9", "p2")],
        [Amount(long), Amount("0.5", state="locked"), Amount("5", custom=True)],
        "2026-11-20T12:00:00Z,p1,v1,main,BTC,,2.5,trade,a",
        "2026-11-20T12:00:00Z,p1,v1,main,BTC,,-2.9,Trade,b",
        "2026-11-20T14:00:00+01:00,Portfolio p1,Venue v1,main,BTC,no,-1e-1,FEE,b",
        "2026-11-20T12:00:00Z,p2,v1,main,BTC,,-9,withdrawal,c",
    )
    columns = (
        "portfolio_id, is_custom_asset, opening_text, in_text, out_text, fees_text, "
        "closing_text, unexplained_text, state, inside"
    )
    opening = long.replace("012.34", "013.34")[:-1]
    closing = long.replace("012.34", "012.84")[:-1]
    assert keys(layout, columns) == [
        ("p1", False, opening, "2.5", "-2.9", "-0.1", closing, "0", "explained", 3),
        ("p1", True, "5", "0", "0", "0", "5", "0", "explained", 0),
        ("p2", False, "9", "0", "-9", "0", "0", "0", "explained", 1),
    ]


def test_what_is_not_explained_is_named(tmp_path: Path) -> None:
    """A missing, repeated or foreign transaction leaves an unexplained amount at its account."""
    layout = moved(
        tmp_path,
        [Amount("1"), Amount("1", "p2"), Amount("1", "p3")],
        [Amount("2"), Amount("3", "p2"), Amount("1", "p3"), Amount("4", "p4")],
        "2026-11-20T12:00:00Z,p2,v1,main,BTC,,2,trade,a",
        "2026-11-20T12:00:00Z,p2,v1,main,BTC,,2,trade,a",
        "2026-11-20T12:00:00Z,nobody,v1,main,BTC,,7,trade,b",
        "2026-11-20T12:00:00Z,p3,v1,main,BTC,true,5,trade,c",
    )
    days = (
        "(select min(snapshot_date) from history.venues), (select max(snapshot_date) from venues)"
    )
    count = ask(layout, f"select count(*) from movement_between({days})")
    assert count == ask(layout, f"select count(*) from movement_between({DAYS})")
    columns = "portfolio_id, is_custom_asset, unexplained_text, state, repeated"
    assert keys(layout, columns) == [
        ("nobody", False, "-7", "unexplained", 0),
        ("p1", False, "1", "unexplained", 0),
        ("p2", False, "-2", "unexplained", 2),
        ("p3", False, "0", "explained", 0),
        ("p3", True, "-5", "unexplained", 0),
        ("p4", False, "4", "unexplained", 0),
    ]


def test_a_transaction_at_the_cut_is_listed_and_not_counted(tmp_path: Path) -> None:
    """A transaction during a read is at the cut, and one outside the two reads is named."""
    layout = moved(
        tmp_path,
        [Amount("1"), Amount("1", "p2")],
        [Amount("2"), Amount("1", "p2")],
        "2026-11-20T02:15:00Z,p1,v1,main,BTC,,1,trade,a",
        "2026-11-21T02:15:00Z,p2,v1,main,BTC,,1,trade,b",
        "2026-11-21T02:15:01Z,p2,v1,main,BTC,,3,trade,c",
        "2026-11-19T02:15:01Z,p2,v1,main,BTC,,4,trade,d",
    )
    columns = "portfolio_id, unexplained_text, state, inside, at_the_cut, outside"
    assert keys(layout, columns) == [
        ("p1", "1", "at_the_cut", 0, 1, 0),
        ("p2", "0", "explained", 0, 1, 2),
    ]
    listed = f"select reference, place from transactions_between({DAYS}) order by all"
    assert ask(layout, listed) == [
        *(("a", "at_the_cut"), ("b", "at_the_cut"), ("c", "after"), ("d", "before")),
    ]


def test_a_later_file_replaces_the_transaction_with_the_same_reference(tmp_path: Path) -> None:
    """A corrected row replaces the row of the earlier file, and both stay in the table."""
    books = [read_at(FIRST, [Amount("1")]), read_at(SECOND, [Amount("3")])]
    row = "2026-11-20T12:00:00Z,p1,v1,main,BTC,,{},trade,a"
    drop(tmp_path, "transactions/a.csv", TITLES, row.format("20"))
    publish(tmp_path, books)
    drop(tmp_path, "transactions/b.csv", TITLES, row.format("2"))
    layout = publish(tmp_path, books, "b")
    assert keys(layout, "unexplained_text, inside") == [("0", 1)]
    assert ask(layout, "select count(*) from reference.transactions") == [(2,)]


def test_a_row_that_cannot_be_used_is_a_reject(tmp_path: Path) -> None:
    """A transaction whose row cannot be used is a reject, not a movement."""
    layout = moved(
        tmp_path,
        [Amount("1")],
        [Amount("1")],
        "2026-11-20,p1,v1,main,BTC,,1,trade,a",
        "2026-11-20T12:00:00,p1,v1,main,BTC,,1,trade,b",
        '2026-11-20T12:00:00Z,p1,v1,main,BTC,,"1,5",trade,c',
        "2026-11-20T12:00:00Z,p1,v1,main,BTC,,1,trade,",
        "2026-11-20T12:00:00Z,p1,v1,,BTC,,1,trade,d",
    )
    codes = ask(layout, "select line, code from ops.reference_rejects order by all")
    assert codes == [
        (2, "not_a_time"),
        (3, "no_time_zone"),
        (4, "not_an_amount"),
        (5, "no_reference"),
        (6, "no_account"),
    ]
    assert keys(layout, "unexplained_text") == [("0",)]


def hostile(rng: random.Random) -> tuple[list[Amount], list[Amount], list[list[str]]]:
    """Return amounts of two books with up to 60 digits, and transactions of some accounts."""

    def number() -> str:
        digits = "".join(rng.choice("0123456789") for _ in range(rng.choice((1, 9, 38, 60))))
        point = rng.randrange(len(digits) + 1)
        return f"{rng.choice(('', '-'))}{digits[:point] or '0'}.{digits[point:]}".rstrip(".")

    keys = [
        (f"p{number % 7}", ("BTC", "ETH")[number % 2], f"v{number % 3}", f"a{number}", custom)
        for number in range(40)
        for custom in (False, True)
    ]
    before, after = (
        [Amount(number(), *key[:4], custom=key[4]) for key in keys if rng.random() < share]
        for share in (0.8, 0.7)
    )
    lines = [
        [
            *(f"2026-11-20T{rng.randrange(3, 24):02}:00:00Z", key[0], key[2], key[3], key[1]),
            *(str(key[4]).lower(), number(), rng.choice(("trade", "fee")), f"r{place}"),
        ]
        for place, key in enumerate(rng.choices(keys, k=200))
    ]
    return before, after, lines


def test_a_movement_equals_an_independent_calculation(tmp_path: Path) -> None:
    """Amounts of 60 digits give the results of Python's decimals, also in DuckDB 1.2."""
    before, after, lines = hostile(random.Random(1))
    layout = moved(tmp_path, before, after, *map(",".join, lines))
    texts = defaultdict[tuple[Any, ...], dict[str, list[str]]](lambda: defaultdict(list))
    for name, book in (("opening", before), ("closing", after)):
        for one in book:
            key = one.portfolio, one.venue, one.account, one.asset, one.custom
            texts[key][name].append(one.text)
    for _, *place, custom, amount, kind, _ in lines:
        name = "fees" if kind == "fee" else "out" if exact([amount]).startswith("-") else "in"
        texts[*place, custom == "true"][name].append(amount)
    expected = []
    for key, found in texts.items():
        parts = [exact(found[name] or ["0"]) for name in ("opening", "in", "out", "fees")]
        wanted, closing = exact(parts), exact(found["closing"] or ["0"])
        rest = exact([closing, wanted[1:] if wanted.startswith("-") else f"-{wanted}"])
        expected.append((*key, *parts, wanted, closing, rest))
    columns = "* exclude (state, inside, at_the_cut, outside, repeated)"
    assert keys(layout, columns) == sorted(expected)
    queries = [("movement", f"from movement_between({DAYS})")]
    queries.append(("list", f"from transactions_between({DAYS})"))
    now = asked(sys.executable, layout.database, queries)[1]
    version, said = asked(environments.python("duckdb12"), layout.database, queries)
    assert (version, said) == (OLDER["duckdb12"], now)
    assert "Error" not in str(now)
