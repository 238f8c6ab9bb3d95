"""`nightbook install`: systemd units for this home, this interpreter and this user."""

import os
import sys
from importlib.resources import files
from pathlib import Path

from assets.nightbook import Nightbook
from pipelines import settings
from pipelines.settings import InvalidSettings
from warehouse.storage.layout import Layout, make_directory

UNITS = ("nightbook-daemon.service", "nightbook-web.service")
SYSTEM = Path("/etc/systemd/system")
UNIT_MODE = 0o644


class UnsuitableHost(Exception):
    """A unit cannot be written for this host."""

    exit_code = 2


def run(nightbook: Nightbook, *, into: str | None) -> int:
    """Write the units; starts nothing, and says what does."""
    layout = nightbook.layout
    _require_settings(Path.cwd() / ".env")
    place = Path(into).resolve() if into else _place()
    is_system = place == SYSTEM
    texts = {name: render_unit(name, layout, Path.cwd(), is_system=is_system) for name in UNITS}
    make_directory(place)
    for name, text in texts.items():
        (place / name).write_text(text, encoding="utf-8")
        (place / name).chmod(UNIT_MODE)
        print(f"written  {place / name}")
    print(f"settings are read from {Path.cwd() / '.env'} at each start; nothing of them was copied")
    control = "systemctl" if is_system else "systemctl --user"
    print("Nothing was started. Type:")
    print(f"  {control} daemon-reload && {control} enable --now {UNITS[0]}")
    print(f"  {control} enable --now {UNITS[1]}   (the UI, if wanted)")
    if not is_system:
        print("  loginctl enable-linger   (so that it runs while you are not logged in)")
    return 0


def _require_settings(file: Path) -> None:
    """Raise `UnsuitableHost` where `.env` is not enough."""
    # A unit is given nothing of this shell: what counts is what it will read in that file.
    try:
        settings.read(settings.environment(file.parent, {}), api=True)
    except InvalidSettings as wrong:
        raise UnsuitableHost(
            f"The units would read their settings from {file}, and from nothing else, which is not "
            f"enough: {' '.join(wrong.complaints)} Nothing was written. Write them into that file "
            "(cp .env.example .env), or type this where it lies."
        ) from None


def _place() -> Path:
    if os.geteuid() == 0:
        return SYSTEM
    return Path.home() / ".config" / "systemd" / "user"


def render_unit(name: str, layout: Layout, folder: Path, *, is_system: bool) -> str:
    """Return a shipped unit with its signs filled in; raises `UnsuitableHost` for an odd path."""
    # A unit of a user can neither choose that user, nor change what it sees of the disk on every
    # system, nor wait for the network: those lines are for units of the system.
    text = (files("assets") / "deploy" / name).read_text(encoding="utf-8")
    target = "multi-user.target" if is_system else "default.target"
    signs = {
        "@FOLDER@": str(folder),
        "@HOME@": str(layout.home),
        "@PYTHON@": sys.executable,
        "@TARGET@": target,
        "@USER@": _user(layout) if is_system else "",
    }
    for sign, value in signs.items():
        if set(value) & set("\"'\\%$\n ;"):
            raise UnsuitableHost(
                f"{value!r} holds a space, quote, $, % or backslash, which a systemd unit would "
                "read in its own way. Nothing was written. Choose a plainer path: nightbook "
                "--home DIR install"
            )
        text = text.replace(sign, value)
    if is_system:
        return text
    only_system = (
        "User=",
        "Wants=network",
        "After=network",
        "ProtectSystem=",
        "ReadWritePaths=",
        "Private",
    )
    return "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith(only_system)
    )


def _user(layout: Layout) -> str:
    """Return the owner of the home, who runs a system's units; raises `UnsuitableHost`."""
    # A home that root makes here could not be written by anybody else.
    if not layout.home.is_dir():
        raise UnsuitableHost(
            f"{layout.home} is not there, so nobody knows which user is to run nightbook. Nothing "
            "was written. Make it for that user first: "
            f"install -d -m 0750 -o USER -g USER {layout.home}"
        )
    try:
        return layout.home.owner()
    except KeyError:
        raise UnsuitableHost(
            f"{layout.home} belongs to user {layout.home.stat().st_uid}, who has no name on this "
            "machine, and a unit of the system names its user. Nothing was written. Give it to a "
            f"user with a name first: chown -R USER {layout.home}"
        ) from None
