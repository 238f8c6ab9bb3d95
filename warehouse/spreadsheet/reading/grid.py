"""Files as grids of cells: xlsx, xlsm, xls and ods through calamine, and delimited text."""

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import python_calamine

from warehouse.spreadsheet.reading.delimited import (
    LONGEST_FIELD,
    Row,
    cells_of,
    has_long_line,
    rows_of,
)
from warehouse.spreadsheet.reading.extent import MOST_CELLS
from warehouse.spreadsheet.reading.safety import (
    archive,
    password_refusal,
    refusal,
    require_room,
    too_wide,
    without_panic,
)
from warehouse.spreadsheet.reading.xml_findings import Findings, findings

SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
TEXTS = (".csv", ".tsv", ".txt")
HEAD = 100  # rows in which a header is looked for
DELIMITERS = ";\t,|"
_OLE = b"\xd0\xcf\x11\xe0"
# In a workbook of the old format the record after its first one says that it is encrypted.
_LOCKED_XLS = re.compile(rb"\x09\x08\x10\x00\x00\x06.{14}\x2f\x00", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Grid:
    """One sheet: its rows from the first one on; `lines` are their numbers where not 1, 2, 3...

    `errors` has, by row and column from 0, what the reader gave out as empty. Where `is_blank_sure`
    is false, an empty cell may be an error cell that the format does not show.
    """

    sheet: str
    rows: Sequence[Row]
    lines: Sequence[int] = ()
    errors: Mapping[tuple[int, int], str] = field(default_factory=dict)
    merged: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()
    hidden_rows: int = 0
    hidden_columns: frozenset[int] = frozenset()
    is_visible: bool = True
    is_blank_sure: bool = True

    def line(self, row: int) -> int:
        """The number of a row as its program shows it."""
        return self.lines[row] if self.lines else row + 1


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """One file: its name, digest, grids and what there is to say of it.

    `others` are tabs that are no sheets of cells, with what they are.
    """

    path: Path
    sha256: str
    grids: tuple[Grid, ...]
    notices: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()


def is_ledger_name(path: Path) -> bool:
    """Whether a file may be a ledger by its name: no lock file, nothing hidden, a known ending."""
    name = path.name
    return not name.startswith(("~$", ".")) and path.suffix.lower() in (*SPREADSHEETS, *TEXTS)


def whole(path: Path, pause: Callable[[], None]) -> bytes:
    """The bytes of a file that nobody is writing to; `pause` waits between two looks."""
    before = path.stat()
    pause()
    content = path.read_bytes()
    after = path.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(
        content
    ) != after.st_size:
        raise refusal(path, "is still being written", "Wait until it is whole and run again")
    if not content:
        raise refusal(path, "is empty (0 bytes)", "Save the ledger again")
    return content


def open_file(
    path: Path,
    recognised: Callable[[Sequence[Row]], int],
    pause: Callable[[], None] = lambda: None,
) -> OpenedFile:
    """Read one file; `recognised` says how many fields of a ledger it sees in some rows.

    Raises `NotReconciled` with what the file really is.
    """
    if path.suffix.lower() in TEXTS and has_long_line(path):
        raise refusal(
            path,
            f"has a line of more than {LONGEST_FIELD:,} bytes: a ledger has one line for each row",
            "Export it again with a line for each row, or save it as xlsx",
        )
    content = whole(path, pause)
    digest = hashlib.sha256(content).hexdigest()
    if path.suffix.lower() in TEXTS:
        text, notices = decode_text(path, content)
        return OpenedFile(path, digest, (_table(path, text, recognised),), notices)
    others: list[tuple[str, str]] = []
    grids = tuple(_spreadsheet(path, content, others))
    return OpenedFile(path, digest, grids, (), tuple(others))


def _spreadsheet(path: Path, content: bytes, others: list[tuple[str, str]]) -> Iterator[Grid]:
    told = _looked_at(path, content)
    is_sure = not content.startswith(_OLE) and not any(
        finding.hides_errors for finding in told.values()
    )
    try:
        with (
            without_panic(path),
            python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content)) as book,
        ):
            for about in book.sheets_metadata:
                if about.typ is not python_calamine.SheetTypeEnum.WorkSheet:
                    others.append((about.name, str(about.typ).rpartition(".")[2]))
                    continue
                found = told.get(about.name, Findings())
                sheet = book.get_sheet_by_name(about.name)
                height, width = sheet.end or (0, 0)
                if (height + 1) * (width + 1) > MOST_CELLS:
                    raise too_wide(path)
                yield Grid(
                    about.name,
                    sheet.to_python(skip_empty_area=False),
                    errors=found.errors,
                    merged=tuple(sheet.merged_cell_ranges or ()),
                    hidden_rows=found.hidden_rows,
                    hidden_columns=found.hidden_columns,
                    is_visible=about.visible is python_calamine.SheetVisibleEnum.Visible,
                    is_blank_sure=is_sure,
                )
    except python_calamine.PasswordError as error:
        raise password_refusal(path) from error
    except python_calamine.CalamineError as error:
        raise refusal(
            path, f"is no whole spreadsheet ({error})", "Save it again as xlsx, ods or CSV"
        ) from error


def _looked_at(path: Path, content: bytes) -> dict[str, Findings]:
    """What can be said before a reader touches it."""
    if content[:512].lstrip()[:1] == b"<":
        raise refusal(path, "is a web page, whatever its name says", "Save it as xlsx or CSV")
    if content.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in content or _LOCKED_XLS.search(content):
            raise password_refusal(path)
        return {}
    with archive(path, content) as names:
        require_room(path, names)
        return findings(names)


def decode_text(path: Path, content: bytes) -> tuple[str, tuple[str, ...]]:
    """The text of a file by its mark, as UTF-8, else as cp1252, which is then told."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace"), ()
    zeros = content[:2000].count(0)
    if zeros > len(content[:2000]) // 4:
        order = "le" if content[1:2] == b"\x00" else "be"
        return content.decode(f"utf-16-{order}", "replace"), ("read as UTF-16",)
    if content[:512].lstrip()[:5].lower() in {b"<html", b"<!doc"}:
        raise refusal(path, "is a web page, whatever its name says", "Save it as CSV")
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), ("read as cp1252: it is no UTF-8",)


def _table(path: Path, text: str, recognised: Callable[[Sequence[Row]], int]) -> Grid:
    """The delimiter is the one with which a header can be recognised, named by `sep=` or found."""
    first, _, rest = text.partition("\n")
    skipped = 0
    delimiters = list(DELIMITERS)
    if first.strip().lower().startswith("sep=") and len(first.strip()) <= len("sep=;"):
        delimiters, text, skipped = [first.strip()[4:] or "\t"], rest, 1
    head = text[:200_000]
    scores = {}
    for delimiter in delimiters:
        cells = [row for row, _ in islice(_rows(path, head, delimiter, is_whole=False), HEAD)]
        scores[delimiter] = (recognised(cells), max(map(len, cells), default=0))
    best = max(delimiters, key=lambda delimiter_: scores[delimiter_])
    if text.count(best) > MOST_CELLS:
        raise too_wide(path)
    found = cells_of(text, best)
    if found is not None:
        return Grid("", found, range(1 + skipped, len(found) + 1 + skipped))
    rows: list[Row] = []
    lines: list[int] = []
    for row, line in _rows(path, text, best):
        rows.append(row)
        lines.append(line + skipped)
    return Grid("", rows, lines)


def _rows(
    path: Path, text: str, delimiter: str, *, is_whole: bool = True
) -> Iterator[tuple[Row, int]]:
    try:
        yield from rows_of(text, delimiter, is_whole=is_whole)
    except ValueError as error:
        raise refusal(path, str(error), "Mend its quotes or save it again") from error
