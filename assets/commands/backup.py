"""`nightbook backup` and `nightbook restore`: what cannot be made again, out and in."""

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from assets.commands import firm
from assets.commands.nights import print_changes
from assets.console.invocation import command_for, program
from assets.console.rows import print_rows
from assets.home import backup
from assets.home.backup import NotRestored, require_file, require_restorable
from assets.home.backup import restore as unpack_backup
from assets.home.rehearsal import rehearsing
from assets.home.writer_lock import writing_aloud
from assets.nightbook import Nightbook
from assets.publishing.publish import rebuild
from pipelines.landing.lock import hold_pull_lock, without_writers
from warehouse.contract.model import count_of
from warehouse.query.printable import printable
from warehouse.storage.firm import FIRM, is_firm, read_firm
from warehouse.storage.layout import Layout


def write(nightbook: Nightbook, *, file: str) -> int:
    """Write a backup, and read it back."""
    layout = nightbook.layout
    target = backup.place_for(layout, file)
    backup.require_any(layout)
    with without_writers(layout, "backing up", nightbook.now()):
        summary = backup.back_up(layout, target)
    print(f"{target}: {_size(summary)}, read back and whole.")
    if is_firm(layout.home):
        print("The firm's book is not in it, because it is built from the homes of these. Back up:")
        for organisation in read_firm(layout.home).sources:
            home = shlex.quote(str(organisation.layout.home))
            print(printable(f"  {organisation.name}: {program()} --home {home} backup FILE"))
    else:
        print(
            "Lake, warehouse, exports and run history are not in it: all but the last are made "
            "again."
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
        digests = require_restorable(layout, source)
        if FIRM in digests:
            _print_files(layout, digests, form)
            return 0
        with rehearsing(nightbook, is_empty=True) as rehearsal:
            unpack_backup(rehearsal.layout, source)
            rebuild(rehearsal, from_landing=True)
            print_changes(layout, rehearsal.layout, form)
        return 0
    is_new = not layout.home.exists()
    if not (is_new or layout.lock.exists()):
        # A lock file cannot be removed safely, so a folder without one is looked at before.
        require_restorable(layout, source)
    try:
        with (
            writing_aloud(nightbook, "restoring") as heard,
            hold_pull_lock(layout, "restoring", nightbook.now()),
        ):
            summary = unpack_backup(layout, source)
            print(f"{_size(summary)} are back; making the rest ...")
            if not is_firm(layout.home):
                published = rebuild(heard, from_landing=True)
    except NotRestored:
        if is_new:  # it contains the lock files of this command and nothing else
            shutil.rmtree(layout.home)
        raise
    if is_firm(layout.home):
        return firm.rebuild(nightbook, from_landing=False)
    nights = count_of(len(published.loaded), "night")
    print(f"{published.database}: {nights}")
    print(f"See that every byte is as it was: {command_for(layout)} verify")
    return 0


def _print_files(layout: Layout, digests: Mapping[str, str], form: str | None) -> None:
    """Print the files that restoring the backup of a firm would put into its home."""
    if form:
        print_rows(form, ("file", "sha256"), digests.items())
        return
    print(
        f"Nothing was restored. {count_of(len(digests), 'file')} would be put into {layout.home}:"
    )
    for name in digests:
        print(printable(f"  {name}"))
    print(f"Then the firm's book would be built from the homes that {FIRM} names.")


def _size(summary: backup.BackupSummary) -> str:
    return f"{count_of(summary.files, 'file')}, {summary.byte_count / 1e6:.1f} MB"
