"""The tables of schema `ops`: decisions, states and facts about nights."""

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

SNAPSHOT_ID = text("snapshot_id", "The snapshot: its start in UTC, like 20261120T021500Z.")


DECISIONS = ops_table(
    "decisions",
    "One row per decision on a snapshot: its new state and since when. See known_at.",
    key=("snapshot_id", "decision_no"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal(
            "decision_no", "Number of the decision on the snapshot, from 1. The last is in force."
        ),
        text("state", "The new state: accepted, held, rejected or pruned."),
        text("decided_by", "guards, or the person who decided."),
        moment("decided_at", "Time of the decision, UTC."),
        text("reason", "The reason. Empty if there were no problems."),
        text("machine", "The machine. NULL if an older version decided.", nullable=True),
        text("decision_id", "Its id, which is the same on all machines with this decision."),
    ),
)

REASONS = ops_table(
    "reasons",
    "One row per snapshot and reason for which the guards held it, or would have held it.",
    key=("snapshot_id", "reason_key"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("reason_key", "Kind and location of the reason, the same every night."),
        text("words", "The message, with the figures of that night."),
        flag("is_teachable", "Whether accepting it also applies to later nights."),
        text("share", "The affected share, from 0 to 1."),
        flag(
            "is_known",
            "Whether it was known to be harmless when the night was judged (see ops.lessons). "
            "Then it did not hold the night.",
        ),
    ),
)

LESSONS = ops_table(
    "lessons",
    "One row per reason that a person accepted as harmless. It does not hold later nights.",
    key=("snapshot_id", "reason_key"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("lesson_id", "Its short name. `nightbook reject LESSON_ID` revokes it."),
        text("reason_key", "Kind and location of the reason (see ops.reasons)."),
        text("words", "The message that was accepted."),
        text("share", "The affected share at that time, from 0 to 1."),
        text("most_share", "The largest share that still counts as harmless."),
        text("taught_by", "The person who accepted that night."),
        moment("taught_at", "Time of that decision, UTC."),
        text("taken_back_by", "The person who revoked it. NULL while in force.", nullable=True),
        moment("taken_back_at", "Time of the revocation, UTC. NULL while in force.", nullable=True),
    ),
)

WITHDRAWN = ops_table(
    "withdrawn",
    "One row per file that was made from an accepted night that was rejected later.",
    key=("snapshot_id", "file"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("file", "The file, relative to the home. A note next to it says that it is invalid."),
        text("rejected_by", "The person who rejected that night."),
        moment("rejected_at", "Time of the rejection, UTC."),
        text("reason", "The reason."),
    ),
)

DECIDED: tuple[Table, ...] = (DECISIONS, REASONS, LESSONS, WITHDRAWN)
"""The tables about decisions on snapshots."""


REQUESTS = ops_table(
    "requests",
    "One row per request of a snapshot: the request, the response, and the landed file.",
    key=("snapshot_id", "request_no"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal(
            "request_no", "Its number in the snapshot, from 1, ordered by the content of requests."
        ),
        text("operation", "The operation in section 4: list_portfolios, list_venues, ..."),
        text("venue_id", "The venue of the request. NULL for lists.", nullable=True),
        text("path", "The path as signed and sent."),
        text("query", "The query as sent, without the question mark. Empty if there was none."),
        ordinal("status", "HTTP status of the response. NULL without a response.", nullable=True),
        ordinal("attempts", "Number of attempts until a response or the final failure."),
        moment("sent_at", "When the last attempt was sent, UTC.", nullable=True),
        moment("received_at", "When its response was complete, UTC.", nullable=True),
        count("byte_count", "Decoded bytes of the body. NULL without a body.", nullable=True),
        text("sha256", "SHA-256 of these bytes. NULL without a body.", nullable=True),
        text("file", "The landed file in the snapshot's folder. NULL if none.", nullable=True),
        text("error", "Why the request failed. NULL if it succeeded.", nullable=True),
        text(
            "purpose",
            "book: the tables contain it. replaced: reread later, because the book had moved. "
            "closing: read at the end to compare, not kept. confirming: requested by id, because "
            "the portfolio was missing from the list.",
        ),
    ),
)

REJECTS = ops_table(
    "rejects",
    "One row per value of the API that breaks the contract. Its valid siblings are in the tables.",
    key=("snapshot_id", "request_no", "path", "reason", "value"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("request_no", "The request whose response has it (see ops.requests)."),
        text("path", "Its path in that response, like data[3].positions[0].assetId."),
        text("reason", "The expected value."),
        text("value", "The received value as complete JSON text. Empty if it is missing."),
        flag("carries_money", "Whether it is or may contain an amount. Such a night is held."),
    ),
)

INEXACT = ops_table(
    "inexact",
    "One row per value that the type of its column cannot hold exactly. The text is exact.",
    key=("snapshot_id", "request_no", "path"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("request_no", "The request whose response has it (see ops.requests)."),
        text("path", "Its path in that response."),
        text("table_name", "The table of the column that cannot hold it."),
        text("column_name", "The column, in which an amount is NULL and a time is truncated."),
        text("value", "The text exactly as the API sent it."),
    ),
)

DRIFT = ops_table(
    "drift_by_night",
    "One row per snapshot and undocumented field, value or balance kind.",
    key=("snapshot_id", "path", "kind", "word"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text(
            "path",
            "Its path without indexes, like data[].positions[].note or meta.requestCount. A field "
            "next to data and meta is like $.warnings.",
        ),
        text(
            "kind",
            "unknown field, unknown value, unknown balance, missing field (a required field is "
            "missing or null) or changed type (a different JSON type than documented).",
        ),
        text("word", "The value if it is an unknown value. Otherwise the name of the field."),
        text(
            "example",
            "One example as JSON text, the first 200 characters. `missing` if there is none.",
        ),
        count("seen", "Number of occurrences that night."),
    ),
)

LISTINGS = ops_table(
    "listings",
    "One row per instrument that some endpoints of its venue omit or list differently (4.3, 4.5).",
    key=("snapshot_id", "venue_id", "instrument_id", "missing_from"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("venue_id", "The venue."),
        text("instrument_id", "The instrument."),
        text(
            "missing_from",
            "venues: it is in the venue's instruments but not embedded in the venue. instruments: "
            "it is only embedded in the venue, and main.instruments has its type and name from "
            "there. typed lists: only the list without a type has it. type or displayName: both "
            "have it, but this field differs.",
        ),
    ),
)

CONTROL_TOTALS = ops_table(
    "control_totals",
    "One row per measure of a snapshot, which must be equal in the JSON, the lake and here.",
    key=("snapshot_id", "table_name", "measure", "asset_id", "is_custom_asset", "bucket"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("table_name", "The table that was measured."),
        text("measure", "rows, or sum (the exact sum of amount_text)."),
        text("asset_id", "The asset of a sum. Empty for rows."),
        flag("is_custom_asset", "Whether the asset of a sum is custom. False for rows."),
        text("bucket", "The balance kind of a sum. Empty for rows."),
        text("in_json", "The value in the landed JSON, computed by independent code."),
        text("in_lake", "The value in the Parquet files."),
        text(
            "in_warehouse",
            "The value in this database. NULL for a night that is not loaded.",
            nullable=True,
        ),
    ),
)

SNAPSHOTS = ops_table(
    "snapshots",
    "One row per snapshot that landed completely.",
    key=("snapshot_id",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("state", "complete, accepted, held, rejected or pruned."),
        flag("is_book", "Whether it is the book of its date: the newest accepted snapshot."),
        moment("started_at", "When the read began, UTC."),
        moment("finished_at", "When the last response was complete, UTC."),
        text(
            "decided_by",
            "guards, or the person who accepted or rejected it. NULL if undecided.",
            nullable=True,
        ),
        moment("decided_at", "Time of the last decision, UTC. NULL if undecided.", nullable=True),
        text(
            "reason",
            "Why it is held, accepted by a person or rejected, or its known harmless problems (see "
            "ops.reasons). Empty if there were no problems.",
        ),
        ordinal("request_count", "Number of requests."),
        ordinal("failed_request_count", "Number of failed requests, for venues not read."),
        count("byte_count", "Number of received bytes, decoded."),
        count("portfolio_count", "Number of portfolios.", nullable=True),
        count("account_count", "Number of accounts.", nullable=True),
        count("balance_count", "Number of amounts.", nullable=True),
        count("venue_count", "Number of venues.", nullable=True),
        count("instrument_count", "Number of instruments.", nullable=True),
        count(
            "reject_count",
            "Number of values that break the contract (see ops.rejects).",
            nullable=True,
        ),
        count(
            "inexact_count", "Number of values kept only as text (see ops.inexact).", nullable=True
        ),
        count("drift_count", "Number of undocumented things (see ops.drift).", nullable=True),
        count(
            "clock_skew_ms",
            "Error of this machine's clock in milliseconds, if it had to be corrected. NULL "
            "otherwise.",
            nullable=True,
        ),
        text(
            "stillness",
            "Whether portfolios and venues changed during the read. still: no. moved: they did, "
            "but did not change when they were reread. moving: they changed again. Or unknown.",
        ),
        text("moved", "The differences between the first and the last read. Empty if still."),
    ),
)

CHECKS = ops_table(
    "checks",
    "One row per check of the newest book. A check is a query that returns wrong rows.",
    key=("check_name",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        text("check_name", "Its file in warehouse/sql/checks, or TABLE_key for a key."),
        text("meaning", "The rule that it checks."),
        text("severity", "error: a failure stops the publish. warning: it is only reported."),
        flag("passed", "Whether there were no wrong rows."),
        count("wrong_rows", "Number of wrong rows."),
        text("example", "The first wrong row. NULL if there is none.", nullable=True),
    ),
)

GAPS = ops_table(
    "gaps",
    "One row per date without a book, between the first night and the newest.",
    key=("snapshot_date",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        text("reason", "no snapshot, held, rejected, pruned or complete (landed, not yet judged)."),
        day(
            "book_before",
            "The last earlier date with a book. NULL if there is none.",
            nullable=True,
        ),
        day(
            "book_after", "The first later date with a book. NULL if there is none.", nullable=True
        ),
    ),
)

BUILD = ops_table(
    "build",
    "One row about the build of this file.",
    key=("version",),
    is_small=True,
    columns=(
        text("version", "The folder of this version in warehouse/versions."),
        moment("built_at", "When it was built, UTC."),
        day("newest_date", "Date of the newest book. NULL if there is none.", nullable=True),
        text("program_version", "Version of nightbook."),
        text(
            "schema_version",
            "Digest of all tables, views and macros. If it changes, the file is rebuilt.",
        ),
        text(
            "upgraded_from",
            "Version of nightbook, and contract, that built the lake before a newer program "
            "rebuilt it from the landing zone. NULL if it was never rebuilt.",
            nullable=True,
        ),
        text("duckdb_version", "Version of DuckDB that wrote the file."),
        text("storage_version", "Oldest DuckDB version that can read the file."),
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
