"""The measures of a night that the guards compare with earlier nights, and their limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pipelines.lake.facts import Facts
from warehouse.exact import exact, plain

COUNTS = ("accounts", "instruments", "venues")
FALLEN, RISEN = "assets fallen", "assets risen"
MIN_NIGHTS = 10
MAX_LIMIT = Decimal("0.75")  # a night that lost a larger fraction is always held
MIN_YOUNG_LIMIT = Decimal("0.4")  # low enough to hold a night if half of its book is missing
MIN_LIMIT = Decimal("0.3")
MARGIN = Decimal("1.5")
# An asset has fallen if its total dropped by more than this fraction of the old total. It has risen
# if its total grew by more than this fraction of the new total.
MOVED = Decimal("0.2")
MIN_ASSETS = 2  # a change in only one asset is not a reason to hold a night
MIN_GONE, MIN_NEW = 2, 5  # smaller changes in a count are ignored
# If a measure counts at most this many items, hold the night only if every item changed.
MAX_FEW = 4
MAX_SHOWN_ASSETS = 3
MAX_LENGTH = 40


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

    The limit is at most `MAX_LIMIT`, because a night that a person accepted after a collapse must
    not switch the guard off. It is larger if a measure counts only a few items. For example, three
    of four assets may move.
    """
    seen = [
        Decimal(facts.drops[measure])
        for facts in past
        if measure in facts.drops and not facts.is_suspect
    ]
    # The smallest limit is higher while few nights are known, because their largest change may be
    # too small to be typical.
    floor = MIN_YOUNG_LIMIT if len(seen) < MIN_NIGHTS else MIN_LIMIT
    if things:  # If there are only a few items, a single item is a large fraction.
        single = Decimal(1) / things
        floor = 1 - single if things <= MAX_FEW else floor + single
    return min(MAX_LIMIT, max(floor, MARGIN * max(seen, default=Decimal(0))))


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
    fell = _drop(Decimal(was), Decimal(now)) if was - now >= MIN_GONE else Decimal(0)
    rose = _drop(Decimal(now), Decimal(was)) if was and now - was >= MIN_NEW else Decimal(0)
    yield Move(table, fell, f"{table} fell {words}")
    yield Move(f"{table} risen", rose, f"{table} rose {words}")


def _but_one_asset(
    was: int, now: int, before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[int, int]:
    """Return both account counts without the asset whose account count changed most."""
    every = sorted(before.keys() | after.keys())
    if not before or len(every) < MIN_ASSETS:
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
        share = Decimal(len(moved)) / len(held) if len(moved) >= MIN_ASSETS else Decimal(0)
        examples = ", ".join(
            f"{asset} from {_short(held[asset])} to {_short(left[asset])}"
            for asset in sorted(moved)[:MAX_SHOWN_ASSETS]
        )
        words = f"the totals of {len(moved)} of {len(held)} assets {verb} by more than a fifth"
        more = ", ..." if len(moved) > MAX_SHOWN_ASSETS else ""
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
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."
