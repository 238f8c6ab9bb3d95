"""JSON as text: nesting, exact numbers, and the issues of a record."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

DEEPEST = 500
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[{]}")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


def is_too_deep(raw: bytes) -> bool:
    """Return whether a JSON text is nested more than `DEEPEST` times."""
    # Nearly every record has fewer brackets than that and is through here, without being looked
    # into.
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    # Without the strings only the brackets count. Each is a step up or down, and the running sum is
    # the depth: for a record with many brackets this is much quicker than a loop over bytes.
    brackets = _STRING.sub(b"", raw).translate(None, _BUT_BRACKETS)
    steps = _STEPS[np.frombuffer(brackets, np.uint8)]
    return bool(np.cumsum(steps, dtype=np.int32).max(initial=0) > DEEPEST)


QUOTES = json.JSONEncoder(ensure_ascii=False)


class Number(str):
    """A JSON number by its text: it is never made a float."""

    __slots__ = ()


class Members(dict[str, Any]):
    """A JSON object; `pairs` has the members as they stood, also those whose key stands twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs
        self.repeated = len(self) != len(pairs)

    def repeated_key(self) -> str:
        """Return the first key that stands more than once."""
        seen: set[str] = set()
        for key, _ in self.pairs:
            if key in seen:
                return key
            seen.add(key)
        return ""


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=Number, parse_int=Number, parse_constant=Number
)


def read_json(raw: bytes) -> Any:
    """Return one JSON value; raises `ValueError` or `RecursionError` where it cannot be read."""
    # No text in it has half of a surrogate pair: the envelope was refused with one.
    if is_too_deep(raw):
        raise ValueError(f"nested more than {DEEPEST} deep")
    return _DECODER.decode(raw.decode("utf-8"))


def is_text(value: Any) -> bool:
    """Return whether a value is a JSON string."""
    return isinstance(value, str) and not isinstance(value, Number)


class _PrintedContainer(NamedTuple):
    """A container whose elements have been printed: `keys` are those of an object."""

    size: int
    keys: list[str] | None

    def text(self, elements: list[str], *, canonical: bool) -> str:
        if self.keys is not None:
            elements = [
                f"{key}:{element}" for key, element in zip(self.keys, elements, strict=True)
            ]
        # Sorting what was printed makes the order of keys and of lists count for nothing.
        body = ",".join(sorted(elements) if canonical else elements)
        return f"[{body}]" if self.keys is None else f"{{{body}}}"


def text_of(value: Any, *, canonical: bool = False) -> str:
    """Return a value's JSON text, compact; `canonical` sorts keys and arrays too."""
    # However deeply it is nested: it goes down by a list of its own, not by calls.
    waiting: list[Any] = [value]
    printed: list[str] = []
    # A container is put back below its elements: when it comes up again they have been printed, and
    # the last `size` texts are its own.
    while waiting:
        part = waiting.pop()
        if isinstance(part, _PrintedContainer):
            first = len(printed) - part.size
            printed[first:] = [part.text(printed[first:], canonical=canonical)]
        elif isinstance(part, Members):
            keys = [QUOTES.encode(key) for key, _ in part.pairs]
            waiting.append(_PrintedContainer(len(keys), keys))
            waiting += [member for _, member in reversed(part.pairs)]
        elif isinstance(part, list):
            waiting.append(_PrintedContainer(len(part), None))
            waiting += reversed(part)
        else:
            printed.append(_leaf(part))
    return printed[0]


def _leaf(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    return QUOTES.encode(value) if isinstance(value, str) else json.dumps(value)


UNKNOWN_FIELD = "unknown field"
UNKNOWN_VALUE = "unknown value"
UNKNOWN_BALANCE = "unknown balance"
MISSING_FIELD = "missing field"
CHANGED_TYPE = "changed type"
EXAMPLE = 200


@dataclass(frozen=True, slots=True)
class Reject:
    """One thing that breaks the contract: where it stands, what was expected, its JSON text."""

    request_no: int
    path: str
    reason: str
    value: str
    carries_money: bool


@dataclass(frozen=True, slots=True)
class Inexact:
    """One value that its column cannot hold exactly; the text is the truth."""

    request_no: int
    path: str
    table_name: str
    column_name: str
    value: str


@dataclass(frozen=True, slots=True)
class Drift:
    """Something the document does not list: where, of what kind, and how often it was seen."""

    path: str
    kind: str
    word: str
    example: str
    seen: int


@dataclass(slots=True)
class Notes:
    """What is collected while flattening. Drift: (path, kind, word) to (example, how often)."""

    rejects: list[Reject] = field(default_factory=list)
    inexact: list[Inexact] = field(default_factory=list)
    drift: dict[tuple[str, str, str], tuple[str, int]] = field(default_factory=dict)

    def add_drift(self, path: str, kind: str, word: str, example: str, count: int = 1) -> None:
        """Note something the document does not list; the smallest example is kept, in any order."""
        key, example = (path, kind, word[:EXAMPLE]), example[:EXAMPLE]
        before, seen = self.drift.get(key, (example, 0))
        self.drift[key] = (min(before, example), seen + count)

    def add(self, other: "Notes") -> None:
        """Take over what was noted elsewhere, for instance by a worker."""
        self.rejects += other.rejects
        self.inexact += other.inexact
        for (path, kind, word), (example, count) in other.drift.items():
            self.add_drift(path, kind, word, example, count)

    def drift_rows(self) -> Iterator[Drift]:
        """Yield drift as rows, in a fixed order."""
        for (path, kind, word), (example, seen) in sorted(self.drift.items()):
            yield Drift(path=path, kind=kind, word=word, example=example, seen=seen)
