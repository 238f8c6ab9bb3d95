"""Faults in individual fields of records, which then violate section 2 of the API document.

Each fault changes copies of one response's records in place. Records without the field are not
changed.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipelines.sandbox.faults import Fault, FaultKind, target
from pipelines.sandbox.specification import RESOURCES
from pipelines.sandbox.world.world import Record

Spoil = Callable[[list[Record], str, Fault], None]


def walk(records: list[Record], resource: str) -> Iterator[tuple[Record, str]]:
    """Yield all records, including nested records, each with the name of its resource."""
    for record in filter(None, records):
        yield record, resource
        for field in RESOURCES[resource]:
            value = record.get(field.name)
            if field.kind in RESOURCES and value:
                yield from walk(value if field.many else [value], field.kind)


def _targets(records: list[Record], resource: str, fault: Fault) -> list[Record]:
    record = target(records, resource, fault)
    return [record] if record else []


def _with_parts(spoil: Callable[[Record, str], None]) -> Spoil:
    """Return a fault that changes its target record and all records nested in it."""

    def act(records: list[Record], resource: str, fault: Fault) -> None:
        for part, kind in list(walk(_targets(records, resource, fault), resource)):
            spoil(part, kind)

    return act


def _top(spoil: Callable[[Record], None]) -> Spoil:
    """Return a fault that changes only its target record."""

    def act(records: list[Record], resource: str, fault: Fault) -> None:
        for record in _targets(records, resource, fault):
            spoil(record)

    return act


def _all(spoil: Callable[[Record], None]) -> Spoil:
    """Return a fault that changes all top-level records in a response."""

    def act(records: list[Record], _resource: str, _fault: Fault) -> None:
        for record in filter(None, records):
            spoil(record)

    return act


def _first(part_kind: str, spoil: Callable[[Record], None]) -> Spoil:
    """Return a fault that changes the first record of a given kind in its target record."""

    def act(records: list[Record], resource: str, fault: Fault) -> None:
        parts = walk(_targets(records, resource, fault), resource)
        for part in [part for part, kind in parts if kind == part_kind][:1]:
            spoil(part)

    return act


def _first_amount(value: Any) -> Spoil:
    """Return a fault that changes `free` in the target record's first trading balance."""
    return _first("TradingBalance", _set("free", value))


def _every_amount(value: Any) -> Spoil:
    def act(records: list[Record], resource: str, _fault: Fault) -> None:
        for part, kind in list(walk(records, resource)):
            if kind.endswith("Balance") and kind != "Balance":
                part.update(dict.fromkeys(part, value))

    return act


def _constraint(records: list[Record], resource: str, fault: Fault) -> None:
    for record in _targets(records, resource, fault) if resource == "Instrument" else ():
        record["tradingConstraints"] = {"minTick": "0.1234567890123456789012345", "maxPrice": "1e3"}


def _unknown_field(part: Record, _kind: str) -> None:
    part["newField"] = {"since": "tonight"} if "id" in part else "tonight"


def _bucket(name: str, value: Any) -> Callable[[Record, str], None]:
    def act(part: Record, kind: str) -> None:
        if kind == "Balance":
            part[name] = value

    return act


def _unknown_value(part: Record, kind: str) -> None:
    for field in RESOURCES[kind]:
        if field.values and field.name != "resource":
            part[field.name] = ["dex", *part[field.name]] if field.many else "brand-new"


def _pop(name: str) -> Callable[[Record], None]:
    def act(record: Record) -> None:
        record.pop(name, None)

    return act


def _set(name: str, value: Any) -> Callable[[Record], None]:
    def act(record: Record) -> None:
        if name in record:
            record[name] = value

    return act


def _upper(record: Record) -> None:
    if "id" in record:
        record["id"] = record["id"].upper()


def _embed_another(record: Record) -> None:
    if "instruments" in record:
        record["instruments"].append({"id": "NOWHERE", "type": "spot", "displayName": "Nowhere"})


_RECORDS: Mapping[str, tuple[str, Spoil]] = {
    "unknown-field": (
        "one record and all its parts have an additional field",
        _with_parts(_unknown_field),
    ),
    "unknown-value": ("one record and its parts have new enum values", _with_parts(_unknown_value)),
    "unknown-bucket": (
        "one portfolio has an undocumented bucket, `invented`, with free and locked",
        _with_parts(_bucket("invented", {"free": "1000.000000000000000001", "locked": "2.5"})),
    ),
    "unknown-bucket-odd": (
        "in one portfolio, the `vault` bucket is a string instead of an object",
        _with_parts(_bucket("vault", "12.5")),
    ),
    "field-missing": ("one record lacks `createdAt`", _top(_pop("createdAt"))),
    "field-missing-everywhere": ("every record lacks `createdAt`", _all(_pop("createdAt"))),
    "field-missing-in-account": ("one account lacks `venueId`", _first("Account", _pop("venueId"))),
    "field-null": ("`createdAt` is null in one record", _top(_set("createdAt", None))),
    "field-wrong-type": ("`name` is a number in one record", _top(_set("name", 7))),
    "id-missing": ("one record has no `id`", _top(_pop("id"))),
    "positions-null": ("the positions of one portfolio are null", _top(_set("positions", None))),
    "integrations-absent": ("portfolios have no `integrations`", _all(_pop("integrations"))),
    "record-null": ("one record is `null`", lambda records, _r, _f: records.append(None)),  # type: ignore[arg-type] # null is not a record, which is the fault
    "resource-wrong": ("one record has the wrong `resource`", _top(_set("resource", "order"))),
    "uuid-malformed": ("one record has the ID `not-a-uuid`", _top(_set("id", "not-a-uuid"))),
    "uuid-upper-case": ("every ID is in upper case", _all(_upper)),
    "other-object": (
        "a single object has a different ID",
        _top(_set("id", "00000000-0000-4000-8000-00000000000f")),
    ),
    "timestamp-naive": (
        "one updatedAt has no time zone",
        _top(_set("updatedAt", "2026-11-20T18:00:00")),
    ),
    "timestamp-impossible": (
        "one createdAt is on the 30th of February",
        _top(_set("createdAt", "2024-02-30T12:00:00Z")),
    ),
    "timestamp-backwards": (
        "every updatedAt is in 1999",
        _all(_set("updatedAt", "1999-12-31T23:59:59Z")),
    ),
    "timestamp-number": ("one createdAt is a number", _top(_set("createdAt", 1700000000))),
    "instruments-untold": (
        "venues do not list their instruments",
        _all(_pop("instruments")),
    ),
    "instruments-disagree": (
        "venues embed an instrument that is not in any list",
        _all(_embed_another),
    ),
    "constraint-inexact": ("one constraint has 25 decimals, another has an exponent", _constraint),
    "amount-number": ("one amount is a JSON number", _first_amount(1.5)),
    "amount-numbers": ("every amount is a JSON number", _every_amount(1.5)),
    "amount-null": ("one amount is null", _first_amount(None)),
    "amount-empty": ("one amount is an empty string", _first_amount("")),
    "amount-nan": ("one amount is the string NaN", _first_amount("NaN")),
    "amount-infinity": ("one amount is the string Infinity", _first_amount("Infinity")),
    "amount-24-decimals": (
        "one amount has 24 decimal places",
        _first_amount("0.123456789012345678901234"),
    ),
    "amount-30-digits": (
        "one amount has 30 digits before the decimal point",
        _first_amount("123456789012345678901234567890.5"),
    ),
    "amount-exponent": ("one amount is 1e-8", _first_amount("1e-8")),
    "amount-exponent-huge": ("one amount is 1e999999999", _first_amount("1e999999999")),
    "amount-negative": ("one amount is negative", _first_amount("-12.75")),
    "amount-minus-zero": ("one amount is -0", _first_amount("-0")),
    "amount-bare-point": ("one amount is .5", _first_amount(".5")),
    "amount-underscore": ("one amount is 1_000", _first_amount("1_000")),
    "amount-comma": ("one amount is 1,000.50", _first_amount("1,000.50")),
    "amount-space": ("one amount begins with a space", _first_amount(" 1")),
    "amount-full-width": ("one amount is in full-width digits", _first_amount("\uff11\uff12")),
    "amount-arabic": ("one amount is in Arabic-Indic digits", _first_amount("\u0661\u0662")),
}

RECORD_FAULTS: Mapping[str, FaultKind] = {
    name: FaultKind(description=words, records=spoil) for name, (words, spoil) in _RECORDS.items()
}
