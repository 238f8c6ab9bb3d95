"""Classify each mismatch, in Python's decimals of any length: its result and its placement."""

# ruff: noqa: S608 - names are ours

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import Enum
from typing import NamedTuple

import pyarrow as pa
from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of
from warehouse.exact import EXACT, exact, exact_sum, plain
from warehouse.reconcile.book import copy_table
from warehouse.reconcile.match import compare
from warehouse.reconcile.match.compare import EngineRule, Pair, decimals_of
from warehouse.reconcile.match.precision import KeptDigits, double, largest_loss
from warehouse.reconcile.match.sides import LEDGER_ROWS
from warehouse.reconcile.model import FLOAT_DIGITS, Notice, Result
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import Kept, Precision, Way
from warehouse.reconcile.terms import display_asset

KEPT = "kept by the ledger"

_OVER = "but in sum too much is forgiven"

_WRITTEN = "decimals written"

_DUST = Decimal("0.000001")  # of any asset: what one rounding may always leave

_SEVERAL = 3  # keys: below, what tolerance forgives is judged key by key alone

_SHOWN = Context(prec=FLOAT_DIGITS, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6))


class RuleKind(Enum):
    """The kind of rule that decided a mismatch, whatever its wording is."""

    NONE = "none"
    NUMBER_CELL = "number cell"
    WRITTEN = "written"
    KEPT = "kept"
    TOLERANCE = "tolerance"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedPair:
    """A mismatch with its result, the rule that decided, and where its break nets to zero.

    `difference` is ledger less snapshot, exact; a missing side counts as zero. `rule` is the
    wording of the rule, and `is_over` means that its sum exceeds a limit. `allowed` is what a
    tolerance forgives in this key alone.
    """

    pair: Pair
    result: Result
    difference: Decimal
    rule: str = ""
    kind: RuleKind = RuleKind.NONE
    is_over: bool = False
    placement: str = ""
    allowed: Decimal = Decimal(0)

    @property
    def is_forgiven(self) -> bool:
        """Whether a setting made it no break; what a number cell cannot hold is none."""
        is_rounded = self.kind in (RuleKind.WRITTEN, RuleKind.KEPT)
        return self.result is Result.TOLERANCE or (self.result is Result.PRECISION and is_rounded)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRules:
    """What a result depends on besides the two amounts.

    `portfolios` are all that are known, `delivered` those of this book; `totals` are the book's by
    asset; `kept` is what was settled of the precision of each file, and `settled` by asset what of
    it is forgiven besides all pairs.
    """

    fields: tuple[str, ...]
    config: Config
    delivered: frozenset[str]
    portfolios: Mapping[str, object]
    rejected: Collection[tuple[str, ...]]
    kept: KeptDigits
    totals: Mapping[str, Decimal] = field(default_factory=dict)
    settled: Mapping[str, "Forgiven"] = field(default_factory=dict)

    def asset(self, pair: ClassifiedPair) -> str:
        """Return the asset of a key."""
        return pair.pair.key[self.fields.index("asset")]


def classify(pairs: Iterable[Pair], rules: MatchRules) -> list[ClassifiedPair]:
    """Classify every mismatch, and then find which breaks are only misplaced."""
    classified = apply_limits([_classify_pair(pair, rules) for pair in pairs], rules)
    return list(_mark_misplacements(classified, rules.fields))


def apply_limits(pairs: Sequence[ClassifiedPair], rules: MatchRules) -> list[ClassifiedPair]:
    """Turn what was forgiven into breaks where it is too much in sum."""
    # A tolerance is meant for noise, and of noise the sum is small: a thousandth that is missing
    # in every key is missing in the whole, though each key alone is within its tolerance. So the
    # sum is limited twice: of one asset, and of all assets as the mean of their shares.
    over = assets_over_limit(pairs, rules)
    return [
        replace(pair, result=Result.DIFFERS, rule=f"{pair.rule}, {_OVER}", is_over=True)
        if pair.is_forgiven and rules.asset(pair) in over
        else pair
        for pair in pairs
    ]


def assets_over_limit(pairs: Iterable[ClassifiedPair], rules: MatchRules) -> set[str]:
    """Return the assets of which too much is forgiven: each by itself, or all of them together."""
    sums = sum_forgiven(pairs, rules)
    keys = sum(amount.keys for amount in sums.values())
    if keys >= _SEVERAL and mean_share(sums, rules) > rules.config.limit_in_all:
        return set(sums)
    return {asset for asset, amount in sums.items() if amount.is_over(rules.config.limit)}


@dataclass(frozen=True, slots=True)
class Forgiven:
    """What tolerance forgave of one asset in all its keys together, whatever the sign.

    `total` is what the book has of the asset, `largest` what one key alone may differ by.
    """

    total: Decimal
    keys: int = 0
    amount: Decimal = Decimal(0)
    largest: Decimal = Decimal(0)

    def plus(self, keys: int, amount: Decimal, allowed: Decimal) -> "Forgiven":
        """Return it with some more keys, each of which may differ by what is allowed."""
        in_all, largest = EXACT.add(self.amount, amount), max(self.largest, allowed)
        return Forgiven(self.total, self.keys + keys, in_all, largest)

    @property
    def share(self) -> Decimal:
        """Its part of all that the book has of the asset."""
        return self.amount / self.total if self.total else Decimal(self.amount != 0)

    def is_over(self, limit: Decimal) -> bool:
        """Return whether it is more than one key alone may differ by, and than the limit."""
        return self.amount > max(self.largest, EXACT.multiply(limit, self.total))


def sum_forgiven(pairs: Iterable[ClassifiedPair], rules: MatchRules) -> dict[str, Forgiven]:
    """Return what was forgiven by asset."""
    sums = dict(rules.settled)
    for pair in pairs:
        if pair.is_forgiven:
            asset = rules.asset(pair)
            total = rules.totals.get(asset, Decimal(0))
            last = sums.get(asset, Forgiven(total))
            sums[asset] = last.plus(1, EXACT.abs(pair.difference), pair.allowed)
    return sums


def noise(allowed: Decimal) -> Decimal:
    """Return how much of what one rounding may leave counts for nothing in a sum."""
    # Half a unit of whole numbers is half a Bitcoin: so a coarse unit has no free part at all,
    # and what it forgives is held against the limit from the first key on.
    return min(allowed, _DUST)


def mean_share(sums: Mapping[str, Forgiven], rules: MatchRules) -> Decimal:
    """Return the forgiven share of all assets of the book, as a mean."""
    # Of dust that rounds to nothing the share is the whole, and says nothing.
    larger = (amount for amount in sums.values() if amount.amount > _DUST)
    shares = sum((amount.share for amount in larger), Decimal(0))
    return shares / max(len(rules.totals), 1)


def _classify_pair(pair: Pair, rules: MatchRules) -> ClassifiedPair:
    difference = EXACT.subtract(*pair.amounts)
    result, rule = _by_key(pair, rules), _NO_RULE
    if result is None and (pair.ledger is None or pair.snapshot is None):
        missing = Result.NOT_IN_LEDGER if pair.ledger is None else Result.NOT_IN_SNAPSHOT
        result = missing if difference else Result.MATCHED_ZERO
    if result is None:
        result, rule = _by_amount(pair, rules, difference)
    return ClassifiedPair(
        pair=pair,
        result=result,
        difference=difference,
        rule=rule.words,
        kind=rule.kind,
        allowed=rule.allowed,
    )


def _by_key(pair: Pair, rules: MatchRules) -> Result | None:
    if pair.key in rules.rejected:
        return Result.REJECTED
    if pair.is_unmapped:
        return Result.UNMAPPED
    if "portfolio" in rules.fields and pair.snapshot is None:
        portfolio = pair.key[rules.fields.index("portfolio")]
        if portfolio in rules.portfolios and portfolio not in rules.delivered:
            return Result.NOT_DELIVERED
    return None


class _Rule(NamedTuple):
    """The rule that decided an amount: its kind, its wording, and what it forgives."""

    kind: RuleKind
    words: str = ""
    allowed: Decimal = Decimal(0)


_NO_RULE = _Rule(RuleKind.NONE)


def _by_amount(pair: Pair, rules: MatchRules, difference: Decimal) -> tuple[Result, _Rule]:
    # Not abs() and not a minus: both round to the 28 digits of the thread's own context.
    size = EXACT.abs(difference)
    precision = _precision(pair, rules.config, size)
    if precision is not None:
        return Result.PRECISION, precision
    digits, allowed = rules.kept.rule(pair)
    if digits:
        return Result.PRECISION, _Rule(RuleKind.KEPT, f"{digits} {KEPT}", noise(allowed))
    limit, words = _tolerance(pair, rules)
    if size <= limit:
        return Result.TOLERANCE, _Rule(RuleKind.TOLERANCE, words, limit)
    return Result.DIFFERS, _Rule(RuleKind.TOLERANCE, words)


def _precision(pair: Pair, config: Config, size: Decimal) -> _Rule | None:
    """Return how a ledger that keeps fewer digits holds the snapshot's amount, if it does."""
    if config.ledger_rounding == "off" or pair.rows != 1:
        return None
    if pair.is_number:
        ledger, snapshot = pair.amounts
        is_shown = ledger in _as_number(snapshot)
        words = f"{FLOAT_DIGITS} digits of a number cell"
        return _Rule(RuleKind.NUMBER_CELL, words, size) if is_shown else None
    unit = Decimal(1).scaleb(-pair.decimals, EXACT)
    if config.ledger_rounding == "written" and EXACT.multiply(2, size) <= unit:
        return _Rule(RuleKind.WRITTEN, f"{pair.decimals} {_WRITTEN}", size)
    return None


def _as_number(amount: Decimal) -> tuple[Decimal, ...]:
    """Return what a number cell may show of an amount that was put into it."""
    # A cell holds the nearest double, which some programs write with 16 digits only; where an
    # amount lies in the middle between two shown numbers, that decides which of them is seen.
    nearest = double(amount)
    if not math.isfinite(nearest):
        return (_SHOWN.plus(amount),)
    doubles = (nearest, float(format(nearest, ".16g")))
    return (_SHOWN.plus(amount), *(exact(format(side, f".{FLOAT_DIGITS}g")) for side in doubles))


def _tolerance(pair: Pair, rules: MatchRules) -> tuple[Decimal, str]:
    """Return the larger of the absolute and the relative tolerance, and its words."""
    config = rules.config
    asset = pair.key[rules.fields.index("asset")]
    absolute = config.per_asset.get(asset, config.absolute)
    relative = EXACT.multiply(config.relative, EXACT.abs(pair.amounts[1]))
    if relative > absolute:
        return relative, f"relative {plain(config.relative)}"
    if absolute == 0:
        return Decimal(-1), "none"
    whose = f" for {display_asset(asset)}" if asset in config.per_asset else ""
    return absolute, f"absolute {plain(absolute)}{whose}"


def _mark_misplacements(
    pairs: Sequence[ClassifiedPair], fields: tuple[str, ...]
) -> Iterator[ClassifiedPair]:
    """Mark breaks that add up to nothing within an account, a venue or an asset as misplaced."""
    # From the narrowest group to the widest: what nets to zero within an account needs no wider
    # explanation, and must not be counted towards one.
    placement: dict[int, str] = {}
    for depth in range(len(fields) - 1, 0, -1):
        level = fields[:depth]
        if "asset" not in level:
            break
        groups: defaultdict[tuple[str, ...], list[ClassifiedPair]] = defaultdict(list)
        for pair in pairs:
            if pair.result.is_break and pair.pair.no not in placement:
                groups[pair.pair.key[:depth]].append(pair)
        for group in groups.values():
            if len(group) > 1 and _nets(group):
                placement |= {pair.pair.no: level[-1] for pair in group}
    for pair in pairs:
        where = placement.get(pair.pair.no, "")
        yield replace(pair, placement=where) if where else pair


def _nets(group: Sequence[ClassifiedPair]) -> bool:
    if any(pair.result is Result.REJECTED for pair in group):
        return False
    return exact_sum(pair.difference for pair in group) == 0


_MOST_DECIMALS = 17  # half a unit of which is a DECIMAL(38,18)

_MARKED = f"result = '{Result.PRECISION.value}'"


def engine_rule(digits: KeptDigits, config: Config) -> EngineRule | None:
    """Return the SQL of what the files leave of the book's amounts, None where nothing is."""
    files = {
        number: precision for number, precision in digits.by_file.items() if _is_simple(precision)
    }
    if not files or config.ledger_rounding == "written":  # which counts before it
        return None
    halves = " ".join(
        f"when {number} then '{plain(_half(precision))}'::decimal(38, 18)"
        for number, precision in files.items()
    )
    places = " ".join(
        f"when {number} then {precision.number}" for number, precision in files.items()
    )
    # Below 1e19 a difference is a DECIMAL(38,18) too; a cast that would round is none.
    gap = " - ".join(f"try_cast({side} as decimal(37, 18))" for side in ("ledger", "snapshot"))
    return EngineRule(
        rows=f"select line, case file {halves} end as half, case file {places} end as places "
        f"from {LEDGER_ROWS} where not is_number",
        test=f"rows = 1 and not is_unmapped and ledger <> snapshot and {decimals_of('ledger')} "
        f"<= places and {decimals_of('snapshot')} <= 18 and abs({gap}) <= half",
    )


def _is_simple(precision: Precision) -> bool:
    is_nearest = precision.kept is Kept.DECIMALS and precision.way is Way.NEAREST
    return is_nearest and 0 <= precision.number <= _MOST_DECIMALS


def _half(precision: Precision) -> Decimal:
    return largest_loss(precision, Decimal(0))


def settled_sums(
    connection: DuckDBPyConnection,
    fields: tuple[str, ...],
    digits: KeptDigits,
    totals: Mapping[str, Decimal],
    without: Collection[tuple[str, ...]],
) -> dict[str, Forgiven]:
    """Return by asset what `compare` settled; keys of which more is to be said are mismatches."""
    if not digits.by_file:
        return {}
    columns = {name: pa.array([key[n] for key in without]) for n, name in enumerate(fields)}
    if without:
        copy_table(connection, "keys_without", pa.table(columns))
        names = ", ".join(fields)
        unsettle(connection, f"({names}) in (select ({names}) from keys_without)")
    rows = connection.execute(
        "select asset, file, count(*), sum(abs(ledger::decimal(38, 18) - "
        "snapshot::decimal(38, 18)))::varchar from compared "
        f"inner join (select line, file from {LEDGER_ROWS}) using (line) "
        f"where {_MARKED} group by 1, 2 order by 1, 2"
    ).fetchall()
    sums: dict[str, Forgiven] = {}
    for asset, file, keys, amount in rows:
        total = totals.get(asset, Decimal(0))
        allowed = noise(_half(digits.by_file[file]))
        sums[asset] = sums.get(asset, Forgiven(total)).plus(keys, exact(amount), allowed)
    return sums


def unsettle(connection: DuckDBPyConnection, test: str = "true") -> None:
    """Make mismatches of what was settled, of all keys or of those with which a test holds."""
    connection.execute(
        f"update compared set result = '{Result.MATCHED.value}' where {_MARKED} and {test}"
    )


def totals_to_limit(
    connection: DuckDBPyConnection, config: Config, digits: KeptDigits
) -> dict[str, Decimal]:
    """Return the totals of the book by asset, where a setting may forgive a part of them."""
    tolerant = (config.absolute, config.relative, *config.per_asset.values())
    if config.ledger_rounding != "written" and not any(tolerant) and not digits.by_file:
        return {}
    return compare.totals_of_book(connection)


def forgiven_lines(
    classified: Sequence[ClassifiedPair], rules: MatchRules
) -> Iterator[tuple[str, str, str, str]]:
    """Yield what was forgiven: the asset, how many keys by what, how much, and of how much.

    The largest part of an asset comes first, the mean of all of them last.
    """
    forgiven = [pair for pair in classified if pair.is_forgiven]
    by_asset: defaultdict[str, list[ClassifiedPair]] = defaultdict(list)
    for pair in forgiven:
        by_asset[rules.asset(pair)].append(pair)
    sums = sum_forgiven(forgiven, rules)
    for asset, amount in sorted(sums.items(), key=lambda item: (-item[1].share, item[0])):
        share = f"{plain(amount.total)} ({amount.share:.2e} of it)"
        settled = rules.settled[asset].keys if asset in rules.settled else 0
        keys = _by_what(by_asset[asset], settled)
        yield display_asset(asset), keys, plain(amount.amount), share
    if sums:
        keys = _by_what(forgiven, sum(amount.keys for amount in rules.settled.values()))
        mean = mean_share(sums, rules)
        yield (
            "all",
            keys,
            f"{mean:.2e}" if mean else "0",
            f"each of {count_of(len(rules.totals), 'asset')}, as a mean",
        )


def _by_what(forgiven: Sequence[ClassifiedPair], settled: int) -> str:
    """Return how many keys are forgiven by a tolerance, and how many by a precision."""
    tolerated = sum(pair.result is not Result.PRECISION for pair in forgiven)
    rounded = len(forgiven) - tolerated + settled
    counts = ((tolerated, "by tolerance"), (rounded, "by ledger precision"))
    return ", ".join(f"{count_of(number, 'position')} {by}" for number, by in counts if number)


def over_limit(classified: Sequence[ClassifiedPair], rules: MatchRules) -> Iterator[Notice]:
    """Yield one notice where tolerance would have forgiven too much in sum."""
    over = [pair for pair in classified if pair.is_over]
    if over:
        is_rounded = all(pair.kind is RuleKind.KEPT for pair in over)
        what = "ledger precision" if is_rounded else "tolerance"
        assets = and_more(sorted({display_asset(rules.asset(pair)) for pair in over}), 10)
        yield Notice(
            "high",
            f"{what} would forgive too much in sum: {count_of(len(over), 'position')} of {assets} "
            f"{'is a break' if len(over) == 1 else 'are breaks'}. More than `limit` of an asset, "
            "or than `limit_in_all` of all assets, is not noise. To change the limits, set them in "
            "recon.toml under [tolerance]",
        )
