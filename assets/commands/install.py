"""`nightbook install`: the home, and systemd units for it, this interpreter and this user."""

import os
import sys
from importlib.resources import files
from pathlib import Path

import click
from click import option

from assets.console.command import HomeCommand
from assets.console.invocation import full_command
from assets.console.parameters import flag
from assets.home.creation import create_home
from assets.nightbook import Nightbook
from pipelines import settings
from pipelines.landing.lock import require_writable
from pipelines.settings import InvalidSettings
from warehouse.storage.layout import Layout, make_directory

UNITS = ("nightbook-daemon.service", "nightbook-web.service")
SYSTEM = Path("/etc/systemd/system")
UNIT_MODE = 0o644


class UnsuitableHost(Exception):
    """nightbook cannot run as a systemd unit on this machine or with these settings."""

    exit_code = 2


@click.command(cls=HomeCommand, needs_home=False)
@option(
    "--into",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write the units to this directory instead of systemd's own directory",
)
@flag("--only-home", help="Create the home, but no units. Useful for containers and cron")
def install_command(nightbook: Nightbook, *, into: str | None, only_home: bool) -> int:
    """Create the home and systemd units for it (does not start them)."""
    layout = nightbook.layout
    if only_home:
        _create_home(layout)
        print(f"For cron, add this line (crontab -e):\n  {crontab_line(nightbook)}")
        return 0
    _require_settings(Path.cwd() / ".env")
    folder = Path(into).resolve() if into else _unit_folder()
    is_system = folder == SYSTEM
    texts = {name: render_unit(name, layout, Path.cwd(), is_system=is_system) for name in UNITS}
    _create_home(layout)
    make_directory(folder)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(UNIT_MODE)
        print(f"written  {folder / name}")
    print(f"Settings were not copied. They are read from {Path.cwd() / '.env'} at each start.")
    control = "systemctl" if is_system else "systemctl --user"
    print("Nothing was started. Type:")
    print(f"  {control} daemon-reload && {control} enable --now {UNITS[0]}")
    print(f"  {control} enable --now {UNITS[1]}   (the UI, optional)")
    if not is_system:
        print("  loginctl enable-linger (so that the daemon also runs while you are logged out)")
    return 0


def render_unit(name: str, layout: Layout, folder: Path, *, is_system: bool) -> str:
    """Return a unit file from `assets/deploy` with its placeholders filled in.

    Raises `UnsuitableHost` if a value has special characters.
    """
    # A user unit cannot choose its user, wait for the network or, on some systems, restrict its
    # view of the disk. Remove these settings, because they only work in system units.
    text = (files("assets") / "deploy" / name).read_text(encoding="utf-8")
    target = "multi-user.target" if is_system else "default.target"
    values = {
        "@FOLDER@": str(folder),
        "@HOME@": str(layout.home),
        "@PYTHON@": sys.executable,
        "@TARGET@": target,
        "@USER@": _user(layout) if is_system else "",
    }
    for placeholder, value in values.items():
        if set(value) & set("\"'\\%$\n ;"):
            raise UnsuitableHost(
                f"{value!r} contains a space, quote, $, % or backslash, which have a special "
                "meaning in a systemd unit. Nothing was written. Choose another path: nightbook "
                "--home DIR install"
            )
        text = text.replace(placeholder, value)
    if is_system:
        return text
    system_lines = (
        "User=",
        "Wants=network",
        "After=network",
        "ProtectSystem=",
        "ReadWritePaths=",
        "Private",
    )
    return "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith(system_lines)
    )


def crontab_line(nightbook: Nightbook) -> str:
    """Return a line for cron, which has neither this shell's PATH nor its working folder."""
    command = full_command(nightbook.layout, "run", "--unless-taken")
    # Cron replaces a percent sign with a line break.
    return f"{nightbook.settings().schedule} {command}".replace("%", r"\%")


def _create_home(layout: Layout) -> None:
    """Create the home if it does not exist, and print the result."""
    if os.geteuid():  # root creates the home for the owner of its folder
        require_writable(layout, "Creating the home")
    print(f"{'created' if create_home(layout) else 'exists '}  {layout.home}")


def _require_settings(file: Path) -> None:
    """Raise `UnsuitableHost` if the `.env` file lacks a setting or contains an invalid one."""
    # Check only the `.env` file, because a unit does not inherit this shell's variables.
    try:
        settings.read(settings.environment(file.parent, {}), api=True)
    except InvalidSettings as wrong:
        raise UnsuitableHost(
            f"The units would read their settings only from {file}, which is incomplete: "
            f"{' '.join(wrong.complaints)} Nothing was written. Add the settings to that file (cp "
            ".env.example .env), or run this command in the folder with your complete .env."
        ) from None


def _unit_folder() -> Path:
    if os.geteuid() == 0:
        return SYSTEM
    return Path.home() / ".config" / "systemd" / "user"


def _user(layout: Layout) -> str:
    """Return the name of the home's owner, who runs the system units. Raises `UnsuitableHost`."""
    # Do not create the home here, because only root could write to it.
    if not layout.home.is_dir():
        raise UnsuitableHost(
            f"{layout.home} does not exist, so the user who should run nightbook is unknown. "
            "Nothing was written. Create it for that user first: install -d -m 0750 -o USER -g "
            f"USER {layout.home}"
        )
    try:
        return layout.home.owner()
    except KeyError:
        raise UnsuitableHost(
            f"{layout.home} belongs to user ID {layout.home.stat().st_uid}, which has no user name "
            "on this machine, but a system unit needs a user name. Nothing was written. Change "
            f"the owner first: chown -R USER {layout.home}"
        ) from None
