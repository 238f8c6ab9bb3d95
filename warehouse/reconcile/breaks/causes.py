"""Why a break may be there: a suggestion where the digits say so, nothing where they do not."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from warehouse.exact import EXACT, exact, plain
from warehouse.reconcile.config import setting
from warehouse.reconcile.matching.classify import ClassifiedPair
from warehouse.reconcile.matching.join import Result

_DIGITS = 3  # fewer significant digits are alike by chance
_ROUNDING = Context(prec=EXACT.prec)
_POWERS = frozenset({2, 3, 6, 8, 9, 12, 18})


@dataclass(frozen=True, slots=True)
class Past:
    """What the day before knew of one key: the snapshot's amount then, and its break then."""

    snapshot: str | None = None
    ledger: str | None = None
    difference: str | None = None
    first_seen: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """One break, its id, what was before, and how people see its names."""

    judged: ClassifiedPair
    id: str
    past: Past
    shown: Mapping[str, str]

    @property
    def ledger(self) -> Decimal:
        """The ledger's amount; zero where it has none."""
        return exact(self.judged.pair.ledger or "0")

    @property
    def snapshot(self) -> Decimal:
        """The snapshot's amount; zero where it has none."""
        return exact(self.judged.pair.snapshot or "0")


def suggest_causes(cases: Sequence[Case], fields: tuple[str, ...]) -> dict[str, str]:
    """By break id the first cause that holds."""
    told = dict(_names(cases, fields))
    told |= {id_: words for id_, words in _opposites(cases, fields).items() if id_ not in told}
    for case in cases:
        if case.id not in told:
            found = next((words for test in _ALONE if (words := test(case))), "")
            if found:
                told[case.id] = found
    return told


def _names(cases: Sequence[Case], fields: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """An amount that stands on each side once, under names that differ in one field."""
    for place, field in enumerate(fields):
        if field == "bucket":
            continue
        groups: defaultdict[object, tuple[list[Case], list[Case]]] = defaultdict(lambda: ([], []))
        for case in cases:
            pair = case.judged.pair
            amount = pair.ledger if pair.snapshot is None else pair.snapshot
            if amount not in (None, "0") and (pair.ledger is None or pair.snapshot is None):
                rest = pair.key[:place] + pair.key[place + 1 :]
                groups[rest, amount][pair.snapshot is None].append(case)
        for ours, theirs in groups.values():
            if len(ours) == len(theirs) == 1:
                ledger_value, other = theirs[0].shown[field], ours[0].shown[field]
                words = f"{field} under two names? In recon.toml under [alias.{field}]: "
                words += setting(ledger_value, other)
                yield theirs[0].id, f"{words} ({ours[0].id})"
                yield ours[0].id, f"{words} ({theirs[0].id})"


def _opposites(cases: Sequence[Case], fields: tuple[str, ...]) -> dict[str, str]:
    """Two breaks of one asset, and portfolio, whose differences are opposite, and no third."""
    shared = [place for place, name in enumerate(fields) if name in ("portfolio", "asset")]
    groups: defaultdict[object, list[Case]] = defaultdict(list)
    for case in cases:
        if case.judged.difference and case.judged.result is not Result.REJECTED:
            key = tuple(case.judged.pair.key[place] for place in shared)
            groups[key, abs(case.judged.difference)].append(case)
    told = {}
    for group in groups.values():
        if len(group) == 2 and group[0].judged.difference == -group[1].judged.difference:  # noqa: PLR2004 - a pair
            for side, other in (group, group[::-1]):
                told[side.id] = (
                    f"Nets to zero with {other.id}: a transfer, or free and locked, not booked"
                )
    for case in cases:
        if case.judged.placement:
            words = f"Nets to zero within the {case.judged.placement}: placed elsewhere"
            told.setdefault(case.id, words)
    return told


def _is_two_sided(case: Case) -> bool:
    return case.judged.result is Result.DIFFERS


def _behind(case: Case) -> str:
    if case.judged.pair.ledger is None or case.past.snapshot is None or case.ledger == 0:
        return ""
    if case.ledger == exact(case.past.snapshot) and case.ledger != case.snapshot:
        return "A day behind: the ledger has yesterday's amount, tonight is not booked"
    return ""


def _sign(case: Case) -> str:
    flipped = _is_two_sided(case) and case.ledger == -case.snapshot != 0
    return "Sign flipped" if flipped else ""


def _twice(case: Case) -> str:
    doubled = _is_two_sided(case) and case.judged.pair.rows == 2  # noqa: PLR2004 - twice
    return "Row twice in the ledger" if doubled and case.ledger == 2 * case.snapshot else ""


def _unit(case: Case) -> str:
    if not _is_two_sided(case) or case.ledger == 0 or case.snapshot == 0:
        return ""
    ours, theirs = EXACT.normalize(case.ledger), EXACT.normalize(case.snapshot)
    ledger_value, other = ours.as_tuple(), theirs.as_tuple()
    power = int(ledger_value.exponent) - int(other.exponent)
    if (ledger_value.sign, ledger_value.digits) != (other.sign, other.digits) or abs(
        power
    ) not in _POWERS:
        return ""
    if len(ledger_value.digits) < _DIGITS and abs(power) == min(_POWERS):
        return ""
    return f"Another unit: the ledger is 10^{power} times the snapshot"


def _transposition(case: Case) -> str:
    ledger_value, other = plain(case.ledger), plain(case.snapshot)
    if not _is_two_sided(case) or len(ledger_value) != len(other):
        return ""
    places = [
        place
        for place, pair in enumerate(zip(ledger_value, other, strict=True))
        if len(set(pair)) > 1
    ]
    swapped = (
        len(places) == 2  # noqa: PLR2004 - two digits change places
        and ledger_value[places[0]] == other[places[1]]
        and ledger_value[places[1]] == other[places[0]]
        and "." not in ledger_value[places[0] : places[1] + 1]
        and places[1] == places[0] + 1
    )
    return "Two digits transposed" if swapped else ""


def _rounding(case: Case) -> str:
    if not _is_two_sided(case) or case.ledger == 0:
        return ""
    decimals = len(plain(case.ledger).partition(".")[2])
    unit = Decimal(1).scaleb(-decimals, EXACT)
    near = case.snapshot.quantize(unit, ROUND_HALF_EVEN, _ROUNDING) == case.ledger
    return f"Rounded to {decimals} decimals" if near else ""


def _moving(case: Case) -> str:
    past = case.past
    if past.difference is None or not _is_two_sided(case):
        return ""
    if exact(past.difference) == case.judged.difference:
        return f"Static since {past.first_seen}"
    if past.ledger == case.judged.pair.ledger:
        return "Accruing: the snapshot moves and the ledger does not (rewards, interest, fees)"
    return ""


_ALONE: tuple[Callable[[Case], str], ...] = (
    _behind,
    _sign,
    _twice,
    _unit,
    _transposition,
    _rounding,
    _moving,
)
