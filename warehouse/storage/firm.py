"""`firm.toml`: which organisations a firm's book is made of, and where the home of each is.

Each organisation is a folder of its own, where its `.env` lies: its key, its home, its settings.
The firm's home has none of them.
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
    """`firm.toml` cannot be gone by; nothing was read or written."""

    exit_code = 2

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(
            f"{file} {problem}. Nothing was read or written. It names the organisations of the "
            f"firm, each with its folder, like\n{_EXAMPLE}"
        )


@dataclass(frozen=True, slots=True)
class Source:
    """One organisation of a firm: its name, the folder of its `.env`, and its home.

    `problem` says why its `.env` cannot be read; then nothing of it is read or started.
    """

    name: str
    folder: Path
    layout: Layout
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firm:
    """The organisations of a firm in the order of their names, and how their nights are taken.

    `owners` has the organisation of each portfolio that several of them can see. `shards` are the
    parts in which Dagster takes them, `at_once` how many nights of a part are taken side by side.
    """

    sources: tuple[Source, ...]
    owners: Mapping[str, str] = field(default_factory=dict)
    shards: int = 1
    at_once: int = 2


def is_firm(home: Path) -> bool:
    """Whether a home is that of a firm."""
    return (home / FIRM).is_file()


def read_firm(home: Path) -> Firm:
    """Read `firm.toml`; raises `FirmWrong` with what is wrong in it."""
    file = home / FIRM
    try:
        # Only a home of a firm has the file, and reading TOML is 3 ms of every command.
        content = importlib.import_module("tomllib").loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FirmWrong(file, f"cannot be read: {why}") from None
    if unknown := sorted(content.keys() - {"sources", OWNERS, "shards", "at_once"}):
        raise FirmWrong(file, f"has {', '.join(map(repr, unknown))}, which is no setting")
    folders = content.get("sources")
    if not isinstance(folders, dict) or not folders:
        raise FirmWrong(file, "has no table [sources] with an organisation")
    sources = tuple(_source(file, name, folders[name]) for name in sorted(folders))
    _require_apart(file, sources)
    return Firm(
        sources=sources,
        owners=_owners(file, content, {source.name for source in sources}),
        shards=_number(file, content, "shards", 1),
        at_once=_number(file, content, "at_once", 2),
    )


def _owners(file: Path, content: Mapping[str, object], names: Collection[str]) -> dict[str, str]:
    """Read for which organisation each portfolio counts that several of them can see."""
    owners = content.get(OWNERS, {})
    if not isinstance(owners, dict):
        raise FirmWrong(file, f"has {OWNERS} = {owners!r}, which is not a table")
    for portfolio, name in owners.items():
        if not isinstance(name, str) or name not in names:
            raise FirmWrong(
                file,
                f"gives portfolio {portfolio[:LONGEST_NAME]!r} to {str(name)[:LONGEST_NAME]!r}, "
                f"which is none of its organisations ({', '.join(map(repr, sorted(names)))})",
            )
    return owners


def _require_apart(file: Path, sources: Sequence[Source]) -> None:
    """Refuse two names of one home, whose money would be added up twice, and two alike."""
    homes: dict[object, str] = {}
    for source in sources:
        for key in (source.layout.home.resolve(), source.name.casefold()):
            if (other := homes.setdefault(key, source.name)) != source.name:
                same = "the same home" if isinstance(key, Path) else "names that are alike"
                raise FirmWrong(file, f"gives {same} to {other!r} and {source.name!r}")
        if source.layout.home.resolve() == file.parent.resolve():
            raise FirmWrong(file, f"names the firm's own home as that of {source.name!r}")


def _number(file: Path, content: Mapping[str, object], name: str, default: int) -> int:
    number = content.get(name, default)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise FirmWrong(file, f"has {name} = {number!r}, which is to be a whole number from 1")
    return number


def _source(file: Path, name: str, folder: object) -> Source:
    # The name is in the first column of every table, in sheets and on pages: each of them quotes
    # it. What cannot be seen there would make two names look alike.
    if (
        not name.strip()
        or name != name.strip()
        or len(name) > LONGEST_NAME
        or not name.isprintable()
        or " / " in name
    ):
        raise FirmWrong(
            file,
            f"names a source {name[:LONGEST_NAME]!r}: a name is 1 to {LONGEST_NAME} visible "
            "letters, without a space at either end and without a slash between spaces",
        )
    if not isinstance(folder, str) or not folder.strip() or not folder.isprintable():
        raise FirmWrong(file, f"gives no folder for {name!r}")
    place = (file.parent / folder).absolute()
    try:
        place = (file.parent / Path(folder).expanduser()).resolve()
        variables = merged_environment(place, {})
        home = place / Path(variables.get(HOME, "").strip() or DEFAULTS[HOME]).expanduser()
    except (OSError, ValueError, RuntimeError) as error:
        # The other organisations have their night all the same.
        why = getattr(error, "strerror", None) or str(error)
        problem = f"the .env of its folder {place} cannot be read: {why}"
        return Source(name, place, Layout(place / DEFAULTS[HOME]), problem)
    return Source(name, place, Layout(home))
