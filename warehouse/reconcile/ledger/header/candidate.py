"""A row that may be the header, with all that is settled of one like it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from itertools import islice

from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.known_names import KnownNames
from warehouse.reconcile.ledger.header.profiles import Profile, profile_of
from warehouse.reconcile.ledger.header.titles import fingerprint, joined_titles
from warehouse.reconcile.ledger.header.words import Words
from warehouse.reconcile.settings.scope import ALL, FileSettings
from warehouse.reconcile.settings.shape import Shape
from warehouse.reconcile.settings.toml_table import heading
from warehouse.reconcile.terms.dates import dated_title
from warehouse.reconcile.terms.file_names import name_pattern
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import text_at

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

    def also_field_of(self, place: int) -> str:
        """Return the field that a title names where no other column names it better."""
        return self.words.also_field_of(self.titles[place]) or self.words.also_field_of(
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
        """Return whether numbers stand in a column, in its first rows."""
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
