"""Names that rows inherit from rows above, and questions about them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt

from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.titles import find_columns
from warehouse.reconcile.settings.toml import quote, quote_list, setting
from warehouse.reconcile.terms import FIELDS, REQUIRED_NAMES, Ambiguous, choices
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.text import as_text, first_text, text_at

Texts = npt.NDArray[np.object_]  # an array of strings, one for each row
_SEVERAL = 2

# Search only the first rows for a layout, because searching a million rows takes a second
# (measured).
_LOOKED_AT = 2000

_DIGITS = re.compile("[0-9]")


@dataclass(frozen=True, slots=True)
class RowLabels:
    """The names that rows inherit from the rows above, by field, and a mask of the label rows.

    The arrays have one item for each row below the header. If a row does not inherit a name, the
    item is an empty string.
    """

    names: Mapping[str, Texts] = dataclasses.field(default_factory=dict)
    is_label: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """A row that names a group: the group's name, and its dimension if known."""

    dimension: str
    name: str


def merged_blocks(head: Header, column: int) -> Iterator[tuple[slice, str]]:
    """Yield the text of each merged cell in a column, and the cell's rows except the first one.

    Rows are counted from the first row below the header. The cells' rows do not overlap. A ledger
    with 100,000 rows can have 100,000 merged cells.
    """
    grid = head.grid
    ranges = [
        (top, bottom, left)
        for (top, left), (bottom, right) in sorted(grid.merged)
        if head.row < top < len(grid.rows) and left <= column <= right
    ]
    for (top, bottom, left), (following, *_) in pairwise([*ranges, (len(grid.rows), 0, 0)]):
        first, last = max(top + 1, head.body), min(bottom, following)
        cells = grid.rows[top]
        text = as_text(cells[left]) if len(cells) > left else ""
        yield slice(first - head.body, max(first, last + 1) - head.body), text


def row_labels(head: Header) -> RowLabels:
    """Return the names that rows inherit from rows above.

    Raise `Ambiguous` if a person must decide.
    """
    shape = head.shape
    if shape.groups is None:
        _ask_for_groups(head)
    if shape.fill_down is None:
        _ask_to_fill_down(head)
    if not shape.groups and not shape.fill_down:
        return RowLabels()
    rows = head.grid.rows[head.body :]
    labels = [_group_label(cells, head) for cells in rows]
    is_label = np.array([label is not None for label in labels], bool)
    has_text = [bool(first_text(cells)) and not _is_total(cells, head) for cells in rows]
    is_row = ~is_label & np.array(has_text, bool)
    above = [label for label in _labels_above(head) if label.dimension in (shape.groups or ())]
    groups = [*_groups([*above, *labels], shape.groups or ())][len(above) :]
    names = {name: object_array(group.get(name, "") for group in groups) for name in FIELDS}
    is_new = np.zeros(len(rows), bool)
    places = np.arange(len(rows))
    for column, name in _filled_fields(head):
        texts = cell_texts(rows, column)
        is_named = is_row & (texts != "")
        named = np.maximum.accumulate(np.where(is_named, places, -1))
        # If a column further left has a new name, stop filling down this column.
        stopped = np.maximum.accumulate(np.where(is_new, places, 0))
        names[name] = np.where(named >= stopped, texts[named], names[name])
        is_new |= is_named
    return RowLabels({name: np.where(is_row, names[name], "") for name in names}, is_label)


def label_of(cells: Row, head: Header) -> Label | None:
    """Return the group that a row names, or None if it does not name a group."""
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    is_name = bool(texts) and any(letter.isalnum() for letter in texts[0])
    if not is_name or head.words.total_name(texts[0]) is not None:
        return None
    known = head.context.known
    title, _, name = texts[0].partition(":")
    dimension = head.words.field_of(title) or head.words.second_field_of(title)
    if len(texts) == 1 and isinstance(next(cell for cell in cells if as_text(cell).strip()), str):
        is_said = bool(name.strip()) and dimension in FIELDS
        text = name.strip() if is_said else texts[0].rstrip(":").strip()
        return Label(dimension if is_said else known.dimension_of(text), text)
    if len(texts) == _SEVERAL and dimension in FIELDS and texts[0].endswith(":"):
        return Label(dimension, texts[1])
    # In a compact pivot table, the asset column also contains the name of each group, next to the
    # total of the group.
    text = text_at(cells, head.columns.get("asset"))
    dimension = known.dimension_of(text) if text == texts[0] else ""
    if dimension not in ("", "asset") and not known.has("asset", text):
        return Label(dimension, text)
    return None


def _labels_above(head: Header) -> list[Label]:
    """Return the labels above the header, such as `Account: Alpha`."""
    labels = (_label_outside(cells, head) for cells in head.grid.rows[: head.row])
    return [label for label in labels if label is not None]


def _label_outside(cells: Row, head: Header) -> Label | None:
    """Return the group that a row outside the table names. The title may be in a cell without `:`.

    The result is None if the row does not name a group.
    """
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    title = f"{texts[0].rstrip(':')}:" if texts else ""
    return label_of([title, *texts[1:]] if len(texts) == _SEVERAL else cells, head)


def object_array(values: Iterable[object]) -> Texts:
    """Return the values as an array of objects."""
    return np.fromiter(values, object)


def _group_label(cells: Row, head: Header) -> Label | None:
    """Return the group that a row names, if recon.toml says that rows can name groups."""
    groups = head.shape.groups
    label = label_of(cells, head) if groups else None
    # If rows are not grouped by asset, a row with only an asset is a ledger row with a blank
    # amount.
    is_row = label is not None and label.dimension == "asset" and "asset" not in (groups or ())
    return None if is_row else label


def _groups(
    labels: Sequence[Label | None], dimensions: Sequence[str]
) -> Iterator[Mapping[str, str]]:
    """Yield each row's group names, by dimension."""
    group: dict[str, str] = {}
    for before, label in pairwise([None, *labels]):
        if label is not None:
            group = _enter_group(group, label, dimensions, is_nested=before is not None)
        yield group


def _filled_fields(head: Header) -> list[tuple[int, str]]:
    """Return the columns to fill down, from left to right, each with its field."""
    wanted = head.shape.fill_down or ()
    columns = {column for title in wanted for column in find_columns(title, head.titles)}
    return sorted(
        (column, name)
        for name, column in head.columns.items()
        if name in FIELDS and (column in columns or "*" in wanted)
    )


def _enter_group(
    group: Mapping[str, str], label: Label, dimensions: Sequence[str], *, is_nested: bool
) -> dict[str, str]:
    """Return the groups of the rows below a label.

    The label replaces its group and inner groups.
    """
    # A label with an unknown dimension is one level deeper than the label in the row above. If the
    # row above is not a label, the label gets the deepest level.
    dimension = label.dimension
    if dimension not in dimensions:
        depth = sum(name in group for name in dimensions) if is_nested else len(dimensions) - 1
        dimension = dimensions[min(depth, len(dimensions) - 1)]
    inside = dimensions[dimensions.index(dimension) :]
    outside = {name: text for name, text in group.items() if name not in inside}
    return {**outside, dimension: label.name}


def _is_total(cells: Row, head: Header) -> bool:
    return head.words.total_name(first_text(cells)) is not None


def _ask_for_groups(head: Header) -> None:
    """Raise `Ambiguous` if rows seem to name a dimension that has no column."""
    stated = {*head.fields, *head.covers, "bucket"}
    missing = [name for name in FIELDS if name not in stated]
    if not missing:
        return
    rows = head.grid.rows[head.body : head.body + _LOOKED_AT]
    sure: dict[str, str] = {}
    unsure = []
    for cells, below in pairwise(rows):
        label = label_of(cells, head)
        if label is None:
            continue
        if label.dimension in missing:
            sure.setdefault(label.dimension, label.name)
        elif not label.dimension and _has_amount(below, head):
            unsure.append(label.name)
    sure = _outer_names(head, missing, has_label=bool(sure or unsure)) | sure
    # Rows that differ only in their digits are lines like `Page 2`, not names.
    if not sure and len({_DIGITS.sub("", name) for name in unsure}) < _SEVERAL:
        return
    examples = ", ".join(map(repr, [*sure.values(), *unsure][:3]))
    if not sure:
        lines = [f"groups = [{quote(name)}]" for name in missing]
        raise Ambiguous(
            f"{head.location}: rows like {examples} do not have an amount. They may be "
            f"headings with the {' or the '.join(missing)} of the rows below them, because no "
            "column contains it. But the book does not contain these names.",
            choices(head.table, *lines, "groups = []   # these rows are only notes"),
        )
    raise Ambiguous(
        f"{head.location}: rows like {examples} do not have an amount. They seem to be "
        f"headings with the {' and the '.join(sure)} of the rows below them, because no column "
        "contains it.",
        f"{head.table}\ngroups = {quote_list(sure)}"
        "   # from the outermost to the innermost, or [] if these rows are only notes",
    )


def _names_outside(head: Header, missing: Sequence[str], rows: Iterable[Row]) -> dict[str, str]:
    """Return the book's names by dimension that are alone in rows outside the table."""
    known = head.context.known
    labels = (_label_outside(cells, head) for cells in rows)
    return {
        label.dimension: label.name
        for label in labels
        if label and label.dimension in missing and known.has(label.dimension, label.name)
    }


def _outer_names(head: Header, missing: Sequence[str], *, has_label: bool) -> dict[str, str]:
    """Return the names above the header. `has_label` is whether there are more between the rows.

    Raises `Ambiguous` if lines above or below a ledger's only table name all of its rows.
    """
    above = _names_outside(head, missing, head.grid.rows[: head.row])
    if has_label:
        return above
    filled = (cells for cells in reversed(head.grid.rows[head.body :]) if first_text(cells))
    below = _names_outside(head, missing, islice(filled, 1))
    names = {**below, **above}
    if not names:
        return {}
    groups = f"groups = {quote_list(names)}   # each file may have another name there"
    lines = [f"{setting(name, text)}   # compare only this part" for name, text in names.items()]
    raise Ambiguous(
        f"{head.location}: the line with {' and '.join(map(repr, names.values()))} above or below "
        f"the rows seems to be the {' and the '.join(names)} of all rows, because no column "
        "contains it.",
        (f"{choices(head.table, groups)}\n" if names == above else "")
        + choices(head.file_table, *lines),
    )


def _has_amount(cells: Row, head: Header) -> bool:
    return any(letter.isdigit() for letter in text_at(cells, head.columns["amount"]))


def _ask_to_fill_down(head: Header) -> None:
    """Raise `Ambiguous` if a column seems to name only the first row of each group."""
    titles = [
        head.title_of(head.columns[name])
        for name in REQUIRED_NAMES
        if name in head.columns and _is_left_out(head, head.columns[name])
    ]
    if titles:
        raise Ambiguous(
            f"{head.location}: the {' and '.join(map(repr, titles))} column is blank in some rows "
            "that have an amount, and no name is repeated in the column. Each name seems to apply "
            "to all rows down to the next name.",
            f"{head.table}\nfill_down = {quote_list(titles)}"
            "   # or [], if rows with a blank name must be rejected",
        )


def _is_left_out(head: Header, column: int) -> bool:
    """Return whether a column has blanks next to amounts, but never repeats the previous name."""
    rows = head.grid.rows[head.body : head.body + _LOOKED_AT]
    amount = head.columns["amount"]
    is_row = np.array(
        [text_at(row, amount) != "" and not _is_total(row, head) for row in rows], bool
    )
    for block, _ in merged_blocks(head, column):
        is_row[block] = False
    names = cell_texts(rows, column)[is_row]
    named = names[names != ""]
    is_repeated = (named[1:] == named[:-1]).any()
    starts_named = len(named) > 0 and names[0] != ""
    return bool(starts_named and not is_repeated and len(names) - len(named) >= _SEVERAL)


def cell_texts(cells: Iterable[Row], column: int | None) -> Texts:
    """Return a column's cells as stripped strings."""
    return object_array(text_at(row, column) for row in cells)
