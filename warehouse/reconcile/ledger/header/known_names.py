"""Names that the book knows, to tell which dimension a title, a tab or a file name says."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from warehouse.spreadsheet.reading.text import fold

_SHORTEST = 3  # letters: shorter names stand in the names of files by chance
_BREAK = re.compile(r"[\W_]+")
# In this order a text is looked for; most names of venues are unlike any asset.
_TOLD_BY = ("venue", "portfolio", "asset", "account")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Folded names by dimension: ids, display names and aliases. Empty where no book is there."""

    folded: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        names: Mapping[str, Mapping[str, Iterable[str]]],
        aliases: Mapping[str, Mapping[str, str]],
    ) -> "KnownNames":
        """Return the names of a book and the aliases of a person."""
        folded: dict[str, dict[str, str]] = {}
        for dimension in _TOLD_BY:
            of_dimension = folded.setdefault(dimension, {})
            for id_, others in names.get(dimension, {}).items():
                of_dimension.update(
                    {fold(name): min((*others, id_), key=_plainness) for name in (id_, *others)}
                )
            of_dimension.update({fold(name): name for name in aliases.get(dimension, {})})
        return cls(folded)

    def has(self, dimension: str, text: str) -> bool:
        """Return whether a text is a name of a dimension."""
        return fold(text) in self.folded.get(dimension, {})

    def is_same(self, dimension: str, text: str, other: str) -> bool:
        """Return whether two texts are one name, or names of one thing that the book knows."""
        names = self.folded.get(dimension, {})
        first, second = fold(text), fold(other)
        return first == second or (first in names and names[first] == names.get(second))

    def dimension_of(self, text: str) -> str:
        """Return the dimension that a text is a name of, or nothing."""
        name = fold(text)
        return next(
            (dimension for dimension in _TOLD_BY if name in self.folded.get(dimension, {})), ""
        )

    def shared_dimension(self, texts: Collection[str]) -> str:
        """Return the dimension that most of these texts are names of, two at least, or nothing."""
        counts = {name: sum(self.has(name, text) for text in texts) for name in _TOLD_BY}
        best = max(counts, key=lambda name: counts[name])
        return best if counts[best] > 1 else ""

    def in_text(self, dimension: str, text: str) -> str:
        """Return the one name of a dimension that stands as words in a text, or nothing."""
        words = f" {_BREAK.sub(' ', fold(text))} "
        matches = {
            shown
            for name, shown in self.folded.get(dimension, {}).items()
            if len(name) >= _SHORTEST and f" {_BREAK.sub(' ', name).strip()} " in words
        }
        return matches.pop() if len(matches) == 1 else ""


def _plainness(name: str) -> tuple[bool, str]:
    """Sort names that people say before ids."""
    return (bool(re.fullmatch("[0-9a-f-]{20,}", name)), name)
