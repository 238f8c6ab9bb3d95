"""`nightbook report`: the morning report as one HTML file."""

import sys
from pathlib import Path

import click

from assets.console.command import HomeCommand
from assets.console.invocation import full_command, program_version
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.report import build


@click.command(cls=HomeCommand, writes=True)
def report_command(nightbook: Nightbook) -> int:
    """Write the morning report (HTML).

    Writes a single file to the reports/ folder of the home.
    """
    file = write_report(nightbook)
    if note := staleness_note(nightbook):
        print(note, file=sys.stderr)
    print(file)
    return 0


def write_report(nightbook: Nightbook) -> Path:
    """Write this morning's report and return its path."""
    settings, layout = nightbook.settings(), nightbook.layout
    return build.write_report(
        layout.database,
        layout.reports,
        now=nightbook.now().astimezone(settings.timezone),
        program_version=program_version(),
        pinned=settings.pinned_assets,
        command=full_command(layout),
    )
