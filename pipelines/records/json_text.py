"""A JSON parser with exact numbers and limited nesting."""

import json
import re
from typing import Any, NamedTuple

import numpy as np

MAX_DEPTH = 500
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NON_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[{]}")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Number(str):
    """A JSON number, stored as a string so that no digit is lost."""

    __slots__ = ()


class Members(dict[str, Any]):
    """A JSON object that preserves repeated keys.

    `pairs` contains all members in order, including those with a repeated key.
    """

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs
        self.repeated = len(self) != len(pairs)

    def repeated_key(self) -> str:
        """Return the first repeated key, or "" if all keys are different."""
        seen: set[str] = set()
        for key, _ in self.pairs:
            if key in seen:
                return key
            seen.add(key)
        return ""


class _PrintedContainer(NamedTuple):
    """A list or object whose elements are already converted to JSON. Only objects have `keys`."""

    size: int
    keys: list[str] | None

    def text(self, elements: list[str], *, canonical: bool) -> str:
        """Return the JSON of the list or object, built from the JSON of its elements."""
        if self.keys is not None:
            elements = [
                f"{key}:{element}" for key, element in zip(self.keys, elements, strict=True)
            ]
        # Sort the printed elements, so that the order of keys and lists does not matter.
        body = ",".join(sorted(elements) if canonical else elements)
        return f"[{body}]" if self.keys is None else f"{{{body}}}"


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=Number, parse_int=Number, parse_constant=Number
)


def is_too_deep(raw: bytes) -> bool:
    """Return whether a JSON string is nested more than `MAX_DEPTH` levels deep."""
    # A record with at most `MAX_DEPTH` opening brackets cannot be too deep. This is true for nearly
    # every record.
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return False
    # Remove the strings, so that only brackets are left. An opening bracket adds one level, a
    # closing bracket removes one, and the running sum is the depth. With many brackets, this is
    # much faster than a loop over the bytes.
    brackets = _STRING.sub(b"", raw).translate(None, _NON_BRACKETS)
    steps = _STEPS[np.frombuffer(brackets, np.uint8)]
    return bool(np.cumsum(steps, dtype=np.int32).max(initial=0) > MAX_DEPTH)


def read_json(raw: bytes) -> Any:
    """Parse one JSON value. Raises `ValueError` or `RecursionError` if that fails."""
    # Strings contain no lone surrogates, because the check of the whole response has rejected them.
    if is_too_deep(raw):
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    return _DECODER.decode(raw.decode("utf-8"))


def is_text(value: Any) -> bool:
    """Return whether a value is a JSON string."""
    return isinstance(value, str) and not isinstance(value, Number)


def text_of(value: Any, *, canonical: bool = False) -> str:
    """Convert a value to compact JSON. With `canonical`, sort both keys and arrays."""
    # Use a stack instead of recursion, so that any depth of nesting works.
    stack: list[Any] = [value]
    printed: list[str] = []
    # Push a list or object first, and its elements on top of it. When the list or object is popped,
    # the last `size` strings in `printed` are its elements.
    while stack:
        part = stack.pop()
        if isinstance(part, _PrintedContainer):
            first = len(printed) - part.size
            printed[first:] = [part.text(printed[first:], canonical=canonical)]
        elif isinstance(part, Members):
            keys = [_ENCODER.encode(key) for key, _ in part.pairs]
            stack.append(_PrintedContainer(len(keys), keys))
            stack += [member for _, member in reversed(part.pairs)]
        elif isinstance(part, list):
            stack.append(_PrintedContainer(len(part), None))
            stack += reversed(part)
        else:
            printed.append(_leaf(part))
    return printed[0]


def _leaf(value: Any) -> str:
    """Convert a string, number, Boolean or null to JSON."""
    if isinstance(value, Number):
        return str(value)
    return _ENCODER.encode(value) if isinstance(value, str) else json.dumps(value)
