"""Find the header row, and which column is which field: by words, or by what was settled.

A ledger's shape is known by its headers, whatever their order: the first eight digits of their
digest name it in recon.toml.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from warehouse.reconcile.ledger.header.amount_columns import (
    Layer,
    day_columns,
    layers_of,
    month_columns,
    terms_of,
)
from warehouse.reconcile.ledger.header.candidate import Candidate, candidate_at
from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.field_columns import (
    column_of,
    row_places,
    sign_place,
    unit_place,
)
from warehouse.reconcile.ledger.header.profiles import Profile
from warehouse.reconcile.ledger.header.titles import depths, letters, places_of
from warehouse.reconcile.ledger.header.words import Words
from warehouse.reconcile.settings.shape import READ, Shape
from warehouse.reconcile.settings.toml_table import heading
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.spreadsheet.reading.grid import HEAD, Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The row of the header, the shape it makes, and the column of each field, from 0.

    It is `depth` rows deep. `names` are what every row is of by the file or its tab, by field, and
    `covers` is what the file is of. `layers` are the amounts of a row, `sign` the column that says
    whether they are negative, `unit` the one that says their units. `rows` are the columns by title
    that say which rows are used. The column `amount` is the first one that an amount is read from.
    `profile` is the export of a known program that it is. `days` are the days that the titles of
    columns of amounts state, by column, and `day` is the one that is read.
    """

    row: int
    fingerprint: str
    titles: tuple[str, ...]
    columns: Mapping[str, int]
    shape: Shape
    words: Words
    layers: tuple[Layer, ...]
    depth: int = 1
    names: Mapping[str, str] = field(default_factory=dict)
    covers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sign: int | None = None
    unit: int | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    profile: Profile | None = None
    days: Mapping[int, date] = field(default_factory=dict)
    day: date | None = None

    @property
    def table(self) -> str:
        """The heading of the table of recon.toml that settles questions of it."""
        return heading("ledger", self.fingerprint)

    def title_of(self, place: int) -> str:
        """Return the title of a column, or its letter where it has none."""
        return self.titles[place] or letters(place)

    @property
    def body(self) -> int:
        """The first row below it."""
        return self.row + self.depth

    @property
    def fields(self) -> tuple[str, ...]:
        """The dimensions that it says."""
        of_labels = self.layers[0].names if self.layers else {}
        return tuple(
            name
            for name in FIELDS
            if name in {*self.columns, *self.names, *of_labels, *(self.shape.groups or ())}
        )

    @property
    def amount_places(self) -> tuple[int, ...]:
        """The columns that amounts are read from."""
        return tuple(dict.fromkeys(term.place for layer in self.layers for term in layer.terms))

    @property
    def places(self) -> frozenset[int]:
        """All columns that are read."""
        said = [place for place in (self.sign, self.unit) if place is not None]
        places = (*self.columns.values(), *self.amount_places, *said, *self.rows.values())
        return frozenset(places)

    @property
    def is_plain(self) -> bool:
        """Whether each layer has one column, and nothing else says what its cells mean."""
        is_said = self.sign is not None or self.unit is not None or self.rows
        return not is_said and all(
            len(layer.terms) == 1 and not layer.terms[0].is_negative for layer in self.layers
        )


def header(grid: Grid, context: ReadingContext, file: str) -> Header | None:
    """Return the header of a sheet, or None where no row can be one.

    Raises `Ambiguous` where two columns may be the same field, `NotReconciled` where a column that
    was settled is not there.
    """
    # The first row that names both an asset and an amount, by its words or by what was settled for
    # headers like these. Titles, blank lines and addresses above it name at most one of them.
    settings = context.config.of_file(file, grid.sheet)
    for row in range(min(HEAD, len(grid.rows))):
        for depth in depths(grid, row, settings.shape.header_rows):
            candidate = candidate_at(grid, range(row, row + depth), context, settings, file)
            if _is_header(candidate):
                return _header(candidate)
    return None


def _is_header(candidate: Candidate) -> bool:
    """Return whether a row names an asset and an amount, whatever else it names."""
    shape = candidate.shape
    titles = [place for place, title in enumerate(candidate.titles) if title]
    refusal = candidate.profile.refusal if candidate.profile else ""
    if not titles or (refusal and not shape.amount_titles):
        return False
    fields = {candidate.field_of(place) or candidate.also_field_of(place) for place in titles}
    # What is written down for files of a name counts for the row that has the title, and no other.
    fields |= candidate.settled.keys() | {
        name
        for name, title in shape.columns.items()
        if title and places_of(title, candidate.titles)
    }
    fields |= {*candidate.names, *(shape.groups or ()), shape.columns_are or ""}
    return "asset" in fields and ("amount" in fields or _has_amounts(candidate))


def _has_amounts(candidate: Candidate) -> bool:
    """Return whether a row names columns that are amounts together."""
    shape, titles = candidate.shape, candidate.titles
    if wanted := shape.amount_titles:
        return terms_of(wanted, titles) is not None
    roles = Counter(map(candidate.words.role_of, titles))
    return (
        bool(shape.columns_are and sum(map(bool, titles)) > 1)
        or min(roles["debit"], roles["credit"]) >= 1
        or roles["free"] + roles["locked"] > 1
        or bool(day_columns(candidate) or month_columns(candidate))
    )


def _header(candidate: Candidate) -> Header:
    columns = _columns(candidate)
    layers = layers_of(candidate, columns)
    columns["amount"] = layers[0].terms[0].place
    days = day_columns(candidate) or month_columns(candidate) if layers[0].day else {}
    return Header(
        row=candidate.row,
        depth=candidate.depth,
        fingerprint=candidate.fingerprint,
        titles=candidate.titles,
        columns=columns,
        shape=candidate.shape,
        words=candidate.words,
        layers=layers,
        names={name: text for name, text in candidate.names.items() if name not in columns},
        covers=candidate.covers,
        sign=sign_place(candidate),
        unit=unit_place(candidate),
        rows=row_places(candidate),
        profile=candidate.profile,
        days={place: day for day, places in days.items() for place in places},
        day=layers[0].day,
    )


def _columns(candidate: Candidate) -> dict[str, int]:
    """Return the column of each field but the amount."""
    settled = {**candidate.settled, **candidate.shape.columns}
    columns: dict[str, int] = {}
    for name in READ:
        is_label = name == candidate.shape.columns_are
        if name == "amount" or settled.get(name) == "" or is_label:
            continue
        place = column_of(candidate, name, settled.get(name))
        if place is not None:
            columns[name] = place
    return columns
