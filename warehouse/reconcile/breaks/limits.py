"""What settings forgave of each asset, and where that would be too much in sum."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal

from duckdb import DuckDBPyConnection

from warehouse.contract.wording import and_more, count_of
from warehouse.exact import plain
from warehouse.reconcile.matching import join
from warehouse.reconcile.matching.classify import (
    ClassifiedPair,
    MatchRules,
    RuleKind,
    mean_share,
    sum_forgiven,
)
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.precision import KeptDigits
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms.dimensions import display_asset
from warehouse.reconcile.terms.notices import Notice


def totals_to_limit(
    connection: DuckDBPyConnection, config: Config, digits: KeptDigits
) -> dict[str, Decimal]:
    """Return the totals of the book by asset, where a setting may forgive a part of them."""
    tolerant = (config.absolute, config.relative, *config.per_asset.values())
    if config.ledger_rounding != "written" and not any(tolerant) and not digits.by_file:
        return {}
    return join.totals_of_book(connection)


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
