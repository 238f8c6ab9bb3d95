"""Tests of child processes that run untrusted code within strict limits."""

import time
from pathlib import Path

import pytest

from warehouse.isolation import ChildLimits, ChildStopped, ChildTimedOut, run_in_child

LIMITS = ChildLimits(seconds=20, memory_bytes=1024**3)


def test_the_caller_gets_the_result() -> None:
    """The caller gets the bytes that the function returns for its request."""
    assert run_in_child("binascii:hexlify", b"abc", LIMITS) == b"616263"


@pytest.mark.parametrize(
    "code",
    [
        "bytes(1 << 40)",
        "(_ for _ in ()).throw(BaseException('a panic'))",
        "__import__('os').abort()",
    ],
    ids=["memory", "panic", "abort"],
)
def test_a_child_that_crashes_raises_one_error(code: str) -> None:
    """A panic, an abort or a lack of memory in the child only raises `ChildStopped`."""
    assert run_in_child("builtins:eval", b"b'sound'", LIMITS) == b"sound"
    with pytest.raises(ChildStopped):
        run_in_child("builtins:eval", code.encode(), LIMITS)


def test_a_child_cannot_write_a_file(tmp_path: Path) -> None:
    """A child process cannot write a single byte to disk."""
    path = tmp_path / "written"
    code = f"__import__('pathlib').Path({str(path)!r}).write_text('x') and b'written'"
    with pytest.raises(ChildStopped):
        run_in_child("builtins:eval", code.encode(), LIMITS)
    assert not path.exists() or path.stat().st_size == 0


def test_a_child_that_hangs_is_stopped() -> None:
    """A child that exceeds its time limit is stopped, even if it only waits."""
    began = time.monotonic()
    limits = ChildLimits(seconds=1, memory_bytes=1024**3)
    with pytest.raises(ChildTimedOut):
        run_in_child("builtins:exec", b"import time; time.sleep(60)", limits)
    assert time.monotonic() - began < 3
