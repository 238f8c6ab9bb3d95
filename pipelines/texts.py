"""JSON as it was written: numbers keep their text, repeated keys are seen, values print again."""

import json
from typing import Any

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
        """The first key that stands more than once."""
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
    """One JSON value; raises `ValueError` or `RecursionError` where it cannot be read."""
    return _DECODER.decode(raw.decode("utf-8"))


def text_of(value: Any, *, canonical: bool = False) -> str:
    """A value's JSON text, compact; `canonical` sorts keys and arrays too."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        return QUOTES.encode(value)
    if isinstance(value, Members):
        parts = [
            f"{QUOTES.encode(key)}:{text_of(member, canonical=canonical)}"
            for key, member in value.pairs
        ]
        return "{" + ",".join(sorted(parts) if canonical else parts) + "}"
    if isinstance(value, list):
        parts = [text_of(element, canonical=canonical) for element in value]
        return "[" + ",".join(sorted(parts) if canonical else parts) + "]"
    return json.dumps(value)
