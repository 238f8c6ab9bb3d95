"""Files as grids of cells: workbooks and delimited text."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from warehouse.spreadsheet.reading.delimited_text import (
    MAX_FIELD_BYTES,
    Row,
    cells_of,
    has_long_line,
    rows_of,
    unwrap_text_formulas,
)
from warehouse.spreadsheet.reading.files import (
    GZIP,
    MAX_CELLS,
    ArchiveMember,
    LedgerFile,
    refusal,
    too_wide,
)
from warehouse.spreadsheet.reading.printed_tables import (
    BOTH,
    PRINTED,
    REMEDY,
    has_piped_header,
    is_printed,
)
from warehouse.spreadsheet.reading.text import decode
from warehouse.spreadsheet.reading.workbook import Grid, read_workbook

__all__ = ["HEAD", "Grid", "OpenedFile", "is_ledger_name", "open_file"]

SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".fods", ".xml")
TEXTS = (".csv", ".tsv", ".txt")
HEAD = 100  # number of rows at the beginning in which to search for a header
DELIMITERS = ";\t,|"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFile:
    """One file: its path, SHA-256, grids and notices.

    `others` lists the name and kind of each tab that is not a worksheet.
    """

    path: LedgerFile
    sha256: str
    grids: tuple[Grid, ...]
    notices: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()


def is_ledger_name(path: LedgerFile) -> bool:
    """Return whether a file may be a ledger: it is not hidden, and has a known extension."""
    name = path.name.rpartition("/")[2]
    return not name.startswith(("~$", ".")) and path.suffix.lower() in (*SPREADSHEETS, *TEXTS)


def stable_bytes(path: LedgerFile, pause: Callable[[], None]) -> bytes:
    """Read a file's bytes. `pause` is called to wait before the file is checked for changes.

    Raises `UnreadableSpreadsheet` if the file changes in the meantime or is empty.
    """
    before = path.stat()
    pause()
    content = path.read_bytes()
    after = path.stat()
    is_packed = isinstance(path, ArchiveMember)
    is_as_long = is_packed or len(content) == after.st_size
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or not is_as_long:
        raise refusal(path, "is still being written", "Wait until it is complete, then rerun")
    if not content:
        raise refusal(path, "is empty (0 bytes)", "Save the ledger again")
    return content


def open_file(
    path: LedgerFile,
    recognised: Callable[[Sequence[Row]], int],
    pause: Callable[[], None] = lambda: None,
) -> OpenedFile:
    """Read one file. `recognised` scores rows by the ledger fields that they name.

    Raises `UnreadableSpreadsheet`, with the file's real format, if the file cannot be read.
    """
    if isinstance(path, Path) and path.suffix.lower() == GZIP:
        path = ArchiveMember(path)
    content = stable_bytes(path, pause)
    digest = hashlib.sha256(content).hexdigest()
    if path.suffix.lower() in TEXTS:
        if has_long_line(content):
            raise refusal(
                path,
                f"has a line of more than {MAX_FIELD_BYTES:,} bytes, so it does not seem to have "
                "one line for each row",
                "Export it again with one line for each row, or save it as xlsx",
            )
        text, notices = decode_text(path, content)
        return OpenedFile(
            path=path,
            sha256=digest,
            grids=(_text_grid(path, text, recognised),),
            notices=notices,
        )
    workbook = read_workbook(path, content)
    return OpenedFile(
        path=path,
        sha256=digest,
        grids=workbook.grids,
        notices=workbook.notices,
        others=workbook.others,
    )


def decode_text(path: LedgerFile, content: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a file. Return its text, and a notice if the encoding had to be guessed.

    Check for a byte order mark, then for UTF-16 without one, then for UTF-8. Otherwise use the
    likeliest code page.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace"), ()
    # In UTF-16, every second byte of Latin text is zero, and the position of the zeros shows the
    # byte order.
    zeros = content[:2000].count(0)
    if zeros > len(content[:2000]) // 4:
        order = "le" if content[1:2] == b"\x00" else "be"
        return content.decode(f"utf-16-{order}", "replace"), ("read as UTF-16",)
    if content[:512].lstrip()[:5].lower() in {b"<html", b"<!doc"}:
        raise refusal(
            path, "is a web page, although its name suggests a different format", "Save it as CSV"
        )
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError:
        text, reason = decode(content)
        return text, (reason,)


def _text_grid(path: LedgerFile, text: str, recognised: Callable[[Sequence[Row]], int]) -> Grid:
    """Read a text file whose columns are separated by delimiters. Refuse a printed table."""
    first, _, rest = text.partition("\n")
    skipped = 0
    delimiters = list(DELIMITERS)
    if first.strip().lower().startswith("sep=") and len(first.strip()) <= len("sep=;"):
        delimiters, text, skipped = [first.strip()[4:] or "\t"], rest, 1
    if "\f" in text:  # a form feed starts a new page on a printer
        text = text.replace("\f", "")
    text = unwrap_text_formulas(text)
    if has_piped_header(text, recognised):
        raise refusal(path, PRINTED, REMEDY)
    best, is_ledger = _delimiter(path, text, delimiters, recognised)
    if text.count(best) > MAX_CELLS:
        raise too_wide(path)
    grid = _delimited_rows(path, text, best, skipped)
    return grid if is_ledger else replace(grid, is_printed=is_printed(text))


def _delimited_rows(path: LedgerFile, text: str, delimiter: str, skipped: int) -> Grid:
    """Return the rows of delimited text. `skipped` counts lines removed from the top."""
    cells_by_line = cells_of(text, delimiter)
    if cells_by_line is not None:
        lines = range(1 + skipped, len(cells_by_line) + 1 + skipped)
        return Grid(sheet="", rows=cells_by_line, lines=lines)
    rows: list[Row] = []
    numbers: list[int] = []
    for row, line in _rows(path, text, delimiter):
        rows.append(row)
        numbers.append(line + skipped)
    return Grid(sheet="", rows=rows, lines=numbers)


def _delimiter(
    path: LedgerFile,
    text: str,
    delimiters: Sequence[str],
    recognised: Callable[[Sequence[Row]], int],
) -> tuple[str, bool]:
    """Return a text file's delimiter, and whether a ledger header was recognised with it."""
    # Try each delimiter on the first rows. Choose the delimiter with the highest score for
    # recognised fields. If several have the same score, choose the delimiter with the widest row.
    head = text[:200_000]
    scores = {}
    for delimiter in delimiters:
        cells = [row for row, _ in islice(_rows(path, head, delimiter, is_whole=False), HEAD)]
        scores[delimiter] = (recognised(cells), max(map(len, cells), default=0))
    best = max(delimiters, key=scores.__getitem__)
    return best, scores[best][0] >= BOTH


def _rows(
    path: LedgerFile, text: str, delimiter: str, *, is_whole: bool = True
) -> Iterator[tuple[Row, int]]:
    try:
        yield from rows_of(text, delimiter, is_whole=is_whole)
    except ValueError as error:
        raise refusal(
            path, str(error), "Correct the quotes in this line, or save the file again"
        ) from error
