"""`nightbook query SQL`: ask the published warehouse, read-only."""

import sys

from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.query import child, read

FORMATS = {"table": read.as_table, "csv": read.as_csv, "json": read.as_json}


def run(nightbook: Nightbook, *, sql: str, form: str, limit: int | None) -> int:
    """Print the answer; a cut one says so on standard error."""
    answer = child.ask(nightbook.layout.database, sql, limit)
    if note := staleness_note(nightbook):
        print(note, file=sys.stderr)
    sys.stdout.write(FORMATS[form](answer).rstrip("\n") + "\n")
    if answer.is_cut:
        rows = "row is" if limit == 1 else f"{limit} rows are"
        print(f"Only the first {rows} shown (--limit).", file=sys.stderr)
    return 0
