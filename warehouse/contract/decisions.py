"""What was decided on nights, as tables of `ops`: decisions, reasons, lessons, withdrawn files."""

from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.model import Table
from warehouse.contract.ops_columns import SNAPSHOT_ID, flag, moment, ops_table, ordinal, text

DECISIONS = ops_table(
    "decisions",
    "One row per decision on a snapshot: what it was then, and since when; see known_at.",
    key=("snapshot_id", "decision_no"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("decision_no", "Its number among those on the snapshot, from 1; the last holds."),
        text("state", "The state that it led to: accepted, held, rejected or pruned."),
        text("decided_by", "guards, or who decided."),
        moment("decided_at", "When that was, UTC."),
        text("reason", "Why, in words; empty when all was well."),
        text("machine", "On which machine; NULL if an older version decided.", nullable=True),
        text("decision_id", "Its id, the same on every machine that has this decision."),
    ),
)

REASONS = ops_table(
    "reasons",
    "One row per snapshot and reason for which the guards held it, or would have.",
    key=("snapshot_id", "reason_key"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("reason_key", "What kind it is and where it stands, the same on every night."),
        text("words", "The reason in words, with that night's numbers."),
        flag("is_teachable", "Whether a person who accepts it says so for later nights as well."),
        text("share", "How much of what it is about has it, from 0 to 1."),
        flag(
            "is_known",
            "Whether it was known to be harmless when the night was judged (see ops.lessons), so "
            "that it did not hold it.",
        ),
    ),
)

LESSONS = ops_table(
    "lessons",
    "One row per thing that a person accepted once as harmless: it holds no later night.",
    key=("snapshot_id", "reason_key"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("lesson_id", "Its short name: nightbook reject LESSON_ID takes it back."),
        text("reason_key", "What kind it is and where it stands: see ops.reasons."),
        text("words", "The reason in words, as it was accepted."),
        text("share", "How much of what it is about had it then, from 0 to 1."),
        text("most_share", "Up to how much of it is still taken for harmless."),
        text("taught_by", "Who accepted that night."),
        moment("taught_at", "When that was, UTC."),
        text("taken_back_by", "Who took it back; NULL while it holds.", nullable=True),
        moment("taken_back_at", "When that was, UTC; NULL while it holds.", nullable=True),
    ),
)

WITHDRAWN = ops_table(
    "withdrawn",
    "One row per file that was made of a night which was accepted then and rejected later.",
    key=("snapshot_id", "file"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("file", "The file, below the home; beside it stands a note that says so."),
        text("rejected_by", "Who rejected that night."),
        moment("rejected_at", "When that was, UTC."),
        text("reason", "Why."),
    ),
)

DECIDED: tuple[Table, ...] = (DECISIONS, REASONS, LESSONS, WITHDRAWN)
"""Those that are made of what was decided, snapshot by snapshot."""
