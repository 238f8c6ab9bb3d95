"""Files that keep fewer digits than the book, seen as such from all their amounts, and proposed.

Nothing is forgiven by this: the differences stay breaks until a person says what a file keeps.
"""

# ruff: noqa: S608 - names are ours

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of
from warehouse.exact import EXACT, plain
from warehouse.reconcile.book import display_names
from warehouse.reconcile.match import compare
from warehouse.reconcile.match.classify import (
    KEPT,
    ClassifiedPair,
    MatchRules,
    RuleKind,
    apply_limits,
    assets_over_limit,
    classify,
    noise,
    unsettle,
)
from warehouse.reconcile.match.precision import (
    DOUBLE_DIGITS,
    decimals,
    digits,
    is_left_of,
    largest_loss,
)
from warehouse.reconcile.model import FLOAT_DIGITS, Ledger, Notice, Result
from warehouse.reconcile.settings.layout import Kept, Precision, Way, name_pattern
from warehouse.reconcile.settings.toml import quote, setting
from warehouse.reconcile.terms import Ambiguous, display_asset

_FEWEST = 3  # differences that one rule explains: fewer are alike by chance

_TRIED, _SAMPLE_SIZE = 2, 1000


@dataclass(frozen=True, slots=True)
class Rounding:
    """What explains differences: by the number of their key a cause, and the proposals.

    `settings` are the lines of recon.toml for each of them.
    """

    causes: Mapping[int, str] = field(default_factory=dict)
    proposals: tuple[Notice, ...] = ()
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _RoundingGap:
    pair: ClassifiedPair
    ledger: Decimal
    snapshot: Decimal


def find_rounding(
    connection: DuckDBPyConnection,
    classified: Sequence[ClassifiedPair],
    ledger: Ledger,
    rules: MatchRules,
) -> Rounding:
    """Return which files keep fewer digits than the book; nothing where no file does."""
    causes: dict[int, str] = {}
    proposals, settings = [], []
    for number, differences in sorted(_by_file(classified, ledger, rules).items()):
        precision, rounded = _best(differences)
        if precision is None or len(rounded) < _FEWEST:
            continue
        against = len(differences) - len(rounded)
        against += _equal_beyond(connection, ledger, number, precision)
        # Two thirds: among the others may be real errors, but an amount that has all its digits
        # says that the file keeps them.
        if len(rounded) < 2 * against:
            continue
        place = ledger.sources[number].place_name
        cause = f"Rounding: {place} keeps {precision.words}. Summary has the line that settles it"
        causes |= {difference.pair.pair.no: cause for difference in rounded}
        limited = replace(rules, totals=rules.totals or compare.totals_of_book(connection))
        pairs = [difference.pair for difference in rounded]
        table = f"[file.{quote(_pattern(ledger, number))}]"
        line = setting("keeps", precision.words)
        words = _words(precision, pairs) + f" {table}, the line {line}"
        words += _limit_words(_forgiven(pairs, precision, limited), limited)
        proposals.append(Notice("high", words, place))
        settings.append(f"{table}\n{line}")
    return Rounding(causes, tuple(proposals), tuple(settings))


def _by_file(
    classified: Sequence[ClassifiedPair], ledger: Ledger, rules: MatchRules
) -> dict[int, list[_RoundingGap]]:
    """Return by file, of those of which nothing is settled, the amounts of one row that differ."""
    files = ledger.lines.table["file"]
    by_file: dict[int, list[_RoundingGap]] = {}
    for classified_pair in classified:
        pair = classified_pair.pair
        if classified_pair.result is Result.DIFFERS and pair.rows == 1:
            number = files[pair.lines[0]].as_py()
            if number not in rules.kept.by_file:
                gap = _RoundingGap(classified_pair, *pair.amounts)
                by_file.setdefault(number, []).append(gap)
    return by_file


def _best(differences: Sequence[_RoundingGap]) -> tuple[Precision | None, list[_RoundingGap]]:
    """Return the rule that explains most differences, of several the narrowest, and those."""
    # Every rule is tried on some of them, spread over the file, and the best one on all.
    sample = differences[:: -(-len(differences) // _SAMPLE_SIZE)]
    best, most = None, (0, Decimal(0))
    for precision in _candidates(sample):
        explained = _choose_differences(precision, sample)
        loss = max(
            (largest_loss(precision, difference.ledger) for difference in explained),
            default=Decimal(0),
        )
        if (len(explained), -loss) > most:
            best, most = precision, (len(explained), -loss)
    return best, _choose_differences(best, differences) if best else []


def _choose_differences(
    precision: Precision, differences: Sequence[_RoundingGap]
) -> list[_RoundingGap]:
    return [
        difference
        for difference in differences
        if is_left_of(precision, difference.ledger, difference.snapshot)
    ]


def _candidates(differences: Sequence[_RoundingGap]) -> Iterator[Precision]:
    # Where amounts are rounded nine of ten have the last digit, for it is zero in one of ten.
    counts = {
        Kept.DECIMALS: Counter(decimals(difference.ledger) for difference in differences),
        Kept.DIGITS: Counter(digits(difference.ledger) for difference in differences),
    }
    for kind, numbers in counts.items():
        for way in (Way.NEAREST, Way.CUT_OFF):
            yield from (Precision(kind, number, way) for number, _ in numbers.most_common(_TRIED))
    yield Precision(Kept.DOUBLES)
    yield Precision(Kept.DIGITS, FLOAT_DIGITS, Way.CALCULATED)


def _equal_beyond(
    connection: DuckDBPyConnection, ledger: Ledger, file: int, precision: Precision
) -> int:
    """Return how many amounts of a file equal the book with more digits than it would keep."""
    count = "case when contains(ledger, '.') then length(split_part(ledger, '.', 2)) else 0 end"
    number = precision.number
    if precision.kept is not Kept.DECIMALS:
        count = "length(trim(replace(ltrim(ledger, '-'), '.', ''), '0'))"
        number = number if precision.way is not Way.CALCULATED else DOUBLE_DIGITS
        number = DOUBLE_DIGITS if precision.kept is Kept.DOUBLES else number
    lines = connection.sql(
        "select line from compared where line is not null and ledger = snapshot and rows = 1 "
        f"and {count} > {number}"
    ).to_arrow_table()["line"]
    files = ledger.lines.table["file"].take(lines)
    return int(pc.sum(pc.equal(files, pa.scalar(file))).as_py() or 0)


def _forgiven(
    pairs: Sequence[ClassifiedPair], precision: Precision, rules: MatchRules
) -> list[ClassifiedPair]:
    """Return what the pairs would be if the proposal were settled."""
    rule = f"{precision.words} {KEPT}"
    settled = [
        replace(
            pair,
            result=Result.PRECISION,
            rule=rule,
            kind=RuleKind.KEPT,
            allowed=noise(largest_loss(precision, pair.pair.amounts[1])),
        )
        for pair in pairs
    ]
    return apply_limits(settled, rules)


def _pattern(ledger: Ledger, file: int) -> str:
    """Return the pattern of a file's name, and of its tab where it has several, on any day."""
    source = ledger.sources[file]
    names = [source.name for source in ledger.sources]
    is_alone = names.count(source.name) == 1
    return name_pattern(source.name if is_alone else source.place_name)


def _words(precision: Precision, pairs: Sequence[ClassifiedPair]) -> str:
    largest = plain(max(EXACT.abs(pair.difference) for pair in pairs))
    return (
        f"keeps {precision.words}: {count_of(len(pairs), 'difference')} from the book are what "
        f"this leaves, the largest {largest}. They are breaks until recon.toml has, under"
    )


def _limit_words(settled: Sequence[ClassifiedPair], rules: MatchRules) -> str:
    """Say of which assets it would be too much in sum."""
    over = sorted({display_asset(rules.asset(pair)) for pair in settled if not pair.is_forgiven})
    if not over:
        return ""
    return (
        f". In sum it is too much of {and_more(over, 10)}, of which breaks stay: see `limit` "
        "under [tolerance]"
    )


_TRIED_ON = 10_000  # keys, chosen by a digest of their number

_SHOWN = 3

Names = Mapping[str, Mapping[str, str]]


def classify_few(
    connection: DuckDBPyConnection, rules: MatchRules, ledger: Ledger, names: Names
) -> tuple[list[ClassifiedPair], MatchRules]:
    """Classify every mismatch; returns the rules as they are after that.

    Raises `Ambiguous` where there are more breaks than recon.toml lets through; of very many
    mismatches a part is enough to know that. Where too much is forgiven in sum, nothing is settled
    any more but key by key.
    """
    fields, rejected = rules.fields, rules.rejected
    number = compare.count_mismatches(connection)
    if number > rules.config.most_breaks:
        every = -(-number // _TRIED_ON)
        tried = classify(compare.mismatches(connection, fields, rejected, every), rules)
        _require_few(tried, number, rules, _LedgerInHand(connection, ledger, names))
    classified = classify(compare.mismatches(connection, fields, rejected), rules)
    over = {rules.asset(pair) for pair in classified if pair.is_over}
    if rules.settled.keys() & (over | assets_over_limit((), rules)):
        unsettle(connection)
        return classify_few(connection, replace(rules, settled={}), ledger, names)
    _require_few(classified, len(classified), rules, _LedgerInHand(connection, ledger, names))
    return classified, rules


@dataclass(frozen=True, slots=True)
class _LedgerInHand:
    """What a question is asked with; `names` are by field what people call ids."""

    connection: DuckDBPyConnection
    ledger: Ledger
    names: Names


def _require_few(
    tried: Sequence[ClassifiedPair], number: int, rules: MatchRules, question: _LedgerInHand
) -> None:
    breaks = [pair for pair in tried if pair.result.is_break]
    estimate = number * len(breaks) // max(len(tried), 1)
    if estimate <= rules.config.most_breaks:
        return
    results = Counter(pair.result.words for pair in breaks)
    kinds = ", ".join(
        f"{count / len(breaks):.0%} {result}" for result, count in results.most_common()
    )
    examples = "; ".join(
        " / ".join(
            display_names(
                rules.fields, pair.key, question.names, is_unmapped=pair.is_unmapped
            ).values()
        )
        for pair in (classified.pair for classified in breaks[:_SHOWN])
    )
    files = ", ".join(source.place_name for source in question.ledger.sources)
    words = f"{files}: about {estimate:,} positions are breaks ({kinds}), for example {examples}. "
    rounding = find_rounding(question.connection, tried, question.ledger, rules)
    if rounding.settings:
        rounded = ", ".join(notice.where for notice in rounding.proposals)
        words += f"{rounded} seems to keep fewer digits than the book. The line says how many."
        raise Ambiguous(words, "\n".join(rounding.settings))
    words += (
        "The ledger may be of another book or another day, or it may name its positions in another "
    )
    words += (
        "way. Look at it with `nightbook reconcile preview FILE`, and take it out of the inbox "
    )
    words += "if so. "
    words += "The line lets all of these breaks through. Each takes six kilobytes of memory."
    raise Ambiguous(words, f"[settings]\nmost_breaks = {2 * number}")
