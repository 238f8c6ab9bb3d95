"""A test of the results of steps: they are equal after they were stored in a log."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assets.night.results import ERROR, AssetCheck, AssetResult, Markdown, Value, from_json, to_json

METADATA: dict[str, Value] = {
    "text": "a",
    "number": 2,
    "flag": True,
    "nothing": None,
    "names": ["a", "b"],
    "path": Path("a"),
    "page": Markdown("# a"),
    "at": datetime(2026, 3, 6, tzinfo=UTC),
}


@pytest.mark.parametrize(
    "result",
    [
        AssetResult(asset=("lake", "venues"), metadata=METADATA),
        AssetCheck(
            asset=("warehouse",), check="c", passed=False, severity=ERROR, metadata=METADATA
        ),
    ],
)
def test_a_result_is_equal_after_it_was_stored(result: AssetResult | AssetCheck) -> None:
    """Each kind of metadata has the same type and value after it was stored as JSON.

    A kind that this version does not know is refused.
    """
    stored = json.loads(json.dumps(to_json(result)))
    found = from_json(stored)
    assert found == result
    assert [*map(type, found.metadata.values())] == [*map(type, METADATA.values())]
    stored["metadata"]["path"] = {"colour": "red"}
    with pytest.raises(LookupError):
        from_json(stored)
