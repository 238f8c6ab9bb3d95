"""The morning report for a warehouse: load the data, render the page, write one file."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from warehouse.report.data import ReportData, ReportFailed, load_report
from warehouse.report.render import PROGRAM, render_page
from warehouse.storage.layout import write_bytes

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
    """Load a warehouse's report and write its page. Raises the same errors as `load_report`."""
    data = load_report(database, now, pinned)
    return write_page(data, folder, program_version=program_version, command=command)


def write_page(
    data: ReportData, folder: Path, *, program_version: str, command: str = PROGRAM
) -> Path:
    """Write a page named after its date, and a copy named `latest.html`. Return the first path.

    The date is the day of `data.now` in its own time zone. The commands on the page begin with
    `command`.
    """
    html = render_page(data, program_version, command).encode()
    file = folder / f"{data.day}.html"
    for path in (file, folder / LATEST):
        write_bytes(path, html)
    return file
