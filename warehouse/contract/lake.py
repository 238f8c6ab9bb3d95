"""The lake's tables, including the holdings, which are exact sums of amounts."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from warehouse.contract.book import BOOK
from warehouse.contract.model import Table
from warehouse.contract.ops import NIGHTLY, SNAPSHOT_ID, amount, count, day, flag, text

_EXACT = (
    "Sums are exact. If a sum does not fit in DECIMAL(38,18), the number is NULL and the ..._text "
    "column contains the sum."
)
_DATE = day("snapshot_date", "Business date of the book.")
_ASSET = (
    text("asset_id", "Asset ID. Amounts of different assets are never added together."),
    flag("is_custom_asset", "Whether the organisation defined the asset itself."),
)
SUMS = {
    "free": (
        "Sum of the free amounts of all documented balance kinds. 0 if the API sends no such "
        "amount."
    ),
    "locked": (
        "Sum of the locked amounts of all documented balance kinds. 0 if the API sends no such "
        "amount."
    ),
    "other": (
        "Sum of the amounts whose balance kind is not in the API's documentation. 0 if there are "
        "no such amounts."
    ),
    "total": "Sum of free, locked and other.",
}
_SUMS = tuple(
    column
    for name, meaning in SUMS.items()
    for column in (
        amount(name, meaning),
        text(f"{name}_text", f"The amount in the column {name}, as exact text."),
    )
)
_PORTFOLIOS = count("portfolios", "Number of portfolios that list the asset.")
_ACCOUNTS = count("accounts", "Number of accounts for the asset, including empty accounts.")
_VENUES = count("venues", "Number of venues with at least one account of the asset.")

HOLDINGS: tuple[Table, ...] = (
    Table(
        "holdings",
        f"Holdings of each portfolio by asset, summed over all venues and accounts. {_EXACT}",
        key=("snapshot_date", "portfolio_id", "asset_id", "is_custom_asset"),
        columns=(
            _DATE,
            text("portfolio_id", "ID of the portfolio that holds the asset."),
            *_ASSET,
            *_SUMS,
            _ACCOUNTS,
            _VENUES,
            text(
                "portfolio_name",
                "Display name of the portfolio. NULL if the API does not send a name.",
                nullable=True,
            ),
        ),
    ),
    Table(
        "holdings_by_venue",
        f"Holdings at each venue by asset, summed over all portfolios. {_EXACT}",
        key=("snapshot_date", "venue_id", "asset_id", "is_custom_asset"),
        columns=(
            _DATE,
            text("venue_id", "The venue where the asset is kept."),
            *_ASSET,
            *_SUMS,
            _PORTFOLIOS,
            _ACCOUNTS,
            text(
                "venue_name",
                "Display name of the venue. NULL if the venue is not in the list of venues.",
                nullable=True,
            ),
        ),
    ),
    Table(
        "holdings_by_asset",
        f"Holdings by asset, summed over all portfolios, venues and accounts. {_EXACT}",
        key=("snapshot_date", "asset_id", "is_custom_asset"),
        columns=(_DATE, *_ASSET, *_SUMS, _PORTFOLIOS, _ACCOUNTS, _VENUES),
    ),
)


# The columns of each table, in the order they were added. The first column has the ID 1. Always
# append a new column at the end, even if it is not the last column of the table. Keep a removed
# column here, so that its ID is not reused. If a column is renamed, replace its old name.
_COLUMN_ORDER = {
    "portfolios": "snapshot_date snapshot_id portfolio_id name position_count integration_count "
    "created_at updated_at",
    "integrations": "snapshot_date snapshot_id portfolio_id integration_id venue_id status",
    "positions": "snapshot_date snapshot_id portfolio_id asset_id is_custom_asset account_count",
    "accounts": "snapshot_date snapshot_id portfolio_id asset_id is_custom_asset venue_id "
    "account_name duplicate_no balance_count",
    "balances": "snapshot_date snapshot_id portfolio_id asset_id is_custom_asset venue_id "
    "account_name duplicate_no bucket state amount amount_text",
    "venues": "snapshot_date snapshot_id venue_id display_name trading_status created_at "
    "updated_at",
    "venue_types": "snapshot_date snapshot_id venue_id type",
    "instruments": "snapshot_date snapshot_id venue_id instrument_id type display_name feed_id "
    "venue_symbol base_asset term_asset min_base_qty max_base_qty min_base_increment min_term_qty "
    "min_price max_price min_tick expiration created_at updated_at stale_since",
    "holdings": "snapshot_date snapshot_id portfolio_id asset_id is_custom_asset free free_text "
    "locked locked_text other other_text total total_text accounts venues portfolio_name",
    "holdings_by_venue": "snapshot_date snapshot_id venue_id asset_id is_custom_asset free "
    "free_text locked locked_text other other_text total total_text portfolios accounts venue_name",
    "holdings_by_asset": "snapshot_date snapshot_id asset_id is_custom_asset free free_text "
    "locked locked_text other other_text total total_text portfolios accounts venues",
    "requests": "snapshot_date snapshot_id request_no operation venue_id path query status "
    "attempts sent_at received_at byte_count sha256 file error purpose",
    "rejects": "snapshot_date snapshot_id request_no path reason value carries_money",
    "inexact": "snapshot_date snapshot_id request_no path table_name column_name value",
    "drift_by_night": "snapshot_date snapshot_id path kind word example seen",
    "listings": "snapshot_date snapshot_id venue_id instrument_id missing_from",
    "control_totals": "snapshot_date snapshot_id table_name measure asset_id is_custom_asset "
    "bucket in_json in_lake in_warehouse",
}


@cache
def lake_table(table: Table) -> Table:
    """Return a copy of a table that has the column snapshot_id after snapshot_date."""
    if SNAPSHOT_ID in table.columns:
        return table
    first, *others = table.columns
    return replace(table, columns=(first, SNAPSHOT_ID, *others))


@cache
def field_ids(table: str) -> Mapping[str, int]:
    """Map each current or former column of a lake table to its Iceberg field ID."""
    return {name: number for number, name in enumerate(_COLUMN_ORDER[table].split(), start=1)}


# The tables whose files are staged until their snapshot becomes the book of its date.
BOOK_FILES: tuple[Table, ...] = (*BOOK, *HOLDINGS)
LAKE: tuple[Table, ...] = tuple(lake_table(table) for table in (*BOOK_FILES, *NIGHTLY))


RULES = 4
"""Version of the flattening rules. Increase it if a code change produces different rows from the
same landed bytes.

In version 1, the lake's manifests have no digest. Since version 3, the order of a venue's list does
not matter, even if two entries for an instrument differ. Since version 4, all rows have a
snapshot_id and all columns have an id.
"""


def lake_contract() -> str:
    """Return a digest of the lake's columns and `RULES`. If it changes, the lake is rebuilt."""
    lines = [f"rules {RULES}"]
    lines += [
        f"{table.schema} {table.name} {column.name} {column.kind.value} {column.nullable} "
        f"{field_ids(table.name)[column.name]}"
        for table in LAKE
        for column in table.columns
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
