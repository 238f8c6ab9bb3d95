"""By which contract a lake was made: one digest of all that shapes its rows.

Each night's manifest in the lake has it. A night of another digest is made again from the landing
zone before anything is made of it: rows of two contracts never lie in one table.
"""

import hashlib

from warehouse.contract.lake import LAKE, field_ids

RULES = 4
"""Raised whenever the same landed bytes become other rows of the same columns.

1 was every lake whose manifests have no digest; since 3 an instrument that a venue names twice, and
not alike, is the same in any order of the list; since 4 every row names its snapshot, and every
column has its id.
"""


def lake_contract() -> str:
    """Return the digest of the lake: of its columns, and of the rules of their rows."""
    lines = [f"rules {RULES}"]
    lines += [
        f"{table.schema} {table.name} {column.name} {column.kind.value} {column.nullable} "
        f"{field_ids(table.name)[column.name]}"
        for table in LAKE
        for column in table.columns
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
