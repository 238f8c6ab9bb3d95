"""Guards (design part 6): whether a landed night may replace last night's book, or is held.

Each reason is a sentence with its numbers. Limits are learned from our own past nights: a drop is
suspicious when it is well above every drop seen before, and above a floor while there are few.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipelines import amounts, stillness
from pipelines.notices import Notice, sentences
from pipelines.stillness import Window

COUNTS = {"accounts": "accounts", "instruments": "instruments", "venues": "venues"}
YOUNG = 10
MOST = Decimal("0.75")  # whatever was seen before: who loses more must be looked at
YOUNG_FLOOR = Decimal("0.4")  # so that half of anything gone is seen from the second night on
FLOOR = Decimal("0.3")
MARGIN = Decimal("1.5")
MOST_VENUES_FAILED = Decimal("0.1")
SHOWN = 5
FATES = {
    stillness.REFUSED: "refused: access was taken away",
    stillness.DELETED: "not found: it was deleted",
    stillness.THERE: "still there: the list left it out",
    stillness.UNTOLD: "without an answer that tells",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the guards look at: counts by table, exact totals by asset, portfolios with money.

    `drops` are the largest relative drops against the book before, by measure, as text;
    `everywhere` are the defects that stand in every record of a list.
    """

    counts: Mapping[str, int]
    totals: Mapping[str, str]
    money: Mapping[str, bool]
    drops: Mapping[str, str]
    everywhere: Sequence[str] = ()

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Facts":
        """Facts as a manifest keeps them."""
        facts = (content["counts"], content["totals"], content["money"], content["drops"])
        return cls(*facts, content.get("everywhere", ()))


def drops(facts: Facts, before: Facts | None) -> dict[str, str]:
    """The largest relative drop of every measure against the book before: 0 to 1."""
    if before is None:
        return {}
    found = {
        table: _drop(Decimal(before.counts.get(table, 0)), Decimal(facts.counts.get(table, 0)))
        for table in COUNTS
    }
    assets = [drop for _, drop, _, _ in _asset_drops(facts, before)]
    found["asset totals"] = max(assets, default=Decimal(0))
    return {measure: str(drop) for measure, drop in found.items()}


def _drop(before: Decimal, now: Decimal) -> Decimal:
    """How much of `before` is gone: 1 is all of it, also where its sign has changed; 0 is none."""
    if not before or ((now > 0) is (before > 0) and abs(now) >= abs(before)):
        return Decimal(0)
    if (now > 0) is not (before > 0):
        return Decimal(1)
    return (1 - abs(now) / abs(before)).quantize(Decimal("0.0001"))


def _asset_drops(facts: Facts, before: Facts) -> Iterator[tuple[str, Decimal, Decimal, Decimal]]:
    for asset, text in before.totals.items():
        was, now = amounts.own(text), amounts.own(facts.totals.get(asset, "0"))
        yield asset, _drop(was, now), was, now


def limit(measure: str, past: list[Facts]) -> Decimal:
    """The drop of a measure above which a night is held, learned from past accepted nights.

    It never exceeds `MOST`: a night that was accepted by hand after a collapse must not switch the
    guard off for the nights after it.
    """
    seen = [Decimal(facts.drops[measure]) for facts in past if measure in facts.drops]
    floor = YOUNG_FLOOR if len(seen) < YOUNG else FLOOR
    return min(MOST, max(floor, MARGIN * max(seen, default=Decimal(0))))


def judge(
    facts: Facts,
    past: list[Facts],
    *,
    money_rejects: list[str],
    differing_totals: list[str],
    venues: tuple[int, int],
    notices: tuple[str, ...],
    window: Window,
    signs: tuple[Notice, ...] = (),
    emptied: Sequence[str] = (),
) -> tuple[str, ...]:
    """Why a night must be held; empty when it may be accepted.

    `past` are the accepted nights before it, oldest first; `money_rejects` are paths of rejected
    things that carry money; `venues` are how many failed, of how many; `notices` are what the
    pull saw that looks like paging (4.6), `signs` the same with their numbers; `window` has what a
    second read said; `emptied` are venues that list no instruments tonight and had some.
    """
    before = past[-1] if past else None
    reasons = list(_broken(money_rejects, differing_totals, notices, signs))
    reasons += _unread(venues, emptied)
    known = before.everywhere if before else ()
    reasons += [
        f"a defect is in every record, so the document has changed: {defect}"
        for defect in facts.everywhere
        if defect not in known
    ]
    if before is not None:
        reasons += _vanished(facts, before, window)
        reasons += _dropped(facts, before, past)
    return tuple(reasons)


def _broken(
    money_rejects: list[str],
    differing_totals: list[str],
    notices: tuple[str, ...],
    signs: tuple[Notice, ...],
) -> Iterator[str]:
    if money_rejects:
        yield (
            f"{len(money_rejects)} rejected records carry money, first {money_rejects[0]}: see "
            "ops.rejects"
        )
    if differing_totals:
        yield (
            f"{len(differing_totals)} control totals differ between the landed JSON and the lake, "
            f"first {differing_totals[0]}: see ops.control_totals"
        )
    yield from sentences(notices, signs)


def _unread(venues: tuple[int, int], emptied: Sequence[str]) -> Iterator[str]:
    failed, asked = venues
    count = failed + len(emptied)
    if not asked or Decimal(count) / asked <= MOST_VENUES_FAILED:
        return
    gone = ""
    if emptied:
        more = f" and {len(emptied) - SHOWN} more" if len(emptied) > SHOWN else ""
        names = f"{', '.join(emptied[:SHOWN])}{more}"
        gone = f", or are no longer listed though no error came ({names})"
    yield f"the instruments of {count} of {asked} venues could not be read{gone} (limit a tenth)"


def _vanished(facts: Facts, before: Facts, window: Window) -> Iterator[str]:
    if before.money and not facts.money:
        yield (
            f"the portfolio list is empty and had {len(before.money)} portfolios: this is what the "
            f"API answers when access is lost (4.1){_confirmed(window, set(before.money))}"
        )
        return
    gone = sorted(
        portfolio
        for portfolio, has_money in before.money.items()
        if has_money and portfolio not in facts.money
    )
    if gone:
        more = f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
        names = ", ".join(gone[:SHOWN])
        confirmed = _confirmed(window, set(gone))
        yield f"{len(gone)} portfolios that held money are missing: {names}{more}{confirmed}"


def _confirmed(window: Window, gone: set[str]) -> str:
    """What a second read, and asking for them by id, said of portfolios that are gone."""
    words = ""
    if window.second_count is not None:
        words += f"; a second read {window.second_after} s later had {window.second_count}"
    elif window.missing:
        words += "; it could not be read a second time"
    told: dict[str, list[str]] = {}
    for portfolio, fate in sorted(window.missing.items()):
        if portfolio in gone:
            told.setdefault(FATES[fate], []).append(portfolio)
    asked = sum(map(len, told.values()))
    if asked:
        said = ", ".join(f"{len(ids)} {fate} ({ids[0]})" for fate, ids in sorted(told.items()))
        words += f"; asked for by id, {asked} of {len(gone)}: {said}"
    return words


def _dropped(facts: Facts, before: Facts, past: list[Facts]) -> Iterator[str]:
    for table, words in COUNTS.items():
        was, now = Decimal(before.counts.get(table, 0)), Decimal(facts.counts.get(table, 0))
        most = limit(table, past)
        if (drop := _drop(was, now)) > most:
            yield f"{words} fell from {was} to {now} ({_percent(drop)}; limit {_percent(most)})"
    most = limit("asset totals", past)
    fallen = [one for one in _asset_drops(facts, before) if one[1] > most]
    for asset, drop, was, now in sorted(fallen)[:SHOWN]:
        yield (
            f"the total of {asset} fell from {amounts.plain(was)} to {amounts.plain(now)} "
            f"({_percent(drop)}; limit {_percent(most)})"
        )
    if len(fallen) > SHOWN:
        yield f"the totals of {len(fallen) - SHOWN} more assets fell by more than the limit"


def _percent(share: Decimal) -> str:
    return f"{amounts.plain((share * 100).quantize(Decimal('0.1')))} %"
