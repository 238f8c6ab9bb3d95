"""A firm's book over several organisations: all tables with a source column, and its gate.

Each organisation has its own home. Its published warehouse is copied and never recomputed. The firm
has the contract's tables, with one more column, and three additional tables.
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
    meaning="The name of the organisation in firm.toml.",
)


def of_firm(table: Table) -> Table:
    """Return the firm's version of a table, with the source as the first column and key column."""
    return replace(table, key=(SOURCE.name, *table.key), columns=(SOURCE, *table.columns))


NIGHTS = ops_table(
    "nights",
    "One row per source and date of the firm's book: whether the source is in it, or the reason.",
    key=(SOURCE.name, SNAPSHOT_DATE.name),
    is_small=True,
    columns=(
        SOURCE,
        SNAPSHOT_DATE,
        flag("is_in_book", "Whether the source is in the firm's book of that date."),
        text(
            "state",
            "accepted if it is. Otherwise held, rejected, complete (landed, not judged), pruned, "
            "no snapshot (no night was taken) or unreadable (its warehouse could not be read).",
        ),
        text(
            "snapshot_id", "Its newest snapshot of that date. NULL if there is none.", nullable=True
        ),
        day(
            "as_of",
            "Date of its newest book on or before that date. NULL if there is none.",
            nullable=True,
        ),
        text("reason", "Why it is not in the book. Empty if it is."),
    ),
)

SOURCES = ops_table(
    "sources",
    "One row per source that is or was in firm.toml.",
    key=(SOURCE.name,),
    is_small=True,
    columns=(
        SOURCE,
        flag("is_listed", "Whether it is in firm.toml. If not, no table has rows of it."),
        moment("since", "When it was first found in firm.toml, UTC."),
        moment(
            "gone_since",
            "When it was first missing in firm.toml, UTC. NULL while it is listed.",
            nullable=True,
        ),
        text(
            "version",
            "Version of its warehouse that was read. NULL if none was read.",
            nullable=True,
        ),
        text("schema_version", "Schema of that version. NULL if none was read.", nullable=True),
        text("problem", "Why its warehouse could not be read. NULL if it was read.", nullable=True),
    ),
)

SHARED = ops_table(
    "shared_portfolios",
    "One row per source, date and portfolio that several sources can see. It counts for one.",
    key=(SOURCE.name, SNAPSHOT_DATE.name, PORTFOLIO_ID.name),
    is_small=True,
    columns=(
        SOURCE,
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        text(
            "counted_for",
            "The source for which it counts on that date. Tables and views omit the rows of all "
            "other sources. If this source is not in the book of the date (see ops.nights), no "
            "figure of the date includes the portfolio.",
        ),
        flag(
            "is_settled",
            "Whether firm.toml names that source for the portfolio. If not, it is the first "
            "source by name, and a person must decide.",
        ),
    ),
)

GATE: tuple[Table, ...] = (NIGHTS, SOURCES, SHARED)
# Tables about the firm's file have no source: its build and its own reconciliation.
OF_SOURCES: tuple[Table, ...] = tuple(
    of_firm(table) for table in (*BOOK, *OPS) if table is not BUILD
)
