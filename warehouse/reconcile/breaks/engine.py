"""One reconciliation of one book: both sides read, matched and classified, and their breaks."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from duckdb import DuckDBPyConnection

from warehouse.contract.wording import count_of
from warehouse.query.book import OpenBook
from warehouse.reconcile.breaks.assemble import (
    History,
    amounts_before_at_levels,
    assemble_break,
    day_before,
    earlier_breaks,
    totals_before,
)
from warehouse.reconcile.breaks.causes import (
    Case,
    files_behind,
    pair_names,
    suggest_aliases,
    suggest_causes,
)
from warehouse.reconcile.breaks.identity import Key, break_ids, display_names
from warehouse.reconcile.breaks.limits import forgiven_lines, over_limit, totals_to_limit
from warehouse.reconcile.breaks.too_many import classify_few
from warehouse.reconcile.ledger.model import Ledger, RejectedRow
from warehouse.reconcile.matching import join, key_resolution, levels, mass_precision, snapshot
from warehouse.reconcile.matching.classify import ClassifiedPair, MatchRules
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.key_resolution import Alias, alias_line
from warehouse.reconcile.matching.precision import kept_digits
from warehouse.reconcile.matching.rounding import Rounding, find_rounding
from warehouse.reconcile.matching.scope import Scope, scope_of, set_aside
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.store.records import Break, RunResult, pending_breaks
from warehouse.reconcile.terms.notices import Notice

_SUGGESTED = 20  # aliases in notices: Mapping has all of them
_DESCENDING = str.maketrans("0123456789", "9876543210")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run; every key stands in the table `compared` of the connection.

    `ids` are the breaks by the number of their key, `renamed` the ids that had another one before.
    `levels` are those of the files. `settled` has by key the result of breaks of the run before
    that a setting forgives now.
    `uncovered` counts the positions of the book that no ledger covers.
    `not_compared` are breaks of before in what no ledger of this run covers: they stay as they are.
    `opening` is on a first run what the book before had of each asset.
    `proposals` are notices that stand before all others: one line settles many breaks.
    """

    day: date
    fields: Key
    levels: frozenset[Key]
    counts: Mapping[Result, int]
    uncovered: int
    breaks: tuple[Break, ...]
    ids: Mapping[int, str]
    episodes: Mapping[str, tuple[int, str]]
    renamed: Mapping[str, str]
    aliases: tuple[Alias, ...]
    notices: tuple[Notice, ...]
    digest: str
    settled: Mapping[Key, str] = field(default_factory=dict)
    not_compared: tuple[Break, ...] = ()
    opening: Mapping[str, str] | None = None
    proposals: tuple[Notice, ...] = ()
    forgiven: tuple[tuple[str, str, str, str], ...] = ()

    def closing_reason(self, break_: Break) -> str:
        """Return why a break of the run before is not a break any more."""
        if break_.level not in self.levels:
            level = ", ".join(break_.level)
            return f"not compared per {level} any more: matched, gone, or a break at another level"
        key = break_.key_at(self.fields)
        return self.settled.get(key, "matched, or no longer on either side")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matches:
    """Every mismatch of the two sides, classified, and what it was classified by."""

    classified: Sequence[ClassifiedPair]
    rules: MatchRules
    aliases: tuple[Alias, ...]
    notices: tuple[Notice, ...]
    rounding: Rounding
    scope: Scope
    rejected: Mapping[Key, Sequence[RejectedRow]]
    uncovered: int
    ledger: Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """The breaks of the run before: by their ids of now, and those that are not compared."""

    earlier: Mapping[str, Break]
    not_compared: Mapping[str, Break]
    notices: Sequence[Notice]


def reconcile(
    source: OpenBook, ledger: Ledger, config: Config, reference: Reference, history: History
) -> Outcome:
    """Hold a ledger against a book."""
    connection, fields = source.connection, ledger.fields
    # Keys that are equal never leave DuckDB: of a million keys Python sees the mismatches alone.
    matches = _match(source, ledger, config, reference, _keys_before(history, fields))
    broken = [pair for pair in matches.classified if pair.result.is_break]
    ids = break_ids(config.name, fields, [pair.pair.key for pair in broken])
    keys = {id_: pair.pair.key for id_, pair in zip(ids, broken, strict=True)}
    followed = _follow(source, matches, history.prior, keys)
    earlier = followed.earlier
    cases = _cases(source, dict(zip(ids, broken, strict=True)), earlier, matches, reference)
    pairs = list(pair_names(cases, fields, _accounts_of_both(connection, cases, fields)))
    causes = suggest_causes(cases, fields, pairs)
    suggested = suggest_aliases(pairs)
    assembled = partial(assemble_break, ledger=ledger, reference=reference, history=history)
    breaks = [
        assembled(case, cause=causes.get(case.id, ""), accept_days=config.accept_days)
        for case in cases
    ]
    return Outcome(
        day=source.day,
        fields=fields,
        levels=frozenset(ledger.levels),
        counts=join.counts(connection),
        uncovered=matches.uncovered,
        breaks=tuple(sorted(breaks, key=_order)),
        ids={pair.pair.no: id_ for id_, pair in zip(ids, broken, strict=True)},
        episodes=(dict(history.prior.episodes) if history.prior else {})
        | {break_.id: (break_.episode, break_.ever_seen.isoformat()) for break_ in breaks},
        renamed={id_: break_.id for id_, break_ in earlier.items() if break_.id != id_},
        aliases=(*matches.aliases, *suggested),
        notices=(
            *matches.notices,
            *_alias_notices(suggested),
            *followed.notices,
            *_missing_portfolios(matches.classified, reference, fields),
            *over_limit(matches.classified, matches.rules),
        ),
        digest=join.digest(connection, fields, [config.name, str(source.day), source.snapshot_id]),
        settled=_settlements(matches, history),
        not_compared=tuple(followed.not_compared.values()),
        opening=None if history.prior else totals_before(source, fields, matches.scope),
        proposals=(*_behind_notices(source, cases, ledger), *matches.rounding.proposals),
        forgiven=tuple(forgiven_lines(matches.classified, matches.rules)),
    )


def _accounts_of_both(
    connection: DuckDBPyConnection, cases: Sequence[Case], fields: Key
) -> frozenset[str]:
    """Return the accounts of what only the ledger has that the book has elsewhere."""
    if "account" not in fields:
        return frozenset()
    place = fields.index("account")
    written = {case.pair.pair.key[place] for case in cases if case.pair.pair.snapshot is None}
    rows = connection.execute(
        "select distinct account from compared "
        "where snapshot is not null and account in (select unnest(?))",
        [list(written)],
    ).fetchall()
    return frozenset(row[0] for row in rows)


def _behind_notices(source: OpenBook, cases: Sequence[Case], ledger: Ledger) -> Iterator[Notice]:
    """Yield a headline for each file that has the balances of the book before."""
    for place, behind, number in files_behind(cases, ledger):
        yield Notice(
            "high",
            f"these are the balances of {day_before(source)}, not of {source.day}: {behind:,} of "
            f"{count_of(number, 'position')} that differ have the amount of that book. Put the "
            f"ledger of {source.day} into the inbox in its place, and run again",
            place,
        )


def _alias_notices(aliases: Sequence[Alias]) -> Iterator[Notice]:
    """Yield a notice for each suggested alias, with the line that settles it."""
    for alias in aliases[:_SUGGESTED]:
        yield Notice(
            "low",
            f"{alias.field} under two names? {count_of(alias.rows, 'amount')} would match if "
            f"recon.toml had, under [alias.{alias.field}], the line {alias_line(alias)}",
            "",
            alias.written[:1000],
        )


def _breaks_out_of_scope(
    prior: RunResult | None, ids: Container[str], scope: Scope
) -> Iterator[Break]:
    """Yield the breaks of before that no ledger of this run says anything about."""
    if prior is not None and not scope.is_whole:
        for id_, break_ in pending_breaks(prior).items():
            if id_ not in ids and not scope.covers(break_.fields, break_.key):
                yield break_


def _follow(
    source: OpenBook, matches: _Matches, prior: RunResult | None, keys: Mapping[str, Key]
) -> _Followed:
    """Find the breaks of the run before among those of now, whose keys are given by id."""
    ledger, fields = matches.ledger, matches.ledger.fields
    not_compared = {of.id: of for of in _breaks_out_of_scope(prior, keys, matches.scope)}
    before = {id_: of for id_, of in pending_breaks(prior).items() if id_ not in not_compared}
    gone = {id_: of.key_at(fields) for id_, of in before.items() if id_ not in keys}
    # An id changes only with its level. A key that is compared and matches now is resolved,
    # though a break beside it may be new.
    if ledger.levels != [fields] or any(before[id_].level != fields for id_ in gone):
        compared = join.compared_keys(source.connection, fields, gone.values()) - {*keys.values()}
        before = {id_: of for id_, of in before.items() if gone.get(id_) not in compared}
    earlier, notices = earlier_breaks(prior, before, fields, keys)
    return _Followed(earlier=earlier, not_compared=not_compared, notices=notices)


def _keys_before(history: History, fields: Key) -> set[Key]:
    """Return the keys that were breaks in the run before, as far as this level can have them."""
    before = pending_breaks(history.prior).values()
    return {break_.key_at(fields) for break_ in before if {*break_.level} <= {*fields}}


def _match(
    source: OpenBook, ledger: Ledger, config: Config, reference: Reference, keys_before: set[Key]
) -> _Matches:
    """Bring both sides to one level, join them, and classify every key that is not equal.

    `keys_before` are those of breaks of before.
    """
    connection, fields = source.connection, ledger.fields
    snapshot.make_book_side(connection, source.day, fields)
    scope = scope_of(source, ledger, reference, config)
    uncovered, uncovered_notices = set_aside(connection, scope, fields, reference)
    resolution = key_resolution.make_ledger_side(connection, ledger, reference, config, scope)
    levels.assign(connection, ledger, scope)
    digits = kept_digits(ledger, config)
    join.compare(connection, fields, mass_precision.engine_rule(digits, config))
    per_asset, unnamed = key_resolution.tolerances(reference, config)
    config = replace(config, per_asset=per_asset)
    totals = totals_to_limit(connection, config, digits)
    # Of what was a break before it is said how it was settled.
    without = {*resolution.rejected, *keys_before}
    rules = MatchRules(
        fields=fields,
        config=config,
        kept=digits,
        delivered=reference.delivered,
        portfolios=reference.names["portfolio"],
        rejected=resolution.rejected,
        totals=totals,
        settled=mass_precision.settled_sums(connection, fields, digits, totals, without),
    )
    classified, rules = classify_few(connection, rules, ledger, reference.display_names)
    join.store_results(connection, {pair.pair.no: pair.result for pair in classified})
    notices = (*reference.notices, *ledger.notices, *uncovered_notices, *levels.notices(ledger))
    return _Matches(
        classified=classified,
        rules=rules,
        aliases=resolution.aliases,
        notices=(*notices, *resolution.notices, *unnamed),
        rounding=find_rounding(connection, classified, ledger, rules),
        scope=scope,
        rejected=resolution.rejected,
        uncovered=uncovered,
        ledger=ledger,
    )


def _cases(
    source: OpenBook,
    broken: Mapping[str, ClassifiedPair],
    earlier: Mapping[str, Break],
    matches: _Matches,
    reference: Reference,
) -> list[Case]:
    """Return the breaks by id with what was known of their keys the run and the book before."""
    fields = matches.rules.fields
    place = fields.index("asset")
    assets = {pair.pair.key[place] for pair in broken.values()}
    before = (
        amounts_before_at_levels(source, matches.ledger, matches.scope, assets) if broken else {}
    )
    return [
        Case(
            pair=pair,
            id=id_,
            names=display_names(
                fields, pair.pair.key, reference.display_names, is_unmapped=pair.pair.is_unmapped
            ),
            earlier=earlier.get(id_),
            snapshot_before=before.get(pair.pair.key),
            rounding=matches.rounding.causes.get(pair.pair.no, ""),
            rejected=matches.rejected.get(pair.pair.key, ()),
        )
        for id_, pair in broken.items()
    ]


def _settlements(matches: _Matches, history: History) -> dict[Key, str]:
    keys_before = _keys_before(history, matches.rules.fields)
    return {
        pair.pair.key: f"{pair.result.words}: {pair.rule}"
        for pair in matches.classified
        if pair.is_forgiven and pair.pair.key in keys_before
    }


def _order(break_: Break) -> tuple[str, int, str, str]:
    """Sort breaks by asset, the largest difference first, without converting any of them."""
    # Of plain digits the longer whole part is the larger number, and of equal length the later
    # text. Exact decimals of any length would have to be made for every comparison instead.
    size = break_.difference.lstrip("-")
    return (
        break_.names.get("asset", ""),
        -len(size.partition(".")[0]),
        size.translate(_DESCENDING),
        break_.id,
    )


def _missing_portfolios(
    classified: Sequence[ClassifiedPair], reference: Reference, fields: Key
) -> Iterator[Notice]:
    """Yield one notice for each portfolio that the API did not deliver, not one for each key."""
    keys = Counter(
        pair.pair.key[fields.index("portfolio")]
        for pair in classified
        if pair.result is Result.NOT_DELIVERED
    )
    for portfolio, number in sorted(keys.items()):
        name = reference.display_names["portfolio"].get(portfolio, portfolio)
        words = f"the API did not deliver the portfolio {name}: {count_of(number, 'position')}"
        words += " of the ledger could not be compared"
        yield Notice("high", words, "book", portfolio)
