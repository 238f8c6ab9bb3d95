"""The transactions that explain how the world changed between two days.

The API has no transactions, so the sandbox does not serve them. The demo drops them as a file.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext

from pipelines.sandbox.world.assets import draw, pick
from pipelines.sandbox.world.world import World

COLUMNS = (
    *("time", "portfolio", "venue", "account", "asset_id", "is_custom_asset"),
    *("amount_text", "kind", "reference"),
)
_DIGITS = 60
_IN, _OUT = ("trade", "transfer", "deposit", "reward"), ("trade", "transfer", "withdrawal")
_Key = tuple[str, str, str, str, bool]


def transactions(
    before: World, after: World, start: datetime, end: datetime
) -> Iterator[dict[str, str]]:
    """Yield transactions from `start` to `end` that add up to the difference of two worlds.

    Each is a row with `COLUMNS`. Some differences are several transactions, and some have a fee.
    """
    with localcontext(prec=_DIGITS):
        opening, closing = _amounts(before), _amounts(after)
        for key in sorted(opening.keys() | closing.keys()):
            moved = closing[key] - opening[key]
            seed = (*key, start.isoformat())
            for number, (kind, amount) in enumerate(_parts(moved, seed)):
                portfolio, venue, account, asset, is_custom = key
                seconds = draw("second", *seed, number) % int((end - start).total_seconds())
                time = (start + timedelta(seconds=seconds)).astimezone(UTC)
                row = (time.isoformat(), portfolio, venue, account, asset)
                reference = f"{draw('reference', *seed, number):016x}"
                cells = (*row, str(is_custom).lower(), f"{amount:f}", kind, reference)
                yield dict(zip(COLUMNS, cells, strict=True))


def _amounts(world: World) -> defaultdict[_Key, Decimal]:
    """Return the total of each account and asset."""
    totals = defaultdict[_Key, Decimal](Decimal)
    for portfolio in world.portfolios:
        for position in portfolio["positions"]:
            for account in position["accounts"]:
                key = (
                    *(portfolio["id"], account["venueId"], account["name"]),
                    *(position["assetId"], position["isCustomAsset"]),
                )
                for states in account["balance"].values():
                    totals[key] += sum(map(Decimal, states.values()))
    return totals


def _parts(moved: Decimal, seed: tuple[object, ...]) -> Iterator[tuple[str, Decimal]]:
    """Split an amount into one or two transactions, and for some amounts a fee."""
    if not moved:
        return
    unit = Decimal(1).scaleb(int(moved.as_tuple().exponent))
    fee = unit * (1 + draw("fee", *seed) % 97) if draw("has fee", *seed) % 4 == 0 else Decimal()
    first = ((moved + fee) / 3).quantize(unit) if draw("parts", *seed) % 3 == 0 else Decimal()
    for number, amount in enumerate((first, moved + fee - first)):
        if amount:
            yield pick(_IN if amount > 0 else _OUT, "kind", *seed, number), amount
    if fee:
        yield "fee", -fee
