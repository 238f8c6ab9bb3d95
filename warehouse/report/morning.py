"""The morning report: ask, draw, write one file that needs nothing else.

The page has no script, asks nobody for anything and says so in its own policy: even what slipped
through the escaping could not run, load or send.
"""

import base64
import contextlib
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from duckdb import DuckDBPyConnection
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from warehouse.layout import written_aside
from warehouse.query import opened
from warehouse.report import changes, holdings, night, watch
from warehouse.report.parts import Section
from warehouse.report.source import BUILD, Nights, ReportFailed, ask, nights

__all__ = ["LATEST", "ReportFailed", "page", "report"]

LATEST = "latest.html"
_HERE = Path(__file__).parent


def report(database: Path, folder: Path, *, now: datetime, program_version: str) -> Path:
    """Write the report of this morning to `folder`, and the same as `latest.html`.

    The file is named for the date of `now` in the zone that `now` has. Raises `FileNotFoundError`
    where no warehouse is published, `ReportFailed` where the file is no warehouse of ours; then
    nothing is written.
    """
    made = page(database, now=now, program_version=program_version).encode()
    file = folder / f"{now.date().isoformat()}.html"
    for path in (file, folder / LATEST):
        with written_aside(path) as out:
            out.write(made)
    return file


def page(database: Path, *, now: datetime, program_version: str) -> str:
    """The report as HTML, all of it from one connection: one night, never two."""
    with contextlib.closing(opened(database)) as connection:
        found = nights(connection)
        sections = tuple(_sections(connection, found))
        build = ask(connection, BUILD).rows
    state, headline = night.headline(found)
    style = Markup((_HERE / "page.css").read_text("utf-8"))  # noqa: S704 - our own file
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return _template().render(
        day=now.date().isoformat(),
        state=state,
        headline=headline,
        warnings=tuple(night.warnings(found, now)),
        sections=sections,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        made=f"{now.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        program_version=program_version,
        build=build[0] if build else None,
    )


def _sections(connection: DuckDBPyConnection, found: Nights) -> Iterator[Section]:
    yield night.section(connection, found)
    yield watch.findings(connection, found)
    yield changes.section(connection, found)
    yield holdings.section(connection, found)
    yield holdings.over_time(connection, found)
    yield watch.freshness(connection, found)
    yield night.calendar(found)
    yield watch.unknown(connection, found)
    yield watch.rejects(connection, found)


def _template() -> Template:
    ours = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return ours.from_string((_HERE / "page.html").read_text("utf-8"))
