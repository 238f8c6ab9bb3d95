"""Alerts: how an operator hears of something, once for its cause, by the first channel that lives.

What there is to tell is found in `assets.monitoring.conditions`. Addresses hold tokens: they are
shown nowhere, a channel is named by its place and its scheme.
"""

import contextlib
import fcntl
import json
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from apprise import Apprise

from assets.console.invocation import spell_for_any_folder
from assets.home.demo import is_demo
from assets.nightbook import Nightbook
from warehouse.storage.layout import Layout, make_directory, private_files, read_json, write_json

REMEMBERED = 2000
LONGEST = 1500
OF_INTEREST = timedelta(days=7)
MOST_KEPT = 100
# How loud an alert is, in Apprise's words: channels show or route them apart.
FAILURE, WARNING, INFO = "failure", "warning", "info"
REMINDER = "reminder"
A_DAY = timedelta(hours=23)  # less than 24: looks are some minutes apart, and hours of day drift
# Address, title, body and kind; whether the channel took it.
Send = Callable[[str, str, str, str], bool]
# Names come from the wire: they must not call a room together or be read as markup.
_TAME = str.maketrans({"<": "(", ">": ")", "@": "(at)", "`": "'", "*": "(star)"})

# Apprise writes tokens to its log; `disabled` would not do, for Dagster enables every logger.
logging.getLogger("apprise").addFilter(lambda _: False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One message: its cause (sent once), its facts, where to look, what to type."""

    # What `happened` (a run failed, say) is not found again by the next look: it is kept until a
    # channel took it. What `waits` for somebody is in a reminder a day until it is found no more.

    cause: str
    title: str
    words: str
    see: str
    command: str
    happened: bool = False
    kind: str = WARNING
    waits: bool = False

    @property
    def body(self) -> str:
        """Return the message with where to look and what to type."""
        return f"{plain_text(self.words)}\n\nSee: {self.see}\nType: {self.command}"


@dataclass(frozen=True, slots=True)
class SentAlerts:
    """What went out, what did not because no channel took it, and which channels failed."""

    # `dropped` was kept for a week, in which no channel took it, and is told no more.

    sent: tuple[Alert, ...] = ()
    unsent: tuple[Alert, ...] = ()
    dead: tuple[str, ...] = ()
    dropped: tuple[Alert, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert that waits for a channel, and since when."""

    since: str
    alert: Alert

    def with_date(self) -> Alert:
        """Return the alert with the time at which it was found."""
        note = f"Found at {datetime.fromisoformat(self.since):%Y-%m-%d %H:%M} UTC."
        return replace(self.alert, words=f"{note}\n{self.alert.words}")


Waiting = dict[str, StoredAlert]  # by the cause


def plain_text(text: str) -> str:
    """Return text that may hold names from the wire as short plain text."""
    plain = "".join(
        character if character.isprintable() or character == "\n" else " " for character in text
    )
    return plain.translate(_TAME)[:LONGEST]


def send_by_apprise(address: str, title: str, body: str, kind: str = WARNING) -> bool:
    """Send by one channel; whether it was taken. Nothing is raised: another channel may live."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its plugins import what Python will drop
            channel = Apprise()
            is_sent = channel.add(address) and channel.notify(body, title, kind, body_format="text")
            return bool(is_sent)
    except Exception:  # noqa: BLE001 - a plugin may raise anything, with its address in the words
        return False


def send_alerts(
    nightbook: Nightbook, alerts: Sequence[Alert], send: Send = send_by_apprise
) -> SentAlerts:
    """Send what was not sent before; what no channel takes is tried again at the next look."""
    # What happened is on disk before it is sent, for nobody would find it again.
    addresses, layout, now = nightbook.settings().alerts, nightbook.layout, nightbook.now()
    if not addresses or is_demo(layout):
        return SentAlerts()
    alerts = spell_alerts(layout, alerts)
    with _memory(layout) as sent_causes:
        waiting, dropped = _stored_events(layout, sent_causes, now)
        fresh = {
            alert.cause: alert for alert in alerts if alert.cause not in {**sent_causes, **waiting}
        }
        stored = waiting | _events(fresh.values(), now)
        _write_events(layout, stored)
        messages = (*(entry.with_date() for entry in waiting.values()), *fresh.values())
        outcome = deliver(addresses, (*messages, *_reminder(alerts, sent_causes, now)), send)
        sent = {alert.cause for alert in outcome.sent}
        sent_causes.update(dict.fromkeys(sent, now.isoformat()))
        _write_events(
            layout, {cause: entry for cause, entry in stored.items() if cause not in sent}
        )
    return replace(outcome, dropped=dropped)


def spell_alerts(layout: Layout, alerts: Iterable[Alert]) -> list[Alert]:
    """Return alerts whose commands can be typed in any folder."""
    return [
        replace(
            alert,
            title=spell_for_any_folder(layout, alert.title),
            words=spell_for_any_folder(layout, alert.words),
            see=spell_for_any_folder(layout, alert.see),
        )
        for alert in alerts
    ]


def _reminder(
    alerts: Iterable[Alert], sent_causes: Mapping[str, str], now: datetime
) -> tuple[Alert, ...]:
    """Return one quiet message a day of what was sent a day ago or more and still waits."""
    due = [
        alert
        for alert in alerts
        if alert.waits and _is_a_day_old(sent_causes.get(alert.cause), now)
    ]
    if not due or (REMINDER in sent_causes and not _is_a_day_old(sent_causes[REMINDER], now)):
        return ()
    things = "1 thing still waits" if len(due) == 1 else f"{len(due)} things still wait"
    lines = [f"{alert.title}: {alert.command}" for alert in due]
    return (
        Alert(
            cause=REMINDER,
            title=f"{things} for you",
            words="\n".join(lines),
            see=due[0].see,
            command=due[0].command,
            kind=INFO,
        ),
    )


def _is_a_day_old(when: str | None, now: datetime) -> bool:
    """Whether something was sent, and that a day ago or more."""
    try:
        return when is not None and now - datetime.fromisoformat(when) >= A_DAY
    except (ValueError, TypeError):
        return when is not None


def store_events(nightbook: Nightbook, alerts: Sequence[Alert]) -> None:
    """Keep what happened for the next look, which tells it also if this process dies before."""
    layout, now = nightbook.layout, nightbook.now()
    if not alerts or not nightbook.settings().alerts or is_demo(layout):
        return
    alerts = spell_alerts(layout, alerts)
    with _memory(layout) as sent_causes:
        waiting, _ = _stored_events(layout, sent_causes, now)
        new = [alert for alert in alerts if alert.cause not in sent_causes]
        _write_events(layout, _events(new, now) | waiting)


def deliver(
    addresses: Sequence[str], alerts: Sequence[Alert], send: Send = send_by_apprise
) -> SentAlerts:
    """Send each alert by the first channel that takes it; one that failed is not asked again."""
    living, sent = list(enumerate(addresses, 1)), list[Alert]()
    dead: list[str] = []
    # The first channel is the wanted one, the others stand in for it. One that failed is not asked
    # again for the next alert: a dead mail server would cost its time-out for each.
    for alert in alerts:
        while living:
            _, address = living[0]
            unreached = f"\n\nNot reached: {', '.join(dead)}." if dead else ""
            title = f"nightbook: {plain_text(alert.title)}"
            if send(address, title, alert.body + unreached, alert.kind):
                sent.append(alert)
                break
            dead.append(_channel_name(*living.pop(0)))
    return SentAlerts(tuple(sent), tuple(alerts[len(sent) :]), tuple(dead))


def _channel_name(number: int, address: str) -> str:
    return f"channel {number} ({address.partition('://')[0]})"


def do_once(layout: Layout, cause: str, when: str, act: Callable[[], bool]) -> bool | None:
    """Do something once for its cause: None where it was done before, else whether it went well."""
    with _memory(layout) as sent_causes:
        if cause in sent_causes:
            return None
        if is_well := act():
            sent_causes[cause] = when
        return is_well


@contextlib.contextmanager
def _memory(layout: Layout) -> Iterator[dict[str, str]]:
    """Yield when each cause was sent, locked, and write it when the `with` ends."""
    folder = layout.home / "alerts"
    make_directory(folder)
    # The command line, three sensors and the daemon's start may all look at the same moment.
    with private_files(), (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sent_causes = _read_memory(folder / "told.json")
        before = dict(sent_causes)
        yield sent_causes
        if sent_causes != before:
            newest = sorted(sent_causes.items(), key=lambda item: item[1])[-REMEMBERED:]
            write_json(folder / "told.json", dict(newest))


def _events(alerts: Iterable[Alert], now: datetime) -> Waiting:
    since = now.isoformat()
    return {alert.cause: StoredAlert(since, alert) for alert in alerts if alert.happened}


def _unsent(layout: Layout) -> Path:
    return layout.home / "alerts" / "unsent.json"


def _stored_events(
    layout: Layout, sent_causes: Mapping[str, str], now: datetime
) -> tuple[Waiting, tuple[Alert, ...]]:
    """Return what waits to be sent, and what is older than anybody wants to hear of."""
    # A file that cannot be read holds nothing: it must not stop what is found today.
    try:
        entries = [
            StoredAlert(str(entry.pop("since")), Alert(**entry))
            for entry in read_json(_unsent(layout))
        ]
        oldest = now - OF_INTEREST
        is_young = [datetime.fromisoformat(entry.since) > oldest for entry in entries]
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}, ()
    waiting, dropped = Waiting(), list[Alert]()
    for entry, is_waiting in zip(entries, is_young, strict=True):
        if entry.alert.cause in sent_causes:
            continue
        if is_waiting:
            waiting[entry.alert.cause] = entry
        else:
            dropped.append(entry.alert)
    return waiting, tuple(dropped)


def _write_events(layout: Layout, waiting: Waiting) -> None:
    """Write what waits, whole or not at all; the file is there only while something does."""
    path = _unsent(layout)
    newest = sorted(waiting.values(), key=lambda entry: entry.since)[-MOST_KEPT:]
    with contextlib.suppress(OSError):  # a full disk must not keep an alert from going out
        if newest:
            write_json(path, [{"since": entry.since, **asdict(entry.alert)} for entry in newest])
        else:
            path.unlink(missing_ok=True)


def _read_memory(path: Path) -> dict[str, str]:
    """Return the memory; one that cannot be read is empty: twice is better than never."""
    try:
        content = json.loads(path.read_bytes())
        return {str(cause): str(when) for cause, when in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}
