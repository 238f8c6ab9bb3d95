"""What JSON leaves open and money must not: repeated keys, numbers that no type holds."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec

from pipelines.edge.errors import Misread


def require_strict(records: Iterable[msgspec.Raw]) -> None:
    """Raise Misread where a record has a key twice or a number that none can hold."""
    for number, record in enumerate(records):
        if defect := record_defect(record):
            raise Misread(f"record {number} of `data` is not strict JSON: {defect}")


def record_defect(record: bytes | msgspec.Raw) -> str | None:
    """Return what makes the inside of a record ambiguous: a repeated key, a number out of range."""
    # Exact and slow, for objects are built: only for what is small, or about to be decoded anyway.
    try:
        json.loads(
            bytes(record).decode(),
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
        )
    except (ValueError, RecursionError) as error:
        return str(error)[:200] or type(error).__name__
    return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key `{key[:40]}` is given twice")
    return record


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number
