"""Rows for programs: the output of a command with the same columns in every run."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from warehouse.query.formats import FORMATS, Answer


def print_records(output_format: str, columns: Sequence[str], records: Iterable[object]) -> None:
    """Print a row for each record. The values are its attributes with the names of the columns."""
    print_rows(
        output_format, columns, ([getattr(record, name) for name in columns] for record in records)
    )


def print_rows(output_format: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows in a format of `nightbook query`."""
    sys.stdout.write(
        FORMATS[output_format](Answer(tuple(columns), tuple(map(tuple, rows)), is_cut=False))
    )
