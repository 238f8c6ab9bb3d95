"""Tests of files with a checksum: read fast if possible, but never without a verification."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.landing import night_folders
from tests.support.shared import tries

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXT
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner))
CONTENTS = st.dictionaries(TEXT.filter(lambda key: key != night_folders.SEAL), TREES, max_size=5)


@pytest.mark.torture
@settings(max_examples=tries(20, 900), deadline=None, derandomize=True)
@given(CONTENTS)
@example({"": "\x00\x1f\x7f\u2028\U0001f600", "b": 2**70, "a": 1e300})
def test_any_json_content_is_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    """Any JSON content is read back unchanged, by the fast reader or the slow one."""
    path = tmp_path_factory.getbasetemp() / "proved.json"
    night_folders.write(path, content)
    assert json.dumps(night_folders.read(path), sort_keys=True) == json.dumps(
        content, sort_keys=True
    )


@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_infinity_and_nan_are_refused_before_writing(tmp_path: Path, number: str) -> None:
    """Infinity and NaN are refused, because they would be written as null and damage the night."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        night_folders.write(tmp_path / "manifest.json", {"share": [float(number)]})
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_contains_nan_is_damaged(tmp_path: Path) -> None:
    """`NaN` means damage, because Python reads it but nightbook can never have written it."""
    path = tmp_path / "manifest.json"
    path.write_text('{"share": NaN, "sha256": "0"}', encoding="utf-8")
    with pytest.raises(night_folders.DamagedFile, match="nothing readable"):
        night_folders.read(path)


@settings(max_examples=tries(20, 900), deadline=None, derandomize=True)
@given(st.dictionaries(TEXT, st.integers(0, 99) | TEXT, min_size=1, max_size=4), st.data())
def test_a_flipped_bit_is_found_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any], data: st.DataObject
) -> None:
    """A flipped bit in a file is found, or it does not change the content."""
    path = tmp_path_factory.getbasetemp() / "proved.json"
    content = {key: value for key, value in content.items() if key != night_folders.SEAL}
    night_folders.write(path, content)
    text = bytearray(path.read_bytes())
    text[data.draw(st.integers(0, len(text) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(text)
    try:
        found = night_folders.read(path)
    except night_folders.DamagedFile:
        return
    assert found == content


def test_the_fast_reader_verifies_our_manifests(tmp_path: Path) -> None:
    """The fast reader can verify a manifest that nightbook wrote, so it is not parsed twice."""
    path = tmp_path / "manifest.json"
    night_folders.write(
        path, {"b": ["é", 1, None], "a": {"2": True, "10": False}, "text": "a\n\t\"'\\"}
    )
    assert night_folders._fast_read(path.read_bytes()) == night_folders.read(path)
