"""Tests of the ID of a record, which is read from its bytes."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pipelines.records.identity import id_of

MEMBERS = st.dictionaries(
    st.text().filter(lambda key: key != "id"),
    st.one_of(st.text(), st.booleans(), st.lists(st.dictionaries(st.just("id"), st.text()))),
    max_size=3,
)
LAYOUTS = st.sampled_from([{"separators": (",", ":")}, {"separators": (", ", ": ")}, {"indent": 1}])


@given(text=st.text(), others=MEMBERS, first=st.booleans(), plain=st.booleans(), layout=LAYOUTS)
def test_the_id_of_a_record_is_found_in_any_layout(
    *, text: str, others: dict[str, Any], first: bool, plain: bool, layout: dict[str, Any]
) -> None:
    """The ID is found at any position, in any layout and escaping, and inner IDs are ignored."""
    record = {"id": text} | others if first else others | {"id": text}
    raw = json.dumps(record, ensure_ascii=plain, **layout).encode(errors="surrogatepass")
    assert id_of(msgspec.Raw(raw)) == text


@given(st.one_of(st.none(), st.integers(), st.booleans(), st.lists(st.text())), MEMBERS)
def test_a_record_without_a_string_id_has_no_id(value: Any, others: dict[str, Any]) -> None:
    """A record has no ID if `id` is missing or is a number, a list, a boolean or null."""
    for record in ({"id": value} | others, others):
        assert id_of(msgspec.Raw(json.dumps(record).encode())) is None
