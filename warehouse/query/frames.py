"""Rows of the book as data frames with exact amounts.

If there is a column `..._text` next to an amount, the value is taken from that column, because the
number is NULL if DECIMAL(38,18) cannot hold it. In pandas, an amount is an `ExactAmount` and its
text is an `AmountText`, which cannot be added. Polars and Arrow receive decimals if no tool can
round or overflow their sum. All other amounts are a dictionary of strings in the order of the
amounts, which cannot be added. Adding plain strings would concatenate them.
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
    is_amount,
)

TEXT_SUFFIX = "_text"
# Amounts that differ in any of these columns are never added together, because they belong to
# different assets or nights.
SEPARATE_COLUMNS = ("snapshot_date", "asset_id", "is_custom_asset")
# Columns with IDs, which are not amounts even if they look like numbers.
_KEY_COLUMNS = frozenset(name for table in BOOK for name in table.key)
_FLOAT = re.compile(r"\b(DOUBLE|FLOAT)\b")
_DECIMAL = re.compile(r"DECIMAL\([0-9]+,[0-9]+\)")
_WIDEST = "DECIMAL(38,"  # the types of amounts, and of calculations with amounts
# A query asks for floats if it names a float type.
_FLOAT_WORD = re.compile(r"\b(?:double|real|float[48]?)\b", re.IGNORECASE)
# SQL that may return a rounded decimal: a conversion to a decimal, or a function that interpolates.
_ROUNDING = re.compile(
    r"\b(?:decimal|numeric|dec|median|mad|fill)\b|quantile(?!_disc)", re.IGNORECASE
)
# SQL that converts a number into a type in which a NULL or a gap is no longer noticed.
_CONVERSION = re.compile(r"\b(?:hugeint|varchar|text|string|char)\b", re.IGNORECASE)
# A call of `exact_sum`, and the name of its column.
_EXACT_SUM = re.compile(r"\bexact_sum\s*\([^()]*\)\s*(?:as\s+)?\"?(\w+)", re.IGNORECASE)
# Python rounds sums of decimals after 28 digits, and Arrow's and polars' overflow after 38.
_SAFE_DIGITS = 28
_CELL_DIGITS = 15  # number of digits that Excel and LibreOffice keep in a cell
_NULLABLE = {pa.bool_(): pd.BooleanDtype()} | {
    kind: pd.Series([], dtype=name).dtype
    for kind, name in (
        *((pa.int8(), "Int8"), (pa.int16(), "Int16"), (pa.int32(), "Int32"), (pa.int64(), "Int64")),
        *((pa.uint8(), "UInt8"), (pa.uint16(), "UInt16"), (pa.uint32(), "UInt32")),
        (pa.uint64(), "UInt64"),
    )
}

Values = list[ExactAmount | None] | list[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedResult:
    """A query result, the DuckDB type of each column, and the query.

    `numbers` contains the names of the book's decimal columns that have no text. `has_gaps` returns
    whether the book contains amounts or sums that do not fit in a DECIMAL.
    """

    table: pa.Table
    types: Sequence[str]
    sql: str
    numbers: frozenset[str]
    has_gaps: Callable[[], bool]


class AmountSeries(pd.Series):
    """A series with exact amounts that supports `nlargest` and `nsmallest`.

    pandas does not support these methods for columns of objects.
    """

    @property
    def _constructor(self) -> type["AmountSeries"]:
        return AmountSeries

    @property
    def _constructor_expanddim(self) -> type["AmountFrame"]:
        return AmountFrame

    def nlargest(self, n: int = 5, keep: Any = "first") -> Any:
        """Return the `n` largest values, as pandas does for numbers."""
        return self.iloc[_positions(self).nlargest(n, keep).index]

    def nsmallest(self, n: int = 5, keep: Any = "first") -> Any:
        """Return the `n` smallest values, as pandas does for numbers."""
        return self.iloc[_positions(self).nsmallest(n, keep).index]

    def to_excel(self, *given: Any, **options: Any) -> None:  # type: ignore[misc]  # final only in the stubs
        """Write a sheet, and warn if a cell cannot hold an amount."""
        self.to_frame().to_excel(*given, **options)


class AmountFrame(pd.DataFrame):
    """A frame that ranks exact amounts, and warns if a spreadsheet would round the amounts."""

    @property
    def _constructor(self) -> type["AmountFrame"]:
        return AmountFrame

    @property
    def _constructor_sliced(self) -> type[AmountSeries]:
        return AmountSeries

    def nlargest(self, n: int, columns: Any, keep: Any = "first") -> Any:
        """Return the rows with the `n` largest values, as pandas does for numbers."""
        return self.iloc[self._positions(columns).nlargest(n, columns, keep).index]

    def nsmallest(self, n: int, columns: Any, keep: Any = "first") -> Any:
        """Return the rows with the `n` smallest values, as pandas does for numbers."""
        return self.iloc[self._positions(columns).nsmallest(n, columns, keep).index]

    def _positions(self, columns: Any) -> pd.DataFrame:
        names = [columns] if isinstance(columns, str) else list(columns)
        return pd.DataFrame({name: _positions(self[name]) for name in names})

    def to_excel(self, *given: Any, **options: Any) -> None:  # type: ignore[misc]  # final only in the stubs
        """Write a sheet, and warn if a cell cannot hold an amount."""
        rounded = {
            str(name): value
            for name, column in self.items()
            for value in column
            if isinstance(value, Decimal)
            and len(value.normalize(EXACT).as_tuple().digits) > _CELL_DIGITS
        }
        if rounded:
            warnings.warn(
                f"A spreadsheet cell keeps only {_CELL_DIGITS} digits, so amounts are rounded in "
                f"{and_more(list(rounded), 3)}, such as {next(iter(rounded.values()))}. Write "
                f"exact strings too (total{TEXT_SUFFIX}, or frame['total'].map(str)); `nightbook "
                "export --format xlsx` writes both.",
                RoundedCellsWarning,
                stacklevel=2,
            )
        super().to_excel(*given, **options)


class RoundedCellsWarning(UserWarning):
    """A spreadsheet was written with rounded amounts."""


def to_pandas(answer: TypedResult) -> AmountFrame:
    """Return a frame with exact amounts, dates as datetimes, and nullable integers.

    Raises `NotExact` if SQL rounded an amount, or may have omitted one.
    """
    frame = AmountFrame(answer.table.to_pandas(types_mapper=_NULLABLE.get, date_as_object=False))
    for name, values in _amount_columns(answer):
        frame[name] = _object_series(values)
    return frame


def to_texts(answer: TypedResult) -> pa.Table:
    """Return a table with amounts as decimals or ordered strings.

    Raises the same errors as `to_pandas`.
    """
    table = answer.table
    for name, values in _amount_columns(answer):
        column = _safe_decimals(values) or _ordered_texts(values)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _safe_decimals(values: Values) -> pa.Array | None:
    """Return amounts as decimals, or None if a tool might round or overflow their sum."""
    amounts = [value for value in values if isinstance(value, ExactAmount)]
    if any(isinstance(value, AmountText) for value in values):
        return None
    total = sum(map(abs, amounts), start=ExactAmount(0))
    scale = max((-_exponent(amount) for amount in amounts), default=0)
    if total.adjusted() + 1 + scale > _SAFE_DIGITS or scale > _SAFE_DIGITS:
        return None
    return pa.array(values, type=pa.decimal128(38, scale))


def _exponent(amount: Decimal) -> int:
    return min(0, int(amount.normalize(EXACT).as_tuple().exponent))


def _ordered_texts(values: Values) -> pa.Array:
    """Return amounts as a dictionary of strings, in which smaller amounts come first."""
    texts = [None if value is None else str(value) for value in values]
    distinct = sorted({text for text in texts if text is not None}, key=_rank)
    places = {text: place for place, text in enumerate(distinct)}
    indices = pa.array([None if text is None else places[text] for text in texts], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(distinct, pa.string()), ordered=True)


def _rank(text: str) -> tuple[bool, Decimal, str]:
    """Return a sort key: strings that are not amounts come first, then amounts by value."""
    return (True, exact(text), text) if is_amount(text) else (False, Decimal(0), text)


def to_polars(table: pa.Table) -> Any:
    """Return a polars frame. Raises `ModuleNotFoundError` with advice if polars is missing."""
    try:
        polars = importlib.import_module("polars")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "polars is not installed, because nightbook does not require it. Run `pip install "
            "polars`, or use .query() for pandas or .arrow() for Arrow.",
            name="polars",
        ) from None
    frame = polars.from_arrow(table)
    # Polars ignores the order of a dictionary, unless the column is an Enum.
    categories = {
        field.name: table[field.name].unify_dictionaries().chunk(0).dictionary.to_pylist()
        for field in table.schema
        if pa.types.is_dictionary(field.type) and field.type.ordered
    }
    return frame.with_columns(
        polars.col(name).cast(polars.Enum(texts)) for name, texts in categories.items()
    )


def floats(amounts: "pd.Series[Any]") -> "pd.Series[float]":
    """Convert amounts to 15-digit floats, for charts and statistics."""
    return amounts.map(lambda value: float(str(value)), na_action="ignore").astype(float)


def amounts(texts: "pd.Series[Any]") -> "pd.Series[Any]":
    """Convert amount strings to exact amounts, which can be added. None stays None.

    Raises `NotExact` if a string is not an amount, or if a value is a float.
    """
    exact_amounts = _exact_amounts(_values(texts), str(texts.name))
    return AmountSeries(exact_amounts.to_numpy(), index=texts.index, name=texts.name, dtype=object)


def exact_total(frame: Any, by: Sequence[str] = (), of: str = "") -> pd.DataFrame:
    """Add up the amounts in a pandas, polars or Arrow frame, grouped by the columns `by`.

    Return a frame with the columns `by`, the sums of the column `of` (by default `total`, or
    `amount` if there is no `total`) and their text in `..._text`. Raises `NotExact` if the amounts
    are floats or a group has several assets or nights, and `KeyError` if a column is missing.
    """
    names = frame.column_names if isinstance(frame, pa.Table) else list(map(str, frame.columns))
    name = of or next((default for default in ("total", "amount") if default in names), "")
    source = name if name in names else f"{name}{TEXT_SUFFIX}"
    if missing := [column for column in (source, *by) if column not in names]:
        raise KeyError(
            f"the frame has no column {missing[0]!r}; it has {', '.join(names)}. Choose the "
            "column to add up with of=..., and the columns to group by with by=[...]."
        )
    addends = pd.DataFrame(
        {column: _column(frame, column) for column in names if column in {*by, *SEPARATE_COLUMNS}}
    )
    addends[name] = _addends(frame, name, names)
    _require_one_asset_and_night(addends, list(by))
    if not by:
        sums = [addends[name].sum()] if len(addends) else []
        totals = pd.DataFrame({name: pd.Series(sums, dtype=object)})
    else:
        grouped = addends.groupby(list(by), sort=False, dropna=False, observed=True)
        totals = grouped[name].sum().reset_index()
    # Convert every sum to `ExactAmount`, because pandas returns the integer 0 for a group without
    # amounts.
    totals[name] = totals[name].map(ExactAmount).astype(object)
    totals[f"{name}{TEXT_SUFFIX}"] = [str(total) for total in totals[name]]
    return AmountFrame(totals)


def _positions(column: Any) -> Any:
    """Replace a column's amounts with their ranks, and its index with row numbers."""
    if pd.api.types.infer_dtype(column) == "string" and isinstance(column.iloc[0], AmountText):
        column = amounts(column)
    is_exact = pd.api.types.infer_dtype(column) == "decimal"
    values = column.rank(method="dense") if is_exact else column
    return pd.Series(values.to_numpy(), name=column.name)


def _object_series(values: Sequence[Any]) -> "pd.Series[Any]":
    # Use a NumPy array of objects, because pandas would convert a list of strings to its own string
    # type.
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return pd.Series(column, dtype=object)


def _amount_columns(answer: TypedResult) -> Iterator[tuple[str, Values]]:
    """Yield each amount column's name and values: exact amounts, or text that cannot be added."""
    table = answer.table
    if len(set(table.column_names)) < len(table.column_names):
        raise ValueError(
            f"Two columns in the result have the same name: {', '.join(table.column_names)}. Give "
            "each column its own name with `as`."
        )
    for field, kind in zip(table.schema, answer.types, strict=True):
        name, column = field.name, table[field.name]
        has_text = f"{name}{TEXT_SUFFIX}" in table.column_names and pa.types.is_decimal(field.type)
        # A text replaces a rounded number, and NULL cannot be rounded.
        is_safe = has_text or column.null_count == len(column)
        _require_no_rounding(answer, name, kind, is_safe=is_safe)
        if kind.startswith(_WIDEST) and not has_text and name not in answer.numbers:
            _require_no_gaps(answer, name, column.null_count)
        elif kind == "HUGEINT" and _CONVERSION.search(answer.sql):
            _require_no_gaps(answer, name, 0)
        if pa.types.is_decimal(field.type):
            values = column.to_pylist()
            if has_text:
                texts = table[f"{name}{TEXT_SUFFIX}"].to_pylist()
                values = [_value_of_text(name, *pair) for pair in zip(values, texts, strict=True)]
            yield name, [None if value is None else ExactAmount(value) for value in values]
        elif pa.types.is_string(field.type) and (texts := _text_values(answer, name, column)):
            yield name, texts


def _require_no_rounding(answer: TypedResult, name: str, kind: str, *, is_safe: bool) -> None:
    """Raise `NotExact` if the type of a column, or the query, shows that it may be rounded."""
    if "DECIMAL" in kind and not _DECIMAL.fullmatch(kind):
        raise NotExact(
            f"{name} has amounts inside a {kind[:60]}, which tools do not add exactly; nothing is "
            "returned. Select one amount per row: unnest it, or group in Python."
        )
    is_doubtful = _DECIMAL.fullmatch(kind) is not None and not is_safe
    rounding = _ROUNDING.search(answer.sql) if is_doubtful else None
    if rounding is not None:
        problem = f"may be rounded, because the query contains {rounding[0]!r}"
    elif _FLOAT.search(kind) and not _FLOAT_WORD.search(answer.sql):
        problem = "was calculated with floats of 15 digits, as by avg, median and / in SQL"
    else:
        return
    raise NotExact(
        f"{name} {problem}; nothing is returned. Select the amounts with their texts, or "
        f"exact_sum(...{TEXT_SUFFIX}) and count(*), and calculate in Python, which is exact. If "
        "you want a float, such as a share, cast it and give it its own name: `(...)::double as "
        f"{name}_float`."
    )


def _require_no_gaps(answer: TypedResult, name: str, missing: int) -> None:
    """Raise `NotExact` if the book has amounts that a column without a text may omit."""
    if not answer.has_gaps():
        return
    if not missing:
        raise NotExact(
            f"{name} may omit amounts: this book has amounts that DECIMAL(38,18) cannot hold. They "
            "are NULL as numbers, and functions like sum, max and coalesce skip NULL. "
            f"Calculate with the texts, `exact_sum(...{TEXT_SUFFIX}) as {name}`, or select each "
            f"amount with its text (amount, amount{TEXT_SUFFIX}) and calculate in Python."
        )
    text_name = f"{name}{TEXT_SUFFIX}"
    raise NotExact(
        f"{name} is NULL in {count_of(missing, 'row')}. This book has amounts that DECIMAL(38,18) "
        f"cannot hold, so amounts may be missing. There are three remedies: "
        f"calculate {text_name} from a text column "
        f"(`lag(total{TEXT_SUFFIX}) over (...) as {text_name}`), or add up a text column with "
        f"exact_sum(...{TEXT_SUFFIX}), or select the columns that {name} is calculated from, "
        "together with their text columns, and calculate in Python."
    )


def _text_values(answer: TypedResult, name: str, column: pa.ChunkedArray) -> Values | None:
    """Convert a text column to `ExactAmount` or `AmountText`. Return None if it has no amounts."""
    named = name.casefold()
    is_sum = named.startswith("exact_sum(") or named in map(
        str.casefold, _EXACT_SUM.findall(answer.sql)
    )
    if name in _KEY_COLUMNS and not is_sum:
        return None
    matches = pc.match_substring_regex(column, f"^({AMOUNT_PATTERN})$")
    if not pc.any(matches).as_py():
        return None
    texts = column.to_pylist()
    if is_sum and not name.endswith(TEXT_SUFFIX) and pc.all(matches).as_py():
        return [None if text is None else ExactAmount(exact(text)) for text in texts]
    if not is_sum and _CONVERSION.search(answer.sql):
        _require_no_gaps(answer, name, 0)
    pairs = zip(texts, matches.to_pylist(), strict=True)
    return [AmountText(text) if is_amount else text for text, is_amount in pairs]


def _value_of_text(name: str, number: Decimal | None, text: str | None) -> Decimal | None:
    """Parse an amount string. Raises `NotExact` if the number in the same row differs."""
    try:
        value = None if text is None else exact(text)
    except InvalidOperation as error:
        raise NotExact(
            f"{name}{TEXT_SUFFIX} is {text!r}, which is not a valid amount. Use the name "
            f"{name}{TEXT_SUFFIX} only for the text of {name}."
        ) from error
    if number is not None and number != value:
        raise NotExact(
            f"{name} is {plain(number)} but {name}{TEXT_SUFFIX} in the same row is {text}: they "
            f"differ. Use the name {name}{TEXT_SUFFIX} only for the text of {name}."
        )
    return value


def _column(frame: Any, name: str) -> "pd.Series[Any]":
    """Return a column of a pandas, polars or Arrow frame, with row numbers as its index."""
    if isinstance(frame, pd.DataFrame):
        return frame[name].reset_index(drop=True)
    column = frame[name]
    values = column.to_pylist() if isinstance(frame, pa.Table) else column.to_list()
    return pd.Series(values, dtype=object)


def _addends(frame: Any, name: str, names: Sequence[str]) -> "pd.Series[Any]":
    # In frames from nightbook, use the exact amounts, because the user may have changed them. In
    # other frames, use the column with the text, because the column with numbers has NULL for
    # numbers that are too large.
    text_name = f"{name}{TEXT_SUFFIX}"
    column = _column(frame, name if name in names else text_name)
    texts = _column(frame, text_name) if text_name in names else None
    if _is_exact(column, texts):
        return column
    if texts is None:
        return _exact_amounts(_values(column), name)
    return _exact_amounts(_values(texts), text_name)


def _is_exact(column: "pd.Series[Any]", texts: "pd.Series[Any] | None") -> bool:
    """Return whether a column has only exact amounts, and one in every row that has a text."""
    if texts is not None and (column.isna() & texts.notna()).any():
        return False
    return column.dtype == object and all(
        value is None or isinstance(value, ExactAmount) for value in column
    )


def _values(column: "pd.Series[Any]") -> list[Any]:
    """Return a column's values, with None for missing values instead of pandas' NaN."""
    if not pd.api.types.is_float_dtype(
        column
    ):  # In a float column, NaN may be the result of a calculation, so do not replace it with None.
        column = column.astype(object).where(column.notna(), None)
    return list(column)


def _exact_amounts(values: Iterable[Any], source: str) -> "pd.Series[Any]":
    """Convert values to a series of exact amounts. Raises `NotExact` if a value is not exact."""
    return _object_series(
        [value if type(value) is ExactAmount else _exact_amount(value, source) for value in values]
    )


def _exact_amount(value: Any, source: str) -> ExactAmount | None:
    if value is None:
        return None
    try:
        if isinstance(value, str | int | Decimal):
            return ExactAmount(EXACT.create_decimal(value))
    except InvalidOperation:
        pass
    raise NotExact(
        f"{source} contains {value!r} of type {type(value).__name__}, which is not an exact "
        "amount; nothing was added up. Use amounts from open_book(), or their text, "
        f"{source.removesuffix(TEXT_SUFFIX)}{TEXT_SUFFIX}."
    )


def _require_one_asset_and_night(addends: pd.DataFrame, by: list[str]) -> None:
    """Raise `NotExact` if a group has amounts of several assets or nights."""
    mixed = [
        column
        for column in SEPARATE_COLUMNS
        if column in addends.columns
        and column not in by
        and (~addends[column].duplicated()).sum() > 1
    ]
    if not mixed:
        return
    kinds = addends[[*by, *mixed]].drop_duplicates()
    repeated = kinds[kinds.duplicated(by)] if by else kinds[1:]
    if len(repeated):
        values = tuple(repeated[by].iloc[0]) if by else ()
        group = f"The group {', '.join(map(str, values))}" if values else "The frame"
        raise NotExact(
            f"{group} has amounts of different {', '.join(mixed)}, which are never added to each "
            f"other; nothing was added up. Group by them too: by={[*by, *mixed]}."
        )
