"""What every asset began with: the run before, or on a first run the book before."""

from collections.abc import Sequence

from warehouse.query.book import OpenBook
from warehouse.reconcile.breaks.assemble import amounts_before
from warehouse.reconcile.matching.totals import RollForwardLine, Tie, roll_forward_lines
from warehouse.reconcile.store.records import RunResult


def roll_forward(
    source: OpenBook, ties: Sequence[Tie], prior: RunResult | None
) -> list[RollForwardLine]:
    """Return how each asset came from its opening to what it is now."""
    if prior:
        return roll_forward_lines(ties, prior.ties, None)
    before = amounts_before(source, ("asset",))
    book_before = {key[0]: amount for key, amount in before.items()}
    return roll_forward_lines(ties, None, book_before or None)
