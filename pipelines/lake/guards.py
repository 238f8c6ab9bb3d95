"""The guards, which find the reasons why a night must be held."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from pipelines.lake.facts import Facts, Findings, PortfolioChange
from pipelines.lake.measures import bases, limit, moves
from pipelines.lake.origins import ORIGIN
from pipelines.lake.slices import FELL, GONE, KIND, PORTFOLIO, ROSE, SCALE, Slice
from pipelines.landing import notices
from pipelines.landing.manifest import DELETED, REFUSED, THERE, UNTOLD, Window
from pipelines.landing.reasons import Reason, shape_of
from pipelines.records.schema import BALANCE_KINDS
from warehouse.contract.model import and_more, count_of
from warehouse.exact import plain

MAX_VENUES_FAILED = Decimal("0.1")
MAX_SHOWN = 5
IN_BOTH = "in the portfolios of both books"
FATES = {
    REFUSED: "with access removed",
    DELETED: "deleted",
    THERE: "still available by ID, but not in the list",
    UNTOLD: "not answered",
}


def find_reasons(
    facts: Facts, past: Sequence[Facts], night: Findings | None = None
) -> tuple[Reason, ...]:
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
    if other := night.other_server:
        yield Reason(
            f"{ORIGIN}{other.server}",
            f"another server answered: {other.server}, but {other.before} on the last accepted "
            f"night, {other.night_before}. Accept the night only if both have the same books",
            is_teachable=True,
        )
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
        counted = and_more([f"{total} {asset}" for asset, total in venue.totals.items()], MAX_SHOWN)
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
    if not asked or Decimal(count) / asked <= MAX_VENUES_FAILED:
        return
    gone = ""
    if emptied:
        gone = f", or are no longer listed ({and_more(emptied, MAX_SHOWN)})"
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
            yield Reason(f"everywhere: {shape_of(defect)}", words, is_teachable=True, share="1")


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
        names, confirmed = and_more(gone, MAX_SHOWN), _confirmation(window, set(gone))
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
            f"{count_of(len(change.new), 'portfolio')} {verb} new: "
            f"{and_more(change.new, MAX_SHOWN)}; including new portfolios, "
            f"{'; '.join(reason.words for reason in moved)}",
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
