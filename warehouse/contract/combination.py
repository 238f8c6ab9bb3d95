"""The tables that only a file with the books of several homes has, and the names that it lacks."""

from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.ops import SNAPSHOT_ID, flag, ops_table, text

# The views, macros and checks of a home that need its history or its ops tables.
LEFT_OUT = (
    *("asset_moves", "attention", "changes", "drift", "findings", "freshness"),
    *("instrument_history", "integration_history", "portfolio_history", "roll_forward"),
    *("tradable_instruments", "venue_history", "accounts_before", "balances_before"),
    *("instruments_before", "portfolios_before", "account_balances_as_of", "balances_as_of"),
    *("changes_between", "holdings_as_of", "holdings_by_asset_as_of", "holdings_by_venue_as_of"),
    *("asset_values", "holdings_value", "holdings_value_as_of", "prices_as_of", "valid_prices"),
    *("value_by_asset", "value_by_label", "value_by_night", "value_by_portfolio"),
    *("value_by_venue", "value_changes_between", "value_groups", "cross_pairs"),
    *("movement_between", "transactions_between"),
    *("known_at", "restated_since", "roll_forward_between", "totals_known_at", "trace"),
)
CHECKS_LEFT_OUT = ("drift", "holdings")
SOURCE = text("source", "Name of the home. By default, this is the name of its folder.")
SOURCES = ops_table(
    "sources",
    "One row for each home, with the book that was copied. The file does not have these views and "
    f"macros of a home, because they need its history or ops tables: {', '.join(LEFT_OUT)}. For "
    f"the same reason, the file was not checked with {' and '.join(CHECKS_LEFT_OUT)}. It also "
    "has no old books (reference.positions).",
    (SOURCE.name,),
    (
        SOURCE,
        text("home", "Folder of the home."),
        *(SNAPSHOT_DATE, SNAPSHOT_ID),
        text("version", "Version of the home's warehouse from which the book was copied."),
        text("origin", "Address of the API from which the home read the book."),
    ),
)
SHARED = ops_table(
    "shared",
    "One row for each portfolio, venue and instrument of a home that is in the file with the rows "
    "of an earlier home, and for each home that has a custom asset with the ID of another home's. "
    "Such assets may be different, but views by asset add up their amounts.",
    ("kind", "venue_id", "id", SOURCE.name),
    (
        text("kind", "portfolio, venue, instrument or custom asset."),
        text("venue_id", "Venue of an instrument. Empty for other kinds."),
        text("id", "ID of the portfolio, venue, instrument or custom asset."),
        SOURCE,
    ),
)
HOLDING_VALUES = ops_table(
    "holding_values",
    "One row for each holding of a home that has the setting NIGHTBOOK_CURRENCY, with its value at "
    "the prices of this home. Homes may have different currencies.",
    ("portfolio_id", "asset_id", "is_custom_asset"),
    (
        SOURCE,
        text("portfolio_id", "ID of the portfolio."),
        text("asset_id", "ID of the asset."),
        flag("is_custom_asset", "Whether the organisation defined the asset itself."),
        text("currency", "Unit of the price and the value."),
        text("price_text", "Price of 1 unit. NULL if there is none.", nullable=True),
        text("price_state", "priced, stale or missing."),
        text("value_text", "Exact value. NULL if there is no valid price.", nullable=True),
    ),
)
