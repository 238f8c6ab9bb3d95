"""Defects by their shape: those in every record of a list, and those that carry money.

One broken record is rejected and its siblings live on. Where all of them lack the same thing it is
the document that changed, and the night is held until a person has seen that the API says it so
from now on; so it is with what carries money, however much of it there is.
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
# The innermost list of which a path names an element, and the table that has its records.
_LISTS = ((".accounts[]", "accounts"), (".positions[]", "positions"), *_TABLES.items())


def money_shapes(manifest: Manifest, parts: Parts) -> list[RejectGroup]:
    """Return rejects that carry money, by where they stand and why, without indexes and numbers."""
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
    """Return how much of its list is so: of what was rejected whole, the list has no row left."""
    table = next((name for mark, name in _LISTS if mark in path), "portfolios")
    whole = max(counts.get(table, 0), count)
    return str((Decimal(count) / whole).quantize(Decimal("0.0001")))


def everywhere(manifest: Manifest, parts: Parts) -> list[str]:
    """Return what is wrong with every record of a list, like `list_venues createdAt: ...`."""
    # One record alone proves nothing of the document.
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
    """Return how many records an operation gave: those with a row, and those that have none."""
    without = set[tuple[int, str]]()
    for (other, field, _), records in records_by_defect.items():
        if other == operation and not field:
            without |= records
    return parts.tables[_TABLES[operation]].rows + len(without)
