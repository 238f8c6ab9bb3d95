"""The start of the `nightbook` program: it checks that no other project hides our packages.

The names of our packages are common. If PYTHONPATH names a folder with another package of the same
name, Python imports that one. This module must import nothing but the standard library. It cannot
report a hidden `warehouse`, because Python would not find this module either. The package `assets`
reports that, and calls `require_ours` if Dagster or `python -m` starts there.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

OURS = Path(__file__).parent.parent
NAMES = ("assets", "pipelines")
WRONG_USAGE = 2


class HiddenPackage(ImportError):
    """Another project hides one of our packages."""


def main() -> int:
    """Run the command line, and return its exit code."""
    try:
        require_ours()
    except HiddenPackage as hidden:
        print(hidden, file=sys.stderr)
        return WRONG_USAGE
    code: int = importlib.import_module("assets.cli").main()
    return code


def require_ours() -> None:
    """Raise `HiddenPackage` if Python finds one of our packages in another project's folder."""
    for name in NAMES:
        if (found := _folder_of(name)) != OURS:
            raise HiddenPackage(_message(name, found))


def _folder_of(name: str) -> Path | None:
    """Return the folder in which Python finds a package or module, or None if there is none."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    return Path(places[0]).absolute().parent


def _message(name: str, found: Path | None) -> str:
    if found is None:
        return (
            f"nightbook's package {name} is missing in {OURS}. Nothing was read or written. "
            "Install nightbook again."
        )
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    is_listed = any(entry and Path(entry).absolute() == found for entry in entries)
    remedy = (
        "Remove that folder from PYTHONPATH for nightbook (env -u PYTHONPATH nightbook ...)"
        if is_listed
        else f"Move {found / name}, or start nightbook in another folder"
    )
    return (
        f"Another project hides a part of nightbook: Python finds the package {name} in {found}, "
        f"before nightbook's own in {OURS}. Nothing was read or written. {remedy}, and install "
        "nightbook in a separate environment (uv tool install, or pipx install)."
    )
