"""The files in `exports/latest/`, renewed after each command that published a new version."""

import importlib
import sys
from typing import Any

from assets.console.invocation import program_version
from assets.nightbook import Nightbook
from pipelines.landing.lock import WriterBusy, hold_writer_lock
from warehouse.storage.layout import Layout, read_json

NIGHT = "latest/night.json"


def renew_latest(nightbook: Nightbook) -> bool:
    """Renew the files if a newer version was published. Return False and say so if that failed.

    The caller holds the writer lock.
    """
    layout = nightbook.layout
    if _is_current(layout):
        return True
    # Few commands publish, and this import takes 0.1 CPU s.
    latest = importlib.import_module("warehouse.export.latest")
    try:
        latest.renew(
            layout.exports,
            layout.database,
            program_version=program_version(),
            workbook_rows=nightbook.settings().workbook_rows,
        )
    except (OSError, ValueError) as error:
        print(
            f"{layout.exports / 'latest'} was not renewed: {error}. Its files are unchanged, and "
            f"{NIGHT} names their night. The book is published. Then type: nightbook export",
            file=sys.stderr,
        )
        return False
    return True


def renew_after_command(nightbook: Nightbook) -> bool:
    """Renew the files like `renew_latest`, unless another command is writing and will do it."""
    layout = nightbook.layout
    if _is_current(layout):
        return True
    try:
        with hold_writer_lock(layout, "renewing exports/latest", nightbook.now()):
            return renew_latest(nightbook)
    except WriterBusy:
        return True


def read_night(layout: Layout) -> dict[str, Any]:
    """Return the content of `night.json`, or an empty dictionary if it cannot be read."""
    try:
        return dict(read_json(layout.exports / NIGHT))
    except (OSError, ValueError, TypeError):
        return {}


def _is_current(layout: Layout) -> bool:
    """Return whether nothing is published, or the files name the published version."""
    current = layout.warehouse / "current"
    return not current.is_symlink() or read_night(layout).get("version") == current.readlink().name
