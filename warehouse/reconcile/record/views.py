"""Queries on the state: rows for `ops` tables, the audit trail, trends and break histories."""

# ruff: noqa: S608 - the conditions are ours

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec

from warehouse.contract.model import count_of
from warehouse.exact import exact, fit_decimal
from warehouse.reconcile.model import (
    ACCEPTED,
    SETTLED,
    Break,
    Result,
    TrailLine,
    TrendNight,
    moment,
    to_json,
)
from warehouse.reconcile.record import tables
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.tables import Row
from warehouse.reconcile.terms import CUSTOM, FIELDS, NotReconciled

Rows = dict[str, list[Row]]
# Columns that count breaks by age band, in the order of `AGE_BANDS`.
_BANDS = ("to_1_day", "to_4_days", "to_29_days", "from_30_days")
_COUNTS = (
    "count(*) filter (where state = 'break') as breaks, "
    f"count(*) filter (where state = 'break' and status not in {SETTLED}) as open_breaks"
)
_DATES = ("snapshot_date", "first_seen", "ever_seen")
_TIMES = ("run_at", "said_at", "signed_at")
_QUERIES = Path(__file__).with_name("queries")


def trends(record: Record, days: Sequence[date]) -> list[TrendNight]:
    """Return the open breaks by age and owner for each of these days, in the same order."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in record.select("select * from ages"):
        found[row["day"]].append(row)
    return [
        TrendNight(
            day,
            tuple(sum(row[band] for row in found[str(day)]) for band in _BANDS),
            {row["owner"]: row["in_all"] for row in found[str(day)]},
        )
        for day in days
    ]


def ledgers_by_day(record: Record) -> dict[str, date]:
    """Map every ledger's digest to the last day on which the ledger was used."""
    query = "select sha256, max(day) as day from run_inputs join runs on no = run_no group by 1"
    return {row["sha256"]: date.fromisoformat(row["day"]) for row in record.select(query)}


def ops_rows(record: Record) -> Rows:
    """Return the rows for the tables in `warehouse.contract.reconciliation`, by table name.

    Raises `NotReconciled` if the stored state cannot be read.
    """
    try:
        return {
            table: [
                {"reconciliation": record.reconciliation} | convert(_with_dates(row))
                for row in record.select((_QUERIES / f"{table}.sql").read_text("utf-8"))
            ]
            for table, convert in _CONVERSIONS.items()
        }
    except NotReconciled:
        raise
    except (OSError, ValueError, KeyError, ArithmeticError) as error:
        raise NotReconciled(
            f"The reconciliation record in {record.root} cannot be read "
            f"({type(error).__name__}: {str(error)[:200]}). ops.breaks and its related tables were "
            "not changed, and the book is not affected. Restore that folder from the backup."
        ) from error


def _with_dates(row: Row) -> Row:
    """Return a copy of a row with its date and time strings parsed."""
    dates = {name: date.fromisoformat(row[name]) for name in _DATES if name in row}
    return row | dates | {name: datetime.fromisoformat(row[name]) for name in _TIMES if name in row}


def _reconciliation(row: Row) -> Row:
    shown = json.loads(row.pop("shown"))
    level, counts = shown["coverage"]["level"], shown["counts"]
    return row | {"level": level, "positions_compared": sum(counts.values())}


def _break(row: Row) -> Row:
    asset = row["asset_id"]
    return row | {
        "asset_id": asset.removesuffix(CUSTOM),
        "is_custom_asset": asset.endswith(CUSTOM),
        "difference": fit_decimal(exact(row["difference_text"])),
        "value": fit_decimal(exact(row["value_text"])) if row["value_text"] else None,
    }


# The conversion of each row, by the name of a table in `ops` and of its query.
_CONVERSIONS: dict[str, Callable[[Row], Row]] = {
    "reconciliations": _reconciliation,
    "breaks": _break,
    "annotations": lambda row: row,
    "signoffs": lambda row: row | {"is_valid": bool(row["is_valid"])},
}


def trail(record: Record, first: date, last: date, now: str = "") -> list[TrailLine]:
    """Return the audit trail: actions since `first`, and runs from `first` to `last`.

    `now` is the ID of the current run. It is left out, because its line would change on each run.
    """
    actions = (*_runs(record, first, last, now), *_statements(record, first, last))
    lines = (*_entries(record, first.isoformat()), *actions)
    return sorted(lines, key=lambda line: (line.at, line.subject, line.action))


def _entries(record: Record, since: str) -> Iterator[TrailLine]:
    for note in record.annotations:
        if note.at[:10] < since and (note.read_for or note.engine_day or "") < since:
            continue
        for entry in note.entries:
            is_accepted = entry.field == "status" and entry.value == ACCEPTED
            value = f"{entry.value} (of {entry.accepted})" if is_accepted else entry.value
            what = "acceptance" if is_accepted else entry.field.replace("_", " ")
            action = (what, entry.break_id, value)
            yield TrailLine(moment(note.at), note.who, *action, note.source, note.sha256)
        for notice in note.notices:
            about = (notice.raw or notice.location, notice.message)
            yield TrailLine(moment(note.at), note.who, "notice", *about, note.source, note.sha256)


def _statements(record: Record, first: date, last: date) -> Iterator[TrailLine]:
    """Yield the signatures, the restatements and the closings."""
    for item in record.signatures:
        if item.day >= first:
            what, words = f"signature as {item.role}", (item.description, item.comment, item.run_id)
            about = (item.who, what, str(item.day), "; ".join(filter(None, words)))
            yield TrailLine(moment(item.at), *about, item.source, item.sha256)
    for again in record.restatements:
        if first <= again.day <= last:
            why = f"{again.why} (before: run {again.run_before or 'none'})"
            yield TrailLine(moment(again.at), again.who, "restatement", str(again.day), why)
    for pack in record.closings:
        if f"{first:%Y-%m}" <= pack.month <= f"{last:%Y-%m}":
            why = f"version {pack.version} through {pack.through}: {pack.why}"
            about = (pack.who, "close", pack.month, why)
            yield TrailLine(moment(pack.at), *about, pack.pack, pack.sha256)


def _runs(record: Record, first: date, last: date, now: str) -> Iterator[TrailLine]:
    rows = record.select(
        f"select r.*, {_COUNTS}, day_no = max(day_no) over (partition by day) as is_newest, "
        "lag(settings_sha256) over (order by day, day_no) as settings_before "
        "from runs as r left join breaks as b on b.run_no = r.no "
        "where day between ? and ? group by r.no order by day, day_no",
        first.isoformat(),
        last.isoformat(),
    )
    files: dict[int, dict[tuple[str, str], None]] = defaultdict(dict)
    for row in record.select("select run_no, name, sha256 from run_inputs order by run_no, place"):
        files[row["run_no"]][row["name"], row["sha256"]] = None
    for row in rows:
        if row["is_newest"] and row["run_id"] == now:
            continue
        about = (moment(row["made_at"]), row["made_by"])
        breaks = count_of(row["breaks"], "break")
        words = f"run {row['run_id']}: {breaks}, {row['open_breaks']} open"
        names, digests = (", ".join(pair[place] for pair in files[row["no"]]) for place in (0, 1))
        what = "rerun" if row["day_no"] > 1 else "run"
        yield TrailLine(*about, what, row["day"], words, names, digests)
        before, settings = row["settings_before"], row["settings_sha256"]
        if before and settings != before:
            words = f"recon.toml is {settings}; it was {before}"
            yield TrailLine(*about, "settings", row["day"], words)


def break_history(record: Record, break_id: str) -> tuple[dict[str, Any], ...]:
    """Return a break's state on every day, its comments and its signatures, oldest first.

    Raises `NotReconciled` if no break ever had this ID.
    """
    rows = record.select(
        "select r.day, b.* from newest_runs as r join breaks as b on b.run_no = r.no "
        "where break_id = ? and state = 'break' order by day",
        break_id,
    )
    lines = [
        {"at": row.pop("day"), "kind": "break"}
        | to_json(msgspec.convert(tables.break_fields(row), Break))
        for row in rows
    ]
    days = {line["at"] for line in lines}
    lines += [
        {"at": note.at, "kind": "said", "who": note.who, **to_json(entry)}
        for note in record.annotations
        for entry in note.entries
        if entry.break_id == break_id
    ]
    lines += [
        {"kind": "signed", "at": signature.at, "words": signature.description}
        for signature in record.signatures
        if signature.day.isoformat() in days
    ]
    if not lines:
        raise NotReconciled(
            f"No break has ever had the ID {break_id!r}. `nightbook reconcile status"
            f"{record.option}` lists the breaks in the latest result. Nothing was changed."
        )
    return tuple(sorted(lines, key=lambda line: (line["at"], line["kind"])))


def history_lines(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Format a break's history for a terminal: each line has time, author, action and details."""
    newest = next((entry for entry in reversed(entries) if entry["kind"] == "break"), None)
    if newest:
        names = (newest["names"][name] for name in FIELDS if name in newest["names"])
        yield f"{newest['id']}  {' / '.join(names)}"
    rows = [_history_row(entry) for entry in entries]
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _history_row(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return the cells of a history line: time, author or result, action or status, and details."""
    at = moment(entry["at"]) if "T" in entry["at"] else entry["at"]
    if entry["kind"] == "signed":
        return at, "signature", "", entry["words"]
    if entry["kind"] == "said":
        return at, entry["who"], entry["field"].replace("_", " "), " ".join(entry["value"].split())
    sides = (("ledger", entry["ledger"]), ("book", entry["snapshot"]))
    amounts = ", ".join(f"{side} {amount}" for side, amount in sides if amount is not None)
    age = f"{entry['change']}, {count_of(entry['age_days'], 'day')} old"
    is_unread = entry["ledger"] is None and entry["result"] == Result.REJECTED.value
    difference = "amount not read" if is_unread else f"difference {entry['difference']}"
    words = f"{amounts}, {difference}; {age}"
    return at, Result(entry["result"]).label, entry["status"], words.removeprefix(", ")
