"""The table columns of the reports.

A column consists of a header, a function that formats its cells, and the keys of the values that
this function receives. If a table's columns depend on the night, its template defines them. All
other columns are defined here, because Jinja would recompile them at each start.
"""

from collections.abc import Callable
from typing import Any

from warehouse.report.formats import (
    amount,
    amount_parts,
    asset,
    asset_amounts,
    day,
    delta,
    digits,
    figure,
    join,
    light,
    moment,
    name,
    printable,
    whole_amount,
    whole_asset,
    whole_name,
)

Column = tuple[str, Callable[..., Any], *tuple[str, ...]]
Columns = tuple[Column, ...]


_ASSET: Column = ("Asset", asset, "asset_id", "is_custom_asset")
_PORTFOLIO: Column = ("Portfolio", name, "portfolio", "portfolio_id")
_VENUE: Column = ("Venue", name, "venue", "venue_id")
_ACCOUNTS: Column = ("Accounts", digits, "accounts")
_AMOUNTS: Columns = (
    ("Free", amount, "free_text"),
    ("Locked", amount, "locked_text"),
    ("Other", amount, "other_text"),
    ("Total", amount, "total_text"),
)
_CHANGE: Columns = (_ASSET, ("Delta", delta, "delta"), ("Amounts changed", digits, "amounts"))
_FINDING: Columns = (
    ("Severity", light, "severity"),
    ("Kind", lambda kind: kind.replace("_", " "), "kind"),
    _PORTFOLIO,
    _VENUE,
)
_MESSAGE: Column = ("Finding", lambda message: printable(message, 200), "words")

MOVED: Columns = (
    _ASSET,
    ("Change", figure, "share"),
    ("Delta", delta, "delta"),
    ("Now", amount, "now"),
)
NEW_FINDINGS: Columns = (
    *_FINDING,
    ("Asset and amount", asset_amounts, "assets", "asset_count"),
    _MESSAGE,
)
FINDINGS: Columns = (("Since", join, "since"), *NEW_FINDINGS)
SOLVED_FINDINGS: Columns = (*_FINDING, _MESSAGE)
CHANGES_BY_ASSET: Columns = (
    _ASSET,
    ("Before", amount, "before"),
    ("Now", amount, "now"),
    *_CHANGE[1:],
)
CHANGES_BY_PORTFOLIO: Columns = (_PORTFOLIO, *_CHANGE)
CHANGES_BY_VENUE: Columns = (_VENUE, *_CHANGE)
CHANGED_ACCOUNTS: Columns = (
    _PORTFOLIO,
    _VENUE,
    ("Account", name, "account_name"),
    ("Assets", name, "assets"),
)
CHANGED_NAMES: Columns = (
    ("Field", join, "kind", "what"),
    ("ID", name, "id"),
    ("Change", name, "change"),
    ("Before", name, "before"),
    ("Now", name, "now"),
)
HOLDINGS: Columns = (_ASSET, *_AMOUNTS, ("Portfolios", digits, "portfolios"), _ACCOUNTS)
VALUE_GROUPS: Columns = (
    ("Group", name, "group_name", "group_id"),
    ("Value", amount, "value_text"),
    ("Assets", digits, "assets"),
    ("Without a price", digits, "unpriced_assets"),
    ("Stale", digits, "stale_assets"),
)
UNPRICED: Columns = (
    _ASSET,
    ("Price", name, "price_state"),
    ("Date of the price", name, "as_of"),
    ("Portfolios", digits, "portfolios"),
)
LOCKED_FUNDS: Columns = (
    _ASSET,
    ("Locked by", name, "bucket"),
    ("Locked", amount, "locked"),
    ("Portfolios", digits, "portfolios"),
    ("Venues", digits, "venues"),
    _ACCOUNTS,
)
BREAKS: Columns = (
    ("Night", day, "snapshot_date"),
    ("0-1 days", digits, "to_1_day"),
    ("2-4 days", digits, "to_4_days"),
    ("5-29 days", digits, "to_29_days"),
    ("30+ days", digits, "from_30_days"),
    ("Total", digits, "open_breaks"),
)
FRESHNESS: Columns = (
    ("Light", light, "light"),
    ("Type", name, "kind"),
    ("Name", name, "name", "id"),
    ("Days", digits, "days_unchanged"),
    ("Changed", moment, "updated_at"),
    ("Last read", day, "stale_since"),
)
GAPS: Columns = (
    ("Night", day, "snapshot_date"),
    ("Reason", name, "reason"),
    ("Book before", day, "book_before"),
    ("Book after", day, "book_after"),
)
REJECTS: Columns = (
    ("Path", name, "path"),
    ("Expected", name, "reason"),
    ("Received", name, "value"),
    ("Money", lambda value: "yes" if value else "no", "carries_money"),
    ("Request", digits, "request_no"),
)
INEXACT: Columns = (
    ("Column", "{}.{}".format, "table_name", "column_name"),
    ("Path", name, "path"),
    ("Text", name, "value"),
)
FACTS: Columns = (("Fact", join, "title"), ("Last night", join, "value"))
FAILED_REQUESTS: Columns = (
    ("Operation", name, "operation"),
    ("Venue", name, "venue_id"),
    ("Query", name, "query"),
    ("Status", digits, "status"),
    ("Attempts", digits, "attempts"),
    ("Reason", name, "error"),
)
FAILED_CHECKS: Columns = (
    ("Check", name, "check_name"),
    ("Severity", name, "severity"),
    ("Rows", digits, "wrong_rows"),
    ("Meaning", lambda text: printable(text, 600), "meaning"),
    ("First example", name, "example"),
)
# The tables of a statement.
_WHOLE_ASSET: Column = ("Asset", whole_asset, "asset_id", "is_custom_asset")
STATED_ASSETS: Columns = (
    _WHOLE_ASSET,
    ("Accounts", digits, "accounts"),
    ("Venues", digits, "venues"),
    ("Total", whole_amount, "total_text"),
)
STATED_VALUES: Columns = (
    _WHOLE_ASSET,
    ("Total", whole_amount, "total_text"),
    ("Price", whole_amount, "price_text"),
    ("State", name, "price_state"),
    ("Time of the price", name, "as_of"),
    ("Source", name, "source"),
    ("Value", whole_amount, "value_text"),
)
STATED_ACCOUNTS: Columns = (
    ("Account", whole_name, "account"),
    _WHOLE_ASSET,
    ("Amounts as sent", amount_parts, "parts"),
    ("Total", whole_amount, "total_text"),
)
STATED_REQUESTS: Columns = (
    ("Request", whole_name, "request"),
    ("Status", figure, "status"),
    ("Received", moment, "received_at"),
    ("Bytes", digits, "byte_count"),
    ("SHA-256", whole_name, "sha256"),
)
