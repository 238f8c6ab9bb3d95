"""JSON files of ours that prove themselves: each holds the SHA-256 of everything else in it.

Manifests and decisions say what is true of a night, so a changed byte in one of them must be found
just as in the bodies and tables whose hashes they hold.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from warehouse.storage.layout import write_json

SEAL = "sha256"
LANDED = (
    "Nothing was made from it. Restore the file from a backup; the API keeps no history, so it "
    "cannot be read again."
)


class Damaged(Exception):
    """A file of ours is not what was written."""

    def __init__(self, file: Path, found: str, expected: str, advice: str = LANDED) -> None:
        self.file = file
        super().__init__(
            f"{file} holds {found}, but {expected} was expected: the file was changed or damaged "
            f"after it was written. {advice}"
        )


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object with its own SHA-256, whole or not at all.

    Raises `ValueError` for a number that is none in JSON.
    """
    write_json(path, with_seal(content))


def with_seal(content: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its own SHA-256 in it."""
    return content | {SEAL: digest(content)}


def read(path: Path, advice: str = LANDED) -> dict[str, Any]:
    """Read what `write` wrote; raises `Damaged` where it is anything else."""
    try:
        text = path.read_bytes()
    except PermissionError:  # nothing is known of it then, least of all that it is damaged
        raise
    except OSError as error:
        problem = f"nothing readable ({type(error).__name__})"
        raise Damaged(path, problem, "a JSON object with its SHA-256", advice) from None
    return parse(text, path, advice)


def parse(text: bytes, path: Path, advice: str = LANDED) -> dict[str, Any]:
    """Return what a text says that `path` holds; raises `Damaged` where it proves nothing."""
    try:
        if (proved := _fast_read(text)) is not None:
            return proved
        content: dict[str, Any] = json.loads(text)
        expected = content.pop(SEAL)
        proof = digest(content)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        problem = f"nothing readable ({type(error).__name__})"
        raise Damaged(path, problem, "a JSON object with its SHA-256", advice) from None
    if proof != expected:
        raise Damaged(path, f"content of SHA-256 {proof}", f"{str(expected)[:64]}", advice)
    return content


def _fast_read(text: bytes) -> dict[str, Any] | None:
    """Return the content where a fast reader proves it; None proves nothing."""
    # Every publish reads the manifests of all nights, so this is what a long history costs.
    try:
        content = msgspec.json.decode(text, type=dict[str, Any])
        expected = content.pop(SEAL)
        # The digest is over JSON with sorted keys and no spaces; msgspec writes the same bytes as
        # `json.dumps` for all that manifests usually hold, and where it does not, the slow way
        # decides.
        canonical = msgspec.json.encode(content, order="sorted")
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return content if hashlib.sha256(canonical).hexdigest() == expected else None


def digest(content: Any) -> str:
    """Return the SHA-256 of a JSON value, however it is laid out."""
    # What JSON has no form for would be written as null, and the file be read as damaged.
    text = json.dumps(
        content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
