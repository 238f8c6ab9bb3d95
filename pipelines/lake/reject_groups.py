"""Rejects that may contain money, and defects that all records of a list have."""

import re
from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal

from pipelines.flatten.parts import Parts
from pipelines.lake.facts import RejectGroup
from pipelines.landing.manifest import Manifest
from pipelines.landing.reasons import shape_of
from pipelines.records.defects import Defect
from pipelines.records.notes import Reject

_PATH = re.compile(r"data\[(\d+)\](?:\.([^.\[]+))?")
_TABLES = {
    "list_portfolios": "portfolios",
    "list_venues": "venues",
    "list_instruments": "instruments",
}
# Maps the name of a list, as in the paths of rejects, to the table that contains the list's
# records. Innermost lists come first.
_LISTS = ((".accounts[]", "accounts"), (".positions[]", "positions"), *_TABLES.items())


def group_rejects(manifest: Manifest, parts: Parts) -> list[RejectGroup]:
    """Group the rejects that may contain money by path and defect, ignoring indexes and numbers."""
    operations = {answer.request_no: answer.operation for answer in manifest.book}
    counts = {name: table.rows for name, table in parts.tables.items()}
    groups: dict[tuple[str, str], list[Reject]] = defaultdict(list)
    for reject in parts.rejects:
        if reject.carries_money:
            path = f"{operations.get(reject.request_no, '')} {shape_of(reject.path)}"
            groups[path, shape_of(reject.defect.key)].append(reject)
    return [
        RejectGroup(
            path=path,
            reason=reason,
            count=len(rejects),
            share=_share(path, len(rejects), counts),
            first=rejects[0].path,
            message=rejects[0].defect.message,
        )
        for (path, reason), rejects in sorted(groups.items())
    ]


def find_defects_everywhere(manifest: Manifest, parts: Parts) -> dict[str, str]:
    """Find defects that every record in a list has. Return their messages by defect key.

    A key is for example `list_venues createdAt: text was expected`.
    """
    # A list with a single record does not prove that the API changed.
    operations = {answer.request_no: answer.operation for answer in manifest.book}
    records_by_defect: dict[tuple[str, str, Defect], set[tuple[int, str]]] = defaultdict(set)
    for reject in parts.rejects:
        place = _PATH.fullmatch(reject.path)
        operation = operations.get(reject.request_no)
        if place is not None and operation is not None:
            records_by_defect[operation, place[2] or "", reject.defect].add(
                (reject.request_no, place[1])
            )
    found = [
        (f"{operation} {field}".strip(), defect)
        for (operation, field, defect), records in records_by_defect.items()
        if len(records) > 1 and len(records) >= _count(parts, operation, records_by_defect)
    ]
    messages = {f"{where}: {of.key}": f"{where}: {of.message}" for where, of in found}
    return dict(sorted(messages.items()))


def _share(path: str, count: int, counts: Mapping[str, int]) -> str:
    """Return the fraction of a list that was rejected: rejects divided by rows, but at most 1."""
    table = next((name for mark, name in _LISTS if mark in path), "portfolios")
    whole = max(counts.get(table, 0), count)
    return str((Decimal(count) / whole).quantize(Decimal("0.0001")))


def _count(
    parts: Parts,
    operation: str,
    records_by_defect: Mapping[tuple[str, str, Defect], set[tuple[int, str]]],
) -> int:
    """Count the records that an API operation returned, including records without a row."""
    without = set[tuple[int, str]]()
    for (other, field, _), records in records_by_defect.items():
        if other == operation and not field:
            without |= records
    return parts.tables[_TABLES[operation]].rows + len(without)
