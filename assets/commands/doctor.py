"""`nightbook doctor`: settings, disk, reach, key, clock, warehouse, schedule; one line each."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from assets.console.declaration import DONE, FAILED, WRONG_USAGE
from assets.console.errors import disk_message, is_ours
from assets.console.invocation import command_for, full_command, spell_commands
from assets.console.rows import print_records
from assets.console.terminal import mark
from assets.home.demo import is_demo
from assets.home.gate import misplaced_firm
from assets.monitoring.alerts import INFO, Alert, deliver
from assets.monitoring.due import next_tick
from assets.monitoring.switches import read_switches
from assets.monitoring.switches import turn_on as turn_on_switches
from assets.nightbook import Nightbook
from assets.publishing import shelf
from assets.publishing import shelf as open_tables
from pipelines.edge.client import EdgeClient, ServiceCheck
from pipelines.edge.errors import AccessRefused, ClockRefused, CredentialRefused, KeyRefused
from pipelines.edge.signing import Credentials
from pipelines.landing import snapshots
from pipelines.landing.night_folders import snapshot_time
from pipelines.settings import InvalidSettings, Settings, read
from pipelines.shelf.object_store import open_store, probe
from pipelines.shelf.shelf_list import newest_manifests, read_record
from warehouse.contract import states
from warehouse.contract.model import count_of
from warehouse.database.versions import opens_in_older_clients
from warehouse.query.printable import printable_lines
from warehouse.query.read import run as ask
from warehouse.storage.layout import Layout

WORRYING_SKEW_MS = 10_000
LEAST_FREE = 1_000_000_000
SETTINGS, API = "settings", "NIGHTBOOK_API_"
READER = "no API is set, so this home reads the nights of the shelf and takes none itself"


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
    turned = _findings("schedule", lambda: [_turned_on(nightbook)]) if turn_on else []
    home = _without_api(nightbook)
    hint = misplaced_firm(Layout(home.home)) if home else ""
    found = [*_spell_commands(nightbook, turned), *findings_of(nightbook, alert=alert)]
    return show([*found, *[_wrong("firm", hint)] * bool(hint)], form)


def _spell_commands(
    nightbook: Nightbook, findings: Iterable[Finding], folder: Path | None = None
) -> Iterator[Finding]:
    """Yield the findings of a home, each command in them as a person types it for that home.

    With the `folder` of its settings, the commands work from any other folder.
    """
    home = _without_api(nightbook)
    for found in findings:
        message = found.message
        if home:
            layout, start = Layout(home.home), command_for(Layout(home.home))
            if folder is not None:
                start = full_command(layout, folder=folder)
                message = message.replace(full_command(layout), start)
            message = spell_commands(message, start)
        yield replace(found, message=message)


def show(findings: Sequence[Finding], form: str | None) -> int:
    """Print findings, each on one line; returns the exit code."""
    if form:
        print_records(form, ("subject", "is_well", "message"), findings)
    for finding in findings if not form else ():
        line = f"{finding.subject:<10} {finding.message}"
        print(f"{mark(is_well=finding.is_well)} {printable_lines(line)}")
    wrong = [finding.subject for finding in findings if not finding.is_well]
    if any(subject.endswith(SETTINGS) for subject in wrong):
        return WRONG_USAGE
    return FAILED if wrong else DONE


def findings_of(
    nightbook: Nightbook, *, alert: bool, folder: Path | None = None
) -> Iterator[Finding]:
    """Yield every finding of a home, as far as its settings are known.

    A firm names the `folder` of an organisation's settings, which is not the present folder.
    """
    return _spell_commands(nightbook, _findings_of(nightbook, alert=alert), folder)


def _findings_of(nightbook: Nightbook, *, alert: bool) -> Iterator[Finding]:
    is_reader = _is_reader(nightbook)
    try:
        settings: Settings | None = nightbook.settings(api=not is_reader)
        yield _well(SETTINGS, READER if is_reader else "all there")
    except InvalidSettings as wrong:
        settings = None
        yield from (_wrong(SETTINGS, complaint) for complaint in wrong.complaints)
    if (home := settings or _without_api(nightbook)) is not None:
        yield from _findings("disk", lambda: [_disk(Layout(home.home))])
        if settings is not None:  # without access, as in the home of a reader, nothing is asked
            yield from _findings("reach", lambda: list(_service(nightbook, home)))
        yield from _findings_at_home(nightbook, home, is_reader=is_reader)
        yield from _channels(home) if alert else ()


def _findings_at_home(
    nightbook: Nightbook, home: Settings, *, is_reader: bool
) -> Iterator[Finding]:
    """Yield the findings on nights, schedule, shelf and catalog, which need no API."""
    now, layout = nightbook.now(), Layout(home.home)
    yield from _findings("warehouse", lambda: [_warehouse(layout, now, is_reader=is_reader)])
    if not is_reader:
        yield from _findings("schedule", lambda: [_schedule(home, now)])
    if shelf.shelf_of(nightbook) is not None:
        yield from _findings("shelf", lambda: [_shelf(nightbook, is_reader=is_reader)])
    if open_tables.catalog_of(nightbook) is not None:
        yield from _findings("catalog", lambda: [_well("catalog", open_tables.look(nightbook))])


def findings_of_place(nightbook: Nightbook, *, alert: bool) -> Iterator[Finding]:
    """Yield the findings of a home that takes no nights and has no shelf: that of a firm."""
    try:
        settings = nightbook.settings()
    except InvalidSettings as wrong:
        yield from (_wrong(SETTINGS, complaint) for complaint in wrong.complaints)
        return
    yield _well(SETTINGS, "all there: this is the home of a firm")
    yield from _findings("disk", lambda: [_disk(Layout(settings.home))])
    yield from _channels(settings) if alert else ()


def _is_reader(nightbook: Nightbook) -> bool:
    """Return whether a home takes no nights: it has a shelf and no API, and no run was here."""
    try:
        variables, settings = nightbook.variables(), nightbook.settings()
    except InvalidSettings:
        return False
    has_api = any(name.startswith(API) and value.strip() for name, value in variables.items())
    is_taker = has_api or Layout(settings.home).dagster.exists()
    return settings.shelf is not None and not is_taker


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
    except InvalidSettings:
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


def _warehouse(layout: Layout, now: datetime, *, is_reader: bool = False) -> Finding:
    bring = f"to bring the nights of the shelf: {full_command(layout, 'publish')}"
    if not layout.database.exists():
        first = "nightbook run takes the first night (nightbook demo shows how it looks)"
        return _well("warehouse", f"none yet: {bring if is_reader else first}")
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
        run = "the schedule has not run: is the daemon up? (nightbook run takes one now)"
        message += f"; {bring if is_reader else run}"
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


def _shelf(nightbook: Nightbook, *, is_reader: bool) -> Finding:
    """Probe the object store; raises in words where it is not reached, or breaks its word.

    A reader may have no right to write there, so nothing is written for it.
    """
    address, layout = shelf.require_shelf(nightbook, "doctor"), nightbook.layout
    store = open_store(address)
    count = len(newest_manifests(store, read_record(layout, address.url).shelved_nights))
    if not is_reader:
        probe(store, secrets.token_hex())
    verb = "can be read" if is_reader else "keeps its word"
    message = f"{address.url} {verb}; {count_of(count, 'night')}"
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
