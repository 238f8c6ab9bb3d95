"""Alerts, sent once for each cause through the first channel that works.

`assets.monitoring.conditions` finds the causes. Addresses contain tokens, so they are never shown.
Messages identify a channel by its number and scheme.
"""

import contextlib
import fcntl
import importlib
import json
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from assets.console.invocation import spell_for_any_folder
from assets.home.demo import is_demo
from assets.nightbook import Nightbook
from pipelines.landing.fingerprint import newest_fingerprint
from warehouse.storage.layout import Layout, make_directory, private_files, read_json, write_json

MAX_CAUSES = 2000
MAX_CHARACTERS = 1500
RETRY_PERIOD = timedelta(days=7)
MAX_UNSENT = 100
# The severities of alerts, named as in Apprise. Channels may show or route each severity
# differently.
FAILURE, WARNING, INFO = "failure", "warning", "info"
REMINDER = "reminder"
# The minimum time between reminders. It is slightly less than a day, because the check does not run
# at exactly the same time every day.
A_DAY = timedelta(hours=23)
A_MOMENT = timedelta(minutes=1)
# A function that sends a message. Its parameters are address, title, body and kind. It returns
# whether the channel accepted the message.
Send = Callable[[str, str, str, str], bool]
NamedFile = tuple[Path, str]  # a file, and its name in the message
# Replacements for characters in names, because names come from the API and must not mention users
# (@) or act as markup.
_WITHOUT_MARKUP = str.maketrans({"<": "(", ">": ")", "@": "(at)", "`": "'", "*": "(star)"})

# Suppress all log messages of Apprise, because they contain tokens. Setting `disabled` would not
# help, because Dagster enables every logger.
logging.getLogger("apprise").addFilter(lambda _: False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert to an operator. Alerts with the same cause are sent only once."""

    cause: str
    title: str
    words: str
    see: str
    """The file or folder to look at, or a command."""
    command: str
    """The command to type next."""
    happened: bool = False
    """True for an event, such as a failed run. Later checks cannot find the event, so it is stored
    until it is sent.
    """
    kind: str = WARNING
    waits: bool = False
    """True if a person must act. The alert is repeated daily until its cause is resolved."""

    @property
    def body(self) -> str:
        """The message text, with the file to look at and the command to type."""
        return f"{plain_text(self.words)}\n\nSee: {self.see}\nType: {self.command}"


@dataclass(frozen=True, slots=True)
class SentAlerts:
    """The result of an attempt to send alerts."""

    sent: tuple[Alert, ...] = ()
    unsent: tuple[Alert, ...] = ()
    """Alerts that no channel accepted."""
    dead: tuple[str, ...] = ()
    """Names of the channels that failed."""
    dropped: tuple[Alert, ...] = ()
    """Events that were discarded because no channel accepted them for a week."""


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An unsent alert, and the time when its cause was found."""

    since: str
    alert: Alert

    def with_date(self, now: datetime) -> Alert:
        """Return the alert. It starts with the time when its cause was found, if not just now."""
        since = datetime.fromisoformat(self.since)
        if now - since < A_MOMENT:
            return self.alert
        note = f"Found at {since:%Y-%m-%d %H:%M} UTC."
        return replace(self.alert, words=f"{note}\n{self.alert.words}")


Unsent = dict[str, StoredAlert]  # maps the cause of each unsent alert to the alert


def send_by_apprise(
    address: str, title: str, body: str, kind: str = WARNING, files: Sequence[NamedFile] = ()
) -> bool:
    """Send a message through one channel. Return whether it was accepted. Never raises.

    A channel that takes no files gets the message without them.
    """
    try:
        with warnings.catch_warnings():
            # Ignore warnings, because plugins of Apprise import deprecated modules.
            warnings.simplefilter("ignore")
            # Few commands send an alert, and the import takes 0.1 CPU s, a tenth of `status`.
            channel = importlib.import_module("apprise").Apprise()
            if not channel.add(address):
                return False
            attached = [
                f"{path.resolve().as_uri()}?name={quote(name)}"
                for path, name in files
                if channel[0].attachment_support
            ]
            return bool(
                channel.notify(body, title, kind, body_format="text", attach=attached or None)
            )
    except Exception:  # noqa: BLE001 - a plugin may raise any error, with the address in its message
        return False


def send_alerts(
    nightbook: Nightbook, alerts: Sequence[Alert], send: Send = send_by_apprise
) -> SentAlerts:
    """Send alerts that have not been sent yet. The next check retries those that fail."""
    # Store events before sending them, because no later check would find the events.
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
        messages = (*(entry.with_date(now) for entry in waiting.values()), *fresh.values())
        messages = (*messages, *_reminder(alerts, sent_causes, now))
        outcome = deliver(addresses, messages, send, fingerprint_line(layout))
        sent = {alert.cause for alert in outcome.sent}
        sent_causes.update(dict.fromkeys(sent, now.isoformat()))
        _write_events(
            layout, {cause: entry for cause, entry in stored.items() if cause not in sent}
        )
    return replace(outcome, dropped=dropped)


def store_events(nightbook: Nightbook, alerts: Sequence[Alert]) -> None:
    """Store alerts, so that the next check sends them even if this process is killed."""
    layout, now = nightbook.layout, nightbook.now()
    if not alerts or not nightbook.settings().alerts or is_demo(layout):
        return
    alerts = spell_alerts(layout, alerts)
    with _memory(layout) as sent_causes:
        waiting, _ = _stored_events(layout, sent_causes, now)
        new = [alert for alert in alerts if alert.cause not in sent_causes]
        _write_events(layout, _events(new, now) | waiting)


def deliver(
    addresses: Sequence[str],
    alerts: Sequence[Alert],
    send: Send = send_by_apprise,
    last_line: str = "",
) -> SentAlerts:
    """Send each alert through the first channel that works. A failed channel is not retried.

    `last_line` is added to each message.
    """
    working, sent = list(enumerate(addresses, 1)), list[Alert]()
    dead: list[str] = []
    # Try the channels in order. A failed channel is not retried for the next alert, because each
    # attempt to reach a mail server that is down takes the full timeout.
    for alert in alerts:
        while working:
            _, address = working[0]
            unreached = f"\n\nThese channels failed: {', '.join(dead)}." if dead else ""
            title = f"nightbook: {plain_text(alert.title)}"
            if send(address, title, alert.body + unreached + last_line, alert.kind):
                sent.append(alert)
                break
            dead.append(channel_name(*working.pop(0)))
    return SentAlerts(tuple(sent), tuple(alerts[len(sent) :]), tuple(dead))


def fingerprint_line(layout: Layout) -> str:
    """Return a last line with the fingerprint, so that people outside this machine hold it."""
    fingerprint = newest_fingerprint(layout)
    return f"\n\nFingerprint of all nights so far: {fingerprint}" if fingerprint else ""


def do_once(layout: Layout, cause: str, when: str, act: Callable[[], bool]) -> bool | None:
    """Call `act` and return its result, or return None if it already succeeded for this cause."""
    with _memory(layout) as sent_causes:
        if cause in sent_causes:
            return None
        if is_well := act():
            sent_causes[cause] = when
        return is_well


def sent_causes(layout: Layout) -> frozenset[str]:
    """Return the causes of everything that was sent."""
    with _memory(layout) as causes:
        return frozenset(causes)


def spell_alerts(layout: Layout, alerts: Iterable[Alert]) -> list[Alert]:
    """Rewrite the commands in alerts so that they work in any folder."""
    return [
        replace(
            alert,
            title=spell_for_any_folder(layout, alert.title),
            words=spell_for_any_folder(layout, alert.words),
            see=spell_for_any_folder(layout, alert.see),
            command=spell_for_any_folder(layout, alert.command),
        )
        for alert in alerts
    ]


def plain_text(text: str) -> str:
    """Shorten a string, and remove markup and control characters that the API may have sent."""
    plain = "".join(
        character if character.isprintable() or character == "\n" else " " for character in text
    )
    plain = plain.translate(_WITHOUT_MARKUP)
    if len(plain) <= MAX_CHARACTERS:
        return plain
    # Cut between two lines or words, and say how much is missing.
    shown = plain[:MAX_CHARACTERS]
    end = max(shown.rfind("\n"), shown.rfind(" "))
    end = end if end > MAX_CHARACTERS // 2 else MAX_CHARACTERS
    return f"{shown[:end].rstrip()} ... ({len(plain) - end:,} more characters: see status)"


def _reminder(
    alerts: Iterable[Alert], sent_causes: Mapping[str, str], now: datetime
) -> tuple[Alert, ...]:
    """Return a reminder of alerts that were sent at least a day ago and still need action."""
    due = [
        alert
        for alert in alerts
        if alert.waits and _is_a_day_old(sent_causes.get(alert.cause), now)
    ]
    if not due or (REMINDER in sent_causes and not _is_a_day_old(sent_causes[REMINDER], now)):
        return ()
    things = "1 alert still waiting" if len(due) == 1 else f"{len(due)} alerts still waiting"
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
    """Return whether a time is at least a day ago. An invalid time counts as old."""
    try:
        return when is not None and now - datetime.fromisoformat(when) >= A_DAY
    except (ValueError, TypeError):
        return when is not None


def channel_name(number: int, address: str) -> str:
    """Return a channel's number and scheme, because the rest of its address may be secret."""
    return f"channel {number} ({address.partition('://')[0]})"


@contextlib.contextmanager
def _memory(layout: Layout) -> Iterator[dict[str, str]]:
    """Lock the record of sent alerts, and yield a dictionary of causes and send times.

    Changes to the dictionary are saved at the end of the block.
    """
    folder = layout.home / "alerts"
    make_directory(folder)
    # Lock the file, because the command line, three sensors and a starting daemon may check for
    # alerts at the same time.
    with private_files(), (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sent_causes = _read_memory(folder / "told.json")
        before = dict(sent_causes)
        yield sent_causes
        if sent_causes != before:
            newest = sorted(sent_causes.items(), key=lambda item: item[1])[-MAX_CAUSES:]
            write_json(folder / "told.json", dict(newest))


def _read_memory(path: Path) -> dict[str, str]:
    """Read the causes of the sent alerts, and the time when each alert was sent.

    Treat an unreadable file as empty, because it is better to send an alert twice than not at all.
    """
    try:
        content = json.loads(path.read_bytes())
        return {str(cause): str(when) for cause, when in content.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _events(alerts: Iterable[Alert], now: datetime) -> Unsent:
    since = now.isoformat()
    return {alert.cause: StoredAlert(since, alert) for alert in alerts if alert.happened}


def _stored_events(
    layout: Layout, sent_causes: Mapping[str, str], now: datetime
) -> tuple[Unsent, tuple[Alert, ...]]:
    """Return the stored events that still need to be sent, and those that are too old."""
    # If the file cannot be read, treat it as empty, so that today's alerts are still sent.
    try:
        entries = [
            StoredAlert(str(entry.pop("since")), Alert(**entry))
            for entry in read_json(_unsent(layout))
        ]
        oldest = now - RETRY_PERIOD
        is_young = [datetime.fromisoformat(entry.since) > oldest for entry in entries]
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}, ()
    waiting, dropped = Unsent(), list[Alert]()
    for entry, is_waiting in zip(entries, is_young, strict=True):
        if entry.alert.cause in sent_causes:
            continue
        if is_waiting:
            waiting[entry.alert.cause] = entry
        else:
            dropped.append(entry.alert)
    return waiting, tuple(dropped)


def _write_events(layout: Layout, waiting: Unsent) -> None:
    """Store the unsent alerts about events atomically, or delete the file if there are none."""
    path = _unsent(layout)
    newest = sorted(waiting.values(), key=lambda entry: entry.since)[-MAX_UNSENT:]
    with contextlib.suppress(OSError):  # If the disk is full, send the alert anyway.
        if newest:
            write_json(path, [{"since": entry.since, **asdict(entry.alert)} for entry in newest])
        else:
            path.unlink(missing_ok=True)


def _unsent(layout: Layout) -> Path:
    return layout.home / "alerts" / "unsent.json"
