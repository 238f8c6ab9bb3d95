"""Whether an amount of a ledger is what its precision leaves of the snapshot's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from warehouse.exact import EXACT, exact, exact_sum
from warehouse.reconcile.match.compare import Pair
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import Kept, Precision, Way

DOUBLE_DIGITS = 17  # with which every double is written so that it reads back as itself

_LARGEST = 300  # powers of ten that a double holds at full precision

_BOUNDS = {Way.NEAREST: Decimal("0.5"), Way.CUT_OFF: Decimal(1), Way.CALCULATED: Decimal("1.5")}


@dataclass(frozen=True, slots=True)
class KeptDigits:
    """What was settled of the precision of files, by their numbers in a ledger."""

    ledger: Ledger
    by_file: Mapping[int, Precision]

    def rule(self, pair: Pair) -> tuple[str, Decimal]:
        """Return which precision explains a difference, if one does, and how much it allows."""
        if not self.by_file or not pair.lines:
            return "", Decimal(0)
        lines = self.ledger.lines.table
        ways = [self.by_file.get(lines["file"][line].as_py()) for line in pair.lines]
        precisions = [way for way in ways if way is not None]
        if len(precisions) < len(ways):
            return "", Decimal(0)
        first, (ledger, snapshot) = precisions[0], pair.amounts
        if len(precisions) == 1:
            explains, bound = is_left_of(first, ledger, snapshot), largest_loss(first, ledger)
        else:  # each of the rows lost its own part
            amounts = [exact(lines["amount"][line].as_py()) for line in pair.lines]
            rows = list(zip(precisions, amounts, strict=True))
            bound = exact_sum(largest_loss(way, amount) for way, amount in rows)
            explains = all(_is_kept(way, amount) for way, amount in rows)
            explains = explains and EXACT.abs(EXACT.subtract(ledger, snapshot)) <= bound
        return (first.words, bound) if explains else ("", Decimal(0))


def kept_digits(ledger: Ledger, config: Config) -> KeptDigits:
    """Return what recon.toml says of the files of a ledger."""
    by_file = {}
    for number, source in enumerate(ledger.sources):
        shape = config.of_file(source.name, source.sheet).shape
        settled = config.shapes.get(source.fingerprint)
        precision = shape.keeps or (settled.keeps if settled else None)
        if precision:
            by_file[number] = precision
    return KeptDigits(ledger, by_file)


def largest_loss(precision: Precision, amount: Decimal) -> Decimal:
    """Return by how much an amount may be off that is kept with this precision."""
    if precision.kept is Kept.DOUBLES:
        unit = math.ulp(double(amount))
        return exact(format(unit / 2, ".17g")) if math.isfinite(unit) else Decimal(0)
    return EXACT.multiply(_unit(precision, amount), _BOUNDS[precision.way])


def is_left_of(precision: Precision, ledger: Decimal, snapshot: Decimal) -> bool:
    """Return whether the ledger's amount is what the precision leaves of the snapshot's."""
    if not _is_kept(precision, ledger):
        return False
    if precision.kept is Kept.DOUBLES:
        return double(ledger) == double(snapshot) != math.inf
    difference = EXACT.abs(EXACT.subtract(ledger, snapshot))
    loss = largest_loss(precision, snapshot)
    if precision.way is Way.CUT_OFF:
        is_nearer_zero = 0 <= ledger <= snapshot or snapshot <= ledger <= 0
        return difference < loss and is_nearer_zero
    return difference <= loss or ledger == _of_double(precision, snapshot)


def digits(amount: Decimal) -> int:
    """Return how many significant digits an amount has."""
    return len(EXACT.normalize(amount).as_tuple().digits)


def decimals(amount: Decimal) -> int:
    """Return how many decimals an amount has; below zero where it ends with zeros."""
    return -int(EXACT.normalize(amount).as_tuple().exponent) if amount else 0


def _unit(precision: Precision, amount: Decimal) -> Decimal:
    """Return a unit of the last digit that is kept of an amount."""
    if precision.kept is Kept.DECIMALS:
        return Decimal(1).scaleb(-precision.number, EXACT)
    return Decimal(1).scaleb(amount.adjusted() - precision.number + 1, EXACT)


def _is_kept(precision: Precision, amount: Decimal) -> bool:
    """Return whether the amount has no more digits than are kept."""
    # One that has more was not rounded: somebody wrote it so.
    if precision.kept is Kept.DECIMALS:
        return not amount or decimals(amount) <= precision.number
    is_calculated = precision.kept is Kept.DOUBLES or precision.way is Way.CALCULATED
    return digits(amount) <= (DOUBLE_DIGITS if is_calculated else precision.number)


def double(amount: Decimal) -> float:
    """Return the double nearest to an amount; infinity where none has all its digits."""
    return float(amount) if abs(amount.adjusted()) < _LARGEST else math.inf


def _of_double(precision: Precision, amount: Decimal) -> Decimal | None:
    """Return an amount as a program rounds it that holds it as a double."""
    nearest = double(amount)
    if not math.isfinite(nearest) or precision.number < 0:
        return None
    if precision.kept is Kept.DECIMALS:
        return exact(format(nearest, f".{precision.number}f"))
    return exact(format(nearest, f".{precision.number - 1}e"))
