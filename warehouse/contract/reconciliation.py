"""The tables of `ops` about reconciliations: their extent, breaks, annotations and signatures."""

from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.model import Column, Kind, Table
from warehouse.contract.ops import count, day, flag, moment, ops_table, ordinal, text

_NAMES = tuple(
    text(name, f"{meaning}. NULL if the level of the ledger has none.", nullable=True)
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
    "One row per reconciled day: how much of the book its newest run compared.",
    key=("snapshot_date",),
    columns=(
        SNAPSHOT_DATE,
        text("run_id", "The newest run of the day."),
        text("digest", "The SHA-256 of its result."),
        text("level", "The level of comparison for each file, like portfolio, asset, venue."),
        count(
            "positions_compared", "Number of compared positions of the book, the ledger or both."
        ),
        count(
            "positions_not_compared",
            "Number of positions in the book that no ledger covers. NULL if an older nightbook "
            "ran.",
            nullable=True,
        ),
        count("breaks", "Number of breaks."),
        count("open_breaks", "Number of breaks that nobody accepted."),
        count(
            "pending_breaks",
            "Number of open breaks of earlier days that no ledger covered this time.",
        ),
        count("rejected_rows", "Number of rows in the ledgers that could not be used."),
        moment("run_at", "When it ran, UTC."),
        text("run_by", "The person who ran it. Empty if unknown."),
    ),
)

BREAKS = ops_table(
    "breaks",
    "One row per day and break of the reconciliation: a difference of ledger and snapshot.",
    key=("snapshot_date", "break_id"),
    columns=(
        SNAPSHOT_DATE,
        text("break_id", "The break's id, which is the same every night for the same key."),
        ordinal("episode", "1 at first. Increases each time the break returns."),
        text("run_id", "The run that found it, which is the newest of the day."),
        text("result", "Rejected, Unmapped, Not in ledger, Not in snapshot or Amount differs."),
        *_NAMES,
        flag("is_custom_asset", "Whether the organization defined the asset itself."),
        text(
            "ledger_text", "The exact amount of the ledger. NULL if there is none.", nullable=True
        ),
        text(
            "snapshot_text",
            "The exact amount of the snapshot. NULL if there is none.",
            nullable=True,
        ),
        Column(
            name="difference",
            kind=Kind.AMOUNT,
            source="nightbook",
            meaning="Ledger minus snapshot. NULL if DECIMAL(38,18) cannot hold it exactly.",
            nullable=True,
        ),
        text("difference_text", "The difference as exact text."),
        count("ledger_rows", "Number of ledger rows that were added up."),
        text("source", "Location of these rows: file, sheet and row."),
        text("placement", "The group in which differences net to zero. Empty if they do not."),
        text("cause", "The suggested cause. Empty if the digits suggest none."),
        text("note", "A note of nightbook, such as why the break was reopened."),
        day("first_seen", "The first day of the current episode."),
        day("ever_seen", "The first day of the first episode."),
        count("age_days", "Days since first_seen. A break that returns counts as new."),
        text("change", "new, returned, changed or unchanged since the previous run."),
        text("status", "Open, In progress, Waiting or Explained - accepted."),
        text("owner", "The person responsible. Empty if nobody is."),
        text("root_cause", "The root cause that people entered. Empty if there is none."),
        text("comment", "The complete comment that people entered. Empty if there is none."),
    ),
)

ANNOTATIONS = ops_table(
    "annotations",
    "One row per change of a field of a break, by a person or nightbook. Rows are only added.",
    key=("revision", "entry_no"),
    columns=(
        count("revision", "Number of the workbook that was read back, from 1."),
        count("entry_no", "Number of the change in that workbook, from 1."),
        text("break_id", "The break."),
        text("field", "status, owner, root_cause or comment."),
        text("value", "The new value."),
        text("accepted_text", "The exact difference of an accepted break. Otherwise empty."),
        text("who", "The person who saved the workbook, or nightbook."),
        moment("said_at", "When the workbook was saved, UTC."),
        text("source", "The file. Empty if nightbook made the change."),
        text("sha256", "SHA-256 of the file. Empty if nightbook made the change."),
    ),
)

SIGNOFFS = ops_table(
    "signoffs",
    "One row per signature. It is valid while the day's result has the same digest.",
    key=("signoff_no",),
    columns=(
        SNAPSHOT_DATE,
        count("signoff_no", "Number of the signature, from 1."),
        text("role", "preparer, reviewer or approver."),
        text("who", "The person who signed."),
        moment("signed_at", "When the person signed, UTC."),
        text("comment", "The comment of the person. Empty if there is none."),
        text("run_id", "The run that was signed."),
        text("digest", "The SHA-256 of that run's result."),
        count(
            "open_breaks",
            "Number of open breaks at that time. NULL if an older nightbook signed.",
            nullable=True,
        ),
        text("entered_by", "The person who entered the signature, if different. Otherwise empty."),
        flag("is_valid", "Whether the day's newest result still has that digest."),
    ),
)

RECONCILED: tuple[Table, ...] = (RECONCILIATIONS, BREAKS, ANNOTATIONS, SIGNOFFS)
