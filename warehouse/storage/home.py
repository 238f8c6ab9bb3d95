"""Where the home is, by what the environment and a `.env` say: for commands and for analysts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

HOME: Final = "NIGHTBOOK_HOME"
TIMEZONE: Final = "NIGHTBOOK_TIMEZONE"
DEFAULTS: Final = {HOME: "./data", TIMEZONE: "UTC"}


def merged_environment(directory: Path, process: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `directory/.env`, and those of the process over them.

    An empty one of the process counts as not set. Values are taken letter by letter: a `$` in a
    secret stands for itself. Raises `OSError` and `UnicodeDecodeError` where `.env` cannot be read.
    """
    values = dotenv_values(directory / ".env", interpolate=False)
    own = {name: value for name, value in process.items() if value.strip()}
    return {name: value or "" for name, value in values.items()} | own


def home_path(text: str) -> Path:
    """Return the folder that a setting names; raises `RuntimeError` for a user without a home."""
    return Path(text).expanduser().absolute()


def misleading_sign(path: Path) -> str:
    """Return what in a path would lead DuckDB to other files or dates; empty without it."""
    # A pattern finds files of its own, a line end divides a list, and of two folders that name the
    # date it takes the first for all rows.
    signs = ("*", "?", "[", "\n", "snapshot_date=")
    return next((sign for sign in signs if sign in str(path)), "")
