"""The defects of a record or value, each with a stable key and a message.

Lessons and the guards refer to a defect by its key. Never change a key, because lessons from
earlier nights would no longer apply. Messages can change freely. Keys look like messages, because
they were also the messages until November 2026.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Defect:
    """A contract violation by a record or value. `message` is shown in `ops.rejects`."""

    key: str
    message: str


TOO_DEEP = Defect(
    "a record that can be taken apart was expected: this one is nested too deeply",
    "the record is nested too deeply to be read",
)
NOT_AN_OBJECT = Defect("an object was expected", "expected an object")
NOT_TEXT = Defect("text was expected", "expected a string")
NOT_AN_AMOUNT = Defect("decimal text was expected", "expected an amount as a decimal string")
NOT_A_TIMESTAMP = Defect(
    "a date-time with its zone was expected (ISO 8601)",
    "expected a date and time with a time zone (ISO 8601)",
)
OBJECT_WITH_REPEATED_KEY = Defect(
    "an amount was expected, not an object with a key that stands twice",
    "expected an amount, but got an object with a repeated key",
)
NUMBER_FOR_AMOUNT = Defect(
    "an amount as text was expected, not a number",
    "expected an amount as a string, but got a number",
)
LIST_FOR_AMOUNT = Defect(
    "an amount as text was expected, not a list",
    "expected an amount as a string, but got a list",
)
UNREADABLE_AMOUNT = Defect(
    "an amount as text was expected, not this text",
    "expected an amount as a string, but this string is not an amount",
)


def wrong_type(expected: str) -> Defect:
    """Return the defect for a value that does not have the documented JSON type."""
    name = "a string" if expected == "text" else expected
    return Defect(f"{expected} was expected", f"expected {name}")


def missing_field(state: str) -> Defect:
    """Return the defect for a required field that is `missing` or `null`."""
    return Defect(f"required, but {state}", f"this field is required, but it is {state}")


def without_row(field: str, defect: Defect) -> Defect:
    """Return the defect for a record whose key field is invalid."""
    return Defect(
        f"{field}: {defect.key}; without it there is no row",
        f"{field}: {defect.message}. Without this field, the record cannot have a row",
    )


def repeated_key(key: str) -> Defect:
    """Return the defect for an object with a repeated key."""
    return Defect(
        f"the key {key!r} stands twice: which one counts cannot be known",
        f"the object has the key {key!r} twice, so its value is ambiguous",
    )


def repeated_type(times: int) -> Defect:
    """Return the defect for a venue that lists a type more than once."""
    return Defect(
        f"a type that stands once was expected, not {times} times",
        f"expected each type once, but got this type {times} times",
    )


def repeated_integration(times: int) -> Defect:
    """Return the defect for a portfolio that lists an integration more than once."""
    return Defect(
        f"an id that stands once was expected, not {times} times: one is taken",
        f"expected each ID once, but got this ID {times} times. One of the records is used",
    )


def repeated_record(first: int, *, is_same: bool) -> Defect:
    """Return the defect for a record that is not used because it repeats an earlier record."""
    key = "is the same" if is_same else "differs in unknown fields alone"
    message = "is the same" if is_same else "differs only in undocumented fields"
    return Defect(
        f"repeats the id of data[{first}] and {key}: taken once",
        f"repeats the ID of data[{first}] and {message}. One of the records is used",
    )


def conflicting_record(first: int, *, is_one_used: bool) -> Defect:
    """Return the defect for a record that differs from an earlier record with the same ID."""
    outcome = "the first by content is taken" if is_one_used else "none of them is taken"
    message = (
        "The record that sorts first is used" if is_one_used else "None of the records is used"
    )
    return Defect(
        f"repeats the id of data[{first}] and differs: {outcome}",
        f"repeats the ID of data[{first}], but differs. {message}",
    )
