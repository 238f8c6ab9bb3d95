"""Results as tables, CSV and JSON, safe to print on a terminal."""

import csv
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from warehouse.exact import plain

MAX_JSON_INTEGER = 2**53
_LINE_END = "\r\n"
_GAP = "  "  # between two columns of a table
_MIN_WIDTH = 8  # the width to which a column of texts may be cut
_AMOUNT = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _LineSink:
    """A file-like object for the CSV writer, which writes one line at a time."""

    write: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Columns and rows from DuckDB. `is_cut` is true if there were more rows than the limit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool


def printable(text: str) -> str:
    """Return one line with unprintable characters escaped as in Python."""
    return _escape(text, lambda character: character.encode("unicode_escape").decode())


def printable_json(text: str) -> str:
    """Return equivalent JSON in which unprintable characters are escaped."""
    lines = text.split("\n")
    return "\n".join(_escape(line, lambda character: json.dumps(character)[1:-1]) for line in lines)


def _escape(line: str, escape: Callable[[str], str]) -> str:
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else escape(character) for character in line
    )


def text(value: object) -> str:
    """Format one value as a string: numbers with all digits, timestamps in UTC, "" for NULL."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, datetime):
        return _format_time(value)
    if isinstance(value, list | tuple | dict):
        return json.dumps(_json_value(value), ensure_ascii=False)
    return str(value)


def _format_time(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(sep=" ")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ") + "Z"


def _json_value(value: object) -> Any:
    """Convert a value for JSON. Decimals and very large integers become strings to stay exact."""
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else text(value)
    if isinstance(value, int) and abs(value) <= MAX_JSON_INTEGER:
        return value
    return text(value)


def as_csv(answer: QueryResult) -> str:
    """Format the result as CSV, with all digits and a line feed after each row. NULL is empty."""
    # Use the csv module's default line ending, so that the module quotes fields that contain any
    # kind of line break.
    lines: list[str] = []
    writer = csv.writer(_LineSink(lines.append))
    writer.writerow(answer.columns)
    writer.writerows([text(value) for value in row] for row in answer.rows)
    return "".join(f"{line.removesuffix(_LINE_END)}\n" for line in lines)


def as_json(answer: QueryResult, evidence: Mapping[str, Any] | None = None) -> str:
    """Format the result as a JSON array of objects. Decimals are strings.

    With `evidence`, return an object with the evidence and the array, which is called `rows`.
    """
    rows: Any = _objects(answer)
    content = rows if evidence is None else {"evidence": evidence, "rows": rows}
    return printable_json(json.dumps(content, ensure_ascii=False, indent=1)) + "\n"


def as_jsonl(answer: QueryResult) -> str:
    """Format the result as JSON lines, one object per row."""
    lines = (json.dumps(row, ensure_ascii=False) for row in _objects(answer))
    return "".join(f"{printable_json(line)}\n" for line in lines)


def _objects(answer: QueryResult) -> list[dict[str, Any]]:
    names = distinct_names(answer.columns)
    return [dict(zip(names, map(_json_value, row), strict=True)) for row in answer.rows]


def distinct_names(names: tuple[str, ...]) -> list[str]:
    """Number repeated column names, because the keys of an object must be distinct."""
    distinct: list[str] = []
    for index, name in enumerate(names):
        unused, number = name, 1
        while unused in distinct or (number > 1 and unused in names[index:]):
            number += 1
            unused = f"{name}_{number}"
        distinct.append(unused)
    return distinct


def as_table(answer: QueryResult, window: int | None = None) -> str:
    """Format the result as a terminal table and escape control characters.

    If a `window` is narrower than the table, cut long texts with an ellipsis. If the table is still
    wider, print one column per line. Numbers and amounts are never cut.
    """
    cells = [[printable(text(value)) for value in row] for row in answer.rows]
    heads = [printable(name) for name in answer.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    right = [
        any(isinstance(row[n], int | float | Decimal) for row in answer.rows)
        for n in range(len(heads))
    ]
    if window is not None:
        whole = [
            is_right or any(_AMOUNT.fullmatch(row[n]) for row in cells)
            for n, is_right in enumerate(right)
        ]
        widths = _narrow(widths, whole, window)
        if sum(widths) + len(_GAP) * (len(widths) - 1) > window:
            return _as_records(heads, cells)

    def line(row: list[str]) -> str:
        aligned = zip(row, widths, right, strict=True)
        return _GAP.join(
            _cut(cell, width).rjust(width) if is_right else _cut(cell, width).ljust(width)
            for cell, width, is_right in aligned
        ).rstrip()

    rule = _GAP.join("-" * width for width in widths)
    return "\n".join([line(heads), rule, *map(line, cells)]) + "\n"


def _narrow(widths: list[int], whole: list[bool], window: int) -> list[int]:
    """Reduce the widest columns that may be cut, one character at a time, to fit the window."""
    reduced = list(widths)
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - window
    for _ in range(excess):
        n = max(range(len(reduced)), key=lambda column: (not whole[column], reduced[column]))
        if whole[n] or reduced[n] <= _MIN_WIDTH:
            break
        reduced[n] -= 1
    return reduced


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def _as_records(heads: list[str], cells: list[list[str]]) -> str:
    width = max(map(len, heads))
    return "\n".join(
        f"-[ row {number} ]-\n"
        + "".join(
            f"{head.ljust(width)}  {cell}".rstrip() + "\n"
            for head, cell in zip(heads, row, strict=True)
        )
        for number, row in enumerate(cells, 1)
    )


def as_markdown(answer: QueryResult) -> str:
    """Format the result as a Markdown table."""
    rows = [answer.columns, *([text(value) for value in row] for row in answer.rows)]
    lines = [
        "".join(f"| {printable(cell).replace('|', chr(92) + '|')} " for cell in row) + "|"
        for row in rows
    ]
    lines.insert(1, "|---" * len(answer.columns) + "|")
    return "\n".join(lines) + "\n"


FORMATS: Mapping[str, Callable[[QueryResult], str]] = {
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
    "jsonl": as_jsonl,
    "markdown": as_markdown,
}


def printable_lines(text: str) -> str:
    """Return several lines with unprintable characters escaped as in Python."""
    return "\n".join(map(printable, text.split("\n")))
