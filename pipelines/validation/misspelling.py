"""Names of settings that are none: left unread without a word, they would look as if they held."""

import difflib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

PREFIX: Final = "NIGHTBOOK_"
SHOWN = 80
# How alike two names are (difflib's ratio) where one of another prefix is taken for ours.
ALIKE = 0.85


def is_meant(name: str, known: Collection[str]) -> bool:
    """Whether a variable is one of ours, or was to be: `NIGHTBOK_HOME`, `nightbook_home`."""
    if name.startswith(PREFIX):
        return True
    upper = name.upper()
    if not any(part in upper for part in ("NIGHT", "BOOK")):
        return False
    return bool(difflib.get_close_matches(upper, known, n=1, cutoff=ALIKE))


def complaints(names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Of each name that is none of the known, which of these is nearest."""
    for name in sorted(set(names) - set(known)):
        [near] = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0)
        yield f"{name[:SHOWN]} is no setting: do you mean {near}?"
