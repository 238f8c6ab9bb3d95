"""The tables of the book. The tables about nights are in `warehouse.contract.ops`."""

from functools import partial

from warehouse.contract.model import Column, Kind, Table


def _column(kind: Kind, name: str, source: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name=name, kind=kind, source=source, meaning=meaning, nullable=nullable)


text = partial(_column, Kind.TEXT)
amount = partial(_column, Kind.AMOUNT, nullable=True)
flag = partial(_column, Kind.FLAG)
ordinal = partial(_column, Kind.ORDINAL)
day = partial(_column, Kind.DAY)
moment = partial(_column, Kind.MOMENT, nullable=True)

BROKEN = "NULL if the API sent an invalid value (see ops.rejects)."


def _column_or_null(kind: Kind, name: str, source: str, meaning: str) -> Column:
    return Column(name=name, kind=kind, source=source, meaning=f"{meaning} {BROKEN}", nullable=True)


text_or_null = partial(_column_or_null, Kind.TEXT)
ordinal_or_null = partial(_column_or_null, Kind.ORDINAL)
SNAPSHOT_DATE = day(
    "snapshot_date",
    "snapshot",
    "Business date of the snapshot, which is the date in NIGHTBOOK_TIMEZONE when the read began.",
)


def _timestamp_columns(model: str) -> tuple[Column, Column]:
    return (
        moment(
            "created_at",
            f"{model}.createdAt",
            f"Creation time according to the API, UTC, truncated to microseconds. {BROKEN}",
        ),
        moment(
            "updated_at",
            f"{model}.updatedAt",
            "Time of the last change according to the API, UTC, truncated to microseconds. "
            f"{BROKEN}",
        ),
    )


PORTFOLIO_ID = text("portfolio_id", "Portfolio.id", "ID of the portfolio in the API.")
ASSET_ID = text("asset_id", "Position.assetId", "Asset of the position.")
IS_CUSTOM = flag(
    "is_custom_asset",
    "Position.isCustomAsset",
    "Whether the organisation defined the asset itself.",
)
VENUE_ID = text("venue_id", "Venue.id", "ID of the venue in the API.")

PORTFOLIOS = Table(
    "portfolios",
    "One row for each portfolio that the API key can see, including empty portfolios.",
    key=("snapshot_date", "portfolio_id"),
    resource="portfolios",
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        text_or_null("name", "Portfolio.name", "The portfolio's name."),
        ordinal_or_null(
            "position_count",
            "Portfolio.positions",
            "Number of positions that the API lists for the portfolio.",
        ),
        ordinal(
            "integration_count",
            "Portfolio.integrations",
            "Number of integrations that the API lists for the portfolio. NULL if the response "
            "does not have the key `integrations`, and 0 if the list is empty.",
            nullable=True,
        ),
        *_timestamp_columns("Portfolio"),
    ),
)

INTEGRATIONS = Table(
    "integrations",
    "One row for each integration between a portfolio and a venue.",
    key=("snapshot_date", "portfolio_id", "integration_id"),
    resource="portfolios",
    columns=(
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        text("integration_id", "Integration.id", "ID of the integration in the API."),
        text_or_null("venue_id", "Integration.venueId", "Venue of the integration."),
        text_or_null(
            "status",
            "Integration.integrationStatus",
            "Status of the integration: requested or verified. An undocumented status is kept "
            "unchanged.",
        ),
    ),
)

POSITIONS = Table(
    "positions",
    "One row for each portfolio and asset, including positions without accounts.",
    key=("snapshot_date", "portfolio_id", "asset_id", "is_custom_asset"),
    resource="portfolios",
    columns=(
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        ASSET_ID,
        IS_CUSTOM,
        ordinal_or_null(
            "account_count",
            "Position.accounts",
            "Number of accounts that the API lists for the asset. If a portfolio has several "
            "positions in the asset, this is the sum over these positions.",
        ),
    ),
)

_ACCOUNT_KEY = (
    SNAPSHOT_DATE,
    PORTFOLIO_ID,
    ASSET_ID,
    IS_CUSTOM,
    text("venue_id", "Account.venueId", "Venue of the account."),
    text("account_name", "Account.name", "Name of the account at the venue."),
    ordinal(
        "duplicate_no",
        "Account",
        "Usually 0. If the API lists an account of a position more than once, the repetitions are "
        "numbered 1, 2 and so on. They are sorted by content, not by position in the response.",
    ),
)
_ACCOUNT_NAMES = tuple(column.name for column in _ACCOUNT_KEY)

ACCOUNTS = Table(
    "accounts",
    "One row for each account of a position, including accounts with an empty balance.",
    key=_ACCOUNT_NAMES,
    resource="portfolios",
    columns=(
        *_ACCOUNT_KEY,
        ordinal_or_null(
            "balance_count",
            "Account.balance",
            "Number of amounts in the account's balance. 0 if the balance is empty.",
        ),
    ),
)

# The documented parts of a balance (section 2.5 of the API document): buckets and their states.
# Undocumented amounts are money too, so they have rows, are included in all totals, and count as
# `other`.
KNOWN_BALANCES: dict[str, tuple[str, ...]] = {
    "trading": ("free", "locked"),
    "margin": ("locked",),
    "staking": ("locked",),
    "custody": ("free", "locked"),
}

BALANCES = Table(
    "balances",
    "One row for each amount that the API sends. An amount is one part of an account's balance.",
    key=(*_ACCOUNT_NAMES, "bucket", "state"),
    resource="portfolios",
    columns=(
        *_ACCOUNT_KEY,
        text(
            "bucket",
            "Account.balance",
            f"Balance kind: {', '.join(KNOWN_BALANCES)}, or the API's name for an undocumented "
            "kind.",
        ),
        text(
            "state",
            "Balance.*",
            "Name of the field with the amount: free or locked, or the API's name for an "
            "undocumented field. The names of nested fields are joined by dots (rewards.pending), "
            "and a name that contains a dot is in quotes. If the API sends an amount instead of an "
            "object, the state is `stated`.",
        ),
        amount(
            "amount",
            "Balance.*.*",
            "Amount in units of the asset. NULL if DECIMAL(38,18) cannot hold the amount "
            "exactly. In this case, use amount_text. ops.inexact lists these amounts.",
        ),
        text("amount_text", "Balance.*.*", "Exact amount, as the API sent it."),
    ),
)

VENUES = Table(
    "venues",
    "One row for each venue.",
    key=("snapshot_date", "venue_id"),
    resource="venues",
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        VENUE_ID,
        text_or_null("display_name", "Venue.displayName", "Display name of the venue."),
        text_or_null(
            "trading_status",
            "Venue.tradingStatus",
            "Trading status of the venue: trading, suspended or unsupported. An undocumented "
            "status is kept unchanged.",
        ),
        *_timestamp_columns("Venue"),
    ),
)

VENUE_TYPES = Table(
    "venue_types",
    "One row for each venue and type. A venue can have several types.",
    key=("snapshot_date", "venue_id", "type"),
    resource="venues",
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        VENUE_ID,
        text(
            "type",
            "Venue.type",
            "Type of the venue: exchange, otc or custodian. An undocumented type is kept "
            "unchanged.",
        ),
    ),
)


def _constraint(name: str, field: str, meaning: str) -> Column:
    return amount(
        name,
        f"TradingConstraints.{field}",
        f"{meaning}. NULL if the API sends no value, if DECIMAL(38,18) cannot hold the value "
        "exactly (see ops.inexact), or if the value is invalid (see ops.rejects).",
    )


INSTRUMENTS = Table(
    "instruments",
    "One row for each instrument that a venue trades. If an instrument is listed under its venue "
    "but not in the list of instruments, only its type and name are known (see "
    "ops.listings).",
    key=("snapshot_date", "venue_id", "instrument_id"),
    resource="instruments",
    columns=(
        SNAPSHOT_DATE,
        VENUE_ID,
        text("instrument_id", "Instrument.id", "ID of the instrument in the API."),
        text_or_null(
            "type",
            "Instrument.type",
            "Type of the instrument: spot or future. An undocumented type is kept unchanged.",
        ),
        text_or_null("display_name", "Instrument.displayName", "Display name of the instrument."),
        text_or_null("feed_id", "Instrument.feedId", "ID of the price feed."),
        text_or_null(
            "venue_symbol", "Instrument.venueSymbol", "Symbol of the instrument at the venue."
        ),
        text_or_null("base_asset", "Instrument.baseAsset", "Asset that is traded."),
        text_or_null("term_asset", "Instrument.termAsset", "Asset that the price is expressed in."),
        _constraint("min_base_qty", "minBaseQty", "Smallest order in units of the base asset"),
        _constraint("max_base_qty", "maxBaseQty", "Largest order in units of the base asset"),
        _constraint("min_base_increment", "minBaseIncrement", "Smallest step of the order size"),
        _constraint("min_term_qty", "minTermQty", "Smallest order in units of the term asset"),
        _constraint("min_price", "minPrice", "Lowest price"),
        _constraint("max_price", "maxPrice", "Highest price"),
        _constraint("min_tick", "minTick", "Smallest step of the price"),
        moment(
            "expiration",
            "Instrument.expiration",
            "When a dated future expires, UTC. NULL if the API sends no expiration, or if the "
            "value is invalid (see ops.rejects).",
        ),
        *_timestamp_columns("Instrument"),
        day(
            "stale_since",
            "snapshot",
            "NULL if the venue's instruments were read on this night. Otherwise, the rows were "
            "carried over from the date in this column, because the request failed or because "
            "all lists of the venue were suddenly empty. Empty lists are accepted after a week.",
            nullable=True,
        ),
    ),
)

BOOK: tuple[Table, ...] = (
    PORTFOLIOS,
    INTEGRATIONS,
    POSITIONS,
    ACCOUNTS,
    BALANCES,
    VENUES,
    VENUE_TYPES,
    INSTRUMENTS,
)
