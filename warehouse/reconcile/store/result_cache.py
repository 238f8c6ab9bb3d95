"""Facts made of a stored result, in a copy beside it as long as the result is the same file.

A result with many breaks takes long to read. The folders of such copies may be removed at any time.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import structs

from warehouse.reconcile.store.records import to_json
from warehouse.storage.layout import read_json, written_aside

FORM = 2
FileState = tuple[str, int, int]


class CachedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts made of a stored result; `of` tells whether that is still the same file.

    `form` tells by which rules they were made. Raise `FORM` when the same result gives other facts.
    """

    of: FileState
    form: int = 1


Facts = TypeVar("Facts", bound=CachedFacts)


def from_cache(
    copy: Path, result: Path, kind: type[Facts], make: Callable[[FileState], Facts]
) -> Facts:
    """Return what is made of a result, from its copy or anew."""
    file = result.stat()
    of = (result.name, file.st_size, file.st_mtime_ns)
    with suppress(OSError, ValueError):  # it can be made again
        cached = msgspec.convert(read_json(copy), kind)
        if (cached.of, cached.form) == (of, FORM):
            return cached
    facts = structs.replace(make(of), form=FORM)
    with written_aside(copy) as target:
        text = json.dumps(to_json(facts), ensure_ascii=False)
        target.write(text.encode("utf-8", "surrogatepass"))
    return facts
