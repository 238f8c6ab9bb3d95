"""One command as a whole process: CPU seconds, wall, peak of anonymous memory."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TICK = 0.02


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run cost: CPU and wall in seconds, memory in MB; and what it printed."""

    cpu: float
    wall: float
    anonymous: float
    output: str


def measured(command: list[str], timeout: float = 3600.0) -> Cost:
    """Run a command to its end; raises `CalledProcessError` with its output if it fails."""
    before = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        peak = 0.0
        while process.poll() is None and time.monotonic() - before < timeout:
            peak = max(peak, _anonymous(process.pid))
            time.sleep(TICK)
        if process.poll() is None:
            process.kill()
        output = process.stdout.read() if process.stdout else ""
        code = process.wait()
    wall = time.monotonic() - before
    if code:
        raise subprocess.CalledProcessError(code, command, output)
    return Cost(_cpu(output), wall, peak, output)


def _anonymous(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu(output: str) -> float:
    """Every design prints `cpu SECONDS` last: its own work, imports left out, children in."""
    for line in reversed(output.splitlines()):
        if line.startswith("cpu "):
            return float(line.split()[1])
    return float("nan")
