"""Versions of the warehouse file on disk: cleared, sealed, swapped in, pruned.

Every version is a folder of its own that never changes once it can be seen; `current` is a link to
one of them, replaced by rename. Each step can be killed at any instant: `clear` takes away what
is left. Beside the database lies `digests.json`: its SHA-256, and which decision on each snapshot
it tells of, so that `nightbook verify` finds a changed byte and a decision that was lost.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warehouse.layout import (
    DATABASE,
    DIGESTS,
    PUBLISHED_MODE,
    Layout,
    digest_of,
    json_bytes,
    make_directory,
    read_json,
    sync_directory,
    write_json,
)

KEPT_VERSIONS = 5
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def clear(layout: Layout, versions: Path, version: str) -> None:
    """Remove what dead runs left; refuse a version that is shown, for it may be open."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} cannot name a version: letters, digits, dot, dash only")
    make_directory(versions)
    make_directory(layout.work)
    if _shown(layout) == version:
        raise ValueError(f"version {version} is what people see; give the new one another name")
    for left in versions.glob(".tmp-*"):
        shutil.rmtree(left, ignore_errors=True)
    _remove(versions / version)
    (layout.warehouse / ".current").unlink(missing_ok=True)


def _shown(layout: Layout) -> str | None:
    link = layout.warehouse / "current"
    return link.readlink().name if link.is_symlink() else None


def seal(aside: Path, file: Path, decided: Mapping[str, Any]) -> None:
    """See the file alone, unwritable and on disk, and its SHA-256 beside it.

    `decided` has, for each snapshot that the file tells of, when it was last decided on.
    """
    left = sorted(path.name for path in aside.iterdir())
    if left != [DATABASE]:
        raise RuntimeError(f"{left} lie beside the new warehouse; nothing was published")
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fchmod(descriptor, PUBLISHED_MODE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    content: dict[str, Any] = {"files": {DATABASE: digest_of(file)}, "decided": dict(decided)}
    content["sha256"] = hashlib.sha256(json_bytes(content)).hexdigest()
    write_json(aside / DIGESTS, content, PUBLISHED_MODE)


def is_as_published(layout: Layout, copy: Path) -> bool:
    """Whether a copy of what people see has the SHA-256 that it was published with."""
    try:
        expected = read_json(layout.database.with_name(DIGESTS))["files"][DATABASE]
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return bool(digest_of(copy) == expected)


def swap(layout: Layout, version: str) -> None:
    """Point `current` at a version, in one rename."""
    aside = layout.warehouse / ".current"
    aside.symlink_to(Path("versions") / version)
    aside.replace(layout.warehouse / "current")
    sync_directory(layout.warehouse)


def prune(versions: Path, shown: str) -> None:
    """Keep the newest versions by the time they were written, the shown one always."""
    others = [path for path in versions.iterdir() if path.name != shown]
    others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for old in others[KEPT_VERSIONS - 1 :]:
        _remove(old)


def _remove(version: Path) -> None:
    """Take a version away in one step: half of one is never seen."""
    if version.is_dir():
        gone = version.with_name(f".tmp-gone-{version.name}")
        version.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
