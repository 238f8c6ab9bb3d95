"""How numbers and long lists are put into words."""

from collections.abc import Sequence


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: `1 night`, `1,200 nights`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def and_more(names: Sequence[str], shown: int) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{', '.join(names[:shown])}{more}"
