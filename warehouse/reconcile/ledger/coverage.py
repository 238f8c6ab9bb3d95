"""Nothing unread: what of the inbox was not used, and why, as a control beside the totals."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from warehouse.contract.wording import count_of
from warehouse.reconcile.ledger.model import FilePart, Ledger, LedgerSource, Unused
from warehouse.reconcile.terms.notices import Notice

SEVERITIES = ("high", "medium", "low")
Severe = TypeVar("Severe", Notice, Unused)


def worst_first(items: Iterable[Severe]) -> list[Severe]:
    """Return notices, or what was not used, with the worst first, otherwise in their order."""
    return sorted(items, key=lambda item: SEVERITIES.index(item.severity))


def totals(unused: Sequence[Unused]) -> str:
    """Return how much was not used, as `1 file, 2 columns`; nothing where all was."""
    numbers = {kind: sum(item.count for item in unused if item.kind is kind) for kind in FilePart}
    return ", ".join(count_of(number, kind.value) for kind, number in numbers.items() if number)


def extent_words(compared: int, uncovered: int, pending: int = 0) -> str:
    """Return how many positions were compared, and of how many if that is not the whole book.

    `pending` counts the open breaks of earlier nights that could not be compared.
    """
    words = f"{count_of(compared, 'position')} compared"
    if uncovered:
        words = f"{compared:,} of {count_of(compared + uncovered, 'position')} compared"
    if pending:
        words += f", {count_of(pending, 'open break')} of an earlier night not compared"
    return words


def level_words(ledger: Ledger) -> str:
    """Return the level at which was compared, and of each file where they differ."""
    levels = {source.fields for source in ledger.sources}
    if len(levels) <= 1:
        return ", ".join(ledger.fields)
    return "; ".join(f"{item.place_name} at {', '.join(item.fields)}" for item in ledger.sources)


def per_words(level: str) -> str:
    """Return a level as a sentence has it: `per portfolio, asset and venue`."""
    if ";" in level:
        return f"({level})"
    *first, last = level.split(", ")
    return f"per {', '.join(first)} and {last}" if first else f"per {last}"


def lines_of(ledger: Ledger) -> list[tuple[str, str, str]]:
    """Return a line for each tab that was read: its name, level, and what became of its rows."""
    return [(item.place_name, ", ".join(item.fields), _rows(item)) for item in ledger.sources]


def _rows(source: LedgerSource) -> str:
    skipped = sum(source.skipped.values())
    rows = f"{count_of(source.rows, 'row')}: {source.used} used, {skipped} skipped"
    return f"{rows}, {source.rejected} rejected"


def unused_by_reason(unused: Iterable[Unused]) -> list[tuple[str, str, str]]:
    """Return severity, what, and reason: what one reason is given for in a file is one line."""
    groups: dict[tuple[str, str, FilePart, str], list[Unused]] = {}
    for item in worst_first(unused):
        groups.setdefault((item.severity, item.file, item.kind, item.reason), []).append(item)
    lines = []
    for (severity, file, kind, reason), same in groups.items():
        names = ", ".join(item.name for item in same)
        what = kind.value if sum(item.count for item in same) == 1 else f"{kind.value}s"
        where = f"file {names}" if kind is FilePart.FILE else f"{file}: {what} {names}"
        if kind is FilePart.ROW:
            where = f"{file}: {', '.join(item.part for item in same)}"
        lines.append((severity, where, reason))
    return lines
