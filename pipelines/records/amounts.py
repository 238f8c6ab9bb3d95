"""Amounts: what text is one, what it is worth exactly, and columns of them.

An amount is decimal text (2.10): an optional sign, digits with an optional point, an optional
exponent within ±200. `.5`, `1e-8` and `-0` are amounts; `1_000`, ` 1`, `NaN`, digits of other
scripts, JSON numbers and texts of more than a thousand letters are not. Nothing here ever rounds.
"""

import contextlib
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.exact import exact, fit_decimal

TYPE = pa.decimal128(38, 18)
EXPONENT_LIMIT = 200
LONGEST = 1000
# What Arrow casts exactly to DECIMAL(38,18): anything else it may wrap or refuse, so it is gated.
GATE = r"^-?[0-9]{1,20}(?:\.[0-9]{1,18})?$"
_DIGITS, _SHORT, _MOST = b"0123456789.-", 20, 39  # 38 digits and a point
_GRAMMAR = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?", re.ASCII)


def parse(text: str) -> Decimal | None:
    """Return the exact value of an amount text, or None where the text is not an amount."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    exponent = match[3]
    if exponent is not None and _is_beyond_limit(exponent):
        return None
    return exact(text)


def _is_beyond_limit(exponent: str) -> bool:
    digits = exponent.lstrip("+-").lstrip("0")
    return len(digits) > len(str(EXPONENT_LIMIT)) or int(digits or "0") > EXPONENT_LIMIT


def replace_at(values: pa.Array, filled: dict[int, Any]) -> pa.Array:
    """Return a column with some of its values set by place."""
    places = sorted(filled)
    mask = np.zeros(len(values), dtype=bool)
    mask[places] = True
    replacements = pa.array([filled[place] for place in places], values.type)
    return pc.replace_with_mask(values, pa.array(mask), replacements)


def _are_digits(texts: pa.Array) -> bool:
    """Return whether all are digits, with a point if they are many: Arrow is exact or refuses."""
    # 38 digits wrap nowhere, nor do 20 before the point with the 18 places behind it.
    # All letters in one look: to match each text takes as long as to cast it.
    _, offsets, letters = texts.buffers()
    if letters is None:
        return True
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if bytes(memoryview(letters)[ends[0] : ends[-1]]).translate(None, _DIGITS):
        return False
    sizes = np.diff(ends)
    points = pc.find_substring(texts.filter(pa.array(sizes > _SHORT)), ".").drop_null().to_numpy()
    return bool(sizes.max(initial=0) <= _MOST and ((points >= 0) & (points <= _SHORT)).all())


def column(texts: pa.Array) -> tuple[pa.Array, list[int]]:
    """Return texts as `DECIMAL(38,18)`, and the places of the texts that did not become a value."""
    # A text that passes the gate is cast by Arrow, the few others by Python; a text that is no
    # amount, or an amount that the type cannot hold exactly, is NULL and its place is returned.
    # Arrow's cast alone refuses too many decimals, but takes `1e5` and wraps some long integers in
    # silence (27236604252364000000000 became 14014898688922922930.03...). Behind this pattern it
    # was fuzzed against Decimal on 15,764 texts: exact or NULL on all of them.
    if _are_digits(texts):
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(TYPE), []
    gated = pc.match_substring_regex(texts, GATE)
    if pc.all(gated).as_py() is not False:  # but for what is NULL
        return texts.cast(TYPE), []
    values = pc.if_else(gated, texts, pa.NULL).cast(TYPE)
    # The few others (exponents, signs, bare points) are read one by one in Python.
    places = pc.indices_nonzero(pc.fill_null(pc.invert(gated), fill_value=False)).to_pylist()
    filled = {}
    for place in places:
        value = parse(texts[place].as_py())
        fitting = None if value is None else fit_decimal(value)
        if fitting is not None:
            filled[place] = fitting
    if filled:
        values = replace_at(values, filled)
    return values, [place for place in places if place not in filled]
