"""`nightbook report`: the morning report as one HTML file."""

import sys
from pathlib import Path

from assets.console.invocation import full_command, program_version
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.report import build


def run(nightbook: Nightbook) -> int:
    """Write this morning's report and print the name of its file."""
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
