"""Measures: by how much a night moved against a book before, and how much of that is usual.

Limits are learned from our own past nights: a move is suspicious when it is well above every move
seen before, and above a floor while there are few.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pipelines.lake.facts import Facts
from warehouse.exact import exact, plain

COUNTS = ("accounts", "instruments", "venues")
FALLEN, RISEN = "assets fallen", "assets risen"
YOUNG = 10
MOST = Decimal("0.75")  # whatever was seen before: who loses more must be looked at
YOUNG_FLOOR = Decimal("0.4")  # so that half of anything gone is seen from the second night on
FLOOR = Decimal("0.3")
MARGIN = Decimal("1.5")
# An asset has fallen when its total lost more than this, and risen when going back would.
MOVED = Decimal("0.2")
FEWEST_ASSETS = 2  # one asset alone is a finding
FEWEST_GONE, FEWEST_NEW = 2, 5  # of a count: fewer are no share of anything
FEW = 4  # of so few assets all have to move
SHOWN = 3
LONG = 40


@dataclass(frozen=True, slots=True)
class Move:
    """By what share of how many things a measure moved, in words."""

    measure: str
    share: Decimal
    words: str
    things: int = 0


def bases(past: Sequence[Facts]) -> list[Facts]:
    """Return the last book, and where that is suspect also the last that is not."""
    books = list(past[-1:])
    if books and books[0].is_suspect:
        books += [facts for facts in past if not facts.is_suspect][-1:]
    return books


def drops(facts: Facts, before: Facts | None) -> dict[str, str]:
    """Return the share by which every measure moved against a book before: 0 to 1, as text."""
    if before is None:
        return {}
    return {move.measure: str(move.share) for move in moves(facts, before)}


def limit(measure: str, past: Sequence[Facts], things: int = 0) -> Decimal:
    """Return the move of a measure above which a night is held, learned from past accepted nights.

    It never exceeds `MOST`: a night that was accepted by hand after a collapse must not switch the
    guard off for the nights after it. Of few things it is more, and of four all but one.
    """
    seen = [
        Decimal(facts.drops[measure])
        for facts in past
        if measure in facts.drops and not facts.is_suspect
    ]
    # While few nights are known the floor is higher, for the largest move seen so far says little.
    floor = YOUNG_FLOOR if len(seen) < YOUNG else FLOOR
    if things:  # one of few is a large share
        single = Decimal(1) / things
        floor = 1 - single if things <= FEW else floor + single
    return min(MOST, max(floor, MARGIN * max(seen, default=Decimal(0))))


def moves(facts: Facts, before: Facts) -> Iterator[Move]:
    """Yield, by how much each measure moved against a book before."""
    for table in COUNTS:
        yield from _counts(table, facts, before)
    yield from _assets(facts, before)


def _counts(table: str, facts: Facts, before: Facts) -> Iterator[Move]:
    was, now = before.counts.get(table, 0), facts.counts.get(table, 0)
    words = f"from {was} to {now}"
    # A fund that opens or closes one asset in all its accounts moves the count, and is no accident.
    if table == "accounts":
        was, now = _but_one_asset(was, now, before.accounts, facts.accounts)
    fell = _drop(Decimal(was), Decimal(now)) if was - now >= FEWEST_GONE else Decimal(0)
    rose = _drop(Decimal(now), Decimal(was)) if was and now - was >= FEWEST_NEW else Decimal(0)
    yield Move(table, fell, f"{table} fell {words}")
    yield Move(f"{table} risen", rose, f"{table} rose {words}")


def _but_one_asset(
    was: int, now: int, before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[int, int]:
    """Counts without the asset whose accounts moved most: one alone is no slice."""
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
            for asset in sorted(moved)[:SHOWN]
        )
        words = f"the totals of {len(moved)} of {len(held)} assets {verb} by more than a fifth"
        more = ", ..." if len(moved) > SHOWN else ""
        share = share.quantize(Decimal("0.0001"))
        yield Move(measure, share, f"{words}: {examples}{more}", len(held))


def _drop(before: Decimal, now: Decimal) -> Decimal:
    """Return which share of `before` is gone: 1 also where the sign has changed."""
    if not before or ((now > 0) is (before > 0) and abs(now) >= abs(before)):
        return Decimal(0)
    if (now > 0) is not (before > 0):
        return Decimal(1)
    return (1 - abs(now) / abs(before)).quantize(Decimal("0.0001"))


def _short(amount: Decimal) -> str:
    text = plain(amount)
    return text if len(text) <= LONG else f"{text[:LONG]}..."
