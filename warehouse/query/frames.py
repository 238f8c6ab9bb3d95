"""Rows of the book as data frames: every amount exact, whatever a tool does with decimals.

What has a twin `..._text` is taken from it, since a number is NULL where DECIMAL(38,18) cannot hold
it. In pandas an amount is an `ExactAmount`, and its text an `AmountText`, which refuses to be added
up. Polars and Arrow get the texts in the form of categories, which neither adds up: their own
decimals wrap beyond 38 digits, and their texts would be written one after the other.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.contract.book import BOOK
from warehouse.contract.model import and_more, count_of
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
_CELL = 15  # digits that a cell of Excel or LibreOffice keeps
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


class AmountSeries(pd.Series):  # type: ignore[misc]  # pandas has no types
    """A series whose amounts have an order: pandas ranks no objects, so it is told their ranks."""

    @property
    def _constructor(self) -> type["AmountSeries"]:
        return AmountSeries

    @property
    def _constructor_expanddim(self) -> type["AmountFrame"]:
        return AmountFrame

    def nlargest(self, n: int = 5, keep: Any = "first") -> Any:
        """Return the `n` largest, as of a series of numbers."""
        return self.iloc[_positions(self).nlargest(n, keep).index]

    def nsmallest(self, n: int = 5, keep: Any = "first") -> Any:
        """Return the `n` smallest, as of a series of numbers."""
        return self.iloc[_positions(self).nsmallest(n, keep).index]

    def to_excel(self, *given: Any, **options: Any) -> None:
        """Write a sheet, with a warning where a cell cannot hold an amount."""
        self.to_frame().to_excel(*given, **options)


class AmountFrame(pd.DataFrame):  # type: ignore[misc]  # pandas has no types
    """A frame whose amounts have an order, and which says when a spreadsheet rounds them."""

    @property
    def _constructor(self) -> type["AmountFrame"]:
        return AmountFrame

    @property
    def _constructor_sliced(self) -> type[AmountSeries]:
        return AmountSeries

    def nlargest(self, n: int, columns: Any, keep: Any = "first") -> Any:
        """Return the rows with the `n` largest values, as of a frame of numbers."""
        return self.iloc[self._positions(columns).nlargest(n, columns, keep).index]

    def nsmallest(self, n: int, columns: Any, keep: Any = "first") -> Any:
        """Return the rows with the `n` smallest values, as of a frame of numbers."""
        return self.iloc[self._positions(columns).nsmallest(n, columns, keep).index]

    def _positions(self, columns: Any) -> pd.DataFrame:
        names = [columns] if isinstance(columns, str) else list(columns)
        return pd.DataFrame({name: _positions(self[name]) for name in names})

    def to_excel(self, *given: Any, **options: Any) -> None:
        """Write a sheet, with a warning where a cell cannot hold an amount."""
        rounded = {
            str(name): value
            for name, column in self.items()
            for value in column
            if isinstance(value, Decimal) and len(value.normalize(EXACT).as_tuple().digits) > _CELL
        }
        if rounded:
            warnings.warn(
                f"A cell of a spreadsheet keeps {_CELL} digits, so amounts are rounded in "
                f"{and_more(list(rounded), 3)}, such as {next(iter(rounded.values()))}. Write "
                f"their texts too (total{TWIN}, or frame['total'].map(str)); `nightbook export "
                "--format xlsx` writes both.",
                RoundedCellsWarning,
                stacklevel=2,
            )
        super().to_excel(*given, **options)


class RoundedCellsWarning(UserWarning):
    """A spreadsheet was written in which amounts are rounded."""


def _positions(column: Any) -> Any:
    """Return a column by position, with ranks in place of amounts, which compare exactly."""
    if pd.api.types.infer_dtype(column) == "string" and isinstance(column.iloc[0], AmountText):
        column = amounts(column)
    is_exact = pd.api.types.infer_dtype(column) == "decimal"
    values = column.rank(method="dense") if is_exact else column
    return pd.Series(values.to_numpy(), name=column.name)


def to_pandas(answer: TypedAnswer) -> AmountFrame:
    """Return a frame: amounts exact, days as datetimes, whole numbers that may be missing.

    Raises `NotExact` where SQL rounded an amount on the way, or may have left one out.
    """
    frame = AmountFrame(answer.table.to_pandas(types_mapper=_NULLABLE.get, date_as_object=False))
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
    made = _addends(_values(texts), str(texts.name))
    return AmountSeries(made.to_numpy(), index=texts.index, name=texts.name, dtype=object)


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
    names = frame.column_names if isinstance(frame, pa.Table) else list(map(str, frame.columns))
    name = of or next((usual for usual in ("total", "amount") if usual in names), "")
    source = name if name in names else f"{name}{TWIN}"
    if missing := [column for column in (source, *by) if column not in names]:
        raise KeyError(
            f"the frame has no column {missing[0]!r}; it has {', '.join(names)}. Say which to "
            "add up with of=..., and what to group by with by=[...]."
        )
    given = pd.DataFrame(
        {column: _column(frame, column) for column in names if column in {*by, *APART}}
    )
    given[name] = _addends_of(frame, name, names)
    _require_alike(given, list(by))
    if not by:
        sums = [given[name].sum()] if len(given) else []
        totals = pd.DataFrame({name: pd.Series(sums, dtype=object)})
    else:
        grouped = given.groupby(list(by), sort=False, dropna=False, observed=True)
        totals = grouped[name].sum().reset_index()
    # pandas makes a whole 0 of a group without amounts.
    totals[name] = totals[name].map(ExactAmount).astype(object)
    totals[f"{name}{TWIN}"] = [str(total) for total in totals[name]]
    return AmountFrame(totals)


def _column(frame: Any, name: str) -> "pd.Series[Any]":
    """Return a column of a frame of any of the three kinds, by position."""
    if isinstance(frame, pd.DataFrame):
        return frame[name].reset_index(drop=True)
    column = frame[name]
    values = column.to_pylist() if isinstance(frame, pa.Table) else column.to_list()
    return pd.Series(values, dtype=object)


def _addends_of(frame: Any, name: str, names: Sequence[str]) -> "pd.Series[Any]":
    # Of a frame of ours the amounts count, as they may have been calculated with since; any other
    # number can be NULL for its size.
    text = f"{name}{TWIN}"
    column = _column(frame, name if name in names else text)
    twin = _column(frame, text) if text in names else None
    if _is_exact(column, twin):
        return column
    return _addends(_values(column), name) if twin is None else _addends(_values(twin), text)


def _is_exact(column: "pd.Series[Any]", twin: "pd.Series[Any] | None") -> bool:
    """Return whether a column has exact amounts alone, and one wherever its text has one."""
    if twin is not None and (column.isna() & twin.notna()).any():
        return False
    return column.dtype == object and all(
        value is None or isinstance(value, ExactAmount) for value in column
    )


def _values(column: "pd.Series[Any]") -> list[Any]:
    """Return the values of a column, None for what is missing: to pandas that is a float."""
    if not pd.api.types.is_float_dtype(column):  # in which it may be what a calculation came to
        column = column.astype(object).where(column.notna(), None)
    return list(column)


def _addends(values: Iterable[Any], source: str) -> "pd.Series[Any]":
    """Return the amounts of a column as objects that pandas adds up exactly."""
    made = [value if type(value) is ExactAmount else _addend(value, source) for value in values]
    column = np.empty(len(made), dtype=object)
    column[:] = made
    return pd.Series(column, dtype=object)


def _addend(value: Any, source: str) -> ExactAmount | None:
    if value is None:
        return None
    try:
        if isinstance(value, str | int | Decimal):
            return ExactAmount(EXACT.create_decimal(value))
    except InvalidOperation:
        pass
    raise NotExact(
        f"{source} has {value!r}, of {type(value).__name__}, which is no exact amount; nothing "
        f"was added up. Take amounts from open_book(), or their text, "
        f"{source.removesuffix(TWIN)}{TWIN}."
    )


def _require_alike(given: pd.DataFrame, by: list[str]) -> None:
    apart = [
        column
        for column in APART
        if column in given.columns and column not in by and (~given[column].duplicated()).sum() > 1
    ]
    if not apart:
        return
    kinds = given[[*by, *apart]].drop_duplicates()
    repeated = kinds[kinds.duplicated(by)] if by else kinds[1:]
    if len(repeated):
        group = tuple(repeated[by].iloc[0]) if by else ()
        which = f"The group {', '.join(map(str, group))}" if group else "The frame"
        raise NotExact(
            f"{which} has amounts of different {', '.join(apart)}, which are never added to each "
            f"other; nothing was added up. Group by them too: by={[*by, *apart]}."
        )
