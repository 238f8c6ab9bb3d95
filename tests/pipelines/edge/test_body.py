"""Tests of reading response bodies: encodings, sizes, files and memory."""

import contextlib
import gzip
import hashlib
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import MalformedResponseError, ResponseTooLarge, SpoolFailed
from pipelines.edge.requests import list_venues
from pipelines.edge.response.body import MAX_IN_MEMORY, Body, Limits, decode_body, require_framing
from pipelines.edge.response.envelope import raw_records
from pipelines.edge.sending.transport import AttemptTimeout

if TYPE_CHECKING:
    from tests.pipelines.edge.conftest import Script, Server

GZIP = {"content-encoding": "gzip"}
ROOMY = Limits(wire=1 << 24, decoded=1 << 24)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Return the data in pieces, as they might arrive from the network."""
    return (data[start : start + size] for start in range(0, len(data), size))


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=4), st.integers(1, 700))
def test_gzip_is_decompressed_to_the_original_bytes(members: list[bytes], size: int) -> None:
    """Any gzip members in any pieces are decompressed to exactly the original bytes."""
    packed = b"".join(map(gzip.compress, members))
    assert b"".join(decode_body(pieces(packed, size), GZIP, ROOMY)) == b"".join(members)


@given(st.binary(min_size=1, max_size=3000), st.data())
def test_truncated_gzip_is_refused(body: bytes, data: st.DataObject) -> None:
    """A gzip stream is refused if any part of its end is missing."""
    packed = gzip.compress(body)
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(MalformedResponseError, match="cut short"):
        b"".join(decode_body([packed[:cut]], GZIP, ROOMY))


@given(st.binary(min_size=20, max_size=3000), st.data())
def test_a_changed_bit_in_gzip_never_changes_the_body(body: bytes, data: st.DataObject) -> None:
    """A flipped bit in gzip is refused, or changes only the name or time in the header."""
    packed = bytearray(gzip.compress(body))
    bit = data.draw(st.integers(0, len(packed) * 8 - 1))
    packed[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(MalformedResponseError):
        assert b"".join(decode_body([bytes(packed)], GZIP, ROOMY)) == body


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZip", " gzip "])
def test_both_names_of_gzip_are_accepted(encoding: str) -> None:
    """The encodings `gzip` and `x-gzip` are accepted in any case and with surrounding spaces."""
    packed = [gzip.compress(b"body")]
    assert b"".join(decode_body(packed, {"content-encoding": encoding}, ROOMY)) == b"body"


@pytest.mark.parametrize("encoding", ["", "identity", "Identity"])
def test_a_plain_body_is_returned_unchanged(encoding: str) -> None:
    """Without a content encoding, the pieces are returned unchanged."""
    assert list(decode_body([b"a", b"b"], {"content-encoding": encoding}, ROOMY)) == [b"a", b"b"]


@pytest.mark.parametrize(
    "encoding", ["br", "zstd", "deflate", "gzip, gzip", "gzip,identity", "x", "compress"]
)
def test_unrequested_encodings_are_refused(encoding: str) -> None:
    """The client offers only gzip, so all other and all nested encodings are malformed."""
    with pytest.raises(MalformedResponseError, match="content encoding"):
        list(decode_body([b"a"], {"content-encoding": encoding}, ROOMY))


def test_a_zip_bomb_is_decompressed_in_small_pieces() -> None:
    """A zip bomb is decompressed in pieces of 64 KiB and refused at the size limit."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(bytes(64 << 20)) + packer.flush()
    sizes = list[int]()
    unpacked = decode_body([packed], GZIP, Limits(decoded=1 << 22))
    with pytest.raises(ResponseTooLarge, match="after decompression"):
        sizes.extend(len(piece) for piece in unpacked)
    assert max(sizes) <= 1 << 16
    assert sum(sizes) <= 1 << 22


@pytest.mark.parametrize(
    ("size", "limits", "stage"),
    [
        (101, Limits(wire=100), "on the wire"),
        (101, Limits(decoded=100), "after decompression"),
    ],
)
def test_the_size_limit_is_exact(size: int, limits: Limits, stage: str) -> None:
    """A body of exactly the limit is accepted, but one more byte is not."""
    assert sum(map(len, decode_body([b"x" * (size - 1)], {}, limits))) == size - 1
    with pytest.raises(ResponseTooLarge, match=stage):
        list(decode_body([b"x" * size], {}, limits))


@pytest.mark.parametrize(
    ("headers", "framed"),
    [
        ({"content-length": "5"}, True),
        ({"transfer-encoding": "Chunked"}, True),
        ({}, False),
        ({"transfer-encoding": "gzip"}, False),
    ],
)
def test_a_body_without_a_marked_end_is_refused(headers: dict[str, str], *, framed: bool) -> None:
    """A body without length or chunks is refused, because it could have been cut anywhere."""
    if framed:
        require_framing(headers, "HTTP/1.1")
    else:
        with pytest.raises(MalformedResponseError, match="its end is unknown"):
            require_framing(headers, "HTTP/1.0")


@pytest.mark.parametrize("size", [0, 1, MAX_IN_MEMORY, MAX_IN_MEMORY + 1, 3 * MAX_IN_MEMORY + 17])
def test_a_body_keeps_its_bytes_and_digest(size: int, tmp_path: Path) -> None:
    """A body keeps its bytes and SHA-256, in memory up to 1 MiB and above in an unnamed file."""
    data = os.urandom(size)
    body = Body(tmp_path)
    for piece in pieces(data, 70_001):
        body.write(piece)
    assert bytes(body.buffer()) == data
    assert (body.size, body.sha256) == (size, hashlib.sha256(data).hexdigest())
    assert isinstance(body.buffer(), bytes) is (size <= MAX_IN_MEMORY)
    assert list(tmp_path.iterdir()) == []
    assert memoryview(body.buffer()).readonly
    body.release_pages()
    assert bytes(body.buffer()) == data
    body.close()
    body.close()
    with pytest.raises(ValueError, match="closed"):
        body.buffer()


def test_a_record_stays_readable_after_its_body_is_closed(
    connect: Callable[..., EdgeClient],
) -> None:
    """A record stays readable after its body is closed."""
    record = b'{"a":"' + b"x" * (2 << 20) + b'"}'
    content = b'{"data":[' + record + b'],"meta":{}}'
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=content))
    edge = connect(transport=transport, limits=ROOMY)
    reply = edge.fetch(list_venues())
    elements = raw_records(reply.envelope)
    assert not isinstance(reply.body.buffer(), bytes)
    reply.body.close()
    assert bytes(elements[0]) == record
    assert reply.sha256 == hashlib.sha256(content).hexdigest()
    assert reply.size == len(content)


def test_a_full_disk_is_reported_and_not_retried(
    serve: "Callable[[Script], Server]", connect: Callable[..., EdgeClient], tmp_path: Path
) -> None:
    """If the body cannot be written, the error names reason, folder and mount. No retry follows."""
    content = b'{"data":["' + b"x" * (2 << 20) + b'"],"meta":{}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)
    server = serve(lambda _number, _request: [head + content])
    edge = connect(server.origin, spool_dir=tmp_path / "missing", limits=ROOMY)
    with pytest.raises(SpoolFailed, match="No such file") as failed:
        edge.fetch(list_venues())
    words = f"the body could not be written to {tmp_path / 'missing'} (on the disk mounted at /"
    assert words in str(failed.value)
    assert len(server.requests) == 1


def test_a_full_disk_is_noticed_at_the_last_write(
    connect: Callable[..., EdgeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffered bytes are written before the body counts as read, so a full disk is noticed."""

    def full(**_: object) -> IO[bytes]:
        return Path("/dev/full").open("r+b", buffering=1 << 24)

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    content = b'{"data":["' + b"x" * (2 << 20) + b'"],"meta":{}}'
    asked = list[httpx.Request]()

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, content=content)

    with pytest.raises(SpoolFailed, match="No space left on device"):
        connect(transport=httpx.MockTransport(handler), limits=ROOMY).fetch(list_venues())
    assert len(asked) == 1


def test_a_large_body_gets_enough_time_but_a_trickle_times_out() -> None:
    """A body that arrives at 64 KiB per second gets enough time, but a slow trickle times out."""
    now = [0.0]
    limits = Limits(attempt=30.0, pace=1 << 16, wire=1 << 24)
    timeout = AttemptTimeout(limits, 100.0, lambda: now[0], 0.0)
    now[0] = 29.0
    assert timeout.seconds_for_step(20.0) == 1.0
    timeout.count(10 << 16)
    assert timeout.seconds_for_step(5.0) == 5.0
    assert timeout.seconds_for_step(None) == 11.0
    now[0] = 40.0
    with pytest.raises(httpcore.ReadTimeout):
        timeout.seconds_for_step(None)
    timeout.count(100 << 16)
    assert timeout.seconds_for_step(None) == 60.0  # the deadline of the pull
    with pytest.raises(ResponseTooLarge):
        timeout.count(1 << 25)


MEASURE = """
import resource, sys
from pipelines.edge.signing import Credentials
from pipelines.edge.client import EdgeClient
from pipelines.edge.requests import list_venues
with EdgeClient(sys.argv[1], Credentials("key", "secret")) as edge:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        reply = edge.fetch(list_venues())
        print(reply.size, end=" ")
    except Exception as error:
        print(type(error).__name__, end=" ")
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.torture
@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("spaces", "MalformedResponseError"),
        ("records", "MalformedResponseError"),
        ("keys", "MalformedResponseError"),
    ],
)
def test_a_zip_bomb_does_not_fill_the_memory(
    kind: str, outcome: str, serve: "Callable[[Script], Server]"
) -> None:
    """A zip bomb of 64 MiB in 100 KB is refused, and the process grows by less than 56 MiB."""
    filler = {"spaces": b" ", "records": b"{},", "keys": b'"":0,'}[kind]
    start, end = {
        "spaces": (b"", b""),
        "records": (b'{"data":[', b'{}],"meta":{}}'),
        "keys": (b"{", b'"data":[],"meta":{}}'),
    }[kind]
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    count = (64 << 20) // len(filler)
    packed = packer.compress(start) + packer.compress(filler * count) + packer.compress(end)
    packed += packer.flush()
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    server = serve(lambda _number, _request: [head + packed])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, server.origin], capture_output=True, text=True, check=True
    )
    said, grown = done.stdout.split()
    assert said == outcome
    assert int(grown) < 56
