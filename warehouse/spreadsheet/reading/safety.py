"""Look at a spreadsheet before a reader may unpack it, and say in words why it is refused."""

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
