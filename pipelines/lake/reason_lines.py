"""The reasons for a decision as lines of text: worst first, and similar ones as one line."""

from collections.abc import Iterable, Sequence

from pipelines.landing.reasons import Reason
from warehouse.contract.model import and_more, count_of

# The kinds of reasons, by the beginning of their keys, from the worst to the most harmless one.
_WORST_FIRST = (
    *("missing", "empty", "control totals", "origin", "date", "repeated accounts", "slice"),
    *("everywhere", "reject", "measure", "new", "venues unread", "notice"),
)
MAX_SIMILAR = 3  # more reasons of one kind become one line
_MAX_NAMED = 5


def order(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return the reasons, worst first. Reasons that are known to be harmless are last."""
    return tuple(sorted(reasons, key=lambda reason: (reason.is_known, _rank(reason))))


def lines_of(reasons: Sequence[Reason]) -> tuple[str, ...]:
    """Return one line for each reason, and one line for many reasons of one kind."""
    groups: dict[tuple[bool, str], list[Reason]] = {}
    for reason in reasons:
        groups.setdefault((reason.is_known, _kind(reason)), []).append(reason)
    lines: list[str] = []
    for (_, kind), group in groups.items():
        if len(group) <= MAX_SIMILAR:
            lines += [reason.sentence for reason in group]
            continue
        names = and_more([_name(reason) for reason in group], _MAX_NAMED)
        others = f"{count_of(len(group) - 1, 'more reason')} of this kind ({kind}: {names})"
        lines.append(f"{group[0].sentence}; {others}")
    return tuple(lines)


def _rank(reason: Reason) -> int:
    kinds = (place for place, kind in enumerate(_WORST_FIRST) if reason.key.startswith(kind))
    return next(kinds, len(_WORST_FIRST))


def _kind(reason: Reason) -> str:
    """Return what similar reasons have in common: for a slice, its kind and change."""
    words = reason.key.split(" ")
    return f"{words[1]} {words[-1]}" if words[0] == "slice:" else reason.key.partition(":")[0]


def _name(reason: Reason) -> str:
    """Return the part of a key in which similar reasons differ."""
    if reason.key.startswith("slice: "):
        return " ".join(reason.key.split(" ")[2:-1])
    return reason.key.partition(": ")[2]
