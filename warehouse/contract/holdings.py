"""What is held, added up: the tables of the lake that nobody needs to add up elsewhere.

They are made from those of the book by the engine that sums exactly, and are the views of the same
names in the database, night by night; their words are those of `warehouse/sql/views`.
"""

from functools import partial

from warehouse.contract.model import Column, Kind, Table
from warehouse.contract.ops_columns import count, day, flag, text

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
