"""`nightbook backup` and `nightbook restore`: what cannot be made again, out and in."""

import shlex
import shutil
from pathlib import Path

from assets.commands.dry_run import print_changes
from assets.console.invocation import command_for, program
from assets.home import backup
from assets.home.rehearsal import rehearsing
from assets.home.restore import NotRestored, require_file, require_restorable
from assets.home.restore import restore as unpack_backup
from assets.home.writer_lock import writing_aloud
from assets.nightbook import Nightbook
from assets.publishing.rebuild import rebuild
from pipelines.landing.lock import nobody_writes, the_puller
from warehouse.contract.wording import count_of


def write(nightbook: Nightbook, *, file: str) -> int:
    """Write a backup, and read it back."""
    layout = nightbook.layout
    target = backup.place_for(layout, file)
    backup.require_any(layout)
    with nobody_writes(layout, "backing up", nightbook.now()):
        summary = backup.back_up(layout, target)
    print(f"{target}: {_size(summary)}, read back and whole.")
    print(
        "Lake, warehouse, exports and run history are not in it: all but the last are made again."
    )
    command = f"{program()} --home NEW restore {shlex.quote(str(target))}"
    print(f"Keep it on another machine. To use it: {command}")
    return 0


def restore(
    nightbook: Nightbook, *, file: str, dry_run: bool = False, form: str | None = None
) -> int:
    """Put a backup into an empty home, and make lake and warehouse of it."""
    layout, source = nightbook.layout, Path(file).resolve()
    require_file(source)
    if dry_run:
        require_restorable(layout, source)
        with rehearsing(nightbook, is_empty=True) as rehearsal:
            unpack_backup(rehearsal.layout, source)
            rebuild(rehearsal, from_landing=True)
            print_changes(layout, rehearsal.layout, form)
        return 0
    is_new = not layout.home.exists()
    try:
        with (
            writing_aloud(nightbook, "restoring") as heard,
            the_puller(layout, "restoring", nightbook.now()),
        ):
            summary = unpack_backup(layout, source)
            print(f"{_size(summary)} are back; making the rest ...")
            published = rebuild(heard, from_landing=True)
    except NotRestored:
        if is_new:  # it contains the lock files of this command and nothing else
            shutil.rmtree(layout.home)
        raise
    nights = count_of(len(published.loaded), "night")
    print(f"{published.database}: {nights}")
    print(f"See that every byte is as it was: {command_for(layout)} verify")
    return 0


def _size(summary: backup.BackupSummary) -> str:
    return f"{count_of(summary.files, 'file')}, {summary.byte_count / 1e6:.1f} MB"
