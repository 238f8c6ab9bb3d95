"""What is asked of a spreadsheet before a reader may unpack it, and what to do when one breaks."""

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warehouse.reconcile.errors import NotReconciled
from warehouse.spreadsheet.reading.extent import MOST_CELLS, count_cells
from warehouse.spreadsheet.reading.xml_findings import is_bomb, is_locked

UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,  # of a name that is no UTF-8, and of a place before the beginning
)


def refusal(path: Path, found: str, then: str) -> NotReconciled:
    """The refusal of a file: what was found in it, and what to do."""
    return NotReconciled(f"{path.name} {found}. {then}. Nothing was reconciled.")


def password_refusal(path: Path) -> NotReconciled:
    """The refusal of a file with a password."""
    return refusal(path, "is protected by a password", "Save a copy without one")


def too_wide(path: Path) -> NotReconciled:
    """The refusal of a file for which a reader would need more room than there may be."""
    return refusal(
        path,
        f"spans more cells than a ledger has: more than {MOST_CELLS:,} from A1 to the last one "
        "that is filled",
        "Delete what stands far to the right or far below, and save it again",
    )


@contextmanager
def archive(path: Path, content: bytes) -> Iterator[zipfile.ZipFile]:
    """The parts of a workbook, which may be unpacked.

    Raises `NotReconciled` where it is a bomb, has a password, is binary or is damaged, be that
    found here or while its parts are read.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as names:
            if is_bomb(names, len(content)):
                raise refusal(path, "unpacks to more than a ledger can be", "Save it anew")
            if is_locked(names):
                raise password_refusal(path)
            if any(name.lower().endswith("workbook.bin") for name in names.namelist()):
                raise refusal(
                    path,
                    "is a binary workbook (xlsb), in which error cells and formulas without a "
                    "value cannot be told from empty ones",
                    "Save it as xlsx, ods or CSV",
                )
            yield names
    except NotReconciled:
        raise
    except UNREADABLE as error:
        raise refusal(
            path, "is no whole spreadsheet: perhaps it was only half copied", "Copy it again"
        ) from error


def require_room(path: Path, names: zipfile.ZipFile) -> None:
    """Raise `NotReconciled` where a reader would make room for more cells than a ledger has."""
    if count_cells(names) > MOST_CELLS:
        raise too_wide(path)


@contextmanager
def without_panic(path: Path) -> Iterator[None]:
    """Raise `NotReconciled` where the reader panics, which no handler of an `Exception` sees."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise refusal(
            path,
            f"broke the reader of spreadsheets ({error}): it is damaged, or was made by a program "
            "that writes them in a way of its own",
            "Open it and save it again as xlsx, ods or CSV",
        ) from error
