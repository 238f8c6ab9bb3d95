"""Suggest why a break may be there, where the digits say so; suggest nothing where they do not."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from warehouse.exact import EXACT, exact, plain
from warehouse.reconcile.match.classify import ClassifiedPair
from warehouse.reconcile.model import Alias, Break, Ledger, RejectedRow, Result, is_unmapped

_ROUNDING = Context(prec=EXACT.prec)

_FEWEST_BEHIND = 3  # positions: fewer are alike by chance, or are booked late

_DIGITS = 3  # fewer significant digits are alike by chance

_POWERS = frozenset({2, 3, 6, 8, 9, 12, 18})  # of ten, by which units of amounts differ

_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One break before it is assembled; `earlier` is the same one in the run before.

    `snapshot_before` is the amount of its key in the book before, `rounding` what its whole file
    explains it by. `rejected` are the rows of its key that could not be read.
    """

    pair: ClassifiedPair
    id: str
    names: Mapping[str, str]
    earlier: Break | None = None
    snapshot_before: str | None = None
    rounding: str = ""
    rejected: Sequence[RejectedRow] = ()

    @property
    def ledger(self) -> Decimal:
        """The ledger's amount; zero where it has none."""
        return self.pair.pair.amounts[0]

    @property
    def snapshot(self) -> Decimal:
        """The snapshot's amount; zero where it has none."""
        return self.pair.pair.amounts[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePair:
    """An amount that only the ledger has, and one that only the book has, under another name.

    An alias can join them, unless the book itself `has_name` that the ledger has written.
    """

    field: str
    ledger: Case
    book: Case
    has_name: bool

    @property
    def ledger_name(self) -> str:
        """The name in the ledger."""
        return self.ledger.names[self.field]

    @property
    def book_name(self) -> str:
        """The name in the book."""
        return self.book.names[self.field]

    def cause(self, other: Case) -> str:
        """Return the cause of one of the two breaks; `other` is the other one."""
        if self.has_name:
            names = f"{self.ledger_name!r} in the ledger, {self.book_name!r} in the book"
            return f"Booked under another {self.field}? {names} ({other.id})"
        return f"{self.field.capitalize()} under two names? See the sheet Mapping ({other.id})"


def suggest_causes(
    cases: Sequence[Case], fields: tuple[str, ...], pairs: Sequence[NamePair]
) -> dict[str, str]:
    """Return by break id the first cause that holds."""
    # From the surest to the least sure. A name that differs explains two breaks in whole, and a
    # pair of opposite differences two amounts; the tests of one break alone come last, since an
    # amount that happens to be double or reversed is weaker evidence than two that cancel.
    causes = _opposites(cases, fields)
    for pair in pairs:
        causes |= {pair.ledger.id: pair.cause(pair.book), pair.book.id: pair.cause(pair.ledger)}
    for case in cases:
        if case.id not in causes and (cause := _cause_of_one(case)):
            causes[case.id] = cause
    return causes | {case.id: case.rounding for case in cases if case.rounding}


def pair_names(
    cases: Sequence[Case], fields: tuple[str, ...], book_accounts: Collection[str]
) -> Iterator[NamePair]:
    """Yield amounts that stand on each side once, under names that differ in one field.

    `book_accounts` are the accounts of the ledger that the book has as well.
    """
    for place, field in enumerate(fields):
        if field == "bucket":
            continue
        groups: defaultdict[object, tuple[list[Case], list[Case]]] = defaultdict(lambda: ([], []))
        for case in cases:
            pair = case.pair.pair
            amount = pair.ledger if pair.snapshot is None else pair.snapshot
            if amount not in (None, "0") and (pair.ledger is None or pair.snapshot is None):
                other_names = pair.key[:place] + pair.key[place + 1 :]
                groups[other_names, amount][pair.snapshot is None].append(case)
        for only_book, only_ledger in groups.values():
            if len(only_book) == len(only_ledger) == 1:
                (book,), (ledger,) = only_book, only_ledger
                id_ = ledger.pair.pair.key[place]
                is_known = id_ in book_accounts if field == "account" else not is_unmapped(id_)
                yield NamePair(field=field, ledger=ledger, book=book, has_name=is_known)


def suggest_aliases(pairs: Sequence[NamePair]) -> tuple[Alias, ...]:
    """Return each alias that would join breaks, with how many positions it joins."""
    counts = Counter(
        (pair.field, pair.ledger_name, pair.book_name) for pair in pairs if not pair.has_name
    )
    return tuple(
        Alias(field=field, written=written, id="", how="suggested", rows=rows, suggestion=name)
        for (field, written, name), rows in counts.items()
    )


def _opposites(cases: Sequence[Case], fields: tuple[str, ...]) -> dict[str, str]:
    """Return breaks of one asset, and portfolio, that cancel each other, and those misplaced."""
    shared = [place for place, name in enumerate(fields) if name in ("portfolio", "asset")]
    groups: defaultdict[object, list[Case]] = defaultdict(list)
    for case in cases:
        if case.pair.difference and case.pair.result is not Result.REJECTED:
            key = tuple(case.pair.pair.key[place] for place in shared)
            groups[key, EXACT.abs(case.pair.difference)].append(case)
    causes = {}
    for group in groups.values():
        # A third break of the same size would leave open which two belong together.
        if len(group) == _TWO and group[0].pair.difference != group[1].pair.difference:
            for case, other in (group, group[::-1]):
                causes[case.id] = (
                    f"Nets to zero with {other.id}: a transfer, or free and locked, is not booked"
                )
    for case in cases:
        if case.pair.placement:
            hint = f"Nets to zero within the {case.pair.placement}: booked in another place"
            causes.setdefault(case.id, hint)
    return causes


def is_day_behind(case: Case) -> bool:
    """Return whether the ledger has the amount of the book before, and not that of this one."""
    before = case.snapshot_before
    has_both = case.pair.pair.ledger is not None and before is not None
    is_another = case.ledger not in (0, case.snapshot)
    return has_both and is_another and case.ledger == exact(before or "0")


def files_behind(cases: Sequence[Case], ledger: Ledger) -> Iterator[tuple[str, int, int]]:
    """Yield the files that have the balances of the book before, most of what differs in them.

    Each comes with how many of its positions that differ are so, and of how many.
    """
    counts: defaultdict[int, Counter[bool]] = defaultdict(Counter)
    for case in cases:
        for file in {ledger.lines[line].file for line in case.pair.pair.lines}:
            counts[file][is_day_behind(case)] += 1
    for file, found in sorted(counts.items()):
        # Some of the others may be real errors. A file of today has few that are behind.
        if found[True] >= _FEWEST_BEHIND and found[True] >= 2 * found[False]:
            yield ledger.sources[file].place_name, found[True], found.total()


def _cause_of_one(case: Case) -> str:
    """Return the first cause that one break alone shows."""
    if is_day_behind(case):
        return "A day behind: the ledger has the amount of the previous book"
    if case.pair.result is not Result.DIFFERS:
        return ""
    return next((cause for test in _TESTS if (cause := test(case))), "")


def _sign(case: Case) -> str:
    return "Sign flipped" if case.ledger == EXACT.minus(case.snapshot) != 0 else ""


def _twice(case: Case) -> str:
    doubled = case.pair.pair.rows == _TWO and case.ledger == EXACT.multiply(2, case.snapshot)
    return "Row twice in the ledger" if doubled else ""


def _unit(case: Case) -> str:
    if case.ledger == 0 or case.snapshot == 0:
        return ""
    ledger = EXACT.normalize(case.ledger).as_tuple()
    snapshot = EXACT.normalize(case.snapshot).as_tuple()
    power = int(ledger.exponent) - int(snapshot.exponent)
    if (ledger.sign, ledger.digits) != (snapshot.sign, snapshot.digits):
        return ""
    is_chance = len(ledger.digits) < _DIGITS and abs(power) == min(_POWERS)
    if abs(power) not in _POWERS or is_chance:
        return ""
    larger, smaller = ("ledger", "book") if power > 0 else ("book", "ledger")
    return f"Different unit: the {larger} is {10 ** abs(power):,} times the {smaller}"


def _transposition(case: Case) -> str:
    ledger, snapshot = plain(case.ledger), plain(case.snapshot)
    if len(ledger) != len(snapshot):
        return ""
    odd = [place for place in range(len(ledger)) if ledger[place] != snapshot[place]]
    if len(odd) != _TWO or odd[1] != odd[0] + 1 or "." in ledger[odd[0] : odd[1] + 1]:
        return ""
    swapped = ledger[odd[0] : odd[1] + 1] == snapshot[odd[0] : odd[1] + 1][::-1]
    return "Two digits transposed" if swapped else ""


def _rounding(case: Case) -> str:
    if case.ledger == 0:
        return ""
    decimals = len(plain(case.ledger).partition(".")[2])
    unit = Decimal(1).scaleb(-decimals, EXACT)
    is_near = case.snapshot.quantize(unit, ROUND_HALF_EVEN, _ROUNDING) == case.ledger
    return f"Rounded to {decimals} decimals" if is_near else ""


def _moving(case: Case) -> str:
    if case.earlier is None:
        return ""
    if exact(case.earlier.difference) == case.pair.difference:
        return f"Static since {case.earlier.first_seen}"
    if case.earlier.ledger == case.pair.pair.ledger:
        return "Accruing: the book moves and the ledger does not (rewards, interest, fees)"
    return ""


_TESTS: tuple[Callable[[Case], str], ...] = (
    _sign,
    _twice,
    _unit,
    _transposition,
    _rounding,
    _moving,
)
