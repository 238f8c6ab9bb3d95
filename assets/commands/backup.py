"""`nightbook backup` and `nightbook restore`: save and restore files that cannot be rebuilt."""

import shlex
import shutil
from pathlib import Path

import click
from click import argument

from assets.commands.nights import print_changes
from assets.console.command import HomeCommand
from assets.console.invocation import command_for, program
from assets.console.parameters import dry_run_options
from assets.home import backup
from assets.home.rehearsal import rehearsing
from assets.home.writer_lock import writing_with_progress
from assets.nightbook import Nightbook
from assets.publishing.publish import rebuild
from pipelines.landing.lock import hold_pull_lock, without_writers
from warehouse.contract.model import count_of


@click.command(cls=HomeCommand)
@argument("file", type=click.Path(), help="File to write (tar)")
def backup_command(nightbook: Nightbook, *, file: str) -> int:
    """Back up everything that cannot be rebuilt.

    The backup contains the API responses, the decisions and the reconciliations.
    """
    layout = nightbook.layout
    target = backup.place_for(layout, file)
    backup.require_any(layout)
    with without_writers(layout, "backing up", nightbook.now()):
        summary = backup.back_up(layout, target)
    print(f"{target}: {_size(summary)}. The backup was read back and is complete.")
    print(
        "The backup does not contain the lake, the warehouse or the exports, because they can be "
        "rebuilt. It does not contain the run history either."
    )
    command = f"{program()} --home NEW restore {shlex.quote(str(target))}"
    print(f"Keep the backup on another machine. To restore it: {command}")
    return 0


@click.command(cls=HomeCommand, needs_home=False, writes=True)
@argument("file", type=click.Path(), help="Backup to restore")
@dry_run_options()
def restore_command(
    nightbook: Nightbook, *, file: str, dry_run: bool, output_format: str | None
) -> int:
    """Restore a backup into an empty home.

    Then rebuilds the lake and the warehouse from the restored files.
    """
    layout, source = nightbook.layout, Path(file).resolve()
    backup.require_file(source)
    if dry_run:
        backup.require_restorable(layout, source)
        with rehearsing(nightbook, is_empty=True) as rehearsal:
            backup.restore(rehearsal.layout, source)
            rebuild(rehearsal, from_landing=True)
            print_changes(layout, rehearsal.layout, output_format)
        return 0
    is_new = not layout.home.exists()
    if not (is_new or layout.lock.exists()):
        # Check the backup before locking the home. If the restore is rejected later, the lock file
        # cannot be removed safely.
        backup.require_restorable(layout, source)
    try:
        with (
            writing_with_progress(nightbook, "restoring") as reporting,
            hold_pull_lock(layout, "restoring", nightbook.now(), nightbook.pause),
        ):
            summary = backup.restore(layout, source)
            print(f"{_size(summary)} restored. Rebuilding the lake and the warehouse ...")
            published = rebuild(reporting, from_landing=True)
    except backup.NotRestored:
        if is_new:  # The home is new, so it contains only this command's lock files.
            shutil.rmtree(layout.home)
        raise
    print(f"{published.database}: {count_of(len(published.loaded), 'night')}")
    print(f"Check every file: {command_for(layout)} verify")
    return 0


def _size(summary: backup.BackupSummary) -> str:
    return f"{count_of(summary.files, 'file')}, {summary.byte_count / 1e6:.1f} MB"
