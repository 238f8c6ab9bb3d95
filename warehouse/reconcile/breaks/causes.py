"""Suggest why a break may be there, where the digits say so; suggest nothing where they do not."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from warehouse.exact import EXACT, exact, plain
from warehouse.reconcile.matching.classify import ClassifiedPair
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.store.records import Break

_ROUNDING = Context(prec=EXACT.prec)
_DIGITS = 3  # fewer significant digits are alike by chance
_POWERS = frozenset({2, 3, 6, 8, 9, 12, 18})  # of ten, by which units of amounts differ
_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One break before it is assembled; `earlier` is the same one in the run before.

    `snapshot_before` is the amount of its key in the book before, `rounding` what its whole file
    explains it by.
    """

    pair: ClassifiedPair
    id: str
    names: Mapping[str, str]
    earlier: Break | None = None
    snapshot_before: str | None = None
    rounding: str = ""

    @property
    def ledger(self) -> Decimal:
        """The ledger's amount; zero where it has none."""
        return self.pair.pair.amounts[0]

    @property
    def snapshot(self) -> Decimal:
        """The snapshot's amount; zero where it has none."""
        return self.pair.pair.amounts[1]


def suggest_causes(cases: Sequence[Case], fields: tuple[str, ...]) -> dict[str, str]:
    """Return by break id the first cause that holds."""
    # From the surest to the least sure. A name that differs explains two breaks in whole, and a
    # pair of opposite differences two amounts; the tests of one break alone come last, since an
    # amount that happens to be double or reversed is weaker evidence than two that cancel.
    causes = dict(_two_names(cases, fields))
    causes = _opposites(cases, fields) | causes
    for case in cases:
        if case.id not in causes and (cause := _cause_of_one(case)):
            causes[case.id] = cause
    return causes | {case.id: case.rounding for case in cases if case.rounding}


def _two_names(cases: Sequence[Case], fields: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield amounts that stand on each side once, under names that differ in one field."""
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
        for only_snapshot, only_ledger in groups.values():
            if len(only_snapshot) == len(only_ledger) == 1:
                (reference,), (written,) = only_snapshot, only_ledger
                alias = setting(written.names[field], reference.names[field])
                hint = f"{field} under two names? In recon.toml under [alias.{field}]: {alias}"
                yield written.id, f"{hint} ({reference.id})"
                yield reference.id, f"{hint} ({written.id})"


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
                    f"Nets to zero with {other.id}: a transfer, or free and locked, not booked"
                )
    for case in cases:
        if case.pair.placement:
            hint = f"Nets to zero within the {case.pair.placement}: placed elsewhere"
            causes.setdefault(case.id, hint)
    return causes


def _cause_of_one(case: Case) -> str:
    """Return the first cause that one break alone shows."""
    pair, before = case.pair.pair, case.snapshot_before
    has_both = pair.ledger is not None and before is not None
    if has_both and case.ledger not in (0, case.snapshot) and case.ledger == exact(before or "0"):
        return "A day behind: the ledger has yesterday's amount, tonight is not booked"
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
    return f"Another unit: the ledger is 10^{power} times the snapshot"


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
        return "Accruing: the snapshot moves and the ledger does not (rewards, interest, fees)"
    return ""


_TESTS: tuple[Callable[[Case], str], ...] = (
    _sign,
    _twice,
    _unit,
    _transposition,
    _rounding,
    _moving,
)
