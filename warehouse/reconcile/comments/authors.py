"""Who saved a workbook last, and when: evidence, so that a name which is nobody's is none.

Excel and LibreOffice write who saved last beside who made the file, which is us. In a workbook of
OpenDocument `dc:creator` is who saved it last; in one of Excel it is who made it.
"""

import io
import re
import zipfile
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

from warehouse.spreadsheet.reading.safety import UNREADABLE

_EXCEL, _OPEN = "docProps/core.xml", "meta.xml"
_WHO = {
    _EXCEL: re.compile(r"<(?:\w+:)?lastModifiedBy\b[^>]*>([^<]*)<"),
    _OPEN: re.compile(r"<dc:creator\b[^>]*>([^<]*)<"),
}
_WHEN = re.compile(r"<(?:dcterms:modified|dc:date)\b[^>]*>([^<]*)<")
_LONGEST = 200
# Programs and libraries that put their own name, or one for anybody, where a person's belongs.
_NOBODY = re.compile(
    r"nightbook|openpyxl|xlsxwriter|pandas|python[\w .-]*|apache poi|poi|sheetjs|exceljs"
    r"|aspose[\w .]*"
    r"|microsoft( office)?( excel)?( user)?|excel|ms office|libreoffice[\w .]*|openoffice[\w .]*"
    r"|google( sheets)?|numbers|user|unknown( author| creator)?|unbekannt|author|administrator",
    re.IGNORECASE,
)


def last_author(path: Path, content: bytes) -> tuple[str, datetime]:
    """Return who saved a file last and when, as it says; else its name, and its time on disk."""
    properties, who = "", re.compile("$^")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as names:
            for part, pattern in _WHO.items():
                if part in names.namelist():
                    properties, who = names.read(part).decode("utf-8", "replace"), pattern
    except UNREADABLE:
        properties = ""
    return _person(who.search(properties)) or path.name, _moment(path, _WHEN.search(properties))


def _person(match: re.Match[str] | None) -> str:
    """Return the name that was written, or nothing where it is nobody's."""
    name = " ".join(unescape(match[1]).split())[:_LONGEST] if match else ""
    return "" if _NOBODY.fullmatch(name) else name


def _moment(path: Path, when: re.Match[str] | None) -> datetime:
    """Return when it was saved: the later of what it says and its time on disk."""
    # Either may be missing, or be the time at which we wrote the file: so the later one counts.
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(microsecond=0)
    try:
        stated = (
            datetime.fromisoformat(when[1].strip()[:19]).replace(tzinfo=UTC) if when else changed
        )
    except ValueError:
        stated = changed
    return max(stated, changed)
