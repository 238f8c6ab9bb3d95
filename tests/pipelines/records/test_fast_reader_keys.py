"""Tests of repeated keys, which are found for any number of records per parent."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.records import fast_reader

KEYS = st.tuples(st.sampled_from("abc"), st.sampled_from(["", "x", "é"]))


@given(st.lists(st.lists(KEYS, max_size=12), max_size=5), st.booleans())
@example([[("a", "x")], [("a", "x")]], True)
@example([[("a", "x"), ("b", "x"), ("c", "x"), ("a", "x")]], False)
@example([[("a", "x")] + [("b", "x")] + [("c", "")] * 9], False)
def test_repeated_keys_of_one_parent_are_found(
    children: list[list[tuple[str, str]]],
    unique: bool,  # noqa: FBT001 - drawn
) -> None:
    """Few keys are compared pairwise, and many are grouped. Both ways find the same repeats."""
    given_ = [sorted(set(keys)) if unique else keys for keys in children]
    rows = [(parent, *key) for parent, keys in enumerate(given_) for key in keys]
    columns = {
        name: pa.array([row[n] for row in rows], kind)
        for n, (name, kind) in enumerate(
            [("parent", pa.int64()), ("one", pa.string()), ("other", pa.string())]
        )
    }
    if len(set(rows)) == len(rows):
        fast_reader.require_distinct(columns)
    else:
        with pytest.raises(fast_reader.UndocumentedRecordError, match="is repeated"):
            fast_reader.require_distinct(columns)
