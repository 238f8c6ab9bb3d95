"""The tolerant reader of records, which keeps every amount under a balance."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.records import amounts, timestamps
from pipelines.records.json_text import (
    CHANGED_TYPE,
    MISSING_FIELD,
    UNKNOWN_BALANCE,
    UNKNOWN_FIELD,
    UNKNOWN_VALUE,
    Inexact,
    Members,
    Notes,
    Number,
    Reject,
    is_text,
    read_json,
    text_of,
)
from pipelines.records.schema import BALANCE, DOCUMENTED, MONEY, Field, JsonType, RecordShape
from warehouse.contract.model import Kind
from warehouse.exact import fit_decimal

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


# Which table and column keep an amount or time, by its source: for ops.inexact.
Columns = dict[str, tuple[str, str]]
# A row of an amount that the document does not know: bucket, state and amount.
Row = dict[str, str]
OTHER = "other"
_NAME = re.compile(r"[\w-]+")
SHOWN = 60
MISSING = object()


class UnusableRecord(Exception):
    """A record without which there is no row; it has been noted."""


@dataclass(frozen=True, slots=True)
class AnswerPath:
    """Where we are in an answer: `path` with indexes, `pattern` without."""

    path: str
    pattern: str

    def member(self, name: str) -> "AnswerPath":
        """Return the place of a member; a name that would read as path itself is put in quotes."""
        name = name if _NAME.fullmatch(name) else text_of(name)
        return AnswerPath(f"{self.path}.{name}", f"{self.pattern}.{name}")

    def element(self, number: int) -> "AnswerPath":
        """Return the place of an array element."""
        return AnswerPath(f"{self.path}[{number}]", f"{self.pattern}[]")


@dataclass(frozen=True, slots=True)
class TolerantReader:
    """Reads records of one answer; what is odd goes to `notes`."""

    request_no: int
    notes: Notes
    columns: Columns
    model: str

    def read_record(
        self, raw: bytes, shape: RecordShape, place: AnswerPath, *, money: bool
    ) -> dict[str, Any]:
        """Read what stands of an outermost record; raises `UnusableRecord` where it has no row."""
        try:
            value = read_json(raw)
        except (ValueError, RecursionError):
            reason = "a record that can be taken apart was expected: this one is nested too deeply"
            text = raw.decode(errors="backslashreplace")
            self.notes.rejects.append(Reject(self.request_no, place.path, reason, text, money))
            raise UnusableRecord(reason) from None
        return self.record(value, shape, place, money=money)

    def record(
        self, value: Any, shape: RecordShape, place: AnswerPath, *, money: bool
    ) -> dict[str, Any]:
        """Return the parts of a record that stand; `UnusableRecord` when it has no row at all."""
        if not isinstance(value, Members):
            raise self._broken(place, "an object was expected", value, money=money)
        if value.repeated:
            key = value.repeated_key()[:SHOWN]
            reason = f"the key {key!r} stands twice: which one counts cannot be known"
            raise self._broken(place, reason, value, money=money)
        clean: dict[str, Any] = {}
        for field in shape.fields.values():
            clean[field.name] = self._field(value, field, place, clean, money=money)
        self._unknown(value, shape, place, clean)
        return clean

    def reject(self, place: AnswerPath, reason: str, value: Any, *, money: bool) -> None:
        """Note something that breaks the contract; a missing thing has no text."""
        text = "" if value is MISSING else text_of(value)
        self.notes.rejects.append(Reject(self.request_no, place.path, reason, text, money))

    def _broken(self, place: AnswerPath, reason: str, value: Any, *, money: bool) -> UnusableRecord:
        self.reject(place, reason, value, money=money)
        return UnusableRecord(reason)

    def _field(
        self,
        record: Members,
        field: Field,
        place: AnswerPath,
        clean: dict[str, Any],
        *,
        money: bool,
    ) -> Any:
        value, here = record.get(field.name), place.member(field.name)
        if value is None:
            if not field.required:
                return None
            state, value = ("null", None) if field.name in record else ("missing", MISSING)
            self.notes.add_drift(here.pattern, MISSING_FIELD, field.name, state)
            return self._without(record, field, place, f"required, but {state}", value, money=money)
        try:
            return self._value(value, field, here, clean)
        except TypeError:
            reason = f"{field.json_type.value} was expected"
            self.notes.add_drift(here.pattern, CHANGED_TYPE, field.name, text_of(value))
            if rows := self._amounts_elsewhere(value, field, here):
                clean.setdefault(OTHER, []).extend(rows)
                return None
        except ValueError as error:
            reason = str(error)
        return self._without(record, field, place, reason, value, money=money)

    def _without(
        self,
        record: Members,
        field: Field,
        place: AnswerPath,
        reason: str,
        value: Any,
        *,
        money: bool,
    ) -> None:
        if field.is_key:
            reason = f"{field.name}: {reason}; without it there is no row"
            raise self._broken(place, reason, record, money=money)
        self.reject(place.member(field.name), reason, value, money=field.carries_money)

    def _value(self, value: Any, field: Field, here: AnswerPath, clean: dict[str, Any]) -> Any:
        match field.json_type:
            case JsonType.TEXT:
                return self._text(value, field, here)
            case JsonType.FLAG if isinstance(value, bool):
                return value
            case JsonType.OBJECT if isinstance(value, Members) and field.shape is not None:
                return self._object(value, field, here, clean)
            case JsonType.TEXTS | JsonType.OBJECTS if isinstance(value, list):
                clean[f"{field.name}#"] = len(value)
                return self._elements(value, field, here)
        raise TypeError

    def _text(self, value: Any, field: Field, here: AnswerPath) -> Any:
        if not is_text(value):
            raise TypeError
        if field.kind is Kind.AMOUNT:
            self._amount(value, field.source, here)
        elif field.kind is Kind.MOMENT:
            self._moment(value, field.source, here)
        else:
            self._word(value, here)
        return value

    def _amount(self, text: str, source: str, here: AnswerPath) -> None:
        value = amounts.parse(text)
        if value is None:
            raise ValueError("decimal text was expected")
        if fit_decimal(value) is None:
            self._inexact(text, source, here)

    def _moment(self, text: str, source: str, here: AnswerPath) -> None:
        moment = timestamps.parse(text)
        if moment is None:
            raise ValueError("a date-time with its zone was expected (ISO 8601)")
        if not moment[1]:
            self._inexact(text, source, here)

    def _inexact(self, text: str, source: str, here: AnswerPath) -> None:
        table, column = self.columns.get(source, ("balances", "amount"))
        self.notes.inexact.append(Inexact(self.request_no, here.path, table, column, text))

    def _word(self, text: str, here: AnswerPath) -> None:
        documented = DOCUMENTED[self.model].get(here.pattern.removeprefix("data[]."))
        if documented is not None and text not in documented:
            self.notes.add_drift(here.pattern, UNKNOWN_VALUE, text, text_of(text))

    def _object(self, value: Members, field: Field, here: AnswerPath, clean: dict[str, Any]) -> Any:
        if field.shape is None:
            raise TypeError
        try:
            inner = self.record(value, field.shape, here, money=field.carries_money)
        except UnusableRecord:
            return None
        rows = inner.pop(OTHER, [])
        if field.shape.name == BALANCE:
            clean[OTHER] = rows
            clean["balance#"] = _count_amounts(value, field.shape, rows)
        elif field.shape.name in MONEY:
            clean.setdefault(OTHER, []).extend(rows)
        return inner

    def _elements(self, values: list[Any], field: Field, here: AnswerPath) -> list[Any]:
        elements: list[Any] = []
        for number, value in enumerate(values):
            place = here.element(number)
            if field.shape is None:
                if is_text(value):
                    self._word(value, place)
                    elements.append(value)
                else:
                    self.reject(place, "text was expected", value, money=False)
                continue
            try:
                elements.append(self.record(value, field.shape, place, money=field.carries_money))
            except UnusableRecord:
                continue
        return elements

    def _unknown(
        self, value: Members, shape: RecordShape, place: AnswerPath, clean: dict[str, Any]
    ) -> None:
        for name, member in value.items():
            if name in shape.fields:
                continue
            here, rows = place.member(name), list[Row]()
            if shape.name in MONEY:
                rows = self._amounts(shape.name.lower(), (name,), member, here)
            elif shape.name == BALANCE:
                rows = self._amounts(name, (), member, here)
            is_filled = isinstance(member, Members | list) and bool(member)
            is_kind = shape.name == BALANCE and (rows or is_filled)
            kind = UNKNOWN_BALANCE if is_kind else UNKNOWN_FIELD
            self.notes.add_drift(here.pattern, kind, name, text_of(member))
            clean.setdefault(OTHER, []).extend(rows)

    def _amounts_elsewhere(self, value: Any, field: Field, here: AnswerPath) -> list[Row]:
        """Return rows of amounts that stand one step above or below where the document has them."""
        model = field.source.partition(".")[0]
        if model in MONEY and isinstance(value, Members):
            return self._amounts(model.lower(), (field.name,), value, here)
        if model == BALANCE and is_text(value) and amounts.parse(value) is not None:
            return self._amounts(field.name, (), value, here)
        return []

    def _amounts(
        self, bucket: str, above: tuple[str, ...], value: Any, here: AnswerPath
    ) -> list[Row]:
        """Return rows of all amounts in something that the document does not know."""
        # What may be money and is no amount is rejected where it stands; its siblings are rows.
        rows: list[Row] = []
        for leaf in leaves(value, above):
            place = here
            for name in leaf.names[len(above) :]:
                place = place.member(name)
            if (amount := leaf.amount) is not None:
                self._amount(amount, BALANCE, place)
                rows.append({"bucket": bucket, "state": leaf.state, "amount": amount})
            elif reason := leaf.defect:
                self.reject(place, reason, leaf.value, money=True)
        return rows


def _count_amounts(balance: Members, shape: RecordShape, rows: list[Row]) -> int:
    """Return how many amounts a balance states, broken ones too."""
    count = 0
    for field in shape.fields.values():
        inner = balance.get(field.name)
        if isinstance(inner, Members) and field.shape is not None:
            texts = (inner.get(name) for name in field.shape.fields)
            count += sum(1 for text in texts if not isinstance(text, Members | None))
    return count + len(rows)
