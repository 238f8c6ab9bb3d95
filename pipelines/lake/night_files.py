"""The large files of a night: their roles, names and paths in a home."""

from collections.abc import Iterator, Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from warehouse.storage.layout import Layout


class Role(StrEnum):
    """The kinds of large files that belong to a night."""

    BODY = "body"
    TABLE = "table"
    NIGHTLY = "nightly"
    PART = "part"


def entries(sealed: Mapping[str, Any]) -> Iterator[tuple[Role, str, str]]:
    """Yield each file's role, name and SHA-256 from a lake manifest of any contract version."""
    for name, written in sealed["tables"].items():
        yield Role.TABLE, name, written["sha256"]
    for name, written in sealed["nightly"].items():
        yield Role.NIGHTLY, name, written["sha256"]
    for name, digest in sealed["parts"].items():
        yield Role.PART, name, digest


def places(layout: Layout, role: Role, name: str, day: date, snapshot_id: str) -> tuple[Path, ...]:
    """Return the possible paths of a file in a home. Fetched files are written to the last path."""
    if role is Role.BODY:
        return (layout.snapshot(day, snapshot_id) / name,)
    if role is Role.PART:
        return (layout.part(name, snapshot_id),)
    if role is Role.NIGHTLY:
        return (layout.parquet(name, day, snapshot_id),)
    return (layout.parquet(name, day, snapshot_id), layout.staged_file(name, snapshot_id))
