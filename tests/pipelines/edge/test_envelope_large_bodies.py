"""Large bodies: looked at once where once is enough, and never less strictly for it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.edge.errors import MalformedResponse
from pipelines.edge.response.body import Body
from pipelines.edge.response.envelope import read_envelope

LARGE = b'{"data":[' + b",".join([b'{"id":"' + b"x" * 1000 + b'"}'] * 17_000) + b'],"meta":{}}'


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.binary(max_size=8) | st.just(b"plain"), max_size=6))
def test_a_body_knows_whether_it_is_ascii(chunks: list[bytes]) -> None:
    """However the bytes were cut, one above 127 is noticed."""
    body = Body()
    for chunk in chunks:
        body.write(chunk)
    assert body.is_ascii == b"".join(chunks).isascii()


def test_what_is_known_to_be_ascii_is_read_the_same() -> None:
    """The records of a large body are where they were, looked at twice or once."""
    twice, once = (read_envelope(LARGE, single=False, is_ascii=known) for known in (False, True))
    assert twice.spans == once.spans
    assert once.spans is not None
    assert len(once.spans) == 2 * 17_000


@pytest.mark.parametrize("at", [2_000, len(LARGE) - 100])
def test_a_byte_that_is_no_utf8_is_found_wherever_it_is(at: int) -> None:
    """A broken character in a large body is refused, also one that a chunk ends in."""
    broken = LARGE[:at] + b"\xe2\x82" + LARGE[at + 2 :]
    with pytest.raises(MalformedResponse, match="not UTF-8"):
        read_envelope(broken, single=False)
    edge = 1 << 20
    cut = LARGE[: edge - 1] + b"\xc3\xa9" + LARGE[edge + 1 :]
    assert read_envelope(cut, single=False).spans is not None
    with pytest.raises(MalformedResponse, match="not UTF-8"):
        read_envelope(LARGE[: edge - 1] + b"\xc3x" + LARGE[edge + 1 :], single=False)


def test_a_megabyte_of_blanks_is_refused_also_in_ascii() -> None:
    """Blanks cost the walk more than records do, so no long stretch of them is let through."""
    blank = LARGE[:-1] + b" " * (3 << 20) + b"}"
    for known in (False, True):
        with pytest.raises(MalformedResponse, match="white space"):
            read_envelope(blank, single=False, is_ascii=known)
