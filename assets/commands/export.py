"""`nightbook export`: positions as a workbook, CSV or Parquet."""

import sys
from dataclasses import replace
from datetime import date

import click
from click import option

from assets.console.command import HomeCommand
from assets.console.invocation import program_version
from assets.console.parameters import Choice, as_of_option
from assets.console.terminal import TerminalProgress, progress_reporter
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.contract.model import count_of
from warehouse.export.export import export
from warehouse.query.formats import printable
from warehouse.query.pandas_blocker import leave_pandas_out

EXAMPLES = """\
Examples:
  nightbook export --as-of 2026-11-20 --format xlsx --format csv"""


@click.command(cls=HomeCommand, writes=True, epilog=EXAMPLES)
@as_of_option()
@option(
    "--format",
    "formats",
    multiple=True,
    type=Choice(["xlsx", "csv", "parquet"]),
    help="File format, repeatable  [default: xlsx]",
)
def export_command(nightbook: Nightbook, *, as_of: date | None, formats: tuple[str, ...]) -> int:
    """Write positions to Excel, CSV or Parquet.

    Writes the files to the exports/ folder of the home.
    """
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
