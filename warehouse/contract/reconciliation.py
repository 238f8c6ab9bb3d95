"""The tables of `ops` about reconciliations: their extent, breaks, annotations and signatures."""

from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.model import Column, Kind, Table
from warehouse.contract.ops import count, day, flag, moment, ops_table, ordinal, text

_NAMES = tuple(
    text(name, f"{meaning}; NULL where the ledger's level has none.", nullable=True)
    for name, meaning in (
        ("portfolio_id", "Portfolio of the key"),
        ("asset_id", "Asset of the key"),
        ("venue_id", "Venue of the key"),
        ("account_name", "Account of the key"),
        ("bucket", "Bucket and state of the key"),
    )
)

RECONCILIATIONS = ops_table(
    "reconciliations",
    "One row per day that was reconciled: how much of the book its newest run compared.",
    key=("snapshot_date",),
    columns=(
        SNAPSHOT_DATE,
        text("run_id", "The newest run of the day."),
        text("digest", "The SHA-256 of its result."),
        text("level", "What was compared per file, like portfolio, asset, venue."),
        count(
            "positions_compared", "Positions that were compared: of the book, the ledger or both."
        ),
        count(
            "positions_not_compared",
            "Positions of the book that no ledger covers; NULL where an older nightbook ran.",
            nullable=True,
        ),
        count("breaks", "Breaks that were found."),
        count("open_breaks", "Breaks that nobody accepted."),
        count("pending_breaks", "Open breaks of earlier days that no ledger covered this time."),
        count("rejected_rows", "Rows of the ledgers that could not be used."),
        moment("run_at", "When it ran, UTC."),
        text("run_by", "Who ran it; empty where that is not known."),
    ),
)

BREAKS = ops_table(
    "breaks",
    "One row per day and break of the reconciliation: where ledger and snapshot do not tie.",
    key=("snapshot_date", "break_id"),
    columns=(
        SNAPSHOT_DATE,
        text("break_id", "The break: the same id every night for the same key."),
        ordinal("episode", "1, and counting up when a break comes back after it was away."),
        text("run_id", "The run that found it: the newest of the day."),
        text("result", "Rejected, Unmapped, Not in ledger, Not in snapshot or Amount differs."),
        *_NAMES,
        flag("is_custom_asset", "Whether the asset is one the organization defined itself."),
        text("ledger_text", "The ledger's amount, exact; NULL where it has none.", nullable=True),
        text("snapshot_text", "The snapshot's, exact; NULL where it has none.", nullable=True),
        Column(
            name="difference",
            kind=Kind.AMOUNT,
            source="nightbook",
            meaning="Ledger less snapshot; NULL where DECIMAL(38,18) cannot hold it exactly.",
            nullable=True,
        ),
        text("difference_text", "The same, exact."),
        count("ledger_rows", "Rows of the ledger that were added up."),
        text("source", "Where they stand: file, sheet and row."),
        text("placement", "Within what the difference nets to zero; empty where it does not."),
        text("cause", "The suggested cause; empty where the digits suggest none."),
        text("note", "What the engine has to say of it, like why it was opened again."),
        day("first_seen", "The first day of the present episode."),
        day("ever_seen", "The first day of its first episode."),
        count("age_days", "Days since first_seen: a break that comes back is new again."),
        text("change", "new, returned, changed or unchanged since the run of the day before."),
        text("status", "Open, In progress, Waiting or Explained - accepted."),
        text("owner", "Who has it; empty where nobody does."),
        text("root_cause", "Why, as people say it; empty where nobody did."),
        text("comment", "What people say of it, whole; empty where nobody did."),
    ),
)

ANNOTATIONS = ops_table(
    "annotations",
    "One row per field of a break that somebody, or the engine, changed; only ever added to.",
    key=("revision", "entry_no"),
    columns=(
        count("revision", "The change it came with: one workbook read back, from 1."),
        count("entry_no", "Its number in that change, from 1."),
        text("break_id", "The break it is about."),
        text("field", "status, owner, root_cause or comment."),
        text("value", "What it was set to."),
        text("accepted_text", "For an accepted break: the difference, exact; else empty."),
        text("who", "Who saved the workbook, as it says; nightbook for the engine."),
        moment("said_at", "When it was saved, UTC."),
        text("source", "The file; empty for the engine."),
        text("sha256", "SHA-256 of that file; empty for the engine."),
    ),
)

SIGNOFFS = ops_table(
    "signoffs",
    "One row per signature; it holds as long as the day's result has the same digest.",
    key=("signoff_no",),
    columns=(
        SNAPSHOT_DATE,
        count("signoff_no", "Its number, from 1."),
        text("role", "preparer, reviewer or approver."),
        text("who", "Who signed."),
        moment("signed_at", "When, UTC."),
        text("comment", "What was said with it; empty where nothing was."),
        text("run_id", "The run that was signed."),
        text("digest", "The SHA-256 of that run's result."),
        count(
            "open_breaks",
            "How many breaks were open then; NULL where an older nightbook signed.",
            nullable=True,
        ),
        text("entered_by", "Who typed it, where that is somebody else; else empty."),
        flag("is_valid", "Whether the day's newest result still has that digest."),
    ),
)

RECONCILED: tuple[Table, ...] = (RECONCILIATIONS, BREAKS, ANNOTATIONS, SIGNOFFS)
