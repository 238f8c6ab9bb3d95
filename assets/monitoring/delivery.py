"""Delivery: a new book's report and workbook, and reminders to the owners of open breaks.

`NIGHTBOOK_DELIVER` names the channels. A channel that takes no files gets the text only. Each book
is sent once to each channel. If it is withdrawn later, the same channels get a correction.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from assets.console.invocation import full_command
from assets.home.demo import is_demo
from assets.monitoring.alerts import (
    INFO,
    Alert,
    NamedFile,
    channel_name,
    do_once,
    fingerprint_line,
    plain_text,
    send_by_apprise,
    sent_causes,
)
from assets.monitoring.metrics import fresh_book
from assets.nightbook import Nightbook
from assets.publishing.latest import read_night
from pipelines.landing import snapshots
from pipelines.landing.night_folders import snapshot_time
from warehouse.contract.model import count_of, literal
from warehouse.contract.states import REJECTED
from warehouse.query.read import keep_open
from warehouse.query.read import run as ask
from warehouse.report.build import LATEST

PATIENCE = timedelta(hours=2)
REPORT, WORKBOOK, BOTH = "report", "workbook", "both"
# `send_by_apprise`, or a function like it.
SendFiles = Callable[[str, str, str, str, Sequence[NamedFile]], bool]
_COUNTS = (
    "select (select count(*) from portfolios), (select count(*) from accounts), "
    "(select count(*) from holdings_by_asset), (select count(*) from findings)"
)
_OPEN = "status not in ('Explained - accepted', 'Accepted by rule')"
_OWNED = (
    f"select reconciliation, snapshot_date, count(*), max(age_days) from ops.breaks where {_OPEN} "  # noqa: S608 - the owner is quoted
    "and lower(trim(owner)) = lower({owner}) and (reconciliation, snapshot_date) in "
    "(select (reconciliation, max(snapshot_date)) from ops.breaks group by reconciliation) "
    "group by all order by all"
)


class Message(NamedTuple):
    """A message to one channel. `cause` identifies it, so that it is sent only once."""

    cause: str
    title: str
    body: str
    address: str
    channel: str
    files: tuple[NamedFile, ...] = ()


def deliver_book(nightbook: Nightbook, send: SendFiles = send_by_apprise) -> list[Alert]:
    """Send the newest book, corrections and reminders. Return an alert for each failed delivery."""
    settings, layout = nightbook.settings(), nightbook.layout
    is_wanted = bool(settings.deliver or settings.owners) and not is_demo(layout)
    if not is_wanted or not layout.database.exists():
        return []
    failed, done = list[Alert](), sent_causes(layout)
    for message in (*_corrections(nightbook, done), *_book(nightbook), *_reminders(nightbook)):
        if message.cause not in done and not _send_once(nightbook, message, send):
            failed.append(_failure(nightbook, message))
    return failed


def _send_once(nightbook: Nightbook, message: Message, send: SendFiles) -> bool:
    layout = nightbook.layout
    title, text = f"nightbook: {plain_text(message.title)}", plain_text(message.body)
    text += fingerprint_line(layout)
    return do_once(
        layout,
        message.cause,
        nightbook.now().isoformat(),
        lambda: send(message.address, title, text, INFO, message.files),
    ) in (True, None)


def _book(nightbook: Nightbook) -> Iterator[Message]:
    """Yield the newest book for each channel, if it is recent."""
    channels = nightbook.settings().deliver
    if not channels or (book := fresh_book(nightbook)) is None:
        return
    day, snapshot_id = book
    report, workbook = _files(nightbook, str(day), snapshot_id)
    age = nightbook.now() - snapshot_time(snapshot_id)
    if (report is None or workbook is None) and age < PATIENCE:
        return  # The run may still be writing them.
    text = _summary(nightbook, str(day), snapshot_id)
    for number, (content, address) in enumerate(channels, 1):
        wanted = {REPORT: [report], WORKBOOK: [workbook], BOTH: [report, workbook]}[content]
        files = tuple(file for file in wanted if file is not None)
        missing = "\nA file is missing, because it was not written." * (len(files) < len(wanted))
        yield Message(
            _cause("delivered", snapshot_id, address),
            f"the book of {day}",
            text + missing,
            address,
            channel_name(number, address),
            files,
        )


def _files(
    nightbook: Nightbook, day: str, snapshot_id: str
) -> tuple[NamedFile | None, NamedFile | None]:
    """Return the report and the workbook of a book, with their names. None: it shows another."""
    layout = nightbook.layout
    report, workbook = layout.reports / LATEST, layout.exports / "latest/positions.xlsx"
    has_report = report.is_file() and snapshot_id in report.read_text(encoding="utf-8")
    has_workbook = workbook.is_file() and read_night(layout).get("snapshot_id") == snapshot_id
    return (
        (report, f"report-{day}.html") if has_report else None,
        (workbook, f"positions-{day}.xlsx") if has_workbook else None,
    )


def _summary(nightbook: Nightbook, day: str, snapshot_id: str) -> str:
    layout, currency = nightbook.layout, nightbook.settings().currency
    with keep_open(layout.database):
        [counts] = ask(layout.database, _COUNTS).rows
        lines = [
            f"The book of {day} ({snapshot_id}) was published.",
            ", ".join(map(count_of, counts, ("portfolio", "account", "asset", "finding"))),
        ]
        if currency:
            values = f"value_by_night({literal(currency)})"
            query = f"from {values} where snapshot_date = {literal(day)}::date"
            answer = ask(layout.database, query)
            for row in answer.rows:
                found = dict(zip(answer.columns, row, strict=True))
                valued = found["assets"] - found["unpriced_assets"] - found["stale_assets"]
                lines.append(
                    f"Value: {found['value_text'] or 'none'} {currency} for {valued} of "
                    f"{count_of(found['assets'], 'asset')}; {found['unpriced_assets']} have no "
                    f"price, and {found['stale_assets']} have only a stale price."
                )
    return "\n".join([*lines, *read_night(layout).get("notices", ())])


def _corrections(nightbook: Nightbook, done: frozenset[str]) -> Iterator[Message]:
    """Yield a correction for each channel that got a book that was rejected later."""
    for number, (_, address) in enumerate(nightbook.settings().deliver, 1):
        for night in snapshots.landed_snapshots(nightbook.layout):
            was_sent = _cause("delivered", night.snapshot_id, address) in done
            if was_sent and night.state == REJECTED and night.decision:
                yield Message(
                    _cause("withdrawn", night.snapshot_id, address),
                    f"the book of {night.snapshot_date} was withdrawn",
                    f"Do not use the files of {night.snapshot_id}, which were sent to you. "
                    f"{night.decision.by} rejected it: {'; '.join(night.decision.reasons)}.",
                    address,
                    channel_name(number, address),
                )


def _reminders(nightbook: Nightbook) -> Iterator[Message]:
    """Yield a daily reminder for each owner of open breaks who has an address."""
    layout, owners = nightbook.layout, nightbook.settings().owners
    today = nightbook.now().astimezone(nightbook.settings().timezone).date()
    for number, (owner, address) in enumerate(owners, 1):
        rows = ask(layout.database, _OWNED.format(owner=literal(owner))).rows
        lines = [
            f"{kind} of {day}: {count_of(count, 'open break')}, the oldest {age} days old"
            for kind, day, count, age in rows
        ]
        if lines:
            yield Message(
                _cause(f"owner:{today}", owner, address),
                f"open breaks of {owner}",
                "\n".join([*lines, f"List them: {full_command(layout, 'reconcile', 'status')}"]),
                address,
                channel_name(number, address),
            )


def _cause(event: str, about: str, address: str) -> str:
    # The address may contain a password, so keep only a part of its digest.
    return f"{event}:{about}:{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def _failure(nightbook: Nightbook, message: Message) -> Alert:
    layout = nightbook.layout
    return Alert(
        cause=f"undelivered:{message.cause}",
        title=f"not delivered: {message.title}",
        words=f"{message.channel} did not accept the message. The next check will try again.",
        see=str(layout.exports / "latest"),
        command=full_command(layout, "doctor"),
    )
