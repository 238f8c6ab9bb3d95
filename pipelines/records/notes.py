"""Notes about records: rejected values, inexact values, and undocumented fields and values."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pipelines.records.defects import Defect

UNKNOWN_FIELD = "unknown field"
UNKNOWN_VALUE = "unknown value"
UNKNOWN_BALANCE = "unknown balance"
MISSING_FIELD = "missing field"
CHANGED_TYPE = "changed type"
MAX_EXAMPLE_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Reject:
    """A value that breaks the contract and was rejected: its path, the defect, and its JSON."""

    request_no: int
    path: str
    defect: Defect
    value: str
    carries_money: bool

    def row(self) -> dict[str, Any]:
        """Return the row for `ops.rejects`, without the snapshot's columns."""
        return {
            "request_no": self.request_no,
            "path": self.path,
            "reason": self.defect.message,
            "value": self.value,
            "carries_money": self.carries_money,
        }


@dataclass(frozen=True, slots=True)
class Inexact:
    """A value that its column cannot store exactly. `value` is the exact value as a string."""

    request_no: int
    path: str
    table_name: str
    column_name: str
    value: str


@dataclass(frozen=True, slots=True)
class Drift:
    """An undocumented field or value, with its path, kind, example and number of occurrences."""

    path: str
    kind: str
    word: str
    example: str
    seen: int


@dataclass(slots=True)
class Notes:
    """Issues collected while flattening. `drift` maps (path, kind, word) to (example, count)."""

    rejects: list[Reject] = field(default_factory=list)
    inexact: list[Inexact] = field(default_factory=list)
    drift: dict[tuple[str, str, str], tuple[str, int]] = field(default_factory=dict)

    def add_drift(self, path: str, kind: str, word: str, example: str, count: int = 1) -> None:
        """Count an occurrence of an undocumented field or value, and store an example.

        Only the alphabetically first example is stored, so the order of the records does not
        matter.
        """
        key, example = (path, kind, word[:MAX_EXAMPLE_LENGTH]), example[:MAX_EXAMPLE_LENGTH]
        before, seen = self.drift.get(key, (example, 0))
        self.drift[key] = (min(before, example), seen + count)

    def drift_rows(self) -> Iterator[Drift]:
        """Yield undocumented fields and values as rows for `ops.drift`, in a fixed order."""
        for (path, kind, word), (example, seen) in sorted(self.drift.items()):
            yield Drift(path=path, kind=kind, word=word, example=example, seen=seen)
