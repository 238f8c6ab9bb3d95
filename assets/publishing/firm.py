"""Publication of the firm's book, from its organisations' published books."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from assets.console.invocation import full_command, program_version
from assets.console.terminal import progress_reporter
from assets.nightbook import Nightbook
from assets.publishing import publish as home
from assets.publishing.publish import reconciliation_rows, version_name
from warehouse.database import versions
from warehouse.database.ddl import schema_version
from warehouse.database.firm.ddl import schema_version as firm_schema_version
from warehouse.database.firm.publish import FirmBook, FirmBuild, publish_firm
from warehouse.export.export import export
from warehouse.query.read import run as ask
from warehouse.report.build import write_report
from warehouse.storage.firm import is_firm, read_firm


def refresh(nightbook: Nightbook) -> None:
    """Republish the home of an organisation or firm. The caller must hold the writer's lock."""
    if is_firm(nightbook.layout.home):
        publish(nightbook)
    else:
        home.refresh(nightbook)


def catch_up(nightbook: Nightbook) -> None:
    """Republish the warehouse if it was published with a different schema version."""
    layout = nightbook.layout
    if not layout.database.exists():
        return
    current = firm_schema_version() if is_firm(layout.home) else schema_version()
    if ask(layout.database, "select schema_version from ops.build").rows != ((current,),):
        refresh(nightbook)


def publish(
    nightbook: Nightbook,
    *,
    day: date | None = None,
    notes: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> FirmBook:
    """Publish the firm's book. The caller must hold the writer's lock for the firm's home.

    `day` is the requested night. `notes` maps source names to the reasons why they may have no book
    for that night. `fresh` reloads the whole history.
    """
    layout, now = nightbook.layout, nightbook.now()
    build = FirmBuild(
        firm=read_firm(layout.home),
        version=version_name(layout, now),
        built_at=now,
        program_version=program_version(),
        day=day,
        notes=notes or {},
        reconciled=reconciliation_rows(layout),
    )
    say = progress_reporter(nightbook, nightbook.tell, "publishing")
    budget = nightbook.settings().versions_gb
    book = publish_firm(layout, build, fresh=fresh, say=say, versions_gb=budget)
    for version in versions.damaged_versions(layout) if fresh else ():
        # Remove damaged versions, so that `verify` succeeds after a rebuild.
        versions.remove(version)
    return book


def write_files(nightbook: Nightbook, book: FirmBook) -> list[Path]:
    """Write the firm's workbook and report, if its book has a night. Return the files."""
    layout, version = nightbook.layout, program_version()
    if book.newest is None:
        return []
    now = nightbook.now().astimezone(nightbook.settings().timezone)
    written = export(
        book.database, layout.exports, as_of=None, formats=("xlsx",), program_version=version
    )
    page = write_report(
        book.database,
        layout.reports,
        now=now,
        program_version=version,
        command=full_command(layout),
    )
    return [*written.files, page]
