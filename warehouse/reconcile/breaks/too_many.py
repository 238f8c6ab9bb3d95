"""A ledger of which hardly anything matches: one question in place of a million breaks.

It is of another book, of another day, or names its keys in another way. Nobody works through so
many breaks, each of them takes six kilobytes of memory (measured), and those of the night before
would stand as resolved.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from duckdb import DuckDBPyConnection

from warehouse.reconcile.breaks.identity import display_names
from warehouse.reconcile.ledger.model import Ledger
from warehouse.reconcile.matching import join, mass_precision
from warehouse.reconcile.matching.classify import (
    ClassifiedPair,
    MatchRules,
    assets_over_limit,
    classify,
)
from warehouse.reconcile.matching.rounding import find_rounding
from warehouse.reconcile.terms.errors import Ambiguous

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
    number = join.count_mismatches(connection)
    if number > rules.config.most_breaks:
        every = -(-number // _TRIED_ON)
        tried = classify(join.mismatches(connection, fields, rejected, every), rules)
        _require_few(tried, number, rules, _LedgerInHand(connection, ledger, names))
    classified = classify(join.mismatches(connection, fields, rejected), rules)
    over = {rules.asset(pair) for pair in classified if pair.is_over}
    if rules.settled.keys() & (over | assets_over_limit((), rules)):
        mass_precision.unsettle(connection)
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
