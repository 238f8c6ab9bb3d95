"""Write and read `digests.json`, which lies beside each published database.

It has the SHA-256 of every block of the database, so that a changed byte is found. It also has when
each snapshot was last decided on, and how often, so that a decision that the landing zone lost is
found, and one that was not published yet.
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

# What reading something else than was written may raise.
_OTHERWISE = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """What a version says of itself: digest and blocks of its file, and its decisions.

    The first versions had no blocks. `decided` has a time for each snapshot, ISO 8601 in UTC, or
    None where nobody has decided. `decisions` has how many there are of each, and is
    empty in older versions.
    """

    file: str
    blocks: tuple[str, ...]
    decided: Mapping[str, str | None]
    decisions: Mapping[str, int]

    def match(self, database: Path) -> bool:
        """Return whether a database is what was published."""
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
    """Write the digests of the database in a folder; the file proves itself by its own digest."""
    content = {
        "files": {DATABASE: digest_of_blocks(blocks)},
        "blocks": list(blocks),
        "decided": dict(decided),
        "decisions": dict(decisions),
    }
    sealed = content | {"sha256": hashlib.sha256(json_bytes(content)).hexdigest()}
    write_json(folder / DIGESTS, sealed, PUBLISHED_MODE)


def read_digests(folder: Path) -> Digests | None:
    """Return the digests in a folder, or None where the file is not as it was written."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, *_OTHERWISE):
        path = (folder / DIGESTS).resolve()  # `current` is a link: the version that it shows now
        return _read(path, edition(path))
    return None


@lru_cache(maxsize=16)
def _read(path: Path, _edition: tuple[int, int, int]) -> Digests:
    """Read digests once, however often a command looks at them: those of years are many."""
    text = path.read_bytes()
    content = msgspec.json.decode(text)
    is_ours = text == json_bytes(content)
    is_whole = content.pop("sha256") == hashlib.sha256(json_bytes(content)).hexdigest()
    if not (is_ours and is_whole):
        raise ValueError(f"{path} is not as it was written")
    return Digests(
        file=content["files"].get(DATABASE, ""),
        blocks=tuple(content.get("blocks", ())),
        decided=content["decided"],
        decisions=content.get("decisions", {}),
    )
