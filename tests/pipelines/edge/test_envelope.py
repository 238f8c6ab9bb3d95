"""Tests of the strict checks of response bodies."""

import json
import mmap
import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.edge.errors import ErrorEntry, MalformedResponseError
from pipelines.edge.response import envelope as envelope_module
from pipelines.edge.response.envelope import (
    find_record_defect,
    raw_records,
    read_envelope,
    read_errors,
)

DEEP = b"[" * 200_000 + b"]" * 200_000

REFUSED = {
    "null": b"null",
    "a list": b"[]",
    "a string": b'"x"',
    "nothing": b"",
    "html": b"<html>",
    "no data": b'{"meta":{}}',
    "no meta": b'{"data":[]}',
    "data an object": b'{"data":{},"meta":{}}',
    "data null": b'{"data":null,"meta":{}}',
    "meta a list": b'{"data":[],"meta":[]}',
    "meta null": b'{"data":[],"meta":null}',
    "errors beside data": b'{"data":[],"errors":[{"error":"X","message":""}],"meta":{}}',
    "data twice": b'{"data":[],"data":[1],"meta":{}}',
    "data twice, written otherwise": b'{"data":[],"d\\u0061ta":[1],"meta":{}}',
    "meta twice": b'{"data":[],"meta":{},"meta":{}}',
    "an unknown key twice": b'{"x":1,"data":[],"meta":{},"x":1}',
    "a key of meta twice": b'{"data":[],"meta":{"a":1,"a":2}}',
    "NaN": b'{"data":[NaN],"meta":{}}',
    "Infinity": b'{"data":[{"a":-Infinity}],"meta":{}}',
    "1e999 in meta": b'{"data":[],"meta":{"a":1e999}}',
    "5000 digits in meta": b'{"data":[],"meta":{"a":' + b"9" * 5000 + b"}}",
    "not UTF-8 in a value": b'{"data":[{"a":"\xff"}],"meta":{}}',
    "not UTF-8 in a key": b'{"data":[{"\xff":1}],"meta":{}}',
    "surrogates as bytes": b'{"data":["\xed\xa0\x80"],"meta":{}}',
    "overlong UTF-8": b'{"data":["\xc0\xaf"],"meta":{}}',
    "UTF-8 cut short": b'{"data":[],"meta":{}}\xe2\x82',
    "half a surrogate pair": b'{"data":["\\ud800"],"meta":{}}',
    "the other half": b'{"data":[{"\\udc00":1}],"meta":{}}',
    "BOM": b'\xef\xbb\xbf{"data":[],"meta":{}}',
    "UTF-16": '{"data":[],"meta":{}}'.encode("utf-16"),
    "two documents": b'{"data":[],"meta":{}}{"data":[],"meta":{}}',
    "something after": b'{"data":[],"meta":{}} x',
    "cut short": b'{"data":[{"a":1}',
    "trailing comma": b'{"data":[{"a":1,}],"meta":{}}',
    "a comment": b'{"data":[],/* */"meta":{}}',
    "single quotes": b"{'data':[],'meta':{}}",
    "a raw control character": b'{"data":["\x01"],"meta":{}}',
    "a wrong escape": b'{"data":["\\x41"],"meta":{}}',
    "a leading zero": b'{"data":[01],"meta":{}}',
    "deep in data": b'{"data":[' + DEEP + b'],"meta":{}}',
    "deep in meta": b'{"data":[],"meta":{"a":' + DEEP + b"}}",
    "many keys": b"{" + b",".join(b'"%d":0' % i for i in range(99)) + b',"data":[],"meta":{}}',
    "a blank": b" " * (3 << 20),
    "a blank in between": b'{"data":[],' + b"\n" * (3 << 20) + b'"meta":{}}',
    "nothing after a comma": b'{"data":[{},],"meta":{}}',
    "no comma": b'{"data":[{}{}],"meta":{}}',
    "no colon": b'{"data" [],"meta":{}}',
    "a bare key": b'{data:[],"meta":{}}',
    "a comma at the end": b'{"data":[],"meta":{},}',
    "no end of the list": b'{"data":[{}}',
    "no end": b'{"data":[],"meta":{}',
    "a large meta": b'{"data":[],"meta":{"a":"' + b"x" * (1 << 20) + b'"}}',
}


@pytest.fixture(params=["in one pass", "step by step"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with both readers, the one for small bodies and the one for large bodies."""
    if request.param == "step by step":
        monkeypatch.setattr(envelope_module, "_MIN_WALKED", 1)
        monkeypatch.setattr(envelope_module, "_MIN_SLICED", 1)


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_a_body_that_is_not_strict_json_is_refused(body: bytes) -> None:
    """A body that is not strict JSON in the envelope is malformed, with a one-line message."""
    with pytest.raises(MalformedResponseError) as caught:
        read_envelope(body, single=False)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_records_are_the_exact_bytes_of_the_body() -> None:
    """Records are the exact bytes of the body, with white space and digits as sent."""
    body = b' {"meta" : {} ,\n"data":[ {"a": 1.10} , {"b":[]}]} '
    envelope = read_envelope(body, single=False)
    assert [bytes(element) for element in raw_records(envelope)] == [b'{"a": 1.10}', b'{"b":[]}']
    assert bytes(envelope.meta) == b"{}"
    assert envelope.is_list


def test_a_single_record_must_be_an_object() -> None:
    """A single-record operation requires an object in `data` and refuses a list (2.9)."""
    envelope = read_envelope(b'{"data":{"id":"x"},"meta":{}}', single=True)
    assert [bytes(element) for element in raw_records(envelope)] == [b'{"id":"x"}']
    with pytest.raises(MalformedResponseError, match="not an object"):
        read_envelope(b'{"data":[],"meta":{}}', single=True)


@pytest.mark.parametrize("more", [b"", b',"links":{"self":"x"}', b',"errors":[]', b',"x":[1,"y"]'])
def test_unknown_envelope_keys_are_tolerated(more: bytes) -> None:
    """Undocumented keys in the envelope do not make a body invalid."""
    assert read_envelope(b'{"data":[],"meta":{}' + more + b"}", single=False).is_list


@pytest.mark.parametrize(
    "meta", ["{}", '{"page":1}', '{"a":"],\\"meta\\":{"}', '{"a":1,"a":2}', "[]"]
)
@pytest.mark.parametrize(
    "data", ["[]", "[{}, 7]", '[{"a":[1],"meta":{}}]', '[],"data":[1]', "[1]]", ""]
)
@pytest.mark.parametrize(
    "form", ['{"data":%s,"meta":%s}', '{"data":%s,"meta":%s,"x":{}}', '{"data":%s,"meta":%s}}']
)
def test_both_readers_find_the_same_records(
    form: str, data: str, meta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both readers find the same members and records in a body, or both refuse it."""
    body = (form % (data, meta)).encode()
    told: list[list[bytes] | None] = []
    for least in (1 << 24, 1):
        monkeypatch.setattr(envelope_module, "_MIN_WALKED", least)
        try:
            envelope = read_envelope(body, single=False)
        except MalformedResponseError:
            told.append(None)
        else:
            told.append([*map(bytes, (envelope.data, envelope.meta, *raw_records(envelope)))])
            assert set(envelope.other_members) == ({"x"} if b'"x"' in body else set())
    assert told[0] == told[1]


def test_a_pair_of_surrogate_escapes_is_legal() -> None:
    """A pair of surrogate escapes, for example an emoji, is legal JSON."""
    body = b'{"data":[{"name":"\\ud83e\\udd8a"}],"meta":{}}'
    assert len(raw_records(read_envelope(body, single=False))) == 1


def test_a_memory_map_is_read_like_bytes() -> None:
    """A memory-mapped body is read like bytes, even if a character spans two chunks."""
    filler = "é🦊".encode() * 300_000
    body = b'{"data":[{"a":"' + filler + b'"},{"b":"' + filler + b'"}],"meta":{}}'
    with tempfile.TemporaryFile() as file:
        file.write(body)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        elements = raw_records(read_envelope(mapped, single=False))
        assert b'{"data":[' + b",".join(map(bytes, elements)) + b'],"meta":{}}' == body
    assert raw_records(read_envelope(memoryview(body), single=False))


@pytest.mark.parametrize("element", [b"{}", b"0"])
def test_a_body_with_too_many_records_is_refused(
    element: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body with too many records is refused, because a list of them would fill the memory."""
    monkeypatch.setattr(envelope_module, "MAX_RECORDS", 5_000)
    monkeypatch.setattr(envelope_module, "MAX_RECORDS", 5_000)
    body = b'{"data":[' + b",".join([element] * 5_002) + b'],"meta":{}}'
    with pytest.raises(MalformedResponseError, match="more than 5,000 records"):
        read_envelope(body, single=False)


def test_commas_inside_records_do_not_count_as_records() -> None:
    """Commas inside records do not count as records, so a few records with many fields pass."""
    record = b'{"a":[ ' + b",".join([b"1"] * 600_000) + b"] }"
    body = b'{"data":[ ' + record + b" ,\n" + record + b' ] ,"meta":{}}'
    assert len(raw_records(read_envelope(body, single=False))) == 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"errors":[{"error":"A","message":"m"}],"meta":{}}', (ErrorEntry("A", "m"),)),
        (b'{"errors":[{"error":"A"},{"message":"n"}]}', (ErrorEntry("A", ""), ErrorEntry("", "n"))),
        (b'{"errors":[{"error":7,"message":null}],"meta":{}}', (ErrorEntry("", ""),)),
        (b'{"errors":[],"meta":{}}', ()),
        (b'{"errors":{},"meta":{}}', None),
        (b'{"errors":["x"],"meta":{}}', None),
        (b'{"data":[],"meta":{}}', None),
        (b'{"errors":[{"error":"\xff"}]}', None),
        (b"<html>", None),
        (b"", None),
        (b'{"errors":' + DEEP + b"}", None),
    ],
)
def test_invalid_parts_of_an_error_body_are_ignored(
    body: bytes, expected: tuple[ErrorEntry, ...] | None
) -> None:
    """Codes and messages that are not strings become empty, and other bodies return None (7)."""
    assert read_errors(body) == expected


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (b'{"a":{"free":"1","free":"2"}}', "`free` occurs twice"),
        (b'{"a":1e999}', "out of range"),
        (b'{"a":' + b"9" * 5000 + b"}", "limit"),
        (b'{"a":NaN}', "NaN"),
        (DEEP, "recursion"),
    ],
)
def test_the_problem_of_an_ambiguous_record_is_named(record: bytes, words: str) -> None:
    """The description of an ambiguous record names the problem, such as a duplicate key."""
    assert words in (find_record_defect(record) or "")


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.text(), TREES, max_size=4), max_size=4))
def test_valid_records_are_accepted_unchanged(records: list[dict[str, Any]]) -> None:
    """Any records that the `json` module writes are accepted unchanged and have no defect."""
    body = json.dumps({"data": records, "meta": {}}).encode()
    elements = raw_records(read_envelope(body, single=False))
    assert [json.loads(bytes(element)) for element in elements] == records
    assert [find_record_defect(element) for element in elements] == [None] * len(records)


def test_a_record_or_meta_above_its_size_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record or `meta` above its size limit is refused, because it would be decoded in memory.

    The limit of `meta` does not apply to a single record in `data`.
    """
    monkeypatch.setattr(envelope_module, "MAX_RECORD_SIZE", 4096)
    monkeypatch.setattr(envelope_module, "_MIN_WALKED", 1)
    for size, is_good in ((4000, True), (5000, False)):
        body = b'{"data":[{"a":"' + b"x" * size + b'"}],"meta":{}}'
        if is_good:
            assert len(raw_records(read_envelope(body, single=False))) == 1
        else:
            with pytest.raises(MalformedResponseError, match="larger than 4,096 bytes"):
                read_envelope(body, single=False)
    monkeypatch.setattr(envelope_module, "MAX_RECORD_SIZE", 1 << 20)
    monkeypatch.setattr(envelope_module, "MAX_MEMBER_SIZE", 4096)
    with pytest.raises(MalformedResponseError, match="next to `data`, is larger than 4,096 bytes"):
        read_envelope(b'{"data":[],"meta":{"a":"' + b"x" * 5000 + b'"}}', single=False)
    single = b'{"meta":{},"data":{"a":"' + b"x" * 5000 + b'"}}'
    assert len(read_envelope(single, single=True).data) > 5000
