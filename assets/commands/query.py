"""`nightbook query SQL`: ask the published warehouse, read-only."""

import argparse
import sys

from assets.monitoring.staleness import stale
from assets.nightbook import Nightbook
from warehouse.query import child, read

FORMATS = {"table": read.as_table, "csv": read.as_csv, "json": read.as_json}


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Print the answer; a cut one says so on standard error."""
    answer = child.ask(nightbook.layout.database, arguments.sql, arguments.limit)
    if words := stale(nightbook):
        print(words, file=sys.stderr)
    sys.stdout.write(FORMATS[arguments.format](answer).rstrip("\n") + "\n")
    if answer.is_cut:
        rows = "row is" if arguments.limit == 1 else f"{arguments.limit} rows are"
        print(f"Only the first {rows} shown (--limit).", file=sys.stderr)
    return 0
