"""What a reader of a reconciliation must know."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a reader must know; severity is high, medium or low."""

    severity: str
    words: str
    where: str = ""
    raw: str = ""
