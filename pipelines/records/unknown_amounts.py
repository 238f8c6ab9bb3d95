"""What stands under a balance and the document does not know: money until it is shown not to be.

An amount text becomes a row, however deep it stands. What may be an amount and is none that can be
read (a number, a list with one, a text such as `1,000`) is rejected with money. What cannot be one
(nothing, true or false, a time, a name) is told as drift. Each is judged beside its siblings.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.records import amounts, timestamps
from pipelines.records.json_text import Members, Number, is_text, text_of

# The state of an amount that stands where a part of a balance is expected.
STATED = "stated"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
# An address or a hash: long, and letters among the digits.
_ADDRESS = re.compile(r"(?=.*[a-df-z])[0-9a-z]{16,}|0x[0-9a-f]+", re.IGNORECASE)
_APART = re.compile(r"[\s:=|;/]+")
_BEFORE = re.compile(r"\A[\W_]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?", re.ASCII)
_LIKE_NAN = re.compile(r"\s*[+-]?(?:nan|inf|infinity)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Leaf:
    """Something that is no object with members: `names` lead to it from the part it is in."""

    names: tuple[str, ...]
    value: Any

    @property
    def state(self) -> str:
        """The state that an amount here has: its names, joined by a dot; two are never the same."""
        return ".".join(map(_unmistakable, self.names)) or STATED

    @property
    def amount(self) -> str | None:
        """The text, where it is an amount."""
        is_amount = is_text(self.value) and amounts.parse(self.value) is not None
        return self.value if is_amount else None

    @property
    def defect(self) -> str | None:
        """Why an amount may be in it that cannot be read; None where none can be."""
        value = self.value
        if isinstance(value, Members):
            repeated = "an amount was expected, not an object with a key that stands twice"
            return repeated if value.repeated else None
        if isinstance(value, Number):
            return "an amount as text was expected, not a number"
        if isinstance(value, list):
            return "an amount as text was expected, not a list" if _holds_any(value) else None
        if is_text(value) and _may_be_amount(value):
            return "an amount as text was expected, not this text"
        return None


def leaves(value: Any, names: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield everything that stands in a value, in its order, down to what has no members."""
    waiting = [Leaf(names, value)]
    while waiting:
        leaf = waiting.pop()
        if isinstance(leaf.value, Members) and leaf.value and not leaf.value.repeated:
            pairs = reversed(leaf.value.pairs)
            waiting += [Leaf((*leaf.names, name), member) for name, member in pairs]
        else:
            yield leaf


def _holds_any(value: list[Any]) -> bool:
    """Return whether anything in a list, however deep, is or may be an amount."""
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Members):
            waiting += [member for _, member in part.pairs]
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, Number) or (is_text(part) and _is_near_amount(part)):
            return True
    return False


def _is_near_amount(text: str) -> bool:
    return amounts.parse(text) is not None or _may_be_amount(text)


def _unmistakable(name: str) -> str:
    """Return a name as part of a state: quoted where it could be taken for several, or for none."""
    return text_of(name) if not name or "." in name or '"' in name else name


def _may_be_amount(text: str) -> bool:
    """Return whether a text may be meant as an amount: `1,000`, `5 BTC`, `NaN`, ` 1`."""
    if _LIKE_NAN.fullmatch(text):
        return True
    if _UUID.fullmatch(text) or _DATE.fullmatch(text) or timestamps.parse(text):
        return False
    # `5 BTC`, `BTC:5` and `$5` have a word that begins with a digit. An address or a hash does too,
    # and is long, with letters among its digits.
    words = (_BEFORE.sub("", word, count=1) for word in _APART.split(text))
    return any(word[:1].isnumeric() and not _ADDRESS.fullmatch(word) for word in words)
