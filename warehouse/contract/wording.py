"""How numbers and long lists are put into words, the same in every message and page."""

from collections.abc import Sequence


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> count_of(1, "night"), count_of(1200, "entry", "entries")
    ('1 night', '1,200 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def and_more(names: Sequence[str], shown: int, separator: str = ", ") -> str:
    """Return the first names of a list, and how many more there are.

    >>> and_more(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{separator.join(names[:shown])}{more}"
