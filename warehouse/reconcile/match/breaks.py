"""The breaks between a ledger and a book, each with its ID, age and status.

An ID depends on the reconciliation's name, the level and the key, so a break has the same ID every
night, whatever its amount.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain, product
from os.path import commonprefix
from typing import NamedTuple

from duckdb import DuckDBPyConnection

from warehouse.contract.model import count_of
from warehouse.exact import plain
from warehouse.reconcile import book
from warehouse.reconcile.book import columns, day_before, display_names
from warehouse.reconcile.match import classify, compare, sides
from warehouse.reconcile.match.causes import (
    Case,
    behind_notices,
    pair_names,
    suggest_aliases,
    suggest_causes,
)
from warehouse.reconcile.match.classify import Forgiven, MatchRules, Mismatch
from warehouse.reconcile.match.inputs import MatchInputs
from warehouse.reconcile.match.materiality import (
    apply_limits,
    judge_again,
    largest_first,
    unpriced_notices,
    value_breaks,
)
from warehouse.reconcile.match.precision import file_precisions
from warehouse.reconcile.match.rounding import Rounding, find_rounding, require_few
from warehouse.reconcile.match.sides import Scope
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
    Result,
    Run,
    StatusDecision,
    alias_line,
    pending_breaks,
)

_MIN_ID_LENGTH = 8
_NamesById = Mapping[str, Mapping[str, str]]  # each break ID's values by field name
_MAX_SOURCES, _MAX_UNREAD = 5, 3  # maximum number of rows and unread amounts listed for a break
_MAX_ALIASES = 20  # maximum number of aliases in notices (the sheet Mapping lists all aliases)
_DESCENDING = str.maketrans("0123456789", "9876543210")


class Age(NamedTuple):
    """The age of a break. A new episode begins each time the break returns."""

    episode: int
    first_seen: date
    ever_seen: date
    age_days: int
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matches:
    """The breaks between ledger and book, and the rules that were applied to find them."""

    broken: Sequence[Mismatch]
    rules: MatchRules
    forgiven: Mapping[str, Forgiven]
    aliases: tuple[Alias, ...]
    notices: tuple[Notice, ...]
    rounding: Rounding
    scope: Scope
    uncovered: int


def status_now(
    decision: StatusDecision, episode: int, difference: str, day: date, accept_days: int
) -> tuple[str, str]:
    """Return a break's status after this run, and the reason if the break is reopened."""
    if decision.status == OPEN:
        return OPEN, decision.note
    if decision.episode < episode:
        return OPEN, f"the break returned; its status before was {decision.status}"
    if decision.status != ACCEPTED:
        return decision.status, ""
    decided = f"a difference of {decision.accepted} was accepted on {decision.on} by {decision.by}"
    if decision.accepted != difference:
        return OPEN, f"reopened: {decided}"
    # Compare the number of days, because adding a large `accept_days` to a date could overflow.
    if (day - date.fromisoformat(decision.on)).days > accept_days:
        return OPEN, f"acceptance expired after {count_of(accept_days, 'day')}: {decided}"
    return ACCEPTED, ""


def break_ids(name: str, fields: Key, keys: Iterable[Key]) -> list[str]:
    """Return a break ID for each key, in the same order.

    An ID is the shortest prefix of a digest that is unique and has at least eight characters.
    """
    digests = [
        hashlib.sha256("\x1f".join((name, *fields, "", *key)).encode()).hexdigest().upper()
        for key in keys
    ]
    in_order = ["", *sorted(set(digests)), ""]
    lengths: dict[str, int] = {}
    for before, digest, after in zip(in_order, in_order[1:], in_order[2:], strict=False):
        shared = max(len(commonprefix((digest, other))) for other in (before, after))  # noqa: RUF071 - texts
        lengths[digest] = max(shared + 1, _MIN_ID_LENGTH)
    return [f"B-{digest[: lengths[digest]]}" for digest in digests]


def age_of(
    pair: Mismatch, day: date, earlier: Break | None, last_episode: tuple[int, str] | None
) -> Age:
    """Return a break's age.

    `earlier` is the same break in the previous run. `last_episode` contains the number of the
    break's last episode, and the day on which the break was first seen. If a break returns, its age
    counts from the new episode.
    """
    if earlier is None:
        last, ever_seen = last_episode or (0, day.isoformat())
        change = "returned" if last else "new"
        return Age(last + 1, day, date.fromisoformat(ever_seen), 0, change)
    is_same = (earlier.difference, earlier.result) == (plain(pair.difference), pair.result.value)
    change = "unchanged" if is_same else "changed"
    days = (day - earlier.first_seen).days
    return Age(earlier.episode, earlier.first_seen, earlier.ever_seen, days, change)


def previous_ids(
    before: Mapping[str, Break], fields: Key, keys: Mapping[str, Key]
) -> dict[str, str]:
    """Map each break's ID to the ID that the same break had in the previous run.

    `keys` maps each current ID to its key. Every key consists of the given `fields`.
    """
    same = {id_: id_ for id_ in keys if id_ in before}
    then = _by_level({id_: (of.fields, of.key) for id_, of in before.items() if id_ not in same})
    now = _by_level({id_: (fields, key) for id_, key in keys.items() if id_ not in same})
    # Keys at two levels are compared by the fields that both levels share. Two breaks are the same
    # if they match in these fields, and neither of them also matches a third break at any level.
    candidates = []
    for level, new_level in product(then, now):
        shared = [name for name in level if name in new_level]
        old, new = _by_short_key(then[level], shared), _by_short_key(now[new_level], shared)
        candidates += [(ids, new[key]) for key, ids in old.items() if key in new]
    often = Counter(id_ for ids in candidates for id_ in chain(*ids))
    return same | {
        new_ids[0]: ids[0]
        for ids, new_ids in candidates
        if len(ids) == len(new_ids) == 1 and often[ids[0]] == often[new_ids[0]] == 1
    }


def reconcile(inputs: MatchInputs, history: History) -> Outcome:
    """Compare a ledger with a book. Afterwards, the view `compared` contains every key.

    Raises `NotReconciled` if recon.toml contains a wrong name, and `Ambiguous` if there are more
    breaks than recon.toml allows.
    """
    connection, fields = inputs.connection, inputs.fields
    source, ledger, config = inputs.source, inputs.ledger, inputs.config
    _drop_relations(connection)
    # Keys without a break stay in DuckDB. Python receives only the breaks, because there may be a
    # million keys.
    matches = _match(inputs)
    ids = break_ids(config.name, fields, [pair.key for pair in matches.broken])
    keys = {id_: pair.key for id_, pair in zip(ids, matches.broken, strict=True)}
    earlier, not_compared, level_notices = _follow(inputs, matches.scope, history.prior, keys)
    cases = _cases(inputs, matches, {id_: earlier.get(id_) for id_ in ids})
    names = list(pair_names(connection, cases, fields))
    suggested = suggest_aliases(names)
    causes = suggest_causes(connection, cases, fields, names)
    breaks = sorted(_assemble(cases, causes, inputs, history), key=_order)
    limits = config.materiality
    if limits:
        breaks.sort(key=largest_first)
    rules = matches.rules
    return Outcome(
        day=source.day,
        fields=fields,
        levels=frozenset(ledger.levels),
        counts=compare.counts(connection),
        uncovered=matches.uncovered,
        breaks=tuple(breaks),
        ids={no: case.id for no, case in cases.items()},
        renamed={id_: old.id for id_, old in earlier.items() if old.id != id_},
        aliases=(*matches.aliases, *suggested),
        notices=(
            *matches.notices,
            *_alias_notices(suggested),
            *level_notices,
            *_missing_portfolios(inputs),
            *classify.over_limit(connection),
            *(unpriced_notices(breaks, limits) if limits else ()),
        ),
        digest=compare.digest(
            connection, fields, [config.name, str(source.day), source.snapshot_id]
        ),
        settled=classify.settlements(connection, fields, _keys_before(history, fields)),
        not_compared=tuple(judge_again(not_compared, limits, history)),
        opening=None if history.prior else totals_before(inputs, matches.scope),
        proposals=(*behind_notices(source, cases.values(), ledger), *matches.rounding.proposals),
        forgiven=tuple(classify.forgiven_lines(matches.forgiven, rules.totals)),
    )


def totals_before(inputs: MatchInputs, scope: Scope) -> dict[str, str] | None:
    """Return the previous book's totals by asset, within the scope, or None if there is no book."""
    day = day_before(inputs.source)
    if day is None:
        return None
    rows = book.book_query(day, ("asset",) if scope.is_whole else inputs.fields)
    is_compared = scope.predicate("book_before")
    query = f"select asset, exact_sum(amount) from ({rows}) as book_before where {is_compared}"
    return dict(inputs.connection.execute(f"{query} group by 1").fetchall())


def _by_level(keys: Mapping[str, tuple[Key, Key]]) -> Mapping[Key, _NamesById]:
    """Group key values by level and ID, ignoring fields that the ledger does not have."""
    levels: defaultdict[Key, dict[str, dict[str, str]]] = defaultdict(dict)
    for id_, (fields, key) in keys.items():
        names = {name: value for name, value in zip(fields, key, strict=True) if value != WHOLE}
        levels[tuple(names)][id_] = names
    return levels


def _by_short_key(names_by_id: _NamesById, shared: Sequence[str]) -> Mapping[Key, list[str]]:
    """Group break IDs by their values in the shared fields."""
    groups: defaultdict[Key, list[str]] = defaultdict(list)
    for id_, names in names_by_id.items():
        groups[tuple(names[name] for name in shared)].append(id_)
    return groups


def _drop_relations(connection: DuckDBPyConnection) -> None:
    """Drop all temporary tables and views, so that a comparison can be retried with more memory."""
    for kind in ("view", "table"):
        names = f"select {kind}_name from duckdb_{kind}s() where temporary and not internal"
        for (name,) in connection.execute(names).fetchall():
            connection.execute(f"drop {kind} temp.{name}")


def _match(inputs: MatchInputs) -> _Matches:
    """Aggregate both sides to the same level, join them, and determine the result for each key."""
    connection, fields = inputs.connection, inputs.fields
    ledger, reference = inputs.ledger, inputs.reference
    book.make_book_rows(connection, inputs.source.day, fields)
    scope = sides.scope_of(inputs)
    uncovered, uncovered_notices = sides.make_covered_rows(inputs, scope)
    resolution = sides.make_ledger_side(inputs, scope)
    sides.make_book_side(inputs, scope)
    compare.join_sides(connection, fields)
    per_asset, unknown_assets = sides.tolerances(inputs)
    config = replace(inputs.config, per_asset=per_asset)
    rules = MatchRules(
        fields=fields,
        config=config,
        undelivered=reference.names["portfolio"].keys() - reference.delivered,
        rejected=resolution.rejected,
        kept=file_precisions(ledger, config),
        totals=compare.totals_of_book(connection),
    )
    forgiven = classify.judge(connection, rules)
    require_few(inputs, rules, forgiven)
    broken = classify.broken_pairs(connection, fields)
    return _Matches(
        broken=broken,
        rules=rules,
        forgiven=forgiven,
        aliases=resolution.aliases,
        notices=(
            *reference.notices,
            *ledger.notices,
            *uncovered_notices,
            *sides.level_notices(ledger),
            *resolution.notices,
            *unknown_assets,
        ),
        rounding=find_rounding(inputs, broken, rules, forgiven),
        scope=scope,
        uncovered=uncovered,
    )


def _keys_before(history: History, fields: Key) -> set[Key]:
    """Return the keys of the previous run's breaks whose fields all exist at this level."""
    before = pending_breaks(history.prior).values()
    return {break_.key_at(fields) for break_ in before if {*break_.level} <= {*fields}}


def _follow(
    inputs: MatchInputs, scope: Scope, prior: Run | None, keys: Mapping[str, Key]
) -> tuple[dict[str, Break], tuple[Break, ...], list[Notice]]:
    """Match the previous run's breaks with the current ones. `keys` maps current IDs to keys.

    Return the earlier breaks by current ID, the earlier breaks that no ledger covers tonight, and a
    notice if the level changed.
    """
    fields, before = inputs.fields, pending_breaks(prior)
    not_compared = {
        id_: of
        for id_, of in before.items()
        if not scope.is_whole and id_ not in keys and not scope.covers(of.fields, of.key)
    }
    before = {id_: of for id_, of in before.items() if id_ not in not_compared}
    gone = {id_: of.key_at(fields) for id_, of in before.items() if id_ not in keys}
    # An ID changes only if the level changes. If the key of an earlier break was compared and now
    # matches, the break is resolved, even if there is a new break with a similar key.
    if inputs.ledger.levels != [fields] or any(before[id_].level != fields for id_ in gone):
        compared = compare.compared_keys(inputs.connection, fields, gone.values())
        compared -= {*keys.values()}
        before = {id_: of for id_, of in before.items() if gone.get(id_) not in compared}
    same = previous_ids(before, fields, keys)
    notices = []
    if prior is not None and prior.fields != fields:
        message = f"the level changed from {', '.join(prior.fields)} to {', '.join(fields)}, so "
        message += f"breaks have new IDs. {len(same)} of {len(before)} breaks were recognised "
        message += "and keep their history"
        notices.append(Notice("medium", message))
    return {new: before[old] for new, old in same.items()}, tuple(not_compared.values()), notices


def _cases(
    inputs: MatchInputs, matches: _Matches, earlier: Mapping[str, Break | None]
) -> dict[int, Case]:
    """Return the breaks by pair number, with their amounts in the previous book.

    `earlier` maps each break's ID to the same break in the previous run, in the order of the
    breaks.
    """
    before = _amounts_before(inputs, matches.scope) if earlier else {}
    fields, names = inputs.fields, inputs.reference.display_names
    return {
        pair.no: Case(
            pair=pair,
            id=id_,
            names=display_names(fields, pair.key, names, is_unmapped=pair.is_unmapped),
            earlier=break_,
            snapshot_before=before.get(pair.no),
            rounding=matches.rounding.causes.get(pair.no, ""),
            rejected=matches.rules.rejected.get(pair.key, ()),
            venue_note=_venue_note(pair.key, inputs),
        )
        for pair, (id_, break_) in zip(matches.broken, earlier.items(), strict=True)
    }


def _amounts_before(inputs: MatchInputs, scope: Scope) -> dict[int, str]:
    """Return the breaks' amounts in the previous book, by pair number."""
    day = day_before(inputs.source)
    if day is None:
        return {}
    # Add up the previous book at tonight's levels. Include the whole book, because the join selects
    # only tonight's breaks.
    rows = sides.book_at_levels(book.book_query(day, inputs.fields), inputs.ledger, scope)
    query = f"select no, amount from broken join ({rows}) using ({columns(inputs.fields)})"
    return dict(inputs.connection.execute(query).fetchall())


def _assemble(
    cases: Mapping[int, Case], causes: Mapping[str, str], inputs: MatchInputs, history: History
) -> Iterator[Break]:
    """Yield this run's breaks, including their causes."""
    new = [case.id for case in cases.values() if case.earlier is None]
    occurrences, limits = history.latest_occurrences(new), inputs.config.materiality
    values = value_breaks(inputs, limits) if limits else {}
    for case in cases.values():
        age = age_of(case.pair, history.day, case.earlier, occurrences.get(case.id))
        break_ = _break(case, age, inputs, history, causes.get(case.id, ""))
        if limits:
            id_ = case.earlier.id if case.earlier else case.id
            break_ = apply_limits(break_, values[case.pair.no], limits, id_, history)
        yield break_


def _break(case: Case, age: Age, inputs: MatchInputs, history: History, cause: str) -> Break:
    """Build a break with its age, its status and the comments about it."""
    pair, comments = case.pair, history.comments
    difference = plain(pair.difference)
    # If a break's ID changed with its level, its comments are stored under the earlier ID.
    id_ = case.earlier.id if case.earlier else case.id
    decision, status, note = comments.decision(id_), comments.of(id_, "status"), ""
    if history.may_open(id_):
        accept_days = inputs.config.accept_days
        status, note = status_now(decision, age.episode, difference, history.day, accept_days)
    notes = (note, case.venue_note, *_unread(case, inputs.ledger))
    return Break(
        id=case.id,
        key=pair.key,
        names=case.names,
        result=pair.result.value,
        ledger=pair.ledger,
        snapshot=pair.snapshot,
        difference=difference,
        rows=pair.rows,
        source=", ".join(_sources(case, inputs.ledger)),
        rule=pair.rule,
        placement=pair.placement,
        cause=cause,
        note="; ".join(filter(None, notes)),
        **age._asdict(),
        status=status,
        owner=comments.of(id_, "owner"),
        root_cause=comments.of(id_, "root_cause"),
        comment=comments.of(id_, "comment"),
        accepted=decision.accepted,
    )


def _sources(case: Case, ledger: Ledger) -> list[str]:
    """Return the locations of a break's rows, with unreadable rows first."""
    locations = [ledger.place(row) for row in case.rejected]
    locations += (ledger.place(ledger.lines[line]) for line in case.pair.lines[:_MAX_SOURCES])
    return locations[:_MAX_SOURCES]


def _unread(case: Case, ledger: Ledger) -> Iterator[str]:
    """Yield a note for each unread amount, so that nobody mistakes it for zero."""
    for row in case.rejected[:_MAX_UNREAD]:
        yield f"{row.raw[:60]!r} in {ledger.place(row)} could not be read as an amount"


def _venue_note(key: Key, inputs: MatchInputs) -> str:
    """Return a note about the key's venue if the venue is not trading."""
    venue = dict(zip(inputs.fields, key, strict=True)).get("venue", "")
    status = inputs.reference.closed.get(venue)
    return f"the venue is {status}" if status else ""


def _order(break_: Break) -> tuple[str, int, str, str]:
    """Return a break's sort key: by asset, with the largest difference first."""
    # Compare amounts as strings, because creating a `Decimal` for each break is slow. A number with
    # a longer whole part is larger. Among numbers with whole parts of the same length, the largest
    # would sort last, so invert the digits. The `~` sorts `10` after `10.5`.
    size = break_.difference.lstrip("-")
    return (
        break_.names.get("asset", ""),
        -len(size.partition(".")[0]),
        size.translate(_DESCENDING) + "~",
        break_.id,
    )


def _alias_notices(aliases: Sequence[Alias]) -> Iterator[Notice]:
    """Yield a notice for each suggested alias, with the recon.toml line that defines the alias."""
    for alias in aliases[:_MAX_ALIASES]:
        yield Notice(
            "low",
            f"one {alias.field} under two names? {count_of(alias.rows, 'amount')} would match if "
            f"you add this line under [alias.{alias.field}] in recon.toml: {alias_line(alias)}",
            "",
            alias.written[:1000],
        )


def _missing_portfolios(inputs: MatchInputs) -> Iterator[Notice]:
    """Yield a notice for each portfolio that the API did not deliver."""
    if "portfolio" not in inputs.fields:
        return
    rows = inputs.connection.execute(
        "select portfolio, count(*) from compared where result = ? group by 1 order by 1",
        [Result.NOT_DELIVERED.value],
    ).fetchall()
    for portfolio, number in rows:
        name = inputs.reference.display_names["portfolio"].get(portfolio, portfolio)
        message = f"the API did not deliver portfolio {name}: {count_of(number, 'position')}"
        message += " in the ledger could not be compared"
        yield Notice("high", message, "book", portfolio)
