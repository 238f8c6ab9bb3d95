"""A break from night to night: its id, its age, and how people see its key.

The id is made of the reconciliation's name, the level and the key, so that the same difference has
the same id every night, whatever its amount.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain, product

from duckdb import DuckDBPyConnection

from warehouse.contract.model import count_of
from warehouse.exact import plain
from warehouse.query.book import OpenBook
from warehouse.reconcile import book
from warehouse.reconcile.book import Reference, day_before, display_names
from warehouse.reconcile.match import classify, compare, sides
from warehouse.reconcile.match.causes import (
    Case,
    files_behind,
    pair_names,
    suggest_aliases,
    suggest_causes,
)
from warehouse.reconcile.match.classify import (
    ClassifiedPair,
    MatchRules,
    forgiven_lines,
    over_limit,
    totals_to_limit,
)
from warehouse.reconcile.match.precision import kept_digits
from warehouse.reconcile.match.rounding import Rounding, classify_few, find_rounding
from warehouse.reconcile.match.sides import Scope, scope_of, set_aside
from warehouse.reconcile.model import (
    ACCEPTED,
    OPEN,
    WHOLE,
    Alias,
    Break,
    History,
    Key,
    Ledger,
    Notice,
    Outcome,
    RejectedRow,
    Result,
    Run,
    StatusDecision,
    alias_line,
    pending_breaks,
)
from warehouse.reconcile.settings.config import Config


def status_now(
    decision: StatusDecision, episode: int, difference: str, day: date, accept_days: int
) -> tuple[str, str]:
    """Return the status of a break tonight, and why it is open again where it was settled."""
    if decision.status == OPEN:
        return OPEN, decision.note
    if decision.episode < episode:
        return OPEN, f"returned; it was {decision.status} before"
    if decision.status != ACCEPTED:
        return decision.status, ""
    when = f"was accepted at {decision.accepted} on {decision.on} by {decision.by}"
    if decision.accepted != difference:
        return OPEN, f"reopened: {when}"
    # Days are counted, and no date is made, which a setting or what a file says could overflow.
    if (day - date.fromisoformat(decision.on)).days > accept_days:
        return OPEN, f"acceptance expired after {accept_days} days: {when}"
    return ACCEPTED, ""


_SHORTEST = 8


def break_ids(name: str, fields: Key, keys: Iterable[Key]) -> list[str]:
    """Return the ids of keys, in their order: the beginning of a digest, as short as it may be."""
    digests = [
        hashlib.sha256("\x1f".join((name, *fields, "", *key)).encode()).hexdigest().upper()
        for key in keys
    ]
    # Where two of this run begin alike, both grow letter by letter until they differ. A longer
    # beginning may meet a third one, so the pass is repeated until nothing grows.
    lengths = dict.fromkeys(digests, _SHORTEST)
    for _ in range(len(digests[0]) if digests else 0):
        seen: dict[str, str] = {}
        grown = False
        for digest in lengths:
            first = seen.setdefault(digest[: lengths[digest]], digest)
            if first != digest:
                lengths[first] += 1
                lengths[digest] = lengths[first]
                grown = True
        if not grown:
            break
    return [f"B-{digest[: lengths[digest]]}" for digest in digests]


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """How long a break has been there; each time that it comes back begins a new episode."""

    episode: int
    first_seen: date
    ever_seen: date
    days: int
    change: str


def age_of(
    pair: ClassifiedPair, day: date, earlier: Break | None, last_episode: tuple[int, str] | None
) -> Age:
    """Return the age of a break: `earlier` is the same one in the run before.

    A break that was away begins a new episode, and its age counts from there. `ever_seen` is the
    first day of its first episode.
    """
    if earlier is None:
        last, ever = last_episode or (0, day.isoformat())
        ever_seen = date.fromisoformat(ever)
        return Age(
            episode=last + 1,
            first_seen=day,
            ever_seen=ever_seen,
            days=0,
            change="returned" if last else "new",
        )
    is_same = (earlier.difference, earlier.result) == (plain(pair.difference), pair.result.value)
    return Age(
        episode=earlier.episode,
        first_seen=earlier.first_seen,
        ever_seen=earlier.ever_seen,
        days=(day - earlier.first_seen).days,
        change="unchanged" if is_same else "changed",
    )


def previous_ids(
    before: Mapping[str, Break], fields: Key, keys: Mapping[str, Key]
) -> dict[str, str]:
    """Return by ids of now the id in the run before that can only be the same break.

    `keys` are the keys of now by id, and have these fields.
    """
    same = {id_: id_ for id_ in keys if id_ in before}
    then = _by_level({id_: (of.fields, of.key) for id_, of in before.items() if id_ not in same})
    now = _by_level({id_: (fields, key) for id_, key in keys.items() if id_ not in same})
    # Keys of two levels are compared by the fields that both have. Only a break that is alone
    # under such a short key on both sides is the same break, and only if no other level has one.
    met = [
        ids
        for (old, olds), (new, news) in product(then.items(), now.items())
        for ids in _by_short_key([name for name in old if name in new], olds, news)
    ]
    often = Counter(id_ for ids in met for id_ in chain(*ids))
    return same | {
        new[0]: old[0]
        for old, new in met
        if len(old) == len(new) == 1 and often[old[0]] == often[new[0]] == 1
    }


_Names = Mapping[str, Mapping[str, str]]  # by id, the value of each field


def _by_level(keys: Mapping[str, tuple[Key, Key]]) -> dict[Key, _Names]:
    """Return the values of keys by level and id; a field that is not in the ledger is left out."""
    levels: defaultdict[Key, dict[str, dict[str, str]]] = defaultdict(dict)
    for id_, (fields, key) in keys.items():
        pairs = zip(fields, key, strict=True)
        names = {name: value for name, value in pairs if value != WHOLE}
        levels[tuple(names)][id_] = names
    return dict(levels)


def _by_short_key(
    shared: Sequence[str], then: _Names, now: _Names
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the ids of before and of now that have the same values in the shared fields."""
    groups: defaultdict[Key, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, names_by_id in enumerate((then, now)):
        for id_, names in names_by_id.items():
            groups[tuple(names[name] for name in shared)][side].append(id_)
    yield from (ids for ids in groups.values() if all(ids))


_SOURCES, _UNREAD = 5, 3  # rows that a break names, and amounts that its note lists


def earlier_breaks(
    prior: Run | None, before: Mapping[str, Break], fields: Key, keys: Mapping[str, Key]
) -> tuple[dict[str, Break], list[Notice]]:
    """Return the breaks of before by the ids of now, also where their level has changed.

    `before` are the breaks of the run before that can still be breaks, `keys` those of now by id.
    """
    same = previous_ids(before, fields, keys)
    earlier = {new: before[old] for new, old in same.items()}
    if prior is None or prior.fields == fields:
        return earlier, []
    words = (
        f"the level changed from {', '.join(prior.fields)} to {', '.join(fields)}: breaks have new "
        f"ids; {len(same)} of {len(before)} could only be the same ones and keep their history"
    )
    return earlier, [Notice("medium", words)]


def amounts_before_at_levels(
    source: OpenBook, ledger: Ledger, scope: Scope, assets: Collection[str]
) -> dict[Key, str]:
    """Return the amounts of the book before by key, each at the level of tonight's files."""
    day = day_before(source)
    if day is None:
        return {}
    book.make_book_side(source.connection, day, ledger.fields)
    sides.assign_levels(source.connection, ledger, scope)
    return book.amounts_in_book_side(source.connection, ledger.fields, assets)


def totals_before(source: OpenBook, fields: Key, scope: Scope) -> dict[str, str] | None:
    """Return by asset what the book before has of all that is compared; None without a book."""
    day = day_before(source)
    if day is None:
        return None
    book.make_book_side(source.connection, day, ("asset",) if scope.is_whole else fields)
    is_compared = "true" if scope.is_whole else scope.predicate("book_side")
    return dict(
        source.connection.execute(
            f"select asset, exact_sum(amount) from book_side where {is_compared} group by 1"
        ).fetchall()
    )


def assemble_break(
    case: Case,
    *,
    cause: str,
    ledger: Ledger,
    reference: Reference,
    history: History,
    occurrences: Mapping[str, tuple[int, str]],
    config: Config,
) -> Break:
    """Return one break of this run with its age, its status and its comments."""
    pair = case.pair.pair
    age = age_of(case.pair, history.day, case.earlier, occurrences.get(case.id))
    # Comments are kept under the id that a break had before its level changed.
    id_ = case.earlier.id if case.earlier else case.id
    comments, difference = history.comments, plain(case.pair.difference)
    decided, status, note = comments.decision(id_), comments.of(id_, "status"), ""
    if history.may_open(id_):
        days = config.accept_days
        status, note = status_now(decided, age.episode, difference, history.day, days)
    notes = note, _venue_note(pair.key, ledger.fields, reference), *_unread(case, ledger)
    return Break(
        id=case.id,
        key=pair.key,
        names=case.names,
        result=case.pair.result.value,
        ledger=pair.ledger,
        snapshot=pair.snapshot,
        difference=difference,
        rows=pair.rows,
        source=", ".join(_places(case, ledger)),
        rule=case.pair.rule,
        placement=case.pair.placement,
        cause=cause,
        note="; ".join(filter(None, notes)),
        episode=age.episode,
        first_seen=age.first_seen,
        ever_seen=age.ever_seen,
        age_days=age.days,
        change=age.change,
        status=status,
        owner=comments.of(id_, "owner"),
        root_cause=comments.of(id_, "root_cause"),
        comment=comments.of(id_, "comment"),
        accepted=decided.accepted,
    )


def _places(case: Case, ledger: Ledger) -> list[str]:
    """Return where the rows of a break are, those that could not be read first."""
    places = [ledger.place(row) for row in case.rejected]
    places += (ledger.place(ledger.lines[line]) for line in case.pair.pair.lines[:_SOURCES])
    return places[:_SOURCES]


def _unread(case: Case, ledger: Ledger) -> Iterator[str]:
    """Yield the amounts that could not be read, so that no zero is taken for one of them."""
    for row in case.rejected[:_UNREAD]:
        yield f"{row.raw[:60]!r} in {ledger.place(row)} was not read"


def _venue_note(key: Key, fields: Key, reference: Reference) -> str:
    status = reference.closed.get(key[fields.index("venue")]) if "venue" in fields else None
    return f"the venue is {status}" if status else ""


_SUGGESTED = 20  # aliases in notices: Mapping has all of them

_DESCENDING = str.maketrans("0123456789", "9876543210")


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
    cases = _cases(
        source, dict(zip(ids, broken, strict=True)), followed.earlier, matches, reference
    )
    pairs = list(pair_names(cases, fields, _accounts_of_both(connection, cases, fields)))
    causes = suggest_causes(cases, fields, pairs)
    suggested = suggest_aliases(pairs)
    assembled = _assemble(
        cases, causes, ledger=ledger, reference=reference, history=history, config=config
    )
    return Outcome(
        day=source.day,
        fields=fields,
        levels=frozenset(ledger.levels),
        counts=compare.counts(connection),
        uncovered=matches.uncovered,
        breaks=tuple(sorted(assembled, key=_order)),
        ids={pair.pair.no: id_ for id_, pair in zip(ids, broken, strict=True)},
        renamed={id_: old.id for id_, old in followed.earlier.items() if old.id != id_},
        aliases=(*matches.aliases, *suggested),
        notices=(
            *matches.notices,
            *_alias_notices(suggested),
            *followed.notices,
            *_missing_portfolios(matches.classified, reference, fields),
            *over_limit(matches.classified, matches.rules),
        ),
        digest=compare.digest(connection, fields, _identity(source, config)),
        settled=_settlements(matches, history),
        not_compared=tuple(followed.not_compared.values()),
        opening=None if history.prior else totals_before(source, fields, matches.scope),
        proposals=(*_behind_notices(source, cases, ledger), *matches.rounding.proposals),
        forgiven=tuple(forgiven_lines(matches.classified, matches.rules)),
    )


def _assemble(
    cases: Sequence[Case],
    causes: Mapping[str, str],
    *,
    ledger: Ledger,
    reference: Reference,
    history: History,
    config: Config,
) -> Iterator[Break]:
    """Yield the breaks of this run, with the occurrences of those that are not in the prior run."""
    new = [case.id for case in cases if case.earlier is None]
    occurrences = history.latest_occurrences(new)
    for case in cases:
        yield assemble_break(
            case,
            cause=causes.get(case.id, ""),
            ledger=ledger,
            reference=reference,
            history=history,
            occurrences=occurrences,
            config=config,
        )


def _identity(source: OpenBook, config: Config) -> list[str]:
    """Return what else a digest covers: the name of the reconciliation, the day and the book."""
    return [config.name, str(source.day), source.snapshot_id]


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


def _breaks_out_of_scope(prior: Run | None, ids: Container[str], scope: Scope) -> Iterator[Break]:
    """Yield the breaks of before that no ledger of this run says anything about."""
    if prior is not None and not scope.is_whole:
        for id_, break_ in pending_breaks(prior).items():
            if id_ not in ids and not scope.covers(break_.fields, break_.key):
                yield break_


def _follow(
    source: OpenBook, matches: _Matches, prior: Run | None, keys: Mapping[str, Key]
) -> _Followed:
    """Find the breaks of the run before among those of now, whose keys are given by id."""
    ledger, fields = matches.ledger, matches.ledger.fields
    not_compared = {of.id: of for of in _breaks_out_of_scope(prior, keys, matches.scope)}
    before = {id_: of for id_, of in pending_breaks(prior).items() if id_ not in not_compared}
    gone = {id_: of.key_at(fields) for id_, of in before.items() if id_ not in keys}
    # An id changes only with its level. A key that is compared and matches now is resolved,
    # though a break beside it may be new.
    if ledger.levels != [fields] or any(before[id_].level != fields for id_ in gone):
        compared = compare.compared_keys(source.connection, fields, gone.values()) - {
            *keys.values()
        }
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
    book.make_book_side(connection, source.day, fields)
    scope = scope_of(source, ledger, reference, config)
    uncovered, uncovered_notices = set_aside(connection, scope, fields, reference)
    resolution = sides.make_ledger_side(connection, ledger, reference, config, scope)
    sides.assign_levels(connection, ledger, scope)
    digits = kept_digits(ledger, config)
    compare.compare(connection, fields, classify.engine_rule(digits, config))
    per_asset, unnamed = sides.tolerances(reference, config)
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
        settled=classify.settled_sums(connection, fields, digits, totals, without),
    )
    classified, rules = classify_few(connection, rules, ledger, reference.display_names)
    compare.store_results(connection, {pair.pair.no: pair.result for pair in classified})
    notices = (
        *reference.notices,
        *ledger.notices,
        *uncovered_notices,
        *sides.level_notices(ledger),
    )
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
