"""How numbers and long lists are put into words, the same in every message and page."""

from collections.abc import Sequence


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count_of(1, "night"), count_of(1200, "night")
    ('1 night', '1,200 nights')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def and_more(names: Sequence[str], shown: int, separator: str = ", ") -> str:
    """Return the first names of a list, and how many more there are.

    >>> and_more(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return separator.join(names[:shown]) + left_out(names, shown)


def left_out(names: Sequence[str], shown: int) -> str:
    """Return how many more than those shown there are.

    >>> left_out(["a", "b", "c"], 2), left_out(["a"], 2)
    (' and 1 more', '')
    """
    return f" and {len(names) - shown} more" if len(names) > shown else ""


def first_lines(lines: Sequence[str], shown: int, noun: str = "", place: str = "") -> list[str]:
    """Return the first lines of a list, and below them how many more there are, and where.

    >>> first_lines(["a", "b", "c"], 1, "break", "the workbook lists them all")
    ['a', 'and 2 more breaks: the workbook lists them all']
    """
    if len(lines) <= shown:
        return list(lines)
    count = len(lines) - shown
    more = count_of(count, f"more {noun}") if noun else f"{count} more"
    return [*lines[:shown], f"and {more}: {place}" if place else f"and {more}"]
