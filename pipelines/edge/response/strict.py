"""What JSON leaves open and money must not: repeated keys, numbers that no type holds."""

import json
from typing import Any, NoReturn

import msgspec


def record_defect(record: bytes | msgspec.Raw) -> str | None:
    """What makes the inside of a record ambiguous, or None: a repeated key, a number out of range.

    Exact and slow (objects are built); for a record that is already suspected.
    """
    try:
        json.loads(
            bytes(record).decode(),
            object_pairs_hook=_pairs,
            parse_constant=_constant,
            parse_float=_float,
        )
    except (ValueError, RecursionError) as error:
        return str(error)[:200] or type(error).__name__
    return None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # set.add in a condition
        raise ValueError(f"the key `{twice[:40]}` is given twice")
    return record


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number
