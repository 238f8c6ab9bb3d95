"""Amounts in plain digits, a whole column at once: read exactly as `amounts` reads them one by one.

Plain are a minus, digits without a needless zero, and decimals: nothing grouped, nothing beside it.
"""

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.config import Decimals

_LONGEST = 400
_WHOLE = "-?(?:0|[1-9][0-9]*)"
_MARKS = {Decimals.POINT: ".", Decimals.COMMA: ","}
# What the other convention reads as thousands, so that it says nothing of the column.
_UNSURE = "^-?[1-9][0-9]{0,2}[.,][0-9]{3}$"


def is_plain(cells: pa.Array, decimals: Decimals) -> pa.Array:
    """Which texts are amounts in plain digits with these decimals."""
    found = pc.match_substring_regex(cells, f"^{_WHOLE}(?:[{_MARKS[decimals]}][0-9]+)?$")
    return pc.and_(found, pc.less_equal(pc.binary_length(cells), _LONGEST))


def amounts(cells: pa.Array, decimals: Decimals) -> tuple[pa.Array, pa.Array]:
    """Plain texts in the one form of equal amounts, and how many decimals each was written with."""
    texts = pc.replace_substring(cells, _MARKS[decimals], ".")
    point = pc.find_substring(texts, ".")
    has_part = pc.greater_equal(point, 0)
    part = pc.subtract(pc.binary_length(texts), pc.add(point, 1))
    kept = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    found = pc.if_else(has_part, kept, texts)
    found = pc.if_else(pc.equal(found, "-0"), "0", found)
    return found, pc.if_else(has_part, part, 0).cast(pa.int32())


def telling(cells: pa.Array) -> list[str]:
    """The few texts of a column that say how its amounts are written, in their order.

    Of plain ones, the first of each kind: the others say the same.
    """
    kept = pc.not_equal(cells, "")
    unsure = pc.match_substring_regex(cells, _UNSURE)
    firsts = [pc.index(unsure, pa.scalar(value=True)).as_py()]
    for decimals, mark in _MARKS.items():
        plain = is_plain(cells, decimals)
        kept = pc.and_not(kept, plain)
        sure = pc.and_not(pc.and_(plain, pc.match_substring(cells, mark)), unsure)
        firsts.append(pc.index(sure, pa.scalar(value=True)).as_py())
    rows = {*pc.indices_nonzero(kept).to_pylist(), *firsts} - {-1}
    told: list[str] = cells.take(pa.array(sorted(rows), pa.int64())).to_pylist()
    return told
