"""Facts about an xlsx file's sheets that calamine does not report.

calamine returns error cells as empty cells, but an empty amount must not count as zero. It also
does not report hidden rows, number formats that show thousands, or formulas without a value.

If a program writes a workbook without calculating, its formulas keep old values or 0. So this
module recalculates simple sums from the stored inputs. It does so only to find stale values: their
rows are rejected, and no value is replaced.
"""

import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import unescape

from warehouse.spreadsheet.reading.xml_workbooks import NO_VALUE

Location = tuple[int, int]  # the location of a cell: a row index and a column index
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<range>\$?[A-Z]{1,3}\$?[0-9]{1,7}(?::\$?[A-Z]{1,3}\$?[0-9]{1,7})?)(?![A-Za-z0-9_(!.])"
    r"|(?P<sum>SUM)\(|(?P<sign>[-+*/(),]))"
)
_REFERENCE = re.compile(r"(\$?)([A-Z]{1,3})(\$?)([0-9]{1,7})")
# Limit the number of cells to read in ranges, because a column of running totals reads the same
# cells many times.
_MOST_VISITS = 1_000_000
_DEEPEST = 60  # maximum depth of nested formulas, which refer to other formulas
# Allow this difference between two sums, relative to the sum of absolute values, because the order
# of additions affects the result.
_ROUNDING = 1e-11


@dataclass(frozen=True, slots=True)
class FormulaCell:
    """A formula: its text, the cell that the text originally belongs to, and the stored value."""

    text: str
    origin: Location
    stored: str


class NotCalculated(Exception):
    """This module cannot calculate the formula or one of its inputs."""


class CalculatedSheet:
    """The cells of one sheet: numbers, formulas and all `others`, such as texts and errors.

    `others` maps a text cell to True, because sums skip texts, and any other cell to False, because
    a sum with such a cell cannot be calculated.
    """

    def __init__(
        self,
        numbers: Mapping[Location, float],
        formulas: Mapping[Location, FormulaCell],
        others: Mapping[Location, bool],
    ) -> None:
        self._numbers = numbers
        self._formulas = formulas
        self._others = others
        self._values: dict[Location, tuple[float, float] | None] = {}
        self._visits = 0
        self._depth = 0

    def stale(self) -> Iterator[tuple[Location, str]]:
        """Yield each cell whose stored value is provably stale, with a message."""
        for location, cell in self._formulas.items():
            try:
                value, magnitude = self.value(location)
                stored = float(cell.stored)
            except (NotCalculated, ArithmeticError, ValueError, RecursionError):
                continue
            if abs(value - stored) > _ROUNDING * max(magnitude, abs(stored)):
                message = f"{name_of(location)} is {stored:.15g}, but its formula says {value:.15g}"
                yield (
                    location,
                    f"{message}: open the file in the program that created it, and save it",
                )

    def value(self, location: Location) -> tuple[float, float]:
        """Return a cell's value and magnitude, which is the sum of its terms' absolute values."""
        if location in self._formulas:
            if location not in self._values:
                # The result stays None if the formula refers to itself or cannot be calculated.
                self._values[location] = None
                self._values[location] = self._calculate(location)
            value = self._values[location]
            if value is None:
                raise NotCalculated
            return value
        if location in self._others:
            raise NotCalculated
        number = self._numbers.get(location, 0.0)
        return number, abs(number)

    def _calculate(self, location: Location) -> tuple[float, float]:
        cell = self._formulas[location]
        shift = (location[0] - cell.origin[0], location[1] - cell.origin[1])
        if self._depth >= _DEEPEST:
            raise NotCalculated
        self._depth += 1
        try:
            expression = _Expression(self, cell.text, shift)
            value = expression.sum()
            if not expression.is_done:
                raise NotCalculated
            return value
        finally:
            self._depth -= 1

    def total(self, first: Location, last: Location) -> tuple[float, float]:
        """Return a range's sum and the sum of its absolute values. Skip text cells."""
        self._visits += (last[0] - first[0] + 1) * (last[1] - first[1] + 1)
        if self._visits > _MOST_VISITS:
            raise NotCalculated
        values = [
            self.value((row, column))
            for row in range(first[0], last[0] + 1)
            for column in range(first[1], last[1] + 1)
            if not self._others.get((row, column))
        ]
        return sum(value for value, _ in values), sum(magnitude for _, magnitude in values)


class _Expression:
    """An evaluator for formulas with numbers, cells, `SUM`, and the operators +, -, * and /."""

    def __init__(self, sheet: CalculatedSheet, text: str, shift: Location) -> None:
        self._sheet = sheet
        self._shift = shift
        self._tokens = list(_tokens(text))
        self._position = 0

    @property
    def is_done(self) -> bool:
        """Whether the whole formula was parsed."""
        return self._position == len(self._tokens)

    def _next(self, *signs: str) -> str:
        """Return the next token if it is in `signs`, otherwise an empty string."""
        if not self.is_done and self._tokens[self._position][1] in signs:
            self._position += 1
            return self._tokens[self._position - 1][1]
        return ""

    def sum(self) -> tuple[float, float]:
        """Calculate a sum of products, and the sum of its terms' absolute values."""
        value, magnitude = self._product()
        while sign := self._next("+", "-"):
            term, size = self._product()
            value, magnitude = value + term if sign == "+" else value - term, magnitude + size
        return value, magnitude

    def _product(self) -> tuple[float, float]:
        value, magnitude = self._operand()
        while sign := self._next("*", "/"):
            factor, size = self._operand()
            if sign == "*":
                value, magnitude = value * factor, magnitude * size
            else:
                value, magnitude = value / factor, magnitude * size / (factor * factor)
        return value, magnitude

    def _operand(self) -> tuple[float, float]:
        if sign := self._next("-", "+"):
            value, magnitude = self._operand()
            return -value if sign == "-" else value, magnitude
        if self._next("("):
            inner = self.sum()
            self._require(")")
            return inner
        if self.is_done:
            raise NotCalculated
        kind, text = self._tokens[self._position]
        self._position += 1
        if kind == "number":
            return float(text), abs(float(text))
        if kind == "sum":
            return self._sum_of_ranges()
        if kind == "range" and ":" not in text:
            return self._sheet.value(_resolve(text, self._shift))
        raise NotCalculated

    def _sum_of_ranges(self) -> tuple[float, float]:
        value = magnitude = 0.0
        while True:
            if not self.is_done and self._tokens[self._position][0] == "range":
                first, _, last = self._tokens[self._position][1].partition(":")
                self._position += 1
                corners = (_resolve(first, self._shift), _resolve(last or first, self._shift))
                term, size = self._sheet.total(*corners)
            else:
                term, size = self.sum()
            value, magnitude = value + term, magnitude + size
            if not self._next(","):
                self._require(")")
                return value, magnitude

    def _require(self, sign: str) -> None:
        if not self._next(sign):
            raise NotCalculated


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    offset = 0
    text = text.strip()
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise NotCalculated
        kind = match.lastgroup or ""
        yield kind, match[kind]
        offset = match.end()


def _resolve(reference: str, shift: Location) -> Location:
    """Resolve a reference to a cell. In a copied formula, the parts without `$` are shifted."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise NotCalculated
    row = int(match[4]) - 1 + (0 if match[3] else shift[0])
    return row, column_of(match[2].encode()) + (0 if match[1] else shift[1])


def column_of(letters: bytes) -> int:
    """Convert a column's letters to its index."""
    column = 0
    for letter in letters:
        column = column * 26 + letter - ord("A") + 1
    return column - 1


def letters_of(column: int) -> str:
    """Convert a column's index to its letters."""
    above, last = divmod(column, 26)
    return (letters_of(above - 1) if above else "") + chr(ord("A") + last)


def name_of(location: Location) -> str:
    """Return a cell's name, for example `D12`."""
    return f"{letters_of(location[1])}{location[0] + 1}"


_PREFIX = rb"<(?:\w+:)?"
_CELL = re.compile(_PREFIX + rb"c\b([^>]*?)(?:/>|>(.*?)</(?:\w+:)?c>)", re.DOTALL)
_REFERENCE_OF_CELL = re.compile(rb'\br="([A-Z]{1,3})([0-9]{1,7})"')
_VALUE = re.compile(_PREFIX + rb"v\b(?:[^>]*/>|[^>]*>([^<]*)<)")
_FORMULA = re.compile(_PREFIX + rb"f\b([^>]*?)(?:/>|>([^<]*)<)")
_COPIED = re.compile(rb'\bsi="([0-9]{1,9})"')
_NUMBER = re.compile(rb"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_MOST_CALCULATED = 64_000_000  # the largest sheet in which formulas are checked, in bytes
_HIDDEN = re.compile(_PREFIX + rb'row\b[^>]*\bhidden="(?:1|true)"')
_COLUMNS = re.compile(_PREFIX + rb"col\b([^>]*)>")
_SPAN = re.compile(rb'\b(min|max)="([0-9]{1,5})"')
_BOOK = "xl/workbook.xml"
_SHEET = re.compile(r"<(?:\w+:)?sheet\b[^>]*>")
_RELATION = re.compile(r"<(?:\w+:)?Relationship\b[^>]*>")
_MOST_HIDDEN = 1000
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

    Formulas without a value count as error cells. `scaled` maps the index of each column that
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
    is_calculated = b'fullPrecision="0"' not in names.read(_BOOK)
    scaled = _scaled_styles(names)
    by_sheet = {}
    for name, path in paths.items():
        xml = names.read(path)
        columns = _scaled_columns(xml, scaled) if scaled else {}
        by_sheet[name] = replace(_scan(xml, is_calculated=is_calculated), scaled=columns)
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


def _scan(xml: bytes, *, is_calculated: bool) -> SheetFindings:
    # Search for plain bytes first, because most sheets have neither errors nor formulas.
    hidden = len(_HIDDEN.findall(xml)) if b"hidden=" in xml else 0
    columns = frozenset(_hidden_columns(xml)) if b"hidden=" in xml else frozenset()
    if b't="e"' not in xml and b"<f" not in xml and b":f" not in xml:
        return SheetFindings({}, hidden, columns)
    errors = _stale(xml) if is_calculated and len(xml) <= _MOST_CALCULATED else {}
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
    return SheetFindings(errors, hidden, columns)


def _stale(xml: bytes) -> dict[tuple[int, int], str]:
    """Return a message for each cell whose stored value is provably stale."""
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
    return dict(CalculatedSheet(numbers, formulas, others).stale())


def _hidden_columns(xml: bytes) -> Iterator[int]:
    """Yield the indexes of hidden columns, at most about a thousand for each range."""
    for column in _COLUMNS.finditer(xml):
        if b'hidden="1"' in column[1] or b'hidden="true"' in column[1]:
            span = {name: int(number) for name, number in _SPAN.findall(column[1])}
            first = span.get(b"min", 1)
            yield from range(first - 1, min(span.get(b"max", first), first + _MOST_HIDDEN))


def _location(reference: re.Match[bytes]) -> tuple[int, int]:
    return int(reference[2]) - 1, column_of(reference[1])
