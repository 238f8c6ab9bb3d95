"""One reconciliation of one book: both sides read, matched and judged, and what came of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from duckdb import DuckDBPyConnection

from warehouse.contract.wording import count_of
from warehouse.exact import plain
from warehouse.query.book import OpenBook
from warehouse.reconcile.breaks.assemble import (
    MayOpen,
    Prior,
    known_before,
    past_of,
    tonight,
    with_yesterday,
)
from warehouse.reconcile.breaks.causes import Case, suggest_causes
from warehouse.reconcile.breaks.identity import Break, break_ids, shown_names
from warehouse.reconcile.comments.annotations import State
from warehouse.reconcile.config import Config
from warehouse.reconcile.dimensions import display_asset
from warehouse.reconcile.ledger.model import Ledger
from warehouse.reconcile.matching import join, key_resolution, levels, snapshot
from warehouse.reconcile.matching.classify import (
    OVER,
    ClassifiedPair,
    MatchRules,
    classify,
    forgiven,
)
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.key_resolution import Alias
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.notices import Notice


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run; every key stands in the table `compared` of the connection."""

    day: date
    fields: tuple[str, ...]
    counts: Mapping[Result, int]
    breaks: tuple[Break, ...]
    ids: Mapping[int, str]
    episodes: Mapping[str, tuple[int, str]]
    renamed: Mapping[str, str]
    aliases: tuple[Alias, ...]
    notices: tuple[Notice, ...]
    digest: str
    forgiven: tuple[tuple[str, str, str, str], ...] = ()


def reconcile(
    source: OpenBook,
    ledger: Ledger,
    config: Config,
    known: Reference,
    past: tuple[Prior, State, MayOpen],
) -> Outcome:
    """Hold a ledger against a book.

    `past` is the result before, the annotations, and which breaks may be opened again where they
    were settled: all of them on the newest day.
    """
    connection, fields = source.connection, ledger.fields
    snapshot.side(source, fields)
    taken = key_resolution.side(connection, ledger, known, config)
    levels.assign(connection, ledger)
    join.compare(connection, fields, taken.rejected)
    per_asset, unnamed = key_resolution.tolerances(known, config)
    rules = (replace(config, per_asset=per_asset), known.delivered, known.names["portfolio"])
    court = MatchRules(fields, *rules, taken.rejected, _totals(connection, rules[0]))
    found = classify(join.odd(connection, fields), court)
    join.settle(connection, {pair.pair.no: pair.result for pair in found})
    broken = [pair for pair in found if pair.result.is_break]
    prior, said = past[0], (*known.notices, *ledger.notices, *levels.notices(ledger))
    keys = [classified.pair.key for classified in broken]
    ids = break_ids(config.name, fields, keys)
    before, notices = known_before(prior, fields, dict(zip(ids, keys, strict=True)))
    cases = with_yesterday(
        source,
        fields,
        [
            Case(classified, id_, past_of(before.get(id_)), _names(classified, fields, known))
            for classified, id_ in zip(broken, ids, strict=True)
        ],
    )
    episodes = {
        id_: (entry[0], entry[1]) for id_, entry in (prior or {}).get("episodes", {}).items()
    }
    causes = suggest_causes(cases, fields)
    then = (source.day, before, episodes, past)
    made = [tonight(case, causes, (ledger, known, config), then) for case in cases]
    episodes |= {
        decision.id: (decision.episode, decision.ever_seen.isoformat()) for decision in made
    }
    digest = join.digest(connection, fields, [config.name, str(source.day), source.snapshot_id])
    return Outcome(
        source.day,
        fields,
        join.counts(connection),
        tuple(sorted(made, key=_order)),
        {classified.pair.no: id_ for classified, id_ in zip(broken, ids, strict=True)},
        episodes,
        {id_: entry["id"] for id_, entry in before.items() if entry["id"] != id_},
        taken.aliases,
        (*said, *taken.notices, *unnamed, *notices, *_unclassified_notices(found, court, known)),
        digest,
        tuple(_forgiven(found, court)),
    )


def _unclassified_notices(
    found: Sequence[ClassifiedPair], court: MatchRules, known: Reference
) -> list[Notice]:
    """Return what is said of keys that no verdict of their own decided."""
    return [*_absent(found, known, court.fields), *_over(found, court)]


def _totals(connection: DuckDBPyConnection, config: Config) -> dict[str, Decimal]:
    """Return the totals of the book by asset, where a setting may forgive a part of them."""
    tolerant = (config.absolute, config.relative, *config.per_asset.values())
    if config.ledger_rounding != "written" and not any(tolerant):
        return {}
    return join.totals_of_book(connection)


def _forgiven(
    found: Sequence[ClassifiedPair], court: MatchRules
) -> Iterator[tuple[str, str, str, str]]:
    """Yield what tolerance forgave: the asset, how many keys, how much, and of how much."""
    for asset, pair in sorted(forgiven(found, court).items()):
        share = f"{plain(pair.total)} ({pair.share:.2e} of it)"
        yield display_asset(asset), count_of(pair.keys, "key"), plain(pair.amount), share
    sums = forgiven(found, court).values()
    if sums:
        mean = sum((amount.share for amount in sums), Decimal(0)) / max(len(court.totals), 1)
        keys = count_of(sum(amount.keys for amount in sums), "key")
        yield (
            "all",
            keys,
            f"{mean:.2e}",
            f"each of {count_of(len(court.totals), 'asset')}, as a mean",
        )


def _over(found: Sequence[ClassifiedPair], court: MatchRules) -> Iterator[Notice]:
    """Yield one notice where tolerance would have forgiven too much in sum."""
    over = [pair for pair in found if pair.rule.endswith(OVER)]
    if over:
        assets = ", ".join(sorted({display_asset(court.asset(asset)) for asset in over})[:10])
        words = (
            f"tolerance would forgive too much in sum: {count_of(len(over), 'key')} of {assets} "
        )
        words += "are breaks. More than `limit` of an asset, or than `limit_in_all` of all, is no "
        words += "noise; other limits stand in recon.toml under [tolerance]"
        yield Notice("high", words)


def _names(classified: ClassifiedPair, fields: tuple[str, ...], known: Reference) -> dict[str, str]:
    return shown_names(
        fields, classified.pair.key, known.shown, is_unmapped=classified.pair.is_unmapped
    )


def _order(break_: Break) -> tuple[str, int, str, str]:
    size = break_.difference.lstrip("-")
    return (
        break_.names.get("asset", ""),
        -len(size.partition(".")[0]),
        _descending(size),
        break_.id,
    )


def _descending(digits: str) -> str:
    """A text that sorts the other way round, for digits of equal length."""
    return digits.translate(str.maketrans("0123456789", "9876543210"))


def _absent(
    found: Sequence[ClassifiedPair], known: Reference, fields: tuple[str, ...]
) -> Sequence[Notice]:
    """One notice for each portfolio that the API did not deliver, not one break for each key."""
    keys: dict[str, int] = {}
    for pair in found:
        if pair.result is Result.NOT_DELIVERED:
            portfolio = pair.pair.key[fields.index("portfolio")]
            keys[portfolio] = keys.get(portfolio, 0) + 1
    return [
        Notice(
            "high",
            f"portfolio {known.shown['portfolio'].get(entry, entry)} was not delivered by the API: "
            f"{count_of(number, 'key')} of the ledger could not be compared",
            "snapshot",
            entry,
        )
        for entry, number in sorted(keys.items())
    ]
