"""Every table of the book, declared once. The nights' own tables are in `ops`."""

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

BROKEN = "NULL where what the API sent breaks the contract: see ops.rejects."


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
            f"When the API says it was created, UTC, cut to microseconds. {BROKEN}",
        ),
        moment(
            "updated_at",
            f"{model}.updatedAt",
            f"When the API says it last changed, UTC, cut to microseconds. {BROKEN}",
        ),
    )


PORTFOLIO_ID = text("portfolio_id", "Portfolio.id", "Portfolio, as the API names it.")
ASSET_ID = text("asset_id", "Position.assetId", "Asset the position counts.")
IS_CUSTOM = flag(
    "is_custom_asset",
    "Position.isCustomAsset",
    "Whether the asset is one the organization defined itself.",
)
VENUE_ID = text("venue_id", "Venue.id", "Venue, as the API names it.")

PORTFOLIOS = Table(
    "portfolios",
    "One row per portfolio the key may see, also an empty one.",
    key=("snapshot_date", "portfolio_id"),
    resource="portfolios",
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        text_or_null("name", "Portfolio.name", "The portfolio's name."),
        ordinal_or_null(
            "position_count", "Portfolio.positions", "How many positions the API lists."
        ),
        ordinal(
            "integration_count",
            "Portfolio.integrations",
            "How many integrations the API lists; NULL when it sent no such key (2.10), 0 when "
            "the list was empty.",
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
        text("integration_id", "Integration.id", "Integration, as the API names it."),
        text_or_null("venue_id", "Integration.venueId", "Venue the portfolio is integrated with."),
        text_or_null(
            "status",
            "Integration.integrationStatus",
            "requested or verified; a new word is kept as it came.",
        ),
    ),
)

POSITIONS = Table(
    "positions",
    "One row per portfolio and asset, also one without accounts.",
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
            "How many accounts the API lists for the asset, over all positions of the same asset "
            "if it repeats one.",
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
        "0, and counting up only where the API repeats the same account of the same position; "
        "ordered by content, never by arrival.",
    ),
)
_ACCOUNT_NAMES = tuple(column.name for column in _ACCOUNT_KEY)

ACCOUNTS = Table(
    "accounts",
    "One row per account of a position, also one with an empty balance.",
    key=_ACCOUNT_NAMES,
    resource="portfolios",
    columns=(
        *_ACCOUNT_KEY,
        ordinal_or_null(
            "balance_count",
            "Account.balance",
            "How many amounts the account's balance states; 0 when it is empty.",
        ),
    ),
)

# The parts of a balance that the document knows (2.5): a bucket with its states. What is not here
# is money all the same: it has rows, is in every total, and counts as `other`.
KNOWN_BALANCES: dict[str, tuple[str, ...]] = {
    "trading": ("free", "locked"),
    "margin": ("locked",),
    "staking": ("locked",),
    "custody": ("free", "locked"),
}

BALANCES = Table(
    "balances",
    "One row per amount the API states: one part of the balance of one account.",
    key=(*_ACCOUNT_NAMES, "bucket", "state"),
    resource="portfolios",
    columns=(
        *_ACCOUNT_KEY,
        text(
            "bucket",
            "Account.balance",
            f"{', '.join(KNOWN_BALANCES)} (2.5); a kind the document does not know is kept under "
            "its own name.",
        ),
        text(
            "state",
            "Balance.*",
            "free or locked (2.5); an unknown field keeps its own name, one within another is "
            "joined to it by a dot (rewards.pending; a name that has a dot itself is in quotes), "
            "and an amount that stands where a part is expected is stated.",
        ),
        amount(
            "amount",
            "Balance.*.*",
            "The amount in the asset's own units; NULL where DECIMAL(38,18) cannot hold it "
            "exactly: then only amount_text has it, and ops.inexact lists it.",
        ),
        text("amount_text", "Balance.*.*", "The amount exactly as the API sent it: the truth."),
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
        text_or_null("display_name", "Venue.displayName", "The venue's name for people."),
        text_or_null(
            "trading_status",
            "Venue.tradingStatus",
            "trading, suspended or unsupported; a new word is kept as it came.",
        ),
        *_timestamp_columns("Venue"),
    ),
)

VENUE_TYPES = Table(
    "venue_types",
    "One row per venue and type it has.",
    key=("snapshot_date", "venue_id", "type"),
    resource="venues",
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        VENUE_ID,
        text("type", "Venue.type", "exchange, otc or custodian; a new word is kept as it came."),
    ),
)


def _constraint(name: str, field: str, meaning: str) -> Column:
    return amount(
        name,
        f"TradingConstraints.{field}",
        f"{meaning}; NULL where the API states none, where DECIMAL(38,18) cannot hold it exactly "
        "(see ops.inexact), or where it breaks the contract (see ops.rejects).",
    )


INSTRUMENTS = Table(
    "instruments",
    "One row per instrument that a venue trades; of one that no list has, only the venue itself, "
    "type and name alone are known (see ops.listings).",
    key=("snapshot_date", "venue_id", "instrument_id"),
    resource="instruments",
    columns=(
        SNAPSHOT_DATE,
        VENUE_ID,
        text("instrument_id", "Instrument.id", "Instrument, as the API names it."),
        text_or_null("type", "Instrument.type", "spot or future; a new word is kept as it came."),
        text_or_null("display_name", "Instrument.displayName", "Its name for people."),
        text_or_null("feed_id", "Instrument.feedId", "Its price feed."),
        text_or_null("venue_symbol", "Instrument.venueSymbol", "Its symbol at the venue."),
        text_or_null("base_asset", "Instrument.baseAsset", "Asset traded."),
        text_or_null("term_asset", "Instrument.termAsset", "Asset paid with."),
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
            "When a dated future expires, UTC; NULL when the API states none, or where it breaks "
            "the contract (see ops.rejects).",
        ),
        *_timestamp_columns("Instrument"),
        day(
            "stale_since",
            "snapshot",
            "NULL when read tonight; otherwise the date of the last good read of this venue's "
            "instruments, whose rows were carried over because tonight's request failed, or its "
            "lists were empty all at once (for a week; then an empty venue is believed).",
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
