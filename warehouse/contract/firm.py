"""The tables of a firm's book: the organisations' tables plus a source column, and the gate tables.

Each organisation has its own home. Its published warehouse is copied and never recomputed. The
firm's book has the contract's tables, each with a source column, and the three gate tables.
"""

from dataclasses import replace
from typing import Final

from warehouse.contract.book import BOOK, PORTFOLIO_ID, SNAPSHOT_DATE
from warehouse.contract.model import Column, Kind, Table
from warehouse.contract.ops import BUILD, OPS, day, flag, moment, ops_table, text

SOURCE: Final = Column(
    name="source",
    kind=Kind.TEXT,
    source="firm.toml",
    meaning="Name of the organisation in firm.toml.",
)


def of_firm(table: Table) -> Table:
    """Return a copy of a table with the source as its first column and first key column."""
    return replace(table, key=(SOURCE.name, *table.key), columns=(SOURCE, *table.columns))


NIGHTS = ops_table(
    "nights",
    "One row for each source and date of the firm's book. The row says whether the source is in "
    "the book, and if not, why not.",
    key=(SOURCE.name, SNAPSHOT_DATE.name),
    is_small=True,
    columns=(
        SOURCE,
        SNAPSHOT_DATE,
        flag("is_in_book", "Whether the source is in the firm's book of that date."),
        text(
            "state",
            "accepted if the source is in the book. Otherwise held, rejected, complete (stored "
            "but not judged), pruned, no snapshot (the night was not read) or unreadable (the "
            "source's warehouse could not be read).",
        ),
        text(
            "snapshot_id",
            "The source's newest snapshot on that date. NULL if the source has no snapshot "
            "on that date.",
            nullable=True,
        ),
        day(
            "as_of",
            "Date of the source's newest book on or before that date. NULL if the source "
            "has no such book.",
            nullable=True,
        ),
        text("reason", "Why the source is not in the book. Empty if it is in the book."),
    ),
)

SOURCES = ops_table(
    "sources",
    "One row for each source that is in firm.toml or was in it earlier.",
    key=(SOURCE.name,),
    is_small=True,
    columns=(
        SOURCE,
        flag(
            "is_listed",
            "Whether the source is in firm.toml. If not, the book does not contain its rows.",
        ),
        moment("since", "When the source was first found in firm.toml, UTC."),
        moment(
            "gone_since",
            "When the source was first missing from firm.toml, UTC. NULL if firm.toml lists the "
            "source.",
            nullable=True,
        ),
        text(
            "version",
            "Version of the source's warehouse that was read. NULL if no version was read.",
            nullable=True,
        ),
        text(
            "schema_version",
            "Digest of the table, view and macro definitions in the version that was read. NULL if "
            "no version was read.",
            nullable=True,
        ),
        text(
            "problem",
            "Why the source's warehouse could not be read. NULL if it was read.",
            nullable=True,
        ),
    ),
)

SHARED = ops_table(
    "shared_portfolios",
    "One row for each source, date and portfolio, if several sources can see the "
    "portfolio. Such a portfolio counts for one source only.",
    key=(SOURCE.name, SNAPSHOT_DATE.name, PORTFOLIO_ID.name),
    is_small=True,
    columns=(
        SOURCE,
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        text(
            "counted_for",
            "Source that the portfolio counts for on that date. Tables and views omit the rows "
            "of all other sources. If this source is not in the book of the date (see "
            "ops.nights), that date's figures do not include the portfolio.",
        ),
        flag(
            "is_settled",
            "Whether firm.toml names this source for the portfolio. If not, nightbook uses the "
            "source that comes first alphabetically.",
        ),
    ),
)

GATE: tuple[Table, ...] = (NIGHTS, SOURCES, SHARED)
# The tables that get a source column: all tables of an organisation, except the tables about its
# build and its reconciliation.
OF_SOURCES: tuple[Table, ...] = tuple(
    of_firm(table) for table in (*BOOK, *OPS) if table is not BUILD
)
