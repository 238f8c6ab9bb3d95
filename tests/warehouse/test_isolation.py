"""Tests of child processes that run untrusted code within strict limits."""

import time
from pathlib import Path

import pytest

from warehouse.isolation import (
    ChildKilled,
    ChildLimits,
    ChildNotStarted,
    ChildOutOfMemory,
    ChildStopped,
    ChildTimedOut,
    container_memory,
    run_in_child,
    usable_memory,
)

LIMITS = ChildLimits(seconds=20, memory_bytes=1024**3)


def test_the_caller_gets_the_result() -> None:
    """The caller gets the bytes that the function returns for its request."""
    assert run_in_child("binascii:hexlify", b"abc", LIMITS) == b"616263"


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("bytes(1 << 40)", ChildOutOfMemory, "MemoryError"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", ChildKilled, "^$"),
        ("(_ for _ in ()).throw(BaseException('a panic'))", ChildStopped, "a panic"),
        ("__import__('os').abort()", ChildStopped, "ended with code -6"),
        ("__import__('signal').raise_signal(24)", ChildTimedOut, "^$"),
    ],
    ids=["memory", "killed", "panic", "abort", "CPU time"],
)
def test_a_child_without_a_result_raises_its_own_reason(
    code: str, kind: type[ChildStopped], words: str
) -> None:
    """A lack of memory, a kill from outside, a crash and a time limit raise different errors."""
    assert run_in_child("builtins:eval", b"b'sound'", LIMITS) == b"sound"
    with pytest.raises(ChildStopped, match=words) as stopped:
        run_in_child("builtins:eval", code.encode(), LIMITS)
    assert type(stopped.value) is kind


def test_a_child_that_cannot_start_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a module or Python itself is missing, the error names it, not a lack of memory."""
    with pytest.raises(ChildNotStarted, match="No module named 'no_such_module'"):
        run_in_child("no_such_module:work", b"", LIMITS)
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(ChildNotStarted, match="No such file"):
        run_in_child("builtins:eval", b"b''", LIMITS)


def test_a_child_imports_from_the_folders_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child finds modules in PYTHONPATH and in user packages, as its parent does."""
    (tmp_path / "only_here.py").write_text("def work(request):\n    return request * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert run_in_child("only_here:work", b"ab", LIMITS) == b"abab"


def test_the_memory_of_a_container_limits_a_query(tmp_path: Path) -> None:
    """At most half of the smallest limit of a container is used. `max` means no limit."""
    assert container_memory(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_memory(2**31, tmp_path) == 2**31
    (tmp_path / "memory.max").write_text(f"{2**29}\n")
    assert container_memory(tmp_path) == 2**29
    assert usable_memory(2**31, tmp_path) == 2**28


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
