"""Files that may be ledgers: their format, their archives, and why a file is refused."""

import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Protocol

MOST_CELLS = 60_000_000
LARGEST = 2 * 1024**3  # bytes that a workbook may unpack to
PACKED = 250  # times: beyond, and above a few megabytes, it is a bomb
_OLE = b"\xd0\xcf\x11\xe0"
# In a workbook of the old format the record after its first one says that it is encrypted.
_LOCKED_XLS = re.compile(rb"\x09\x08\x10\x00\x00\x06.{14}\x2f\x00", re.DOTALL)
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,  # of a name that is no UTF-8, and of a place before the beginning
)


class Named(Protocol):
    """A file by the name that people know it by."""

    @property
    def name(self) -> str:
        """The name, with that of its archive before it where it lies in one."""


@dataclass(frozen=True, slots=True)
class FileName:
    """A file of which nothing but its name is at hand."""

    name: str


class UnreadableSpreadsheet(ValueError):
    """A file cannot be read as a spreadsheet or a table of text; nothing was made of it."""

    exit_code = 2


class NotASpreadsheet(UnreadableSpreadsheet):
    """The reader of spreadsheets does not take the file for one."""


def refusal(path: Named, problem: str, remedy: str) -> UnreadableSpreadsheet:
    """Return the error for a file: what was found in it, and what to do."""
    return UnreadableSpreadsheet(f"{path.name} {problem}. {remedy}.")


def password_refusal(path: Named) -> UnreadableSpreadsheet:
    """Return the error for a file with a password."""
    return refusal(path, "is protected by a password", "Save a copy without one")


def too_wide(path: Named) -> UnreadableSpreadsheet:
    """Return the error for a file for which a reader would need more room than there may be."""
    return refusal(
        path,
        f"spans more cells than a ledger has: more than {MOST_CELLS:,} from A1 to the last one "
        "that is filled",
        "Delete what stands far to the right or far below, and save it again",
    )


def unpacks_too_far(path: Named) -> UnreadableSpreadsheet:
    """Return the error for a file that would fill the memory."""
    return refusal(path, "unpacks to more than a ledger can be", "Save it anew")


def is_compound(content: bytes) -> bool:
    """Return whether a file is of the format before OpenXML, or an encrypted workbook."""
    return content.startswith(_OLE)


def require_no_password(path: Named, content: bytes) -> None:
    """Raise `UnreadableSpreadsheet` for a compound file with a password."""
    if "EncryptedPackage".encode("utf-16-le") in content or _LOCKED_XLS.search(content):
        raise password_refusal(path)


@contextmanager
def archive(path: Named, content: bytes) -> Iterator[zipfile.ZipFile]:
    """Open the parts of a workbook that may be unpacked.

    Raises `UnreadableSpreadsheet` where it is a bomb, has a password, is binary or is damaged, be
    that found here or while its parts are read.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as names:
            if is_bomb(names.infolist(), len(content)):
                raise unpacks_too_far(path)
            if _is_locked(names):
                raise password_refusal(path)
            if any(name.lower().endswith("workbook.bin") for name in names.namelist()):
                raise refusal(
                    path,
                    "is a binary workbook (xlsb), in which error cells and formulas without a "
                    "value cannot be told from empty ones",
                    "Save it as xlsx, ods or CSV",
                )
            yield names
    except UnreadableSpreadsheet:
        raise
    except UNREADABLE as error:
        raise refusal(
            path, "is no whole spreadsheet: perhaps it was only half copied", "Copy it again"
        ) from error


def is_bomb(parts: Sequence[zipfile.ZipInfo], size: int, more: int = 0) -> bool:
    """Return whether parts say that they unpack to more than a ledger can be, or `more` did."""
    whole = sum(info.file_size for info in parts) + more
    return whole > LARGEST or (whole > 100 * 1024**2 and whole > PACKED * size)


def _is_locked(names: zipfile.ZipFile) -> bool:
    """Return whether parts are encrypted: a workbook of OpenDocument says so in its manifest."""
    if any(info.flag_bits & 1 for info in names.infolist()):
        return True
    manifest = "META-INF/manifest.xml"
    return manifest in names.namelist() and b"encryption-data" in names.read(manifest)


ZIP, GZIP = ".zip", ".gz"
ARCHIVES = (ZIP, GZIP, ".7z", ".rar", ".tar", ".tgz", ".bz2", ".xz", ".zst")
MOST_MEMBERS = 1000
_BLOCK = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """One file in an archive, for whoever reads files; its name begins with that of the archive.

    It has what a path has for that: `member` is its name in a ZIP archive, empty of what is packed
    by gzip.
    """

    archive: Path
    member: str = ""

    @property
    def name(self) -> str:
        """The name by which it is told: `archive.zip/folder/ledger.csv`, `ledger.csv.gz`."""
        place = self.member.replace("\\", "/")
        return f"{self.archive.name}/{place}" if place else self.archive.name

    @property
    def suffix(self) -> str:
        """The ending that says what it is."""
        return PurePosixPath(self.name if self.member else self.archive.stem).suffix

    def is_file(self) -> bool:
        """Whether its archive is there."""
        return self.archive.is_file()

    def stat(self) -> os.stat_result:
        """The size and times of its archive."""
        return self.archive.stat()

    def read_bytes(self) -> bytes:
        """Unpack it; raise `UnreadableSpreadsheet` where that is not to be had, or is too much."""
        try:
            if not self.member:
                return self._gunzip()
            with zipfile.ZipFile(self.archive) as file:
                info = file.getinfo(self.member)
                if info.flag_bits & 1:
                    raise password_refusal(self)
                if is_bomb([info], info.compress_size):
                    raise unpacks_too_far(self)
                return file.read(info)
        except UnreadableSpreadsheet:
            raise
        except (*UNREADABLE, KeyError, RuntimeError) as error:
            raise refusal(
                self, "cannot be unpacked", "Unpack it yourself, or copy its archive again"
            ) from error

    def _gunzip(self) -> bytes:
        size = self.archive.stat().st_size
        blocks: list[bytes] = []
        length = 0
        with gzip.open(self.archive) as file:
            while block := file.read(_BLOCK):
                length += len(block)
                blocks.append(block)
                if is_bomb([], size, length):
                    raise unpacks_too_far(self)
        return b"".join(blocks)


LedgerFile = Path | ArchiveMember


def members(archive: Path) -> Iterator[tuple[ArchiveMember, str]]:
    """Yield every file in an archive, and why it cannot be read, if it cannot.

    Raises `UnreadableSpreadsheet` where the archive as a whole cannot.
    """
    if archive.suffix.lower() == GZIP:
        yield ArchiveMember(archive), ""
        return
    try:
        with zipfile.ZipFile(archive) as file:
            # Not `is_dir`, which fails at a name of no letters.
            infos = [info for info in file.infolist() if not info.filename.endswith("/")]
    except UNREADABLE as error:
        raise refusal(
            archive, "is no whole archive: perhaps it was only half copied", "Copy it again"
        ) from error
    if len(infos) > MOST_MEMBERS:
        raise refusal(
            archive,
            f"holds {len(infos):,} files, more than {MOST_MEMBERS:,}",
            "Unpack it and put the ledgers into the inbox",
        )
    if is_bomb(infos, archive.stat().st_size):
        raise unpacks_too_far(archive)
    names = [info.filename for info in infos]
    for info in infos:
        yield ArchiveMember(archive, info.filename), _problem(info, names)


def _problem(info: zipfile.ZipInfo, names: list[str]) -> str:
    place = PurePosixPath(info.filename.replace("\\", "/"))
    if info.flag_bits & 1:
        return "it is protected by a password: put an unpacked copy into the inbox"
    if not place.parts:
        return "it has no name in the archive: put an unpacked copy into the inbox"
    if place.is_absolute() or ".." in place.parts or ":" in place.parts[0]:
        return "its name leads out of the archive: put an unpacked copy into the inbox"
    if names.count(info.filename) > 1:
        return "several files in the archive have this name: put an unpacked copy into the inbox"
    if place.suffix.lower() in ARCHIVES:
        return "it is an archive in an archive: unpack the inner one into the inbox"
    return ""


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
