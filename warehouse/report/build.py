"""The morning report of a warehouse: load its data, render it, write one file."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from warehouse.report.data import ReportData, ReportFailed, load_report
from warehouse.report.render import PROGRAM, render_page
from warehouse.storage.layout import written_aside

__all__ = ["LATEST", "ReportData", "ReportFailed", "load_report", "write_page", "write_report"]

LATEST = "latest.html"


def write_report(
    database: Path,
    folder: Path,
    *,
    now: datetime,
    program_version: str,
    pinned: Sequence[str] = (),
    command: str = PROGRAM,
) -> Path:
    """Write the report of a warehouse as `write_page` does. Raises as `load_report` does."""
    data = load_report(database, now, pinned)
    return write_page(data, folder, program_version=program_version, command=command)


def write_page(
    data: ReportData, folder: Path, *, program_version: str, command: str = PROGRAM
) -> Path:
    """Write a page named after its date, and an equal `latest.html`. Return the former.

    The date is that of `data.now` in its own time zone. `command` is how a command for this home
    begins.
    """
    html = render_page(data, program_version, command).encode()
    file = folder / f"{data.day}.html"
    for path in (file, folder / LATEST):
        with written_aside(path) as out:
            out.write(html)
    return file
