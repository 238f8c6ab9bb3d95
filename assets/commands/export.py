"""`nightbook export`: positions as a workbook, CSV or Parquet, or a part of the book."""

import contextlib
import sys
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path

import click
from click import option

from assets.console.command import HomeCommand
from assets.console.invocation import program_version
from assets.console.parameters import Choice, as_of_option
from assets.console.rows import print_lines
from assets.console.terminal import TerminalProgress, progress_reporter
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.contract.model import count_of
from warehouse.database.part import build_part
from warehouse.export.export import DATABASE_FORMAT, FORMATS, export
from warehouse.query.pandas_blocker import leave_pandas_out
from warehouse.storage.layout import DATABASE

EXAMPLES = """\
Examples:
  nightbook export --as-of 2026-11-20 --format xlsx --format csv
  nightbook export --portfolio "Fund A" --portfolio 17 --format duckdb"""


@click.command(cls=HomeCommand, writes=True, epilog=EXAMPLES)
@as_of_option()
@option(
    "--format",
    "formats",
    multiple=True,
    type=Choice([*FORMATS, DATABASE_FORMAT]),
    help="File format, repeatable. duckdb needs --portfolio  [default: xlsx]",
)
@option(
    "--portfolio",
    "portfolios",
    multiple=True,
    metavar="NAME_OR_ID",
    help="Write only this portfolio, repeatable",
)
def export_command(
    nightbook: Nightbook,
    *,
    as_of: date | None,
    formats: tuple[str, ...],
    portfolios: tuple[str, ...],
) -> int:
    """Write positions to Excel, CSV or Parquet.

    Writes the files to the exports/ folder of the home. With --portfolio, the files are a part of
    the book for one reader: they contain nothing of other portfolios, and all totals are totals of
    the part. The format duckdb is a database with the part.
    """
    leave_pandas_out()
    layout = nightbook.layout
    if as_of is None and (note := staleness_note(nightbook)):
        print(note, file=sys.stderr)
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(TerminalProgress())
        database, part = layout.database, None
        if portfolios:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="nightbook-part-"))
            database = Path(scratch) / DATABASE
            part = build_part(layout.database, database, portfolios, as_of)
        exported = export(
            database,
            layout.exports,
            as_of=as_of,
            formats=tuple(dict.fromkeys(formats or ["xlsx"])),
            program_version=program_version(),
            part=part,
            say=progress_reporter(replace(nightbook, watch=progress.watch), None, "exporting"),
        )
    # Print the number of rows, not of venues, because each row in the sheet Venues is one asset at
    # one venue.
    counts = ", ".join(f"{table} {count_of(rows, 'row')}" for table, rows in exported.rows.items())
    print(f"Book of {exported.as_of} (snapshot {exported.snapshot_id}): {counts}")
    print_lines((*exported.notices, *exported.files))
    return 0
