"""`nightbook doctor`: settings, disk, reach, key, clock, warehouse, schedule; one line each."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from assets.console.color import mark
from assets.console.declaration import FAILED, WRONG_USAGE
from assets.console.errors import disk_message, is_ours
from assets.console.invocation import full_command
from assets.console.rows import print_records
from assets.home.demo import is_demo
from assets.monitoring.alerts import INFO, Alert, deliver
from assets.monitoring.due import next_tick
from assets.monitoring.switches import read_switches
from assets.monitoring.switches import turn_on as turn_on_switches
from assets.nightbook import Nightbook
from assets.publishing import open_tables, shelf
from pipelines.edge.client import EdgeClient, ServiceCheck
from pipelines.edge.errors import AccessRefused, ClockRefused, CredentialRefused, KeyRefused
from pipelines.edge.signing import Credentials
from pipelines.landing import snapshots
from pipelines.landing.night_folders import snapshot_time
from pipelines.settings import Settings, SettingsWrong, read
from pipelines.shelf.object_store import open_store
from pipelines.shelf.probe import probe
from pipelines.shelf.shelf_list import newest_manifests
from warehouse.contract import states
from warehouse.contract.wording import count_of
from warehouse.database.versions import opens_in_older_clients
from warehouse.query.read import run as ask
from warehouse.storage.layout import Layout

WORRYING_SKEW_MS = 10_000
LEAST_FREE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, whether it is well, and what was found or is to be done."""

    subject: str
    is_well: bool
    message: str


def _well(subject: str, message: str) -> Finding:
    return Finding(subject, is_well=True, message=message)


def _wrong(subject: str, message: str) -> Finding:
    return Finding(subject, is_well=False, message=message)


def run(nightbook: Nightbook, *, alert: bool, form: str | None, turn_on: bool = False) -> int:
    """Print every finding. Return 2 if a setting is wrong, and 1 if anything else is."""
    findings, code = [], 0
    if turn_on:
        findings += _findings("schedule", lambda: [_turned_on(nightbook)])
    try:
        settings: Settings | None = nightbook.settings(api=True)
        findings.append(_well("settings", "all there"))
    except SettingsWrong as wrong:
        settings, code = None, WRONG_USAGE
        findings += [_wrong("settings", complaint) for complaint in wrong.complaints]
    findings += _all_findings(nightbook, settings, alert=alert)
    if form:
        print_records(form, ("subject", "is_well", "message"), findings)
    for finding in findings if not form else ():
        print(f"{mark(is_well=finding.is_well)} {finding.subject:<10} {finding.message}")
    return code or (0 if all(finding.is_well for finding in findings) else FAILED)


def _all_findings(
    nightbook: Nightbook, settings: Settings | None, *, alert: bool
) -> Iterator[Finding]:
    """Yield every finding but those of the settings, as far as the settings are known."""
    home = settings or _without_api(nightbook)
    if home is not None:
        yield from _findings("disk", lambda: [_disk(Layout(home.home))])
    if settings is not None:
        yield from _findings("reach", lambda: list(_service(nightbook, settings)))
    if home is not None:
        now = nightbook.now()
        yield from _findings("warehouse", lambda: [_warehouse(Layout(home.home), now)])
        yield from _findings("schedule", lambda: [_schedule(home, now)])
        if shelf.shelf_of(nightbook) is not None:
            yield from _findings("shelf", lambda: [_shelf(nightbook)])
        if open_tables.catalog_of(nightbook) is not None:
            yield from _findings("catalog", lambda: [_well("catalog", open_tables.look(nightbook))])
        if alert:
            yield from _channels(home)


def _findings(subject: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what a look found; one that fails is a finding too, and the others are still made."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - a doctor tells of whatever is wrong
        message = str(error) if is_ours(error) else disk_message(error, Path("the home"))
        message = message or f"{type(error).__name__}: {error}"
        return [_wrong(subject, message)]


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
        return _wrong("disk", f"{place} cannot be written: give it to the user who runs nightbook")
    free = shutil.disk_usage(place).free
    message = f"{layout.home}: {free / 1e9:.1f} GB free"
    if free < LEAST_FREE:
        message += "; a night may need more: make room, or move NIGHTBOOK_HOME"
    return Finding("disk", is_well=free >= LEAST_FREE, message=message)


def _service(nightbook: Nightbook, settings: Settings) -> Iterator[Finding]:
    access = settings.access
    if access is None:
        return
    try:
        credentials = Credentials(access.key, access.secret)
    except CredentialRefused as error:
        yield _wrong("key", str(error))
        return
    with EdgeClient(
        access.url, credentials, clock=lambda: int(nightbook.now().timestamp() * 1000)
    ) as client:
        check = client.check()
    if not check.reached:
        yield _wrong("reach", f"{access.url}: {check.error}")
        return
    yield _well("reach", f"{access.url} answers ({check.status})")
    yield _key(check)
    yield _clock(check)


def _key(check: ServiceCheck) -> Finding:
    error = check.error
    if isinstance(error, ClockRefused):
        return _wrong("key", "not known yet: the clock was refused before the key was looked at")
    if isinstance(error, KeyRefused | AccessRefused):
        return _wrong("key", str(error))
    if error is not None:
        return _wrong("answer", str(error))
    return _well("key", "accepted")


def _clock(check: ServiceCheck) -> Finding:
    skew = check.skew_ms
    if skew is None:
        message = "the answer told no time, so this machine's clock could not be compared"
        return Finding("clock", is_well=not isinstance(check.error, ClockRefused), message=message)
    if abs(skew) < WORRYING_SKEW_MS:
        return _well("clock", f"{skew:+d} ms to the API's, give or take 1 s")
    side = "behind" if skew > 0 else "ahead of"
    return _wrong(
        "clock",
        f"{abs(skew)} ms {side} the API's; requests older than 30 s are refused (5.3). Set this "
        "machine's clock (timedatectl set-ntp true); until then each run signs and dates by the "
        "API's, and a night that has another date by this machine's is held",
    )


def _warehouse(layout: Layout, now: datetime) -> Finding:
    if not layout.database.exists():
        return _well(
            "warehouse",
            "none yet: nightbook run takes the first night (nightbook demo shows how it looks)",
        )
    ask(layout.database, "select 1")
    if not opens_in_older_clients(layout.database):
        return _wrong(
            "warehouse",
            "DuckDB 1.2 and 1.3 cannot read the published file, because an older nightbook wrote "
            "it; newer versions can, and nothing in it is lost. The next publish writes it anew; "
            f"to do that now: {full_command(layout, 'rebuild')}",
        )
    landed = snapshots.landed_snapshots(layout)
    held = [snapshot.snapshot_id for snapshot in landed if snapshot.state == states.HELD]
    if held:
        return _wrong(
            "warehouse", f"snapshot {held[-1]} is held and waits for you: nightbook snapshots"
        )
    books = list(snapshots.books(landed).values())
    if not books:
        return _wrong("warehouse", "it holds no book: nightbook snapshots")
    newest = books[-1]
    started = snapshot_time(newest.snapshot_id)
    hours = (now - started).total_seconds() / 3600
    nights = count_of(len(books), "night")
    # The demo takes nights that are still to come; else this machine's clock is behind.
    taken = f"taken {hours:.0f} hours ago" if hours >= 0 else "taken after this machine's time"
    message = f"newest book of {newest.snapshot_date}, {taken}; {nights}"
    if is_demo(layout):
        return _well("warehouse", f"{message}, all invented: this is the demo")
    if hours > states.STALE_HOURS:
        message += "; the schedule has not run: is the daemon up? (nightbook run takes one now)"
    return Finding("warehouse", is_well=hours <= states.STALE_HOURS, message=message)


def _schedule(settings: Settings, now: datetime) -> Finding:
    try:
        tick = next_tick(settings, now)
    except Exception as error:  # noqa: BLE001 - whatever the cron library says of the setting
        return _wrong("schedule", f"NIGHTBOOK_SCHEDULE {settings.schedule!r} never ticks: {error}")
    when = tick.strftime("%Y-%m-%d %H:%M")
    message = f"{settings.schedule} in {settings.timezone}: next {when}"
    layout = Layout(settings.home)
    dagster = read_switches(layout)
    if dagster.error:
        message += f"; Dagster's record of this home cannot be read: {dagster.error}"
    elif is_demo(layout) and not dagster.is_on:
        message += "; the schedule of a demo is off until somebody turns it on in Dagster"
    elif not dagster.off or is_demo(layout):
        message += f", {dagster.daemon(now)}"
    else:
        command = full_command(layout, "doctor", "--turn-on")
        message += f"; turned off in Dagster: {', '.join(dagster.off)}. To turn on: {command}"
    is_well = not dagster.error and (not dagster.off or is_demo(layout))
    return Finding("schedule", is_well=is_well, message=message)


def _turned_on(nightbook: Nightbook) -> Finding:
    names = turn_on_switches(nightbook.layout)
    if not names:
        return _well("schedule", "nothing was turned off in Dagster, so nothing was turned on")
    return _well("schedule", f"turned on in Dagster: {', '.join(names)}")


def _shelf(nightbook: Nightbook) -> Finding:
    """Probe the object store; raises in words where it is not reached, or breaks its word."""
    address, layout = shelf.require_shelf(nightbook, "doctor"), nightbook.layout
    store = open_store(address)
    probe(store, secrets.token_hex())
    message = f"{address.url} keeps its word; {count_of(len(newest_manifests(store)), 'night')}"
    waiting = shelf.waiting_nights(nightbook, snapshots.landed_snapshots(layout))
    if waiting:
        message += f"; {count_of(len(waiting), 'night')} of this home not yet: nightbook shelve"
    return Finding("shelf", is_well=not waiting, message=message)


def _channels(settings: Settings) -> Iterator[Finding]:
    """Send a test by every channel, also by those that are used only when another fails."""
    layout = Layout(settings.home)
    if not settings.alerts:
        message = "NIGHTBOOK_ALERTS is not set: nobody hears of a night that is held or fails"
        yield _wrong("alerts", message)
    test = Alert(
        cause="test",
        title="a test",
        words="If you read this, alerts of nightbook reach you. Nothing is wrong.",
        see=str(layout.home),
        command=full_command(layout, "status"),
        kind=INFO,
    )
    for number, address in enumerate(settings.alerts, 1):
        is_well = bool(deliver((address,), (test,)).sent)
        channel = f"channel {number} ({address.partition('://')[0]})"
        result = f"{channel} took a test message" if is_well else f"{channel} took nothing: mend it"
        yield Finding("alerts", is_well=is_well, message=result)
