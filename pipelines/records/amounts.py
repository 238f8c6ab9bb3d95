"""Amounts: what text is one, what it is worth exactly, and columns of them.

An amount is decimal text (2.10): an optional sign, digits with an optional point, an optional
exponent within ±200. `.5`, `1e-8` and `-0` are amounts; `1_000`, ` 1`, `NaN`, digits of other
scripts, JSON numbers and texts of more than a thousand letters are not. Nothing here ever rounds.
"""

import decimal
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TYPE = pa.decimal128(38, 18)
EXPONENT_LIMIT = 200
LONGEST = 1000
# What Arrow casts exactly to DECIMAL(38,18): anything else it may wrap or refuse, so it is gated.
GATE = r"^-?[0-9]{1,20}(?:\.[0-9]{1,18})?$"
_GRAMMAR = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_PLACES = Decimal("1e-18")
_FITTING = decimal.Context(prec=38, traps=[decimal.Inexact, decimal.InvalidOperation])
# Wide enough for any sum of legal amounts; the traps make a lost digit impossible to miss.
EXACT = decimal.Context(
    prec=1_000_000,
    Emax=999_999,
    Emin=-999_999,
    traps=[decimal.Inexact, decimal.Overflow, decimal.InvalidOperation, decimal.Subnormal],
)


def parse(text: str) -> Decimal | None:
    """The exact value of an amount text, or None where the text is not an amount."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    exponent = match[3]
    if exponent is not None and _is_beyond_limit(exponent):
        return None
    return EXACT.create_decimal(text)


def _is_beyond_limit(exponent: str) -> bool:
    digits = exponent.lstrip("+-").lstrip("0")
    return len(digits) > len(str(EXPONENT_LIMIT)) or int(digits or "0") > EXPONENT_LIMIT


def fit_decimal(value: Decimal) -> Decimal | None:
    """The value as DECIMAL(38,18), or None where that type cannot hold it exactly."""
    try:
        return value.quantize(_PLACES, context=_FITTING)
    except (decimal.Inexact, decimal.InvalidOperation):
        return None


def exact_sum(values: Iterable[Decimal]) -> Decimal:
    """The sum to the last digit, of any amounts."""
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, value)
    return total


def own(text: str) -> Decimal:
    """The exact value of a sum that we wrote ourselves, however long; a foreign text may raise."""
    return EXACT.create_decimal(text)


def plain(value: Decimal) -> str:
    """A value as plain digits: no exponent, no trailing zeros after the point, `-0` is `0`."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    negative = text.startswith("-")
    digits = text.lstrip("+-")
    whole, point, fraction = digits.partition(".")
    digits = (whole.lstrip("0") or "0") + point + fraction
    return f"-{digits}" if negative and digits != "0" else digits


def replace_at(values: pa.Array, filled: dict[int, Any]) -> pa.Array:
    """A column with some of its values set by place."""
    places = sorted(filled)
    mask = np.zeros(len(values), dtype=bool)
    mask[places] = True
    replacements = pa.array([filled[place] for place in places], values.type)
    return pc.replace_with_mask(values, pa.array(mask), replacements)


def column(texts: pa.Array) -> tuple[pa.Array, list[int]]:
    """Texts as `DECIMAL(38,18)`, and the places of the texts that did not become a value.

    A text that passes the gate is cast by Arrow, the few others by Python; a text that is no
    amount, or an amount that the type cannot hold exactly, is NULL and its place is returned.
    """
    gated = pc.match_substring_regex(texts, GATE)
    if pc.all(gated).as_py() is not False:  # but for what is NULL
        return texts.cast(TYPE), []
    values = pc.if_else(gated, texts, pa.NULL).cast(TYPE)
    odd = pc.indices_nonzero(pc.fill_null(pc.invert(gated), fill_value=False)).to_pylist()
    filled = {}
    for place in odd:
        value = parse(texts[place].as_py())
        fitting = None if value is None else fit_decimal(value)
        if fitting is not None:
            filled[place] = fitting
    if filled:
        values = replace_at(values, filled)
    return values, [place for place in odd if place not in filled]
