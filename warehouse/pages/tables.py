"""The tables of the pages: their queries, columns, filters and links.

Each table is a page, a CSV file and a JSON file with the same rows. In a query, `$day` is the date
of the book, and the other names are parameters of the request.
"""

# ruff: noqa: S608 - names are our own; values are bound

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    """A table in an `order` without ties. If a currency is set, `values` is joined by the `key`."""

    title: str
    query: str
    order: str
    fields: tuple[PageColumn, ...]
    filters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    values: str = ""
    value_fields: tuple[PageColumn, ...] = field(default=())


_ASSET_KEY = ("asset_id", "is_custom_asset")
_ACCOUNT = ("portfolio_id", *_ASSET_KEY, "venue_id", "account_name")
_PORTFOLIO = PageColumn(
    "Portfolio", name, ("portfolio_name", "portfolio_id"), "holdings", _ACCOUNT[:1]
)
_ASSET = PageColumn("Asset", asset, _ASSET_KEY, "holdings", _ASSET_KEY)
_VENUE = PageColumn("Venue", name, ("venue_name", "venue_id"), "venue_holdings", ("venue_id",))
_AMOUNTS = tuple(
    PageColumn(part.capitalize(), amount, (f"{part}_text",))
    for part in ("free", "locked", "other", "total")
)
_COUNTS = {
    title: PageColumn(title, digits, (title.lower(),))
    for title in ("Portfolios", "Accounts", "Venues", "Assets")
}
_VALUE = PageColumn("Value", amount, ("value_text",))
_PRICED = (PageColumn("Price", name, ("price_state",)), _VALUE)
_GROUP = (
    _VALUE,
    PageColumn("Without a price", digits, ("unpriced_assets",)),
    PageColumn("Stale", digits, ("stale_assets",)),
)
_GROUP_VALUES = "assets, unpriced_assets, stale_assets, oldest_price, value_text"
_NIGHT = PageColumn("Night", day, ("snapshot_date",))

LISTINGS: Mapping[str, Listing] = {
    "portfolios": Listing(
        title="Portfolios",
        query="select snapshot_date, portfolio_id, name as portfolio_name, position_count, "
        "integration_count, created_at, updated_at from history.portfolios "
        "where snapshot_date = $day",
        key=("portfolio_id",),
        order="portfolio_name, portfolio_id",
        fields=(
            _PORTFOLIO,
            PageColumn("Positions", digits, ("position_count",)),
            PageColumn("Changed", moment, ("updated_at",)),
        ),
        filters=("portfolio_id",),
        values=f"select portfolio_id, {_GROUP_VALUES} from value_by_portfolio($currency, $day)",
        value_fields=_GROUP,
    ),
    "holdings": Listing(
        title="Holdings",
        query="select * from holdings_as_of($day)",
        key=("portfolio_id", *_ASSET_KEY),
        order="portfolio_name, portfolio_id, asset_id, is_custom_asset",
        fields=(
            PageColumn("Asset", asset, _ASSET_KEY, "accounts", ("portfolio_id", *_ASSET_KEY)),
            _PORTFOLIO,
            _AMOUNTS[-1],
            _COUNTS["Accounts"],
            PageColumn("Bytes", lambda _: "trace", ("asset_id",), "trace", _ACCOUNT[:3]),
        ),
        filters=("portfolio_id", *_ASSET_KEY),
        values="select portfolio_id, asset_id, is_custom_asset, price_text, price_state, "
        "value_text from holdings_value_as_of($currency, $day)",
        value_fields=_PRICED,
    ),
    "accounts": Listing(
        title="Accounts",
        query="select * from account_balances_as_of($day)",
        order=", ".join((*_ACCOUNT, "duplicate_no")),
        fields=(
            PageColumn("Account", name, ("account_name",), "trace", _ACCOUNT),
            _ASSET,
            _PORTFOLIO,
            _VENUE,
            PageColumn("Amounts", digits, ("balance_count",)),
            _AMOUNTS[-1],
        ),
        filters=_ACCOUNT,
    ),
    "assets": Listing(
        title="Assets",
        query="select * from holdings_by_asset_as_of($day)",
        key=_ASSET_KEY,
        order="portfolios desc, venues desc, accounts desc, asset_id, is_custom_asset",
        fields=(
            _ASSET,
            _AMOUNTS[-1],
            _COUNTS["Portfolios"],
            _COUNTS["Accounts"],
            PageColumn("Over time", lambda _: "chart", ("asset_id",), "asset_history", _ASSET_KEY),
        ),
        filters=_ASSET_KEY,
        values="select asset_id, is_custom_asset, price_text, price_state, value_text "
        "from value_by_asset($currency, $day)",
        value_fields=_PRICED,
    ),
    "venues": Listing(
        title="Venues",
        # A venue with accounts is listed even if the API's list of venues does not have it.
        query="select venue_id, display_name as venue_name, trading_status, "
        "coalesce(portfolios, 0) as portfolios, coalesce(held, 0) as assets_held, "
        "coalesce(accounts, 0) as accounts "
        "from (select * from history.venues where snapshot_date = $day) full join ("
        "select venue_id, count(distinct portfolio_id) as portfolios, count(*) as accounts, "
        "count(distinct (asset_id, is_custom_asset)) as held "
        "from history.accounts where snapshot_date = $day group by venue_id) using (venue_id)",
        key=("venue_id",),
        order="venue_name, venue_id",
        fields=(
            _VENUE,
            PageColumn("Trading", name, ("trading_status",)),
            _COUNTS["Portfolios"],
            PageColumn("Assets", digits, ("assets_held",)),
            _COUNTS["Accounts"],
        ),
        filters=("venue_id",),
        values=f"select venue_id, {_GROUP_VALUES} from value_by_venue($currency, $day)",
        value_fields=(
            *_GROUP,
            PageColumn(
                "Over time", lambda _: "chart", ("venue_id",), "venue_history", ("venue_id",)
            ),
        ),
    ),
    "venue_holdings": Listing(
        title="Holdings by venue",
        query="select * from holdings_by_venue_as_of($day)",
        order="venue_name, venue_id, asset_id, is_custom_asset",
        fields=(
            PageColumn("Asset", asset, _ASSET_KEY, "accounts", ("venue_id", *_ASSET_KEY)),
            _VENUE,
            *_AMOUNTS,
            _COUNTS["Portfolios"],
            _COUNTS["Accounts"],
        ),
        filters=("venue_id", *_ASSET_KEY),
    ),
    "findings": Listing(
        title="Findings",
        query="select * from history.findings where snapshot_date = $day",
        order="severity_rank, kind, portfolio_id, venue_id, words",
        fields=(
            PageColumn("Severity", light, ("severity",)),
            PageColumn("Kind", lambda kind: kind.replace("_", " "), ("kind",)),
            _PORTFOLIO,
            _VENUE,
            PageColumn("Finding", lambda words: short(words, 300), ("words",)),
        ),
        filters=("severity", "kind", "portfolio_id", "venue_id"),
    ),
    "changes": Listing(
        title="Changes",
        query="select * from changes_between($since, $day)",
        order=", ".join((*_ACCOUNT, "duplicate_no", "bucket", "state")),
        fields=(
            _ASSET,
            _PORTFOLIO,
            _VENUE,
            PageColumn("Account", name, ("account_name",)),
            PageColumn("Amount", join, ("bucket", "state")),
            PageColumn("Change", name, ("change",)),
            PageColumn("Before", amount, ("before_text",)),
            PageColumn("After", amount, ("after_text",)),
            PageColumn("Delta", delta, ("delta_text",)),
        ),
        filters=(*_ACCOUNT, "change"),
    ),
    "nights": Listing(
        title="Nights",
        query="select * from ops.snapshots",
        order="snapshot_id desc",
        fields=(
            PageColumn("Night", day, ("snapshot_date",), "", ()),
            PageColumn("Snapshot", name, ("snapshot_id",)),
            PageColumn("State", name, ("state",)),
            PageColumn("In the book", lambda is_book: "yes" if is_book else "no", ("is_book",)),
            PageColumn("Read", moment, ("started_at",)),
            PageColumn("Decided by", name, ("decided_by",)),
            PageColumn("Reason", lambda words: short(words or "", 300), ("reason",)),
            *(
                PageColumn(f"{n.capitalize()}s", digits, (f"{n}_count",))
                for n in ("account", "reject")
            ),
        ),
        filters=("snapshot_date", "state"),
    ),
    "gaps": Listing(
        title="Nights without a book",
        query="select * from ops.gaps",
        order="snapshot_date desc",
        fields=(
            _NIGHT,
            PageColumn("Reason", name, ("reason",)),
            PageColumn("Book before", day, ("book_before",)),
            PageColumn("Book after", day, ("book_after",)),
        ),
    ),
    "asset_history": Listing(
        title="An asset over time",
        query="select * from history.holdings_by_asset",
        order="snapshot_date desc",
        fields=(_NIGHT, _ASSET, *_AMOUNTS, _COUNTS["Portfolios"], _COUNTS["Accounts"]),
        filters=_ASSET_KEY,
        required=_ASSET_KEY,
    ),
    "venue_history": Listing(
        title="A venue over time",
        query="select snapshot_date, group_id as venue_id, group_name as venue_name, "
        f"{_GROUP_VALUES} from "
        "internal.value_groups('venue', $currency, date '0001-01-01', date '9999-12-31')",
        order="snapshot_date desc",
        fields=(_NIGHT, _VENUE, _COUNTS["Assets"], *_GROUP),
        filters=("venue_id",),
        required=("venue_id",),
    ),
    "value_history": Listing(
        title="The value of the book over time",
        query="select * from value_by_night($currency)",
        order="snapshot_date desc",
        fields=(_NIGHT, _COUNTS["Assets"], *_GROUP),
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
        fields=(
            PageColumn("Kind", name, ("kind",)),
            PageColumn("ID or account name", name, ("id",), "{kind}", _ACCOUNT),
            PageColumn("Name or venue", name, ("name",)),
        ),
    ),
}
"""All tables by the name of their page."""
FOUND = {
    "portfolio": ("holdings", ("portfolio_id",)),
    "venue": ("venue_holdings", ("venue_id",)),
    "asset": ("holdings", _ASSET_KEY),
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
