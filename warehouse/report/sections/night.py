"""What happened last night: state and reason, times, counts against the book, checks, calendar."""

# ruff: noqa: S608 - ids are ours and quoted; nothing from the wire is in a query

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from warehouse.contract.model import count_of, literal
from warehouse.contract.states import ACCEPTED, COMPLETE, HELD, REJECTED
from warehouse.report import blocks, charts, wording
from warehouse.report.answers import GAPS, SNAPSHOTS, Nights, QueryRows, Record, ask, query
from warehouse.report.blocks import (
    Chart,
    Section,
    TableBlock,
    TableColumn,
    note,
    sentence_section,
    with_rows,
)

LATE = timedelta(hours=26)
MOST = 20
COUNTED = {
    "portfolio_count": "Portfolios",
    "account_count": "Accounts",
    "balance_count": "Amounts",
    "venue_count": "Venues",
    "instrument_count": "Instruments",
}
_WHAT = TableColumn("What", lambda row: row["what"])
_FAILURES = (
    blocks.name_column("Operation", "operation"),
    blocks.name_column("Venue", "venue_id"),
    blocks.name_column("Query", "query"),
    blocks.count("Status", "status"),
    blocks.count("Attempts", "attempts"),
    blocks.name_column("Why", "error"),
)
_CHECKS = (
    blocks.name_column("Check", "check_name"),
    blocks.name_column("Severity", "severity"),
    blocks.count("Rows", "wrong_rows"),
    TableColumn("What it holds", lambda row: _long(row["meaning"])),
    blocks.name_column("First", "example"),
)
_GAPS = (
    blocks.date("Night", "snapshot_date"),
    blocks.name_column("Why", "reason"),
    blocks.date("Book before", "book_before"),
    blocks.date("Book after", "book_after"),
)


def is_late(nights: Nights, now: datetime) -> bool:
    """Return whether a night is missing since the last that was taken."""
    return nights.last is not None and now - nights.last["started_at"] > LATE


def headline(nights: Nights, now: datetime) -> tuple[str, Markup]:
    """Return the state of last night as one word for the eye, and in a sentence."""
    last = nights.last
    if last is None:
        return "none", note("No night has been taken yet.")
    night = note("The night of <b>{}</b> ", wording.day(last["snapshot_date"]))
    if last["state"] == ACCEPTED:
        words = night + note("is complete and is the book.")
        if is_late(nights, now):
            return "stale", note("<b>This book is not tonight's.</b> ") + words
        return ACCEPTED, note("<b>Tonight's book is here.</b> ") + words
    sentences = {
        HELD: "is <b>held</b>: a person must decide.",
        REJECTED: "was <b>rejected</b>.",
        COMPLETE: "has landed and is not judged yet.",
    }
    return last["state"], night + note(
        sentences.get(last["state"], "is in a state of its own.")
    ) + _book(nights.book_day)


def _book(day: date | None) -> Markup:
    if day is None:
        return note(" There is no book yet.")
    return note(" The book below is still that of <b>{}</b>.", wording.day(day))


def warnings(nights: Nights, now: datetime) -> Iterator[Markup]:
    """Yield what a reader must know before any figure."""
    last = nights.last
    if last is None:
        yield note("Take a first night with <code>nightbook run</code>.")
        return
    if last["reason"]:
        who = wording.name(last["decided_by"]) if last["decided_by"] else note("nobody yet")
        yield note("Reason: {} (decided by {})", _long(last["reason"]), who)
    age = now - last["started_at"]
    if not is_late(nights, now):
        yield note(
            "Read {}, {} before this page was made.",
            wording.moment(last["started_at"]),
            wording.duration(age),
        )
    if last["state"] == HELD:
        yield note(
            "Look at the figures, then <code>nightbook accept {0}</code> or "
            "<code>nightbook reject {0}</code>.",
            wording.printable(last["snapshot_id"]),
        )
    if is_late(nights, now):
        yield note(
            "The last night was taken {} before this page was made: a night is missing since. "
            "<code>nightbook status</code> says what is wrong.",
            wording.duration(age),
        )


def _long(value: str) -> str:
    return wording.printable(value, 600)


def section(connection: DuckDBPyConnection, nights: Nights) -> Section:
    """Return last night in its own figures."""
    last = nights.last
    if last is None:
        return sentence_section("night", "Last night", "none", "There is nothing to tell yet.")
    snapshot_id = literal(last["snapshot_id"])
    tables = [_facts(connection, last), _counts(connection, nights, last)]
    failed = ask(
        connection,
        "select operation, venue_id, query, status, attempts, error from ops.requests\n"
        f"where snapshot_id = {snapshot_id} and error is not null\norder by request_no",
        MOST,
    )
    if failed.count:
        tables.append(blocks.table("Requests that were given up", failed, _FAILURES))
    notes = [_totals(connection, snapshot_id)]
    checks = ask(connection, query("checks"))
    wrong = [row for row in checks.rows if not row["passed"]]
    if nights.book is not None:
        notes.append(_check_words(len(checks.rows), len(wrong), nights.book_day))
    if wrong:
        answered = QueryRows(checks.sql, tuple(wrong), len(wrong))
        tables.append(blocks.table("Checks that found something", answered, _CHECKS))
    return Section("night", "Last night", last["state"], notes=tuple(notes), tables=tuple(tables))


def _facts(connection: DuckDBPyConnection, last: Record) -> TableBlock:
    answered = ask(
        connection,
        f"select * from ops.snapshots\nwhere snapshot_id = {literal(last['snapshot_id'])}",
    )
    took = wording.duration(last["finished_at"] - last["started_at"])
    failed = last["failed_request_count"]
    facts = [
        ("Snapshot", wording.name(last["snapshot_id"])),
        ("State", wording.name(last["state"])),
        ("Read", wording.moment(last["started_at"]) + note(", for {}", took)),
        ("Requests", f"{last['request_count']:,}, {failed:,} of them given up"),
        ("Received", wording.size(last["byte_count"])),
        ("Decided", _decision_words(last)),
        ("Clock", _clock(last["clock_skew_ms"])),
    ]
    rows = tuple({"what": label, "value": value} for label, value in facts)
    columns = (_WHAT, TableColumn("Last night", lambda row: row["value"]))
    return blocks.table("The read", QueryRows(answered.sql, rows, len(rows)), columns)


def _decision_words(last: Record) -> Markup:
    if last["decided_at"] is None:
        return note("by nobody yet")
    return note("by {}, {}", wording.name(last["decided_by"]), wording.moment(last["decided_at"]))


def _clock(skew: int | None) -> str:
    return f"{skew:,} ms off, corrected" if skew else "right"


def _counts(connection: DuckDBPyConnection, nights: Nights, last: Record) -> TableBlock:
    """Return last night's counts against the newest other book."""
    compared = nights.before if last["is_book"] else nights.book
    before: Record = compared or {}
    ids = [literal(row["snapshot_id"]) for row in (last, compared) if row is not None]
    answered = ask(
        connection,
        f"select snapshot_date, state, {', '.join(COUNTED)}\nfrom ops.snapshots\n"
        f"where snapshot_id in ({', '.join(ids)})\norder by snapshot_id desc",
    )
    rows = tuple(_count(title, last[key], before.get(key)) for key, title in COUNTED.items())
    columns = (
        _WHAT,
        blocks.count("Last night", "now"),
        blocks.count("Book before" if last["is_book"] else "Book", "then"),
        blocks.amount("Difference", "more", signed=True),
    )
    return blocks.table("The counts", QueryRows(answered.sql, rows, len(rows)), columns)


def _count(title: str, now: int | None, then: int | None) -> Record:
    more = None if now is None or then is None else now - then
    return {"what": title, "now": now, "then": then, "more": more}


def _totals(connection: DuckDBPyConnection, snapshot_id: str) -> Markup:
    answered = ask(
        connection,
        "select count(*) as measured, count(*) filter (\n"
        "    in_json <> in_lake or in_json <> in_warehouse\n) as different\n"
        f"from ops.control_totals where snapshot_id = {snapshot_id}",
    )
    row = answered.rows[0]
    totals = count_of(row["measured"], "control total")
    if row["different"]:
        return note(
            "<b>{} of {} differ</b> between what the API sent and what is kept: see "
            "<code>ops.control_totals</code>.",
            row["different"],
            totals,
        )
    return note("{} are the same in the API's answers, in the lake and here.", totals)


def _check_words(count: int, wrong: int, day: date | None) -> Markup:
    if wrong:
        return note("<b>{} of {} checks</b> of the book of {} found something.", wrong, count, day)
    return note("All {} of the book of {} passed.", count_of(count, "check"), wording.day(day))


def states(nights: Nights) -> dict[date, str]:
    """Return each date from the first night to the last: book, or why it has none."""
    by_day: dict[date, str] = {}
    for row in nights.all:
        by_day[row["snapshot_date"]] = row["state"]
    by_day |= {row["snapshot_date"]: row["reason"] for row in nights.gaps}
    by_day |= {row["snapshot_date"]: "book" for row in nights.all if row["is_book"]}
    return by_day


def calendar(nights: Nights) -> Section:
    """Return which nights there are, and which are missing for ever."""
    by_day = states(nights)
    if not by_day:
        return sentence_section("nights", "The nights", "none", "There are none yet.")
    counted = Counter(by_day.values())
    counts = [count_of(counted["book"], "night") + " in the book"]
    counts += [f"{counted[state]:,} {state}" for state in sorted(counted) if state != "book"]
    legend = Markup(" ").join(
        note('<span class="key">{} {}</span>', charts.legend_mark(state), state)
        for state in charts.MARKS
        if counted[state]
    )
    chart = Chart(
        note("{} to {}", min(by_day), max(by_day)),
        charts.nights(by_day, "Calendar of nights: " + ", ".join(counts)),
        legend,
        SNAPSHOTS,
    )
    gaps = QueryRows(GAPS, nights.gaps[:MOST], len(nights.gaps))
    tables = with_rows(blocks.table("Nights without a book", gaps, _GAPS))
    bookless = len(by_day) - counted["book"]
    figure = f"{bookless:,} without a book" if bookless else f"all there to {max(by_day)}"
    notes = (note("{}.", ", ".join(counts)),)
    return Section("nights", "The nights", figure, notes=notes, charts=(chart,), tables=tables)
