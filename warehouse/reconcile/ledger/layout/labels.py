"""Names that stand above their rows: a line of its own, or a cell that is not repeated.

`groups = ["venue"]` makes a line with nothing but a name the venue of the lines below it;
`fill_down = ["Portfolio"]` makes a blank cell of that column mean the cell above it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.header.known_names import KnownNames
from warehouse.reconcile.ledger.header.titles import places_of
from warehouse.reconcile.ledger.layout.merged_cells import merged_cells
from warehouse.reconcile.settings.toml_table import quote
from warehouse.reconcile.terms.dimensions import FIELDS, REQUIRED_NAMES
from warehouse.reconcile.terms.errors import Ambiguous, choices
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import as_text, first_text, text_at

_SEVERAL = 2
_LOOKED_AT = 2000  # rows that show a layout: all of a million cost a second (measured)
_DIGITS = re.compile("[0-9]")


@dataclass(frozen=True, slots=True)
class RowLabels:
    """By row the names that it takes from above it, and which rows only name those below them."""

    names: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    label_rows: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.names)


@dataclass(frozen=True, slots=True)
class Label:
    """A line that names a group: its dimension, where that is sure, and the name."""

    dimension: str
    name: str


def row_labels(grid: Grid, head: Header, known: KnownNames, where: str) -> RowLabels:
    """Return the names that rows take from above; raise `Ambiguous` where it must be said."""
    shape = head.shape
    if shape.groups is None:
        _ask_for_groups(grid, head, known, where)
    if shape.fill_down is None:
        _ask_to_fill_down(grid, head, where)
    if not shape.groups and not shape.fill_down:
        return RowLabels()
    filled = _filled_fields(head)
    last: dict[str, str] = {}
    group: dict[str, str] = {}
    names: dict[int, dict[str, str]] = {}
    label_rows = set()
    for row in range(head.body, len(grid.rows)):
        cells = grid.rows[row]
        label = label_of(cells, head, known) if shape.groups else None
        if label is not None and label.dimension == "asset" and "asset" not in (shape.groups or ()):
            label = None  # a row of the ledger whose amount is blank: it is rejected, not lost
        if label is not None:
            _enter_group(group, label, shape.groups or (), is_nested=row - 1 in label_rows)
            label_rows.add(row)
        elif first_text(cells) and not _is_total(cells, head):
            _fill(last, cells, filled)
            names[row] = {**group, **last}
    return RowLabels(names, frozenset(label_rows))


def _filled_fields(head: Header) -> list[tuple[int, str]]:
    """Return the columns that are filled down, from left to right, with their fields."""
    wanted = head.shape.fill_down or ()
    places = {place for title in wanted for place in places_of(title, head.titles)}
    return sorted(
        (place, name)
        for name, place in head.columns.items()
        if name in FIELDS and (place in places or "*" in wanted)
    )


def _fill(last: dict[str, str], cells: Row, filled: Sequence[tuple[int, str]]) -> None:
    """Take in the names of a row; a new one on the left begins all on its right anew."""
    is_new = False
    for place, name in filled:
        if text := text_at(cells, place):
            last[name], is_new = text, True
        elif is_new:
            last.pop(name, None)


def _enter_group(
    group: dict[str, str], label: Label, dimensions: Sequence[str], *, is_nested: bool
) -> None:
    """Set the group of a label; those within it end."""
    # A label that does not say its dimension is one level deeper than the label right above it,
    # and otherwise of the deepest level.
    dimension = label.dimension
    if dimension not in dimensions:
        depth = sum(name in group for name in dimensions) if is_nested else len(dimensions) - 1
        dimension = dimensions[min(depth, len(dimensions) - 1)]
    for name in dimensions[dimensions.index(dimension) :]:
        group.pop(name, None)
    group[dimension] = label.name


def label_of(cells: Row, head: Header, known: KnownNames) -> Label | None:
    """Return what a line names that is no row of the ledger itself, or None."""
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    is_name = bool(texts) and any(letter.isalnum() for letter in texts[0])
    if not is_name or head.words.total_name(texts[0]) is not None:
        return None
    title, _, name = texts[0].partition(":")
    dimension = head.words.field_of(title) or head.words.also_field_of(title)
    if len(texts) == 1 and isinstance(next(cell for cell in cells if as_text(cell).strip()), str):
        is_said = bool(name.strip()) and dimension in FIELDS
        text = name.strip() if is_said else texts[0].rstrip(":").strip()
        return Label(dimension if is_said else known.dimension_of(text), text)
    if len(texts) == _SEVERAL and dimension in FIELDS and texts[0].endswith(":"):
        return Label(dimension, texts[1])
    # The compact form of a pivot table: the group stands where the asset does, with its total.
    text = text_at(cells, head.columns.get("asset"))
    dimension = known.dimension_of(text) if text == texts[0] else ""
    if dimension not in ("", "asset") and not known.has("asset", text):
        return Label(dimension, text)
    return None


def _is_total(cells: Row, head: Header) -> bool:
    return head.words.total_name(first_text(cells)) is not None


def _ask_for_groups(grid: Grid, head: Header, known: KnownNames, where: str) -> None:
    """Raise `Ambiguous` where lines name a dimension that no column says."""
    lacking = [name for name in FIELDS if name not in head.fields and name != "bucket"]
    if not lacking:
        return
    sure: dict[str, str] = {}
    unsure = []
    for row in range(head.body, min(len(grid.rows), head.body + _LOOKED_AT) - 1):
        label = label_of(grid.rows[row], head, known)
        if label is None:
            continue
        if label.dimension in lacking:
            sure.setdefault(label.dimension, label.name)
        elif not label.dimension and _has_amount(grid.rows[row + 1], head):
            unsure.append(label.name)
    # Lines that differ in their digits alone are pages of a report, and no names.
    if not sure and len({_DIGITS.sub("", name) for name in unsure}) < _SEVERAL:
        return
    examples = ", ".join(map(repr, [*sure.values(), *unsure][:3]))
    if not sure:
        lines = [f"groups = [{quote(name)}]" for name in lacking]
        raise Ambiguous(
            f"{where}: lines like {examples} have no amount of their own. They may name the "
            f"{' or the '.join(lacking)} of the lines below them, which no column says, but the "
            "book does not know these names.",
            choices(head.table, *lines, "groups = []   # these lines are only notes"),
        )
    raise Ambiguous(
        f"{where}: lines like {examples} have no amount of their own and seem to name the "
        f"{' and the '.join(sure)} of the lines below them, which no column says.",
        f"{head.table}\ngroups = [{', '.join(map(quote, sure))}]"
        "   # from the outer to the inner one; [] where these lines are only notes",
    )


def _has_amount(cells: Row, head: Header) -> bool:
    return any(letter.isdigit() for letter in text_at(cells, head.columns["amount"]))


def _ask_to_fill_down(grid: Grid, head: Header, where: str) -> None:
    """Raise `Ambiguous` where a column seems to name only the first row of each group."""
    titles = [
        head.title_of(head.columns[name])
        for name in REQUIRED_NAMES
        if name in head.columns and _is_left_out(grid, head, head.columns[name])
    ]
    if titles:
        raise Ambiguous(
            f"{where}: the column {' and '.join(map(repr, titles))} is blank in rows that have an "
            "amount, and no name in it is repeated: it seems to name only the first row of each "
            "group.",
            f"{head.table}\nfill_down = [{', '.join(map(quote, titles))}]"
            "   # or [], where rows with a blank are to be rejected",
        )


def _is_left_out(grid: Grid, head: Header, place: int) -> bool:
    """Return whether a column has blanks beside amounts, and never twice the same name in a row."""
    merged = merged_cells(grid, head)
    amount = head.columns["amount"]
    blanks, last = 0, ""
    for row in range(head.body, min(len(grid.rows), head.body + _LOOKED_AT)):
        cells = grid.rows[row]
        if not text_at(cells, amount) or merged.top_of(row, place) or _is_total(cells, head):
            continue
        name = text_at(cells, place)
        if not (name or last) or (name and name == last):
            return False
        blanks += not name
        last = name or last
    return blanks >= _SEVERAL
