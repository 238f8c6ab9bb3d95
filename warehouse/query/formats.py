"""Rows as people and programs read them: a table, CSV, JSON; every digit, and light to import.

No number on its way out passes through a float that was not one in the database.
"""

import csv
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from warehouse.exact import plain
from warehouse.query.printable import printable, printable_json

LARGEST_JSON_INTEGER = 2**53
_ENDING = "\r\n"


@dataclass(frozen=True, slots=True)
class _Lines:
    """What the writer of CSV writes to: it writes a line at a time."""

    write: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows as DuckDB gave them; `is_cut` says that there were more rows than asked."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool


def text(value: object) -> str:
    """Return one value as text: every digit of a number, times in UTC, nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, list | tuple | dict):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(value)


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(sep=" ")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ") + "Z"


def _plain(value: object) -> Any:
    """Return a value as JSON may hold it: what a reader would make a float of is text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else text(value)
    if isinstance(value, int) and abs(value) <= LARGEST_JSON_INTEGER:
        return value
    return text(value)


def as_csv(answer: Answer) -> str:
    """Return the answer as CSV with every digit, a line feed after each row; NULL is empty."""
    # The writer is left its own ending, so that any line break within a field puts that in quotes.
    lines: list[str] = []
    writer = csv.writer(_Lines(lines.append))
    writer.writerow(answer.columns)
    writer.writerows([text(value) for value in row] for row in answer.rows)
    return "".join(f"{line.removesuffix(_ENDING)}\n" for line in lines)


def as_json(answer: Answer) -> str:
    """Return the answer as a JSON array of objects; decimals are text."""
    return printable_json(json.dumps(_objects(answer), ensure_ascii=False, indent=1)) + "\n"


def as_jsonl(answer: Answer) -> str:
    """Return the answer as one JSON object a line."""
    lines = (json.dumps(row, ensure_ascii=False) for row in _objects(answer))
    return "".join(f"{printable_json(line)}\n" for line in lines)


def _objects(answer: Answer) -> list[dict[str, Any]]:
    names = distinct_names(answer.columns)
    return [dict(zip(names, map(_plain, row), strict=True)) for row in answer.rows]


def distinct_names(names: tuple[str, ...]) -> list[str]:
    """Return column names, numbered where one repeats: an object keeps one value a name."""
    distinct: list[str] = []
    for index, name in enumerate(names):
        free, number = name, 1
        while free in distinct or (number > 1 and free in names[index:]):
            number += 1
            free = f"{name}_{number}"
        distinct.append(free)
    return distinct


def as_table(answer: Answer) -> str:
    """Return the answer as a table for a terminal: numbers to the right, controls made visible."""
    cells = [[printable(text(value)) for value in row] for row in answer.rows]
    heads = [printable(name) for name in answer.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    right = [
        any(isinstance(row[n], int | float | Decimal) for row in answer.rows)
        for n in range(len(heads))
    ]

    def line(row: list[str]) -> str:
        aligned = zip(row, widths, right, strict=True)
        return "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in aligned
        ).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(heads), rule, *map(line, cells)]) + "\n"


FORMATS: Mapping[str, Callable[[Answer], str]] = {
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
    "jsonl": as_jsonl,
}
