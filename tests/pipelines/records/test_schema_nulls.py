"""Tests of nulls. Instruments have no lists, so Arrow may read nulls and other values in them."""

import json

import pytest

from pipelines.records import fast_reader
from pipelines.records.schema import INSTRUMENT, every_field

CONSTRAINTS = {
    field.name: field
    for field in every_field(INSTRUMENT)
    if field.source.startswith("TradingConstraints.")
}


def _instrument(name: str, value: str | None) -> bytes:
    parts: dict[str, str | None] = dict.fromkeys(CONSTRAINTS, "1")
    record: dict[str, object] = {
        **dict.fromkeys(INSTRUMENT.fields, "x"),
        "tradingConstraints": parts,
    }
    if name in parts:
        parts[name] = value
    else:
        record[name] = value
    return json.dumps(record).encode()


@pytest.mark.parametrize("name", [*INSTRUMENT.fields, *CONSTRAINTS, "unknown"])
def test_a_null_is_accepted_only_in_an_optional_field(name: str) -> None:
    """A null is NULL in an optional field. In any other field, the fast reader refuses it."""
    field = (INSTRUMENT.fields | CONSTRAINTS).get(name)
    raws = [_instrument("id", "first"), _instrument(name, None), _instrument("id", "last")]
    if field is None or field.required:
        with pytest.raises(fast_reader.UndocumentedRecordError):
            fast_reader.read(raws, INSTRUMENT)
        return
    rows = fast_reader.read(raws, INSTRUMENT).to_pylist()
    inner = [row["tradingConstraints"] if name in CONSTRAINTS else row for row in rows]
    assert [row[name] is None for row in inner] == [False, True, False]


@pytest.mark.parametrize("odd", [b"null", b"[null]", b"7", b'"{"', b'{"id":null}', b"[\n{}]"])
def test_values_that_are_not_instruments_are_refused(odd: bytes) -> None:
    """A value that is not an instrument is refused at any position, even if a line of it is one."""
    for raws in ([odd, _instrument("id", "a")], [_instrument("id", "a"), odd], [odd]):
        with pytest.raises(fast_reader.UndocumentedRecordError):
            fast_reader.read(raws, INSTRUMENT)
