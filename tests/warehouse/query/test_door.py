"""Tests of the Python API, in which each figure of a hostile year is exact or an error."""

import itertools
import json
import pickle
import random
import shutil
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import environments
from tests.support.books import Amount, exact, night, published, published_once
from tests.support.priced_books import drop, publish, read_at
from warehouse import NotExact, ReadOnlyBook, exact_total, floats, open_book
from warehouse import amounts as amounts_of
from warehouse.query.door import NoBookThatDay
from warehouse.query.errors import NotAQuestion, QueryFailed
from warehouse.query.exact_amount import ExactAmount
from warehouse.query.frames import RoundedCellsWarning
from warehouse.storage.layout import Layout

NEWEST = date(2026, 11, 20)
GAP = date(2026, 11, 19)
TEXTS = (
    *("99999999999999999999.9", "90000000000000000000", "50000000000000000000", "1e40", "-7.25"),
    *("0.000000000000000001", "1e-30", "0.1234567890123456789012345", "-1e40", "0", "-0", "1.10"),
)
KINDS = (("trading", "free"), ("margin", "locked"), ("invented", "due"))
ASSET = ["asset_id", "is_custom_asset"]
SILENT = {"accounts": [{"portfolio_id": "p1", "asset_id": "ETH", "account_name": "silent"}]}


def amounts(day: date) -> list[Amount]:
    """Return the amounts of a day. They differ from day to day, and are values that break tools."""
    pick = random.Random(day.toordinal())
    places = itertools.product(("p1", "p2", "p3"), ("BTC", "ETH"), (False, True), ("v1", "v2"))
    return [
        Amount(pick.choice(TEXTS), portfolio, asset, venue, "main", bucket, state, custom)
        for portfolio, asset, custom, venue in places
        for bucket, state in KINDS
        if pick.random() < 0.6
    ]


def sums(given: Iterable[Amount], *names: str) -> dict[tuple[Any, ...], str]:
    """Return the exact sums of amounts, grouped by these fields."""
    groups: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for amount in given:
        groups[tuple(getattr(amount, name) for name in names)].append(amount.text)
    return {key: exact(texts) for key, texts in groups.items()}


def figures(series: "pd.Series[Any]") -> dict[tuple[Any, ...], str]:
    """Return a pandas series as a mapping from keys to strings."""
    return {
        (key if isinstance(key, tuple) else (key,)): str(value) for key, value in series.items()
    }


def rows(frame: pd.DataFrame, *names: str) -> dict[tuple[Any, ...], str]:
    """Return the exact text of each group in a result of `exact_total`."""
    keys = frame[list(names)].itertuples(index=False, name=None)
    return dict(zip(keys, frame["total_text"], strict=True))


def home_of(folder: Path, count: int) -> list[date]:
    """Publish a year of up to `count` nights, without the night of `GAP`. Return their dates."""
    step = 364 // (count - 1)
    days = sorted({NEWEST - timedelta(days=n * step) for n in range(count)} - {GAP})
    nights = [night(f"{day:%Y%m%d}T021500Z", amounts(day), SILENT) for day in days]
    published(Layout(folder), nights, "a")
    return days


@pytest.fixture(scope="module", params=[8, pytest.param(365, marks=pytest.mark.torture)])
def year(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[date]]:
    """Publish a hostile year, and return its home and the dates of its books."""
    home = tmp_path_factory.mktemp("year") / "data"
    return home, home_of(home, request.param)


@pytest.fixture
def book(year: tuple[Path, list[date]]) -> Iterator[ReadOnlyBook]:
    """Open the book of that year."""
    with open_book(year[0], clock=lambda: datetime(2026, 11, 20, 6, tzinfo=UTC)) as opened:
        yield opened


def test_typical_pandas_calculations_are_exact(
    book: ReadOnlyBook, year: tuple[Path, list[date]]
) -> None:
    """Sums, pivots, cumulative sums and maxima in pandas are exactly those of the amount texts."""
    days, tonight = year[1], amounts(NEWEST)
    assert book.days == tuple(days)
    held = book.holdings()
    keys = ("portfolio", "asset", "custom")
    assert figures(held.groupby(["portfolio_id", *ASSET])["total"].sum()) == {
        ("p1", "ETH", False): "0"
    } | sums(tonight, *keys)
    per_asset = sums(tonight, "asset", "custom")
    for found in (
        held.groupby(ASSET)["total"].sum(),
        held.groupby(ASSET).agg(total=("total", "sum"))["total"],
        held.pivot_table(index=ASSET, values="total", aggfunc="sum")["total"],
        book.holdings(by="venue").groupby(ASSET)["total"].sum(),
        book.holdings(by="asset").set_index(ASSET)["total"],
        book.balances().groupby(ASSET)["amount"].sum(),
        (held["free"] + held["locked"] + held["other"]).groupby([held[n] for n in ASSET]).sum(),
        held.assign(total=-held["total"] * 3).groupby(ASSET)["total"].sum() / -3,
    ):
        assert {key: exact([text]) for key, text in figures(found).items()} == per_asset
    bitcoin = held[(held["asset_id"] == "BTC") & ~held["is_custom_asset"]]
    wanted = per_asset["BTC", False]
    assert str(bitcoin["total"].sum()) == str(sum(bitcoin["total"])) == wanted
    assert str(np.sum(bitcoin["total"].to_numpy())) == wanted
    assert str(bitcoin["total"].dropna().cumsum().iloc[-1]) == wanted
    largest = max((a for a in sums(tonight, *keys).items()), key=lambda item: Decimal(item[1]))
    assert str(held["total"].max()) == largest[1]


def test_stored_holdings_of_each_night_are_exact(
    book: ReadOnlyBook, year: tuple[Path, list[date]]
) -> None:
    """The stored holdings of each night are exact sums, by portfolio, venue and asset."""
    for table, column, name in (
        ("holdings", "portfolio_id", "portfolio"),
        ("holdings_by_venue", "venue_id", "venue"),
    ):
        kept = exact_total(book.history(table), by=["snapshot_date", column, *ASSET])
        found = rows(kept[kept["total_text"] != "0"], "snapshot_date", column, *ASSET)
        assert found == {
            (pd.Timestamp(day), *key): text
            for day in year[1]
            for key, text in sums(amounts(day), name, "asset", "custom").items()
            if text != "0"
        }


def test_exposure_and_changes_over_time_are_exact(
    book: ReadOnlyBook, year: tuple[Path, list[date]]
) -> None:
    """Exposure by night, holdings on a past day, and the change between two days are exact."""
    days = year[1]
    history = book.history("balances", since=days[1])
    every = {
        (pd.Timestamp(day), *key): text
        for day in days[1:]
        for key, text in sums(amounts(day), "asset", "custom").items()
    }
    by = ["snapshot_date", *ASSET]
    assert figures(history.groupby(by)["amount"].sum()) == every
    table = history.pivot_table(
        index="snapshot_date", columns=ASSET, values="amount", aggfunc="sum"
    )
    columns = {asset: column.dropna() for asset, column in table.items()}
    assert {
        (at, *cast("tuple[str, bool]", asset)): str(value)
        for asset, column in columns.items()
        for at, value in column.items()
    } == every
    first = book.holdings(as_of=days[0].isoformat()).groupby(ASSET)["total"].sum()
    assert figures(first) == sums(amounts(days[0]), "asset", "custom")
    move = book.holdings().groupby(ASSET)["total"].sum() - first
    turned = [
        Amount(f"-{a.text}".replace("--", ""), asset=a.asset, custom=a.custom)
        for a in amounts(days[0])
    ]
    assert figures(move) == sums([*amounts(NEWEST), *turned], "asset", "custom")
    changed = book.query("from changes_between(?, ?)", [days[0], NEWEST])
    found = figures(changed.groupby(ASSET)["delta"].sum())
    assert {key: text for key, text in found.items() if text != "0"} == {
        key: text for key, text in figures(move).items() if text != "0"
    }


@pytest.mark.parametrize("kind", ["query", "arrow", "polars"])
def test_exact_total_adds_up_any_frame(
    request: pytest.FixtureRequest, year: tuple[Path, list[date]], kind: str
) -> None:
    """`exact_total` returns the same exact sums for a pandas, an Arrow and a polars frame."""
    wanted = sums(amounts(NEWEST), "asset", "custom")
    if kind == "polars":
        said = request.getfixturevalue("polars_said")["totals"]
        assert {tuple(key): text for *key, text in said} == wanted
        return
    with open_book(year[0]) as opened:
        frame = getattr(opened, kind)("from holdings")
        assert rows(exact_total(frame, by=ASSET), *ASSET) == wanted
        amount = exact_total(getattr(opened, kind)("from balances"), by=ASSET)
    assert rows(amount.rename(columns={"amount_text": "total_text"}), *ASSET) == wanted


POLARS = """
import json, sys
sys.path.append(sys.argv[2])
import polars as pl
from warehouse import exact_total, open_book

book = open_book(sys.argv[1])
frame = book.polars("from holdings")
assert type(frame).__module__.startswith("polars")
by = ["asset_id", "is_custom_asset"]
totals = exact_total(frame, by=by).drop(columns="total").to_json(orient="values")
frame = book.polars("select asset_id, total, total_text, exact_sum(total_text) as s "
    "from holdings group by all")

def said(add):
    try:
        return add()
    except Exception as error:
        return None

texts = {
    name: [str(frame.schema[name]).partition("(")[0], str(frame[name].max()),
        frame.sort(name)[name].cast(pl.String).to_list()]
    for name in ("total", "total_text", "s")
}
plain = open_book(sys.argv[3]).polars("select total, exact_sum(total_text) as s from holdings "
    "group by all").sort("total")
decimals = {name: [str(plain.schema[name]), str(plain[name].sum()), str(plain[name].max())]
    for name in plain.columns}
sums = [
    said(add)
    for name in ("total", "total_text", "s")
    for add in (
        lambda: frame[name].sum(),
        lambda: (frame[name] + frame[name]).to_list(),
        lambda: frame.select(pl.sum_horizontal(name, name)).to_dicts(),
        lambda: frame.group_by("asset_id").agg(pl.col(name).sum())[name].drop_nulls().first(),
        lambda: frame.to_pandas()[name].sum(),
        lambda: frame.to_arrow().to_pandas().groupby("asset_id")[name].sum().to_list(),
    )
]
print(json.dumps({"totals": json.loads(totals), "sums": sums, "texts": texts,
    "decimals": decimals}))
"""


@pytest.fixture(scope="module")
def polars_said(year: tuple[Path, list[date]], plain_book: ReadOnlyBook) -> dict[str, Any]:
    """Run a polars program on the book of that year, in a process that can import polars."""
    packages = str(environments.packages("engines"))
    words = (str(year[0]), packages, str(plain_book.file))
    said: dict[str, Any] = json.loads(_ran(sys.executable, POLARS, *words))
    return said


def _ran(python: Path | str, program: str, *words: str) -> str:
    root = Path(__file__).parents[3]
    return subprocess.run(
        [str(python), "-c", program, *words], check=True, capture_output=True, text=True, cwd=root
    ).stdout


@pytest.mark.parametrize("kind", ["query", "arrow"])
def test_a_missing_amount_adds_nothing(book: ReadOnlyBook, kind: str) -> None:
    """A missing amount adds nothing to a sum, however the frame represents missing values."""
    frame = getattr(book, kind)("from account_balances")
    stated = exact_total(frame, by=ASSET, of="trading_free")
    free = [amount for amount in amounts(NEWEST) if amount.bucket == "trading"]
    texts = stated.rename(columns={"trading_free_text": "total_text"})
    assert rows(texts, *ASSET) == {("ETH", False): "0"} | sums(free, "asset", "custom")


_DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=30)


@given(_DECIMALS, _DECIMALS.filter(bool), st.integers(1, 3))
def test_operators_keep_every_digit(left: Decimal, right: Decimal, power: int) -> None:
    """Quotients, remainders and powers have the same values as those of integers and fractions."""
    amount, parts, unit = ExactAmount(left), Fraction(left), Fraction(right)
    whole, rest = divmod(amount, ExactAmount(right))
    assert Fraction(whole) == int(parts / unit)
    assert Fraction(whole) * unit + Fraction(rest) == parts
    assert (amount // right, amount % right) == (whole, rest)
    assert Fraction(amount**power) == parts**power


@pytest.mark.parametrize(
    "figure",
    [
        lambda held: held["total"] ** 0.5,
        lambda held: held["total"] ** -1,
        lambda held: held["total"].mean(),
        lambda held: held.groupby("asset_id")["total"].mean(),
        lambda held: held["total"].median(),
        lambda held: held["total"].std(),
        lambda held: held["total"].rolling(2).sum(),
        lambda held: held["total"].astype(float),
        lambda held: held["total"] * 1.5,
        lambda held: np.array(held["total"], dtype=float),
        lambda held: complex(held["total"].iloc[0]),
        exact_total,
        lambda held: exact_total(held, by=["asset_id"]),
        lambda held: exact_total(held.assign(total=1.5, total_text=1.5), by=ASSET),
        lambda held: exact_total(held.assign(total=None, total_text="1,5"), by=ASSET),
    ],
)
def test_rounding_or_mixing_assets_raises_an_error(
    book: ReadOnlyBook, figure: Callable[[pd.DataFrame], Any]
) -> None:
    """An operation that would use floats or add up different assets raises an error."""
    with pytest.raises((NotExact, TypeError)):
        figure(book.holdings())


def test_amounts_can_be_converted_to_floats(book: ReadOnlyBook) -> None:
    """Amounts and shares can be converted to floats for charts. Missing amounts stay missing."""
    held = book.holdings(by="asset")
    assert floats(held["total"]).tolist() == [float(text) for text in held["total_text"]]
    stated = book.query("select trading_free, trading_free_text from account_balances")
    assert floats(stated["trading_free"]).isna().sum() == stated["trading_free_text"].isna().sum()
    share = held["total"] / held["total"].abs().sum()
    assert share.astype(float).abs().sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select asset_id, amount from balances", "amount is NULL in .* calculate amount_text"),
        ("select total as t from holdings", "t is NULL in .* calculate t_text"),
        ("select free as total, total_text from holdings", "they differ"),
    ],
)
def test_a_null_that_may_be_an_amount_is_refused(book: ReadOnlyBook, sql: str, words: str) -> None:
    """A NULL that may be an amount too large for its type is an error.

    Otherwise, a sum could skip this amount.
    """
    with pytest.raises(NotExact, match=words):
        book.query(sql)
    with pytest.raises(NotExact, match=words):
        book.arrow(sql)


@pytest.fixture(scope="module")
def plain_book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadOnlyBook]:
    """Open a book of two nights in which every amount and every sum fits a number."""
    home = tmp_path_factory.mktemp("plain") / "data"
    first = [Amount("1.50", "007"), Amount("2", "008"), Amount("40", "008", "ETH")]
    nights = [night("20261118T021500Z", first), night("20261120T021500Z", [*first[1:], PLAIN])]
    published_once(Layout(home), nights, "a")
    with open_book(home) as opened:
        yield opened


PLAIN = Amount("0.000000000000000003", "007")
EXACT_SUMS = """
select exact_sum(amount_text) from balances group by asset_id, venue_id
select exact_sum(total_text) as asset_id from holdings group by portfolio_id
with t as (select exact_sum(total_text) as s from holdings group by asset_id) from t
from (select exact_sum(amount_text) s from balances where bucket = 'trading') union all
    (select exact_sum(amount_text) from balances where bucket <> 'trading' having count(*) > 0)
"""
RENAMED_TEXTS = """
with t(x) as (select exact_sum(total_text) from holdings group by asset_id) select x as y from t
select coalesce(exact_sum(amount_text), '0') as y from balances group by asset_id
select amount_text as y from balances
select case when total_text > '' then total_text end as y from holdings
"""
NUMBERS = """
select sum(amount) from balances group by asset_id
select sum(total) over (partition by portfolio_id, asset_id, is_custom_asset) as s from holdings
select sum(case when amount > 9e19 then 0 else amount end) as s from balances group by portfolio_id
select coalesce(total, 0) as total from holdings
select total as t from holdings
pivot (select asset_id, portfolio_id, total from holdings) on asset_id using sum(total)
select any_value(total) as t from holdings group by portfolio_id, asset_id, is_custom_asset
select total.sum() as s from holdings group by asset_id
from (select columns('^total$') as x from holdings)
"""
CONVERTED = """
select total::varchar as t from holdings
select coalesce(sum(total), 0)::varchar as s from holdings group by asset_id
select coalesce(total, 0)::varchar as total_text from holdings
select sum(amount)::hugeint as s from balances group by asset_id
"""


def questions(text: str) -> list[str]:
    """Return the queries in a text, one per line. An indented line continues the previous line."""
    return text.strip().replace("\n    ", " ").splitlines()


def summed(frame: pd.DataFrame) -> str:
    """Return the sum of all amounts in a frame, as pandas calculates it."""
    numbers = [name for name, kind in frame.dtypes.items() if str(kind) == "object"]
    return str(sum(frame[name].sum() for name in numbers))


def test_exact_sums_from_sql_stay_exact_in_pandas(
    book: ReadOnlyBook, plain_book: ReadOnlyBook
) -> None:
    """The results of `exact_sum` are added up in pandas to the last digit.

    This is true even if the query uses aliases and unions. Texts that the query renames in another
    way stay texts, which cannot be added until they are converted.
    """
    for opened in (book, plain_book):
        wanted = exact(opened.balances()["amount_text"])
        for sql in questions(EXACT_SUMS):
            assert summed(opened.query(sql)) == wanted, sql
        for sql in questions(RENAMED_TEXTS):
            texts = opened.query(sql)["y"]
            assert str(amounts_of(texts).sum()) == wanted, sql
            with pytest.raises((NotExact, TypeError)):
                texts.sum()


def test_sums_in_sql_are_refused_if_an_amount_does_not_fit(
    book: ReadOnlyBook, plain_book: ReadOnlyBook
) -> None:
    """SQL functions that skip NULL, such as `sum`, are exact if every amount fits a number.

    Otherwise they are refused.
    """
    wanted = exact(plain_book.balances()["amount_text"])
    for sql in questions(NUMBERS):
        assert summed(plain_book.query(sql)) == wanted, sql
        for ask in (book.query, book.arrow):
            with pytest.raises((NotExact, NotAQuestion), match=r"exact_sum|Overflow"):
                ask(sql)
    for sql in questions(CONVERTED):
        with pytest.raises((NotExact, NotAQuestion), match=r"exact_sum|Overflow"):
            book.query(sql)
        assert len(plain_book.query(sql)), sql
    counts = "count(*) as n, count(amount) as m, sum(duplicate_no) as d, max(asset_id) as a"
    assert len(book.query(f"select {counts} from balances")) == 1


ROUNDED = """
select avg(amount) from balances
select mean(amount) over () as m from balances
select median(amount) as m from balances
select quantile_cont(amount, 0.5) as m from balances
select round(avg(amount), 2) as m from balances
select avg(amount)::decimal(38, 18) as m from balances
with t(x) as (select avg(amount) from balances) select x::decimal(38, 2) as y from t
select total / 2 as half from holdings
select total * 1e0 as t from holdings
select sqrt(total) as t from holdings
select total.median() as t from holdings
select * replace (total / 2 as total) from holdings
select (select avg(total) from holdings) as t
select sum(amount) / count(*) as m from balances
select amount from balances union all select 1.5e0
from balances as b(a, c, d, e, f, g, h, i, j, k, l) select avg(k) as m
select avg(columns('tot.*')) from (select total from holdings)
select avg(min_price) from instruments
pivot (from holdings) on asset_id using avg(total)
pivot (from holdings) on asset_id using median(total)
select list(total) as l from holdings
select {'a': total} as s from holdings
select exact_sum(total_text)::decimal(38, 18) as s from holdings group by asset_id
select total::decimal(10, 1) as t from holdings
select total / sum(total) over () as share from holdings
select count(*) / 3 as n from positions
"""
FLOATS = """
select avg(amount)::double as m from balances
select avg(amount::double) as m from balances
select (total / sum(total) over ())::double as share from holdings
select (count(*) / 3)::double as n, avg(account_count)::double as a from positions
pivot (select asset_id, total from holdings) on asset_id using avg(total)::double
select cast(exact_sum(total_text) as float) as f from holdings
"""


def test_rounded_sql_results_are_refused_as_amounts(plain_book: ReadOnlyBook) -> None:
    """A mean, a quotient or a median in SQL is a float, and is never returned as an amount.

    It is allowed if the query asks for a float.
    """
    for sql in questions(ROUNDED):
        for ask in (plain_book.query, plain_book.arrow):
            with pytest.raises(NotExact, match="nothing is returned"):
                ask(sql)
    for sql in questions(FLOATS):
        frame = plain_book.query(sql)
        assert all(kind.startswith("float") for kind in map(str, frame.dtypes)), sql
    described = plain_book.query("from (summarize balances) where column_name = 'amount'")
    with pytest.raises(NotExact, match="cannot be added"):
        described["avg"] + described["q50"]


ADDING: tuple[Callable[[pd.DataFrame, str], Any], ...] = (
    lambda frame, name: frame[name].sum(),
    lambda frame, name: frame[name] + frame[name],
    lambda frame, name: frame[name] * 2,
    lambda frame, name: frame[name].cumsum(),
    lambda frame, name: sum(frame[name]),
    lambda frame, name: frame[name].mean(),
    lambda frame, name: frame.assign(all=1).groupby("all")[name].sum(),
    lambda frame, name: frame.assign(all=1).groupby("all").agg({name: "sum"}),
    lambda frame, name: frame.assign(all=1).pivot_table(index="all", values=name, aggfunc="sum"),
    lambda frame, name: pd.concat([frame, frame])[name].sum(),
    lambda frame, name: frame.merge(frame[["asset_id", name]], on="asset_id")[f"{name}_x"].sum(),
)


def test_adding_amount_texts_raises_an_error(book: ReadOnlyBook) -> None:
    """Adding amount texts in pandas raises an error, however they were loaded.

    Otherwise pandas would concatenate them.
    """
    frames = [
        (book.holdings(), "total_text"),
        (book.balances(), "amount_text"),
        (book.history("holdings_by_asset"), "free_text"),
        (book.query("select asset_id, total_text from holdings"), "total_text"),
        (book.query("from ops.control_totals where measure = 'sum'"), "in_json"),
        (book.query("select asset_id, any_value(total_text) as t from holdings group by all"), "t"),
        (book.arrow("from holdings").to_pandas(), "total_text"),
        (book.arrow("from holdings").to_pandas(), "total"),
        (
            book.arrow(
                "select asset_id, exact_sum(total_text) as s from holdings group by all"
            ).to_pandas(),
            "s",
        ),
    ]
    for frame, name in frames:
        for add in ADDING:
            with pytest.raises((NotExact, TypeError)):
                add(frame, name)
    texts = book.holdings()["total_text"]
    assert str(texts.map(Decimal).map(str).iloc[0]) == texts.iloc[0] + ""
    wanted = exact(texts)
    arrow = book.arrow("from holdings").to_pandas()
    assert str(amounts_of(texts).sum()) == str(amounts_of(arrow["total"]).sum()) == wanted
    with pytest.raises(NotExact, match="is not an exact amount"):
        amounts_of(pd.Series(["1,5"], name="total"))


def test_a_name_of_digits_is_not_an_amount(plain_book: ReadOnlyBook) -> None:
    """A portfolio called 007 is not an amount, and a name can be joined to an amount as text."""
    held = plain_book.query("select portfolio_id, portfolio_id as p, total_text from holdings")
    assert held["portfolio_id"].sort_values().tolist() == ["007", "008", "008"]
    assert held["p"].tolist() == held["portfolio_id"].tolist()
    assert (held["portfolio_id"] + "/" + held["total_text"]).str.startswith("00").all()
    assert plain_book.arrow("from holdings").schema.field("portfolio_id").type == pa.string()


def test_polars_does_not_add_up_amount_texts(polars_said: dict[str, Any]) -> None:
    """In polars, and in pandas after a conversion, a sum of texts raises an error or is null."""
    assert polars_said["sums"] == [None] * 18


def test_polars_sorts_amounts_by_their_size(polars_said: dict[str, Any]) -> None:
    """In polars, amounts are decimals, or an Enum that is sorted by amount if they do not fit."""
    for kind, largest, texts in polars_said["texts"].values():
        assert kind == "Enum"
        assert texts == sorted(texts, key=Decimal)
        assert largest == texts[-1]
    wanted = ["Decimal(precision=38, scale=18)", "42.000000000000000003", "40.000000000000000000"]
    assert polars_said["decimals"] == {"total": wanted, "s": wanted}


MOVES = "select total, lag(total) over (order by snapshot_date) as before"
JOINED = """select a.total, a.total_text, b.total as other, b.total_text as other_text{}
from holdings as a left join history.holdings as b
on b.snapshot_date = '2026-11-18' and b.portfolio_id = a.portfolio_id and b.asset_id = a.asset_id
and b.is_custom_asset = a.is_custom_asset"""


def test_a_null_from_lag_or_a_left_join_is_missing(plain_book: ReadOnlyBook) -> None:
    """If every amount fits a number, NULL from `lag` or a left join is a missing amount."""
    moves = plain_book.query(f"{MOVES} from history.holdings_by_asset where asset_id = 'BTC'")
    assert moves["before"].isna().tolist() == [True, False]
    assert str((moves["total"] - moves["before"]).sum()) == "-1.499999999999999997"
    joined = plain_book.query(JOINED.format(", a.total - b.total as moved") + " and b.total > 10")
    assert joined["moved"].isna().sum() == 2
    assert str(joined["moved"].sum()) == "0"


def test_a_refused_null_suggests_a_query_that_works(book: ReadOnlyBook) -> None:
    """In a book with larger amounts, each refusal suggests a different query, which works."""
    source = "from history.holdings_by_asset where asset_id = 'BTC' and not is_custom_asset"
    with pytest.raises(NotExact, match=r"before is NULL .*`lag\(total_text\).* as before_text`"):
        book.query(f"{MOVES}, total_text {source}")
    moves = book.query(
        f"{MOVES}, total_text, lag(total_text) over (order by snapshot_date) as before_text "
        f"{source}"
    )
    assert figures(moves["before"].iloc[1:]) == figures(moves["total"].shift().iloc[1:])
    with pytest.raises(NotExact, match=r"moved is NULL .* with their text columns, and calc"):
        book.query(JOINED.format(", a.total - b.total as moved"))
    joined = book.query(JOINED.format(""))
    assert exact(map(str, joined["total"] - joined["other"].fillna(0))) == exact(
        [*joined["total_text"], *(f"-{t}".replace("--", "") for t in joined["other_text"].dropna())]
    )


def test_nlargest_and_nsmallest_are_exact(book: ReadOnlyBook) -> None:
    """`nlargest` and `nsmallest` sort amounts of any size exactly, in frames, series and sums."""
    held = book.holdings()
    order = sorted(map(Decimal, held["total_text"]), reverse=True)
    wanted = [f"{amount:f}" for amount in order]
    for column in ("total", "total_text"):
        found = held.nlargest(3, column)["total"].tolist()
        assert found == held[column].nlargest(3).map(Decimal).tolist() == order[:3]
        assert held.nsmallest(2, [column, "free"])["total"].tolist() == order[:-3:-1]
    assert [str(x) for x in held["total"].nsmallest(1, keep="all").unique()] == wanted[-1:]
    per_asset = held.groupby(ASSET)["total"].sum()
    assert per_asset.nlargest(1).iloc[0] == per_asset.max()
    parts = book.query("select trading_free, trading_free_text from account_balances")
    assert parts["trading_free"].nlargest(3).notna().all()


def test_a_refused_float_suggests_an_exact_expression(book: ReadOnlyBook) -> None:
    """The errors for `* 1.5` and for a quantile suggest an exact expression, which works."""
    total = book.holdings()["total"]
    refused: tuple[Callable[[], Any], ...] = (
        lambda: total * 1.5,
        lambda: 1.5 * total,
        lambda: total / np.float64(1.5),
        lambda: total.iloc[0] + np.float32(1.5),
    )
    for calculate in refused:
        with pytest.raises(NotExact, match=r"Write Decimal\('1.5'\) or a whole number"):
            calculate()
    with pytest.raises(NotExact, match="A quantile is exact with interpolation='lower'"):
        total.quantile(0.5)
    factor: Any = Decimal("1.5")  # the stubs know only numbers
    assert str((total * factor).sum() * 2) == str(total.sum() * 3)
    assert total.quantile(0.5, interpolation="lower") in total.tolist()
    half = total / 2
    assert str(half.sum() * 2) == str(total.sum()), "a quotient is not rounded by the next sum"
    assert half.astype(float).notna().all()


def test_to_excel_warns_about_rounded_amounts(
    book: ReadOnlyBook, plain_book: ReadOnlyBook, tmp_path: Path
) -> None:
    """`to_excel` warns of amounts that cells round to 15 digits, and only of those."""
    with pytest.warns(
        RoundedCellsWarning, match="keeps only 15 digits, so amounts are rounded in free"
    ):
        book.holdings().to_excel(tmp_path / "a.xlsx")
    with pytest.warns(RoundedCellsWarning, match="rounded in total"):
        book.holdings().groupby("asset_id")["total"].sum().to_excel(tmp_path / "a.xlsx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain_book.query("select total from holdings").to_excel(tmp_path / "b.xlsx")


def test_exact_total_adds_up_calculated_amounts(book: ReadOnlyBook) -> None:
    """`exact_total` adds up amounts exactly, even if they were calculated from a frame."""
    held = pd.concat([book.holdings()] * (20_000 // len(book.holdings())), ignore_index=True)
    doubled = exact_total(held.assign(total=held["total"] * 2), by=ASSET).set_index(ASSET)["total"]
    assert figures(doubled) == figures(held.groupby(ASSET)["total"].sum() * 2)
    missing = book.query("select * from account_balances where trading_free_text is null")
    assert set(exact_total(missing, by=ASSET, of="trading_free")["trading_free_text"]) <= {"0"}


def test_columns_without_amounts_can_be_null(book: ReadOnlyBook) -> None:
    """Columns that never contain amounts, such as instrument terms, may be NULL without a text."""
    assert book.query("select null::decimal(38,18) as min_price")["min_price"].isna().all()
    answer = book.query("select $word as word, count(*) as n, sum(1) as s", {"word": "x"})
    assert answer.to_dict("records") == [{"word": "x", "n": 1, "s": 1}]


def test_a_frame_keeps_its_comments_night_and_amounts(book: ReadOnlyBook, tmp_path: Path) -> None:
    """A frame's `attrs` contain the comments and the night.

    Amounts do not change in pickle, CSV and Parquet.
    """
    held = book.holdings(as_of=book.days[0])
    assert held.attrs["columns"]["total"] == "Sum of free, locked and other."
    assert held.attrs["night"] == {
        "snapshot_id": f"{book.days[0]:%Y%m%d}T021500Z",
        "as_of": book.days[0].isoformat(),
        "rejects": 0,
        "incomplete_portfolios": ["p1"],  # an account whose balance could not be read
        "waiting": [],
        "is_newest": False,
        "is_tonights": False,
        "is_replaced": False,
    }
    tonight = book.query("from changes").attrs["night"]
    assert (tonight["is_newest"], tonight["is_tonights"]) == (True, True)
    kept = pickle.loads(pickle.dumps(held))  # noqa: S301 - our own bytes
    assert str(kept["total"].iloc[0]) == held["total_text"].iloc[0]
    held.to_csv(tmp_path / "a.csv")
    again = pd.read_csv(tmp_path / "a.csv", dtype=str)
    assert again["total"].tolist() == again["total_text"].tolist()
    book.query("from holdings where total_text = '0' or total is not null").to_parquet(
        tmp_path / "a.parquet"
    )


def test_a_date_in_another_form_is_refused(book: ReadOnlyBook) -> None:
    """A date that is not written as YYYY-MM-DD is refused with an example."""
    for ask in (book.holdings, lambda day: book.history("holdings", since=day)):
        with pytest.raises(ValueError, match=r"'20.11.2026' is not a valid date. Write it as YYYY"):
            ask("20.11.2026")


def test_a_date_without_a_book_lists_the_available_dates(book: ReadOnlyBook) -> None:
    """A date without a book and an unknown name are errors that list the available ones."""
    with pytest.raises(NoBookThatDay, match=r"2026-11-19 has no book.*nearest are.*2026-11-20"):
        book.holdings(as_of=GAP)
    with pytest.raises(NoBookThatDay, match=r"1999-01-01 has no book.*between .* and 2026-11-20"):
        book.balances("1999-01-01")
    with pytest.raises(
        NotAQuestion, match=r"no history of 'total'\. The tables and views with a history are acc"
    ):
        book.history("total")
    with pytest.raises(NotAQuestion, match="DuckDB could not run the query: Parser Error"):
        book.query("selec")
    with pytest.raises(ValueError, match="Choose from portfolio, venue, asset"):
        book.holdings(by="continent")


def test_the_home_is_found_as_in_every_command(
    year: tuple[Path, list[date]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home is set in the environment or else in `.env`, and is `./data` by default.

    If nothing is published in the home, the error says so.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NIGHTBOOK_HOME", raising=False)
    with pytest.raises(FileNotFoundError, match=r"no book at .*data.*NIGHTBOOK_HOME, or its def"):
        open_book()
    (tmp_path / ".env").write_text(f"NIGHTBOOK_HOME={year[0]}\n", encoding="utf-8")
    with open_book() as opened:
        assert opened.days[-1] == NEWEST
    monkeypatch.setenv("NIGHTBOOK_HOME", str(tmp_path / "other"))
    with pytest.raises(FileNotFoundError, match="other"):
        open_book()


def test_an_open_book_stays_on_its_night(tmp_path: Path) -> None:
    """An open book keeps its figures, and reports that it was replaced.

    A book that is opened later has the new figures.
    """
    layout = Layout(tmp_path)
    first = night("20261118T021500Z", [Amount("1e40")])
    published(layout, [first], "v1")
    with open_book(tmp_path) as old:
        published(layout, [first, night("20261120T021500Z", [Amount("6")])], "v2")
        shutil.rmtree(layout.warehouse / "versions" / "v1")
        assert exact_total(old.query("from balances"))["amount_text"].tolist() == [exact(["1e40"])]
        assert old.holdings().attrs["night"]["is_replaced"]
        with open_book(tmp_path) as new:
            assert new.holdings()["total_text"].tolist() == ["6"]
            assert not new.night()["is_replaced"]


def test_a_duckdb_connection_and_the_book_can_be_open_together(
    year: tuple[Path, list[date]],
) -> None:
    """A DuckDB connection and the book can be open together, whichever was opened first."""
    for path in (Layout(year[0]).database, Layout(year[0]).database.resolve()):
        own = duckdb.connect(str(path), read_only=True)
        with open_book(year[0]) as opened, open_book(year[0]) as again, own:
            assert len(opened.holdings()) == len(again.holdings())
            assert own.execute("select count(*) from holdings").fetchall()[0][0]
        with open_book(year[0]), duckdb.connect(str(path), read_only=True, config={"threads": 1}):
            pass


def test_a_book_can_be_opened_by_its_path(year: tuple[Path, list[date]], tmp_path: Path) -> None:
    """The book can also be opened by the path that other programs use.

    Its `repr` names the date, the holdings and the nights.
    """
    database = Layout(year[0]).database
    copy = tmp_path / "copy.duckdb"
    shutil.copy(database.resolve(), copy)
    for path in (database, str(database), database.parent, year[0] / "warehouse", copy):
        with open_book(path, clock=lambda: datetime(2026, 11, 20, 6, tzinfo=UTC)) as opened:
            assert opened.holdings()["total_text"].notna().all()
            words = repr(opened)
        assert words.startswith("<nightbook: book of 2026-11-20 (tonight's); 1")
        assert (
            f"holdings in 3 portfolios; {len(year[1])} nights since {year[1][0]}; use .query(sql)"
            in words
        )
        assert repr(opened).startswith("<nightbook: closed; ")
    duckdb.connect(str(tmp_path / "other.duckdb")).close()
    with pytest.raises(QueryFailed, match="a DuckDB file, but not a nightbook book"):
        open_book(tmp_path / "other.duckdb")


def test_a_home_without_a_book_has_no_rows(tmp_path: Path) -> None:
    """If every night is held, frames have no rows, and there is no day to query."""
    held = night("20261118T021500Z", [Amount("1")], state="held", is_book=False)
    published(Layout(tmp_path), [held], "a")
    with open_book(tmp_path) as opened:
        assert (opened.days, opened.night(), len(opened.holdings())) == ((), {}, 0)
        with pytest.raises(NoBookThatDay, match=r"no book yet\. See `nightbook snapshots`"):
            opened.holdings("2026-11-18")


def test_import_warehouse_does_not_load_pandas() -> None:
    """`import warehouse` and `nightbook query` import neither pandas nor pyarrow."""
    program = (
        "import sys, warehouse\n"
        "import warehouse.query.read, warehouse.query.child\n"
        "print(sorted({'pandas', 'pyarrow'} & sys.modules.keys()))\n"
        "from warehouse import open_book\n"
        "print('pandas' in sys.modules)"
    )
    assert _ran(sys.executable, program).splitlines() == ["[]", "True"]


def test_values_are_exact_and_missing_without_a_price(tmp_path: Path) -> None:
    """Values are exact amounts, on any day. A holding without a price has no value."""
    drop(tmp_path, "a.csv", "BTC,,USD,0.1,2026-11-20,")
    amounts = [Amount("9" * 40), Amount("1", asset="ETH")]
    publish(tmp_path, [read_at("20261120T021500Z", amounts)])
    with open_book(tmp_path) as book:
        for frame in (book.value("USD"), book.value("USD", as_of="2026-11-20")):
            values = dict(zip(frame["asset_id"], frame["value"], strict=True))
            assert values["BTC"] == Decimal("9" * 39 + ".9")
            assert list(frame["value"].isna()) == [False, True]
            assert list(frame["price_state"]) == ["priced", "missing"]


def test_a_value_of_a_day_without_a_book_is_an_error(book: ReadOnlyBook) -> None:
    """A day without a book raises an error instead of returning an empty frame."""
    with pytest.raises(NoBookThatDay):
        book.value("USD", as_of=GAP)
