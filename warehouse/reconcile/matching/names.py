"""Names as people write them, told apart and brought together: folding, aliases, suggestions.

Only spaces, case and letters that cannot be seen are folded away. A letter that merely looks alike
(the Cyrillic letter VE for B) is never matched: it is suggested.
"""

import difflib
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.spreadsheet.reading.text import fold
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, units

_LOOKALIKES = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0456\u0455\u0458\u0501"
    "\u03b1\u03b2\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7",
    "abekmhopctyxisjdabeiknoptyx",
)
_OTHER_NAMES = {"xbt": "btc", "xdg": "doge", "bcc": "bch", "str": "xlm", "miota": "iota"}
_NON_CHARACTERS = re.compile("[\ufffe\uffff]")
_CUT, _DIGEST = 200, 16
_NEAR = 0.8
_COMPARED = 50_000  # comparisons for suggestions, in all: they are hints, not a search


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a written name stands for: an id, or nothing and perhaps a suggestion.

    `how` is as written, folded, alias, or unknown; `name` is what people call the id.
    """

    id: str | None
    how: str
    suggestion: str = ""
    name: str = ""


def in_name_cell(text: str) -> str:
    """Return a name as its cell shows it: one that no cell holds is cut, with its digest."""
    if 2 * len(text) <= CELL_LIMIT or units(text) <= CELL_LIMIT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_CUT]} ... ({len(text)} letters, {digest[:_DIGEST]})"


def _spellings(name: str) -> Iterator[str]:
    """Yield a name, and what a cell makes of one that it cannot hold."""
    yield name
    if 2 * len(name) > CELL_LIMIT or _NON_CHARACTERS.search(name):
        cut = in_name_cell(name)
        yield cut
        yield _NON_CHARACTERS.sub(lambda match: f"_x{ord(match[0]):04X}_", cut)


def skeleton(text: str) -> str:
    """Return what names that look alike share: Latin letters and digits, no leading zero."""
    bare = unicodedata.normalize("NFKD", fold(text)).translate(_LOOKALIKES)
    letters = "".join(letter for letter in bare if letter.isalnum())
    return letters.lstrip("0") or letters


def _add(names: dict[str, tuple[str, ...]], name: str, id_: str) -> None:
    """Take in that an id has a name."""
    ids = names.get(name, ())
    if id_ not in ids:
        names[name] = (*ids, id_)


class Names:
    """The names of one field: ids with what they are also called, and the aliases of a person."""

    def __init__(
        self, field: str, known: Mapping[str, Iterable[str]], aliases: Mapping[str, str]
    ) -> None:
        self._field = field
        self._known = known
        # Tuples, not sets: of a million accounts sets take a third of a gigabyte more.
        self._exact: dict[str, tuple[str, ...]] = {}
        self._folded: dict[str, tuple[str, ...]] = {}
        self._aliases = {fold(name): target for name, target in aliases.items()}
        self._skeletons: dict[str, str] | None = None
        self._budget = _COMPARED
        for entry, others in known.items():
            for name in {form for spelling in (entry, *others) for form in _spellings(spelling)}:
                _add(self._exact, name, entry)
                _add(self._folded, fold(name), entry)

    def resolve(self, written: str) -> Resolution:
        """Return the id that a written name stands for; two candidates are none."""
        ids = self._exact.get(written)
        if ids and len(ids) == 1:
            return Resolution(ids[0], "as written")
        # What a person wrote down as an alias counts before what only looks the same once folded.
        name = fold(written)
        if name in self._aliases:
            return self._follow_alias(name)
        ids = self._folded.get(name, ())
        if len(ids) == 1:
            id_ = ids[0]
            return Resolution(id_, "folded", name=self.display_name(id_))
        if ids:
            return Resolution(None, "unknown", " or ".join(sorted(map(self.display_name, ids))))
        return Resolution(None, "unknown", self._suggestion(name))

    def _follow_alias(self, name: str) -> Resolution:
        seen = [name]
        while seen[-1] in self._aliases:
            target = fold(self._aliases[seen[-1]])
            if target in seen:
                raise NotReconciled(
                    f"The aliases of {self._field} go in a circle: "
                    f"{' = '.join([*seen, target])}. Nothing was reconciled. Take one of them out "
                    f"of [alias.{self._field}] in recon.toml."
                )
            seen.append(target)
        target = self._aliases[seen[-2]]
        ids = self._exact.get(target) or self._folded.get(seen[-1], ())
        if len(ids) != 1:
            return Resolution(None, "unknown", f"the alias {target} names nothing in the book")
        id_ = ids[0]
        return Resolution(id_, "alias", name=self.display_name(id_))

    def _suggestion(self, name: str) -> str:
        if self._skeletons is None:
            self._skeletons = {skeleton(folded): folded for folded in sorted(self._folded)}
        # First what looks alike or is called so elsewhere (XBT), then what differs by few letters.
        # The second compares with every name, so all suggestions of a run share one budget.
        bare = skeleton(name)
        common = _OTHER_NAMES.get(bare, bare)
        if common in self._skeletons:
            return self._name_of(self._skeletons[common])
        self._budget -= len(self._skeletons)
        if self._budget < 0:
            return ""
        near = difflib.get_close_matches(bare, self._skeletons, n=1, cutoff=_NEAR)
        return self._name_of(self._skeletons[near[0]]) if near else ""

    def _name_of(self, folded: str) -> str:
        return self.display_name(min(self._folded[folded]))

    def display_name(self, id_: str) -> str:
        """Return what people call an id, where that leads back to it alone; else the id."""
        names = (name for name in self._known.get(id_, ()) if name.strip())
        return next((name for name in names if self._exact.get(name) == (id_,)), id_)
