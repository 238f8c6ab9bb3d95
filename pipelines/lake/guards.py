"""The guards that judge a night, and the figures that they compare."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from pipelines.flatten.columns import Parts
from pipelines.lake.facts import (
    FELL,
    GONE,
    KIND,
    PORTFOLIO,
    ROSE,
    SCALE,
    Facts,
    Findings,
    PortfolioChange,
    RejectGroup,
    Slice,
)
from pipelines.landing import notices
from pipelines.landing.manifest import DELETED, REFUSED, THERE, UNTOLD, Manifest, Window
from pipelines.landing.reasons import Reason, shape_of
from pipelines.records.defects import Defect
from pipelines.records.notes import Reject
from pipelines.records.schema import BALANCE_KINDS
from warehouse.contract.model import and_more, count_of
from warehouse.exact import exact, plain

COUNTS = ("accounts", "instruments", "venues")
FALLEN, RISEN = "assets fallen", "assets risen"
YOUNG = 10
MOST = Decimal("0.75")  # a night that lost a larger fraction is always held
YOUNG_FLOOR = Decimal("0.4")  # low enough to hold a night if half of its book is missing
FLOOR = Decimal("0.3")
MARGIN = Decimal("1.5")
# An asset has fallen if its total dropped by more than this fraction of the old total. It has risen
# if its total grew by more than this fraction of the new total.
MOVED = Decimal("0.2")
FEWEST_ASSETS = 2  # a change in only one asset is not a reason to hold a night
FEWEST_GONE, FEWEST_NEW = 2, 5  # smaller changes in a count are ignored
# If a measure counts at most this many items, hold the night only if every item changed.
FEW = 4
SHOWN_ASSETS = 3
LONG = 40


@dataclass(frozen=True, slots=True)
class Move:
    """The change of one measure: the fraction (`share`), a description, and the items counted."""

    measure: str
    share: Decimal
    words: str
    things: int = 0


def bases(past: Sequence[Facts]) -> list[Facts]:
    """Return the earlier books that a night is compared with.

    These are the last book and, if that book is suspect, also the last book that is not suspect.
    """
    books = list(past[-1:])
    if books and books[0].is_suspect:
        books += [facts for facts in past if not facts.is_suspect][-1:]
    return books


def drops(facts: Facts, before: Facts | None) -> dict[str, str]:
    """Return each measure's change since an earlier book, as a fraction in a decimal string."""
    if before is None:
        return {}
    return {move.measure: str(move.share) for move in moves(facts, before)}


def limit(measure: str, past: Sequence[Facts], things: int = 0) -> Decimal:
    """Return the largest allowed change of a measure, based on the changes of past nights.

    The limit is at most `MOST`, because a night that a person accepted after a collapse must not
    switch the guard off. It is larger if a measure counts only a few items. For example, three of
    four assets may move.
    """
    seen = [
        Decimal(facts.drops[measure])
        for facts in past
        if measure in facts.drops and not facts.is_suspect
    ]
    # The smallest limit is higher while few nights are known, because their largest change may be
    # too small to be typical.
    floor = YOUNG_FLOOR if len(seen) < YOUNG else FLOOR
    if things:  # If there are only a few items, a single item is a large fraction.
        single = Decimal(1) / things
        floor = 1 - single if things <= FEW else floor + single
    return min(MOST, max(floor, MARGIN * max(seen, default=Decimal(0))))


def moves(facts: Facts, before: Facts) -> Iterator[Move]:
    """Yield the change of each measure since an earlier book."""
    for table in COUNTS:
        yield from _counts(table, facts, before)
    yield from _assets(facts, before)


def _counts(table: str, facts: Facts, before: Facts) -> Iterator[Move]:
    was, now = before.counts.get(table, 0), facts.counts.get(table, 0)
    words = f"from {was} to {now}"
    # A fund may buy or sell one asset in all of its accounts. That is normal, although it changes
    # the number of accounts.
    if table == "accounts":
        was, now = _but_one_asset(was, now, before.accounts, facts.accounts)
    fell = _drop(Decimal(was), Decimal(now)) if was - now >= FEWEST_GONE else Decimal(0)
    rose = _drop(Decimal(now), Decimal(was)) if was and now - was >= FEWEST_NEW else Decimal(0)
    yield Move(table, fell, f"{table} fell {words}")
    yield Move(f"{table} risen", rose, f"{table} rose {words}")


def _but_one_asset(
    was: int, now: int, before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[int, int]:
    """Return both account counts without the asset whose account count changed most."""
    every = sorted(before.keys() | after.keys())
    if not before or len(every) < FEWEST_ASSETS:
        return was, now
    most = max(every, key=lambda asset: abs(after.get(asset, 0) - before.get(asset, 0)))
    return was - before.get(most, 0), now - after.get(most, 0)


def _assets(facts: Facts, before: Facts) -> Iterator[Move]:
    held = {asset: exact(text) for asset, text in before.totals.items()}
    held = {asset: total for asset, total in held.items() if total}
    left = {asset: exact(facts.totals.get(asset, "0")) for asset in held}
    fallen = {asset for asset in held if _drop(held[asset], left[asset]) > MOVED}
    risen = {asset for asset in held if _drop(left[asset], held[asset]) > MOVED} - fallen
    for measure, verb, moved in ((FALLEN, "fell", fallen), (RISEN, "rose", risen)):
        share = Decimal(len(moved)) / len(held) if len(moved) >= FEWEST_ASSETS else Decimal(0)
        examples = ", ".join(
            f"{asset} from {_short(held[asset])} to {_short(left[asset])}"
            for asset in sorted(moved)[:SHOWN_ASSETS]
        )
        words = f"the totals of {len(moved)} of {len(held)} assets {verb} by more than a fifth"
        more = ", ..." if len(moved) > SHOWN_ASSETS else ""
        share = share.quantize(Decimal("0.0001"))
        yield Move(measure, share, f"{words}: {examples}{more}", len(held))


def _drop(before: Decimal, now: Decimal) -> Decimal:
    """Return the fraction of `before` that was lost, or 1 if the sign has changed."""
    if not before or ((now > 0) is (before > 0) and abs(now) >= abs(before)):
        return Decimal(0)
    if (now > 0) is not (before > 0):
        return Decimal(1)
    return (1 - abs(now) / abs(before)).quantize(Decimal("0.0001"))


def _short(amount: Decimal) -> str:
    text = plain(amount)
    return text if len(text) <= LONG else f"{text[:LONG]}..."


__all__ = ["Facts", "Findings", "RejectGroup", "drops", "judge", "limit"]

MOST_VENUES_FAILED = Decimal("0.1")
SHOWN = 5
IN_BOTH = "in the portfolios of both books"
FATES = {
    REFUSED: "with access removed",
    DELETED: "deleted",
    THERE: "still available by ID, but not in the list",
    UNTOLD: "not answered",
}


def judge(facts: Facts, past: Sequence[Facts], night: Findings | None = None) -> tuple[Reason, ...]:
    """Return the reasons why a night must be held, or an empty tuple.

    `past` contains the accepted nights before this one, oldest first.
    """
    # The night is compared with the last book. If that book is suspect, the night is also compared
    # with the last book that is not suspect. Large moves hold the night only if every comparison
    # finds them.
    night, compared = night or Findings(), bases(past)
    against = [
        _compare(facts, base, past, [*_missing_portfolios(facts, base, night.window)])
        for base in compared
    ]
    return (
        *_broken(night),
        *_unread(night, compared),
        *_empty(facts, compared),
        *_everywhere(facts, compared),
        *(against[0] if against and all(against) else ()),
    )


def _broken(night: Findings) -> Iterator[Reason]:
    for doubt in night.date_doubts:
        yield Reason(f"date: {doubt.code}", doubt.message)
    for shape in night.rejects:
        yield Reason(
            f"reject: {shape.path}: {shape.reason}",
            f"rejected values that carry money: {shape.count}, the first at {shape.first} "
            f"({shape.message or shape.reason}). See ops.rejects",
            is_teachable=True,
            share=shape.share,
        )
    if night.differing_totals:
        yield Reason(
            "control totals",
            f"control totals differ between landed JSON and lake: "
            f"{len(night.differing_totals)}, the first for {night.differing_totals[0]}. See "
            "ops.control_totals",
        )
    for venue in night.repeated:
        counted = and_more([f"{total} {asset}" for asset, total in venue.totals.items()], SHOWN)
        yield Reason(
            f"repeated accounts: {venue.venue_id}",
            "accounts are listed more than once with the same amounts, which would count at least "
            f"twice: {count_of(venue.accounts, 'account')} at venue {venue.venue_id} with "
            f"{counted}. The first one is {venue.first}",
            is_teachable=True,
            share=venue.share,
        )
    yield from notices.reasons(night.notices, night.signs)


def _unread(night: Findings, compared: Sequence[Facts]) -> Iterator[Reason]:
    """Yield a reason if more than a tenth of all venues newly lost their instruments."""
    known = {venue for base in compared for venue in base.unread}
    failed = sorted(set(night.failed) - known)
    emptied = sorted(set(night.emptied) - known)
    count, asked = len(failed) + len(emptied), night.venues
    if not asked or Decimal(count) / asked <= MOST_VENUES_FAILED:
        return
    gone = ""
    if emptied:
        gone = f", or are no longer listed ({and_more(emptied, SHOWN)})"
    yield Reason(
        "venues unread",
        f"the instruments of {count} of {asked} venues could not be read{gone} (limit: a tenth)",
        is_teachable=True,
        share=str((Decimal(count) / asked).quantize(Decimal("0.0001"))),
    )


def _empty(facts: Facts, compared: Sequence[Facts]) -> Iterator[Reason]:
    """Yield a reason for each list that became empty, or that is empty on the first night."""
    # The API returns empty lists if the key has no access (4.1).
    why = ". This is how the API responds if the key has no access (4.1)"
    if not facts.money and not compared:
        yield Reason("empty: portfolios", f"the list of portfolios is empty{why}")
    for table, words in (
        ("positions", "no portfolio has a position"),
        ("venues", "the list of venues is empty"),
    ):
        was_empty = any(not base.counts.get(table, 1) for base in compared)
        if facts.counts.get(table, 1) or was_empty or (table == "positions" and not facts.money):
            continue
        yield Reason(f"empty: {table}", f"{words}{why}")


def _everywhere(facts: Facts, compared: Sequence[Facts]) -> Iterator[Reason]:
    known = {defect for base in compared for defect in base.everywhere}
    for defect in facts.everywhere:
        if defect not in known:
            message = facts.defect_messages.get(defect, defect)
            words = f"every record has the same defect, so the API has changed: {message}"
            key = f"everywhere: {shape_of(defect)}"
            yield Reason(key, words, is_teachable=True, share="1")


def _missing_portfolios(facts: Facts, before: Facts, window: Window) -> Iterator[Reason]:
    if before.money and not facts.money:
        yield Reason(
            "empty: portfolios",
            f"the list of portfolios is empty, but had {len(before.money)} before. This is how the "
            "API responds if the "
            "key has lost its access (4.1)"
            f"{_confirmation(window, set(before.money))}",
        )
        return
    gone = sorted(
        portfolio
        for portfolio, has_money in before.money.items()
        if has_money and portfolio not in facts.money
    )
    if gone:
        names, confirmed = and_more(gone, SHOWN), _confirmation(window, set(gone))
        are = "is" if len(gone) == 1 else "are"
        yield Reason(
            "missing: portfolios",
            f"{count_of(len(gone), 'portfolio')} that held money {are} missing: {names}{confirmed}",
        )


def _confirmation(window: Window, gone: set[str]) -> str:
    """Describe the second read of the list, and the responses for each missing portfolio."""
    words = ""
    if window.second_count is not None:
        words += f"; a second read {window.second_after} s later returned {window.second_count}"
    elif window.missing:
        words += "; the list could not be read a second time"
    ids_by_fate: dict[str, list[str]] = {}
    for portfolio, fate in sorted(window.missing.items()):
        if portfolio in gone:
            ids_by_fate.setdefault(FATES[fate], []).append(portfolio)
    asked = sum(map(len, ids_by_fate.values()))
    if asked:
        fates = ", ".join(
            f"{len(ids)} {fate} ({ids[0]})" for fate, ids in sorted(ids_by_fate.items())
        )
        words += f"; requested by ID, {asked} of {len(gone)}: {fates}"
    return words


def _compare(
    facts: Facts, before: Facts, past: Sequence[Facts], missing: list[Reason]
) -> list[Reason]:
    """Compare a night with one earlier book. Return the reasons why the night looks wrong.

    A missing or new portfolio changes all measures, so each measure would report it. If there are
    such portfolios, the measures are therefore compared without them, and the portfolios get their
    own reason. This changes only the reasons, never whether the night is held.
    """
    whole = [*missing, *_moves(facts, before, past, _slices_of(facts, before))]
    change = facts.portfolio_changes.get(before.snapshot_id)
    if change is None or not whole:
        return whole
    base = before.without(change.missing_share)
    of_both = facts.without(change.new_share)
    rest = [
        reason if reason in whole else replace(reason, words=f"{IN_BOTH}: {reason.words}")
        for reason in _moves(of_both, base, past, change.slices)
    ]
    known = {reason.key for reason in rest}
    risen = [part for part in _slices_of(facts, before) if part.change == ROSE]
    with_new = [reason for reason in _moves(facts, base, past, risen) if reason.key not in known]
    return [*missing, *rest, *_new_portfolios(change, with_new)] or whole


def _new_portfolios(change: PortfolioChange, moved: list[Reason]) -> Iterator[Reason]:
    """Yield one reason that summarizes all moves caused by new portfolios."""
    if change.new and moved:
        verb = "is" if len(change.new) == 1 else "are"
        yield Reason(
            "new: portfolios",
            f"{count_of(len(change.new), 'portfolio')} {verb} new: {and_more(change.new, SHOWN)}; "
            f"including new portfolios, {'; '.join(reason.words for reason in moved)}",
        )


def _slices_of(facts: Facts, before: Facts) -> Sequence[Slice]:
    return facts.slices.get(before.snapshot_id, ())


def _moves(
    facts: Facts, before: Facts, past: Sequence[Facts], slices: Sequence[Slice]
) -> Iterator[Reason]:
    """Yield a reason for each slice that moved, and for each measure that moved too far."""
    for part in slices:
        if part.kind == PORTFOLIO and part.identity not in facts.money:
            continue  # This slice is already reported as a missing portfolio.
        if part.kind == KIND and not _is_established(part.identity, past):
            continue
        yield Reason(f"slice: {part.kind} {part.identity} {part.change}", _words(part))
    for move in moves(facts, before):
        most = limit(move.measure, past, move.things)
        if move.share > most:
            words = f"{move.words} ({_percent(move.share)}; limit {_percent(most)})"
            yield Reason(f"measure: {move.measure}", words)


def _is_established(kind: str, past: Sequence[Facts]) -> bool:
    """Return whether a balance kind is documented, or was in both of the last two nights."""
    last = past[-2:]
    return kind in BALANCE_KINDS or (len(last) > 1 and all(kind in facts.kinds for facts in last))


def _words(part: Slice) -> str:
    if part.change == GONE:
        return (
            f"{part.kind} {part.identity} is now empty, but had "
            f"{count_of(part.assets, 'asset')} before"
        )
    change = "less than an eighth of" if part.change == FELL else f"more than {SCALE:.0f} times"
    return (
        f"{part.moved} of the {part.assets} assets in {part.kind} {part.identity} are now {change} "
        "their earlier amount. The API may have changed the scale of its amounts"
    )


def _percent(share: Decimal) -> str:
    return f"{plain((share * 100).quantize(Decimal('0.1')))} %"


_PATH = re.compile(r"data\[(\d+)\](?:\.([^.\[]+))?")
_TABLES = {
    "list_portfolios": "portfolios",
    "list_venues": "venues",
    "list_instruments": "instruments",
}
# Maps the name of a list, as in the paths of rejects, to the table that contains the list's
# records. Innermost lists come first.
_LISTS = ((".accounts[]", "accounts"), (".positions[]", "positions"), *_TABLES.items())


def money_shapes(manifest: Manifest, parts: Parts) -> list[RejectGroup]:
    """Group the rejects that may contain money by path and defect, ignoring indexes and numbers."""
    operations = {answer.request_no: answer.operation for answer in manifest.book}
    counts = {name: table.rows for name, table in parts.tables.items()}
    groups: dict[tuple[str, str], list[Reject]] = defaultdict(list)
    for reject in parts.rejects:
        if reject.carries_money:
            path = f"{operations.get(reject.request_no, '')} {shape_of(reject.path)}"
            groups[path, shape_of(reject.defect.key)].append(reject)
    return [
        RejectGroup(
            path=path,
            reason=reason,
            count=len(rejects),
            share=_share(path, len(rejects), counts),
            first=rejects[0].path,
            message=rejects[0].defect.message,
        )
        for (path, reason), rejects in sorted(groups.items())
    ]


def _share(path: str, count: int, counts: Mapping[str, int]) -> str:
    """Return the fraction of a list that was rejected: rejects divided by rows, but at most 1."""
    table = next((name for mark, name in _LISTS if mark in path), "portfolios")
    whole = max(counts.get(table, 0), count)
    return str((Decimal(count) / whole).quantize(Decimal("0.0001")))


def everywhere(manifest: Manifest, parts: Parts) -> dict[str, str]:
    """Find defects that every record in a list has. Return their messages by defect key.

    A key is for example `list_venues createdAt: text was expected`.
    """
    # A list with a single record does not prove that the API changed.
    operations = {answer.request_no: answer.operation for answer in manifest.book}
    records_by_defect: dict[tuple[str, str, Defect], set[tuple[int, str]]] = defaultdict(set)
    for reject in parts.rejects:
        place = _PATH.fullmatch(reject.path)
        operation = operations.get(reject.request_no)
        if place is not None and operation is not None:
            records_by_defect[operation, place[2] or "", reject.defect].add(
                (reject.request_no, place[1])
            )
    found = [
        (f"{operation} {field}".strip(), defect)
        for (operation, field, defect), records in records_by_defect.items()
        if len(records) > 1 and len(records) >= _count(parts, operation, records_by_defect)
    ]
    messages = {f"{where}: {of.key}": f"{where}: {of.message}" for where, of in found}
    return dict(sorted(messages.items()))


def _count(
    parts: Parts,
    operation: str,
    records_by_defect: Mapping[tuple[str, str, Defect], set[tuple[int, str]]],
) -> int:
    """Count the records that an API operation returned, including records without a row."""
    without = set[tuple[int, str]]()
    for (other, field, _), records in records_by_defect.items():
        if other == operation and not field:
            without |= records
    return parts.tables[_TABLES[operation]].rows + len(without)
