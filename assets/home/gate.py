"""Whether there is a home where a command looks, and whether it may be read, before it looks."""

import errno
import os
from pathlib import Path

from assets.console.declaration import Invocation, Trait
from assets.console.invocation import program
from pipelines.landing.lock import require_owner
from warehouse.contract.model import and_more
from warehouse.storage.firm import FIRM, is_firm
from warehouse.storage.layout import Layout

SHOWN = 3


class NoHome(Exception):
    """There is no home where one was looked for."""

    exit_code = 2

    def __init__(self, layout: Layout, problem: str, command: str) -> None:
        super().__init__(
            f"There is no home of nightbook at {layout.home}: {problem}. Nothing was done. Name "
            f"the one that is meant (nightbook --home DIR {command}, or NIGHTBOOK_HOME); nightbook "
            "run begins a home with its first night, and nightbook demo shows how one looks."
        )


class OfOneOrganisation(Exception):
    """A command about the nights of one organisation was given the home of a firm."""

    exit_code = 2

    def __init__(self, layout: Layout, command: str) -> None:
        super().__init__(
            f"{layout.home} is the home of a firm ({FIRM}), and `{command}` is about the "
            "nights of one organisation. Nothing was done. Give it the home of that organisation: "
            f"nightbook --home DIR {command}"
        )


def misplaced_firm(layout: Layout) -> str:
    """Say that this folder has a firm.toml, which is not in the home and so not read."""
    if is_firm(layout.home) or not is_firm(Path.cwd()):
        return ""
    return (
        f"This folder has a {FIRM}, but it is not read, because the home is {layout.home}. "
        f"{FIRM} belongs in the home of the firm. If that is this folder: {program()} --home . "
        "run"
    )


def require_firm_command(layout: Layout, typed: Invocation) -> bool:
    """Return whether a command is a firm's own; raises where a firm has none of that name."""
    if Trait.IN_FIRM in typed.traits or not is_firm(layout.home):
        return False
    if Trait.OF_FIRM not in typed.traits:
        raise OfOneOrganisation(layout, typed.command)
    return True


def require_place(layout: Layout, typed: Invocation) -> None:
    """See the home that a command needs, and that it is ours where the command writes.

    Raises as `require_home` and `require_owner` do.
    """
    if Trait.WITHOUT_HOME not in typed.traits:
        require_home(layout, typed.command)
    if Trait.WRITES in typed.traits:
        require_owner(layout, f"nightbook {typed.command}")


def require_home(layout: Layout, command: str) -> None:
    """Raise `NoHome` where nothing of nightbook lies, and `PermissionError` where it is shut."""
    home = layout.home
    if not os.path.lexists(home):
        raise NoHome(layout, "there is no such folder", command)
    if not home.is_dir():
        raise NoHome(layout, "that is no folder", command)
    _require_open(home)
    if is_firm(home):
        return
    places = (layout.landing, layout.lake, layout.warehouse, layout.dagster)
    if not any(os.path.lexists(place) for place in places):
        names = sorted(path.name for path in home.iterdir() if not path.name.startswith("."))
        listed = f"it holds {and_more(names, SHOWN)}, and nothing that nightbook made"
        raise NoHome(layout, listed if names else "that folder is empty", command)
    for place in (*places[:3], layout.manifests, layout.database.parent):
        if place.is_dir():
            _require_open(place)


def _require_open(folder: Path) -> None:
    """Raise `PermissionError` for a shut folder, which looks like a home without nights."""
    if not os.access(
        folder, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    ):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
