"""Defects that stand in every record of a list: then it is the document that changed.

One broken record is rejected and its siblings live on. Where all of them lack the same thing the
night is held, until a person has seen that the API says it so from now on.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pipelines.flatten import Part
from pipelines.landing import Manifest

_PATH = re.compile(r"data\[(\d+)\](?:\.([^.\[]+))?")
_TABLES = {
    "list_portfolios": ("portfolios", "portfolios"),
    "list_venues": ("venues", "venues"),
    "list_instruments": ("venues", "instruments"),
}


def everywhere(manifest: Manifest, parts: Mapping[str, Part]) -> list[str]:
    """What is wrong with every record of an operation, like `list_venues createdAt: ...`.

    One record alone proves nothing of the document.
    """
    operations = {answer.request_no: answer.operation for answer in manifest.book}
    found: dict[tuple[str, str, str], set[tuple[int, str]]] = defaultdict(set)
    for reject in (one for part in parts.values() for one in part["rejects"]):
        place = _PATH.fullmatch(reject["path"])
        operation = operations.get(reject["request_no"])
        if place is not None and operation is not None:
            key = (operation, place[2] or "", reject["reason"])
            found[key].add((reject["request_no"], place[1]))
    return sorted(
        f"{operation} {field}: {reason}".replace(" :", ":")
        for (operation, field, reason), records in found.items()
        if len(records) > 1 and len(records) >= _count(parts, operation, found)
    )


def _count(
    parts: Mapping[str, Part],
    operation: str,
    found: Mapping[tuple[str, str, str], set[tuple[int, str]]],
) -> Any:
    """How many records an operation gave: those with a row, and those that have none."""
    part, table = _TABLES[operation]
    without = set[tuple[int, str]]()
    for (other, field, _), records in found.items():
        if other == operation and not field:
            without |= records
    return parts[part]["tables"][table]["rows"] + len(without)
