"""One reconciliation of one book: both sides read, matched and classified, and their breaks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from duckdb import DuckDBPyConnection

from warehouse.contract.wording import count_of
from warehouse.exact import plain
from warehouse.query.book import OpenBook
from warehouse.reconcile.breaks.assemble import (
    History,
    amounts_before,
    assemble_break,
    earlier_breaks,
)
from warehouse.reconcile.breaks.causes import Case, suggest_causes
from warehouse.reconcile.breaks.identity import Key, break_ids, display_names
from warehouse.reconcile.ledger.model import Ledger
from warehouse.reconcile.matching import join, key_resolution, levels, snapshot
from warehouse.reconcile.matching.classify import (
    OVER,
    ClassifiedPair,
    MatchRules,
    classify,
    mean_share,
    sum_forgiven,
)
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.key_resolution import Alias
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.store.records import Break
from warehouse.reconcile.terms.dimensions import display_asset
from warehouse.reconcile.terms.notices import Notice

_DESCENDING = str.maketrans("0123456789", "9876543210")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run; every key stands in the table `compared` of the connection.

    `ids` are the breaks by the number of their key, `renamed` the ids that had another one before.
    """

    day: date
    fields: Key
    counts: Mapping[Result, int]
    breaks: tuple[Break, ...]
    ids: Mapping[int, str]
    episodes: Mapping[str, tuple[int, str]]
    renamed: Mapping[str, str]
    aliases: tuple[Alias, ...]
    notices: tuple[Notice, ...]
    digest: str
    forgiven: tuple[tuple[str, str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matches:
    """Every mismatch of the two sides, classified, and what it was classified by."""

    classified: Sequence[ClassifiedPair]
    rules: MatchRules
    aliases: tuple[Alias, ...]
    notices: tuple[Notice, ...]


def reconcile(
    source: OpenBook, ledger: Ledger, config: Config, reference: Reference, history: History
) -> Outcome:
    """Hold a ledger against a book."""
    connection, fields = source.connection, ledger.fields
    # Keys that are equal never leave DuckDB: of a million keys Python sees the mismatches alone.
    matches = _match(source, ledger, config, reference)
    broken = [pair for pair in matches.classified if pair.result.is_break]
    keys = {
        id_: pair.pair.key
        for id_, pair in zip(
            break_ids(config.name, fields, [pair.pair.key for pair in broken]), broken, strict=True
        )
    }
    earlier, level_notices = earlier_breaks(history.prior, fields, keys)
    cases = _cases(source, dict(zip(keys, broken, strict=True)), earlier, fields, reference)
    causes = suggest_causes(cases, fields)
    breaks = [
        assemble_break(
            case,
            cause=causes.get(case.id, ""),
            ledger=ledger,
            reference=reference,
            history=history,
            accept_days=config.accept_days,
        )
        for case in cases
    ]
    return Outcome(
        day=source.day,
        fields=fields,
        counts=join.counts(connection),
        breaks=tuple(sorted(breaks, key=_order)),
        ids={pair.pair.no: id_ for id_, pair in zip(keys, broken, strict=True)},
        episodes=(dict(history.prior.episodes) if history.prior else {})
        | {break_.id: (break_.episode, break_.ever_seen.isoformat()) for break_ in breaks},
        renamed={id_: break_.id for id_, break_ in earlier.items() if break_.id != id_},
        aliases=matches.aliases,
        notices=(
            *matches.notices,
            *level_notices,
            *_missing_portfolios(matches.classified, reference, fields),
            *_over_limit(matches.classified, matches.rules),
        ),
        digest=join.digest(connection, fields, [config.name, str(source.day), source.snapshot_id]),
        forgiven=tuple(_forgiven(matches.classified, matches.rules)),
    )


def _match(source: OpenBook, ledger: Ledger, config: Config, reference: Reference) -> _Matches:
    """Bring both sides to one level, join them, and classify every key that is not equal."""
    connection, fields = source.connection, ledger.fields
    snapshot.make_book_side(connection, source.day, fields)
    resolution = key_resolution.make_ledger_side(connection, ledger, reference, config)
    levels.assign(connection, ledger)
    join.compare(connection, fields, resolution.rejected)
    per_asset, unnamed = key_resolution.tolerances(reference, config)
    config = replace(config, per_asset=per_asset)
    rules = MatchRules(
        fields=fields,
        config=config,
        delivered=reference.delivered,
        portfolios=reference.names["portfolio"],
        rejected=resolution.rejected,
        totals=_totals(connection, config),
    )
    classified = classify(join.mismatches(connection, fields), rules)
    join.store_results(connection, {pair.pair.no: pair.result for pair in classified})
    notices = (*reference.notices, *ledger.notices, *levels.notices(ledger))
    return _Matches(
        classified=classified,
        rules=rules,
        aliases=resolution.aliases,
        notices=(*notices, *resolution.notices, *unnamed),
    )


def _cases(
    source: OpenBook,
    broken: Mapping[str, ClassifiedPair],
    earlier: Mapping[str, Break],
    fields: Key,
    reference: Reference,
) -> list[Case]:
    """Return the breaks by id with what was known of their keys the run and the book before."""
    place = fields.index("asset")
    assets = {pair.pair.key[place] for pair in broken.values()}
    before = amounts_before(source, fields, assets) if broken else {}
    return [
        Case(
            pair=pair,
            id=id_,
            names=display_names(
                fields, pair.pair.key, reference.display_names, is_unmapped=pair.pair.is_unmapped
            ),
            earlier=earlier.get(id_),
            snapshot_before=before.get(pair.pair.key),
        )
        for id_, pair in broken.items()
    ]


def _totals(connection: DuckDBPyConnection, config: Config) -> dict[str, Decimal]:
    """Return the totals of the book by asset, where a setting may forgive a part of them."""
    tolerant = (config.absolute, config.relative, *config.per_asset.values())
    if config.ledger_rounding != "written" and not any(tolerant):
        return {}
    return join.totals_of_book(connection)


def _forgiven(
    classified: Sequence[ClassifiedPair], rules: MatchRules
) -> Iterator[tuple[str, str, str, str]]:
    """Yield what tolerance forgave: the asset, how many keys, how much, and of how much."""
    sums = sum_forgiven(classified, rules)
    for asset, amount in sorted(sums.items()):
        share = f"{plain(amount.total)} ({amount.share:.2e} of it)"
        yield display_asset(asset), count_of(amount.keys, "key"), plain(amount.amount), share
    if sums:
        keys = count_of(sum(amount.keys for amount in sums.values()), "key")
        mean = f"{mean_share(sums, rules):.2e}"
        yield "all", keys, mean, f"each of {count_of(len(rules.totals), 'asset')}, as a mean"


def _over_limit(classified: Sequence[ClassifiedPair], rules: MatchRules) -> Iterator[Notice]:
    """Yield one notice where tolerance would have forgiven too much in sum."""
    over = [pair for pair in classified if pair.rule.endswith(OVER)]
    if over:
        assets = ", ".join(sorted({display_asset(rules.asset(pair)) for pair in over})[:10])
        yield Notice(
            "high",
            f"tolerance would forgive too much in sum: {count_of(len(over), 'key')} of {assets} "
            "are breaks. More than `limit` of an asset, or than `limit_in_all` of all, is no "
            "noise; other limits stand in recon.toml under [tolerance]",
        )


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
    keys: dict[str, int] = {}
    for pair in classified:
        if pair.result is Result.NOT_DELIVERED:
            portfolio = pair.pair.key[fields.index("portfolio")]
            keys[portfolio] = keys.get(portfolio, 0) + 1
    for portfolio, number in sorted(keys.items()):
        name = reference.display_names["portfolio"].get(portfolio, portfolio)
        words = f"portfolio {name} was not delivered by the API: {count_of(number, 'key')}"
        words += " of the ledger could not be compared"
        yield Notice("high", words, "snapshot", portfolio)
