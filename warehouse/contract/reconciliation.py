"""The reconciliation tables in `ops`: reconciliations, breaks, annotations and signatures."""

from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.model import Table
from warehouse.contract.ops import amount, count, day, flag, moment, ops_table, ordinal, text

_NAMES = tuple(
    text(name, f"{meaning}. NULL if the ledger is not compared at this level.", nullable=True)
    for name, meaning in (
        ("portfolio_id", "The position's portfolio"),
        ("asset_id", "The position's asset"),
        ("venue_id", "The position's venue"),
        ("account_name", "The position's account"),
        ("bucket", "The position's balance kind and state"),
    )
)

# The folder of each reconciliation in a home.
RECORD_FOLDERS = {"ledger": "reconcile", "movements": "movements"}

_RECONCILIATION = text(
    "reconciliation",
    "ledger: the book compared with ledgers. movements: the book compared with an earlier book "
    "plus the transactions since then.",
)

RECONCILIATIONS = ops_table(
    "reconciliations",
    "One row for each reconciled day, with the extent of the comparison in the day's latest run.",
    key=("reconciliation", "snapshot_date"),
    columns=(
        _RECONCILIATION,
        SNAPSHOT_DATE,
        text("run_id", "ID of the day's latest run."),
        text("digest", "SHA-256 of this run's result."),
        text(
            "level",
            "Level at which each file was compared, for example portfolio, asset and venue.",
        ),
        count(
            "positions_compared",
            "Number of compared positions. A position counts if the book or the ledger has it.",
        ),
        count(
            "positions_not_compared",
            "Number of positions in the book that no ledger covers. NULL for old runs, because "
            "nightbook did not count them then.",
            nullable=True,
        ),
        count("breaks", "Number of breaks."),
        count("open_breaks", "Number of open breaks, which are breaks that nobody has accepted."),
        count(
            "pending_breaks",
            "Number of open breaks from earlier days that could not be compared, because no "
            "ledger covers their positions.",
        ),
        count("rejected_rows", "Number of ledger rows that could not be used."),
        moment("run_at", "When the reconciliation ran, UTC."),
        text(
            "run_by",
            "Name of the person who ran the reconciliation. Empty if the name is not known.",
        ),
    ),
)

BREAKS = ops_table(
    "breaks",
    "One row for each break and day. A break is a difference between the ledger and the book.",
    key=("reconciliation", "snapshot_date", "break_id"),
    columns=(
        _RECONCILIATION,
        SNAPSHOT_DATE,
        text("break_id", "ID of the break. It stays the same every night for the same position."),
        ordinal(
            "episode",
            "Occurrence number, starting at 1. It increases each time the break returns.",
        ),
        text("run_id", "ID of the run that found the break, which is the day's latest run."),
        text(
            "result",
            "Kind of the break: Rejected, Unmapped, Not in ledger, Not in snapshot or Amount "
            "differs.",
        ),
        *_NAMES,
        flag("is_custom_asset", "Whether the organisation defined the asset itself."),
        text(
            "ledger_text",
            "Exact amount in the ledger. NULL if the position is not in the ledger.",
            nullable=True,
        ),
        text(
            "snapshot_text",
            "Exact amount in the book. NULL if the position is not in the book.",
            nullable=True,
        ),
        amount(
            "difference",
            "Amount in the ledger minus amount in the book. NULL if DECIMAL(38,18) cannot "
            "hold it exactly.",
        ),
        text("difference_text", "Exact difference, as a string."),
        count("ledger_rows", "Number of ledger rows whose amounts were added up."),
        text("source", "File, sheet and row number of each ledger row."),
        text(
            "placement",
            "Group of breaks whose differences add up to zero. Empty if the break does not "
            "belong to such a group.",
        ),
        text(
            "cause", "Likely cause that nightbook suggests. Empty if nightbook has no suggestion."
        ),
        text("note", "Note that nightbook added, for example why it reopened the break."),
        day("first_seen", "Date on which the current occurrence began."),
        day("ever_seen", "Date on which the first occurrence began."),
        count(
            "age_days",
            "Age of the break in days, counted from first_seen. If a break returns, its age "
            "starts at zero.",
        ),
        text("change", "Change since the previous run: new, returned, changed or unchanged."),
        text(
            "status",
            "Status set by a person: Open, In progress, Waiting or Explained - accepted. The "
            "limits in recon.toml give two more: Accepted by rule, and Needs a second person.",
        ),
        text("owner", "Name of the person who handles the break. Empty if no name was entered."),
        text("root_cause", "Root cause that a person entered. Empty if nobody entered one."),
        text("comment", "Full comment that a person entered. Empty if nobody entered one."),
        amount(
            "value",
            "Difference without its sign, multiplied by the price. NULL without a valid price, or "
            "if DECIMAL(38,18) cannot hold it exactly.",
        ),
        text("value_text", "Exact value, as a string. NULL without a valid price.", nullable=True),
        text(
            "currency",
            "Unit of the value. NULL if recon.toml does not have the table materiality.",
            nullable=True,
        ),
        text(
            "price_state",
            "priced, stale (the price is too old), missing, or unread (the difference is unknown). "
            "NULL if breaks have no values.",
            nullable=True,
        ),
    ),
)

ANNOTATIONS = ops_table(
    "annotations",
    "One row for each change to a field of a break, by a person or by nightbook. Rows are "
    "never changed or deleted.",
    key=("reconciliation", "revision", "entry_no"),
    columns=(
        _RECONCILIATION,
        count("revision", "Number of the workbook that contains the change, starting at 1."),
        count("entry_no", "Number of the change within the workbook, starting at 1."),
        text("break_id", "The break."),
        text("field", "Field that changed: status, owner, root_cause or comment."),
        text("value", "The new value."),
        text(
            "accepted_text",
            "The break's exact difference when a person accepted it. Empty for all other changes.",
        ),
        text("who", "Name of the person who saved the workbook, or `nightbook`."),
        moment("said_at", "When the workbook was saved, UTC."),
        text("source", "Path of the workbook. Empty if nightbook made the change."),
        text("sha256", "SHA-256 of the workbook. Empty if nightbook made the change."),
    ),
)

SIGNOFFS = ops_table(
    "signoffs",
    "One row for each signature. A signature is valid as long as the day's latest result has the "
    "same digest.",
    key=("reconciliation", "signoff_no"),
    columns=(
        _RECONCILIATION,
        SNAPSHOT_DATE,
        count("signoff_no", "Signature number, starting at 1."),
        text("role", "The signer's role: preparer, reviewer or approver."),
        text("who", "Name of the person who signed."),
        moment("signed_at", "When the person signed, UTC."),
        text("comment", "The signer's comment. Empty if there is no comment."),
        text("run_id", "ID of the run that was signed."),
        text("digest", "SHA-256 of the signed run's result."),
        count(
            "open_breaks",
            "Number of open breaks when the signature was made. NULL for old signatures, because "
            "nightbook did not count them then.",
            nullable=True,
        ),
        text(
            "entered_by",
            "Name of the person who entered the signature for the signer. Empty if the signer "
            "entered it personally.",
        ),
        flag("is_valid", "Whether the day's latest result still has the signed digest."),
    ),
)

RECONCILED: tuple[Table, ...] = (RECONCILIATIONS, BREAKS, ANNOTATIONS, SIGNOFFS)
