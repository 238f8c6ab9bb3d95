"""Rows of the book as data frames: every amount exact, whatever a tool does with decimals.

What has a twin `..._text` is taken from it, since a number is NULL where DECIMAL(38,18) cannot hold
it. In pandas an amount is an `ExactAmount`, and its text an `AmountText`, which refuses to be added
up. Polars and Arrow get the texts in the form of categories, which neither adds up: their own
decimals wrap beyond 38 digits, and their texts would be written one after the other.
"""

import importlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.book import BOOK
from warehouse.contract.wording import count_of
from warehouse.exact import EXACT, exact, plain
from warehouse.query.exact_amount import (
    AMOUNT_PATTERN,
    AmountText,
    ExactAmount,
    NotExact,
)
from warehouse.query.origins import Origin

TWIN = "_text"
# Amounts of two assets or of two nights are never one figure.
APART = ("snapshot_date", "asset_id", "is_custom_asset")
# What names things is no amount, even where a name is written in digits.
_NAMES = frozenset(name for table in BOOK for name in table.key)
_FLOAT = re.compile(r"\b(DOUBLE|FLOAT)\b")
_DECIMAL = re.compile(r"DECIMAL\([0-9]+,[0-9]+\)")
_NUMERIC = re.compile(r"DECIMAL|HUGEINT|DOUBLE|FLOAT|VARCHAR")
_NULLABLE = {pa.bool_(): pd.BooleanDtype()} | {
    kind: pd.Series([], dtype=name).dtype
    for kind, name in (
        *((pa.int8(), "Int8"), (pa.int16(), "Int16"), (pa.int32(), "Int32"), (pa.int64(), "Int64")),
        *((pa.uint8(), "UInt8"), (pa.uint16(), "UInt16"), (pa.uint32(), "UInt32")),
        (pa.uint64(), "UInt64"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedAnswer:
    """The answer to a question, with DuckDB's type and the origin of each column.

    `has_gaps` tells whether the book has amounts, or sums of them, that no number holds.
    """

    table: pa.Table
    types: Sequence[str]
    origins: Sequence[Origin]
    has_gaps: Callable[[], bool]


def to_pandas(answer: TypedAnswer) -> pd.DataFrame:
    """Return a frame: amounts exact, days as datetimes, whole numbers that may be missing.

    Raises `NotExact` where SQL rounded an amount on the way, or may have left one out.
    """
    frame = answer.table.to_pandas(types_mapper=_NULLABLE.get, date_as_object=False)
    for name, values in _amounts(answer):
        # An array of objects, for pandas makes strings of its own of a list of texts.
        column = np.empty(len(values), dtype=object)
        column[:] = values
        frame[name] = pd.Series(column, dtype=object)
    return frame


def to_texts(answer: TypedAnswer) -> pa.Table:
    """Return a table whose amounts are texts, as categories. Raises as `to_pandas`."""
    table = answer.table
    for name, values in _amounts(answer):
        texts = [None if value is None else str(value) for value in values]
        column = pa.array(texts, type=pa.string()).dictionary_encode()
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def to_polars(table: pa.Table) -> Any:
    """Return a polars frame; raises `ModuleNotFoundError` with what to type where there is none."""
    try:
        polars = importlib.import_module("polars")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "polars is not installed here, and nightbook does not need it: `pip install polars`, "
            "or take .query() for pandas and .arrow() for Arrow.",
            name="polars",
        ) from None
    return polars.from_arrow(table)


def floats(amounts: "pd.Series[Any]") -> "pd.Series[float]":
    """Return amounts as floats of 15 digits, on purpose: for charts and statistics."""
    return amounts.map(lambda value: float(str(value)), na_action="ignore").astype(float)


def amounts(texts: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return texts of amounts as exact amounts, which can be added up; None stays None.

    Raises `NotExact` where a text is no amount, or a value is a float.
    """
    exact_amounts = np.empty(len(texts), dtype=object)
    exact_amounts[:] = [
        None if value is None else ExactAmount(_addend(value, str(texts.name)))
        for value in _values(texts)
    ]
    return pd.Series(exact_amounts, index=texts.index, name=texts.name, dtype=object)


Values = list[ExactAmount | None] | list[str | None]


def _amounts(answer: TypedAnswer) -> Iterator[tuple[str, Values]]:
    """Yield each column of amounts with its exact values, or with texts that are not added up."""
    table = answer.table
    if len(set(table.column_names)) < len(table.column_names):
        raise ValueError(
            f"Two columns of the answer have one name: {', '.join(table.column_names)}. Give each "
            "its own with `as`."
        )
    for field, kind, origin in zip(table.schema, answer.types, answer.origins, strict=True):
        name, column = field.name, table[field.name]
        _require_no_rounding(name, kind, origin)
        twin = f"{name}{TWIN}" in table.column_names and pa.types.is_decimal(field.type)
        if not twin and Origin.GAPPED in origin and _NUMERIC.match(kind):
            _require_no_gaps(name, origin, column.null_count, answer.has_gaps)
        if pa.types.is_decimal(field.type):
            values = column.to_pylist()
            if twin:
                texts = table[f"{name}{TWIN}"].to_pylist()
                values = [_twin(name, *pair) for pair in zip(values, texts, strict=True)]
            yield name, [None if value is None else ExactAmount(value) for value in values]
        elif pa.types.is_string(field.type) and (made := _of_texts(name, column, origin)):
            yield name, made


def _require_no_rounding(name: str, kind: str, origin: Origin) -> None:
    """Raise `NotExact` where a column was made of amounts by what may have rounded."""
    is_float = _FLOAT.search(kind) is not None
    is_nested = "DECIMAL" in kind and not _DECIMAL.fullmatch(kind)
    if is_nested and Origin.NUMBER in origin:
        raise NotExact(
            f"{name} has amounts inside a {kind[:60]}, which tools add up inexactly; nothing is "
            "returned. Select one amount per row: unnest it, or group in Python."
        )
    if (is_float and origin & (Origin.NUMBER | Origin.ROUNDED)) or (
        _DECIMAL.fullmatch(kind) and Origin.ROUNDED in origin
    ):
        raise NotExact(
            f"{name} was calculated from amounts with floats of 15 digits, as avg, median and / "
            f"do in SQL; nothing is returned. Select the amounts, or exact_sum(...{TWIN}) and "
            "count(*), and divide in Python, which is exact. If a float is meant, cast it and give "
            f"it a name of its own: `(...)::double as {name}_float`."
        )


def _require_no_gaps(name: str, origin: Origin, missing: int, has_gaps: Callable[[], bool]) -> None:
    """Raise `NotExact` where amounts that no number holds can be missing from a column."""
    if not (missing or Origin.SKIPPED in origin) or not has_gaps():
        return
    if Origin.SKIPPED in origin:
        raise NotExact(
            f"{name} may leave amounts out: this book has amounts that DECIMAL(38,18) cannot hold, "
            "which are NULL as numbers, and sum, max, coalesce and their like pass over NULL. "
            f"Calculate with the texts, `exact_sum(...{TWIN}) as {name}`, or select each amount "
            f"with its text beside it (amount, amount{TWIN}) and calculate in Python."
        )
    raise NotExact(
        f"{name} is NULL in {count_of(missing, 'row')}, which can mean that DECIMAL(38,18) cannot "
        f"hold the amount: this book has such amounts. Select {name}{TWIN} beside it, made of the "
        f"text in the same way (`lag(total{TWIN}) over (...) as {name}{TWIN}`); select what {name} "
        "is calculated from, each amount with its text, and calculate in Python; or add up with "
        f"exact_sum(...{TWIN})."
    )


def _of_texts(name: str, column: pa.ChunkedArray, origin: Origin) -> Values | None:
    """Return a column of texts as exact amounts, or as texts of amounts; None if it has none."""
    is_known = bool(origin & (Origin.TEXT | Origin.NUMBER))
    if name in _NAMES and not is_known:
        return None
    found = pc.match_substring_regex(column, f"^({AMOUNT_PATTERN})$")
    if not pc.any(found).as_py():
        return None
    texts = column.to_pylist()
    is_pure = pc.all(found).as_py()
    if is_known and is_pure and Origin.ROUNDED not in origin and not name.endswith(TWIN):
        return [None if text is None else ExactAmount(exact(text)) for text in texts]
    pairs = zip(texts, found.to_pylist(), strict=True)
    return [AmountText(text) if is_amount else text for text, is_amount in pairs]


def _twin(name: str, number: Decimal | None, text: str | None) -> Decimal | None:
    try:
        value = None if text is None else exact(text)
    except InvalidOperation as error:
        raise NotExact(
            f"{name}{TWIN} is {text!r}, which is not the text of an amount. Name columns so that "
            "only an amount and its own text go together."
        ) from error
    if number is not None and number != value:
        raise NotExact(
            f"{name} is {plain(number)} where {name}{TWIN} beside it is {text}: they are not the "
            "same amount. Name columns so that only an amount and its own text go together."
        )
    return value


def exact_total(frame: Any, by: Sequence[str] = (), of: str = "") -> pd.DataFrame:
    """Add up the amounts of a pandas, polars or Arrow frame for each value of the columns `by`.

    Returns `by`, the sums in `of` (by default `total`, or else `amount`) and their text in
    `..._text`. Raises `NotExact` where the amounts are floats or a group has several assets or
    nights, `KeyError` where there is no such column.
    """
    columns = _columns(frame)
    name = of or next((usual for usual in ("total", "amount") if usual in columns), "")
    source = f"{name}{TWIN}" if f"{name}{TWIN}" in columns else name
    if missing := [column for column in (source, *by) if column not in columns]:
        raise KeyError(
            f"the frame has no column {missing[0]!r}; it has {', '.join(columns)}. Say which to "
            "add up with of=..., and what to group by with by=[...]."
        )
    totals: dict[tuple[Any, ...], Decimal] = {}
    parts: dict[tuple[Any, ...], set[tuple[Any, ...]]] = defaultdict(set)
    apart = [column for column in APART if column in columns]
    groups = list(zip(*(columns[column] for column in by), strict=True)) if by else None
    kinds = list(zip(*(columns[column] for column in apart), strict=True)) if apart else None
    for number, value in enumerate(columns[source]):
        group = groups[number] if groups is not None else ()
        parts[group].add(kinds[number] if kinds is not None else ())
        totals[group] = EXACT.add(totals.get(group, Decimal(0)), _addend(value, source))
    _require_alike(parts, apart)
    sums = [ExactAmount(total) for total in totals.values()]
    keys = {column: [group[n] for group in totals] for n, column in enumerate(by)}
    return pd.DataFrame(
        {
            **keys,
            name: pd.Series(sums, dtype=object),
            f"{name}{TWIN}": [str(total) for total in sums],
        }
    )


def _columns(frame: Any) -> Mapping[str, Iterable[Any]]:
    """Return the columns of a frame of any of the three kinds, as lists of Python's values."""
    if isinstance(frame, pa.Table):
        return {name: frame[name].to_pylist() for name in frame.column_names}
    if isinstance(frame, pd.DataFrame):
        return {str(name): _values(frame[name]) for name in frame.columns}
    return {name: frame[name].to_list() for name in frame.columns}


def _values(column: "pd.Series[Any]") -> list[Any]:
    """Return the values of a column, None for what is missing: to pandas that is a float."""
    if not pd.api.types.is_float_dtype(column):  # in which it may be what a calculation came to
        column = column.astype(object).where(column.notna(), None)
    return list(column)


def _addend(value: Any, source: str) -> Decimal:
    if value is None:
        return Decimal(0)
    try:
        if isinstance(value, str | int | Decimal):
            return EXACT.create_decimal(value)
    except InvalidOperation:
        pass
    raise NotExact(
        f"{source} has {value!r}, of {type(value).__name__}, which is no exact amount; nothing "
        f"was added up. Take amounts from open_book(), or their text, "
        f"{source.removesuffix(TWIN)}{TWIN}."
    )


def _require_alike(parts: Mapping[tuple[Any, ...], set[Any]], apart: list[str]) -> None:
    for group, kinds in parts.items():
        if len(kinds) > 1:
            which = f"The group {', '.join(map(str, group))}" if group else "The frame"
            raise NotExact(
                f"{which} has amounts of {len(kinds)} different {', '.join(apart)}, which are "
                f"never added to each other; nothing was added up. Group by them too: by={apart}."
            )
