"""`nightbook report`: the morning report, or the statement of a portfolio, as one HTML file."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import click
from click import option

from assets.console.command import HomeCommand
from assets.console.invocation import full_command, program_version
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.report import build
from warehouse.report.statement import write_statement

EXAMPLES = """\
Examples:
  nightbook report
  nightbook report --portfolio "Fund A" --at "2026-11-20 18:00:00\""""


class WrongMoment(ValueError):
    """The moment of a statement is not a single second."""

    exit_code = 2


@click.command(cls=HomeCommand, writes=True, epilog=EXAMPLES)
@option(
    "--portfolio",
    metavar="NAME_OR_ID",
    help="Write the statement of this portfolio instead, for printing and signing",
)
@option(
    "--at",
    metavar="MOMENT",
    help="With --portfolio, use the newest book that was read at or before this second in "
    "NIGHTBOOK_TIMEZONE, such as '2026-11-20 18:00:00'. A moment may end with an offset (+01:00)",
)
def report_command(nightbook: Nightbook, *, portfolio: str | None, at: str | None) -> int:
    """Write the morning report (HTML).

    Writes a single file to the reports/ folder of the home.
    """
    zone = nightbook.settings().timezone
    if at is not None and portfolio is None:
        raise WrongMoment("--at needs --portfolio. The morning report shows the newest book.")
    if portfolio is None:
        file = write_report(nightbook)
    else:
        file = write_statement(
            nightbook.layout.database,
            nightbook.layout.reports,
            portfolio=portfolio,
            at=None if at is None else parse_moment(at, zone),
            now=nightbook.now(),
            zone=zone,
            program_version=program_version(),
        )
    if at is None and (note := staleness_note(nightbook)):
        print(note, file=sys.stderr)
    print(file)
    return 0


def parse_moment(text: str, zone: ZoneInfo) -> datetime:
    """Parse a moment in `zone`, or with its own offset. Raises `WrongMoment`.

    When clocks change, a local time may name two seconds, or none.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is None or ":" not in text:
        raise WrongMoment(
            f"{text!r} is not a date and time. Write it as '2026-11-20 18:00:00', in {zone}, or "
            "with an offset such as +01:00. No statement was written."
        )
    if moment.tzinfo is not None:
        return moment
    choices = [moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    if choices[0].utcoffset() != choices[1].utcoffset():
        offsets = " or ".join(sorted({choice.isoformat()[-6:] for choice in choices}))
        raise WrongMoment(
            f"The clocks in {zone} change around {text!r}, so it is not a single second. Add an "
            f"offset ({offsets}). No statement was written."
        )
    return choices[0].astimezone(UTC)


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
