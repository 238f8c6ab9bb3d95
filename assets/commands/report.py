"""`nightbook report`: the morning report as one HTML file."""

import sys

from assets.console.invocation import full_command, program_version
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.report.build import write_report


def run(nightbook: Nightbook) -> int:
    """Write the report of this morning and name the file."""
    settings, layout = nightbook.settings(), nightbook.layout
    now = nightbook.now().astimezone(settings.timezone)
    file = write_report(
        layout.database,
        layout.reports,
        now=now,
        program_version=program_version(),
        pinned=settings.pinned_assets,
        command=full_command(layout),
    )
    if note := staleness_note(nightbook):
        print(note, file=sys.stderr)
    print(file)
    return 0
