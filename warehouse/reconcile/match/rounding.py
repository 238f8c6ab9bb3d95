"""Functions that find the files whose amounts have fewer digits than the book's.

The differences stay breaks until a person adds the proposed precision to recon.toml.
"""

# ruff: noqa: S608 - names are ours

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of
from warehouse.exact import EXACT, plain
from warehouse.reconcile.book import display_names
from warehouse.reconcile.match import compare
from warehouse.reconcile.match.classify import (
    Forgiven,
    MatchRules,
    Mismatch,
    assets_over_limit,
    broken_pairs,
    dust,
)
from warehouse.reconcile.match.inputs import MatchInputs
from warehouse.reconcile.match.precision import (
    decimals,
    digits,
    is_left_of,
    largest_loss,
    most_digits,
)
from warehouse.reconcile.match.sides import LEDGER_ROWS
from warehouse.reconcile.model import FLOAT_DIGITS, Ledger, Notice, Result
from warehouse.reconcile.settings.layout import Kept, Precision, Way, name_pattern
from warehouse.reconcile.settings.toml import quote, setting
from warehouse.reconcile.terms import Ambiguous, display_asset

# If a precision explains fewer differences than this, they may fit by chance.
_MIN_COUNT = 3

_TRIED, _SAMPLE_SIZE = 2, 1000
_MAX_SAMPLED = 10_000  # maximum number of breaks to sample for a question
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Rounding:
    """The rounding found in the files: causes of breaks, notices, and settings to propose."""

    causes: Mapping[int, str] = field(default_factory=dict)
    proposals: tuple[Notice, ...] = ()
    settings: tuple[str, ...] = ()


def find_rounding(
    inputs: MatchInputs,
    broken: Sequence[Mismatch],
    rules: MatchRules,
    forgiven: Mapping[str, Forgiven],
) -> Rounding:
    """Find the files whose amounts have fewer digits than the book's.

    `forgiven` has the sums that already count towards the limits.
    """
    ledger, causes = inputs.ledger, dict[int, str]()
    proposals, settings = [], []
    for number, differences in sorted(_by_file(broken, ledger, rules).items()):
        precision, rounded = _best(differences)
        if len(rounded) < _MIN_COUNT:
            continue
        against = len(differences) - len(rounded)
        against += _count_equal_beyond(inputs.connection, number, precision)
        # Propose the precision only if it fits at least two thirds of these amounts. Otherwise, the
        # differences may be real errors. An amount that equals the book's but has too many digits
        # for the precision does not fit.
        if len(rounded) < 2 * against:
            continue
        place = ledger.sources[number].place_name
        cause = (
            f"Rounding: {place} has rounded amounts ({precision.notation}). The Summary sheet "
            "shows the setting for this file"
        )
        causes |= {difference.no: cause for difference in rounded}
        over = _over_limit(rounded, precision, rules, forgiven)
        table = f"[file.{quote(_pattern(ledger, number))}]"
        line = setting("keeps", precision.notation)
        message = f"{_proposal(precision, rounded)} {table}, the line {line}{over}"
        proposals.append(Notice("high", message, place))
        settings.append(f"{table}\n{line}")
    return Rounding(causes, tuple(proposals), tuple(settings))


def require_few(inputs: MatchInputs, rules: MatchRules, forgiven: Mapping[str, Forgiven]) -> None:
    """Raise `Ambiguous` if there are more breaks than recon.toml allows."""
    connection, names = inputs.connection, inputs.reference.display_names
    breaks, number = connection.execute(
        f"select count(*) filter (where {compare.IS_BREAK}), count(*) filter (where "
        f"kind <> 'kept' or {compare.IS_BREAK}) from judged"
    ).fetchall()[0]
    if breaks <= rules.config.most_breaks:
        return
    sample = broken_pairs(connection, rules.fields, -(-breaks // _MAX_SAMPLED))
    results = Counter(pair.result.label for pair in sample)
    kinds = ", ".join(f"{n / len(sample):.0%} {result}" for result, n in results.most_common())
    keys = (
        display_names(rules.fields, pair.key, names, is_unmapped=pair.is_unmapped)
        for pair in sample[:_EXAMPLES]
    )
    examples = "; ".join(" / ".join(key.values()) for key in keys)
    files = ", ".join(source.place_name for source in inputs.ledger.sources)
    message = f"{files}: about {breaks:,} positions are breaks ({kinds}), for example {examples}. "
    rounding = find_rounding(inputs, sample, rules, forgiven)
    if rounding.settings:
        rounded = ", ".join(notice.location for notice in rounding.proposals)
        message += f"{rounded} seems to have fewer digits than the book. "
        message += "The setting specifies how many."
        raise Ambiguous(message, "\n".join(rounding.settings))
    message += (
        "The ledger may belong to a different book or day, or its positions may have different "
        "names. Check it with `nightbook reconcile preview FILE`, and remove it from the inbox if "
        "it is wrong. With this setting, the run continues with all of these breaks, and each "
        "break needs six kilobytes of memory."
    )
    raise Ambiguous(message, f"[settings]\nmost_breaks = {2 * number}")


def _by_file(
    broken: Sequence[Mismatch], ledger: Ledger, rules: MatchRules
) -> dict[int, list[Mismatch]]:
    """Group the breaks with one ledger row by file. Omit files with a precision in recon.toml."""
    files = ledger.lines.table["file"]
    by_file: dict[int, list[Mismatch]] = {}
    for pair in broken:
        if pair.result is Result.DIFFERS and pair.rows == 1:
            number = files[pair.lines[0]].as_py()
            if number not in rules.kept:
                by_file.setdefault(number, []).append(pair)
    return by_file


def _best(differences: Sequence[Mismatch]) -> tuple[Precision, list[Mismatch]]:
    """Return the precision that explains the most differences, and these differences.

    If several precisions explain the same number of differences, the narrowest one is used.
    """
    # Try every precision on a sample of the differences, and then the best one on all differences.
    sample = differences[:: -(-len(differences) // _SAMPLE_SIZE)]

    def merit(precision: Precision) -> tuple[int, Decimal]:
        explained = _choose_differences(precision, sample)
        losses = [largest_loss(precision, difference.amounts[0]) for difference in explained]
        return len(explained), -max(losses, default=Decimal(0))

    best = max(_candidates(sample), key=merit)
    return best, _choose_differences(best, differences)


def _choose_differences(precision: Precision, differences: Sequence[Mismatch]) -> list[Mismatch]:
    """Return the differences that a precision explains."""
    return [difference for difference in differences if is_left_of(precision, *difference.amounts)]


def _candidates(differences: Sequence[Mismatch]) -> Iterator[Precision]:
    """Yield the precisions that the ledger's amounts suggest."""
    # Nine out of ten rounded amounts do not end in 0, so the precision is likely to be one of the
    # most frequent digit counts.
    for kept, count in ((Kept.DECIMALS, decimals), (Kept.DIGITS, digits)):
        numbers = Counter(count(difference.amounts[0]) for difference in differences)
        for way in (Way.NEAREST, Way.CUT_OFF):
            yield from (Precision(kept, number, way) for number, _ in numbers.most_common(_TRIED))
    yield Precision(Kept.DOUBLES)
    yield Precision(Kept.DIGITS, FLOAT_DIGITS, Way.CALCULATED)


def _count_equal_beyond(connection: DuckDBPyConnection, file: int, precision: Precision) -> int:
    """Count a file's amounts that equal the book's but have too many digits for a precision."""
    number, count = precision.number, compare.decimals_of("ledger")
    if precision.kept is not Kept.DECIMALS:
        number = most_digits(precision)
        count = "length(trim(replace(ltrim(ledger, '-'), '.', ''), '0'))"
    rows = connection.execute(
        f"select count(*) from pairs join {LEDGER_ROWS} using (line) where file = {file} "
        f"and ledger = snapshot and rows = 1 and {count} > {number}"
    ).fetchall()
    return int(rows[0][0])


def _over_limit(
    pairs: Sequence[Mismatch],
    precision: Precision,
    rules: MatchRules,
    forgiven: Mapping[str, Forgiven],
) -> str:
    """Describe the assets for which the proposed precision would exceed the limit."""
    sums, assets = dict(forgiven), set()
    for pair in pairs:
        asset, snapshot = pair.key[rules.fields.index("asset")], pair.amounts[1]
        allowed = dust(largest_loss(precision, snapshot))
        before = sums.get(asset, Forgiven(rules.totals.get(asset, Decimal(0))))
        sums[asset] = before.plus(EXACT.abs(pair.difference), allowed)
        assets.add(asset)
    over = sorted(map(display_asset, assets & assets_over_limit(sums, rules)))
    if not over:
        return ""
    return (
        f". For {and_more(over, 10)}, the sum of these differences exceeds the limit, so they "
        "remain breaks even with this line: see `limit` under [tolerance]"
    )


def _pattern(ledger: Ledger, file: int) -> str:
    """Return a pattern for the name of a file (and tab, if it has several) on any date."""
    source = ledger.sources[file]
    names = [source.name for source in ledger.sources]
    is_alone = names.count(source.name) == 1
    return name_pattern(source.name if is_alone else source.place_name)


def _proposal(precision: Precision, pairs: Sequence[Mismatch]) -> str:
    largest = plain(max(EXACT.abs(pair.difference) for pair in pairs))
    return (
        f"this file has rounded amounts ({precision.notation}), which explains "
        f"{count_of(len(pairs), 'difference')} from the book. The largest is {largest}. The "
        "differences remain breaks until you add to recon.toml, under"
    )
