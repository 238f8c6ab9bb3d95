"""The settings for one possible header, and the context for reading a ledger."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.dates import dated_title
from warehouse.reconcile.ledger.titles import fingerprint, joined_titles
from warehouse.reconcile.ledger.words import Words, words_of
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import (
    ALL,
    FileSettings,
    Shape,
    file_settings,
    name_pattern,
    shape_of,
)
from warehouse.reconcile.settings.toml import TomlTable, heading
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import fold, text_at

_FOLDER = Path(__file__).with_name("profiles")
_LOOKED_AT = 200  # number of rows to search for numbers below a header


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingContext:
    """The context for reading a ledger: settings, the book's day and names, and earlier decisions.

    `remembered` has the decisions by header fingerprint. Reading a ledger adds decisions to it.
    """

    config: Config
    day: date
    remembered: dict[str, dict[str, str]] = field(default_factory=dict)
    known: KnownNames = field(default_factory=KnownNames)

    @property
    def words(self) -> Words:
        """The known words for titles and cells, including the user's own words."""
        return words_of(self.config.own_words)


class ExportKind(Enum):
    """The kind of rows in an export."""

    POSITIONS = "positions"
    TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An export from a known program. Its header contains all `titles`.

    `source` is the public document that describes the export. `shape` and `covers` are the settings
    that a person would add to recon.toml under `[ledger."..."]` and `[file."..."]`.
    """

    name: str
    source: str
    titles: frozenset[str]
    shape: Shape
    covers: Mapping[str, tuple[str, ...]]
    content: ExportKind

    def below(self, shape: Shape) -> Shape:
        """Return a person's settings, completed with the export's settings."""
        of_export = self.shape
        if shape.amounts or shape.columns_are or "amount" in shape.columns:
            columns = {name: at for name, at in of_export.columns.items() if name != "amount"}
            of_export = replace(of_export, columns=columns, amounts=())
        return replace(shape.over(of_export), unused=(*shape.unused, *of_export.unused))

    @property
    def refusal(self) -> str:
        """The reason why the export cannot be a ledger, or an empty string."""
        if self.content is ExportKind.POSITIONS:
            return ""
        return (
            f"this is a list of transactions ({self.name}), not of positions. It does not list the "
            "end-of-day holdings. Export the balances instead"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row that may be the header, with the settings for such a header.

    The header has `depth` rows. `settled` has each field's title from an earlier run or from the
    settings for this header. `shape` also has the settings for files with this name, and a known
    export's settings. `lower` has only the titles in the last row. `names` maps fields to the name
    that the file or its tab specifies for all rows, and `covers` maps fields to the names that the
    file covers. `profile` is the known export that has this header.
    """

    grid: Grid
    row: int
    depth: int
    titles: tuple[str, ...]
    lower: tuple[str, ...]
    fingerprint: str
    shape: Shape
    names: Mapping[str, str]
    covers: Mapping[str, tuple[str, ...]]
    profile: Profile | None
    settled: Mapping[str, str]
    file: str
    context: ReadingContext
    words: Words

    def field_of(self, column: int) -> str:
        """Return the field for a column's full title, or for its title in the last header row."""
        return self.words.field_of(self.titles[column]) or self.words.field_of(self.lower[column])

    def second_field_of(self, column: int) -> str:
        """Return the field for which a column is the second choice, or ""."""
        titles = (self.titles[column], self.lower[column])
        return next(filter(None, map(self.words.second_field_of, titles)), "")

    @property
    def location(self) -> str:
        """The file name, and the tab name (if any) after a space, for use in questions."""
        return f"{self.file} {self.grid.sheet}".strip()

    @property
    def place(self) -> str:
        """The file name, and the tab name (if any) after `!`, for use in results."""
        return f"{self.file}!{self.grid.sheet}" if self.grid.sheet else self.file

    @property
    def body(self) -> int:
        """The index of the first row below the header."""
        return self.row + self.depth

    @property
    def table(self) -> str:
        """The heading of the recon.toml table for ledgers with this header."""
        return heading("ledger", self.fingerprint)

    @property
    def file_table(self) -> str:
        """The recon.toml table heading for all files with this name."""
        return heading("file", name_pattern(self.file))

    def title_cell(self, column: int) -> object:
        """Return a column's title as a string, or as a date if its cell is a date."""
        cells = self.grid.rows[self.body - 1]
        cell = cells[column] if len(cells) > column else ""
        return cell if isinstance(cell, date) else self.titles[column]

    def dates_above(self) -> dict[int, object]:
        """Return the dates in the row above the last title row, unless all dates are the same."""
        row = self.body - 2
        cells = self.grid.rows[row] if row >= 0 else ()
        found = ((column, dated_title(cell)[1]) for column, cell in enumerate(cells))
        dates = {column: written for column, written in found if written is not None}
        return dates if len(set(dates.values())) > 1 else {}

    def has_numbers(self, column: int) -> bool:
        """Return whether most of a column's first cells are numbers. Blank cells do not count."""
        rows = islice(self.grid.rows, self.body, self.row + _LOOKED_AT)
        texts = [text_at(row, column) for row in rows]
        numbers = sum(any(letter.isdigit() for letter in text) for text in texts)
        filled = sum(bool(text.strip("-")) for text in texts)
        return filled == 0 or 2 * numbers > filled


def profile_of(titles: Sequence[str]) -> Profile | None:
    """Return the known export with this header, or None. The longest matching header wins."""
    written = {fold(title) for title in titles}
    matching = [profile for profile in known_profiles() if profile.titles <= written]
    return max(matching, key=lambda profile: len(profile.titles), default=None)


@cache
def known_profiles() -> tuple[Profile, ...]:
    """Return the known exports, sorted by name. Raise `ValueError` if our files are invalid."""
    tables: dict[str, dict[str, Any]] = {}
    for path in sorted(_FOLDER.glob("*.toml")):
        tables |= tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(_profile(name, tables[name]) for name in sorted(tables))


def candidate_at(
    grid: Grid, rows: range, context: ReadingContext, settings: FileSettings, file: str
) -> Candidate:
    """Return these rows of a sheet as a possible header, with the settings for it."""
    titles, lower = joined_titles(grid, rows.start, len(rows))
    name = fingerprint(titles)
    by_print = context.config.shapes.get(name, Shape())
    profile = profile_of(titles)
    shape = settings.shape.over(by_print)
    covers = settings.covers
    if profile is not None:
        shape = profile.below(shape)
        covers = _covers_of(profile, shape, context.known) | dict(covers)
    names = {field: ids[0] for field, ids in covers.items() if len(ids) == 1 and ids[0] != ALL}
    if settings.tab and grid.sheet:
        names[settings.tab] = grid.sheet
    return Candidate(
        grid=grid,
        row=rows.start,
        depth=len(rows),
        titles=titles,
        lower=lower,
        fingerprint=name,
        shape=shape,
        names=names,
        settled={
            field: title
            for field, title in context.remembered.get(name, {}).items()
            if title not in shape.columns.values()
        }
        | dict(by_print.columns),
        file=file,
        context=context,
        words=context.words,
        covers=covers,
        profile=profile,
    )


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


def _covers_of(profile: Profile, shape: Shape, known: KnownNames) -> dict[str, tuple[str, ...]]:
    """Return the names that an export covers, if the book has them.

    If the book does not have a name, ask a person.
    """
    return {
        field: names
        for field, names in profile.covers.items()
        if field not in shape.columns and all(known.has(field, name) for name in names)
    }
