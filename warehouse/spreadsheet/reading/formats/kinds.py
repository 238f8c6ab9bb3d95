"""What a file really is, by how it begins: its ending is only what somebody called it."""

import re
from enum import Enum

_LOOKED_AT = 4096
_ROOT = re.compile(r"<(?:[\w.-]+:)?([A-Za-z][\w.-]*)")
_FIRST_BYTES = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class FileKind(Enum):
    """A kind of file; the value says what it is to whoever sent it, where it is not read."""

    FLAT_OPEN = "a flat spreadsheet of OpenDocument"
    SPREADSHEET_ML = "a spreadsheet of Excel 2003 in XML"
    WEB_PAGE = "is a web page, whatever its name says"
    OTHER_XML = "is XML of another kind than spreadsheets, whatever its name says"
    SYLK = "is a SYLK file, whatever its name says"
    DIF = "is a file of the Data Interchange Format, whatever its name says"
    OLD_BIFF = "is of a program before Excel 95, or only looks like a workbook of one"
    OTHER = "another one"


REFUSED = frozenset(
    {FileKind.WEB_PAGE, FileKind.OTHER_XML, FileKind.SYLK, FileKind.DIF, FileKind.OLD_BIFF}
)
FLAT = frozenset({FileKind.FLAT_OPEN, FileKind.SPREADSHEET_ML})
_BEGINNINGS = {
    b"ID;P": FileKind.SYLK,
    b"TABLE\r\n0,1": FileKind.DIF,
    b"TABLE\n0,1": FileKind.DIF,
    b"\x09\x00\x04\x00": FileKind.OLD_BIFF,
    b"\x09\x00\x06\x00": FileKind.OLD_BIFF,
    b"\x09\x02\x06\x00": FileKind.OLD_BIFF,
    b"\x09\x04\x06\x00": FileKind.OLD_BIFF,
    b"\x09\x08\x08\x00": FileKind.OLD_BIFF,
    b"\x09\x08\x10\x00": FileKind.OLD_BIFF,
}


def kind_of(content: bytes) -> FileKind:
    """Return the kind of a file by its beginning; `OTHER` is left to the common reader."""
    for beginning, kind in _BEGINNINGS.items():
        if content.startswith(beginning):
            return kind
    head = content[:_LOOKED_AT]
    text = head.decode(_FIRST_BYTES.get(head[:2], "utf-8-sig"), "replace").lstrip()
    if not text.startswith("<"):
        return FileKind.OTHER
    root = _ROOT.search(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    names = {"document": FileKind.FLAT_OPEN, "Workbook": FileKind.SPREADSHEET_ML}
    if root is not None and "<!" not in text[: root.start()] and root[1] in names:
        return names[root[1]]
    return (
        FileKind.OTHER_XML
        if text.startswith("<?xml") and "<html" not in text
        else FileKind.WEB_PAGE
    )
