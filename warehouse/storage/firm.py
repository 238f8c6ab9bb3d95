"""The file `firm.toml`: the organisations in a firm's book, and their folders.

Each organisation has its own folder with a `.env`, which contains its key, its home and its
settings. The firm's home has none of these.
"""

import importlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from warehouse.storage.home import DEFAULTS, HOME, merged_environment
from warehouse.storage.layout import Layout

FIRM: Final = "firm.toml"
OWNERS: Final = "portfolios"
LONGEST_NAME: Final = 80
_EXAMPLE: Final = """[sources]
alpha = "../alpha"          # a folder with the .env of that organisation
"Beta Fund" = "/srv/beta\""""


class FirmWrong(Exception):
    """`firm.toml` is not valid, so nothing was read or written."""

    exit_code = 2

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(
            f"{file} {problem}. Nothing was read or written. The file lists the organisations in "
            f"the firm and their folders, for example\n{_EXAMPLE}"
        )


@dataclass(frozen=True, slots=True)
class Source:
    """One organisation in a firm: its name, the folder with its `.env`, and its home.

    If its `.env` cannot be read, `problem` is the reason, and the organisation's nights are not
    pulled or read.
    """

    name: str
    folder: Path
    layout: Layout
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firm:
    """The organisations of a firm, sorted by name, and the settings for pulling their nights.

    `owners` maps each shared portfolio to the organisation that it counts for. Dagster divides the
    organisations into `shards` groups, and pulls at most `at_once` nights of a group at the same
    time.
    """

    sources: tuple[Source, ...]
    owners: Mapping[str, str] = field(default_factory=dict)
    shards: int = 1
    at_once: int = 2


def is_firm(home: Path) -> bool:
    """Return whether a home belongs to a firm."""
    return (home / FIRM).is_file()


def read_firm(home: Path) -> Firm:
    """Read `firm.toml`. Raises `FirmWrong` with the problem."""
    file = home / FIRM
    try:
        # Import `tomllib` only here, because the import takes 3 ms and only a firm's home needs the
        # module.
        content = importlib.import_module("tomllib").loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FirmWrong(file, f"cannot be read: {reason}") from None
    if unknown := sorted(content.keys() - {"sources", OWNERS, "shards", "at_once"}):
        raise FirmWrong(file, f"contains {', '.join(map(repr, unknown))}, which is not a setting")
    folders = content.get("sources")
    if not isinstance(folders, dict) or not folders:
        raise FirmWrong(file, "has no [sources] table that lists an organisation")
    sources = tuple(_source(file, name, folders[name]) for name in sorted(folders))
    _require_distinct(file, sources)
    return Firm(
        sources=sources,
        owners=_read_owners(file, content, {source.name for source in sources}),
        shards=_read_number(file, content, "shards", 1),
        at_once=_read_number(file, content, "at_once", 2),
    )


def _read_owners(
    file: Path, content: Mapping[str, object], names: Collection[str]
) -> dict[str, str]:
    """Map each shared portfolio in `firm.toml` to the organisation that it counts for."""
    owners = content.get(OWNERS, {})
    if not isinstance(owners, dict):
        raise FirmWrong(file, f"has {OWNERS} = {owners!r}, which is not a table")
    for portfolio, name in owners.items():
        if not isinstance(name, str) or name not in names:
            raise FirmWrong(
                file,
                f"assigns portfolio {portfolio[:LONGEST_NAME]!r} to {str(name)[:LONGEST_NAME]!r}, "
                f"which is not one of its organisations ({', '.join(map(repr, sorted(names)))})",
            )
    return owners


def _require_distinct(file: Path, sources: Sequence[Source]) -> None:
    """Reject shared homes, whose money would count twice, and names that differ only in case."""
    homes: dict[object, str] = {}
    for source in sources:
        for key in (source.layout.home.resolve(), source.name.casefold()):
            if (other := homes.setdefault(key, source.name)) != source.name:
                if isinstance(key, Path):
                    raise FirmWrong(file, f"lists {other!r} and {source.name!r} with the same home")
                raise FirmWrong(
                    file, f"lists {other!r} and {source.name!r}, which differ only in letter case"
                )
        if source.layout.home.resolve() == file.parent.resolve():
            raise FirmWrong(file, f"uses the firm's own home for {source.name!r}")


def _read_number(file: Path, content: Mapping[str, object], name: str, default: int) -> int:
    number = content.get(name, default)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise FirmWrong(file, f"has {name} = {number!r}, which must be a whole number above 0")
    return number


def _source(file: Path, name: str, folder: object) -> Source:
    # Reject invisible characters, which would make two names look alike. The name appears in the
    # first column of all tables, in sheets and on pages.
    if (
        not name.strip()
        or name != name.strip()
        or len(name) > LONGEST_NAME
        or not name.isprintable()
        or " / " in name
    ):
        raise FirmWrong(
            file,
            f"has a source named {name[:LONGEST_NAME]!r}. A name has 1 to {LONGEST_NAME} visible "
            "characters, no space at either end, and no slash between spaces",
        )
    if not isinstance(folder, str) or not folder.strip() or not folder.isprintable():
        raise FirmWrong(file, f"has no folder for {name!r}")
    path = (file.parent / folder).absolute()
    try:
        path = (file.parent / Path(folder).expanduser()).resolve()
        variables = merged_environment(path, {})
        home = path / Path(variables.get(HOME, "").strip() or DEFAULTS[HOME]).expanduser()
    except (OSError, ValueError, RuntimeError) as error:
        # If the `.env` of one organisation cannot be read, the nights of the other organisations
        # must still run.
        reason = getattr(error, "strerror", None) or str(error)
        problem = f"the .env in its folder {path} cannot be read: {reason}"
        return Source(name, path, Layout(path / DEFAULTS[HOME]), problem)
    return Source(name, path, Layout(home))
