"""`nightbook doctor`: settings, disk, reach, key, clock, warehouse, schedule; one line each."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from assets.console.errors import disk_message, is_ours
from assets.console.invocation import full_command
from assets.graph.step_errors import NOWHERE
from assets.home.demo import is_demo
from assets.monitoring.alerts import INFO, Alert, deliver
from assets.monitoring.due import next_tick
from assets.monitoring.switches import switches
from assets.nightbook import Nightbook
from pipelines.edge.client import EdgeClient, ServiceCheck
from pipelines.edge.errors import AccessRefused, ClockRefused, CredentialRefused, KeyRefused
from pipelines.edge.signing import Credentials
from pipelines.landing import snapshots
from pipelines.settings import Settings, SettingsWrong, read
from warehouse.query.read import run as ask
from warehouse.storage.layout import Layout

BAD_SETTINGS, FAILED = 2, 1
WORRYING_SKEW_MS = 10_000
LEAST_FREE = 1_000_000_000
STALE_HOURS = 36


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, whether it is well, and what was found or is to be done."""

    what: str
    is_well: bool
    words: str


def run(nightbook: Nightbook, *, alert: bool) -> int:
    """Print every finding; 2 when a setting is wrong, 1 when anything else is."""
    findings, code = [], 0
    try:
        settings: Settings | None = nightbook.settings(api=True)
        findings.append(Finding("settings", is_well=True, words="all there"))
    except SettingsWrong as wrong:
        settings, code = None, BAD_SETTINGS
        findings += [
            Finding("settings", is_well=False, words=complaint) for complaint in wrong.complaints
        ]
    home = settings or _without_api(nightbook)
    if home is not None:
        findings += _findings("disk", lambda: [_disk(Layout(home.home))])
    if settings is not None:
        findings += _findings("reach", lambda: list(_service(nightbook, settings)))
    if home is not None:
        now = nightbook.now()
        findings += _findings("warehouse", lambda: [_warehouse(Layout(home.home), now)])
        findings += _findings("schedule", lambda: [_schedule(home, now)])
        findings += _channels(home) if alert else ()
    for finding in findings:
        print(f"{'✓' if finding.is_well else '✗'} {finding.what:<10} {finding.words}")
    return code or (0 if all(finding.is_well for finding in findings) else FAILED)


def _findings(what: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """What a look found; one that fails is a finding as well, and the others are still made."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - a doctor tells of whatever is wrong
        words = str(error) if is_ours(error) else disk_message(error, NOWHERE)
        words = words or f"{type(error).__name__}: {error}"
        return [Finding(what, is_well=False, words=words)]


def _without_api(nightbook: Nightbook) -> Settings | None:
    try:
        return read(nightbook.variables(), api=False)
    except SettingsWrong:
        return None


def _disk(layout: Layout) -> Finding:
    place = layout.home
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK | os.X_OK):
        words = f"{place} cannot be written: give it to the user who runs nightbook"
        return Finding("disk", is_well=False, words=words)
    free = shutil.disk_usage(place).free
    words = f"{layout.home}: {free / 1e9:.1f} GB free"
    if free < LEAST_FREE:
        words += "; a night may need more: make room, or move NIGHTBOOK_HOME"
    return Finding("disk", is_well=free >= LEAST_FREE, words=words)


def _service(nightbook: Nightbook, settings: Settings) -> Iterator[Finding]:
    access = settings.access
    if access is None:
        return
    try:
        credentials = Credentials(access.key, access.secret)
    except CredentialRefused as error:
        yield Finding("key", is_well=False, words=str(error))
        return
    with EdgeClient(
        access.url, credentials, clock=lambda: int(nightbook.now().timestamp() * 1000)
    ) as client:
        check = client.check()
    if not check.reached:
        yield Finding("reach", is_well=False, words=f"{access.url}: {check.error}")
        return
    yield Finding("reach", is_well=True, words=f"{access.url} answers ({check.status})")
    yield _key(check)
    yield _clock(check)


def _key(check: ServiceCheck) -> Finding:
    error = check.error
    if isinstance(error, ClockRefused):
        words = "not known yet: the clock was refused before the key was looked at"
        return Finding("key", is_well=False, words=words)
    if isinstance(error, KeyRefused | AccessRefused):
        return Finding("key", is_well=False, words=str(error))
    if error is not None:
        return Finding("answer", is_well=False, words=str(error))
    return Finding("key", is_well=True, words="accepted")


def _clock(check: ServiceCheck) -> Finding:
    skew = check.skew_ms
    if skew is None:
        words = "the answer told no time, so this machine's clock could not be compared"
        return Finding("clock", is_well=not isinstance(check.error, ClockRefused), words=words)
    if abs(skew) < WORRYING_SKEW_MS:
        return Finding("clock", is_well=True, words=f"{skew:+d} ms to the API's, give or take 1 s")
    side = "behind" if skew > 0 else "ahead of"
    words = (
        f"{abs(skew)} ms {side} the API's; requests older than 30 s are refused (5.3). Set this "
        "machine's clock (timedatectl set-ntp true); until then each run signs and dates by the "
        "API's, and a night that has another date by this machine's is held"
    )
    return Finding("clock", is_well=False, words=words)


def _warehouse(layout: Layout, now: datetime) -> Finding:
    if not layout.database.exists():
        words = "none yet: nightbook run takes the first night (nightbook demo shows how it looks)"
        return Finding("warehouse", is_well=True, words=words)
    ask(layout.database, "select 1")
    known = snapshots.landed_snapshots(layout)
    held = [snapshot.snapshot_id for snapshot in known if snapshot.state == snapshots.HELD]
    if held:
        words = f"snapshot {held[-1]} is held and waits for you: nightbook snapshots"
        return Finding("warehouse", is_well=False, words=words)
    books = list(snapshots.books(known).values())
    if not books:
        return Finding("warehouse", is_well=False, words="it holds no book: nightbook snapshots")
    newest = books[-1]
    taken = datetime.strptime(newest.snapshot_id, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    nights = "1 night" if len(books) == 1 else f"{len(books)} nights"
    hours = (now - taken).total_seconds() / 3600
    words = f"newest book of {newest.snapshot_date}, taken {hours:.0f} hours ago; {nights}"
    if is_demo(layout):
        return Finding("warehouse", is_well=True, words=f"{words}, all invented: this is the demo")
    if hours > STALE_HOURS:
        words += "; the schedule has not run: is the daemon up? (nightbook run takes one now)"
    return Finding("warehouse", is_well=hours <= STALE_HOURS, words=words)


def _schedule(settings: Settings, now: datetime) -> Finding:
    try:
        tick = next_tick(settings, now)
    except Exception as error:  # noqa: BLE001 - whatever the cron library says of the setting
        words = f"NIGHTBOOK_SCHEDULE {settings.schedule!r} never ticks: {error}"
        return Finding("schedule", is_well=False, words=words)
    when = tick.strftime("%Y-%m-%d %H:%M")
    words = f"{settings.schedule} in {settings.timezone}: next {when}"
    layout = Layout(settings.home)
    seen = switches(layout)
    if seen.error:
        words += f"; Dagster's record of this home cannot be read: {seen.error}"
    elif not seen.off or is_demo(layout):
        words += f", {seen.daemon(now)}"
    else:
        words += f"; turned off in Dagster: {', '.join(seen.off)}. Turn on under Automation in "
        words += f"its page: {full_command(layout, 'dev')}"
    is_well = not seen.error and (not seen.off or is_demo(layout))
    return Finding("schedule", is_well=is_well, words=words)


def _channels(settings: Settings) -> Iterator[Finding]:
    """A test message by every channel, also by those that are only used when another fails."""
    layout = Layout(settings.home)
    if not settings.alerts:
        words = "NIGHTBOOK_ALERTS is not set: nobody hears of a night that is held or fails"
        yield Finding("alerts", is_well=False, words=words)
    words = "If you read this, alerts of nightbook reach you. Nothing is wrong."
    here = str(layout.home)
    test = Alert("test", "a test", words, here, full_command(layout, "status"), kind=INFO)
    for number, address in enumerate(settings.alerts, 1):
        is_well = bool(deliver((address,), (test,)).sent)
        channel = f"channel {number} ({address.partition('://')[0]})"
        told = f"{channel} took a test message" if is_well else f"{channel} took nothing: mend it"
        yield Finding("alerts", is_well=is_well, words=told)
