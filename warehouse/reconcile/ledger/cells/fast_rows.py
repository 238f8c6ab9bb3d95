"""Read the rows of a ledger that need no care as columns: a million of them in a second.

They have a cell for each title, names that are there, and an amount in plain digits: a minus,
digits without a needless zero, decimals, nothing grouped and nothing beside it. All others are read
one by one (`rows`, `amounts`), and so would these be, with the same result.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.ledger.cells.amounts import Rules
from warehouse.reconcile.ledger.header.amount_columns import Layer
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.settings.shape import Decimals
from warehouse.reconcile.terms.dimensions import FIELDS, REQUIRED_NAMES

_LONGEST = 400
_WHOLE = "-?(?:0|[1-9][0-9]*)"
_MARKS = {Decimals.POINT: ".", Decimals.COMMA: ","}
# What the other convention reads as thousands, so that it says nothing of the column.
_UNSURE = "^-?[1-9][0-9]{0,2}[.,][0-9]{3}$"


Whole = tuple[pa.Array, Sequence[pa.Array]]  # numbers of rows, and their columns


def plain_rows(
    whole: Whole,
    head: Header,
    layer: Layer,
    rules: Rules,
    *,
    is_read: Sequence[bool] | None,
    is_name: Callable[[str], bool],
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Return the numbers of such rows below the header, and their columns without `file`, `line`.

    `whole` are the rows that have a cell for each title, which serve each layer. `is_read` says of
    every row whether its date is read, `is_name` of a text whether it is surely a name.
    """
    decimals = rules.decimals or Decimals.POINT
    place = layer.terms[0].place
    rows, columns = whole
    # A header that is repeated on each page is no row; its amount would be the title.
    is_amount = pc.not_equal(columns[place], head.titles[place])
    is_plain_row = pc.and_(is_plain(columns[place], decimals), is_amount)
    if is_read is not None:
        is_plain_row = pc.and_(is_plain_row, pa.array(is_read, pa.bool_()).take(rows))
    for field in REQUIRED_NAMES:
        if field in head.columns:
            # Each different name is judged once: a column has few of them, and a million cells.
            column = columns[head.columns[field]]
            odd = [text for text in pc.unique(column).to_pylist() if not is_name(text)]
            is_plain_row = pc.and_not(is_plain_row, pc.is_in(column, pa.array(odd, pa.string())))
    chosen = {field: columns[where].filter(is_plain_row) for field, where in head.columns.items()}
    rows = rows.filter(is_plain_row)
    names = {**head.names, **layer.names}
    texts, written = amounts(columns[place].filter(is_plain_row), decimals)
    return rows, {
        **{
            field: chosen[field] if field in chosen else pa.repeat(names.get(field, ""), len(rows))
            for field in FIELDS
        },
        "amount": texts,
        "decimals": written,
        "is_number": pa.repeat(pa.scalar(value=False), len(rows)),
        "unit": pa.repeat("", len(rows)),
    }


def is_plain(cells: pa.Array, decimals: Decimals) -> pa.Array:
    """Return which texts are amounts in plain digits with these decimals."""
    matches = pc.match_substring_regex(cells, f"^{_WHOLE}(?:[{_MARKS[decimals]}][0-9]+)?$")
    return pc.and_(matches, pc.less_equal(pc.binary_length(cells), _LONGEST))


def amounts(cells: pa.Array, decimals: Decimals) -> tuple[pa.Array, pa.Array]:
    """Return plain texts in the one form of equal amounts, and with how many decimals each was."""
    mark = _MARKS[decimals]
    texts = cells if mark == "." else pc.replace_substring(cells, mark, ".")
    point = pc.find_substring(texts, ".")
    has_part = pc.greater_equal(point, 0)
    part = pc.subtract(pc.binary_length(texts), pc.add(point, 1))
    plain = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    # To choose between two texts is to copy them all, so it is done where there is a choice.
    if not pc.all(has_part).as_py():
        plain = pc.if_else(has_part, plain, texts)
    is_less_zero = pc.equal(plain, "-0")
    if pc.any(is_less_zero).as_py():
        plain = pc.if_else(is_less_zero, "0", plain)
    return plain, pc.if_else(has_part, part, 0).cast(pa.int32())


def telling_cells(cells: pa.Array) -> list[str]:
    """Return the few texts of a column that say how its amounts are written, in their order."""
    # Of plain ones the first of each kind is enough, for the others say the same: one that both
    # conventions can read, and one that only the point, or only the comma, can explain.
    is_unclear = pc.not_equal(cells, "")
    unsure = pc.match_substring_regex(cells, _UNSURE)
    firsts = [pc.index(unsure, pa.scalar(value=True)).as_py()]
    for decimals, mark in _MARKS.items():
        has_mark = pc.match_substring(cells, mark)
        if decimals is Decimals.COMMA and not pc.any(has_mark).as_py():
            continue  # whole numbers, which are plain with points too
        plain = is_plain(cells, decimals)
        is_unclear = pc.and_not(is_unclear, plain)
        sure = pc.and_not(pc.and_(plain, has_mark), unsure)
        firsts.append(pc.index(sure, pa.scalar(value=True)).as_py())
    rows = {*pc.indices_nonzero(is_unclear).to_pylist(), *firsts} - {-1}
    texts: list[str] = cells.take(pa.array(sorted(rows), pa.int64())).to_pylist()
    return texts
