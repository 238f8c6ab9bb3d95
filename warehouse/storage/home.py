"""The home folder set in the environment or in a `.env` file, for commands and for analysts."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

HOME: Final = "NIGHTBOOK_HOME"
TIMEZONE: Final = "NIGHTBOOK_TIMEZONE"
DEFAULTS: Final = {HOME: "./data", TIMEZONE: "UTC"}


def merged_environment(directory: Path, process: Mapping[str, str]) -> dict[str, str]:
    """Return the variables from `directory/.env` and from the process, which takes precedence.

    Empty process variables are ignored. A `$` in a value is kept and not interpolated.
    Raises `OSError` or `UnicodeDecodeError` if `.env` cannot be read.
    """
    path = directory / ".env"
    if path.is_dir():
        # The library ignores a folder. Docker makes one if a mounted file is missing.
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    values = dotenv_values(path, interpolate=False)
    own = {name: value for name, value in process.items() if value.strip()}
    return {name: value or "" for name, value in values.items()} | own


def home_path(text: str) -> Path:
    """Return a setting as an absolute path. Raises `RuntimeError` if `~` cannot be resolved."""
    return Path(text).expanduser().absolute()


def misleading_sign(path: Path) -> str:
    """Return the part of a path that DuckDB would misinterpret, or an empty string."""
    # In a path, wildcards would match other files, a line break would split the list of files, and
    # DuckDB would read the date from a `snapshot_date=...` folder above the lake.
    signs = ("*", "?", "[", "\n", "snapshot_date=")
    return next((sign for sign in signs if sign in str(path)), "")
