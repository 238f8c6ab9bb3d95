"""Tests of large bodies, which are scanned only once but checked as strictly as small ones."""

import pytest

from pipelines.edge.errors import MalformedResponseError
from pipelines.edge.response.envelope import read_envelope

LARGE = b'{"data":[' + b",".join([b'{"id":"' + b"x" * 1000 + b'"}'] * 17_000) + b'],"meta":{}}'


@pytest.mark.parametrize("at", [2_000, len(LARGE) - 100])
def test_invalid_utf8_is_found_at_any_position(at: int) -> None:
    """Invalid UTF-8 in a large body is found at any position, including the end of a chunk."""
    broken = LARGE[:at] + b"\xe2\x82" + LARGE[at + 2 :]
    with pytest.raises(MalformedResponseError, match="not UTF-8"):
        read_envelope(broken, single=False)
    edge = 1 << 20
    cut = LARGE[: edge - 1] + b"\xc3\xa9" + LARGE[edge + 1 :]
    assert read_envelope(cut, single=False).spans is not None
    with pytest.raises(MalformedResponseError, match="not UTF-8"):
        read_envelope(LARGE[: edge - 1] + b"\xc3x" + LARGE[edge + 1 :], single=False)


def test_a_megabyte_of_white_space_is_refused() -> None:
    """A megabyte of white space is refused, because it is slower to scan than records."""
    blank = LARGE[:-1] + b" " * (3 << 20) + b"}"
    with pytest.raises(MalformedResponseError, match="white space"):
        read_envelope(blank, single=False)
