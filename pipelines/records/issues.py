"""What is told about a night beside its rows: rejects, values kept as text only, and drift."""

from collections.abc import Iterator
from dataclasses import dataclass, field

UNKNOWN_FIELD = "unknown field"
UNKNOWN_VALUE = "unknown value"
UNKNOWN_BALANCE = "unknown balance"
MISSING_FIELD = "missing field"
CHANGED_TYPE = "changed type"
EXAMPLE = 200


@dataclass(frozen=True, slots=True)
class Reject:
    """One thing that breaks the contract: where it stands, what was expected, its JSON text."""

    request_no: int
    path: str
    reason: str
    value: str
    carries_money: bool


@dataclass(frozen=True, slots=True)
class Inexact:
    """One value that its column cannot hold exactly; the text is the truth."""

    request_no: int
    path: str
    table_name: str
    column_name: str
    value: str


@dataclass(frozen=True, slots=True)
class Drift:
    """Something the document does not list: where, of what kind, and how often it was seen."""

    path: str
    kind: str
    word: str
    example: str
    seen: int


@dataclass(slots=True)
class Notes:
    """What is collected while flattening. Drift: (path, kind, word) to (example, how often)."""

    rejects: list[Reject] = field(default_factory=list)
    inexact: list[Inexact] = field(default_factory=list)
    drift: dict[tuple[str, str, str], tuple[str, int]] = field(default_factory=dict)

    def saw(self, path: str, kind: str, word: str, example: str, count: int = 1) -> None:
        """Note something the document does not list; the smallest example is kept, in any order."""
        key, example = (path, kind, word[:EXAMPLE]), example[:EXAMPLE]
        before, seen = self.drift.get(key, (example, 0))
        self.drift[key] = (min(before, example), seen + count)

    def add(self, other: "Notes") -> None:
        """Take over what was noted elsewhere, for instance by a worker."""
        self.rejects += other.rejects
        self.inexact += other.inexact
        for (path, kind, word), (example, count) in other.drift.items():
            self.saw(path, kind, word, example, count)

    def drift_rows(self) -> Iterator[Drift]:
        """Yield drift as rows, in a fixed order."""
        for (path, kind, word), (example, seen) in sorted(self.drift.items()):
            yield Drift(path=path, kind=kind, word=word, example=example, seen=seen)
