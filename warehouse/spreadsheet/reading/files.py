"""Files that may be ledgers: their formats, archives, and the reasons for rejecting a file.

Nothing is unpacked to disk, so no name in an archive can point to another folder.
"""

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
from pathlib import Path, PurePosixPath
from typing import Protocol

MAX_CELLS = 60_000_000
ZIP, GZIP = ".zip", ".gz"
ARCHIVES = (ZIP, GZIP, ".7z", ".rar", ".tar", ".tgz", ".bz2", ".xz", ".zst")

# Exceptions that reading a damaged archive can raise. A negative offset raises a ValueError, and so
# does a name that is not UTF-8.
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,
)

_MAX_BYTES = 2 * 1024**3  # maximum size of an unpacked workbook, in bytes

# Files up to this unpacked size (in bytes) may have any compression ratio.
_SMALL_BYTES = 100 * 1024**2

_BOMB_RATIO = 250  # the maximum accepted ratio of unpacked to packed bytes
_MAX_MEMBERS = 1000
_BLOCK = 1_000_000  # number of bytes to read at once
_OLE = b"\xd0\xcf\x11\xe0"

# The first record of an encrypted .xls file, and the type of the second record.
_LOCKED_XLS = re.compile(rb"\x09\x08\x10\x00\x00\x06.{14}\x2f\x00", re.DOTALL)

_HEAD_BYTES = 4096
_ROOT = re.compile(r"<(?:[\w.-]+:)?([A-Za-z][\w.-]*)")
_ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

# The first bytes of file formats that we refuse, and the reasons.
_REFUSED = {
    (b"ID;P",): "is a SYLK file, although its name suggests a different format",
    (
        b"TABLE\r\n0,1",
        b"TABLE\n0,1",
    ): "is a Data Interchange Format (DIF) file, although its name suggests a different format",
    (
        *(b"\x09\x00\x04\x00", b"\x09\x00\x06\x00", b"\x09\x02\x06\x00"),
        *(b"\x09\x04\x06\x00", b"\x09\x08\x08\x00", b"\x09\x08\x10\x00"),
    ): "seems to be a workbook from a program older than Excel 95, which cannot be read",
}

OPEN_DOCUMENT, SPREADSHEET_ML = "document", "Workbook"


class Named(Protocol):
    """A file whose name can be shown in messages."""

    @property
    def name(self) -> str:
        """The name to use in messages. For a file in an archive, the archive's name comes first."""


class UnreadableSpreadsheet(ValueError):
    """A file cannot be read as a spreadsheet or as a text table. Nothing was read from it."""

    exit_code = 2


class NotASpreadsheet(UnreadableSpreadsheet):
    """The file is not recognised as a spreadsheet."""


@contextmanager
def archive(path: Named, content: bytes) -> Iterator[zipfile.ZipFile]:
    """Open a zipped workbook after checking that its parts are safe to unpack.

    Raises `UnreadableSpreadsheet` if the file is a ZIP bomb, has a password, is a binary workbook
    (xlsb) or is damaged, even if the caller finds the damage while reading a part.
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
                    "value look like empty cells",
                    "Save it as xlsx, ods or CSV",
                )
            yield names
    except UnreadableSpreadsheet:
        raise
    except UNREADABLE as error:
        raise refusal(
            path,
            "is not a complete spreadsheet. The copy may be incomplete",
            "Copy it again",
        ) from error


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """One file in an archive, with the `Path` methods that file readers need.

    `member` is the name in a ZIP archive, or empty for the content of a gzip file.
    """

    archive: Path
    member: str = ""

    @property
    def name(self) -> str:
        """The name to use in messages: `archive.zip/folder/ledger.csv` or `ledger.csv.gz`."""
        member = self.member.replace("\\", "/")
        return f"{self.archive.name}/{member}" if member else self.archive.name

    @property
    def suffix(self) -> str:
        """The file name extension, ignoring `.gz`."""
        return PurePosixPath(self.name if self.member else self.archive.stem).suffix

    def is_file(self) -> bool:
        """Return whether the archive exists."""
        return self.archive.is_file()

    def stat(self) -> os.stat_result:
        """Return the archive's size and timestamps."""
        return self.archive.stat()

    def read_bytes(self) -> bytes:
        """Unpack the file. Raises `UnreadableSpreadsheet` if it is damaged or too large."""
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
                self, "cannot be unpacked", "Unpack it yourself, or copy the archive again"
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


def flat_root(content: bytes) -> str:
    """Return the root element of a flat XML spreadsheet, or "" for any other format.

    The first bytes identify the format, because the extension may be wrong.
    """
    text = _xml_head(content)
    root = _ROOT.search(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    is_flat = root is not None and "<!" not in text[: root.start()]
    return root[1] if root and is_flat and root[1] in (OPEN_DOCUMENT, SPREADSHEET_ML) else ""


def format_problem(content: bytes) -> str:
    """Return the reason why a file's format cannot be read, or "" if the format may be readable."""
    for beginnings, problem in _REFUSED.items():
        if content.startswith(beginnings):
            return problem
    text = _xml_head(content)
    if not text or flat_root(content):
        return ""
    is_xml = text.startswith("<?xml") and "<html" not in text
    kind = "XML, but not a spreadsheet" if is_xml else "a web page"
    return f"is {kind}, although its name suggests a different format"


def refusal(path: Named, problem: str, remedy: str) -> UnreadableSpreadsheet:
    """Create an error that names the file, the problem and the remedy."""
    return UnreadableSpreadsheet(f"{path.name} {problem}. {remedy}.")


def password_refusal(path: Named) -> UnreadableSpreadsheet:
    """Create the error for a password-protected file."""
    return refusal(path, "is protected by a password", "Save a copy without a password")


def too_wide(path: Named) -> UnreadableSpreadsheet:
    """Create the error for a file with more cells than fit in memory."""
    return refusal(
        path,
        f"spans more cells than the limit: more than {MAX_CELLS:,} from A1 to the last filled cell",
        "Delete the cells far to the right or far below, and save the file again",
    )


def unpacks_too_far(path: Named) -> UnreadableSpreadsheet:
    """Create the error for a file whose unpacked content does not fit in memory."""
    return refusal(
        path,
        "is larger when unpacked than the size limit for ledgers",
        "Open it in the program that created it, and save it again",
    )


def is_compound(content: bytes) -> bool:
    """Return whether a file is an OLE container: an xls workbook or an encrypted workbook."""
    return content.startswith(_OLE)


def require_no_password(path: Named, content: bytes) -> None:
    """Raise `UnreadableSpreadsheet` if an OLE container is password-protected."""
    if "EncryptedPackage".encode("utf-16-le") in content or _LOCKED_XLS.search(content):
        raise password_refusal(path)


def is_bomb(parts: Sequence[zipfile.ZipInfo], size: int, unpacked: int = 0) -> bool:
    """Return whether an archive unpacks to more data than a ledger can plausibly contain.

    `size` is the packed file's size in bytes. `unpacked` is a number of bytes to add to the sizes
    that the parts declare.
    """
    whole = sum(info.file_size for info in parts) + unpacked
    return whole > _MAX_BYTES or (whole > _SMALL_BYTES and whole > _BOMB_RATIO * size)


def members(archive: Path) -> Iterator[tuple[ArchiveMember, str]]:
    """Yield every file in an archive and, if the file cannot be read, the reason.

    Raises `UnreadableSpreadsheet` if the archive cannot be read.
    """
    if archive.suffix.lower() == GZIP:
        yield ArchiveMember(archive), ""
        return
    try:
        with zipfile.ZipFile(archive) as file:
            # Do not call `is_dir`, because it fails if the name is empty.
            infos = [info for info in file.infolist() if not info.filename.endswith("/")]
    except UNREADABLE as error:
        raise refusal(
            archive,
            "is not a complete archive. The copy may be incomplete",
            "Copy it again",
        ) from error
    if len(infos) > _MAX_MEMBERS:
        raise refusal(
            archive,
            f"contains {len(infos):,} files, more than {_MAX_MEMBERS:,}",
            "Unpack it and put the ledgers into the inbox",
        )
    if is_bomb(infos, archive.stat().st_size):
        raise unpacks_too_far(archive)
    names = [info.filename for info in infos]
    for info in infos:
        yield ArchiveMember(archive, info.filename), _member_problem(info, names)


def _xml_head(content: bytes) -> str:
    """Return the first characters of an XML file or a web page, or "" for any other file."""
    head = content[:_HEAD_BYTES]
    text = head.decode(_ENCODINGS.get(head[:2], "utf-8-sig"), "replace").lstrip()
    return text if text.startswith("<") else ""


def _is_locked(names: zipfile.ZipFile) -> bool:
    """Return whether any part is encrypted. OpenDocument files say so in their manifest."""
    if any(info.flag_bits & 1 for info in names.infolist()):
        return True
    manifest = "META-INF/manifest.xml"
    return manifest in names.namelist() and b"encryption-data" in names.read(manifest)


def _member_problem(info: zipfile.ZipInfo, names: list[str]) -> str:
    path = PurePosixPath(info.filename.replace("\\", "/"))
    if info.flag_bits & 1:
        return "it is protected by a password: put an unpacked copy into the inbox"
    if not path.parts:
        return "it has no name in the archive: put an unpacked copy into the inbox"
    if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        return "its path leads outside the archive: put an unpacked copy into the inbox"
    if names.count(info.filename) > 1:
        return "several files in the archive have this name: put an unpacked copy into the inbox"
    if path.suffix.lower() in ARCHIVES:
        return "it is an archive in an archive: unpack the inner one into the inbox"
    return ""
