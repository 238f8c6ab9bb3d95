"""What dead runs leave, and its clearing: half a pull, half a file, scratch."""

import shutil
from pathlib import Path

from pipelines.landing.lock import unheld
from warehouse.storage.layout import Layout


def sweep(layout: Layout) -> list[Path]:
    """Remove what a dead run left half pulled, and its scratch; returns what was removed."""
    # The caller is the writer; what a living pull is reading is left to it.
    with unheld(layout.pull_lock) as is_dead:
        left = sweep_pulls(layout) if is_dead else []
    scratch = [
        *layout.landing.glob("*/*/.*.aside"),
        *layout.lake.rglob(".*.aside"),
        *layout.work.glob("*"),
    ]
    return left + _remove(scratch)


def sweep_pulls(layout: Layout) -> list[Path]:
    """Remove what dead pulls left, for the caller is the only one."""
    return _remove(list(layout.landing.glob("*/.*.pulling")))


def _remove(left: list[Path]) -> list[Path]:
    for path in left:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return left
