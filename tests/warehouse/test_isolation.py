"""Code of strangers runs in a child process that cannot outlive its bounds."""

import time
from pathlib import Path

import pytest

from warehouse.isolation import ChildLimits, ChildStopped, ChildTimedOut, run_in_child

LIMITS = ChildLimits(seconds=20, memory_bytes=1024**3)


def test_a_result_comes_back() -> None:
    """What the function returns for its request is what the caller gets."""
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
def test_a_child_that_breaks_is_one_error(code: str) -> None:
    """No panic, no abort and no want of memory reaches the caller, and what is sound does."""
    assert run_in_child("builtins:eval", b"b'sound'", LIMITS) == b"sound"
    with pytest.raises(ChildStopped):
        run_in_child("builtins:eval", code.encode(), LIMITS)


def test_a_child_writes_no_file(tmp_path: Path) -> None:
    """Not one byte of what it writes is on the disk."""
    path = tmp_path / "written"
    code = f"__import__('pathlib').Path({str(path)!r}).write_text('x') and b'written'"
    with pytest.raises(ChildStopped):
        run_in_child("builtins:eval", code.encode(), LIMITS)
    assert not path.exists() or path.stat().st_size == 0


def test_a_child_that_hangs_is_stopped() -> None:
    """Time over is time over, also where it only waits."""
    began = time.monotonic()
    limits = ChildLimits(seconds=1, memory_bytes=1024**3)
    with pytest.raises(ChildTimedOut):
        run_in_child("builtins:exec", b"import time; time.sleep(60)", limits)
    assert time.monotonic() - began < 3
