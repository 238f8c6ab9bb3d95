"""What is said of each odd key, in Python's decimals of any length: results and placements."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal

from warehouse.exact import EXACT, exact, plain
from warehouse.reconcile.config import Config
from warehouse.reconcile.dimensions import display_asset
from warehouse.reconcile.ledger.amounts import FLOAT_DIGITS
from warehouse.reconcile.matching.join import Pair, Result

OVER = "but in sum too much is forgiven"
_WRITTEN = "decimals written"
_SEVERAL = 3  # keys: below, what tolerance forgives is looked at one by one
_DOUBLES = 300  # powers of ten that a double holds at full precision
_SHOWN = Context(prec=FLOAT_DIGITS, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6))


@dataclass(frozen=True, slots=True)
class ClassifiedPair:
    """An odd key with its result, the rule that decided, and where its break nets to zero.

    `difference` is ledger less snapshot, exact; a missing side counts as zero. `allowed` is what a
    tolerance forgives in this key alone.
    """

    pair: Pair
    result: Result
    difference: Decimal
    rule: str = ""
    placement: str = ""
    allowed: Decimal = Decimal(0)

    @property
    def is_forgiven(self) -> bool:
        """Return whether a setting made it no break; what a number cell cannot hold is none."""
        is_written = self.result is Result.PRECISION and self.rule.endswith(_WRITTEN)
        return self.result is Result.TOLERANCE or is_written


@dataclass(frozen=True, slots=True)
class MatchRules:
    """What a verdict depends on besides the two amounts; `totals` are the book's by asset."""

    fields: tuple[str, ...]
    config: Config
    delivered: frozenset[str]
    known: Mapping[str, object]
    rejected: frozenset[tuple[str, ...]]
    totals: Mapping[str, Decimal] = field(default_factory=dict)

    def asset(self, classified: ClassifiedPair) -> str:
        """Return the asset of a key."""
        return classified.pair.key[self.fields.index("asset")]


def classify(pairs: Iterable[Pair], court: MatchRules) -> list[ClassifiedPair]:
    """The verdict on every odd key, and then which breaks are only misplaced."""
    given = apply_limits([_classify_pair(pair, court) for pair in pairs], court)
    return list(_mark_misplacements(given, court.fields))


def apply_limits(given: Sequence[ClassifiedPair], court: MatchRules) -> list[ClassifiedPair]:
    """Return the verdicts, where what was forgiven in sum is too much as breaks.

    A tolerance is meant for noise, and of noise the sum is small: a thousandth that is missing in
    every key is missing in the whole.
    """
    sums = forgiven(given, court)
    over = {asset for asset, classified in sums.items() if classified.is_over(court.config.limit)}
    keys = sum(classified.keys for classified in sums.values())
    shares = sum((classified.share for classified in sums.values()), Decimal(0))
    mean = shares / max(len(court.totals), 1)
    is_over = keys >= _SEVERAL and mean > court.config.limit_in_all
    return [
        replace(classified, result=Result.DIFFERS, rule=f"{classified.rule}, {OVER}")
        if classified.is_forgiven and (is_over or court.asset(classified) in over)
        else classified
        for classified in given
    ]


@dataclass(frozen=True, slots=True)
class Forgiven:
    """What tolerance forgave of one asset in all its keys together, whatever the sign."""

    keys: int
    amount: Decimal
    total: Decimal
    largest: Decimal

    @property
    def share(self) -> Decimal:
        """Return its part of all that the book has of the asset."""
        return self.amount / self.total if self.total else Decimal(self.amount != 0)

    def is_over(self, limit: Decimal) -> bool:
        """Return whether it is more than one key alone may differ by, and than the limit."""
        return self.amount > max(self.largest, EXACT.multiply(limit, self.total))


def forgiven(given: Iterable[ClassifiedPair], court: MatchRules) -> dict[str, Forgiven]:
    """Return what was forgiven by asset."""
    sums: dict[str, Forgiven] = {}
    for classified in given:
        if classified.is_forgiven:
            asset = court.asset(classified)
            total = court.totals.get(asset, Decimal(0))
            last = sums.get(asset, Forgiven(0, Decimal(0), total, Decimal(0)))
            amount = EXACT.add(last.amount, abs(classified.difference))
            largest = max(last.largest, classified.allowed, key=abs)
            sums[asset] = Forgiven(last.keys + 1, amount, total, largest)
    return sums


def _classify_pair(pair: Pair, court: MatchRules) -> ClassifiedPair:
    difference = EXACT.subtract(exact(pair.ledger or "0"), exact(pair.snapshot or "0"))
    early = _by_key(pair, court)
    if early is not None:
        return ClassifiedPair(pair, early, difference)
    if pair.ledger is None or pair.snapshot is None:
        if difference == 0:
            return ClassifiedPair(pair, Result.MATCHED_ZERO, difference)
        missing = Result.NOT_IN_LEDGER if pair.ledger is None else Result.NOT_IN_SNAPSHOT
        return ClassifiedPair(pair, missing, difference)
    result, rule, allowed = _by_amount(pair, court, difference)
    return ClassifiedPair(pair, result, difference, rule, "", allowed)


def _by_key(pair: Pair, court: MatchRules) -> Result | None:
    if pair.key in court.rejected:
        return Result.REJECTED
    if pair.is_unmapped:
        return Result.UNMAPPED
    if "portfolio" in court.fields and pair.snapshot is None:
        portfolio = pair.key[court.fields.index("portfolio")]
        if portfolio in court.known and portfolio not in court.delivered:
            return Result.NOT_DELIVERED
    return None


def _by_amount(pair: Pair, court: MatchRules, difference: Decimal) -> tuple[Result, str, Decimal]:
    precision = _precision(pair, court.config)
    if precision:
        return Result.PRECISION, precision, abs(difference)
    limit, rule = _tolerance(pair, court)
    if abs(difference) <= limit:
        return Result.TOLERANCE, rule, limit
    return Result.DIFFERS, rule, Decimal(0)


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
        return f"{pair.decimals} {_WRITTEN}"
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
        *(exact(format(side, f".{FLOAT_DIGITS}g")) for side in doubles),
    )


def _tolerance(pair: Pair, court: MatchRules) -> tuple[Decimal, str]:
    """The larger of the absolute and the relative tolerance, and its words."""
    config = court.config
    asset = pair.key[court.fields.index("asset")]
    absolute = config.per_asset.get(asset, config.absolute)
    relative = EXACT.multiply(config.relative, abs(exact(pair.snapshot or "0")))
    if relative > absolute:
        return relative, f"relative {plain(config.relative)}"
    if absolute == 0:
        return Decimal(-1), "none"
    whose = f" for {display_asset(asset)}" if asset in config.per_asset else ""
    return absolute, f"absolute {plain(absolute)}{whose}"


def _mark_misplacements(
    given: Sequence[ClassifiedPair], fields: tuple[str, ...]
) -> Iterator[ClassifiedPair]:
    """Breaks that add up to nothing within an account, a venue or an asset are misplacements."""
    placement: dict[int, str] = {}
    for depth in range(len(fields) - 1, 0, -1):
        level = fields[:depth]
        if "asset" not in level:
            break
        groups: defaultdict[tuple[str, ...], list[ClassifiedPair]] = defaultdict(list)
        for classified in given:
            if classified.result.is_break and classified.pair.no not in placement:
                groups[classified.pair.key[:depth]].append(classified)
        for group in groups.values():
            if len(group) > 1 and _nets(group):
                placement |= {classified.pair.no: level[-1] for classified in group}
    for classified in given:
        where = placement.get(classified.pair.no, "")
        yield replace(classified, placement=where) if where else classified


def _nets(group: Sequence[ClassifiedPair]) -> bool:
    if any(classified.result is Result.REJECTED for classified in group):
        return False
    summed = Decimal(0)
    for classified in group:
        summed = EXACT.add(summed, classified.difference)
    return summed == 0
