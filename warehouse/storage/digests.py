"""Reading and writing `digests.json`, the file next to each published database.

The file contains the SHA-256 of each block of the database, which reveals changed bytes. It also
contains the time of the last decision on each snapshot and the number of decisions, which reveals
decisions that the landing zone lost or that are not published yet.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from warehouse.storage.layout import (
    DATABASE,
    DIGESTS,
    PUBLISHED_MODE,
    block_digests,
    digest_of,
    digest_of_blocks,
    edition,
    json_bytes,
    write_json,
)

# Exceptions that reading a damaged file can raise.
_DAMAGE_ERRORS = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """The digests and decisions of a database version. Older versions have no blocks or decisions.

    - `file` and `blocks`: the SHA-256 of the database and each of its blocks.
    - `decided`: the time of the last decision on each snapshot, ISO 8601 in UTC, or None.
    - `decisions`: the number of decisions on each snapshot.
    """

    file: str
    blocks: tuple[str, ...]
    decided: Mapping[str, str | None]
    decisions: Mapping[str, int]

    def match(self, database: Path) -> bool:
        """Return whether a database is unchanged since it was published."""
        if not database.is_file():
            return False
        if self.blocks:
            return block_digests(database) == self.blocks
        return digest_of(database) == self.file


def write_digests(
    folder: Path,
    blocks: tuple[str, ...],
    decided: Mapping[str, str | None],
    decisions: Mapping[str, int],
) -> None:
    """Write `digests.json` for the database in a folder. The file includes its own digest."""
    content = {
        "files": {DATABASE: digest_of_blocks(blocks)},
        "blocks": list(blocks),
        "decided": dict(decided),
        "decisions": dict(decisions),
    }
    sealed = content | {"sha256": hashlib.sha256(json_bytes(content)).hexdigest()}
    write_json(folder / DIGESTS, sealed, PUBLISHED_MODE)


def read_digests(folder: Path) -> Digests | None:
    """Load a folder's digest file. Return None if the file is missing or damaged."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, *_DAMAGE_ERRORS):
        # Resolve the link `current` only once, because a publish may replace it between two reads.
        path = (folder / DIGESTS).resolve()
        return _read(path, edition(path))
    return None


@lru_cache(maxsize=16)
def _read(path: Path, _edition: tuple[int, int, int]) -> Digests:
    """Read the digests. They are cached, because a database of several years has many digests."""
    text = path.read_bytes()
    content = msgspec.json.decode(text)
    is_ours = text == json_bytes(content)
    is_whole = content.pop("sha256") == hashlib.sha256(json_bytes(content)).hexdigest()
    if not (is_ours and is_whole):
        raise ValueError(f"{path} has changed since it was written")
    return Digests(
        file=content["files"].get(DATABASE, ""),
        blocks=tuple(content.get("blocks", ())),
        decided=content["decided"],
        decisions=content.get("decisions", {}),
    )
