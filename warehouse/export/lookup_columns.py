"""What lookups from another workbook go by: the key of a position, and what people call a venue."""

from collections.abc import Iterator

from warehouse.query.book import VENUE_NAME, Exhibit
from warehouse.spreadsheet.writing.layout import SheetColumn, SheetColumnKind

LOOKUP_KEY = "lookup_key"


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
    if "venue_id" in exhibit.key:
        words = "venue_name: what people call the venue, as the reconciliation shows it."
        yield SheetColumn(
            VENUE_NAME, "Venue name", words, SheetColumnKind.TEXT, width=24, is_printed=False
        )
