"""The tables of schema `ops`: decisions, states and facts about nights."""

from functools import partial

from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.model import Column, Kind, Table


def _ours(kind: Kind, name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name=name, kind=kind, source="nightbook", meaning=meaning, nullable=nullable)


text = partial(_ours, Kind.TEXT)
amount = partial(_ours, Kind.AMOUNT, nullable=True)
flag = partial(_ours, Kind.FLAG)
ordinal = partial(_ours, Kind.ORDINAL)
count = partial(_ours, Kind.COUNT)
day = partial(_ours, Kind.DAY)
moment = partial(_ours, Kind.MOMENT)

ops_table = partial(Table, schema="ops")

SNAPSHOT_ID = text(
    "snapshot_id",
    "Snapshot ID: the UTC time when the read began, for example 20261120T021500Z.",
)


DECISIONS = ops_table(
    "decisions",
    "One row for each decision about a snapshot, with the new state and the time. The known_at "
    "macro uses this table.",
    key=("snapshot_id", "decision_no"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal(
            "decision_no",
            "Decision number within the snapshot, starting at 1. The last decision applies.",
        ),
        text("state", "The new state: accepted, held, rejected or pruned."),
        text(
            "decided_by",
            "`guards` if the guards decided, otherwise the name of the person who decided.",
        ),
        moment("decided_at", "Time of the decision, UTC."),
        text("reason", "Reason for the decision. Empty if there were no problems."),
        text(
            "machine",
            "Name of the machine that stored the decision. NULL for old decisions, because earlier "
            "versions of nightbook did not record it.",
            nullable=True,
        ),
        text(
            "decision_id",
            "Decision ID. It is the same on all machines that have this decision.",
        ),
    ),
)

REASONS = ops_table(
    "reasons",
    "One row for each reason to hold a snapshot, including reasons that were already "
    "known to be harmless.",
    key=("snapshot_id", "reason_key"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text(
            "reason_key",
            "Problem kind and location. The same problem has the same key every night.",
        ),
        text("words", "Message about the problem, with that night's figures."),
        flag(
            "is_teachable",
            "Whether this reason becomes a lesson (see ops.lessons) if a person accepts the night.",
        ),
        text("share", "Share of the book that the problem affects, from 0 to 1."),
        flag(
            "is_known",
            "Whether the reason was known to be harmless when the night was judged (see "
            "ops.lessons). A known reason does not hold a night.",
        ),
    ),
)

LESSONS = ops_table(
    "lessons",
    "One row for each lesson. If a person accepts a held night, the reasons for holding it become "
    "lessons (if `is_teachable` in ops.reasons is true). Later nights are not held for these "
    "reasons.",
    key=("snapshot_id", "reason_key"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("lesson_id", "Lesson ID. To revoke the lesson, run `nightbook reject LESSON_ID`."),
        text("reason_key", "Problem kind and location (see ops.reasons)."),
        text("words", "The message that was accepted."),
        text("share", "Share of the book that the problem affected on that night, from 0 to 1."),
        text(
            "most_share",
            "Largest share of the book that the problem may affect on a later night. If it affects "
            "more, the lesson does not cover it.",
        ),
        text("taught_by", "Name of the person who accepted the night."),
        moment("taught_at", "Time when the night was accepted, UTC."),
        text(
            "taken_back_by",
            "Name of the person who revoked the lesson. NULL if the lesson still applies.",
            nullable=True,
        ),
        moment(
            "taken_back_at",
            "Time when the lesson was revoked, UTC. NULL if the lesson still applies.",
            nullable=True,
        ),
    ),
)

WITHDRAWN = ops_table(
    "withdrawn",
    "One row for each file with data from a night that was first accepted and later rejected.",
    key=("snapshot_id", "file"),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text(
            "file",
            "Path of the file, relative to the home. A note next to the file says that it is "
            "invalid.",
        ),
        text("rejected_by", "Name of the person who rejected the night."),
        moment("rejected_at", "Time when the night was rejected, UTC."),
        text("reason", "Reason for the rejection."),
    ),
)

DECIDED: tuple[Table, ...] = (DECISIONS, REASONS, LESSONS, WITHDRAWN)
"The tables that record decisions."


REQUESTS = ops_table(
    "requests",
    "One row for each API request in a snapshot, with its response and its file in the landing "
    "folder.",
    key=("snapshot_id", "request_no"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal(
            "request_no",
            "Request number within the snapshot, starting at 1. Requests are sorted by their "
            "content, not by time.",
        ),
        text(
            "operation",
            "API operation (section 4 of the API's document), such as list_portfolios or "
            "list_venues.",
        ),
        text(
            "venue_id",
            "Requested venue. NULL for requests that list portfolios or venues.",
            nullable=True,
        ),
        text("path", "Request path, exactly as it was signed and sent."),
        text(
            "query",
            "Query string as it was sent, without the question mark. Empty if the request had no "
            "query string.",
        ),
        ordinal(
            "status", "HTTP status of the response. NULL if there was no response.", nullable=True
        ),
        ordinal("attempts", "Number of times the request was sent."),
        moment("sent_at", "When the last attempt was sent, UTC.", nullable=True),
        moment("received_at", "When the response was complete, UTC.", nullable=True),
        count(
            "byte_count",
            "Size of the decoded body in bytes. NULL if there was no body.",
            nullable=True,
        ),
        text("sha256", "SHA-256 of the decoded body. NULL if there was no body.", nullable=True),
        text(
            "file",
            "Name of the file that contains the body, in the snapshot's landing folder. NULL if no "
            "file was stored.",
            nullable=True,
        ),
        text("error", "Why the request failed. NULL if it succeeded.", nullable=True),
        text(
            "purpose",
            "book: the response is in the tables. replaced: a later response replaced it, "
            "because the data changed during the read. closing: the response was only used to "
            "check for changes at the end. confirming: a portfolio was missing from the list, so "
            "it was requested by its ID.",
        ),
    ),
)

REJECTS = ops_table(
    "rejects",
    "One row for each invalid value from the API. The record's other values are in the tables.",
    key=("snapshot_id", "request_no", "path", "reason", "value"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("request_no", "Request whose response contains the value (see ops.requests)."),
        text(
            "path", "Path of the value in the response, for example data[3].positions[0].assetId."
        ),
        text("reason", "The expected value."),
        text("value", "The invalid value as JSON text. Empty if the value is missing."),
        flag(
            "carries_money",
            "Whether the invalid value may contain an amount. If so, the night is held.",
        ),
    ),
)

INEXACT = ops_table(
    "inexact",
    "One row for each value that its column's type cannot store exactly. This table contains the "
    "exact string.",
    key=("snapshot_id", "request_no", "path"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("request_no", "Request whose response contains the value (see ops.requests)."),
        text("path", "Path of the value in the response."),
        text("table_name", "Table that cannot store the exact value."),
        text(
            "column_name",
            "Column that cannot store the exact value. An amount is NULL there, and a timestamp is "
            "truncated.",
        ),
        text("value", "The value as a string, exactly as the API sent it."),
    ),
)

DRIFT = ops_table(
    "drift_by_night",
    "One row for each difference between a snapshot and the API's document, such as an "
    "undocumented field, value or balance kind.",
    key=("snapshot_id", "path", "kind", "word"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text(
            "path",
            "Path to the field in the response, without list indexes, for example "
            "data[].positions[].note. Fields at the top level begin with `$.`, for example "
            "$.warnings.",
        ),
        text(
            "kind",
            "One of: unknown field, unknown value, unknown balance, missing field (a required "
            "field is missing or null), changed type (the JSON type is not the documented one).",
        ),
        text("word", "The value if the kind is `unknown value`, otherwise the field name."),
        text(
            "example",
            "First 200 characters of an example, as JSON text. `missing` if the field is missing.",
        ),
        count("seen", "How often the difference occurred in the snapshot."),
    ),
)

LISTINGS = ops_table(
    "listings",
    "One row for each instrument that the API's endpoints disagree about (sections 4.3 and 4.5 of "
    "the API's document).",
    key=("snapshot_id", "venue_id", "instrument_id", "missing_from"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("venue_id", "The venue."),
        text("instrument_id", "The instrument."),
        text(
            "missing_from",
            "How the endpoints disagree. venues: the instrument is in the instrument list, but not "
            "in the venue's response. instruments: the instrument is only in the venue's response, "
            "so main.instruments contains only its type and name. typed lists: the instrument is "
            "missing from the lists of spot and future instruments. type or displayName: this "
            "field has two different "
            "values.",
        ),
    ),
)

CONTROL_TOTALS = ops_table(
    "control_totals",
    "One row for each control total of a snapshot. The value must be the same in the JSON, in the "
    "lake and in this database.",
    key=("snapshot_id", "table_name", "measure", "asset_id", "is_custom_asset", "bucket"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("table_name", "Table that the control total covers."),
        text("measure", "`rows` for the row count, or `sum` for the exact sum of amount_text."),
        text("asset_id", "Asset whose amounts were added up. Empty if the measure is `rows`."),
        flag(
            "is_custom_asset",
            "Whether the asset is a custom asset. False if the measure is `rows`.",
        ),
        text("bucket", "Balance kind that was added up. Empty if the measure is `rows`."),
        text("in_json", "Value that independent code calculated from the JSON responses."),
        text("in_lake", "Value in the Parquet files of the lake."),
        text(
            "in_warehouse",
            "Value in this database. NULL if the night is not loaded into the database.",
            nullable=True,
        ),
    ),
)

SNAPSHOTS = ops_table(
    "snapshots",
    "One row for each snapshot whose responses were stored completely.",
    key=("snapshot_id",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        text("state", "Snapshot state: complete, accepted, held, rejected or pruned."),
        flag(
            "is_book",
            "Whether the snapshot is the book of its date. The newest accepted snapshot of a "
            "date is the book.",
        ),
        moment("started_at", "Time at which the pull began, UTC."),
        moment("finished_at", "Time at which the last response was received completely, UTC."),
        text(
            "decided_by",
            "`guards` if the guards decided, otherwise the person who accepted or rejected the "
            "snapshot. NULL if there is no decision yet.",
            nullable=True,
        ),
        moment(
            "decided_at",
            "Time of the last decision, UTC. NULL if there is no decision yet.",
            nullable=True,
        ),
        text(
            "reason",
            "Reason for the last decision, or the snapshot's problems that are known to be "
            "harmless (see ops.reasons). Empty if there were no problems.",
        ),
        ordinal("request_count", "Number of requests."),
        ordinal(
            "failed_request_count",
            "Number of failed requests. The venues of these requests could not be read.",
        ),
        count("byte_count", "Total size of all decoded responses in bytes."),
        count("portfolio_count", "Number of portfolios.", nullable=True),
        count("account_count", "Number of accounts.", nullable=True),
        count("balance_count", "Number of amounts.", nullable=True),
        count("venue_count", "Number of venues.", nullable=True),
        count("instrument_count", "Number of instruments.", nullable=True),
        count(
            "reject_count",
            "Number of invalid values (see ops.rejects).",
            nullable=True,
        ),
        count(
            "inexact_count",
            "Number of values that are exact only as strings (see ops.inexact).",
            nullable=True,
        ),
        count(
            "drift_count",
            "Number of differences from the API's document (see ops.drift).",
            nullable=True,
        ),
        count(
            "clock_skew_ms",
            "How far this machine's clock was off, in milliseconds. NULL if the clock needed no "
            "correction.",
            nullable=True,
        ),
        text("origin", "Address of the API from which the snapshot was read."),
        text(
            "stillness",
            "Whether portfolios or venues changed during the read. still: nothing changed. "
            "moved: some changed and were read a second time without further changes. moving: "
            "some changed again while they were read a second time. unknown: this was not "
            "checked.",
        ),
        text("moved", "Differences between the first and the last read. Empty if nothing changed."),
    ),
)

CHECKS = ops_table(
    "checks",
    "One row for each check of the newest book. A check is a query that finds wrong rows.",
    key=("check_name",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        text(
            "check_name",
            "Name of the check's file in warehouse/sql/checks, or TABLE_key for the check that a "
            "table's key is unique.",
        ),
        text("meaning", "Rule that every row must satisfy."),
        text(
            "severity",
            "error: a failed check prevents publishing. warning: a failed check is only reported.",
        ),
        flag("passed", "Whether the check passed. A check passes if it finds no wrong rows."),
        count("wrong_rows", "Number of wrong rows."),
        text("example", "The first wrong row. NULL if the check passed.", nullable=True),
    ),
)

GAPS = ops_table(
    "gaps",
    "One row for each date without a book, between the first and the newest night.",
    key=("snapshot_date",),
    is_small=True,
    columns=(
        SNAPSHOT_DATE,
        text(
            "reason",
            "Why the date has no book: no snapshot, held, rejected, pruned, or complete (stored "
            "but not judged yet).",
        ),
        day(
            "book_before",
            "Closest earlier date with a book. NULL if no earlier date has a book.",
            nullable=True,
        ),
        day(
            "book_after",
            "Closest later date with a book. NULL if no later date has a book.",
            nullable=True,
        ),
    ),
)

BUILD = ops_table(
    "build",
    "One row with information about how this database file was built.",
    key=("version",),
    is_small=True,
    columns=(
        text("version", "Name of this database file's folder in warehouse/versions."),
        moment("built_at", "When the database file was built, UTC."),
        day(
            "newest_date",
            "Date of the newest book. NULL if the file contains no book.",
            nullable=True,
        ),
        text("program_version", "Version of nightbook."),
        text(
            "schema_version",
            "Digest of all table, view and macro definitions. If it changes, the file is rebuilt.",
        ),
        text(
            "upgraded_from",
            "Contract version of the lake before a newer nightbook rebuilt it, and the nightbook "
            "version that pulled the last rebuilt night. NULL if the lake was never rebuilt.",
            nullable=True,
        ),
        text(
            "fingerprint",
            "Fingerprint of all nights and decisions up to this version. `nightbook verify` shows "
            "whether they are unchanged. NULL for an empty home.",
            nullable=True,
        ),
        text("duckdb_version", "Version of DuckDB that wrote the database file."),
        text("storage_version", "Oldest DuckDB version that can read the database file."),
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
