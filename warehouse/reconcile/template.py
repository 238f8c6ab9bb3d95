"""The ledger template: today's keys with an empty amount beside each, so that names match."""

# ruff: noqa: S608 - names are ours

from pathlib import Path

from warehouse.export_source import EXHIBITS, Source
from warehouse.layout import written_aside
from warehouse.reconcile.paper import Heading, Paper
from warehouse.workbook.frame import draft

_HEADINGS = (
    Heading("Portfolio", 24),
    Heading("Asset", 14),
    Heading("Venue", 20),
    Heading("Account", 28),
    Heading("Amount", 26),
)


def write(source: Source, path: Path) -> int:
    """Write the template; returns how many keys it has."""
    rows = source.connection.execute(
        "select distinct portfolio_name, asset_id || case when is_custom_asset then ' (custom)' "
        f"else '' end, venue_id, account_name from {EXHIBITS[0].staged} order by all"
    ).fetchall()
    made = draft(title="Ledger", made_at=source.snapshot["finished_at"], about={})
    on = Paper(made, "Ledger", _HEADINGS)
    on.table([[*row, None] for row in rows], "Ledger template")
    made.book.close()
    with written_aside(path) as file:
        file.write(made.file.getvalue())
    return len(rows)
