"""`nightbook export`: positions as a workbook, CSV or Parquet."""

import sys
from dataclasses import replace
from datetime import date

from assets.console.progress import saying
from assets.console.terminal import TerminalProgress
from assets.console.version import program_version
from assets.monitoring.staleness import stale
from assets.nightbook import Nightbook
from warehouse.contract.wording import count_of
from warehouse.export.export import export
from warehouse.query.printable import printable


def run(nightbook: Nightbook, *, as_of: date | None, formats: tuple[str, ...]) -> int:
    """Write the files and name them."""
    layout = nightbook.layout
    if as_of is None and (words := stale(nightbook)):
        print(words, file=sys.stderr)
    with TerminalProgress() as teller:
        done = export(
            layout.database,
            layout.exports,
            as_of=as_of,
            formats=tuple(dict.fromkeys(formats or ["xlsx"])),
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
