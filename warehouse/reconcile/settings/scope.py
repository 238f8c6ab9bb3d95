"""What a file or a tab covers of the book, under `[file."name*"]`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from warehouse.reconcile.settings.shape import LAYOUT, Shape, shape_of
from warehouse.reconcile.settings.toml_table import TomlTable
from warehouse.reconcile.terms.dimensions import FIELDS

ALL = "*"  # of a field: the file covers all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """What was settled for files of one name or pattern, like `coinbase*` or `custody.xlsx!Spot`.

    `covers` has by field the names of what the file holds: one name is that of all its rows where
    no column says it, several are what it is compared with. `tab` is the field that the names of
    its tabs say. One that is `expected` is missed where it is not there, as each is that covers a
    part of the book, unless recon.toml says otherwise.
    """

    pattern: str
    covers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tab: str = ""
    shape: Shape = field(default_factory=Shape)
    is_expected: bool = False

    def is_of(self, name: str, sheet: str = "") -> bool:
        """Return whether its pattern is that of a file, or of a tab of it."""
        names = (name, f"{name}!{sheet}") if sheet else (name,)
        return any(fnmatchcase(text.casefold(), self.pattern.casefold()) for text in names)


def file_settings(pattern: str, table: TomlTable) -> FileSettings:
    """Return the settings of one table `[file."..."]`."""
    dimensions = " ".join(FIELDS)
    table.refuse_unknown(f"{LAYOUT} {dimensions} tab expected")
    covers = {name: names for name in FIELDS if (names := table.texts(name)) is not None}
    layout = {name: table.values[name] for name in LAYOUT.split() if name in table.values}
    return FileSettings(
        pattern=pattern,
        covers=covers,
        tab=table.choice("tab", *FIELDS, ""),
        shape=shape_of(TomlTable(layout, table.complaints, table.place), ()),
        is_expected=table.flag("expected", default=bool(covers) and "!" not in pattern),
    )


def of_file(files: Iterable[FileSettings], name: str, sheet: str = "") -> FileSettings:
    """Return what all matching patterns say of a file and its tab, the most exact one first."""
    matching = sorted(
        (item for item in files if item.is_of(name, sheet)),
        key=lambda item: (len(item.pattern.replace("*", "")), item.pattern),
    )
    merged = FileSettings(pattern=name)
    for item in matching:
        merged = replace(
            item,
            covers={**merged.covers, **item.covers},
            tab=item.tab or merged.tab,
            shape=item.shape.over(merged.shape),
        )
    return merged
