"""Tests of the views, whose totals include every amount exactly. Missing values stay missing."""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import environments
from tests.support.books import BUILT_AT, Amount, Night, exact, fits, night, published, row, written
from tests.support.shared import tries
from warehouse.contract.book import KNOWN_BALANCES
from warehouse.contract.ops import LISTINGS, REQUESTS
from warehouse.database.publication import publish_version
from warehouse.sql import catalog, files
from warehouse.sql.catalog import at_day, macros, tables_in, views
from warehouse.sql.header import read
from warehouse.storage.layout import Layout

BEFORE = "20261119T021500Z"
TONIGHT = "20261120T021500Z"
TEXTS = ["0", "-0", "1.10", "-2.5e3", "1e30", "1e-19", "99999999999999999999.5", ".5", "+7"]
KNOWN = [
    ("trading", "free"),
    ("trading", "locked"),
    ("margin", "locked"),
    ("staking", "locked"),
    ("custody", "free"),
    ("custody", "locked"),
]
UNKNOWN = [("invented", "free"), ("margin", "free"), ("trading", "pending")]
AMOUNTS = st.builds(
    lambda kind, **values: Amount(bucket=kind[0], state=kind[1], **values),
    st.sampled_from(KNOWN + UNKNOWN),
    text=st.sampled_from(TEXTS),
    portfolio=st.sampled_from(["p1", "p2"]),
    asset=st.sampled_from(["BTC", "ETH"]),
    venue=st.sampled_from(["v1", "v2"]),
    account=st.sampled_from(["main", "cold"]),
    custom=st.booleans(),
)
BOOKS = st.lists(
    AMOUNTS,
    max_size=25,
    unique_by=lambda a: (a.portfolio, a.asset, a.custom, a.venue, a.account, a.bucket, a.state),
)


def ask(layout: Layout, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on the published database file."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        return connection.execute(query).fetchall()


def part(amount: Amount) -> str:
    """Return the column of `holdings` that includes an amount."""
    return amount.state if (amount.bucket, amount.state) in KNOWN else "other"


VIEWS = {
    "holdings": ("portfolio", "asset", "custom"),
    "holdings_by_venue": ("venue", "asset", "custom"),
    "holdings_by_asset": ("asset", "custom"),
}
COLUMNS = {
    "portfolio": "portfolio_id",
    "venue": "venue_id",
    "asset": "asset_id",
    "custom": "is_custom_asset",
    "account": "account_name",
}


@settings(max_examples=tries(2, 30), deadline=None, derandomize=True)
@given(BOOKS)
def test_every_holding_is_the_exact_sum_of_its_amounts(
    tmp_path_factory: pytest.TempPathFactory, amounts: list[Amount]
) -> None:
    """Holdings by portfolio, venue and asset include every amount exactly, of any kind."""
    layout = Layout(tmp_path_factory.mktemp("totals"))
    published(layout, [night(TONIGHT, amounts)], "a")
    for view, keys in VIEWS.items():
        wanted = {}
        for group in {tuple(getattr(a, key) for key in keys) for a in amounts}:
            mine = [a for a in amounts if tuple(getattr(a, key) for key in keys) == group]
            for column in ("free", "locked", "other"):
                wanted[*group, column] = exact(a.text for a in mine if part(a) == column)
            wanted[*group, "total"] = exact(a.text for a in mine)
        names = ", ".join(COLUMNS[key] for key in keys)
        found = {}
        for column in ("free", "locked", "other", "total"):
            lines = ask(layout, f"select {names}, {column}_text, {column} from {view}")
            for *line, text, number in lines:
                found[*line, column] = text
                assert number == fits(text)
        assert found == wanted


@settings(max_examples=tries(2, 30), deadline=None, derandomize=True)
@given(BOOKS)
def test_an_account_shows_each_known_part(
    tmp_path_factory: pytest.TempPathFactory, amounts: list[Amount]
) -> None:
    """An account has each known part in its own column, and the sum of the others in `other`.

    Parts that the API does not send are NULL.
    """
    layout = Layout(tmp_path_factory.mktemp("accounts"))
    published(layout, [night(TONIGHT, amounts)], "a")
    keys = ("portfolio", "asset", "custom", "venue", "account")
    columns = [f"{bucket}_{state}" for bucket, state in KNOWN]
    texts = ", ".join(f"{column}_text" for column in (*columns, "other", "total"))
    names = ", ".join(COLUMNS[key] for key in keys)
    found = ask(layout, f"select {names}, {texts} from account_balances")
    wanted = []
    for group in {tuple(getattr(a, key) for key in keys) for a in amounts}:
        mine = [a for a in amounts if tuple(getattr(a, key) for key in keys) == group]
        stated = [[a.text for a in mine if (a.bucket, a.state) == kind] for kind in KNOWN]
        stated.append([a.text for a in mine if part(a) == "other"])
        parts = [exact(texts) if texts else None for texts in stated]
        wanted.append((*group, *parts, exact(a.text for a in mine)))
    assert sorted(found, key=str) == sorted(wanted, key=str)


def test_a_newly_documented_kind_is_always_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A newly documented kind is free or locked in holdings, and in `other` in account_balances."""
    for made_once in (macros.cache_clear, files._database.cache_clear):
        request.addfinalizer(made_once)
    monkeypatch.setitem(KNOWN_BALANCES, "invented", ("free", "locked"))
    macros.cache_clear()
    files._database.cache_clear()
    layout = Layout(tmp_path)
    locked = Amount("1e30", bucket="invented", state="locked")
    amounts = [Amount("10"), Amount("2", bucket="invented"), locked]
    published(layout, [night(TONIGHT, amounts)], "a")
    total = exact(amount.text for amount in amounts)
    [account] = ask(
        layout, "select trading_free_text, other_text, total_text from account_balances"
    )
    assert account == ("10", exact(["2", "1e30"]), total)
    held = ask(layout, "select free_text, locked_text, other_text, total_text from holdings")
    assert held == [("12", exact(["1e30"]), "0", total)]


EMPTY: dict[str, Any] = {"portfolio_id": "p9", "asset_id": "DOT"}


def test_empty_accounts_and_positions_are_kept(tmp_path: Path) -> None:
    """Accounts without balances and positions without accounts have rows, with totals of 0.

    The parts of an account without balances are NULL.
    """
    layout = Layout(tmp_path)
    more: dict[str, list[dict[str, Any]]] = {
        "portfolios": [{"portfolio_id": "p9"}],
        "positions": [EMPTY, EMPTY | {"asset_id": "SOL"}],
        "accounts": [EMPTY | {"venue_id": "v9", "account_name": "a", "balance_count": 0}],
    }
    published(layout, [night(TONIGHT, [], more)], "a")
    query = "select trading_free, trading_free_text, other, total, total_text, balance_count"
    assert ask(layout, f"{query} from account_balances") == [(None, None, None, 0, "0", 0)]
    query = "select asset_id, free, total_text, accounts, venues from holdings order by all"
    assert ask(layout, query) == [("DOT", 0, "0", 1, 1), ("SOL", 0, "0", 0, 0)]
    assert ask(
        layout, "select asset_id, portfolios, accounts from holdings_by_asset order by 1"
    ) == [
        ("DOT", 1, 1),
        ("SOL", 1, 0),
    ]


def test_a_different_notation_is_not_a_change(tmp_path: Path) -> None:
    """New, gone and changed amounts have exact deltas. A different notation is not a change."""
    layout = Layout(tmp_path)
    old = [Amount("1.0"), Amount("1e30", "p2"), Amount("3", "p3"), Amount("1e40", "p4")]
    new = [Amount("1.000"), Amount("0.5", "p2"), Amount("4", "p5"), Amount("10e39", "p4")]
    published(layout, [night(BEFORE, old), night(TONIGHT, new)], "a")
    query = (
        "select portfolio_id, change, before_text, after_text, delta, delta_text from {} order by 1"
    )
    wanted = [
        ("p2", "changed", "1" + "0" * 30, "0.5", None, "-" + "9" * 30 + ".5"),
        ("p3", "gone", "3", None, Decimal(-3), "-3"),
        ("p5", "new", None, "4", Decimal(4), "4"),
    ]
    assert ask(layout, query.format("changes")) == wanted
    assert ask(layout, query.format("changes_between('2026-11-19', '2026-11-20')")) == wanted
    dates = "select distinct before_date, after_date from {}"
    for source in ("changes", "changes_between('2026-11-19', '2026-11-20')"):
        assert ask(layout, dates.format(source)) == [(date(2026, 11, 19), date(2026, 11, 20))]


@pytest.mark.parametrize("client", [sys.executable, "duckdb12", "duckdb13", "duckdb14", "duckdb15"])
@pytest.mark.parametrize("macro", ["changes_between", "roll_forward_between"])
def test_days_that_cannot_be_compared_give_a_clear_error(
    gap: Layout, macro: str, client: str
) -> None:
    """If two days cannot be compared, the macro fails with a clear error, not an empty result.

    This happens if a day is before the first book or in the future, if the first day is after the
    second, or if both days have the same book.
    """
    python = client if client == sys.executable else environments.python(client)
    script = """
import sys, duckdb
book = duckdb.connect(sys.argv[1], read_only=True)
for days in sys.argv[3:]:
    try:
        print(len(book.execute(f"from {sys.argv[2]}({days})").fetchall()))
    except duckdb.Error as error:
        print(str(error).splitlines()[0])
"""
    days = (
        "'2026-11-17', '2026-11-20'",
        "(select date '2026-11-20'), (select date '2026-11-17')",
        "'2026-11-17', '2026-11-19'",
        "'2026-11-17', '9999-01-01'",
        "'2026-01-01', '2026-11-20'",
        "'2026-11-17', null",
    )
    same = "have the same book, from 2026-11-17, so nothing can be compared; see ops.gaps"
    answer = subprocess.run(
        [python, "-c", script, gap.database, macro, *days],
        capture_output=True,
        check=True,
        text=True,
    )
    assert answer.stdout.splitlines() == [
        "1",
        "Invalid Input Error: 2026-11-20 is after 2026-11-17: write the earlier day first",
        f"Invalid Input Error: 2026-11-17 and 2026-11-19 {same}",
        "Invalid Input Error: 9999-01-01 is in the future; the newest book is from 2026-11-20",
        "Invalid Input Error: no book on or before 2026-01-01: see ops.snapshots and ops.gaps",
        "Invalid Input Error: no book on or before NULL: see ops.snapshots and ops.gaps",
    ]


@pytest.fixture(scope="module")
def gap(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish two books, with two nights between them that nobody took."""
    layout = Layout(tmp_path_factory.mktemp("gap"))
    nights = [night("20261117T021500Z", [Amount("1")]), night(TONIGHT, [Amount("3")])]
    published(layout, nights, "a")
    return layout


def test_each_kind_of_locked_funds_has_one_row(tmp_path: Path) -> None:
    """Each kind of locked funds has one row, including unknown kinds. Zero amounts have no row."""
    layout = Layout(tmp_path)
    amounts = [
        Amount("1", state="locked"),
        Amount("2", state="locked", account="cold"),
        Amount("0.0", bucket="margin", state="locked"),
        Amount("1e30", bucket="invented", state="locked"),
        Amount("9"),
    ]
    published(layout, [night(TONIGHT, amounts)], "a")
    assert ask(
        layout, "select bucket, locked, locked_text, accounts from locked_funds order by 1"
    ) == [
        ("invented", None, "1" + "0" * 30, 1),
        ("trading", 3, "3", 2),
    ]


def _venues() -> Night:
    """Return a night with money at venues of different statuses, and at an unlisted venue."""
    amounts = [Amount("1", venue=venue) for venue in ("v1", "v2", "v3", "v4")]
    amounts += [Amount("0", venue="v5"), Amount("1", "p2", venue="v2")]
    made = night(TONIGHT, amounts)
    statuses = {"v1": "suspended", "v2": "trading", "v3": "asleep", "v5": "suspended"}
    rows = {name: list(lines) for name, lines in made.rows.items()}
    rows["venues"] = [
        line | {"trading_status": statuses[line["venue_id"]]}
        for line in rows["venues"]
        if line["venue_id"] in statuses
    ]
    rows["portfolios"] = [
        line | {"integration_count": None if line["portfolio_id"] == "p2" else 2}
        for line in rows["portfolios"]
    ]
    return replace(made, rows=rows)


def test_money_at_a_wrong_venue_is_found(tmp_path: Path) -> None:
    """Money at closed or unknown venues or without a verified integration is a finding.

    Zero amounts are not findings. An integration with an unknown venue is one.
    """
    layout = Layout(tmp_path)
    found = _venues()
    integrations = [
        {"portfolio_id": "p1", "integration_id": "i1", "venue_id": "v1", "status": "verified"},
        {"portfolio_id": "p1", "integration_id": "i2", "venue_id": "v2", "status": "requested"},
        {"portfolio_id": "p1", "integration_id": "i3", "venue_id": "v8", "status": "verified"},
    ]
    known = night(TONIGHT, [], {"integrations": integrations}).rows["integrations"]
    published(layout, [replace(found, rows={**found.rows, "integrations": known})], "a")
    assert ask(layout, "select kind, portfolio_id, venue_id from findings order by all") == [
        ("integration_unknown_venue", "p1", "v8"),
        ("money_at_closed_venue", "p1", "v1"),
        ("money_at_closed_venue", "p1", "v3"),
        ("money_at_unknown_venue", "p1", "v4"),
        ("money_without_integration", "p1", "v2"),
        ("money_without_integration", "p1", "v3"),
        ("money_without_integration", "p1", "v4"),
    ]
    words = ask(layout, "select words from findings where venue_id = 'v2'")
    [(sentence,)] = words
    assert sentence.startswith("Money (1 asset) at a venue without a verified connection")
    assert sentence.endswith(", status requested.")


def test_vanished_and_renamed_portfolios_are_found(tmp_path: Path) -> None:
    """A portfolio that vanished or changed its name since the previous book is a finding."""
    layout = Layout(tmp_path)
    old = night(BEFORE, [Amount("0", "p1"), Amount("0", "p2"), Amount("0", "p3")])
    new = night(TONIGHT, [Amount("0", "p2"), Amount("0", "p3")])
    renamed = [
        line | {"name": f"New {line['portfolio_id']}"} for line in new.rows["portfolios"][:1]
    ]
    renamed += [line | {"name": None} for line in new.rows["portfolios"][1:]]
    new = replace(new, rows={**new.rows, "portfolios": renamed})
    published(layout, [old, new], "a")
    assert ask(layout, "select kind, words from findings order by all") == [
        ("portfolio_renamed", 'Portfolio "Portfolio p2" is now called "New p2".'),
        ("portfolio_renamed", 'Portfolio "Portfolio p3" no longer has a name.'),
        (
            "portfolio_vanished",
            'Portfolio "Portfolio p1" was in the previous book but is not in this one.',
        ),
    ]


INSTRUMENT: dict[str, Any] = {"venue_id": "v1", "type": "spot"}


def test_instruments_are_tradable_until_they_expire(tmp_path: Path) -> None:
    """Expired instruments and instruments of venues that are not trading are not tradable.

    Stale instruments and differences between the API's lists are findings.
    """
    layout = Layout(tmp_path)
    soon = datetime(2026, 1, 2, tzinfo=UTC)
    past = datetime(2025, 12, 31, tzinfo=UTC)
    more: dict[str, list[dict[str, Any]]] = {
        "venues": [
            {"venue_id": "v1", "trading_status": "trading"},
            {"venue_id": "v2", "trading_status": "suspended"},
        ],
        "instruments": [
            INSTRUMENT | {"instrument_id": "perpetual"},
            INSTRUMENT | {"instrument_id": "soon", "expiration": soon},
            INSTRUMENT | {"instrument_id": "past", "expiration": past},
            INSTRUMENT | {"instrument_id": "stale", "stale_since": date(2026, 11, 18)},
            INSTRUMENT | {"instrument_id": "closed", "venue_id": "v2"},
        ],
    }
    made = night(TONIGHT, [], more)
    odd = row(
        LISTINGS,
        made.day,
        snapshot_id=TONIGHT,
        venue_id="v1",
        instrument_id="soon",
        missing_from="venues",
    )
    listings = [odd, odd | {"missing_from": "type"}]
    published(layout, [night(TONIGHT, [], more, ops={"listings": listings})], "a")
    assert ask(layout, "select instrument_id from tradable_instruments order by all") == [
        ("perpetual",),
        ("soon",),
        ("stale",),
    ]
    missing = "1 instruments of the venue"
    empty = "The venue no longer lists any instruments, without an error. The 1 instruments of"
    assert ask(layout, "select kind, venue_id, words from findings order by all") == [
        (
            "instruments_differ",
            "v1",
            "1 instruments have a different type in the record of the venue than in its list.",
        ),
        (
            "instruments_differ",
            "v1",
            f"{missing} are missing from venues, but they are in another of its lists.",
        ),
        (
            "instruments_stale",
            "v1",
            f"{empty} 2026-11-18 are shown.",
        ),
    ]
    assert ask(layout, "select kind, id, stale_since from freshness order by all") == [
        ("venue", "v1", date(2026, 11, 18)),
        ("venue", "v2", None),
    ]


def test_missing_instrument_lists_are_found(tmp_path: Path) -> None:
    """An instrument list that became empty or could not be read is a finding.

    A list whose instruments have all expired is not a finding.
    """
    layout = Layout(tmp_path)
    venues = [{"venue_id": f"v{number}"} for number in range(1, 5)]
    past = datetime(2025, 12, 31, tzinfo=UTC)
    stale = {"stale_since": date(2026, 11, 19)}
    before: list[dict[str, Any]] = [
        *({"venue_id": "v1", "type": "spot", "instrument_id": one} for one in "ab"),
        {"venue_id": "v1", "type": "future", "instrument_id": "c"},
        {"venue_id": "v2", "type": "spot", "instrument_id": "d"},
        {"venue_id": "v3", "type": "future", "instrument_id": "e", "expiration": past},
        {"venue_id": "v4", "type": "spot", "instrument_id": "f"},
    ]
    after = [before[2], before[3] | stale, before[5] | stale]
    made = night(TONIGHT, [])
    failed = row(REQUESTS, made.day, snapshot_id=TONIGHT, request_no=3, venue_id="v2", error="no")
    nights = [
        night(BEFORE, [], {"venues": venues, "instruments": before}),
        night(TONIGHT, [], {"venues": venues, "instruments": after}, ops={"requests": [failed]}),
    ]
    published(layout, nights, "a")
    query = "select kind, venue_id, words from findings order by all"
    empty = "The venue no longer lists any instruments, without an error. The 1 instruments of"
    assert ask(layout, query) == [
        (
            "instruments_gone",
            "v1",
            "The list of spot instruments is empty. It had 2 in the previous book.",
        ),
        (
            "instruments_stale",
            "v2",
            "1 instruments could not be read. The instruments of 2026-11-19 are shown.",
        ),
        (
            "instruments_stale",
            "v4",
            f"{empty} 2026-11-19 are shown.",
        ),
    ]


def test_freshness_counts_whole_days(tmp_path: Path) -> None:
    """Freshness counts whole days from the API's update time to the end of the read.

    The number is negative if the update time is later than the end of the read.
    """
    layout = Layout(tmp_path)
    more: dict[str, list[dict[str, Any]]] = {
        "portfolios": [
            {"portfolio_id": "old", "updated_at": datetime(2025, 12, 29, 1, tzinfo=UTC)},
            {"portfolio_id": "ahead", "updated_at": datetime(2026, 1, 1, 1, tzinfo=UTC)},
            {"portfolio_id": "silent"},
        ]
    }
    published(layout, [night(TONIGHT, [], more)], "a")
    assert ask(layout, "select id, days_unchanged from freshness order by all") == [
        ("ahead", -1),
        ("old", 2),
        ("silent", None),
    ]


def test_a_view_file_without_an_example_is_rejected(tmp_path: Path) -> None:
    """A view file without an example is rejected, and the error names the file."""
    file = tmp_path / "bare.sql"
    file.write_text("-- One row per thing.\n\nselect 1\n")
    with pytest.raises(ValueError, match=r"header of bare\.sql needs a description and an"):
        read(file)


def test_a_macro_file_without_returns_is_rejected() -> None:
    """A macro file without a `returns:` line is rejected, and the error names the macro."""
    bare = replace(views()[0], name="bare")
    with pytest.raises(ValueError, match=r"macro bare needs a line `-- returns: \.\.\.`"):
        catalog._macro(bare, "main")


def test_as_of_queries_differ_only_in_table_names() -> None:
    """The query for a given day differs from the view only in the names of the tables."""
    query = "select * from balances join balances_before using (x), ops.snapshots"
    assert tables_in(query, {"balances", "snapshots", "accounts"}) == ("balances",)
    assert "balances_before" not in at_day("select * from balances", "day")
    for view in views():
        text = re.sub(r"in_place_of_(\w+)(?: as \1\b)?", r"\1", at_day(view.sql, "day"))
        assert text.endswith(f"{view.sql}\n)")


ROUND = {99: False, 100: True, 250: True, 300: False, 1000: True}
LISTED = [(type_, count) for type_ in ("spot", None) for count in ROUND]


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish a night with one venue for each list in `LISTED`. Each venue also has one future."""
    venues = {f"{type_}-{count}": (type_, count) for type_, count in LISTED}
    instruments = [
        INSTRUMENT | {"venue_id": venue, "type": type_, "instrument_id": f"i{number}"}
        for venue, (type_, count) in venues.items()
        for number in range(count)
    ]
    instruments += [INSTRUMENT | {"venue_id": v, "type": "future"} for v in venues]
    about = [{"venue_id": venue, "trading_status": "trading"} for venue in venues]
    layout = Layout(tmp_path_factory.mktemp("listed"))
    published(layout, [night(TONIGHT, [], {"instruments": instruments, "venues": about})], "a")
    return layout


@pytest.mark.parametrize(("type_", "count"), LISTED)
def test_a_round_count_of_records_is_a_severe_finding(
    listed: Layout, type_: str | None, count: int
) -> None:
    """A list of exactly 100, 250 or 1,000 records is a finding of high severity.

    It may be only the first page of several.
    """
    words = (
        f"The list of {type_ or 'untyped'} instruments has exactly {count} records. Check whether "
        "it is complete or only one page of several."
    )
    query = "select severity, kind, words from findings where venue_id = "
    found = ask(listed, f"{query}'{type_}-{count}'")
    assert found == ([("high", "round_count", words)] if ROUND[count] else [])


@pytest.mark.parametrize(
    ("stillness", "severity", "once"),
    [
        ("moved", "low", "so it was read a second time: "),
        ("moving", "medium", "and it changed again during the second read: "),
    ],
)
def test_a_book_that_changed_during_the_read_is_a_finding(
    stillness: str, severity: str, once: str, tmp_path: Path
) -> None:
    """A book that changed between the first and the last read is a finding that names the changes.

    The severity is low, or medium if the book also changed during the second read.
    """
    layout = Layout(tmp_path)
    contents = written(layout, [night(TONIGHT, [])])
    about = {"stillness": stillness, "moved": "portfolios: 1 changed (p1)"}
    told = tuple({**one, **about} for one in contents.snapshots)
    contents = replace(contents, snapshots=told)
    publish_version(layout, contents, version="a", built_at=BUILT_AT, program_version="0")
    [(found, kind, words)] = ask(layout, "select severity, kind, words from findings")
    assert (found, kind) == (severity, "book_moved")
    assert words == (f"The book changed while it was read, {once}portfolios: 1 changed (p1).")


def test_an_account_that_is_listed_twice_is_a_finding(tmp_path: Path) -> None:
    """An account that is listed more than once is a finding.

    The severity is high if equal amounts count more than once, in any notation and of any size.
    """
    listings = {
        "equal": ("1.50", "1.5"),
        "vast": ("1e30", "1e30", "2"),
        "other": ("1", "2"),
        "zero": ("0", "-0"),
        "once": ("7",),
    }
    rows: dict[str, list[dict[str, Any]]] = {"accounts": [], "balances": []}
    for name, texts in listings.items():
        for number, text in enumerate(texts):
            key: dict[str, Any] = {"portfolio_id": "p1", "asset_id": "BTC", "venue_id": "v1"}
            key |= {"account_name": name, "duplicate_no": number}
            rows["accounts"].append({**key, "balance_count": 1})
            amount = {"bucket": "custody", "state": "free", "amount_text": text}
            rows["balances"].append({**key, **amount, "amount": fits(text)})
    more = {**rows, "portfolios": [{"portfolio_id": "p1"}]}
    more["positions"] = [{"portfolio_id": "p1", "asset_id": "BTC", "account_count": 10}]
    layout = Layout(tmp_path)
    published(layout, [night(TONIGHT, [], more)], "a")
    query = "select severity, words from findings where kind = 'account_repeated' order by all"
    again = "with the same amounts, which may be counted more than once:"
    assert ask(layout, query) == [
        ("high", f'Account "equal" is listed 2 times for BTC {again} 1.5.'),
        ("high", f'Account "vast" is listed 3 times for BTC {again} 1{"0" * 30}.'),
        ("low", 'Account "other" is listed 2 times for BTC with different amounts.'),
        ("low", 'Account "zero" is listed 2 times for BTC and holds nothing.'),
    ]


def test_a_large_asset_move_is_listed_with_exact_totals(tmp_path: Path) -> None:
    """A large change of an asset's total is listed with the exact totals before and after.

    Each change is also a finding, unless the asset is new. `severity_rank` sorts by severity.
    """
    layout = Layout(tmp_path)
    totals = {
        "SOLD": ("2.000000000000000001", None),
        "TURNED": ("5", "-5"),
        "BOUGHT": ("100", "227.10"),
        "HUGE": ("1e30", "1e33"),
        "LESS": ("100", "79.99"),
        "NEW": (None, "7"),
        "MORE": ("100", "120.01"),
        "STILL": ("100", "120"),
        "SAME": ("3.3", "3.96"),
    }
    nights = [
        night(
            name,
            [Amount(text, asset=asset) for asset, two in totals.items() if (text := two[place])],
        )
        for place, name in enumerate((BEFORE, TONIGHT))
    ]
    published(layout, nights, "20261121T000000000000Z")
    query = "select asset_id, move, severity, before_text, after_text from asset_moves order by all"
    assert ask(layout, query) == [
        ("BOUGHT", "rose", "medium", "100", "227.1"),
        ("HUGE", "rose", "high", f"1{'0' * 30}", f"1{'0' * 33}"),
        ("LESS", "fell", "low", "100", "79.99"),
        ("MORE", "rose", "low", "100", "120.01"),
        ("NEW", "new", "low", "0", "7"),
        ("SOLD", "gone", "medium", "2.000000000000000001", "0"),
        ("TURNED", "turned", "high", "5", "-5"),
    ]
    words = [
        word for (word,) in ask(layout, "select words from findings where kind = 'asset_moved'")
    ]
    assert len(words) == 6
    assert "The total of SOLD is gone. It was 2.000000000000000001." in words
    assert "The total of BOUGHT rose from 100 to 227.1." in words
    for of_severity in ("asset_moves", "findings", "history.findings"):
        ranked = ask(layout, f"select severity from {of_severity} order by severity_rank")
        severities = [severity for (severity,) in ranked]
        assert severities == sorted(severities, key=["high", "medium", "low"].index)
        assert len(set(severities)) == 3, of_severity


def test_asset_moves_are_right_for_a_first_book_and_huge_totals(tmp_path: Path) -> None:
    """The first book has no asset moves, and totals of six hundred digits are compared as well."""
    layout = Layout(tmp_path)
    first, second = (
        night(name, [Amount(text, asset="X")])
        for name, text in ((BEFORE, "9" * 600), (TONIGHT, f"-{'9' * 600}"))
    )
    published(layout, [first], "20261121T000000000000Z")
    assert ask(layout, "select * from asset_moves") == []
    published(layout, [first, second], "20261122T000000000000Z")
    assert ask(layout, "select move, length(after_text) from asset_moves") == [("turned", 601)]


def test_an_emptied_venue_or_portfolio_is_a_finding(tmp_path: Path) -> None:
    """An emptied venue or portfolio that held a single asset is a finding.

    A change in one asset alone does not hold a night, so the analyst sees it here.
    """
    layout = Layout(tmp_path)
    before = night(BEFORE, [Amount("1"), Amount("5", portfolio="p2", venue="v2")])
    tonight = night(TONIGHT, [Amount("6"), Amount("0", portfolio="p2", venue="v2")])
    published(layout, [before, tonight], "20261121T000000000000Z")
    query = (
        "select kind, portfolio_id, venue_id from findings where kind like '%_emptied' order by 1"
    )
    assert ask(layout, query) == [("portfolio_emptied", "p2", None), ("venue_emptied", None, "v2")]
