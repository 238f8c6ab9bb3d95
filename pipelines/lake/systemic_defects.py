"""Defects by their shape: defects of every record of a list, and defects that carry money.

A single broken record is rejected, and the other records are loaded. If all records have the same
defect, the document has changed, and the night is held until a person confirms the change. A
defect that carries money also holds the night, even if it is a single one.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal

from pipelines.flatten.columns import Parts
from pipelines.lake.facts import RejectGroup
from pipelines.landing.manifest import Manifest
from pipelines.landing.reasons import shape_of

_PATH = re.compile(r"data\[(\d+)\](?:\.([^.\[]+))?")
_TABLES = {
    "list_portfolios": "portfolios",
    "list_venues": "venues",
    "list_instruments": "instruments",
}
# Marks of the innermost list in a path, and the tables that have its records.
_LISTS = ((".accounts[]", "accounts"), (".positions[]", "positions"), *_TABLES.items())


def money_shapes(manifest: Manifest, parts: Parts) -> list[RejectGroup]:
    """Group the rejects that carry money by path and reason, both without indexes and numbers."""
    operations = {answer.request_no: answer.operation for answer in manifest.book}
    counts = {name: table.rows for name, table in parts.tables.items()}
    paths_by_shape: dict[tuple[str, str], list[str]] = defaultdict(list)
    for reject in parts.rejects:
        if reject.carries_money:
            path = f"{operations.get(reject.request_no, '')} {shape_of(reject.path)}"
            paths_by_shape[path, shape_of(reject.reason)].append(reject.path)
    return [
        RejectGroup(
            path=path,
            reason=reason,
            count=len(paths),
            share=_share(path, len(paths), counts),
            first=paths[0],
        )
        for (path, reason), paths in sorted(paths_by_shape.items())
    ]


def _share(path: str, count: int, counts: Mapping[str, int]) -> str:
    """Return the share of the list. Records that were rejected as a whole have no row in it."""
    table = next((name for mark, name in _LISTS if mark in path), "portfolios")
    whole = max(counts.get(table, 0), count)
    return str((Decimal(count) / whole).quantize(Decimal("0.0001")))


def everywhere(manifest: Manifest, parts: Parts) -> list[str]:
    """Return the defects of every record of a list, for example `list_venues createdAt: ...`."""
    # A list with a single record does not prove that the document changed.
    operations = {answer.request_no: answer.operation for answer in manifest.book}
    records_by_defect: dict[tuple[str, str, str], set[tuple[int, str]]] = defaultdict(set)
    for reject in parts.rejects:
        place = _PATH.fullmatch(reject.path)
        operation = operations.get(reject.request_no)
        if place is not None and operation is not None:
            records_by_defect[operation, place[2] or "", reject.reason].add(
                (reject.request_no, place[1])
            )
    return sorted(
        f"{operation} {field}: {reason}".replace(" :", ":")
        for (operation, field, reason), records in records_by_defect.items()
        if len(records) > 1 and len(records) >= _count(parts, operation, records_by_defect)
    )


def _count(
    parts: Parts,
    operation: str,
    records_by_defect: Mapping[tuple[str, str, str], set[tuple[int, str]]],
) -> int:
    """Return how many records an operation returned, with and without a row."""
    without = set[tuple[int, str]]()
    for (other, field, _), records in records_by_defect.items():
        if other == operation and not field:
            without |= records
    return parts.tables[_TABLES[operation]].rows + len(without)
