"""The exports of known programs, recognised by the print of their headers.

They are data, in the files of `profiles` beside this module. What a profile says is what a person
could say in recon.toml, in the same words; whatever stands there counts before it.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from warehouse.reconcile.settings.scope import file_settings
from warehouse.reconcile.settings.shape import Shape, shape_of
from warehouse.reconcile.settings.toml_table import TomlTable
from warehouse.spreadsheet.reading.text import fold

_FOLDER = Path(__file__).with_suffix("")


class ExportKind(Enum):
    """What the rows of an export are."""

    POSITIONS = "positions"
    TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An export of a known program: `titles` are those that all stand in its header.

    `source` is the public document that says so; `shape` and `covers` are what a person would say
    under `[ledger."..."]` and `[file."..."]` in recon.toml.
    """

    name: str
    source: str
    titles: frozenset[str]
    shape: Shape
    covers: Mapping[str, tuple[str, ...]]
    content: ExportKind

    def below(self, shape: Shape) -> Shape:
        """Return what a person said of a header, and besides it what is known of the export."""
        of_export = self.shape
        if shape.amounts or shape.columns_are or "amount" in shape.columns:
            columns = {name: at for name, at in of_export.columns.items() if name != "amount"}
            of_export = replace(of_export, columns=columns, amounts=())
        return replace(shape.over(of_export), unused=(*shape.unused, *of_export.unused))

    @property
    def refusal(self) -> str:
        """Why it cannot be a ledger, in words; nothing where it can."""
        if self.content is ExportKind.POSITIONS:
            return ""
        return (
            f"this is a list of transactions ({self.name}), not of positions: what is held at the "
            "end of a day does not stand in it. Export the balances instead"
        )


def profile_of(titles: Sequence[str]) -> Profile | None:
    """Return the export that has such a header: of several, the one of which most is known."""
    written = {fold(title) for title in titles}
    matching = [profile for profile in known_profiles() if profile.titles <= written]
    return max(matching, key=lambda profile: len(profile.titles), default=None)


@cache
def known_profiles() -> tuple[Profile, ...]:
    """Return all profiles by their names; raise `ValueError` where a file of ours is wrong."""
    tables: dict[str, dict[str, Any]] = {}
    for path in sorted(_FOLDER.glob("*.toml")):
        tables |= tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(_profile(name, tables[name]) for name in sorted(tables))


def _profile(name: str, values: Mapping[str, Any]) -> Profile:
    table = TomlTable(values, [], name)
    table.refuse_unknown("source titles content ledger file")
    file = file_settings(name, table.table("file"))
    content = table.choice("content", *(kind.value for kind in ExportKind), default="positions")
    profile = Profile(
        name=name,
        source=table.choice("source"),
        titles=frozenset(fold(title) for title in table.texts("titles") or ()),
        shape=shape_of(table.table("ledger")).over(file.shape),
        covers=file.covers,
        content=ExportKind(content),
    )
    if table.complaints or not profile.titles or not profile.source:
        raise ValueError(f"{name}: {'; '.join(table.complaints) or 'no titles or no source'}")
    return profile
