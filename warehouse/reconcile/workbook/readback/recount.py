"""What a spreadsheet counts on Summary from what people say: the open breaks, by status and age."""

import re
from collections.abc import Sequence

from warehouse.reconcile.store.records import ACCEPTED, STATUSES
from warehouse.reconcile.store.run_facts import AGE_BANDS

Row = tuple[str, ...]
_BANNER = re.compile(r"\d+(OPENBREAKS|openbreaks?)\((\d+)intotal\)")


def counted_again(
    ours: Sequence[Row], theirs: Sequence[Row], breaks: Sequence[tuple[str, int]]
) -> list[Row]:
    """Return the rows of a copy with those that were counted again as they were written."""
    # Formulas of Summary count what people write, so a copy may rightly show other numbers than we
    # wrote. The same counts are made here from the statuses of the copy, and only what differs from
    # those is a difference.
    again = {new: row for row in ours if (new := _again(row, breaks)) != row}
    return [again.get(row, row) for row in theirs]


def is_counted(cell: str) -> bool:
    """Return whether a text is what a formula of Summary comes to."""
    return bool(_BANNER.fullmatch(cell)) or cell.startswith("REVIEWERMUSTDIFFER")


def _again(row: Row, breaks: Sequence[tuple[str, int]]) -> Row:
    """Return a row of Summary as a spreadsheet counts it from what people say now."""
    label = row[0] if row else ""
    if banner := _BANNER.fullmatch(label):
        accepted = sum(_same(status, ACCEPTED) for status, _ in breaks)
        number = int(banner[2]) - accepted
        noun = "OPENBREAKS" if banner[1].isupper() else f"openbreak{'s' * (number != 1)}"
        return (f"{number}{noun}({banner[2]}intotal)", *row[1:])
    if any(_same(label, status) for status in STATUSES):
        ages = [age for status, age in breaks if _same(status, label)]
        counts = [sum(low <= age <= high for age in ages) for _, low, high in AGE_BANDS]
        return (label, *map(str, counts), str(len(ages)), *row[6:])
    return row


def _same(written: str, other: str) -> bool:
    return written.replace(" ", "").casefold() == other.replace(" ", "").casefold()
