"""Rows of a ledger that need no care, taken in as columns: a million of them in a second.

They have a cell for each title, names that are there, and an amount in plain digits. All others are
read one by one (see `reading`), and so would these be, with the same result.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.config import Decimals
from warehouse.reconcile.dimensions import FIELDS, REQUIRED_NAMES
from warehouse.reconcile.ledger.amounts import Rules
from warehouse.reconcile.ledger.amounts_vectorised import amounts, is_plain
from warehouse.reconcile.ledger.header import Header
from warehouse.spreadsheet.reading.delimited_text import Cells


def plain_rows(
    cells: Cells,
    head: Header,
    rules: Rules,
    is_read: Sequence[bool] | None,
    is_name: Callable[[str, str], bool],
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """The numbers of such rows below the header, and their columns but for `file` and `line`.

    `is_read` says of every row whether its date is read, `is_name` of a field and a text whether it
    is surely a name.
    """
    decimals = rules.decimals or Decimals.POINT
    place = head.columns["amount"]
    rows, columns = cells.whole(head.row + 1, len(head.titles))
    kept = pc.and_(is_plain(columns[place], decimals), pc.not_equal(columns[place], _title(head)))
    if is_read is not None:
        kept = pc.and_(kept, pa.array(is_read, pa.bool_()).take(rows))
    for field in REQUIRED_NAMES:
        if field in head.columns:
            kept = pc.and_not(kept, _odd(columns[head.columns[field]], field, is_name))
    chosen = {field: columns[where].filter(kept) for field, where in head.columns.items()}
    rows = rows.filter(kept)
    texts, written = amounts(chosen["amount"], decimals)
    names = {field: chosen.get(field, pa.repeat("", len(rows))) for field in FIELDS}
    plain = pa.repeat(pa.scalar(value=False), len(rows))
    about = {"decimals": written, "is_number": plain, "unit": pa.repeat("", len(rows))}
    return rows, names | {"amount": texts} | about


def _title(head: Header) -> str:
    return head.titles[head.columns["amount"]]


def _odd(column: pa.Array, field: str, is_name: Callable[[str, str], bool]) -> pa.Array:
    odd = [text for text in pc.unique(column).to_pylist() if not is_name(field, text)]
    return pc.is_in(column, pa.array(odd, pa.string()))
