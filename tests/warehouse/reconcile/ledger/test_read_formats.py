"""Tests of formats that cannot be read as a ledger, and of the largest sheet: cases 35 and 40."""

import hashlib
import io
import struct
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import python_calamine
import xlsxwriter

from warehouse.reconcile.model import Ledger
from warehouse.reconcile.terms import NotReconciled

Write = Callable[..., Path]
Read = Callable[..., Ledger]
SECTOR = 512
END, FREE, FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
LARGEST = 1_048_576


def noise(size: int, seed: bytes) -> bytes:
    """Return bytes without any pattern, like encrypted data."""
    return b"".join(hashlib.sha256(seed + bytes([n])).digest() for n in range(size // 32))


def compound(streams: Mapping[str, bytes]) -> bytes:
    """Return a compound file of streams of at least 4,096 bytes, each in whole sectors."""
    table, body, entries = [FAT, END], b"", [entry("Root Entry", 5, END, 0, child=1)]
    for number, (name, content) in enumerate(streams.items(), 1):
        start, count = len(table), len(content) // SECTOR
        table += [*range(start + 1, start + count), END]
        right = number + 1 if number < len(streams) else FREE
        entries.append(entry(name, 2, start, len(content), right=right))
        body += content
    entries += [entry("", 0, 0, 0)] * (4 - len(entries))
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    header += struct.pack("<9I", 0, 1, 1, 0, 4096, END, 0, END, 0)
    header += struct.pack("<109I", 0, *[FREE] * 108)
    sectors = struct.pack("<128I", *table, *[FREE] * (128 - len(table)))
    return header + sectors + b"".join(entries) + body


def entry(name: str, kind: int, start: int, size: int, **about: int) -> bytes:
    """Return one entry of a compound file's directory."""
    letters = name.encode("utf-16-le")
    length = len(letters) + 2 if name else 0
    beside = (FREE, about.get("right", FREE), about.get("child", FREE))
    shape = struct.pack("<HBB3I", length, kind, 1, *beside)
    return letters.ljust(64, b"\0") + shape + bytes(36) + struct.pack("<IQ", start, size)


def archive(parts: Mapping[str, bytes]) -> bytes:
    """Return a ZIP archive of these parts."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return made.getvalue()


ENCRYPTED = compound(
    {"EncryptionInfo": noise(4096, b"info"), "EncryptedPackage": noise(8192, b"package")}
)
OLD = compound(
    {
        "Workbook": b"\x09\x08\x10\x00\x00\x06\x05\x00\xbb\x0d\xcc\x07\0\0\0\0\x06\0\0\0"
        b"\x2f\x00\x36\x00\x01\x00" + noise(4096, b"old")[:-26]
    }
)
OPEN = archive(
    {
        "mimetype": b"application/vnd.oasis.opendocument.spreadsheet",
        "META-INF/manifest.xml": b"<manifest><file-entry><manifest:encryption-data/></file-entry>"
        b"</manifest>",
        "content.xml": noise(4096, b"content"),
    }
)


@pytest.mark.parametrize(
    ("ending", "content"), [("xlsx", ENCRYPTED), ("xls", OLD), ("ods", OPEN), ("xlsx", OPEN)]
)
def test_case_35_a_workbook_with_a_password_is_refused(
    write: Write, read: Read, ending: str, content: bytes
) -> None:
    """A password is detected in every format, and the message says what to do."""
    with pytest.raises(NotReconciled) as told:
        read(write(content, f"ledger.{ending}"))
    words = str(told.value)
    assert words.startswith(
        f"ledger.{ending} is protected by a password. Save a copy without a password."
    )
    assert words.endswith("Nothing was reconciled.")


def test_case_35_python_calamine_detects_the_password(write: Write) -> None:
    """python-calamine recognises the compound file of these tests as an encrypted workbook."""
    with pytest.raises(python_calamine.PasswordError):
        python_calamine.CalamineWorkbook.from_path(str(write(ENCRYPTED, "ledger.xlsx")))


def test_case_35_a_binary_workbook_is_refused(write: Write, read: Read) -> None:
    """A binary workbook is refused, because its error cells look the same as empty cells."""
    parts = {"[Content_Types].xml": b"<Types/>", "xl/workbook.bin": noise(512, b"book")}
    for ending in ("xlsb", "xlsx"):
        with pytest.raises(NotReconciled, match=r"binary workbook \(xlsb\).*Save it as xlsx"):
            read(write(archive(parts), f"ledger.{ending}"))


@pytest.mark.torture
def test_case_40_a_full_sheet_is_read_to_its_last_row(
    tmp_path: Path, read: Read, record_property: Callable[[str, object], None]
) -> None:
    """All 1,048,576 rows of the largest sheet, including the header, are read."""
    path = tmp_path / "ledger.xlsx"
    book = xlsxwriter.Workbook(path, {"constant_memory": True})
    sheet = book.add_worksheet()
    for row in range(LARGEST):
        cells = ("asset", "account", "amount") if not row else ("BTC", f"a{row}", f"{row}.5")
        for column, text in enumerate(cells):
            sheet.write_string(row, column, text)
    book.close()
    begun = time.process_time()
    ledger = read(path)
    told = f"{len(ledger.lines):,} rows of {LARGEST:,} in {time.process_time() - begun:.0f} CPU s"
    print(told)
    record_property("rows", told)
    (source,) = ledger.sources
    assert (source.rows, source.used, source.rejected) == (LARGEST - 1, LARGEST - 1, 0)
    assert ledger.lines[-1].line == LARGEST
    assert ledger.lines[-1].amount.text == f"{LARGEST - 1}.5"
