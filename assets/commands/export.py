"""`nightbook export`: positions as a workbook, CSV or Parquet."""

import argparse
import sys
from dataclasses import replace
from datetime import date

from assets.console.progress import saying
from assets.console.terminal import TerminalProgress, count_of
from assets.console.version import program_version
from assets.monitoring.staleness import stale
from assets.nightbook import Nightbook
from warehouse.export.export import export
from warehouse.query.printable import printable


class NotADate(Exception):
    """What was typed is no date."""

    exit_code = 2

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is no date: write it as 2026-11-20. Nothing was done.")


def day(text: str | None) -> date | None:
    """A date a person typed, or None."""
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise NotADate(text or "") from None


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Write the files and name them."""
    layout, as_of = nightbook.layout, day(arguments.as_of)
    if as_of is None and (words := stale(nightbook)):
        print(words, file=sys.stderr)
    with TerminalProgress() as teller:
        done = export(
            layout.database,
            layout.exports,
            as_of=as_of,
            formats=tuple(dict.fromkeys(arguments.format or ["xlsx"])),
            program_version=program_version(),
            say=saying(replace(nightbook, watch=teller.watch), None, "exporting"),
        )
    # A sheet is not named for its rows: Venues has one for each venue and asset.
    counts = ", ".join(f"{table} {count_of(rows, 'row')}" for table, rows in done.rows.items())
    print(f"Book of {done.as_of} (snapshot {done.snapshot_id}): {counts}")
    for notice in done.notices:
        print(f"  {printable(notice)}")
    for file in done.files:
        print(f"  {file}")
    return 0
