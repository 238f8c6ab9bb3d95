"""The careful reader: one record at a time, whatever it holds.

It takes a record apart by its shape and gives back what stands by the contract, as nested values
that `pipelines.columns` turns into rows exactly like those of the fast reader. The smallest thing
that is broken goes to `ops.rejects` with its path, its text and the reason; its siblings live on.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeGuard

from pipelines import amounts, moments
from pipelines.notes import (
    CHANGED_TYPE,
    MISSING_FIELD,
    UNKNOWN_BALANCE,
    UNKNOWN_FIELD,
    UNKNOWN_VALUE,
    Inexact,
    Notes,
    Reject,
)
from pipelines.shapes import DOCUMENTED, Field, Form, Shape
from pipelines.texts import Members, Number, is_text, read, text_of
from warehouse.contract import Kind

# Which table and column keep an amount or time, by its source: for ops.inexact.
Columns = dict[str, tuple[str, str]]
_NAME = re.compile(r"[\w-]+")
SHOWN = 60
MISSING = object()


class Broken(Exception):
    """A record without which there is no row; it has been noted."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where we are in an answer: `path` with indexes, `pattern` without."""

    path: str
    pattern: str

    def member(self, name: str) -> "Place":
        """The place of a member; a name that would read as path itself is put in quotes."""
        name = name if _NAME.fullmatch(name) else text_of(name)
        return Place(f"{self.path}.{name}", f"{self.pattern}.{name}")

    def element(self, number: int) -> "Place":
        """The place of an array element."""
        return Place(f"{self.path}[{number}]", f"{self.pattern}[]")


@dataclass(frozen=True, slots=True)
class Careful:
    """Reads records of one answer; what is odd goes to `notes`."""

    request_no: int
    notes: Notes
    columns: Columns
    model: str

    def whole(self, raw: bytes, shape: Shape, place: Place, *, money: bool) -> dict[str, Any]:
        """The parts of an outermost record that stand; `Broken` when it has no row at all."""
        try:
            value = read(raw)
        except (ValueError, RecursionError):
            reason = "a record that can be taken apart was expected: this one is nested too deeply"
            text = raw.decode(errors="backslashreplace")
            self.notes.rejects.append(Reject(self.request_no, place.path, reason, text, money))
            raise Broken(reason) from None
        return self.record(value, shape, place, money=money)

    def record(self, value: Any, shape: Shape, place: Place, *, money: bool) -> dict[str, Any]:
        """The parts of a record that stand; `Broken` when it has no row at all."""
        if not isinstance(value, Members):
            raise self._broken(place, "an object was expected", value, money=money)
        if value.repeated:
            key = value.twice()[:SHOWN]
            reason = f"the key {key!r} stands twice: which one counts cannot be known"
            raise self._broken(place, reason, value, money=money)
        clean: dict[str, Any] = {}
        for field in shape.fields.values():
            clean[field.name] = self._field(value, field, place, clean, money=money)
        self._unknown(value, shape, place, clean)
        return clean

    def reject(self, place: Place, reason: str, value: Any, *, money: bool) -> None:
        """Note something that breaks the contract; a missing thing has no text."""
        text = "" if value is MISSING else text_of(value)
        self.notes.rejects.append(Reject(self.request_no, place.path, reason, text, money))

    def _broken(self, place: Place, reason: str, value: Any, *, money: bool) -> Broken:
        self.reject(place, reason, value, money=money)
        return Broken(reason)

    def _field(
        self, record: Members, field: Field, place: Place, clean: dict[str, Any], *, money: bool
    ) -> Any:
        value, here = record.get(field.name), place.member(field.name)
        if value is None:
            if not field.required:
                return None
            found, value = ("null", None) if field.name in record else ("missing", MISSING)
            self.notes.saw(here.pattern, MISSING_FIELD, field.name, found)
            return self._without(record, field, place, f"required, but {found}", value, money=money)
        try:
            return self._value(value, field, here, clean)
        except TypeError:
            reason = f"{field.form.value} was expected"
            self.notes.saw(here.pattern, CHANGED_TYPE, field.name, text_of(value))
        except ValueError as error:
            reason = str(error)
        return self._without(record, field, place, reason, value, money=money)

    def _without(
        self, record: Members, field: Field, place: Place, reason: str, value: Any, *, money: bool
    ) -> None:
        if field.is_key:
            reason = f"{field.name}: {reason}; without it there is no row"
            raise self._broken(place, reason, record, money=money)
        self.reject(place.member(field.name), reason, value, money=field.carries_money)

    def _value(self, value: Any, field: Field, here: Place, clean: dict[str, Any]) -> Any:
        match field.form:
            case Form.TEXT:
                return self._text(value, field, here)
            case Form.FLAG if isinstance(value, bool):
                return value
            case Form.OBJECT if isinstance(value, Members) and field.shape is not None:
                return self._object(value, field, here, clean)
            case Form.TEXTS | Form.OBJECTS if isinstance(value, list):
                clean[f"{field.name}#"] = len(value)
                return self._elements(value, field, here)
        raise TypeError

    def _text(self, value: Any, field: Field, here: Place) -> Any:
        if not is_text(value):
            raise TypeError
        if field.kind is Kind.AMOUNT:
            self._amount(value, field.source, here)
        elif field.kind is Kind.MOMENT:
            self._moment(value, field.source, here)
        else:
            self._word(value, here)
        return value

    def _amount(self, text: str, source: str, here: Place) -> None:
        value = amounts.parse(text)
        if value is None:
            raise ValueError("decimal text was expected")
        if amounts.fitted(value) is None:
            self._inexact(text, source, here)

    def _moment(self, text: str, source: str, here: Place) -> None:
        moment = moments.parse(text)
        if moment is None:
            raise ValueError("a date-time with its zone was expected (ISO 8601)")
        if not moment[1]:
            self._inexact(text, source, here)

    def _inexact(self, text: str, source: str, here: Place) -> None:
        table, column = self.columns.get(source, ("balances", "amount"))
        self.notes.inexact.append(Inexact(self.request_no, here.path, table, column, text))

    def _word(self, text: str, here: Place) -> None:
        known = DOCUMENTED[self.model].get(here.pattern.removeprefix("data[]."))
        if known is not None and text not in known:
            self.notes.saw(here.pattern, UNKNOWN_VALUE, text, text_of(text))

    def _object(self, value: Members, field: Field, here: Place, clean: dict[str, Any]) -> Any:
        if field.shape is None:
            raise TypeError
        try:
            inner = self.record(value, field.shape, here, money=field.carries_money)
        except Broken:
            return None
        if field.shape.name == "Balance":
            clean["other"] = inner.pop("other", None)
            clean["balance#"] = _stated(value, field.shape, clean["other"])
        return inner

    def _elements(self, values: list[Any], field: Field, here: Place) -> list[Any]:
        kept: list[Any] = []
        for number, value in enumerate(values):
            place = here.element(number)
            if field.shape is None:
                if is_text(value):
                    self._word(value, place)
                    kept.append(value)
                else:
                    self.reject(place, "text was expected", value, money=False)
                continue
            try:
                kept.append(self.record(value, field.shape, place, money=field.carries_money))
            except Broken:
                continue
        return kept

    def _unknown(self, value: Members, shape: Shape, place: Place, clean: dict[str, Any]) -> None:
        for name, member in value.items():
            if name in shape.fields:
                continue
            here = place.member(name)
            if shape.name == "Balance" and isinstance(member, Members | list) and member:
                clean.setdefault("other", []).extend(self._unknown_balance(name, member, here))
            else:
                self.notes.saw(here.pattern, UNKNOWN_FIELD, name, text_of(member))

    def _unknown_balance(
        self, name: str, member: Members | list[Any], here: Place
    ) -> list[dict[str, str]]:
        """The amounts of a balance kind that the document does not know; money is never dropped."""
        self.notes.saw(here.pattern, UNKNOWN_BALANCE, name, text_of(member))
        if _is_amounts_alone(member):
            for state, amount in member.items():
                self._amount(amount, "BALANCE", here.member(state))
            return [{"bucket": name, "state": state, "amount": member[state]} for state in member]
        if _may_hold_money(member):
            self.reject(here, "an unknown balance kind of amount texts alone", member, money=True)
        return []


def _is_amounts_alone(member: Members | list[Any]) -> TypeGuard[Members]:
    """Whether an unknown balance kind is an object of amount texts, so that it can be rows."""
    return (
        isinstance(member, Members)
        and not member.repeated
        and all(map(_is_amount, member.values()))
    )


def _is_amount(value: Any) -> bool:
    return is_text(value) and amounts.parse(value) is not None


def _may_hold_money(value: Any) -> bool:
    """Whether an amount or a number stands anywhere in a value."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Number) or _is_amount(part):
            return True
        if isinstance(part, Members):
            waiting += [member for _, member in part.pairs]
        elif isinstance(part, list):
            waiting += part
    return False


def _stated(balance: Members, shape: Shape, other: list[dict[str, str]] | None) -> int:
    """How many amounts a balance states, broken ones too."""
    known = 0
    for field in shape.fields.values():
        inner = balance.get(field.name)
        if isinstance(inner, Members) and field.shape is not None:
            known += sum(1 for name in field.shape.fields if inner.get(name) is not None)
    return known + len(other or ())
