"""Tests of prices and values: a missing price is never hidden, and products are exact."""

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from decimal import ROUND_DOWN, Decimal, localcontext
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support import environments
from tests.support.books import Amount, Night, exact, make_macros
from tests.support.priced_books import NOW, ask, drop, prices, publish, read_at
from tests.support.shared import tries
from tests.warehouse.query.test_connect_older_clients import OLDER, asked
from warehouse.storage.layout import Layout

DIGITS = st.text("0123456789", min_size=1, max_size=60)
PLAIN = st.builds(
    lambda sign, whole, rest: exact([f"{sign}{whole}.{rest}"]),
    st.sampled_from(["", "-"]),
    DIGITS,
    DIGITS | st.just("0"),
)
FIRST, SECOND = "20261120T021500Z", "20261121T021500Z"
ONE = [Amount("2")]
VALUES = (
    "select portfolio_id, asset_id, is_custom_asset, value_text from holdings_value('USD')",
    "select asset_id, is_custom_asset, value_text from value_by_asset('USD', '9999-12-31')",
    "select venue_id, value_text, assets, unpriced_assets from value_by_venue('USD', '2026-11-21')",
    "select portfolio_id, value_text, unpriced_assets from value_by_portfolio('USD', '2026-11-21')",
    "select snapshot_date, value_text, unpriced_assets, stale_assets from value_by_night('USD')",
    "select * from value_changes_between('2026-11-20', '2026-11-21', 'USD')",
    "select * from value_by_label('desks', 'USD', '9999-12-31')",
    "select * from prices_as_of('9999-12-31', 'EUR')",
    "select * from value_by_night('EUR')",
)


def product(one: str, two: str) -> str:
    """Return the product of two amounts in plain digits, calculated with Python's decimals."""
    with localcontext(prec=100_000):
        return exact([format(Decimal(one) * Decimal(two), "f")])


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database with the macros that need no tables."""
    with duckdb.connect() as connection:
        make_macros(connection)
        yield connection


@settings(max_examples=tries(20, 1200), deadline=None, derandomize=True)
@given(st.lists(st.tuples(PLAIN, PLAIN), min_size=1, max_size=20))
@example([("-0", "5"), ("0", "-5"), ("1", "-1"), ("0.1", "0.1"), ("9" * 19, "9" * 19)])
@example([("9" * 38, "1"), ("9" * 400, "9" * 400), ("0." + "0" * 59 + "1", "-1" + "0" * 59)])
def test_a_product_is_exact(
    connection: duckdb.DuckDBPyConnection, pairs: list[tuple[str, str]]
) -> None:
    """The product of any two amounts equals the product of Python's decimals."""
    query = "select internal.exact_product(one, two) from (select unnest(?, recursive := true))"
    rows = [{"one": one, "two": two} for one, two in pairs]
    found = [product for (product,) in connection.execute(query, [rows]).fetchall()]
    assert found == [product(*pair) for pair in pairs]


def test_a_product_with_a_missing_amount_is_missing(connection: duckdb.DuckDBPyConnection) -> None:
    """The product is NULL if an amount is NULL."""
    query = "select internal.exact_product(null, '1'), internal.exact_product('1', null)"
    assert connection.execute(query).fetchall() == [(None, None)]


def hostile() -> list[Night]:
    """Return two nights with long, negative and zero amounts, and custom assets with tickers."""
    amounts = [
        Amount("9" * 42 + "." + "8" * 18),
        Amount("-123456789012345678901234567890.123456789", "p2", venue="v2"),
        Amount("0.000000000000000000000000000000000000000000000000000000000007", "p2", "ETH"),
        Amount("0", "p3", "SOL"),
        Amount("5", "p3", "SOL", custom=True),
        Amount("-7.5", "p1", "USD"),
        Amount("7.5", "p3", "USD", custom=True),
        Amount("1", "p3", "NONE", venue="v2"),
    ]
    return [read_at(FIRST, amounts), read_at(SECOND, [*amounts, Amount("1e-18", "p4")])]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish hostile nights with long prices. One asset has no price."""
    home = tmp_path_factory.mktemp("valued")
    drop(
        home,
        "a.csv",
        "BTC,,USD,91234.567890123456789012345678,2026-11-20,manual",
        "ETH,,USD,3.000000000000000000000000000001,2026-11-20,manual",
        "SOL,,USD,150,2026-11-20,manual",
        "SOL,true,USD,0.1,2026-11-20,manual",
        "EUR,,USD,1.0825,2026-11-20,ecb",
    )
    drop(home, "desks/a.csv", "portfolio_id,desk", "p1,Macro", "p2,Rates")
    publish(home, hostile(), cross_rate=("EUR", "USD", "ecb"))
    return home


def test_every_value_and_total_equals_an_independent_calculation(home: Path) -> None:
    """Values by holding, asset, venue, portfolio and night equal results of Python's decimals."""
    layout = Layout(home)
    price = {
        ("BTC", False): "91234.567890123456789012345678",
        ("ETH", False): "3.000000000000000000000000000001",
        ("SOL", False): "150",
        ("SOL", True): "0.1",
        ("USD", False): "1",
    }
    for day in hostile():
        values: dict[tuple[str, str, bool], list[str]] = {}
        for balance in day.rows["balances"]:
            key = balance["asset_id"], balance["is_custom_asset"]
            if key in price:
                value = product(exact([balance["amount_text"]]), price[key])
                values.setdefault((balance["portfolio_id"], *key), []).append(value)
        found = ask(
            layout,
            "select portfolio_id, asset_id, is_custom_asset, value_text "
            f"from holdings_value_as_of('USD', '{day.day}') where value_text is not null",
        )
        assert {row[:3]: row[3] for row in found} == {
            key: exact(texts) for key, texts in values.items()
        }
        for column, macro in ((0, "portfolio"), (1, "asset")):
            query = f"from value_by_{macro}('USD', '{day.day}')"
            name = (
                "portfolio_id" if macro == "portfolio" else "asset_id || is_custom_asset::varchar"
            )
            grouped: dict[str, list[str]] = {}
            for (portfolio, asset, is_custom), texts in values.items():
                names = (portfolio, f"{asset}{str(is_custom).lower()}")
                grouped.setdefault(names[column], []).extend(texts)
            rows = ask(layout, f"select {name}, value_text {query} where value_text is not null")
            assert dict(rows) == {key: exact(texts) for key, texts in grouped.items()}
        total = exact([text for texts in values.values() for text in texts])
        night = f"from value_by_night('USD') where snapshot_date = '{day.day}'"
        assert ask(layout, f"select value_text, assets, unpriced_assets {night}") == [(total, 7, 2)]
        venues = ask(layout, f"select value_text from value_by_venue('USD', '{day.day}')")
        assert exact([text for (text,) in venues]) == total


@pytest.mark.parametrize("name", ["duckdb12", "duckdb14"])
def test_an_older_client_returns_the_same_values(name: str, home: Path) -> None:
    """DuckDB 1.2 and 1.4 return the same prices, products and totals from the stored macros."""
    database = home / "warehouse" / "current" / "nightbook.duckdb"
    queries = [(str(number), query) for number, query in enumerate(VALUES)]
    queries.append(("prices", "select * from prices_as_of('9999-12-31', 'USD')"))
    now = asked(sys.executable, database, queries)[1]
    version, said = asked(environments.python(name), database, queries)
    assert version == OLDER[name]
    assert "Error" not in json.dumps(now)
    assert said == now


def test_holdings_value_has_the_columns_of_holdings_first(home: Path) -> None:
    """The value has the columns of holdings, then the price and the value."""
    layout = Layout(home)
    columns = [row[0] for row in ask(layout, "describe from holdings")]
    found = [row[0] for row in ask(layout, "describe from holdings_value('USD')")]
    assert found == [*columns, "price_text", "price_state", "value", "value_text"]


CASES = [
    ([], "missing"),
    (["BTC,,EUR,1,2026-11-20,"], "missing"),
    (["BTC,,usd,1,2026-11-20,"], "missing"),
    (["btc,,USD,1,2026-11-20,"], "missing"),
    (["BTC,true,USD,1,2026-11-20,"], "missing"),
    (["BTC,,USD,,2026-11-20,"], "missing"),
    (["BTC,,USD,n/a,2026-11-20,"], "missing"),
    (["BTC,,USD,1 000,2026-11-20,"], "missing"),
    (['BTC,,USD,"1,5",2026-11-20,'], "missing"),
    (["BTC,,USD,-1,2026-11-20,"], "missing"),
    (["BTC,,USD,NaN,2026-11-20,"], "missing"),
    (["BTC,,USD,=1+1,2026-11-20,"], "missing"),
    (["BTC,,USD,$1,2026-11-20,"], "missing"),
    (["BTC,,USD,1e999,2026-11-20,"], "missing"),
    (["BTC,,USD,1,,"], "missing"),
    (["BTC,,USD,1,20.11.2026,"], "missing"),
    (["BTC,,USD,1,2026-11-20 02:00:00,"], "missing"),
    (["BTC,,USD,1,2026-11-21,"], "missing"),
    (["BTC,,USD,1,2026-11-20T02:15:01Z,"], "missing"),
    (["BTC,,USD,1,2026-11-20T02:00:00-01:00,"], "missing"),
    (["BTC,maybe,USD,1,2026-11-20,"], "missing"),
    (["BTC,,USD,1,2026-11-20,", "BTC,,USD,2,2026-11-20,"], "missing"),
    (["BTC,,USD,1,2026-11-17,"], "stale"),
    (["BTC,,USD,1,2026-11-18T02:14:59Z,"], "stale"),
    (["BTC,,USD,0,2026-11-20,"], "0"),
    (["BTC,,USD,-0,2026-11-20,"], "0"),
    (["BTC,,USD,1.50,2026-11-20,", "BTC,,USD,1.5,2026-11-20,"], "1.5"),
    (["BTC,,USD,1e-8,2026-11-18,"], "0.00000001"),
    (["BTC,,USD,1,2026-11-20T02:15:00Z,"], "1"),
    (["BTC,,USD,1,2026-11-20T03:15:00+01:00,"], "1"),
    (["BTC,,USD,1,2026-11-18T02:15:00Z,"], "1"),
    (["BTC,,USD,1,2026-11-20,", "BTC,,USD,2,2026-11-20T02:14:00Z,"], "1"),
    (["BTC,,USD,1,2026-11-19,", "BTC,,USD,2,2026-11-19T23:00:00Z,"], "1"),
    (["BTC,,USD,1,2026-11-19,", "BTC,,USD,2,2026-11-20T01:00:00Z,"], "2"),
    (["BTC,,USD,1,2026-11-20,a", "BTC,,USD,2,2026-11-20,b"], "2"),
    (["BTC,,USD,1,2026-11-20,c", "BTC,,USD,2,2026-11-20,b"], "2"),
    (["BTC,,USD,1,2026-11-20,c", "BTC,true,USD,2,2026-11-20,b"], "1"),
]


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish a book in which each case has its own portfolio and asset."""
    home = tmp_path_factory.mktemp("priced")
    lines = (
        line.replace("BTC", f"A{number}").replace("btc", f"a{number}")
        for number, (given, _) in enumerate(CASES)
        for line in given
    )
    drop(home, "a.csv", *lines)
    amounts = [Amount("2", f"p{number}", f"A{number}") for number in range(len(CASES))]
    return publish(home, [read_at(FIRST, amounts)], sources=("b", "a"), max_age=2)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(given) for given, _ in CASES])
def test_only_a_valid_price_gives_a_value(priced: Layout, number: int) -> None:
    """The asset has the expected price, or the total says that it is incomplete."""
    expected = CASES[number][1]
    assert prices(priced)[f"A{number}"] == expected
    query = (
        "select value_text, unpriced_assets, stale_assets "
        f"from value_by_portfolio('USD', '9999-12-31') where portfolio_id = 'p{number}'"
    )
    value = None if expected in ("missing", "stale") else product("2", expected)
    counts = int(expected == "missing"), int(expected == "stale")
    assert ask(priced, query) == [(value, *counts)]


def test_the_later_file_supersedes_an_earlier_one_and_both_stay(tmp_path: Path) -> None:
    """A later file for the same key decides, and the rows of both files stay in the table."""
    drop(tmp_path, "a.csv", "BTC,,USD,1,2026-11-20,manual")
    publish(tmp_path, [read_at(FIRST, ONE)])
    drop(tmp_path, "b.csv", "BTC,,USD,2,2026-11-20,manual").touch()
    layout = publish(tmp_path, [read_at(FIRST, ONE)], "b")
    assert prices(layout) == {"BTC": "2"}
    assert ask(layout, "select count(*) from reference.prices") == [(2,)]


def test_each_night_has_the_prices_of_its_time(tmp_path: Path) -> None:
    """A price counts from the night of its date, and an older night keeps its price."""
    drop(tmp_path, "a.csv", "BTC,,USD,1,2026-11-20,", "BTC,,USD,3,2026-11-21,")
    layout = publish(tmp_path, [read_at(FIRST, ONE), read_at(SECOND, ONE)])
    assert prices(layout, "2026-11-20") == {"BTC": "1"}
    assert prices(layout, "2026-11-21") == {"BTC": "3"}
    values = ask(layout, "select value_text from value_by_night('USD') order by snapshot_date")
    assert values == [("2",), ("6",)]


def test_the_second_at_which_the_portfolios_were_read_decides(tmp_path: Path) -> None:
    """A price after the start of the night is valid if the portfolios were read later."""
    drop(tmp_path, "a.csv", "BTC,,USD,1,2026-11-20T02:20:00Z,")
    assert prices(publish(tmp_path, [read_at(FIRST, ONE, minute=5)])) == {"BTC": "1"}


def test_only_the_quote_itself_is_worth_one(tmp_path: Path) -> None:
    """The quote asset has the price 1. A custom asset of that name and a stablecoin have none."""
    amounts = [Amount("2", asset="USD"), Amount("2", asset="USD", custom=True)]
    layout = publish(tmp_path, [read_at(FIRST, [*amounts, Amount("2", asset="USDC")])])
    assert prices(layout) == {"USD": "1", "USD*": "missing", "USDC": "missing"}


def test_given_assets_have_prices_although_no_book_holds_them(tmp_path: Path) -> None:
    """The reconciliation asks for assets of the ledger. A custom asset has its own price."""
    drop(tmp_path, "a.csv", "SOL,,USD,3,2026-11-20,")
    layout = publish(tmp_path, [read_at(FIRST, ONE), read_at(SECOND, ONE)])
    given = ", ".join(
        f"{{'asset_id': 'SOL', 'is_custom_asset': {custom}}}" for custom in (False, True)
    )
    days = "date '2026-11-20', date '2026-11-20'"
    query = f"from internal.valid_prices('USD', {days}, [{given}]) select price_text order by 1"
    assert ask(layout, query) == [("3",), (None,)]


def test_totals_name_the_oldest_price(tmp_path: Path) -> None:
    """The time of the oldest price that is part of a total is next to the total."""
    drop(tmp_path, "a.csv", "BTC,,USD,1,2026-11-18T00:00:00Z,", "ETH,,USD,1,2026-11-20,")
    layout = publish(tmp_path, [read_at(FIRST, [*ONE, Amount("1", asset="ETH")])])
    [(oldest,)] = ask(layout, "select epoch_us(oldest_price) from value_by_night('USD')")
    assert oldest == (NOW.replace(day=18, hour=0).timestamp()) * 1e6


def test_a_day_before_the_first_book_is_an_error(tmp_path: Path) -> None:
    """A day without a book raises an error instead of returning an empty table."""
    layout = publish(tmp_path, [read_at(FIRST, ONE)])
    with pytest.raises(duckdb.Error, match="no book on or before 2026-11-19"):
        ask(layout, "from prices_as_of('2026-11-19', 'USD')")


@settings(max_examples=tries(20, 1200), deadline=None, derandomize=True)
@given(st.lists(PLAIN | st.none(), min_size=1, max_size=20))
@example(["999999999999." + "9" * 36, "-1000000000000." + "9" * 37, "0." + "0" * 35 + "1"])
@example(["0.5", "-0.5"])
@example([None])
def test_a_sum_of_products_is_exact(
    connection: duckdb.DuckDBPyConnection, texts: list[str | None]
) -> None:
    """The sum of amounts with any number of decimals equals the sum of Python's decimals."""
    query = "select internal.exact_long_sum(text) from unnest(?::varchar[]) as given(text)"
    known = [text for text in texts if text is not None]
    [(found,)] = connection.execute(query, [texts]).fetchall()
    assert found == (exact(known) if known else None)


def test_quantity_effect_and_price_effect_are_the_change(tmp_path: Path) -> None:
    """For each asset, both effects add up to the change, to the last digit."""
    first = [Amount("9" * 30 + ".5"), Amount("-3", asset="ETH"), Amount("7", asset="OLD")]
    second = [Amount("1." + "3" * 30), Amount("4", asset="ETH"), Amount("-2", asset="NEW")]
    lines = [
        f"{asset},,USD,{price},{day},"
        for day, price in (("2026-11-20", "0." + "7" * 30), ("2026-11-21", "12345.678901"))
        for asset in ("BTC", "ETH", "OLD", "NEW")
    ]
    drop(tmp_path, "a.csv", *lines)
    layout = publish(tmp_path, [read_at(FIRST, first), read_at(SECOND, second)])
    columns = (
        "value_before_text, value_after_text, change_text, quantity_effect_text, price_effect_text"
    )
    rows = ask(
        layout,
        f"select asset_id, {columns} from value_changes_between('2026-11-20', '2026-11-21', 'USD')",
    )
    assert {row[0] for row in rows} == {"BTC", "ETH", "OLD", "NEW"}
    for asset, before, after, change, quantity, price in rows:
        assert exact([after or "0", product(before or "0", "-1")]) == change
        assert exact([quantity, price]) == change
        assert (price == "0") == (asset in ("OLD", "NEW"))


def test_a_change_without_a_valid_price_is_missing(tmp_path: Path) -> None:
    """If an asset has no valid price on one of the days, its change and its effects are NULL."""
    drop(tmp_path, "a.csv", "BTC,,USD,3,2026-11-21,")
    layout = publish(tmp_path, [read_at(FIRST, ONE), read_at(SECOND, ONE)])
    columns = "state_before, state_after, change_text, quantity_effect_text, price_effect_text"
    query = f"select {columns} from value_changes_between('2026-11-20', '2026-11-21', 'USD')"
    assert ask(layout, query) == [("missing", "priced", None, None, None)]


def quotient(one: str, two: str) -> str:
    """Return the quotient of two prices with all digits that the macro must have."""
    above, below = (len(text.replace(".", "").lstrip("0")) for text in (one, two))
    decimals = max(0, 28 + below - above)
    places = decimals + len(one.partition(".")[2]) - len(two.partition(".")[2])
    with localcontext(prec=2000):
        unit = Decimal(1).scaleb(-places)
        return exact([format((Decimal(one) / Decimal(two)).quantize(unit, ROUND_DOWN), "f")])


@settings(max_examples=tries(20, 1200), deadline=None, derandomize=True)
@given(st.lists(st.tuples(PLAIN, st.decimals("0.000001", "1e25", places=9)), min_size=1))
@example([("1", Decimal("1.0825")), ("0", Decimal(3)), ("9" * 300, Decimal("7e-6"))])
def test_a_quotient_has_28_digits(
    connection: duckdb.DuckDBPyConnection, pairs: list[tuple[str, Decimal]]
) -> None:
    """A quotient equals the quotient of Python's decimals, cut after at least 28 digits."""
    rows = [{"one": one.lstrip("-"), "two": exact([format(two, "f")])} for one, two in pairs]
    query = "select internal.quotient(one, two) from (select unnest(?, recursive := true))"
    found = [text for (text,) in connection.execute(query, [rows]).fetchall()]
    assert found == [quotient(row["one"], row["two"]) for row in rows]


def test_a_quotient_by_zero_is_missing(connection: duckdb.DuckDBPyConnection) -> None:
    """A division by zero, by a missing amount or by 38 digits is NULL."""
    query = f"select internal.quotient('1', t) from (values ('0'), (null), ('{'1' * 38}')) v(t)"
    assert connection.execute(query).fetchall() == [(None,)] * 3


CROSS = ("EUR", "USD", "ecb")


def test_a_cross_rate_gives_quotients_of_one_date(tmp_path: Path) -> None:
    """A price in USD and the rate of the same date give a marked price in EUR."""
    drop(
        tmp_path,
        "a.csv",
        "BTC,,USD,1000,2026-11-20,x",
        "BTC,,USD,9999,2026-11-19,x",
        "ETH,,USD,30,2026-11-19,x",
        "SOL,,EUR,7,2026-11-20,x",
        "SOL,,USD,70,2026-11-20,x",
        "EUR,,USD,1.25,2026-11-20,ecb",
        "EUR,,USD,2,2026-11-19,other",
    )
    assets = ("BTC", "ETH", "SOL", "EUR", "USD")
    book = [read_at(FIRST, [Amount("2", asset=asset) for asset in assets])]
    layout = publish(tmp_path, book, cross_rate=CROSS)
    query = (
        "select asset_id, price_text, price_kind, rate_text, price_state "
        "from prices_as_of('9999-12-31', 'EUR') order by all"
    )
    assert ask(layout, query) == [
        ("BTC", "800", "quotient", "1.25", "priced"),
        ("ETH", None, None, None, "missing"),
        ("EUR", "1", "quote", None, "priced"),
        ("SOL", "7", "stated", None, "priced"),
        ("USD", "0.8", "quotient", "1.25", "priced"),
    ]
    assert prices(layout, quote="CHF") == dict.fromkeys(assets, "missing")


def test_a_later_cross_rate_wins_over_an_older_price(tmp_path: Path) -> None:
    """A stated price wins at the same time, but a later quotient wins over an old price."""
    drop(
        tmp_path,
        "a.csv",
        "BTC,,EUR,5,2026-11-01,x",
        "BTC,,USD,10,2026-11-20T01:00:00Z,x",
        "BTC,,USD,11,2026-11-20T02:00:00Z,x",
        "EUR,,USD,2,2026-11-20T01:30:00Z,ecb",
        "EUR,true,USD,4,2026-11-20T01:40:00Z,ecb",
    )
    layout = publish(tmp_path, [read_at(FIRST, ONE)], cross_rate=CROSS)
    assert prices(layout, quote="EUR") == {"BTC": "5.5"}


def test_a_cross_rate_after_the_read_is_not_used(tmp_path: Path) -> None:
    """If the rate of a date is later than the book, the pair of this date gives no price."""
    drop(
        tmp_path,
        "a.csv",
        "BTC,,USD,10,2026-11-20T01:00:00Z,x",
        "EUR,,USD,2,2026-11-20T14:00:00Z,ecb",
        "ETH,,USD,10,2026-11-20T01:00:00Z,x",
        "EUR,,USD,0,2026-11-18,ecb",
        "BTC,,USD,10,2026-11-18,x",
    )
    assets = ("BTC", "ETH")
    book = [read_at(FIRST, [Amount("2", asset=asset) for asset in assets])]
    layout = publish(tmp_path, book, cross_rate=CROSS)
    assert prices(layout, quote="EUR") == dict.fromkeys(assets, "missing")


def test_labels_group_the_value_by_their_keys(tmp_path: Path) -> None:
    """A label with any key columns gives groups. Amounts without a label are one more group."""
    drop(tmp_path, "a.csv", "BTC,,USD,10,2026-11-20,", "ETH,,USD,1,2026-11-20,")
    drop(tmp_path, "desks/a.csv", "portfolio_id,desk,region", "p1,Macro,EU", "p2,Rates,EU")
    drop(tmp_path, "classes/a.csv", "asset_id,class", "BTC,store", "SOL,chain")
    drop(tmp_path, "traders/a.csv", "venue_id,account_name,trader", "v1,main,Ann", "v2,main,Bo")
    drop(tmp_path, "fees/a.csv", "portfolio_id,month,fee", "p1,2026-10,1", "p1,2026-11,2")
    drop(tmp_path, "holes/a.csv", "portfolio_id,hole", "p1,x", ",y")
    amounts = [
        *(Amount("2"), Amount("3", "p2"), Amount("5", "p3", "ETH", venue="v2")),
        *(Amount("7", "p1", "SOL"), Amount("9", "p1", custom=True), Amount("11", venue="v2")),
        Amount("13", account="other", bucket="lending", state="any"),
    ]
    layout = publish(tmp_path, [read_at(FIRST, amounts)])

    def groups(label: str) -> list[tuple[object, ...]]:
        query = f"from value_by_label('{label}', 'USD', '9999-12-31') order by all"
        return ask(layout, f"select group_name, value_text, assets, unpriced_assets {query}")

    assert groups("desks.desk") == [
        *(("Macro", "260", 3, 2), ("Rates", "30", 1, 0), (None, "5", 1, 0)),
    ]
    assert groups("desks.region") == [("EU", "290", 3, 2), (None, "5", 1, 0)]
    assert groups("classes") == [
        *(("chain", None, 1, 1), ("store", "290", 1, 0), (None, "5", 2, 1)),
    ]
    assert groups("traders") == [
        *(("Ann", "50", 3, 2), ("Bo", "115", 2, 0), (None, "130", 1, 0)),
    ]
    for unusable in ("nothing", "fees.fee", "holes"):
        with pytest.raises(duckdb.Error, match=f"there is no label {unusable} in reference/"):
            groups(unusable)


def test_a_later_file_replaces_a_label(tmp_path: Path) -> None:
    """The row of the last file decides, an empty value removes the label, and is_custom counts."""
    drop(tmp_path, "a.csv", "BTC,,USD,10,2026-11-20,", "BTC,true,USD,1,2026-11-20,")
    drop(tmp_path, "desks/a.csv", "portfolio_id,desk", "p1,Old", "p2,Old")
    drop(tmp_path, "classes/a.csv", "asset_id,is_custom_asset,class", "BTC,YES,own", "BTC,,coin")
    book = [read_at(FIRST, [*ONE, Amount("3", "p2", custom=True)])]
    publish(tmp_path, book)
    drop(tmp_path, "desks/b.csv", "portfolio_id,desk", "p1,New", "p2,")
    layout = publish(tmp_path, book, "b", NOW + timedelta(hours=1))
    query = "select group_name, value_text from value_by_label('{}', 'USD', '9999-12-31')"
    assert sorted(ask(layout, query.format("classes"))) == [("coin", "20"), ("own", "3")]
    assert sorted(map(str, ask(layout, query.format("desks")))) == [
        *("('New', '20')", "(None, '3')"),
    ]
