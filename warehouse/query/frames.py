"""Rows of the book as data frames: every amount exact, whatever a tool does with decimals.

What has a twin `..._text` is taken from it, since a number is NULL where DECIMAL(38,18) cannot hold
it. In pandas an amount is an `ExactAmount`; polars and Arrow get its text, which they cannot add up
by mistake: their own decimals wrap beyond 38 digits. `exact_total` adds up all three.
"""

import importlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pandas as pd
import pyarrow as pa

from warehouse.contract.wording import count_of
from warehouse.exact import EXACT, exact, plain
from warehouse.query.exact_amount import ExactAmount, NotExact

TWIN = "_text"
# Amounts of two assets or of two nights are never one figure.
APART = ("snapshot_date", "asset_id", "is_custom_asset")
_NULLABLE = {pa.bool_(): pd.BooleanDtype()} | {
    kind: pd.Series([], dtype=name).dtype
    for kind, name in (
        *((pa.int8(), "Int8"), (pa.int16(), "Int16"), (pa.int32(), "Int32"), (pa.int64(), "Int64")),
        *((pa.uint8(), "UInt8"), (pa.uint16(), "UInt16"), (pa.uint32(), "UInt32")),
        (pa.uint64(), "UInt64"),
    )
}


def to_pandas(table: pa.Table, without_twin: frozenset[str] = frozenset()) -> pd.DataFrame:
    """Return a frame: amounts exact, days as datetimes, whole numbers that may be missing.

    `without_twin` are numbers that are NULL only where nothing is stated. Raises `NotExact` where
    another number is NULL and its text is not beside it.
    """
    frame = table.to_pandas(types_mapper=_NULLABLE.get, date_as_object=False)
    for name, values in _amounts(table, without_twin):
        frame[name] = pd.Series([_as_amount(value) for value in values], dtype=object)
    return frame


def to_texts(table: pa.Table, without_twin: frozenset[str] = frozenset()) -> pa.Table:
    """Return a table whose amounts are their texts, for Arrow and polars. Raises as `to_pandas`."""
    for name, values in _amounts(table, without_twin):
        texts = [None if value is None else plain(value) for value in values]
        table = table.set_column(
            table.column_names.index(name), name, pa.array(texts, type=pa.string())
        )
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


def _amounts(
    table: pa.Table, without_twin: frozenset[str]
) -> Iterator[tuple[str, list[Decimal | None]]]:
    """Yield each column of decimals with its exact values."""
    if len(set(table.column_names)) < len(table.column_names):
        raise ValueError(
            f"Two columns of the answer have one name: {', '.join(table.column_names)}. Give each "
            "its own with `as`."
        )
    for field in table.schema:
        if pa.types.is_decimal(field.type):
            values = table[field.name].to_pylist()
            if f"{field.name}{TWIN}" in table.column_names:
                texts = table[f"{field.name}{TWIN}"].to_pylist()
                values = [_twin(field.name, *pair) for pair in zip(values, texts, strict=True)]
            elif None in values and field.name not in without_twin:
                raise NotExact(
                    f"{field.name} is NULL in {count_of(values.count(None), 'row')}, which can "
                    "mean that DECIMAL(38,18) cannot hold the amount; a sum would leave it out. "
                    f"Select {field.name}{TWIN} beside it, or add up with exact_sum(...{TWIN})."
                )
            yield field.name, values


def _twin(name: str, number: Decimal | None, text: str | None) -> Decimal | None:
    value = None if text is None else exact(text)
    if number is not None and number != value:
        raise NotExact(
            f"{name} is {plain(number)} where {name}{TWIN} beside it is {text}: they are not the "
            "same amount. Name columns so that only an amount and its own text go together."
        )
    return value


def _as_amount(value: Decimal | None) -> ExactAmount | None:
    return None if value is None else ExactAmount(value)


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
