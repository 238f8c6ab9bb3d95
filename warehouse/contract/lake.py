"""The tables of the lake: those of the book with their snapshot in every row, and all field ids.

A file stands for itself in any engine: a table format that registers it reads the night from its
rows, and knows a column by its id, whatever its name is or becomes.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from warehouse.contract.book import BOOK
from warehouse.contract.holdings import HOLDINGS
from warehouse.contract.model import Table
from warehouse.contract.ops import NIGHTLY
from warehouse.contract.ops_columns import SNAPSHOT_ID

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
