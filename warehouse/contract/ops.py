"""The tables of the schema `ops`: decisions, states and everything about a night."""

from functools import partial

from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.model import Column, Kind, Table


def _ours(kind: Kind, name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name=name, kind=kind, source="nightbook", meaning=meaning, nullable=nullable)


text = partial(_ours, Kind.TEXT)
flag = partial(_ours, Kind.FLAG)
ordinal = partial(_ours, Kind.ORDINAL)
count = partial(_ours, Kind.COUNT)
day = partial(_ours, Kind.DAY)
moment = partial(_ours, Kind.MOMENT)

ops_table = partial(Table, schema="ops")

SNAPSHOT_ID = text("snapshot_id", "The snapshot: its UTC start, like 20261120T021500Z.")


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


REQUESTS = ops_table(
    "requests",
    "One row per request of a snapshot: what was asked, what came, and where the bytes are.",
    key=("snapshot_id", "request_no"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("request_no", "Its number in the snapshot, from 1, ordered by what was asked."),
        text("operation", "Which operation of section 4: list_portfolios, list_venues, ..."),
        text("venue_id", "Venue asked about; NULL for lists.", nullable=True),
        text("path", "The path as signed and sent."),
        text("query", "The query as sent, without the question mark; empty when there was none."),
        ordinal("status", "HTTP status of the answer; NULL when none came.", nullable=True),
        ordinal("attempts", "How often it was sent until it was answered or given up."),
        moment("sent_at", "When the last attempt left, UTC.", nullable=True),
        moment("received_at", "When its answer was complete, UTC.", nullable=True),
        count("byte_count", "Bytes of the body, decoded; NULL when none came.", nullable=True),
        text("sha256", "SHA-256 of those bytes; NULL when none came.", nullable=True),
        text("file", "The landed file in the snapshot's folder; NULL when none.", nullable=True),
        text("error", "Why it was given up; NULL when it was answered.", nullable=True),
        text(
            "purpose",
            "book: the tables are made of it. replaced: read again, because the book moved. "
            "closing: read at the end to compare, not kept. confirming: a portfolio that was gone "
            "from the list, asked for by its id.",
        ),
    ),
)

REJECTS = ops_table(
    "rejects",
    "One row per thing the API sent that breaks the contract; its siblings are in the tables.",
    key=("snapshot_id", "request_no", "path", "reason", "value"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("request_no", "Request whose answer held it: see ops.requests."),
        text("path", "Where it stands in that answer, like data[3].positions[0].assetId."),
        text("reason", "What was expected."),
        text("value", "What came: its JSON text, whole; empty when the thing is missing."),
        flag("carries_money", "Whether an amount is or may be in it: such a night is held."),
    ),
)

INEXACT = ops_table(
    "inexact",
    "One row per value that its column's type cannot hold exactly: the text is the truth.",
    key=("snapshot_id", "request_no", "path"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("request_no", "Request whose answer held it: see ops.requests."),
        text("path", "Where it stands in that answer."),
        text("table_name", "Table of the column that cannot hold it."),
        text("column_name", "The column: NULL there for an amount, cut for a time."),
        text("value", "The text exactly as the API sent it."),
    ),
)

DRIFT = ops_table(
    "drift_by_night",
    "One row per snapshot and thing that is not as documented: a field, a word, a balance kind.",
    key=("snapshot_id", "path", "kind", "word"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text(
            "path",
            "Where it stands, without indexes, like data[].positions[].note, meta.requestCount or, "
            "beside data and meta, $.warnings.",
        ),
        text(
            "kind",
            "unknown field, unknown value, unknown balance, missing field (required, and missing "
            "or null) or changed type (another JSON type than the document has).",
        ),
        text("word", "For an unknown value: the word; otherwise the name of the field."),
        text(
            "example",
            "One value of it, as JSON text, the first 200 letters; `missing` where there is none.",
        ),
        count("seen", "How often it came that night."),
    ),
)

LISTINGS = ops_table(
    "listings",
    "One row per instrument that not every endpoint of its venue lists, or lists alike (4.3, 4.5).",
    key=("snapshot_id", "venue_id", "instrument_id", "missing_from"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("venue_id", "The venue."),
        text("instrument_id", "The instrument."),
        text(
            "missing_from",
            "venues (it is in the venue's instruments, not embedded in the venue), instruments "
            "(the other way round: main.instruments has the type and name that the venue says), "
            "or typed lists (only the list without a type has it). type or displayName: it is in "
            "both, and they do not say the same of it.",
        ),
    ),
)

CONTROL_TOTALS = ops_table(
    "control_totals",
    "One row per measure of a snapshot: it must be the same in the JSON, the lake and here.",
    key=("snapshot_id", "table_name", "measure", "asset_id", "is_custom_asset", "bucket"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("table_name", "Table that was measured."),
        text("measure", "rows, or sum (exact, of amount_text)."),
        text("asset_id", "For a sum: the asset; empty for rows."),
        flag("is_custom_asset", "For a sum: whether the asset is custom; false for rows."),
        text("bucket", "For a sum: the balance kind; empty for rows."),
        text("in_json", "Counted or summed in the landed JSON, by code that shares nothing."),
        text("in_lake", "The same in the Parquet files."),
        text(
            "in_warehouse", "The same in this database; NULL for a night not loaded.", nullable=True
        ),
    ),
)

SNAPSHOTS = ops_table(
    "snapshots",
    "One row per snapshot that was landed whole.",
    key=("snapshot_id",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("state", "complete, accepted, held, rejected or pruned."),
        flag("is_book", "Whether this is its date's book: the newest accepted one."),
        moment("started_at", "When the read began, UTC."),
        moment("finished_at", "When the last answer was complete, UTC."),
        text(
            "decided_by",
            "guards, or who accepted or rejected it; NULL when nobody has.",
            nullable=True,
        ),
        moment("decided_at", "When that was, UTC.", nullable=True),
        text(
            "reason",
            "Why it is held, accepted by hand or rejected, or what of it is known to be harmless: "
            "see ops.reasons. Empty when all was well.",
        ),
        ordinal("request_count", "Requests made."),
        ordinal("failed_request_count", "Requests given up: venues that could not be read."),
        count("byte_count", "Bytes received, decoded."),
        count("portfolio_count", "Portfolios in it.", nullable=True),
        count("account_count", "Accounts in it.", nullable=True),
        count("balance_count", "Amounts in it.", nullable=True),
        count("venue_count", "Venues in it.", nullable=True),
        count("instrument_count", "Instruments in it.", nullable=True),
        count("reject_count", "Things that break the contract: see ops.rejects.", nullable=True),
        count("inexact_count", "Values kept as text only: see ops.inexact.", nullable=True),
        count("drift_count", "Things the document does not list: see ops.drift.", nullable=True),
        count(
            "clock_skew_ms",
            "How far this machine's clock was off, in milliseconds, where it "
            "had to be corrected; NULL otherwise.",
            nullable=True,
        ),
        text(
            "stillness",
            "Whether portfolios and venues were at its end as at its beginning: still; moved (they "
            "were read again, and then stood still); moving (they moved again); or unknown.",
        ),
        text("moved", "What differed between the first and the last read; empty when still."),
    ),
)

CHECKS = ops_table(
    "checks",
    "One row per check of the newest book: a check is a query that returns the wrong rows.",
    key=("check_name",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        text("check_name", "The check: its file in warehouse/sql/checks, or table and contract."),
        text("meaning", "What it holds."),
        text("severity", "error: not published when wrong; warning: published and told."),
        flag("passed", "Whether no row was wrong."),
        count("wrong_rows", "How many rows were wrong."),
        text("example", "The first wrong row; NULL when none.", nullable=True),
    ),
)

GAPS = ops_table(
    "gaps",
    "One row per date between the first night and the newest that has no book.",
    key=("snapshot_date",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        text("reason", "no snapshot, held, rejected, pruned or complete (landed, not yet judged)."),
        day("book_before", "The last date before it that has a book.", nullable=True),
        day("book_after", "The first date after it that has a book.", nullable=True),
    ),
)

BUILD = ops_table(
    "build",
    "One row: what made this file.",
    key=("version",),
    is_small=True,
    columns=(
        text("version", "The folder of this version under warehouse/versions."),
        moment("built_at", "When it was built, UTC."),
        day(
            "newest_date", "Date of the newest book in it; NULL when there is none.", nullable=True
        ),
        text("program_version", "Version of nightbook."),
        text(
            "schema_version",
            "Digest of all tables, views and macros: another one means a full rebuild.",
        ),
        text(
            "upgraded_from",
            "Version of nightbook, and contract, by which the lake was made before this or an "
            "earlier program made it again from the landing zone; NULL where it never was.",
            nullable=True,
        ),
        text("duckdb_version", "Version of DuckDB that wrote it."),
        text("storage_version", "Oldest storage format a reader needs."),
    ),
)

NIGHTLY: tuple[Table, ...] = (
    REQUESTS,
    REJECTS,
    INEXACT,
    DRIFT,
    LISTINGS,
    CONTROL_TOTALS,
)
BUILT: tuple[Table, ...] = (SNAPSHOTS, *DECIDED, CHECKS, GAPS, BUILD)
OPS: tuple[Table, ...] = NIGHTLY + BUILT
