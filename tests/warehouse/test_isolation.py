"""Code of strangers runs in a child process that cannot outlive its bounds."""

import time

import pytest

from warehouse.isolation import ChildStopped, ChildTimedOut, Limits, run_in_child

LIMITS = Limits(seconds=20, memory_bytes=1024**3)


def test_a_result_comes_back() -> None:
    """What the function returns for its request is what the caller gets."""
    assert run_in_child("binascii:hexlify", b"abc", LIMITS) == b"616263"


@pytest.mark.parametrize(
    "code",
    [
        b"x = bytearray(1 << 40)",
        b"raise BaseException('a panic')",
        b"import os; os.abort()",
        b"import pathlib; pathlib.Path('/tmp/nightbook-isolated').write_text('x')",
    ],
    ids=["memory", "panic", "abort", "file"],
)
def test_a_child_that_breaks_is_one_error(code: bytes) -> None:
    """No panic, no abort, no want of memory and no write of a file reaches the caller."""
    with pytest.raises(ChildStopped):
        run_in_child("builtins:exec", code, LIMITS)


def test_a_child_that_hangs_is_stopped() -> None:
    """Time over is time over, also where it only waits."""
    began = time.monotonic()
    limits = Limits(seconds=1, memory_bytes=1024**3)
    with pytest.raises(ChildTimedOut):
        run_in_child("builtins:exec", b"import time; time.sleep(60)", limits)
    assert time.monotonic() - began < 3
