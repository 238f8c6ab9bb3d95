"""A book from before the first night, as the rows of an old workbook.

The ledger reader reads the workbook, and its names are looked up in the first book.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from warehouse.contract.reference import POSITIONS
from warehouse.query.book import book as open_book
from warehouse.query.read import run as ask
from warehouse.reconcile import book
from warehouse.reconcile.ledger.days import late_sources, question_of_late
from warehouse.reconcile.match.inputs import MatchInputs
from warehouse.reconcile.match.sides import Scope, make_covered_rows, make_ledger_side
from warehouse.reconcile.model import Alias, Ledger, alias_line
from warehouse.reconcile.preview import Preview, preview_file
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.run import reading_context
from warehouse.reconcile.settings.config import read_config
from warehouse.reconcile.terms import CUSTOM, DIMENSIONS, FIELDS, Ambiguous, NotReconciled
from warehouse.reference.child import FileRows, ReadRequest, UnusedLine
from warehouse.reference.reader import pack_rows
from warehouse.storage.parquet import arrow_schema

_FIRST_BOOK = "select min(snapshot_date) from ops.snapshots where is_book"


@dataclass(frozen=True, slots=True)
class OldBook:
    """An old workbook: its bytes, its positions and rejected rows, and notices about them.

    If `preview` has a question, there are no rows. `first_night` is the snapshot ID of the first
    book.
    """

    preview: Preview
    content: bytes
    first_night: str
    rows: Sequence[dict[str, Any] | UnusedLine] = ()
    notices: tuple[str, ...] = ()

    def file_rows(self, request: ReadRequest) -> FileRows:
        """Return the rows to store."""
        return pack_rows(request, arrow_schema(POSITIONS), self.rows)


def read_old_book(database: Path, folder: Path, file: Path, day: date) -> OldBook:
    """Read a workbook as the book of a day before the first night, without storing anything.

    Raises `NotReconciled` if the file cannot be used, `Ambiguous` if it states a different day or
    an ambiguous name, and `NotExported` if there is no first night.
    """
    record, ledgers = Record(folder), list[Ledger]()
    config = read_config(record.config)
    content = file.read_bytes() if file.is_file() else b""
    [(first,)] = ask(database, _FIRST_BOOK).rows
    with open_book(database, first, ()) as source:
        if day >= source.day:
            raise _unusable(f"{day} is not before the first night, which is {source.day}")
        reference = book.read_reference(source, config)
        context = reading_context(record, config, reference, day)
        preview = preview_file(file, context, ledgers.append)
        if preview.question:
            return OldBook(preview, content, source.snapshot_id)
        [ledger] = ledgers
        if late := late_sources(ledger, config, day):
            raise question_of_late(late, day)
        inputs = MatchInputs(source=source, ledger=ledger, config=config, reference=reference)
        scope = Scope(files=tuple({} for _ in ledger.sources))
        book.make_book_rows(source.connection, source.day, ledger.fields)
        make_covered_rows(inputs, scope)
        names = make_ledger_side(inputs, scope)
        _require_clear_names(names.aliases)
        rows = list(_positions(inputs, file.name, day))
    if not rows:
        raise _unusable(f"{file.name} has no row that can be read")
    if file.read_bytes() != content:
        raise _unusable(f"{file.name} was changed while it was read")
    rejects = (
        UnusedLine("unreadable_row", f"{ledger.place(row)}: {row.reason}", row.raw, row.line)
        for row in ledger.rejected
    )
    lines = tuple(notice.line for notice in (*ledger.notices, *names.notices))
    return OldBook(preview, content, source.snapshot_id, (*rows, *rejects), lines)


def _unusable(problem: str) -> NotReconciled:
    return NotReconciled(f"{problem}. Nothing was imported. Correct this, then try again.")


def _require_clear_names(aliases: Sequence[Alias]) -> None:
    """Raise `Ambiguous` if a name may have several meanings. Unknown names are allowed."""
    unclear = [alias for alias in aliases if alias.how in ("ambiguous", "wrong alias")]
    if unclear:
        names = (f"The {name.field} {name.written!r} may be {name.suggestion}." for name in unclear)
        lines = (f"[alias.{alias.field}]\n{alias_line(alias)}" for alias in unclear)
        raise Ambiguous(" ".join(names), "\n".join(lines))


def _positions(inputs: MatchInputs, file: str, day: date) -> Iterator[dict[str, Any]]:
    """Yield the rows with their IDs. A name that is not in the first book stays as written."""
    query = "select field, written, case when is_known then id end from names"
    # Accounts that are spelled as in the book were not looked up.
    found = {row[:2]: row[2] for row in inputs.connection.execute(query).fetchall()}
    ledger = inputs.ledger
    for number, row in enumerate(ledger.lines.table.to_pylist(), 1):
        source = ledger.sources[row["file"]]
        fields = source.fields or ledger.fields
        unknown = {field for field in fields if found.get((field, row[field]), "") is None}
        ids = {
            field: row[field] if field in unknown else found.get((field, row[field]), row[field])
            for field in fields
        }
        if "asset" in unknown:
            ids["asset"] = row["asset"].replace(" (custom)", CUSTOM)
        yield {
            "as_of_date": day,
            "row_no": number,
            **{DIMENSIONS[field].column: ids.get(field) for field in FIELDS},
            "asset_id": ids["asset"].removesuffix(CUSTOM),
            "is_custom_asset": ids["asset"].endswith(CUSTOM),
            "amount_text": row["amount"],
            "is_known": not unknown,
            "sheet": source.place_name.removeprefix(file).removeprefix("!"),
            "line": row["line"],
        }
