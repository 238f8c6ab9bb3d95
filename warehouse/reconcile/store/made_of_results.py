"""What is made of a stored result and kept beside it, as long as the result is the same file.

A result with many breaks takes long to read. The folders of such copies may be removed at any time.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from warehouse.reconcile.store.records import to_json
from warehouse.storage.layout import read_json, written_aside

FileState = tuple[str, int, int]


class MadeOfResult(msgspec.Struct, frozen=True, kw_only=True):
    """Something made of a stored result; `of` tells whether that is still the same file."""

    of: FileState


Made = TypeVar("Made", bound=MadeOfResult)


def kept_copy(
    copy: Path, result: Path, kind: type[Made], make: Callable[[FileState], Made]
) -> Made:
    """Return what was made of a result, from its copy or made anew."""
    file = result.stat()
    of = (result.name, file.st_size, file.st_mtime_ns)
    with suppress(OSError, ValueError):  # it can be made again
        kept = msgspec.convert(read_json(copy), kind)
        if kept.of == of:
            return kept
    made = make(of)
    with written_aside(copy) as target:
        text = json.dumps(to_json(made), ensure_ascii=False)
        target.write(text.encode("utf-8", "surrogatepass"))
    return made
