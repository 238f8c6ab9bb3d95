"""The tables of the lake, and the control totals of holdings."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial

from warehouse.contract.book import BOOK
from warehouse.contract.model import Column, Kind, Table
from warehouse.contract.ops import NIGHTLY, SNAPSHOT_ID, count, day, flag, text

_EXACT = (
    "Sums are exact. Where DECIMAL(38,18) cannot hold one it is NULL, and its twin ..._text has it."
)
_sum = partial(Column, kind=Kind.AMOUNT, source="nightbook", nullable=True)
_DATE = day("snapshot_date", "Business date of the book.")
_ASSET = (
    text("asset_id", "Asset held; assets are never added to each other."),
    flag("is_custom_asset", "Whether the asset is one the organization defined itself."),
)
SUMS = {
    "free": "Free, of the kinds that the document knows; 0 when none is stated.",
    "locked": "Locked, of the kinds that the document knows; 0 when none is stated.",
    "other": "All that the document does not know, such as a new kind; 0 when there is none.",
    "total": "Free, locked and other together.",
}
_SUMS = tuple(
    column
    for name, meaning in SUMS.items()
    for column in (_sum(name=name, meaning=meaning), text(f"{name}_text", "The same, exact."))
)
_PORTFOLIOS = count("portfolios", "Portfolios that list the asset.")
_ACCOUNTS = count("accounts", "Accounts of the asset, also empty ones.")
_VENUES = count("venues", "Venues that keep one of those accounts.")

HOLDINGS: tuple[Table, ...] = (
    Table(
        "holdings",
        f"What each portfolio holds of each asset, over all venues and accounts. {_EXACT}",
        key=("snapshot_date", "portfolio_id", "asset_id", "is_custom_asset"),
        columns=(
            _DATE,
            text("portfolio_id", "Portfolio that holds the asset."),
            *_ASSET,
            *_SUMS,
            _ACCOUNTS,
            _VENUES,
            text(
                "portfolio_name",
                "The portfolio's name for people; NULL where the API states none.",
                nullable=True,
            ),
        ),
    ),
    Table(
        "holdings_by_venue",
        f"What lies at each venue of each asset, over all portfolios. {_EXACT}",
        key=("snapshot_date", "venue_id", "asset_id", "is_custom_asset"),
        columns=(
            _DATE,
            text("venue_id", "Venue that keeps the asset."),
            *_ASSET,
            *_SUMS,
            _PORTFOLIOS,
            _ACCOUNTS,
            text(
                "venue_name",
                "The venue's name for people; NULL where the list of venues does not have it.",
                nullable=True,
            ),
        ),
    ),
    Table(
        "holdings_by_asset",
        f"What there is of each asset, over all portfolios, venues and accounts. {_EXACT}",
        key=("snapshot_date", "asset_id", "is_custom_asset"),
        columns=(_DATE, *_ASSET, *_SUMS, _PORTFOLIOS, _ACCOUNTS, _VENUES),
    ),
)


# By table, the columns in the order in which they were born: the first has the id 1. A new column
# comes last, wherever it stands in its table; one that goes stays here, so that no id is used
# twice; one with a new name takes the place of its old one.
_BORN = {
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
    """Return a table as it lies in the lake: the snapshot's id beside its date."""
    if SNAPSHOT_ID in table.columns:
        return table
    first, *others = table.columns
    return replace(table, columns=(first, SNAPSHOT_ID, *others))


@cache
def field_ids(table: str) -> Mapping[str, int]:
    """Return the id of each column that a table of the lake has or had."""
    return {name: number for number, name in enumerate(_BORN[table].split(), start=1)}


# What of a snapshot lies staged until it is its date's book.
BOOK_FILES: tuple[Table, ...] = (*BOOK, *HOLDINGS)
LAKE: tuple[Table, ...] = tuple(lake_table(table) for table in (*BOOK_FILES, *NIGHTLY))


RULES = 4
"""Raised whenever the same landed bytes become other rows of the same columns.

1 was every lake whose manifests have no digest; since 3 an instrument that a venue names twice, and
not alike, is the same in any order of the list; since 4 every row names its snapshot, and every
column has its id.
"""


def lake_contract() -> str:
    """Return the digest of the lake: of its columns, and of the rules of their rows."""
    lines = [f"rules {RULES}"]
    lines += [
        f"{table.schema} {table.name} {column.name} {column.kind.value} {column.nullable} "
        f"{field_ids(table.name)[column.name]}"
        for table in LAKE
        for column in table.columns
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
