"""Adding signatures to a workbook that has already been written.

Only the yellow cells next to the role labels, and the heights of their rows, change. The rest of
the sheet stays identical.
"""

import io
import re
import textwrap
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import python_calamine

from warehouse.reconcile.model import Signature, moment
from warehouse.reconcile.workbook import imprint
from warehouse.reconcile.workbook.edits import role_of
from warehouse.spreadsheet.reading.files import UNREADABLE
from warehouse.spreadsheet.reading.openxml import sheet_paths
from warehouse.spreadsheet.reading.text import fold
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, safe_xml

_HEIGHT = re.compile(rb'\s(?:ht|customHeight)="[^"]*"')
# Characters per line in the comment column, and the height of a line in points.
_LINE, _LINE_HEIGHT = 17, 14
_STYLE = re.compile(rb'\bs="[0-9]+"')


class SignOffRow(NamedTuple):
    """A role's row in the sign-off: sheet, row number, and contents of its two yellow cells."""

    sheet: str
    number: int
    role: str
    who: str
    comment: str


def unshown(content: bytes, signatures: Mapping[str, Signature]) -> list[Signature]:
    """Return the signatures on a result that are missing from its workbook."""
    shown = {(row.role, fold(row.who)) for row in _rows(content)}
    return [
        signature
        for signature in signatures.values()
        if (signature.role, fold(signature.who)) not in shown
    ]


def describe_unshown(workbook: Path, signature: Signature) -> str:
    """Describe a signature that a workbook does not show."""
    return f"the signature of {signature.who} as {signature.role}, in {workbook.name}"


def with_signatures(content: bytes, signatures: Mapping[str, Signature]) -> bytes:
    """Return the workbook with these signatures filled in, if it has rows for their roles.

    If it already shows all of them, return the same bytes.
    """
    missing = {signature.role: signature for signature in unshown(content, signatures)}
    cells: dict[str, dict[str, str]] = {}
    for row in _rows(content) if missing else ():
        if signature := missing.get(row.role):
            of_sheet = cells.setdefault(row.sheet, {})
            of_sheet[f"B{row.number}"] = signature.who
            of_sheet[f"C{row.number}"] = _comment(signature, row)
    if not cells:
        return content
    try:
        return _rewrite(content, cells)
    except (*UNREADABLE, KeyError):
        # The XML of this workbook is not ours, because another program saved the workbook. Leave it
        # unchanged. The pack lists the missing signatures.
        return content


def _comment(signature: Signature, row: SignOffRow) -> str:
    parts = [row.comment, signature.comment if signature.comment != row.comment else ""]
    parts += [f"signed at {moment(signature.at)} UTC", signature.open_breaks_phrase]
    parts.append(f"entered by {signature.entered_by}" if signature.entered_by else "")
    parts.append(f"instead of {row.who!r}, which was not accepted" if row.who else "")
    return "; ".join(filter(None, parts))


def _rows(content: bytes) -> Iterator[SignOffRow]:
    try:
        sheets = imprint.read(content)
    except (python_calamine.CalamineError, *UNREADABLE):
        return
    for name, sheet in sheets.items():
        for number, row in enumerate(sheet.rows, 1):
            label, who, comment, *_ = (*map(imprint.cell_text, row), "", "", "")
            if role := role_of(label):
                yield SignOffRow(name, number, role, who.strip(), comment.strip())


def _rewrite(content: bytes, cells: Mapping[str, Mapping[str, str]]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(made, "w") as target:
        paths = sheet_paths(source)
        by_path = {paths[sheet]: of_sheet for sheet, of_sheet in cells.items()}
        for entry in source.infolist():
            part = source.read(entry)
            for name, text in sorted(by_path.get(entry.filename, {}).items()):
                part = _with_height(_with_text(part, name, text), name[1:], text)
            target.writestr(entry, part)
    return made.getvalue()


def _with_text(sheet: bytes, name: str, text: str) -> bytes:
    """Write a string into the cell `name` of a sheet's XML. The cell keeps its style."""
    cell = _cell(sheet, name)
    # Programs omit blank cells that have no style. Insert the cell after its left neighbour.
    if cell is None:
        left = _cell(sheet, f"{chr(ord(name[0]) - 1)}{name[1:]}")
        if left is None:
            return sheet
        return sheet[: left.end()] + _text_cell(left[1], name, b"", text) + sheet[left.end() :]
    style = _STYLE.search(cell[2])
    made = _text_cell(cell[1], name, style[0] if style else b"", text)
    return sheet[: cell.start()] + made + sheet[cell.end() :]


def _with_height(sheet: bytes, row: str, text: str) -> bytes:
    """Make a row in a sheet's XML tall enough for a wrapped string."""
    lines = len(textwrap.wrap(text, _LINE))
    tag = re.search(rb'<(?:\w+:)?row\s[^>]*?\br="%s"[^>]*>' % row.encode(), sheet)
    if tag is None or lines <= 1:
        return sheet
    begin = _HEIGHT.sub(b"", tag[0]).removesuffix(b">")
    height = b' ht="%d" customHeight="1">' % (lines * _LINE_HEIGHT)
    return sheet[: tag.start()] + begin + height + sheet[tag.end() :]


def _cell(sheet: bytes, name: str) -> re.Match[bytes] | None:
    pattern = rb'<((?:\w+:)?)c(\s[^>]*?\br="%s"[^>]*?)(?:/>|>.*?</\1c>)' % name.encode()
    tag = re.search(rb'<(?:\w+:)?c\s[^>]*?\br="%s"' % name.encode(), sheet)
    return re.compile(pattern, re.DOTALL).match(sheet, tag.start()) if tag else None


def _text_cell(prefix: bytes, name: str, style: bytes, text: str) -> bytes:
    shown = safe_xml(text[:CELL_LIMIT]).encode("utf-8", "replace")
    return (
        b'<%(p)sc r="%(name)s" %(style)s t="inlineStr"><%(p)sis><%(p)st xml:space="preserve">'
        b"%(text)s</%(p)st></%(p)sis></%(p)sc>"
    ) % {b"p": prefix, b"name": name.encode(), b"style": style, b"text": shown}
