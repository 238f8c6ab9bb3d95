"""Costs of whole processes: CPU with children, wall time, and peak memory."""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICK = 0.02


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU and wall time in seconds, peak of anonymous memory in MB, and the output."""

    cpu: float
    wall: float
    anonymous: float
    output: str


class Failed(Exception):
    """The failure of a measured process. The message contains its output."""


def spent(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Spent:
    """Run a command to its end. Its CPU includes the children that it waited for."""
    begun = time.monotonic()
    with subprocess.Popen(
        list(command),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(environment or {})},
    ) as process:
        peaks = [0.0]
        watcher = threading.Thread(target=_watch, args=(process.pid, peaks), daemon=True)
        watcher.start()
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - begun
    if process.returncode:
        raise Failed(f"{' '.join(command)[:200]} ended with {process.returncode}: {output[-2000:]}")
    return Spent(usage.ru_utime + usage.ru_stime, wall, peaks[0], output)


def _watch(pid: int, peaks: list[float]) -> None:
    """Record the peak memory of a process until it ends."""
    status = Path(f"/proc/{pid}/status")
    while True:
        try:
            lines = status.read_text(encoding="ascii").splitlines()
        except OSError:
            return
        found = [int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:")]
        if not found:
            return
        peaks[0] = max(peaks[0], *found)
        time.sleep(TICK)
