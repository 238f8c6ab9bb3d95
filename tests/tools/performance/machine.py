"""A description of the machine, because measured figures mean nothing without it."""

import os
import platform
from pathlib import Path


def machine() -> str:
    """Return the processor, cores, memory, system and Python of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{_processor()} ({platform.machine()}), {os.cpu_count()} cores, {memory:.0f} GB, "
        f"{platform.system()}, Python {platform.python_version()}"
    )


def _processor() -> str:
    """Return the processor's name, or the most similar text that this system reports."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "a processor without a name")
