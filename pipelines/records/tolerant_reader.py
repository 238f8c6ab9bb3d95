"""The tolerant reader, which accepts undocumented records and preserves all their amounts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.records import amounts, defects, timestamps
from pipelines.records.defects import Defect
from pipelines.records.json_text import Members, Number, is_text, read_json, text_of
from pipelines.records.notes import (
    CHANGED_TYPE,
    MISSING_FIELD,
    UNKNOWN_BALANCE,
    UNKNOWN_FIELD,
    UNKNOWN_VALUE,
    Inexact,
    Notes,
    Reject,
)
from pipelines.records.schema import (
    BALANCE,
    COLUMNS,
    DOCUMENTED,
    MONEY,
    Field,
    JsonType,
    RecordShape,
)
from warehouse.contract.model import Kind
from warehouse.exact import fit_decimal

# The name of the state if the API sends a plain string instead of an object with states.
STATED = "stated"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
# Matches an address or a hash, which is a long string of letters and digits.
_ADDRESS = re.compile(r"(?=.*[a-df-z])[0-9a-z]{16,}|0x[0-9a-f]+", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s:=|;/]+")
_LEADING_PUNCTUATION = re.compile(r"\A[\W_]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?", re.ASCII)
_LIKE_NAN = re.compile(r"\s*[+-]?(?:nan|inf|infinity)\s*", re.IGNORECASE)
# A row for an undocumented amount, with the keys `bucket`, `state` and `amount`.
Row = dict[str, str]
OTHER = "other"
_NAME = re.compile(r"[\w-]+")
MAX_SHOWN = 60
MISSING = object()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A JSON value that is not split further, with its path (`names`) within the outer value."""

    names: tuple[str, ...]
    value: Any

    @property
    def state(self) -> str:
        """The state to store for an amount in this leaf: the names in its path, joined by dots.

        Different paths have different states.
        """
        return ".".join(map(_quote_if_ambiguous, self.names)) or STATED

    @property
    def amount(self) -> str | None:
        """The leaf's value if it is a valid amount, otherwise None."""
        is_amount = is_text(self.value) and amounts.parse(self.value) is not None
        return self.value if is_amount else None

    @property
    def defect(self) -> Defect | None:
        """The leaf's defect if its value may contain an unreadable amount, otherwise None."""
        value = self.value
        if isinstance(value, Members):
            return defects.OBJECT_WITH_REPEATED_KEY if value.repeated else None
        if isinstance(value, Number):
            return defects.NUMBER_FOR_AMOUNT
        if isinstance(value, list):
            return defects.LIST_FOR_AMOUNT if _may_have_money(value) else None
        if is_text(value) and _may_be_amount(value):
            return defects.UNREADABLE_AMOUNT
        return None


class InvalidTextError(Exception):
    """A string is not a valid amount or timestamp."""

    def __init__(self, defect: Defect) -> None:
        super().__init__(defect.message)
        self.defect = defect


class UnusableRecordError(Exception):
    """A record cannot become a row, and has already been added to the rejects."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A JSON path in a response. `path` contains list indexes, but `pattern` does not."""

    path: str
    pattern: str

    def member(self, name: str) -> "JsonPath":
        """Return the path of an object's member. Names with special characters are quoted."""
        name = name if _NAME.fullmatch(name) else text_of(name)
        return JsonPath(f"{self.path}.{name}", f"{self.pattern}.{name}")

    def element(self, number: int) -> "JsonPath":
        """Return the path of an array element."""
        return JsonPath(f"{self.path}[{number}]", f"{self.pattern}[]")


@dataclass(frozen=True, slots=True)
class TolerantReader:
    """A tolerant reader for the records of one response, which adds issues to `notes`."""

    request_no: int
    notes: Notes
    model: str

    def read_record(
        self, raw: bytes, shape: RecordShape, place: JsonPath, *, money: bool
    ) -> dict[str, Any]:
        """Parse a record from a response, and return its usable parts.

        Raises `UnusableRecordError` if the record cannot become a row.
        """
        try:
            value = read_json(raw)
        except (ValueError, RecursionError):
            text = raw.decode(errors="backslashreplace")
            self._add_reject(place, defects.TOO_DEEP, text, money=money)
            raise UnusableRecordError from None
        return self.record(value, shape, place, money=money)

    def record(
        self, value: Any, shape: RecordShape, place: JsonPath, *, money: bool
    ) -> dict[str, Any]:
        """Return the usable parts of a parsed record.

        Raises `UnusableRecordError` if the record is not an object, has a repeated key, or lacks a
        key field.
        """
        if not isinstance(value, Members):
            raise self._broken(place, defects.NOT_AN_OBJECT, value, money=money)
        if value.repeated:
            defect = defects.repeated_key(value.repeated_key()[:MAX_SHOWN])
            raise self._broken(place, defect, value, money=money)
        clean: dict[str, Any] = {}
        for field in shape.fields.values():
            clean[field.name] = self._field(value, field, place, clean, money=money)
        self._unknown(value, shape, place, clean)
        return clean

    def reject(self, place: JsonPath, defect: Defect, value: Any, *, money: bool) -> None:
        """Add a reject for a value that breaks the contract. If the value is missing, store ""."""
        text = "" if value is MISSING else text_of(value)
        self._add_reject(place, defect, text, money=money)

    def _add_reject(self, place: JsonPath, defect: Defect, text: str, *, money: bool) -> None:
        self.notes.rejects.append(Reject(self.request_no, place.path, defect, text, money))

    def _broken(
        self, place: JsonPath, defect: Defect, value: Any, *, money: bool
    ) -> UnusableRecordError:
        """Add a reject for a record that cannot become a row. Return the exception to raise."""
        self.reject(place, defect, value, money=money)
        return UnusableRecordError(defect.message)

    def _field(
        self,
        record: Members,
        field: Field,
        place: JsonPath,
        clean: dict[str, Any],
        *,
        money: bool,
    ) -> Any:
        """Return the value of one field, or None if it is missing or invalid."""
        value, location = record.get(field.name), place.member(field.name)
        if value is None:
            if not field.required:
                return None
            state, value = ("null", None) if field.name in record else ("missing", MISSING)
            self.notes.add_drift(location.pattern, MISSING_FIELD, field.name, state)
            return self._without(
                record, field, place, defects.missing_field(state), value, money=money
            )
        try:
            return self._value(value, field, location, clean)
        except TypeError:
            defect = defects.wrong_type(field.json_type.value)
            self.notes.add_drift(location.pattern, CHANGED_TYPE, field.name, text_of(value))
            if rows := self._amounts_elsewhere(value, field, location):
                clean.setdefault(OTHER, []).extend(rows)
                return None
        except InvalidTextError as error:
            defect = error.defect
        return self._without(record, field, place, defect, value, money=money)

    def _without(
        self,
        record: Members,
        field: Field,
        place: JsonPath,
        defect: Defect,
        value: Any,
        *,
        money: bool,
    ) -> None:
        """Add a reject for an invalid field. Raises `UnusableRecordError` if the field is a key."""
        if field.is_key:
            raise self._broken(place, defects.without_row(field.name, defect), record, money=money)
        self.reject(place.member(field.name), defect, value, money=field.carries_money)

    def _value(self, value: Any, field: Field, location: JsonPath, clean: dict[str, Any]) -> Any:
        """Return the usable part of a field's value.

        Raises `TypeError` if the value does not have the documented JSON type.
        """
        match field.json_type:
            case JsonType.TEXT:
                return self._text(value, field, location)
            case JsonType.FLAG if isinstance(value, bool):
                return value
            case JsonType.OBJECT if isinstance(value, Members) and field.shape is not None:
                return self._object(value, field, location, clean)
            case JsonType.TEXTS | JsonType.OBJECTS if isinstance(value, list):
                clean[f"{field.name}#"] = len(value)
                return self._elements(value, field, location)
        raise TypeError

    def _text(self, value: Any, field: Field, location: JsonPath) -> Any:
        """Check and return a string. Raises `InvalidTextError` for a wrong amount or timestamp."""
        if not is_text(value):
            raise TypeError
        if field.kind is Kind.AMOUNT:
            self._amount(value, field.source, location)
        elif field.kind is Kind.MOMENT:
            self._moment(value, field.source, location)
        else:
            self._word(value, location)
        return value

    def _amount(self, text: str, source: str, location: JsonPath) -> None:
        """Check an amount, and add it to `notes` if its column cannot store it exactly."""
        value = amounts.parse(text)
        if value is None:
            raise InvalidTextError(defects.NOT_AN_AMOUNT)
        if fit_decimal(value) is None:
            self._inexact(text, source, location)

    def _moment(self, text: str, source: str, location: JsonPath) -> None:
        """Check a timestamp, and add it to `notes` if its column cannot store it exactly."""
        moment = timestamps.parse(text)
        if moment is None:
            raise InvalidTextError(defects.NOT_A_TIMESTAMP)
        if not moment[1]:
            self._inexact(text, source, location)

    def _inexact(self, text: str, source: str, location: JsonPath) -> None:
        """Add a value to `notes`, because its column cannot store it exactly."""
        table, column = COLUMNS.get(source, ("balances", "amount"))
        self.notes.inexact.append(Inexact(self.request_no, location.path, table, column, text))

    def _word(self, text: str, location: JsonPath) -> None:
        """Count a string as drift if it is not one of the field's documented values."""
        documented = DOCUMENTED[self.model].get(location.pattern.removeprefix("data[]."))
        if documented is not None and text not in documented:
            self.notes.add_drift(location.pattern, UNKNOWN_VALUE, text, text_of(text))

    def _object(
        self, value: Members, field: Field, location: JsonPath, clean: dict[str, Any]
    ) -> Any:
        """Read a nested object, and add the undocumented amounts in it to `clean`."""
        if field.shape is None:
            raise TypeError
        try:
            inner = self.record(value, field.shape, location, money=field.carries_money)
        except UnusableRecordError:
            return None
        rows = inner.pop(OTHER, [])
        if field.shape.name == BALANCE:
            clean[OTHER] = rows
            clean["balance#"] = _count_amounts(value, field.shape, rows)
        elif field.shape.name in MONEY:
            clean.setdefault(OTHER, []).extend(rows)
        return inner

    def _elements(self, values: list[Any], field: Field, location: JsonPath) -> list[Any]:
        """Return the usable elements of a list. Add all other elements to the rejects."""
        elements: list[Any] = []
        for number, value in enumerate(values):
            place = location.element(number)
            if field.shape is None:
                if is_text(value):
                    self._word(value, place)
                    elements.append(value)
                else:
                    self.reject(place, defects.NOT_TEXT, value, money=False)
                continue
            try:
                elements.append(self.record(value, field.shape, place, money=field.carries_money))
            except UnusableRecordError:
                continue
        return elements

    def _unknown(
        self, value: Members, shape: RecordShape, place: JsonPath, clean: dict[str, Any]
    ) -> None:
        """Count undocumented fields as drift, and add the amounts in them to `clean`."""
        for name, member in value.items():
            if name in shape.fields:
                continue
            location, rows = place.member(name), list[Row]()
            if shape.name in MONEY:
                rows = self._amounts(shape.name.lower(), (name,), member, location)
            elif shape.name == BALANCE:
                rows = self._amounts(name, (), member, location)
            is_filled = isinstance(member, Members | list) and bool(member)
            is_kind = shape.name == BALANCE and (rows or is_filled)
            kind = UNKNOWN_BALANCE if is_kind else UNKNOWN_FIELD
            self.notes.add_drift(location.pattern, kind, name, text_of(member))
            clean.setdefault(OTHER, []).extend(rows)

    def _amounts_elsewhere(self, value: Any, field: Field, location: JsonPath) -> list[Row]:
        """Return rows for amounts that are one level too high or too low in a balance."""
        model = field.source.partition(".")[0]
        if model in MONEY and isinstance(value, Members):
            return self._amounts(model.lower(), (field.name,), value, location)
        if model == BALANCE and is_text(value) and amounts.parse(value) is not None:
            return self._amounts(field.name, (), value, location)
        return []

    def _amounts(
        self, bucket: str, above: tuple[str, ...], value: Any, location: JsonPath
    ) -> list[Row]:
        """Return rows for all amounts in a value that the API document does not describe."""
        # Reject values that may be money but are not amounts. Valid amounts next to them still
        # become rows.
        rows: list[Row] = []
        for leaf in leaves(value, above):
            place = location
            for name in leaf.names[len(above) :]:
                place = place.member(name)
            if (amount := leaf.amount) is not None:
                self._amount(amount, BALANCE, place)
                rows.append({"bucket": bucket, "state": leaf.state, "amount": amount})
            elif defect := leaf.defect:
                self.reject(place, defect, leaf.value, money=True)
        return rows


def leaves(value: Any, names: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield the leaves of a value, in order. Only objects without repeated keys are split."""
    stack = [Leaf(names, value)]
    while stack:
        leaf = stack.pop()
        if isinstance(leaf.value, Members) and leaf.value and not leaf.value.repeated:
            pairs = reversed(leaf.value.pairs)
            stack += [Leaf((*leaf.names, name), member) for name, member in pairs]
        else:
            yield leaf


def _may_have_money(value: list[Any]) -> bool:
    """Return whether a list contains a possible amount at any depth."""
    stack: list[Any] = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, Members):
            stack += [member for _, member in part.pairs]
        elif isinstance(part, list):
            stack += part
        elif isinstance(part, Number) or (is_text(part) and _is_near_amount(part)):
            return True
    return False


def _is_near_amount(text: str) -> bool:
    """Return whether a string is an amount or looks like an amount."""
    return amounts.parse(text) is not None or _may_be_amount(text)


def _quote_if_ambiguous(name: str) -> str:
    """Quote a name if it is empty or contains a dot or a quote, so that states are unambiguous."""
    return text_of(name) if not name or "." in name or '"' in name else name


def _may_be_amount(text: str) -> bool:
    """Return whether a string looks like an invalid amount: `1,000`, `5 BTC`, `NaN`, ` 1`."""
    if _LIKE_NAN.fullmatch(text):
        return True
    if _UUID.fullmatch(text) or _DATE.fullmatch(text) or timestamps.parse(text):
        return False
    # `5 BTC`, `BTC:5` and `$5` contain a word that starts with a digit. Addresses and hashes may
    # begin with a digit too, but they are long and have letters among their digits.
    words = (_LEADING_PUNCTUATION.sub("", word, count=1) for word in _SEPARATORS.split(text))
    return any(word[:1].isnumeric() and not _ADDRESS.fullmatch(word) for word in words)


def _count_amounts(balance: Members, shape: RecordShape, rows: list[Row]) -> int:
    """Count the amounts in a balance, including unreadable amounts."""
    count = 0
    for field in shape.fields.values():
        inner = balance.get(field.name)
        if isinstance(inner, Members) and field.shape is not None:
            texts = (inner.get(name) for name in field.shape.fields)
            count += sum(1 for text in texts if not isinstance(text, Members | None))
    return count + len(rows)
