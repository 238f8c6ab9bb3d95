"""JSON as it was written: numbers keep their text, repeated keys are seen, values print again."""

import json
from typing import Any, NamedTuple

from pipelines.records.nesting import DEEPEST, is_too_deep

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

    def twice(self) -> str:
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


def read(raw: bytes) -> Any:
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
