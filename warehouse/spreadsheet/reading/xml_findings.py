"""What a reader of spreadsheets does not tell: error cells, formulas without a value, hidden rows.

Error cells come out of the reader as empty, and an empty amount must not be taken for nothing.
"""

import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape

_PREFIX = rb"<(?:\w+:)?"
_CELL = re.compile(_PREFIX + rb"c\b([^>]*?)(?:/>|>(.*?)</(?:\w+:)?c>)", re.DOTALL)
_PLACE = re.compile(rb'\br="([A-Z]{1,3})([0-9]{1,7})"')
_VALUE = re.compile(_PREFIX + rb"v\b(?:[^>]*/>|[^>]*>([^<]*)<)")
_FORMULA = re.compile(_PREFIX + rb"f\b")
_HIDDEN = re.compile(_PREFIX + rb'row\b[^>]*\bhidden="(?:1|true)"')
_COLUMNS = re.compile(_PREFIX + rb"col\b([^>]*)>")
_SPAN = re.compile(rb'\b(min|max)="([0-9]{1,5})"')
_SHEET = re.compile(r"<(?:\w+:)?sheet\b[^>]*>")
_RELATION = re.compile(r"<(?:\w+:)?Relationship\b[^>]*>")
_MOST_HIDDEN = 1000


@dataclass(frozen=True, slots=True)
class SheetFindings:
    """Cells, by row and column from 0, that hold an error or no value; rows and columns hidden."""

    errors: Mapping[tuple[int, int], str] = field(default_factory=dict)
    hidden_rows: int = 0
    hidden_columns: frozenset[int] = frozenset()


def findings(names: zipfile.ZipFile) -> dict[str, SheetFindings]:
    """Return findings by sheet of OpenXML."""
    try:
        book = names.read("xl/workbook.xml").decode("utf-8", "replace")
        relations = names.read("xl/_rels/workbook.xml.rels").decode("utf-8", "replace")
    except KeyError:
        return {}
    # A sheet is named in one part, its file in another; the relation between them is an id.
    targets = {}
    for tag in _RELATION.findall(relations):
        targets[_attribute(tag, "Id")] = _attribute(tag, "Target")
    by_sheet = {}
    for tag in _SHEET.findall(book):
        target = targets.get(_attribute(tag, r"\w+:id"), "")
        path = posixpath.normpath(posixpath.join("xl", target)) if target else ""
        path = target.lstrip("/") if target.startswith("/") else path
        if path in names.namelist():
            by_sheet[unescape(_attribute(tag, "name"))] = _scan(names.read(path))
    return by_sheet


def _attribute(tag: str, name: str) -> str:
    match = re.search(rf'\s{name}\s*=\s*(?:"([^"]*)"|\'([^\']*)\')', tag)
    return (match[1] or match[2] or "") if match else ""


def _scan(xml: bytes) -> SheetFindings:
    # A plain search decides whether the cells are looked at at all: most sheets have
    # neither errors nor formulas.
    hidden = len(_HIDDEN.findall(xml)) if b"hidden=" in xml else 0
    columns = frozenset(_hidden_columns(xml)) if b"hidden=" in xml else frozenset()
    if b't="e"' not in xml and b"<f" not in xml and b":f" not in xml:
        return SheetFindings({}, hidden, columns)
    errors = {}
    for cell in _CELL.finditer(xml):
        attributes, inside = cell[1], cell[2] or b""
        reference = _PLACE.search(attributes)
        if reference is None:
            continue
        value = _VALUE.search(inside)
        text = (value[1] or b"").decode("utf-8", "replace") if value else ""
        # A formula may come to the empty text: a text of no letters is a value.
        is_blank_text = value is not None and b't="str"' in attributes
        if b't="e"' in attributes:
            errors[_at(reference)] = text or "error"
        elif not text and not is_blank_text and _FORMULA.search(inside):
            errors[_at(reference)] = "a formula without a value: open the file and save it once"
    return SheetFindings(errors, hidden, columns)


def _hidden_columns(xml: bytes) -> Iterator[int]:
    """Yield the columns that a sheet hides, from 0; of thousands at its right end only some."""
    for column in _COLUMNS.finditer(xml):
        if b'hidden="1"' in column[1] or b'hidden="true"' in column[1]:
            span = {name: int(number) for name, number in _SPAN.findall(column[1])}
            first = span.get(b"min", 1)
            yield from range(first - 1, min(span.get(b"max", first), first + _MOST_HIDDEN))


def _at(reference: re.Match[bytes]) -> tuple[int, int]:
    column = 0
    for letter in reference[1]:
        column = column * 26 + letter - ord("A") + 1
    return int(reference[2]) - 1, column - 1
