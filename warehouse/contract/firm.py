"""A firm's book over several organisations: every table with its source in front, and its gate.

Each organisation keeps a home of its own. What its warehouse publishes is read, never made again:
the firm's tables are those of the contract with one column more, and two of its own.
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
    meaning="The organisation, as firm.toml names it.",
)


def of_firm(table: Table) -> Table:
    """Return a table as the firm has it: the source is its first column, and first of its key."""
    return replace(table, key=(SOURCE.name, *table.key), columns=(SOURCE, *table.columns))


NIGHTS = ops_table(
    "nights",
    "One row per source and date of the firm's book: whether the source is in it, or why not.",
    key=(SOURCE.name, SNAPSHOT_DATE.name),
    is_small=True,
    columns=(
        SOURCE,
        SNAPSHOT_DATE,
        flag("is_in_book", "Whether the firm's book of that date holds the source."),
        text(
            "state",
            "accepted where it does. Otherwise held, rejected, complete (landed, not judged) or "
            "pruned; no snapshot where no night was taken; unreadable where its warehouse was.",
        ),
        text("snapshot_id", "Its newest snapshot of that date; NULL when none.", nullable=True),
        day(
            "as_of",
            "Date of its newest book on or before that date: what was last known of it; NULL where "
            "there is none.",
            nullable=True,
        ),
        text("reason", "Why the book does not hold it; empty where it does."),
    ),
)

SOURCES = ops_table(
    "sources",
    "One row per source that firm.toml names or ever named.",
    key=(SOURCE.name,),
    is_small=True,
    columns=(
        SOURCE,
        flag("is_listed", "Whether firm.toml names it; what it does not name is in no table."),
        moment("since", "When it was first seen in firm.toml, UTC."),
        moment(
            "gone_since", "When it was first missed there, UTC; NULL while listed.", nullable=True
        ),
        text(
            "version", "Version of its warehouse that was read; NULL when none was.", nullable=True
        ),
        text("schema_version", "Schema of that version; NULL when none was read.", nullable=True),
        text("problem", "Why its warehouse could not be read; NULL where it was.", nullable=True),
    ),
)

SHARED = ops_table(
    "shared_portfolios",
    "One row per source, date and portfolio that several sources can see: it counts for one.",
    key=(SOURCE.name, SNAPSHOT_DATE.name, PORTFOLIO_ID.name),
    is_small=True,
    columns=(
        SOURCE,
        SNAPSHOT_DATE,
        PORTFOLIO_ID,
        text(
            "counted_for",
            "The source for which it counts on that date. Tables and views leave out the rows of "
            "all other sources. If ops.nights says that the book of the date does not hold this "
            "source, no figure of the date holds the portfolio.",
        ),
        flag(
            "is_settled",
            "Whether firm.toml names that source for the portfolio. Otherwise it is the first "
            "one by name, and a person must decide.",
        ),
    ),
)

GATE: tuple[Table, ...] = (NIGHTS, SOURCES, SHARED)
# What the firm's file says of itself has no source: how it was built, and its own reconciliation.
OF_SOURCES: tuple[Table, ...] = tuple(
    of_firm(table) for table in (*BOOK, *OPS) if table is not BUILD
)
