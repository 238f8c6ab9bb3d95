"""What lookups from another workbook go by: the key of a position, and what people call a venue."""

from collections.abc import Iterator

from warehouse.export.staged_tables import LOOKUP_KEY
from warehouse.query.book import Exhibit, OpenBook
from warehouse.spreadsheet.writing.layout import SheetColumn, SheetColumnKind

VENUE, VENUE_NAME = "venue_id", "venue_name"


def lookup_columns(exhibit: Exhibit) -> Iterator[SheetColumn]:
    """Yield what lookups from another workbook go by: last, for older lookups count columns."""
    yield SheetColumn(
        LOOKUP_KEY,
        "Key",
        "lookup_key: the same text for the same position in every workbook of nightbook, for "
        "XLOOKUP, VLOOKUP and MATCH.",
        SheetColumnKind.TEXT,
        width=21,
        is_printed=False,
    )
    if VENUE in exhibit.key:
        words = "venue_name: what people call the venue, as the reconciliation shows it."
        yield SheetColumn(
            VENUE_NAME, "Venue name", words, SheetColumnKind.TEXT, width=24, is_printed=False
        )


def venue_names(source: OpenBook) -> dict[str, str]:
    """Return what people call the venues of the book."""
    rows = source.connection.execute(
        "select venue_id, display_name from history.venues where snapshot_date = ?", [source.day]
    ).fetchall()
    return {venue: name for venue, name in rows if name}
