"""Facts about an xlsx file's sheets that calamine does not report.

calamine returns error cells as empty cells, but an empty amount must not count as zero. It also
does not report hidden rows, number formats that show thousands, or formulas without a value.
"""

import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import unescape

from warehouse.spreadsheet.reading.formulas import CalculatedSheet, FormulaCell, column_of
from warehouse.spreadsheet.reading.xml_workbooks import NO_VALUE, NOT_CALCULATED

_PREFIX = rb"<(?:\w+:)?"
_CELL = re.compile(_PREFIX + rb"c\b([^>]*?)(?:/>|>(.*?)</(?:\w+:)?c>)", re.DOTALL)
_REFERENCE_OF_CELL = re.compile(rb'\br="([A-Z]{1,3})([0-9]{1,7})"')
_VALUE = re.compile(_PREFIX + rb"v\b(?:[^>]*/>|[^>]*>([^<]*)<)")
_FORMULA = re.compile(_PREFIX + rb"f\b([^>]*?)(?:/>|>([^<]*)<)")
_COPIED = re.compile(rb'\bsi="([0-9]{1,9})"')
_NUMBER = re.compile(rb"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_ASKS_TO_CALCULATE = re.compile(rb'\bfullCalcOnLoad="(?:1|true)"')
_MAX_CALCULATED = 64_000_000  # the largest sheet in which formulas are checked, in bytes
_HIDDEN = re.compile(_PREFIX + rb'row\b[^>]*\bhidden="(?:1|true)"')
_COLUMNS = re.compile(_PREFIX + rb"col\b([^>]*)>")
_SPAN = re.compile(rb'\b(min|max)="([0-9]{1,5})"')
_BOOK = "xl/workbook.xml"
_SHEET = re.compile(r"<(?:\w+:)?sheet\b[^>]*>")
_RELATION = re.compile(r"<(?:\w+:)?Relationship\b[^>]*>")
_MAX_HIDDEN = 1000
_FORMAT = re.compile(r"<(?:\w+:)?numFmt\b[^>]*>")
_STYLES = re.compile(r"<(?:\w+:)?cellXfs\b.*?</(?:\w+:)?cellXfs>", re.DOTALL)
_STYLE = re.compile(r"<(?:\w+:)?xf\b[^>]*>")
_STYLE_OF_CELL = re.compile(rb'\bs="([0-9]{1,6})"')
_LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|_.|\*.')

# In a number format, each comma after the last digit divides by 1,000.
_SCALED = re.compile("[0#?],+(?![0#?,])")


@dataclass(frozen=True, slots=True)
class SheetFindings:
    """A sheet's error cells (by row and column index), hidden columns, and number of hidden rows.

    Formulas without a value count as error cells, and so do formulas that the workbook asks to
    calculate, if their stored values cannot be proved. `scaled` maps the index of each column that
    shows its numbers in thousands or millions to the number format.
    """

    errors: Mapping[tuple[int, int], str] = field(default_factory=dict)
    hidden_rows: int = 0
    hidden_columns: frozenset[int] = frozenset()
    scaled: Mapping[int, str] = field(default_factory=dict)


def findings(names: zipfile.ZipFile) -> dict[str, SheetFindings]:
    """Return the findings by sheet name, or an empty dict if the file is not OpenXML."""
    paths = sheet_paths(names)
    if not paths:
        return {}
    # Do not check formulas if `fullPrecision` is off. Programs then add up rounded numbers, so even
    # a correct total may look stale.
    book = names.read(_BOOK)
    is_calculated = b'fullPrecision="0"' not in book
    # Programs that cannot calculate store 0 or an old value, and ask for a calculation.
    must_prove = bool(_ASKS_TO_CALCULATE.search(book))
    scaled = _scaled_styles(names)
    by_sheet = {}
    for name, path in paths.items():
        xml = names.read(path)
        columns = _scaled_columns(xml, scaled) if scaled else {}
        found = _scan(xml, is_calculated=is_calculated, must_prove=must_prove)
        by_sheet[name] = replace(found, scaled=columns)
    return by_sheet


def sheet_paths(names: zipfile.ZipFile) -> dict[str, str]:
    """Map each sheet name in an OpenXML workbook to the path of its XML part."""
    try:
        book = names.read(_BOOK).decode("utf-8", "replace")
        relations = names.read("xl/_rels/workbook.xml.rels").decode("utf-8", "replace")
    except KeyError:
        return {}
    # In the workbook, one part lists the names of the sheets, and a different part lists their
    # files. IDs connect the two lists.
    targets = {}
    for tag in _RELATION.findall(relations):
        targets[_attribute(tag, "Id")] = unescape(_attribute(tag, "Target"))
    paths = {}
    for tag in _SHEET.findall(book):
        target = targets.get(_attribute(tag, r"\w+:id"), "")
        path = posixpath.normpath(posixpath.join("xl", target)) if target else ""
        path = target.lstrip("/") if target.startswith("/") else path
        if path in names.namelist():
            paths[unescape(_attribute(tag, "name"))] = path
    return paths


def _scaled_styles(names: zipfile.ZipFile) -> dict[int, str]:
    """Return the formats that show thousands or millions, by cell style number."""
    if "xl/styles.xml" not in names.namelist():
        return {}
    styles = names.read("xl/styles.xml").decode("utf-8", "replace")
    formats = {}
    for tag in _FORMAT.findall(styles):
        code = unescape(_attribute(tag, "formatCode"))
        if _SCALED.search(_LITERAL.sub("", code.partition(";")[0])):
            formats[_attribute(tag, "numFmtId")] = code
    cells = _STYLES.search(styles) if formats else None
    numbers = [_attribute(tag, "numFmtId") for tag in _STYLE.findall(cells[0])] if cells else []
    return {style: formats[number] for style, number in enumerate(numbers) if number in formats}


def _scaled_columns(xml: bytes, scaled: Mapping[int, str]) -> dict[int, str]:
    columns = {}
    for cell in _CELL.finditer(xml):
        style, reference = _STYLE_OF_CELL.search(cell[1]), _REFERENCE_OF_CELL.search(cell[1])
        if style and reference and int(style[1]) in scaled and _VALUE.search(cell[2] or b""):
            columns[_location(reference)[1]] = scaled[int(style[1])]
    return columns


def _attribute(tag: str, name: str) -> str:
    match = re.search(rf'\s{name}\s*=\s*(?:"([^"]*)"|\'([^\']*)\')', tag)
    return (match[1] or match[2] or "") if match else ""


def _scan(xml: bytes, *, is_calculated: bool, must_prove: bool) -> SheetFindings:
    # Search for plain bytes first, because most sheets have neither errors nor formulas.
    hidden = len(_HIDDEN.findall(xml)) if b"hidden=" in xml else 0
    columns = frozenset(_hidden_columns(xml)) if b"hidden=" in xml else frozenset()
    if b't="e"' not in xml and b"<f" not in xml and b":f" not in xml:
        return SheetFindings({}, hidden, columns)
    checked = _check_formulas(xml) if is_calculated and len(xml) <= _MAX_CALCULATED else {}
    errors = {location: message for location, message in checked.items() if message}
    for cell in _CELL.finditer(xml):
        attributes, inside = cell[1], cell[2] or b""
        reference = _REFERENCE_OF_CELL.search(attributes)
        if reference is None:
            continue
        value = _VALUE.search(inside)
        text = (value[1] or b"").decode("utf-8", "replace") if value else ""
        # A formula may have an empty string as its result.
        is_blank_text = value is not None and b't="str"' in attributes
        if b't="e"' in attributes:
            errors[_location(reference)] = text or "error"
        elif not text and not is_blank_text and _FORMULA.search(inside):
            errors[_location(reference)] = NO_VALUE
        elif must_prove and _FORMULA.search(inside) and _location(reference) not in checked:
            errors[_location(reference)] = NOT_CALCULATED
    return SheetFindings(errors, hidden, columns)


def _check_formulas(xml: bytes) -> dict[tuple[int, int], str]:
    """Return the formulas that could be calculated, each with a message if its value is stale."""
    numbers: dict[tuple[int, int], float] = {}
    formulas: dict[tuple[int, int], FormulaCell] = {}
    others: dict[tuple[int, int], bool] = {}
    originals: dict[bytes, tuple[str, tuple[int, int]]] = {}
    for cell in _CELL.finditer(xml):
        attributes, inside = cell[1], cell[2] or b""
        reference = _REFERENCE_OF_CELL.search(attributes)
        if reference is None:  # If cells have no names, references in formulas cannot be resolved.
            return {}
        location = _location(reference)
        value, formula = _VALUE.search(inside), _FORMULA.search(inside)
        stored = (value[1] or b"") if value else b""
        is_number = b't="' not in attributes or b't="n"' in attributes
        if not is_number:
            is_text = any(kind in attributes for kind in (b't="s"', b't="str"', b't="inlineStr"'))
            others[location] = is_text
        elif formula is None:
            if _NUMBER.fullmatch(stored):
                numbers[location] = float(stored)
        else:
            copied = _COPIED.search(formula[1])
            text = unescape((formula[2] or b"").decode("utf-8", "replace"))
            if copied and text:
                originals[copied[1]] = text, location
            text, origin = originals.get(copied[1], ("", location)) if copied else (text, location)
            is_array = b't="array"' in formula[1] or b't="dataTable"' in formula[1]
            if text and not is_array and _NUMBER.fullmatch(stored):
                formulas[location] = FormulaCell(text, origin, stored.decode())
            else:
                others[location] = False
    return dict(CalculatedSheet(numbers, formulas, others).check())


def _hidden_columns(xml: bytes) -> Iterator[int]:
    """Yield the indexes of hidden columns, at most about a thousand for each range."""
    for column in _COLUMNS.finditer(xml):
        if b'hidden="1"' in column[1] or b'hidden="true"' in column[1]:
            span = {name: int(number) for name, number in _SPAN.findall(column[1])}
            first = span.get(b"min", 1)
            yield from range(first - 1, min(span.get(b"max", first), first + _MAX_HIDDEN))


def _location(reference: re.Match[bytes]) -> tuple[int, int]:
    return int(reference[2]) - 1, column_of(reference[1])
