"""The ledger of a movement proof: the amounts of an earlier book plus the transactions since then.

The proof has its own record. nightbook writes its ledger, and people bring only the transactions.
No row makes the amounts equal.
"""

# ruff: noqa: S608 - dates and names are ours

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from warehouse.contract.model import and_more, count_of, literal
from warehouse.query.book import OpenBook, count_rows, in_little_memory
from warehouse.query.connect import records, scalar
from warehouse.reconcile import book
from warehouse.reconcile.model import Key, Notice, moment
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.settings.config import TEMPLATE, Config
from warehouse.reconcile.terms import LEDGER_FIELDS, NotReconciled, key_expression
from warehouse.reconcile.workbook.ledgers import template_rows
from warehouse.spreadsheet.reading.grid import OpenedFile
from warehouse.storage.layout import digest_of, write_bytes

OPENING = "opening book"  # the label in a run's evidence
_MAX_LISTED = 20
_MIN_MEGABYTES, _ACCOUNTS_PER_MEGABYTE = 256, 800
_SUMS = "sum(inside), sum(at_the_cut), sum(outside), sum(repeated)"
_CUTS = """
    select snapshots.snapshot_date, max(requests.received_at)
    from ops.snapshots as snapshots left join ops.requests as requests
        on requests.snapshot_id = snapshots.snapshot_id
        and requests.operation = 'list_portfolios' and requests.purpose = 'book'
    where snapshots.is_book and snapshots.snapshot_date in ({}, {}) group by 1 order by 1
"""

_REJECTS = "select count(*) from ops.reference_rejects where table_name = 'transactions'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """The expected amounts of a closing book by key, and the facts to show with the result."""

    file_name: str
    expected: Mapping[Key, str]
    notices: tuple[Notice, ...]
    evidence: Mapping[str, str]


def read_movement(source: OpenBook, record: Record, since: date | None) -> Movement:
    """Add the transactions after an earlier book to the amounts of that book.

    Raises `NotReconciled` if there is no earlier book, or nobody has brought transactions.
    """
    opening = _opening(source, record, since)
    if not scalar(source.connection, "select count(*) from reference.transactions"):
        raise NotReconciled(
            "Nobody has brought transactions, so a movement cannot be proven. Nothing was "
            "reconciled and nothing was written. Put a file of transactions into "
            f"reference/transactions, and type `nightbook reconcile run{record.option}`."
        )
    days = ", ".join(literal(day.isoformat()) for day in (opening, source.day))
    megabytes = count_rows(source.connection, "accounts", source.day) // _ACCOUNTS_PER_MEGABYTE
    make = f"create or replace temp table movement as from movement_between({days})"
    in_little_memory(
        source.connection, max(_MIN_MEGABYTES, megabytes), lambda: source.connection.execute(make)
    )
    keys = ", ".join(map(key_expression, LEDGER_FIELDS))
    rows = source.connection.execute(
        f"select {keys}, expected_text from movement "
        "where expected_text <> '0' or closing_text <> '0'"
    ).fetchall()
    evidence = _evidence(source, opening, days)
    return Movement(
        file_name=f"movement-{source.day}.csv",
        expected={row[:-1]: row[-1] for row in rows},
        notices=tuple(_notices(source, evidence, days)),
        evidence=evidence,
    )


def _opening(source: OpenBook, record: Record, since: date | None) -> date:
    """Return the day of the book to start from.

    That is the last day of the proof, if it had no open breaks. Otherwise the opening of that day
    stays, so that an amount stays unexplained until somebody explains or accepts it.
    """
    prior = record.result_before(source.day)
    if since is None and prior is not None:
        stored = prior.evidence.get(OPENING) if prior.unsolved_breaks else None
        since = date.fromisoformat(stored) if stored else prior.day
    before = min(since or source.day, source.day - timedelta(days=1))
    query = "select max(snapshot_date) from ops.snapshots where is_book and snapshot_date <= "
    opening = scalar(source.connection, query + literal(before.isoformat()))
    if opening is None or (since is not None and since >= source.day):
        raise NotReconciled(
            f"A book on or before {since or before} does not exist, or is not before the book of "
            f"{source.day}. Nothing was reconciled and nothing was written. Give the date of an "
            f"earlier book: nightbook reconcile run{record.option} --since DAY"
        )
    day: date = opening
    return day


def prepare_folder(record: Record) -> None:
    """Create the folder with its own recon.toml, whose name gives the breaks their own IDs."""
    record.make()
    if not record.config.exists():
        write_bytes(record.config, TEMPLATE.replace('"positions"', '"movements"', 1).encode())


def write_ledger(source: OpenBook, record: Record, movement: Movement) -> None:
    """Write the ledger into the inbox. It may only replace a file that nightbook wrote."""
    path = record.inbox / movement.file_name
    if path.exists() and not (path.is_file() and digest_of(path) in record.known_workbooks()):
        raise NotReconciled(
            f"{path} was not written by nightbook, or somebody has changed it. Nothing was "
            "reconciled, and the file was not changed. Move it out of the folder, and run this "
            "command again. To correct a transaction, put a file into reference/transactions."
        )
    keys = list(movement.expected)
    names = template_rows(keys, book.read_reference(source, Config()))
    rows = sorted((*row, movement.expected[key]) for row, key in zip(names, keys, strict=True))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([(*LEDGER_FIELDS, "amount"), *rows])
    write_bytes(path, text.getvalue().encode())
    record.add_workbooks([digest_of(path)])


def require_own(ledgers: Iterable[OpenedFile], record: Record, movement: Movement) -> None:
    """Raise `NotReconciled` if the inbox has a ledger that nightbook did not write."""
    names = [file.path.name for file in ledgers if file.path.name != movement.file_name]
    if names:
        raise NotReconciled(
            f"{record.inbox} has files that nightbook did not write: {and_more(names, 3)}. Nothing "
            "was reconciled. Only nightbook writes the ledgers of this folder: move the files "
            "into reconcile/inbox, and run this command again."
        )


def _evidence(source: OpenBook, opening: date, days: str) -> dict[str, str]:
    """Return both cut-offs and the numbers of transactions, by label."""
    read = source.connection.execute(_CUTS.format(*days.split(", "))).fetchall()
    times = [f"{time:%Y-%m-%d %H:%M:%S} UTC" if time else "unknown" for _, time in read]
    sums = source.connection.execute(f"select {_SUMS} from movement").fetchone() or ()
    labels = ("between the cut-offs", "at a cut-off", "outside", "repeated")
    return {
        OPENING: opening.isoformat(),
        "opening cut-off": times[0],
        "closing cut-off": times[-1],
        **{f"transactions {label}": str(n or 0) for label, n in zip(labels, sums, strict=True)},
    }


def _notices(source: OpenBook, evidence: Mapping[str, str], days: str) -> Iterator[Notice]:
    """Yield the cut-offs, the numbers of transactions, and each transaction at a cut-off."""
    facts = ", ".join(f"{label} {value}" for label, value in evidence.items())
    query = f'nightbook query "from transactions_between({days})"'
    yield Notice("medium", f"{facts}. To list all transactions, type {query}", "movement")
    if rejects := scalar(source.connection, _REJECTS):
        yield Notice(
            "high",
            f"{count_of(rejects, 'reject')} in reference/transactions: these rows or files were "
            'not used. To list them, type nightbook query "from ops.reference_rejects"',
            "movement",
        )
    found = records(
        source.connection,
        f"from transactions_between({days}) where place = 'at_the_cut' "
        "order by time, reference, portfolio, venue, account, asset_id, amount_text",
    )
    for row in found[:_MAX_LISTED]:
        names = " / ".join(row[name] for name in ("portfolio", "venue", "account", "asset_id"))
        yield Notice(
            "high",
            f"this transaction at {moment(row['time'].isoformat())} UTC, {row['amount_text']} in "
            f"{names}, is at a cut-off. The book may have it or not, so it was not added",
            f"transaction {row['reference']}",
        )
    if (hidden := len(found) - _MAX_LISTED) > 0:
        more = count_of(hidden, "more transaction")
        yield Notice("high", f"{more} at a cut-off. To list them, type {query}", "movement")
