"""The sheet that says which organisations a firm's figures hold, and why the others are missing."""

from warehouse.contract.firm import NIGHTS
from warehouse.export.sheets import TextTable, plain_text, width_of
from warehouse.query.book import OpenBook
from warehouse.query.connect import records
from warehouse.spreadsheet.writing.layout import SheetColumn, SheetColumnKind

SOURCES = "Sources"
_HEADS = {
    "source": "Source",
    "is_in_book": "In these figures",
    "state": "State",
    "snapshot_id": "Snapshot",
    "as_of": "Last book",
    "reason": "Why not",
}


def source_sheet(source: OpenBook) -> TextTable:
    """Return a row for each organisation of the firm, with what its night came to."""
    query = "select * from ops.nights where snapshot_date = ? order by source"
    rows = [
        {name: plain_text(row[name]) for name in _HEADS}
        for row in records(source.connection, query, source.day)
    ]
    columns = tuple(
        SheetColumn(
            name,
            head,
            f"{name}: {NIGHTS.column(name).meaning}",
            SheetColumnKind.TEXT,
            width=width_of(head, (row[name] for row in rows)),
        )
        for name, head in _HEADS.items()
    )
    return TextTable.of(columns, rows)
