"""The firm's book: what its organisations have published, published as one."""

from collections.abc import Mapping
from datetime import date

from assets.console.progress import progress_reporter
from assets.console.version import program_version
from assets.nightbook import Nightbook
from assets.publishing.publish import reconciliation_rows, version_name
from warehouse.database.firm.publish import FirmBook, FirmBuild, publish_firm
from warehouse.storage.firm import read_firm


def publish(
    nightbook: Nightbook,
    *,
    day: date | None = None,
    notes: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> FirmBook:
    """Publish the firm's book; the caller is the writer of the firm's home.

    `day` is the night that was to be taken, `notes` say why a source may have none of it.
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
    return publish_firm(layout, build, fresh=fresh, say=say)
