"""`nightbook export`: positions as a workbook, CSV or Parquet."""

import sys
from dataclasses import replace
from datetime import date

from assets.console.invocation import program_version
from assets.console.terminal import TerminalProgress, progress_reporter
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.contract.model import count_of
from warehouse.export.export import export
from warehouse.query.formats import printable
from warehouse.query.pandas_blocker import leave_pandas_out


def run(nightbook: Nightbook, *, as_of: date | None, formats: tuple[str, ...]) -> int:
    """Write the files and print their names."""
    leave_pandas_out()
    layout = nightbook.layout
    if as_of is None and (note := staleness_note(nightbook)):
        print(note, file=sys.stderr)
    with TerminalProgress() as progress:
        exported = export(
            layout.database,
            layout.exports,
            as_of=as_of,
            formats=tuple(dict.fromkeys(formats or ["xlsx"])),
            program_version=program_version(),
            say=progress_reporter(replace(nightbook, watch=progress.watch), None, "exporting"),
        )
    # Print the number of rows, not of venues, because each row in the sheet Venues is one asset at
    # one venue.
    counts = ", ".join(f"{table} {count_of(rows, 'row')}" for table, rows in exported.rows.items())
    print(f"Book of {exported.as_of} (snapshot {exported.snapshot_id}): {counts}")
    for notice in exported.notices:
        print(f"  {printable(notice)}")
    for file in exported.files:
        print(f"  {file}")
    return 0
