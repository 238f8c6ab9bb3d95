"""The morning report: ask, draw, write one file that needs nothing else.

The page has no script, asks nobody for anything and says so in its own policy: even what slipped
through the escaping could not run, load or send.
"""

import base64
import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from duckdb import DuckDBPyConnection
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from warehouse.query.connect import open_database
from warehouse.query.firm_state import has_sources, state_of
from warehouse.report.answers import Nights, QueryRows, Record, ReportFailed, ask, nights
from warehouse.report.blocks import Section
from warehouse.report.markdown import markdown
from warehouse.report.sections import (
    changes,
    findings,
    firm,
    holdings,
    morning,
    night,
    reconciliation,
)
from warehouse.report.sections.findings import News
from warehouse.storage.layout import written_aside

__all__ = ["LATEST", "ReportData", "ReportFailed", "ask_all", "page", "report", "write"]

LATEST = "latest.html"
PROGRAM = "nightbook"
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """All that a report tells, asked of one connection: one night, never two."""

    now: datetime
    state: str
    headline: Markup
    warnings: tuple[Markup, ...]
    first: tuple[Section, ...]
    sections: tuple[Section, ...]
    build: Record | None

    @property
    def day(self) -> str:
        """The date of the morning, by which its page is named."""
        return self.now.date().isoformat()

    @property
    def markdown(self) -> str:
        """The same in short, as Markdown."""
        return markdown(self.headline, self.warnings, (*self.first, *self.sections))


def ask_all(database: Path, now: datetime, pinned: Sequence[str] = ()) -> ReportData:
    """Ask the warehouse for everything, `pinned` assets first; raises as `report` does."""
    with contextlib.closing(open_database(database)) as connection:
        if has_sources(connection):
            return _of_firm(connection, now)
        dates = nights(connection, pinned)
        moves = changes.by_asset(connection, dates)
        news = findings.news(connection, dates)
        first = tuple(morning.panels(connection, dates, moves, news))
        sections = tuple(_sections(connection, dates, moves, news))
        build = _build(connection)
    state, headline = night.headline(dates, now)
    warnings = tuple(night.warnings(dates, now))
    return ReportData(
        now=now,
        state=state,
        headline=headline,
        warnings=warnings,
        first=first,
        sections=sections,
        build=build,
    )


def _of_firm(connection: DuckDBPyConnection, now: datetime) -> ReportData:
    """Ask a firm's book: which organisations it holds comes before all that they hold."""
    answered, firm_state = firm.sources(connection), state_of(connection)
    state, headline = firm.headline(answered, firm_state, now)
    return ReportData(
        now=now,
        state=state,
        headline=headline,
        warnings=tuple(firm.warnings(answered, firm_state)),
        first=(firm.gate(answered),),
        sections=(
            firm.shared_portfolios(connection, firm_state),
            *firm.sections(connection),
            *reconciliation.sections(connection, nights(connection)),
        ),
        build=_build(connection),
    )


def _build(connection: DuckDBPyConnection) -> Record | None:
    return next(iter(ask(connection, "select * from ops.build").rows), None)


def report(
    database: Path,
    folder: Path,
    *,
    now: datetime,
    program_version: str,
    pinned: Sequence[str] = (),
    command: str = PROGRAM,
) -> Path:
    """Write the report of this morning to `folder`, and the same as `latest.html`.

    The file is named for the date of `now` in the zone that `now` has. Raises `FileNotFoundError`
    where no warehouse is published, `ReportFailed` where the file is no warehouse of ours; then
    nothing is written.
    """
    data = ask_all(database, now, pinned)
    return write(data, folder, program_version=program_version, command=command)


def write(data: ReportData, folder: Path, *, program_version: str, command: str = PROGRAM) -> Path:
    """Write what was asked as the page of its date, and as `latest.html`; gives the former.

    `command` is how a command for this home begins.
    """
    # What comes from the wire is escaped, so this mark is only before our own commands.
    page = _page(data, program_version)
    html = page.replace(f"<code>{PROGRAM} ", f"<code>{escape(command)} ").encode()
    file = folder / f"{data.day}.html"
    for path in (file, folder / LATEST):
        with written_aside(path) as out:
            out.write(html)
    return file


def page(database: Path, *, now: datetime, program_version: str, pinned: Sequence[str] = ()) -> str:
    """Return the report as HTML."""
    return _page(ask_all(database, now, pinned), program_version)


def _page(data: ReportData, program_version: str) -> str:
    style = Markup((_HERE / "page.css").read_text("utf-8"))  # noqa: S704 - our own file
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    ours = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return ours.from_string((_HERE / "page.html").read_text("utf-8")).render(
        data=data,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        made=f"{data.now.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        program_version=program_version,
    )


def _sections(
    connection: DuckDBPyConnection, dates: Nights, moves: QueryRows | None, news: News | None
) -> Iterator[Section]:
    yield findings.findings(news)
    yield changes.section(connection, dates, moves)
    yield holdings.section(connection, dates)
    yield holdings.over_time(connection, dates)
    yield from reconciliation.sections(connection, dates)
    yield findings.freshness(connection, dates)
    yield night.calendar(dates)
    yield findings.unknown(connection, dates)
    yield findings.rejects(connection, dates)
    yield night.section(connection, dates)
