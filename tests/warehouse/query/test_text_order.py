"""Tests of the check that no query ranks amounts by the characters of their text."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.books import Amount, night, published_once
from warehouse import open_book
from warehouse.query.child import ask, ask_parquet
from warehouse.query.errors import NotAQuestion
from warehouse.query.text_order import text_order
from warehouse.storage.layout import Layout

REFUSED = """
select * from holdings order by total_text desc limit 3
select Total_Text from holdings order by asset_id, TOTAL_TEXT
select max(total_text) from holdings
select (select min(h.total_text) from holdings as h)
select arg_max(asset_id, total_text) from holdings
select greatest(free_text, locked_text) from holdings
select quantile_disc(total_text, 0.5) from holdings
select asset_id, exact_sum(total_text) as total from holdings group by all order by total desc
select asset_id, exact_sum(total_text) from holdings group by all order by 2 desc
select asset_id, total_text as t from holdings order by t
select coalesce(total_text, '0') as t from holdings order by t
select case when accounts > 1 then total_text end as t from holdings order by t
with s as (select exact_sum(amount_text) as total from balances) from s order by total
with s as (select exact_sum(amount_text) as total from balances) select max(total) from s
from (select exact_sum(amount_text) as total from balances) where total > '5'
from (from holdings order by total_text)
from holdings where total_text > '100'
from holdings where 100 >= total_text
from holdings where total_text between '1' and '2'
select asset_id from holdings group by all having exact_sum(total_text) < '5'
select rank() over (order by total_text desc) from holdings
select list(asset_id order by amount_text) from balances
pivot holdings on asset_id using max(total_text)
from (pivot holdings on asset_id, is_custom_asset using max(total_text) group by portfolio_id)
select max(v) from (unpivot holdings on total_text, free_text into name n value v)
from (from (unpivot holdings on total_text into name n value v)) order by v
select list_max(list(total_text)) from holdings
select list_sort([total_text, free_text]) from holdings
select list_aggregate(list(total_text), 'max') from holdings
select arg_max_null(asset_id, total_text) from holdings
select max({'t': total_text}) from holdings
from holdings order by (total_text, 1)
from holdings where total_text > any (select '5')
with s as (select total_text as t from holdings), u as (from s) from u order by t
select total_text from holdings union all select total_text from holdings order by total_text
"""
ALLOWED = """
select * from holdings order by total desc limit 3
select max(total) from holdings
select arg_max(total_text, total) from holdings
select any_value(total_text), count(*) from holdings group by asset_id order by 2
select asset_id, exact_sum(total_text) from holdings group by all order by all
select exact_sum(total_text) as total from holdings where total > 5 group by asset_id
select total_text from holdings order by total_text::decimal(38, 18) desc
select total_text from holdings order by total_text::double desc, length(total_text)
select total_text::decimal(38, 18) as total_text from holdings order by total_text
select total_text from holdings order by total_text::varchar desc
select venue_id as v_text from balances order by v_text
from holdings where total_text = '0' or total_text > '' or total_text <> '5'
pivot holdings on asset_id using any_value(total_text) group by portfolio_id order by portfolio_id
pivot holdings on is_custom_asset using sum(total)
from (unpivot holdings on total_text, free_text into name n value v) where v <> '0' order by n
select list(total_text order by total), list_aggregate(list(total), 'max') from holdings
from holdings using sample 3
explain select * from holdings
summarize holdings
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish three amounts whose order as text is not their order as numbers."""
    home = tmp_path_factory.mktemp("order")
    held = [Amount(text, f"p{text}") for text in ("9", "10", "-3")]
    published_once(Layout(home), [night("20261120T021500Z", held)], "a")
    return home


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database, which can parse queries."""
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize("sql", REFUSED.strip().splitlines())
def test_ranking_amounts_by_their_text_is_refused(
    parser: duckdb.DuckDBPyConnection, sql: str
) -> None:
    """A query that sorts or compares amount texts is refused, however it names them."""
    assert "::decimal(38, 18)" in text_order(parser, sql)


@pytest.mark.parametrize("sql", ALLOWED.strip().splitlines())
def test_other_queries_are_allowed(home: Path, sql: str) -> None:
    """A query that ranks numbers, or characters on purpose, runs."""
    ask(Layout(home).database, sql)


def test_every_interface_refuses_and_names_the_remedy(home: Path) -> None:
    """The command, its Parquet files, pandas and Arrow refuse. The suggested queries are right."""
    database = Layout(home).database
    with open_book(home) as book:
        interfaces: tuple[Callable[[str], Any], ...] = (
            lambda sql: ask(database, sql),
            lambda sql: ask_parquet(database, sql, None),
            book.query,
            book.arrow,
        )
        for interface in interfaces:
            with pytest.raises(NotAQuestion, match="Use the number `total`, or"):
                interface("select max(total_text) from holdings")
        for key in ("total", "total_text::decimal(38, 18)", "total_text::double"):
            sql = f"select total_text from holdings order by {key} desc"
            assert ask(database, sql).rows == (("10",), ("9",), ("-3",))
            assert book.query(sql)["total_text"].tolist() == ["10", "9", "-3"]


def test_amount_texts_are_sorted_by_amount_in_pandas(home: Path) -> None:
    """In pandas, `sort_values`, `max` and comparisons of amount texts use the amounts."""
    with open_book(home) as book:
        texts = book.holdings()["total_text"]
    assert texts.sort_values().tolist() == ["-3", "9", "10"]
    assert (texts.max(), texts.min()) == ("10", "-3")
    assert texts[texts >= "9"].size == 2
    assert texts[texts > 9].size == 1


def test_amounts_in_arrow_are_decimals_or_sorted_by_amount(home: Path) -> None:
    """In Arrow, amounts are decimals. Texts are sorted by amount after a conversion to pandas."""
    with open_book(home) as book:
        table = book.arrow(
            "select total, total_text, exact_sum(total_text) as s from holdings group by all"
        )
        frame = table.to_pandas()
    assert [str(field.type) for field in table.schema][::2] == ["decimal128(38, 0)"] * 2
    assert [str(value) for value in table.sort_by("s")["s"].to_pylist()] == ["-3", "9", "10"]
    assert frame["total_text"].sort_values().tolist() == ["-3", "9", "10"]
    assert frame["total_text"].max() == "10"
