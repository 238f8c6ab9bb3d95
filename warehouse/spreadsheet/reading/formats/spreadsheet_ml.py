"""Sheets of SpreadsheetML 2003, the flat XML of Excel, which also comes under the ending xls."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import IO

from warehouse.spreadsheet.reading.formats.flat_xml import NoSuchFormat, parse
from warehouse.spreadsheet.reading.formats.open_document import NO_VALUE, NUMBER
from warehouse.spreadsheet.reading.formats.sheet_rows import MOST_COLUMNS, MOST_ROWS, SheetRows


class SpreadsheetML:
    """The sheets of one workbook."""

    def __init__(self) -> None:
        self.sheets: list[SheetRows] = []
        self._path: list[str] = []
        self._column = 0  # of the columns that are declared
        self._row: Mapping[str, str] = {}
        self._cells: list[tuple[object, int]] = []
        self._place = 0
        self._cell: Mapping[str, str] = {}
        self._kind = ""
        self._letters: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the beginning of an element."""
        if not self._path and name != "Workbook":
            raise NoSuchFormat(f"its first element is {name[:40]!r}")
        self._path.append(name)
        if name == "Worksheet":
            self.sheets.append(SheetRows(attributes.get("Name", "")))
            self._column = 0
        elif name == "Column" and self._path[-2] == "Table":
            self._start_column(self.sheets[-1], attributes)
        elif name == "Row" and self._path[-2] == "Table":
            self._start_row(self.sheets[-1], attributes)
        elif name == "Cell" and self._path[-2] == "Row":
            self._start_cell(attributes)
        elif name == "Data" and self._path[-2] == "Cell":
            self._kind = attributes.get("Type", "String")

    def _start_column(self, sheet: SheetRows, attributes: Mapping[str, str]) -> None:
        first = _number(attributes, "Index", self._column + 1) - 1
        last = min(first + _number(attributes, "Span", 0), MOST_COLUMNS)
        if attributes.get("Hidden") == "1":
            sheet.hidden_columns.update(range(first, last + 1))
        self._column = last + 1

    def _start_row(self, sheet: SheetRows, attributes: Mapping[str, str]) -> None:
        above = _number(attributes, "Index", sheet.row + 1) - 1 - sheet.row
        if above < 0 or sheet.row + above >= MOST_ROWS:
            raise NoSuchFormat("its rows do not follow one another")
        sheet.skip(above)
        self._row, self._cells, self._place = attributes, [], 0

    def _start_cell(self, attributes: Mapping[str, str]) -> None:
        before = _number(attributes, "Index", self._place + 1) - 1 - self._place
        if before < 0 or self._place + before >= MOST_COLUMNS:
            raise NoSuchFormat("its cells do not follow one another")
        if before:
            self._cells.append(("", before))
        self._place += before
        self._cell, self._kind, self._letters = attributes, "", []

    def text(self, letters: str) -> None:
        """Take some letters: those within the data of a cell count, whatever their style."""
        is_data = "Data" in self._path and "Comment" not in self._path
        if is_data or self._path[-1:] == ["Visible"]:
            self._letters.append(letters)

    def end(self, name: str) -> None:
        """Take the end of an element."""
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if name == "Cell" and parent == "Row":
            self._end_cell(self.sheets[-1])
        elif name == "Row" and parent == "Table":
            sheet = self.sheets[-1]
            sheet.add(self._cells, 1, is_hidden=self._row.get("Hidden") == "1")
            sheet.skip(_number(self._row, "Span", 0))
        elif name == "Visible" and parent == "WorksheetOptions":
            self.sheets[-1].is_visible = "".join(self._letters).strip() == "SheetVisible"

    def _end_cell(self, sheet: SheetRows) -> None:
        text = "".join(self._letters)
        value: object = text
        if self._kind == "Error" or (not text and not self._kind and "Formula" in self._cell):
            value = text or NO_VALUE
            sheet.errors[sheet.row, self._place] = str(value)
        elif self._kind == "Number":
            value = float(text) if NUMBER.fullmatch(text) else text
        elif self._kind == "Boolean":
            value = text.strip() == "1"
        elif self._kind == "DateTime":
            value = _moment(text)
        across = _number(self._cell, "MergeAcross", 0)
        below = _number(self._cell, "MergeDown", 0)
        if across or below:
            sheet.merge(self._place, self._place + across, below)
        self._cells.append((value, 1))
        if across:
            self._cells.append(("", min(across, MOST_COLUMNS)))
        self._place += 1 + across
        self._letters = []


def read_spreadsheet_ml(file: IO[bytes]) -> list[SheetRows]:
    """Read the sheets of a workbook of SpreadsheetML."""
    workbook = SpreadsheetML()
    parse(file, workbook)
    return workbook.sheets


def _number(attributes: Mapping[str, str], name: str, default: int) -> int:
    text = attributes.get(name, "")
    return int(text) if re.fullmatch("[0-9]{1,7}", text) else default


def _moment(text: str) -> object:
    """Return a date and time, or the text where it is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text
