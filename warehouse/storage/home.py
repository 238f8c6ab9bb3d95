"""The home folder that the environment or a `.env` file names, for commands and for analysts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

HOME: Final = "NIGHTBOOK_HOME"
TIMEZONE: Final = "NIGHTBOOK_TIMEZONE"
DEFAULTS: Final = {HOME: "./data", TIMEZONE: "UTC"}


def merged_environment(directory: Path, process: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in `directory/.env`, overridden by the process's own variables.

    Empty process variables are ignored. A `$` in a value is kept and not interpolated.
    Raises `OSError` or `UnicodeDecodeError` if `.env` cannot be read.
    """
    values = dotenv_values(directory / ".env", interpolate=False)
    own = {name: value for name, value in process.items() if value.strip()}
    return {name: value or "" for name, value in values.items()} | own


def home_path(text: str) -> Path:
    """Return a setting as an absolute path. Raises `RuntimeError` for a user without a home."""
    return Path(text).expanduser().absolute()


def misleading_sign(path: Path) -> str:
    """Return the part of a path that DuckDB would misinterpret, or an empty string."""
    # A pattern matches other files, a line end splits the file list, and DuckDB takes the date
    # from the first of two folders named `snapshot_date=`.
    signs = ("*", "?", "[", "\n", "snapshot_date=")
    return next((sign for sign in signs if sign in str(path)), "")
