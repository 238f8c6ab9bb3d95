"""Rules that decide whether a ledger's amount is the book's amount with fewer digits."""

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal

from warehouse.exact import EXACT, exact, exact_sum
from warehouse.reconcile.model import FLOAT_DIGITS, Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import Kept, Precision, Way

_DOUBLE_DIGITS = 17  # enough digits to write any double and read it back unchanged
_ZEROS = 2  # number of last digits of a full number cell that may be zeros by chance
_MAX_EXPONENT = 300  # doubles have full precision up to this power of ten
_BOUNDS = {Way.NEAREST: Decimal("0.5"), Way.CUT_OFF: Decimal(1), Way.CALCULATED: Decimal("1.5")}
_CELL = Context(prec=FLOAT_DIGITS, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6))


def file_precisions(ledger: Ledger, config: Config) -> dict[int, Precision]:
    """Map the number of each file in the ledger to the file's precision in recon.toml."""
    by_file = {}
    for number, source in enumerate(ledger.sources):
        shape = config.of_file(source.name, source.sheet).shape
        by_layout = config.shapes.get(source.fingerprint)
        precision = shape.keeps or (by_layout.keeps if by_layout else None)
        if precision:
            by_file[number] = precision
    return by_file


def rounding_loss(
    precisions: Sequence[Precision], amounts: Sequence[Decimal], snapshot: Decimal
) -> Decimal | None:
    """Return the largest amount by which rounding can change the sum of a key's rows.

    `precisions` has one item for each amount. Return None if rounding does not explain the
    difference from the book's amount.
    """
    loss = exact_sum(map(largest_loss, precisions, amounts))
    if len(amounts) == 1:
        is_explained = is_left_of(precisions[0], amounts[0], snapshot)
    # Each row may have been rounded, so the difference may be as large as the sum of all losses.
    else:
        difference = EXACT.abs(EXACT.subtract(exact_sum(amounts), snapshot))
        is_explained = all(map(_is_kept, precisions, amounts)) and difference <= loss
    return loss if is_explained else None


def largest_loss(precision: Precision, amount: Decimal) -> Decimal:
    """Return the largest possible difference between an amount and its original with all digits."""
    if precision.kept is Kept.DOUBLES:
        unit = math.ulp(_double(amount))
        return exact(format(unit / 2, ".17g")) if math.isfinite(unit) else Decimal(0)
    return EXACT.multiply(_unit(precision, amount), _BOUNDS[precision.way])


def is_left_of(precision: Precision, ledger: Decimal, snapshot: Decimal) -> bool:
    """Return whether the ledger's amount can be the snapshot's amount at this precision."""
    if not _is_kept(precision, ledger):
        return False
    if precision.kept is Kept.DOUBLES:
        return _double(ledger) == _double(snapshot) != math.inf
    difference = EXACT.abs(EXACT.subtract(ledger, snapshot))
    loss = largest_loss(precision, snapshot)
    if precision.way is Way.CUT_OFF:
        is_nearer_zero = 0 <= ledger <= snapshot or snapshot <= ledger <= 0
        return difference < loss and is_nearer_zero
    return difference <= loss or ledger == _rounded_double(precision, snapshot)


def is_cell_of(ledger: Decimal, snapshot: Decimal) -> bool:
    """Return whether a number cell with the snapshot's amount may show the ledger's amount."""
    # A cell contains the nearest double, which some programs store with only 16 digits. If an
    # amount is halfway between two displayed numbers, the stored digits decide which one is shown.
    shown = [_CELL.plus(snapshot)]
    nearest = _double(snapshot)
    if math.isfinite(nearest):
        doubles = (nearest, float(format(nearest, ".16g")))
        shown += [exact(format(double, f".{FLOAT_DIGITS}g")) for double in doubles]
    return ledger in shown


def are_cells_of(amounts: Sequence[Decimal], snapshot: Decimal) -> bool:
    """Return whether number cells whose exact amounts add up to the snapshot's may show these."""
    if len(amounts) == 1:
        return is_cell_of(amounts[0], snapshot)
    # Each cell with all its digits lost at most half a unit of the last one. A cell with fewer
    # digits lost nothing, except if its last digits happen to be zeros.
    lost = [
        Decimal(5).scaleb(amount.adjusted() - FLOAT_DIGITS, EXACT)
        for amount in amounts
        if digits(amount) >= FLOAT_DIGITS - _ZEROS
    ]
    return EXACT.abs(EXACT.subtract(exact_sum(amounts), snapshot)) <= exact_sum(lost)


def digits(amount: Decimal) -> int:
    """Count an amount's significant digits."""
    return len(EXACT.normalize(amount).as_tuple().digits)


def decimals(amount: Decimal) -> int:
    """Count an amount's decimals. The count is negative if a whole number ends in zeros."""
    return -int(EXACT.normalize(amount).as_tuple().exponent) if amount else 0


def _unit(precision: Precision, amount: Decimal) -> Decimal:
    """Return the value of one unit in the last digit of an amount with this precision."""
    if precision.kept is Kept.DECIMALS:
        return Decimal(1).scaleb(-precision.number, EXACT)
    return Decimal(1).scaleb(amount.adjusted() - precision.number + 1, EXACT)


def _is_kept(precision: Precision, amount: Decimal) -> bool:
    """Return whether an amount has at most as many digits as this precision allows."""
    # An amount with more digits cannot be the result of rounding to this precision.
    if precision.kept is Kept.DECIMALS:
        return not amount or decimals(amount) <= precision.number
    return digits(amount) <= most_digits(precision)


def most_digits(precision: Precision) -> int:
    """Return the maximum number of significant digits in an amount with this precision."""
    is_calculated = precision.kept is Kept.DOUBLES or precision.way is Way.CALCULATED
    return _DOUBLE_DIGITS if is_calculated else precision.number


def _double(amount: Decimal) -> float:
    """Return the double nearest to an amount, or infinity if it is too large or too small."""
    return float(amount) if abs(amount.adjusted()) < _MAX_EXPONENT else math.inf


def _rounded_double(precision: Precision, amount: Decimal) -> Decimal | None:
    """Return an amount as rounded by a program that stores it as a double."""
    nearest = _double(amount)
    if not math.isfinite(nearest) or precision.number < 0:
        return None
    if precision.kept is Kept.DECIMALS:
        return exact(format(nearest, f".{precision.number}f"))
    return exact(format(nearest, f".{precision.number - 1}e"))
