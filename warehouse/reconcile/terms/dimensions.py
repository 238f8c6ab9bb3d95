"""The dimensions of a key: what a break is told apart by, from the portfolio to the bucket.

The only list of them. Config, ledger, matching, workbook and `ops` take theirs from here.
"""

from dataclasses import dataclass

from warehouse.query.lookup_key import CUSTOM_MARK

# An asset that the organization defined itself may have the id of a listed one, so its key ends
# with a letter that nobody types; people see `BTC (custom)`.
CUSTOM = CUSTOM_MARK
_ASSET = f"asset_id || case when is_custom_asset then '{CUSTOM}' else '' end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One part of a key: its column in published tables, and the SQL that makes the key's part.

    `width` is that of its column where breaks are listed, `template_width` in the ledger template;
    one without the latter is not asked of a ledger. Of a `required` one no name may be blank.
    """

    column: str
    width: float
    expression: str = ""
    template_width: int = 0
    required: bool = False


DIMENSIONS = {
    "portfolio": Dimension(column="portfolio_id", width=10, template_width=24, required=True),
    "asset": Dimension(
        column="asset_id", width=6.5, expression=_ASSET, template_width=14, required=True
    ),
    "venue": Dimension(column="venue_id", width=9, template_width=20, required=True),
    "account": Dimension(column="account_name", width=10, template_width=28),
    "bucket": Dimension(column="bucket", width=9, expression="bucket || ' ' || state"),
}
FIELDS = tuple(DIMENSIONS)
LEDGER_FIELDS = tuple(name for name, known in DIMENSIONS.items() if known.template_width)
REQUIRED_NAMES = tuple(name for name, known in DIMENSIONS.items() if known.required)
WITH_IDS = ("portfolio", "venue")  # are shown by their names, with their ids beside them
TOTALLED = ("asset", "venue", "portfolio")  # in this order their totals are shown


# A firm's portfolio is told with its organisation, whose name has no such thing in it.
BETWEEN_SOURCE = " / "


def of_source(source: str, portfolio: str) -> str:
    """Return how a portfolio of one of a firm's organisations is told."""
    return f"{source}{BETWEEN_SOURCE}{portfolio}"


def key_expression(name: str) -> str:
    """Return the SQL of a dimension over the balances and accounts of a book."""
    return DIMENSIONS[name].expression or DIMENSIONS[name].column


def display_asset(key: str) -> str:
    """Return the key of an asset as people see it."""
    return f"{key[:-1]} (custom)" if key.endswith(CUSTOM) else key
