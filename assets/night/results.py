"""The results of a night's steps as plain data, which Dagster shows and the run log stores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

# Severities of checks, spelled as in Dagster.
ERROR, WARN = "ERROR", "WARN"


class Markdown(str):
    """A text that Dagster shows as Markdown."""

    __slots__ = ()


Value = bool | int | str | Path | datetime | Sequence[str] | None
# Types of metadata that JSON does not have, with the key that marks them in a run log.
_MARKED: Mapping[type, str] = {Markdown: "markdown", datetime: "time", Path: "path"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetResult:
    """The new content of an asset: a landed resource, a table, a view or a published file."""

    asset: tuple[str, ...]
    metadata: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetCheck:
    """The result of a check of an asset. A failed check with the severity ERROR is a problem."""

    asset: tuple[str, ...]
    check: str
    passed: bool
    severity: str
    description: str | None = None
    metadata: Mapping[str, Value] = field(default_factory=dict)

    @property
    def is_error(self) -> bool:
        """Whether the check failed with the severity ERROR."""
        return not self.passed and self.severity == ERROR


Result = AssetResult | AssetCheck


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON values, for a run log."""
    facts: dict[str, Any] = {"asset": list(result.asset)}
    if isinstance(result, AssetCheck):
        facts |= {
            "check": result.check,
            "passed": result.passed,
            "severity": result.severity,
            "description": result.description,
        }
    return facts | {"metadata": {name: _mark(value) for name, value in result.metadata.items()}}


def from_json(facts: Mapping[str, Any]) -> Result:
    """Return a result from its JSON values. Raises `LookupError`, `TypeError`, `ValueError`."""
    asset = tuple(str(part) for part in facts["asset"])
    metadata = {str(name): _unmark(value) for name, value in facts["metadata"].items()}
    if "check" not in facts:
        return AssetResult(asset=asset, metadata=metadata)
    return AssetCheck(
        asset=asset,
        check=str(facts["check"]),
        passed=bool(facts["passed"]),
        severity=str(facts["severity"]),
        description=facts["description"],
        metadata=metadata,
    )


def _mark(value: Value) -> Any:
    for kind, mark in _MARKED.items():
        if isinstance(value, kind):
            return {mark: value.isoformat() if isinstance(value, datetime) else str(value)}
    return value


def _unmark(value: Any) -> Value:
    if not isinstance(value, dict):
        return value  # type: ignore[no-any-return]  # JSON has only types that `Value` contains
    [(mark, text)] = value.items()
    kind = {name: kind for kind, name in _MARKED.items()}[mark]
    return datetime.fromisoformat(text) if kind is datetime else kind(text)
