"""The tables of the pages: their queries, columns, filters and links.

Each table is a page, a CSV file and a JSON file with the same rows. In a query, `$day` is the date
of the book, and the other names are parameters of the request.
"""

# ruff: noqa: S608 - names are our own; values are bound

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from warehouse.report.formats import amount, asset, day, delta, digits, join, light, moment, name
from warehouse.report.formats import printable as short


class PageColumn(NamedTuple):
    """A column of a page, which may link to a page with some of the row's values."""

    title: str
    show: Callable[..., Any]
    keys: tuple[str, ...]
    target: str = ""
    parameters: tuple[str, ...] = ()

    @property
    def sort(self) -> str:
        """The name of this column in the parameter `sort`."""
        return self.keys[0].removesuffix("_text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table in an `order` without ties. If a currency is set, `values` is joined by the `key`.

    `columns` and `valued` (the columns for values) are names in `COLUMNS`. `filters` and `required`
    are columns that a request may or must name.
    """

    title: str
    query: str
    order: str
    columns: tuple[str, ...]
    filters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    values: str = ""
    valued: tuple[str, ...] = ()


def _words(text: str | None) -> str:
    return short(text or "", 300)


def _text(label: str) -> Callable[[object], str]:
    return lambda _: label


_ASSET = ("asset_id", "is_custom_asset")
_HOLDING = ("portfolio_id", *_ASSET)
_ACCOUNT = (*_HOLDING, "venue_id", "account_name")
_PRICE = ("price_state", "value")
_GROUP = ("value", "unpriced_assets", "stale_assets")
_GROUP_VALUES = "assets, unpriced_assets, stale_assets, oldest_price, value_text"
_AMOUNTS = ("free", "locked", "other", "total")
COLUMNS: Mapping[str, PageColumn] = {
    "portfolio": PageColumn(
        "Portfolio", name, ("portfolio_name", "portfolio_id"), "holdings", ("portfolio_id",)
    ),
    "asset": PageColumn("Asset", asset, _ASSET, "holdings", _ASSET),
    "holding": PageColumn("Asset", asset, _ASSET, "accounts", _HOLDING),
    "venue_holding": PageColumn("Asset", asset, _ASSET, "accounts", ("venue_id", *_ASSET)),
    "venue": PageColumn("Venue", name, ("venue_name", "venue_id"), "venue_holdings", ("venue_id",)),
    "account": PageColumn("Account", name, ("account_name",), "trace", _ACCOUNT),
    "trace": PageColumn("Bytes", _text("trace"), ("asset_id",), "trace", _HOLDING),
    "asset_chart": PageColumn("Over time", _text("chart"), ("asset_id",), "asset_history", _ASSET),
    "venue_chart": PageColumn(
        "Over time", _text("chart"), ("venue_id",), "venue_history", ("venue_id",)
    ),
    "found": PageColumn("ID or account name", name, ("id",), "{kind}", _ACCOUNT),
    "found_name": PageColumn("Name or venue", name, ("name",)),
    "bucket": PageColumn("Amount", join, ("bucket", "state")),
    "delta": PageColumn("Delta", delta, ("delta_text",)),
    "severity": PageColumn("Severity", light, ("severity",)),
    "kind": PageColumn("Kind", lambda kind: kind.replace("_", " "), ("kind",)),
    "words": PageColumn("Finding", _words, ("words",)),
    "reason": PageColumn("Reason", _words, ("reason",)),
    "is_book": PageColumn("In the book", _words, ("in_book",)),
    "unpriced_assets": PageColumn("Without a price", digits, ("unpriced_assets",)),
    "stale_assets": PageColumn("Stale", digits, ("stale_assets",)),
    "night": PageColumn("Night", day, ("snapshot_date",)),
    "book_before": PageColumn("Book before", day, ("book_before",)),
    "book_after": PageColumn("Book after", day, ("book_after",)),
    "updated_at": PageColumn("Changed", moment, ("updated_at",)),
    "started_at": PageColumn("Read", moment, ("started_at",)),
    **{
        key: PageColumn(key.capitalize(), amount, (f"{key}_text",))
        for key in (*_AMOUNTS, "before", "after", "value")
    },
    **{
        key: PageColumn(
            key.partition("_")[0].capitalize() + "s" * key.endswith("_count"), digits, (key,)
        )
        for key in (
            "portfolios",
            "accounts",
            "assets",
            "account_count",
            "balance_count",
            "position_count",
        )
    },
    **{
        key: PageColumn(key.replace("_", " ").capitalize(), name, (key,))
        for key in (
            "trading_status",
            "account_name",
            "change",
            "state",
            "snapshot_id",
            "price_state",
        )
    },
}
LISTINGS: Mapping[str, Listing] = {
    "portfolios": Listing(
        title="Portfolios",
        query="select snapshot_date, portfolio_id, name as portfolio_name, position_count, "
        "integration_count, created_at, updated_at from history.portfolios "
        "where snapshot_date = $day",
        order="portfolio_name, portfolio_id",
        columns=("portfolio", "position_count", "updated_at"),
        filters=("portfolio_id",),
        key=("portfolio_id",),
        values="select portfolio_id, unpriced_assets, stale_assets, oldest_price, value_text "
        "from value_by_portfolio($currency, $day)",
        valued=_GROUP,
    ),
    "holdings": Listing(
        title="Holdings",
        query="select * from holdings_as_of($day)",
        order="portfolio_name, portfolio_id, asset_id, is_custom_asset",
        columns=("holding", "portfolio", "total", "accounts", "trace"),
        filters=_HOLDING,
        key=_HOLDING,
        values="select portfolio_id, asset_id, is_custom_asset, price_text, price_state, "
        "value_text from holdings_value_as_of($currency, $day)",
        valued=_PRICE,
    ),
    "accounts": Listing(
        title="Accounts",
        query="select * from account_balances_as_of($day)",
        order=", ".join((*_ACCOUNT, "duplicate_no")),
        columns=("account", "asset", "portfolio", "venue", "balance_count", "total"),
        filters=_ACCOUNT,
    ),
    "assets": Listing(
        title="Assets",
        query="select * from holdings_by_asset_as_of($day)",
        order="portfolios desc, venues desc, accounts desc, asset_id, is_custom_asset",
        columns=("asset", "total", "portfolios", "accounts", "asset_chart"),
        filters=_ASSET,
        key=_ASSET,
        values="select asset_id, is_custom_asset, price_text, price_state, value_text "
        "from value_by_asset($currency, $day)",
        valued=_PRICE,
    ),
    "venues": Listing(
        title="Venues",
        # A venue with accounts is listed even if the API's list of venues does not have it.
        query="select venue_id, display_name as venue_name, trading_status, "
        "coalesce(portfolios, 0) as portfolios, coalesce(assets, 0) as assets, "
        "coalesce(accounts, 0) as accounts "
        "from (select * from history.venues where snapshot_date = $day) full join ("
        "select venue_id, count(distinct portfolio_id) as portfolios, count(*) as accounts, "
        "count(distinct (asset_id, is_custom_asset)) as assets "
        "from history.accounts where snapshot_date = $day group by venue_id) using (venue_id)",
        order="venue_name, venue_id",
        columns=("venue", "trading_status", "portfolios", "assets", "accounts"),
        filters=("venue_id",),
        key=("venue_id",),
        values="select venue_id, unpriced_assets, stale_assets, oldest_price, value_text "
        "from value_by_venue($currency, $day)",
        valued=(*_GROUP, "venue_chart"),
    ),
    "venue_holdings": Listing(
        title="Holdings by venue",
        query="select * from holdings_by_venue_as_of($day)",
        order="venue_name, venue_id, asset_id, is_custom_asset",
        columns=("venue_holding", "venue", *_AMOUNTS, "portfolios", "accounts"),
        filters=("venue_id", *_ASSET),
    ),
    "findings": Listing(
        title="Findings",
        query="select * from history.findings where snapshot_date = $day",
        order="severity_rank, kind, portfolio_id, venue_id, words",
        columns=("severity", "kind", "portfolio", "venue", "words"),
        filters=("severity", "kind", "portfolio_id", "venue_id"),
    ),
    "changes": Listing(
        title="Changes",
        query="select * from changes_between($since, $day)",
        order=", ".join((*_ACCOUNT, "duplicate_no", "bucket", "state")),
        columns=(
            *("asset", "portfolio", "venue", "account_name", "bucket"),
            *("change", "before", "after", "delta"),
        ),
        filters=(*_ACCOUNT, "change"),
    ),
    "nights": Listing(
        title="Nights",
        query="select *, case when is_book then 'yes' else 'no' end as in_book from ops.snapshots",
        order="snapshot_id desc",
        columns=(
            "night",
            "snapshot_id",
            "state",
            "is_book",
            "started_at",
            "reason",
            "account_count",
        ),
        filters=("snapshot_date", "state"),
    ),
    "gaps": Listing(
        title="Nights without a book",
        query="select * from ops.gaps",
        order="snapshot_date desc",
        columns=("night", "reason", "book_before", "book_after"),
    ),
    "asset_history": Listing(
        title="An asset over time",
        query="select * from history.holdings_by_asset",
        order="snapshot_date desc",
        columns=("night", "asset", *_AMOUNTS, "portfolios", "accounts"),
        filters=_ASSET,
        required=_ASSET,
    ),
    "venue_history": Listing(
        title="A venue over time",
        query="select snapshot_date, group_id as venue_id, group_name as venue_name, "
        f"{_GROUP_VALUES} from "
        "internal.value_groups('venue', $currency, date '0001-01-01', date '9999-12-31')",
        order="snapshot_date desc",
        columns=("night", "venue", "assets", *_GROUP),
        filters=("venue_id",),
        required=("venue_id",),
    ),
    "value_history": Listing(
        title="The value of the book over time",
        query=f"select snapshot_date, {_GROUP_VALUES} from value_by_night($currency)",
        order="snapshot_date desc",
        columns=("night", "assets", *_GROUP),
    ),
    "search": Listing(
        title="Search",
        query="with names as ("
        "select 'portfolio' as kind, portfolio_id as id, name, portfolio_id, null as asset_id, "
        "null as is_custom_asset, null as venue_id, null as account_name "
        "from history.portfolios where snapshot_date = $day "
        "union all select 'venue', venue_id, display_name, null, null, null, venue_id, null "
        "from history.venues where snapshot_date = $day "
        "union all select distinct 'asset', asset_id, null, null, asset_id, is_custom_asset, "
        "null, null from history.positions where snapshot_date = $day "
        "union all select distinct 'account', account_name, venue_id, null, null, null, venue_id, "
        "account_name from history.accounts where snapshot_date = $day) "
        "select * from names where contains(lower(id), lower($q)) "
        "or (kind <> 'account' and contains(lower(name), lower($q)))",
        order="kind desc, id, name, is_custom_asset",
        columns=("kind", "found", "found_name"),
    ),
}
"""All tables by the name of their page."""
FOUND = {
    "portfolio": ("holdings", ("portfolio_id",)),
    "venue": ("venue_holdings", ("venue_id",)),
    "asset": ("holdings", _ASSET),
    "account": ("accounts", ("venue_id", "account_name")),
}
"""The page of each kind of search result, and its parameters."""


def exact_order(text: str) -> str:
    """Return SQL that sorts amounts in plain digits exactly, whatever their number of digits."""
    # A longer whole part is a larger number. The digits of a negative amount are reversed, because
    # of two negative amounts, the one with the larger digits is smaller.
    size, minus = "printf('%06d', strlen(split_part({0}, '.', 1)))", f"substr({text}, 2)"
    return (
        f"case when starts_with({text}, '-') then '0' || translate({size.format(minus)} || "
        f"{minus}, '0123456789', '9876543210') || '~' else '1' || {size.format(text)} || {text} end"
    )
