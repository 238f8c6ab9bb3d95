"""The tables of the book. The tables about nights are in `ops`."""

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

BROKEN = "NULL if the value of the API breaks the contract (see ops.rejects)."


def _column_or_null(kind: Kind, name: str, source: str, meaning: str) -> Column:
    return Column(name=name, kind=kind, source=source, meaning=f"{meaning} {BROKEN}", nullable=True)


text_or_null = partial(_column_or_null, Kind.TEXT)
ordinal_or_null = partial(_column_or_null, Kind.ORDINAL)
SNAPSHOT_DATE = day(
    "snapshot_date",
    "snapshot",
    "Business date of the snapshot's start, in NIGHTBOOK_TIMEZONE.",
)


def _timestamp_columns(model: str) -> tuple[Column, Column]:
    return (
        moment(
            "created_at",
            f"{model}.createdAt",
            f"Creation time in the API, UTC, truncated to microseconds. {BROKEN}",
        ),
        moment(
            "updated_at",
            f"{model}.updatedAt",
            f"Time of the last change in the API, UTC, truncated to microseconds. {BROKEN}",
        ),
    )


PORTFOLIO_ID = text("portfolio_id", "Portfolio.id", "The portfolio's id in the API.")
ASSET_ID = text("asset_id", "Position.assetId", "The asset of the position.")
IS_CUSTOM = flag(
    "is_custom_asset",
    "Position.isCustomAsset",
    "Whether the organization defined the asset itself.",
)
VENUE_ID = text("venue_id", "Venue.id", "The venue's id in the API.")

PORTFOLIOS = Table(
    "portfolios",
    "One row per portfolio that the API key can see, including empty ones.",
    key=("snapshot_date", "portfolio_id"),
    resource="portfolios",
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        text_or_null("name", "Portfolio.name", "The portfolio's name."),
        ordinal_or_null(
            "position_count", "Portfolio.positions", "Number of positions that the API lists."
        ),
        ordinal(
            "integration_count",
            "Portfolio.integrations",
            "Number of integrations that the API lists. NULL if it did not send the key (2.10), 0 "
            "if the list was empty.",
            nullable=True,
        ),
        *_timestamp_columns("Portfolio"),
    ),
)

INTEGRATIONS = Table(
    "integrations",
    "One row per venue integration of a portfolio.",
    key=("snapshot_date", "portfolio_id", "integration_id"),
    resource="portfolios",
    columns=(
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        text("integration_id", "Integration.id", "The integration's id in the API."),
        text_or_null("venue_id", "Integration.venueId", "The venue of the integration."),
        text_or_null(
            "status",
            "Integration.integrationStatus",
            "requested or verified. A new value is kept unchanged.",
        ),
    ),
)

POSITIONS = Table(
    "positions",
    "One row per portfolio and asset, including positions without accounts.",
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
            "Number of accounts that the API lists for the asset. If it repeats the asset, the sum "
            "over all its positions.",
        ),
    ),
)

_ACCOUNT_KEY = (
    SNAPSHOT_DATE,
    PORTFOLIO_ID,
    ASSET_ID,
    IS_CUSTOM,
    text("venue_id", "Account.venueId", "Venue that keeps the account."),
    text("account_name", "Account.name", "The account's name at the venue."),
    ordinal(
        "duplicate_no",
        "Account",
        "0. If the API repeats an account of a position, the repetitions have 1, 2 and so on, "
        "ordered by content and never by arrival.",
    ),
)
_ACCOUNT_NAMES = tuple(column.name for column in _ACCOUNT_KEY)

ACCOUNTS = Table(
    "accounts",
    "One row per account of a position, including accounts with an empty balance.",
    key=_ACCOUNT_NAMES,
    resource="portfolios",
    columns=(
        *_ACCOUNT_KEY,
        ordinal_or_null(
            "balance_count",
            "Account.balance",
            "Number of amounts in the account's balance. 0 if it is empty.",
        ),
    ),
)

# The documented parts of a balance (2.5): buckets and their states. Other amounts are money too, so
# they have rows, are included in all totals, and count as `other`.
KNOWN_BALANCES: dict[str, tuple[str, ...]] = {
    "trading": ("free", "locked"),
    "margin": ("locked",),
    "staking": ("locked",),
    "custody": ("free", "locked"),
}

BALANCES = Table(
    "balances",
    "One row per amount in the API: one part of the balance of one account.",
    key=(*_ACCOUNT_NAMES, "bucket", "state"),
    resource="portfolios",
    columns=(
        *_ACCOUNT_KEY,
        text(
            "bucket",
            "Account.balance",
            f"{', '.join(KNOWN_BALANCES)} (2.5). An undocumented kind keeps its own name.",
        ),
        text(
            "state",
            "Balance.*",
            "free or locked (2.5). An unknown field keeps its own name. The names of nested fields "
            "are joined by a dot (rewards.pending), and a name with a dot is in quotes. An amount "
            "in place of an object has the state `stated`.",
        ),
        amount(
            "amount",
            "Balance.*.*",
            "The amount in the asset's own units. NULL if DECIMAL(38,18) cannot hold it exactly. "
            "Then only amount_text has it, and ops.inexact lists it.",
        ),
        text("amount_text", "Balance.*.*", "The exact amount, as the API sent it."),
    ),
)

VENUES = Table(
    "venues",
    "One row per venue.",
    key=("snapshot_date", "venue_id"),
    resource="venues",
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        VENUE_ID,
        text_or_null("display_name", "Venue.displayName", "The venue's display name."),
        text_or_null(
            "trading_status",
            "Venue.tradingStatus",
            "trading, suspended or unsupported. A new value is kept unchanged.",
        ),
        *_timestamp_columns("Venue"),
    ),
)

VENUE_TYPES = Table(
    "venue_types",
    "One row per venue and type.",
    key=("snapshot_date", "venue_id", "type"),
    resource="venues",
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        VENUE_ID,
        text("type", "Venue.type", "exchange, otc or custodian. A new value is kept unchanged."),
    ),
)


def _constraint(name: str, field: str, meaning: str) -> Column:
    return amount(
        name,
        f"TradingConstraints.{field}",
        f"{meaning}. NULL if the API states none, if DECIMAL(38,18) cannot hold it exactly (see "
        "ops.inexact), or if it breaks the contract (see ops.rejects).",
    )


INSTRUMENTS = Table(
    "instruments",
    "One row per instrument that a venue trades. If no list has it but only the venue, just its "
    "type and name are known (see ops.listings).",
    key=("snapshot_date", "venue_id", "instrument_id"),
    resource="instruments",
    columns=(
        SNAPSHOT_DATE,
        VENUE_ID,
        text("instrument_id", "Instrument.id", "The instrument's id in the API."),
        text_or_null("type", "Instrument.type", "spot or future. A new value is kept unchanged."),
        text_or_null("display_name", "Instrument.displayName", "Its display name."),
        text_or_null("feed_id", "Instrument.feedId", "Its price feed."),
        text_or_null("venue_symbol", "Instrument.venueSymbol", "Its symbol at the venue."),
        text_or_null("base_asset", "Instrument.baseAsset", "The asset that is traded."),
        text_or_null("term_asset", "Instrument.termAsset", "The asset of the price."),
        _constraint("min_base_qty", "minBaseQty", "Smallest order, in base asset"),
        _constraint("max_base_qty", "maxBaseQty", "Largest order, in base asset"),
        _constraint("min_base_increment", "minBaseIncrement", "Step of the order size"),
        _constraint("min_term_qty", "minTermQty", "Smallest order, in term asset"),
        _constraint("min_price", "minPrice", "Lowest price"),
        _constraint("max_price", "maxPrice", "Highest price"),
        _constraint("min_tick", "minTick", "Step of the price"),
        moment(
            "expiration",
            "Instrument.expiration",
            "When a dated future expires, UTC. NULL if the API states none, or if it breaks the "
            "contract (see ops.rejects).",
        ),
        *_timestamp_columns("Instrument"),
        day(
            "stale_since",
            "snapshot",
            "NULL if read tonight. Otherwise the date of the last good read of this venue's "
            "instruments. Its rows were carried over because tonight's request failed, or because "
            "all its lists were suddenly empty. Empty lists are accepted after a week.",
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
