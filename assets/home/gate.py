"""Checks of the home before a command runs: it exists, can be read, and fits the command."""

import errno
import os
from pathlib import Path

from assets.console.declaration import Invocation, Trait
from assets.console.invocation import program
from pipelines.landing.lock import require_owner
from warehouse.contract.model import and_more
from warehouse.storage.firm import FIRM, is_firm
from warehouse.storage.layout import Layout

MAX_NAMED = 3


class NoHome(Exception):
    """The directory is not a home of nightbook."""

    exit_code = 2

    def __init__(self, layout: Layout, problem: str, command: str) -> None:
        super().__init__(
            f"There is no home of nightbook at {layout.home}: {problem}. Nothing was done. Name "
            f"the right one (nightbook --home DIR {command}, or NIGHTBOOK_HOME). The first "
            "nightbook run creates a home, and nightbook demo creates an example."
        )


class OfOneOrganisation(Exception):
    """A command for one organisation was called with the home of a firm."""

    exit_code = 2

    def __init__(self, layout: Layout, command: str) -> None:
        super().__init__(
            f"{layout.home} is the home of a firm ({FIRM}), but `{command}` works on the nights "
            "of one organisation. Nothing was done. Name the home of that organisation: "
            f"nightbook --home DIR {command}"
        )


def misplaced_firm(layout: Layout) -> str:
    """Return a message if this folder has a firm.toml but is not the home. Then it is not read."""
    if is_firm(layout.home) or not is_firm(Path.cwd()):
        return ""
    return (
        f"This folder has a {FIRM}, but it is not read, because the home is {layout.home}. "
        f"{FIRM} belongs in the home of the firm. If that is this folder: {program()} --home . "
        "run"
    )


def require_firm_command(layout: Layout, invocation: Invocation) -> bool:
    """Return whether the firm's version of a command must run.

    Raises `OfOneOrganisation` if the command does not work for a firm.
    """
    if Trait.IN_FIRM in invocation.traits or not is_firm(layout.home):
        return False
    if Trait.OF_FIRM not in invocation.traits:
        raise OfOneOrganisation(layout, invocation.command)
    return True


def require_place(layout: Layout, invocation: Invocation) -> None:
    """Check that the home exists if a command needs it, and belongs to us if it writes.

    Raises the errors of `require_home` and `require_owner`.
    """
    if Trait.WITHOUT_HOME not in invocation.traits:
        require_home(layout, invocation.command)
    if Trait.WRITES in invocation.traits:
        require_owner(layout, f"nightbook {invocation.command}")


def require_home(layout: Layout, command: str) -> None:
    """Raise `NoHome` if a directory is not a home, and `PermissionError` if it cannot be read."""
    home = layout.home
    if not os.path.lexists(home):
        raise NoHome(layout, "that folder does not exist", command)
    if not home.is_dir():
        raise NoHome(layout, "that is not a folder", command)
    _require_readable(home)
    if is_firm(home):
        return
    folders = (layout.landing, layout.lake, layout.warehouse, layout.dagster)
    if not any(os.path.lexists(folder) for folder in folders):
        names = sorted(path.name for path in home.iterdir() if not path.name.startswith("."))
        listed = f"it contains {and_more(names, MAX_NAMED)}, but no files of nightbook"
        raise NoHome(layout, listed if names else "that folder is empty", command)
    for folder in (*folders[:3], layout.manifests, layout.database.parent):
        if folder.is_dir():
            _require_readable(folder)


def _require_readable(folder: Path) -> None:
    """Raise `PermissionError` for an unreadable folder, which would look like an empty home."""
    if not os.access(
        folder, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    ):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
