"""What a reader of a reconciliation must know."""

from dataclasses import dataclass


def count_of(number: int, thing: str) -> str:
    """A number of things, as one says it."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a reader must know; severity is high, medium or low."""

    severity: str
    words: str
    where: str = ""
    raw: str = ""
