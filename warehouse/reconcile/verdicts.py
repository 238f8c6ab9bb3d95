"""What is said of each odd key, in Python's decimals of any length: results and placements."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from warehouse.reconcile.amounts import EXACT, FLOAT_DIGITS, exact, plain
from warehouse.reconcile.book import shown_asset
from warehouse.reconcile.config import Config
from warehouse.reconcile.match import Pair, Result

_DOUBLES = 300  # powers of ten that a double holds at full precision
_SHOWN = Context(prec=FLOAT_DIGITS, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6))


@dataclass(frozen=True, slots=True)
class Judged:
    """An odd key with its result, the rule that decided, and where its break nets to zero.

    `difference` is ledger less snapshot, exact; a missing side counts as zero.
    """

    pair: Pair
    result: Result
    difference: Decimal
    rule: str = ""
    placement: str = ""


@dataclass(frozen=True, slots=True)
class Court:
    """What a verdict depends on besides the two amounts."""

    fields: tuple[str, ...]
    config: Config
    delivered: frozenset[str]
    known: Mapping[str, object]
    rejected: frozenset[tuple[str, ...]]


def judged(pairs: Iterable[Pair], court: Court) -> list[Judged]:
    """The verdict on every odd key, and then which breaks are only misplaced."""
    return list(_placed([_judged(pair, court) for pair in pairs], court.fields))


def _judged(pair: Pair, court: Court) -> Judged:
    difference = EXACT.subtract(exact(pair.ledger or "0"), exact(pair.snapshot or "0"))
    early = _by_key(pair, court)
    if early is not None:
        return Judged(pair, early, difference)
    if pair.ledger is None or pair.snapshot is None:
        if difference == 0:
            return Judged(pair, Result.MATCHED_ZERO, difference)
        missing = Result.NOT_IN_LEDGER if pair.ledger is None else Result.NOT_IN_SNAPSHOT
        return Judged(pair, missing, difference)
    result, rule = _by_amount(pair, court, difference)
    return Judged(pair, result, difference, rule)


def _by_key(pair: Pair, court: Court) -> Result | None:
    if pair.key in court.rejected:
        return Result.REJECTED
    if pair.is_unmapped:
        return Result.UNMAPPED
    if "portfolio" in court.fields and pair.snapshot is None:
        portfolio = pair.key[court.fields.index("portfolio")]
        if portfolio in court.known and portfolio not in court.delivered:
            return Result.NOT_DELIVERED
    return None


def _by_amount(pair: Pair, court: Court, difference: Decimal) -> tuple[Result, str]:
    precision = _precision(pair, court.config)
    if precision:
        return Result.PRECISION, precision
    limit, rule = _tolerance(pair, court)
    if abs(difference) <= limit:
        return Result.TOLERANCE, rule
    return Result.DIFFERS, rule


def _precision(pair: Pair, config: Config) -> str:
    """How a ledger that keeps fewer digits holds the snapshot's amount, if it does."""
    if config.ledger_rounding == "off" or pair.rows != 1:
        return ""
    ledger, snapshot = exact(pair.ledger or "0"), exact(pair.snapshot or "0")
    if pair.is_number:
        return f"{FLOAT_DIGITS} digits of a number cell" * (ledger in _as_number(snapshot))
    unit = Decimal(1).scaleb(-pair.decimals, EXACT)
    near = 2 * abs(EXACT.subtract(ledger, snapshot)) <= unit
    if config.ledger_rounding == "written" and near:
        return f"{pair.decimals} decimals written"
    return ""


def _as_number(amount: Decimal) -> tuple[Decimal, ...]:
    """What a number cell may show of an amount that was put into it.

    A cell holds the nearest double, which some programs write with 16 digits only; where an amount
    lies in the middle between two shown numbers, that decides which of them is seen.
    """
    nearest = float(amount) if abs(amount.adjusted()) < _DOUBLES else math.inf
    if not math.isfinite(nearest):
        return (_SHOWN.plus(amount),)
    doubles = (nearest, float(format(nearest, ".16g")))
    return (
        _SHOWN.plus(amount),
        *(exact(format(one, f".{FLOAT_DIGITS}g")) for one in doubles),
    )


def _tolerance(pair: Pair, court: Court) -> tuple[Decimal, str]:
    """The larger of the absolute and the relative tolerance, and its words."""
    config = court.config
    asset = pair.key[court.fields.index("asset")]
    absolute = config.per_asset.get(asset, config.absolute)
    relative = EXACT.multiply(config.relative, abs(exact(pair.snapshot or "0")))
    if relative > absolute:
        return relative, f"relative {plain(config.relative)}"
    if absolute == 0:
        return Decimal(-1), "none"
    whose = f" for {shown_asset(asset)}" if asset in config.per_asset else ""
    return absolute, f"absolute {plain(absolute)}{whose}"


def _placed(given: Sequence[Judged], fields: tuple[str, ...]) -> Iterator[Judged]:
    """Breaks that add up to nothing within an account, a venue or an asset are misplacements."""
    placement: dict[int, str] = {}
    for depth in range(len(fields) - 1, 0, -1):
        level = fields[:depth]
        if "asset" not in level:
            break
        groups: defaultdict[tuple[str, ...], list[Judged]] = defaultdict(list)
        for one in given:
            if one.result.is_break and one.pair.no not in placement:
                groups[one.pair.key[:depth]].append(one)
        for group in groups.values():
            if len(group) > 1 and _nets(group):
                placement |= {one.pair.no: level[-1] for one in group}
    for one in given:
        where = placement.get(one.pair.no, "")
        yield Judged(one.pair, one.result, one.difference, one.rule, where) if where else one


def _nets(group: Sequence[Judged]) -> bool:
    if any(one.result is Result.REJECTED for one in group):
        return False
    summed = Decimal(0)
    for one in group:
        summed = EXACT.add(summed, one.difference)
    return summed == 0
