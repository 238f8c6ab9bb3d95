"""The settings for one possible header, and the context of reading a ledger."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingContext:
    """The settings, what was settled by headers before, the day of the book, and its names.

    `remembered` has by the print of a header what a run found out; a reading adds to it. `sources`
    are the organisations of a firm.
    """

    config: Config
    day: date
    remembered: dict[str, dict[str, str]] = field(default_factory=dict)
    known: KnownNames = field(default_factory=KnownNames)
    sources: frozenset[str] = frozenset()

    @property
    def words(self) -> Words:
        """The words of titles and cells, with those that the person added."""
        return words_of(self.config.own_words)


_FOLDER = Path(__file__).with_name("profiles")


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
        """The reason why the export cannot be a ledger, or an empty string."""
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


_LOOKED_AT = 200  # rows below a header that say whether a column holds numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row that may be the header, with all that is settled of one like it.

    `settled` has titles by field that were found or written down for headers like it; `shape` also
    has what was written down for files of its name, and what is known of the export that it is.
    `covers` is what the file is of, by field; `day` is that of the book.
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
    where: str
    file: str
    day: date
    words: Words

    def field_of(self, place: int) -> str:
        """Return the field that a title names; of two rows the lower one may say it alone."""
        return self.words.field_of(self.titles[place]) or self.words.field_of(self.lower[place])

    def second_field_of(self, place: int) -> str:
        """Return the field that a title names where no other column names it better."""
        return self.words.second_field_of(self.titles[place]) or self.words.second_field_of(
            self.lower[place]
        )

    @property
    def table(self) -> str:
        """The heading of the table that settles questions of it."""
        return heading("ledger", self.fingerprint)

    @property
    def file_table(self) -> str:
        """The heading of the table that settles questions of all files of its name."""
        return heading("file", name_pattern(self.file))

    def title_cell(self, place: int) -> object:
        """Return the title of a column, or the date that is its title."""
        cells = self.grid.rows[self.row + self.depth - 1]
        cell = cells[place] if len(cells) > place else ""
        return cell if isinstance(cell, date) else self.titles[place]

    def dates_above(self) -> dict[int, object]:
        """Return the dates in the row above the last row of titles, if they differ."""
        row = self.row + self.depth - 2
        cells = self.grid.rows[row] if row >= 0 else ()
        dates = {
            place: written
            for place, cell in enumerate(cells)
            if (written := dated_title(cell)[1]) is not None
        }
        return dates if len(set(dates.values())) > 1 else {}

    def has_numbers(self, place: int) -> bool:
        """Return whether the first rows of a column have numbers."""
        rows = islice(self.grid.rows, self.row + self.depth, self.row + _LOOKED_AT)
        texts = [text_at(row, place) for row in rows]
        numbers = sum(any(letter.isdigit() for letter in text) for text in texts)
        filled = sum(bool(text.strip("-")) for text in texts)
        return filled == 0 or 2 * numbers > filled


def candidate_at(
    grid: Grid, rows: range, context: ReadingContext, settings: FileSettings, file: str
) -> Candidate:
    """Return a row of a sheet with all that is settled of one like it."""
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
        where=f"{file} {grid.sheet}".strip(),
        file=file,
        day=context.day,
        words=context.words,
        covers=covers,
        profile=profile,
    )


def _covers_of(profile: Profile, shape: Shape, known: KnownNames) -> dict[str, tuple[str, ...]]:
    """Return what an export is of by names of this book; another name is asked about later."""
    return {
        field: names
        for field, names in profile.covers.items()
        if field not in shape.columns and all(known.has(field, name) for name in names)
    }
