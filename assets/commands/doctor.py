"""`nightbook doctor`: check settings, disk, API, key, clock, warehouse and schedule."""

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assets.console.command import HomeCommand
from assets.console.disks import existing, is_read_only
from assets.console.errors import disk_message, is_ours
from assets.console.exit_codes import DONE, FAILED, WRONG_USAGE
from assets.console.invocation import full_command, spell_for
from assets.console.parameters import flag, format_option
from assets.console.rows import print_records
from assets.console.terminal import YELLOW, mark, paint
from assets.home.daemon_state import change_record
from assets.home.demo import is_demo
from assets.monitoring.alerts import INFO, Alert, deliver
from assets.monitoring.switches import (
    has_api,
    is_reader_home,
    next_tick,
    read_switches,
    start_alert,
)
from assets.nightbook import Nightbook
from assets.publishing import shelf
from pipelines.edge.access import Access
from pipelines.edge.client import EdgeClient, ServiceCheck
from pipelines.edge.errors import (
    AccessDenied,
    AuthenticationFailed,
    InvalidCredential,
    TimestampRefused,
)
from pipelines.edge.signing import Credentials
from pipelines.landing import snapshots
from pipelines.landing.night_folders import snapshot_time
from pipelines.settings import InvalidSettings, Settings
from warehouse.contract import states
from warehouse.contract.model import count_of
from warehouse.isolation import container_memory
from warehouse.query import child
from warehouse.query.formats import printable_lines
from warehouse.query.read import run as ask
from warehouse.storage.layout import Layout
from warehouse.storage.probe import UnsuitableFileSystem, probe

if TYPE_CHECKING:
    from pipelines.lakehouse.entrance import Lakehouse

MAX_SKEW_MS = 10_000
MIN_FREE_BYTES = 1_000_000_000
SETTINGS = "settings"
WARNING = "!"
FIRST_NIGHT = "nightbook run, typed in a terminal, pulls the first night"
# A demo in the home of real nights would make it unusable for them.
EXAMPLE = "nightbook demo shows an example, and nightbook run needs the settings of the API"
READER = "no API is configured, so this home only downloads nights from the shelf"
DEMO = "no API is configured, and a demo needs none: nightbook demo --next simulates a night"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its subject, whether it passed, and a message for the user."""

    subject: str
    message: str
    is_well: bool
    is_warning: bool = False
    """Whether the result is not well, but a night can still be read and published."""


_well = partial(Finding, is_well=True)
_wrong = partial(Finding, is_well=False)
_warning = partial(Finding, is_well=False, is_warning=True)


@click.command(cls=HomeCommand, needs_home=False, prints_result=True)
@flag("--alert", help="Send a test message to every alert channel")
@flag(
    "--turn-on", help="Turn the schedule and sensors back on if somebody turned them off in Dagster"
)
@format_option()
def doctor_command(
    nightbook: Nightbook, *, alert: bool, turn_on: bool, output_format: str | None
) -> int:
    """Check settings, disk, network, API key, clock and schedule."""
    turned_on = _run_check("schedule", lambda: [_turned_on(nightbook)]) if turn_on else []
    found = [*turned_on, *findings_of(nightbook, alert=alert)]
    return _show(list(_spell_commands(nightbook, found)), output_format)


def _spell_commands(nightbook: Nightbook, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings whose messages contain commands that work for this home."""
    home = _without_api(nightbook)
    for found in findings:
        message = spell_for(Layout(home.home), found.message) if home else found.message
        yield replace(found, message=message)


def _show(findings: Sequence[Finding], output_format: str | None) -> int:
    """Print one line per finding. Return the exit code."""
    if output_format:
        print_records(output_format, ("subject", "is_well", "message", "is_warning"), findings)
    else:
        for finding in findings:
            warning = paint(WARNING, YELLOW)
            icon = warning if finding.is_warning else mark(is_well=finding.is_well)
            print(f"{icon} {finding.subject:<10} {printable_lines(finding.message)}")
    wrong = [finding.subject for finding in findings if not (finding.is_well or finding.is_warning)]
    if SETTINGS in wrong:
        return WRONG_USAGE
    return FAILED if wrong else DONE


def findings_of(nightbook: Nightbook, *, alert: bool) -> Iterator[Finding]:
    """Yield every finding about a home. Skip checks that depend on an invalid setting."""
    is_reader = is_reader_home(nightbook)
    local = _without_api(nightbook)
    has_demo = local is not None and is_demo(Layout(local.home)) and not has_api(nightbook)
    needs_api = not (is_reader or has_demo)
    try:
        settings: Settings | None = nightbook.settings(api=needs_api)
        yield _well(SETTINGS, "complete" if needs_api else READER if is_reader else DEMO)
    except InvalidSettings as wrong:
        settings = None
        yield from (_wrong(SETTINGS, complaint) for complaint in wrong.complaints)
    if (home := settings or local) is not None:
        yield from _run_check("disk", lambda: [_disk(Layout(home.home))])
        yield from _run_check("disk", lambda: _file_system(Layout(home.home)))
        if settings is not None:  # The API can be called only with valid settings.
            yield from _run_check("reach", lambda: list(_service(nightbook, home)))
        yield from _findings_at_home(nightbook, home, is_reader=is_reader)
        yield from _channels(home) if alert else _recipients(home, is_reader=is_reader)


def _findings_at_home(
    nightbook: Nightbook, home: Settings, *, is_reader: bool
) -> Iterator[Finding]:
    """Yield the findings about nights, schedule, shelf and catalog, which do not need the API."""
    now, layout = nightbook.now(), Layout(home.home)
    first = FIRST_NIGHT if has_api(nightbook) else EXAMPLE
    yield from _run_check("queries", lambda: [_queries(layout)])
    yield from _run_check(
        "warehouse", lambda: [_warehouse(layout, now, first, is_reader=is_reader)]
    )
    if not is_reader:
        yield from _run_check("schedule", lambda: [_schedule(nightbook, home)])
    if (lakehouse := shelf.shelf_of(nightbook)) is not None:
        yield from _run_check("shelf", lambda: [_shelf(lakehouse, is_reader=is_reader)])
        if lakehouse.catalog is not None:
            yield from _run_check(
                "catalog", lambda: [_well("catalog", lakehouse.describe_catalog())]
            )


def _run_check(subject: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Run one check. If it fails, report the error as a finding, so that other checks still run."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - doctor reports every error
        message = str(error) if is_ours(error) else disk_message(error, Path("the home"))
        return [_wrong(subject, message or f"{type(error).__name__}: {error}")]


def _without_api(nightbook: Nightbook) -> Settings | None:
    try:
        return nightbook.settings()
    except InvalidSettings:
        return None


def _disk(layout: Layout) -> Finding:
    folder = layout.home
    while not folder.exists():
        folder = folder.parent
    if is_read_only(folder):
        return _wrong("disk", disk_message(OSError(errno.EROFS, "", str(folder)), folder) or "")
    if not os.access(folder, os.W_OK | os.X_OK):
        return _wrong(
            "disk", f"{folder} is not writable: change its owner to the user who runs nightbook"
        )
    free = shutil.disk_usage(folder).free
    message = f"{layout.home}: {free / 1e9:.1f} GB free"
    if free < MIN_FREE_BYTES:
        message += "; a night may need more space, so free some space or move NIGHTBOOK_HOME"
    return Finding("disk", is_well=free >= MIN_FREE_BYTES, message=message)


def _file_system(layout: Layout) -> list[Finding]:
    """Return what the file system of a home, or of the folder for a new one, cannot do."""
    folder = existing(layout.home)
    if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
        return []  # reported by the check of the disk
    found = probe(folder)
    if any(not inability.is_tolerable for inability in found):
        return [_wrong("disk", str(UnsuitableFileSystem(folder, found)))]
    return [
        _warning("disk", f"the file system of {folder} is limited: {inability}")
        for inability in found
    ]


def _service(nightbook: Nightbook, settings: Settings) -> Iterator[Finding]:
    access = settings.access
    if access is None:
        return
    try:
        credentials = Credentials(access.key, access.secret)
    except InvalidCredential as error:
        yield _wrong("key", str(error))
        return
    yield from ignored_variables(access)
    with EdgeClient(
        access.url,
        credentials,
        clock=lambda: int(nightbook.now().timestamp() * 1000),
        ca_file=access.ca_file,
    ) as client:
        check = client.check()
    if not check.reached:
        yield _wrong("reach", f"{access.url}: {check.error}")
        return
    yield _well("reach", f"{access.url} responds ({check.status})")
    yield _key(check)
    yield _clock(check)


def ignored_variables(access: Access) -> Iterator[Finding]:
    """Yield a finding if a variable is set that other programs use for connections, but we do not.

    A connection that the environment changes could send the key to another server.
    """
    if not access.url.startswith("https:"):
        return
    names = {name.upper() for name, value in os.environ.items() if value.strip()}
    if "SSL_CERT_FILE" in names and access.ca_file is None:
        message = "SSL_CERT_FILE is ignored. For a private authority, set NIGHTBOOK_CA_FILE"
        yield _well("certificates", message)
    if used := sorted(names & {"HTTPS_PROXY", "ALL_PROXY"}):
        yield _well("proxy", f"{' and '.join(used)} is ignored: nightbook connects directly")


def _key(check: ServiceCheck) -> Finding:
    error = check.error
    if isinstance(error, TimestampRefused):
        return _wrong("key", "not checked, because the API already rejected this machine's clock")
    if isinstance(error, AuthenticationFailed | AccessDenied):
        return _wrong("key", str(error))
    if error is not None:
        return _wrong("answer", str(error))
    return _well("key", "accepted")


def _clock(check: ServiceCheck) -> Finding:
    skew = check.skew_ms
    if skew is None:
        message = "the response has no date, so this machine's clock could not be checked"
        return Finding(
            "clock", is_well=not isinstance(check.error, TimestampRefused), message=message
        )
    if abs(skew) < MAX_SKEW_MS:
        return _well("clock", f"{skew:+d} ms from the API's clock (accurate to 1 s)")
    side = "behind" if skew > 0 else "ahead of"
    return _wrong(
        "clock",
        f"{abs(skew)} ms {side} the API's clock, and the API rejects requests older than 30 s "
        "(API document, 5.3). Set this machine's clock (timedatectl set-ntp true). Until then, "
        "each run uses the API's clock, and a night is held if its date would be different by "
        "this machine's clock",
    )


def _queries(layout: Layout) -> Finding:
    """Start the process in which queries run and ledgers are read."""
    child.probe(layout.home)
    limit = container_memory()
    memory = "" if limit is None else f"; this container may use {limit // 1024**2:,} MiB"
    return _well("queries", f"run in a separate process{memory}")


def _warehouse(layout: Layout, now: datetime, first: str, *, is_reader: bool = False) -> Finding:
    download = f"to download nights from the shelf: {full_command(layout, 'publish')}"
    if not layout.database.exists():
        return _well("warehouse", f"no night yet: {download if is_reader else first}")
    ask(layout.database, "select 1")
    landed = snapshots.landed_snapshots(layout)
    held = [snapshot.snapshot_id for snapshot in landed if snapshot.state == states.HELD]
    if held:
        return _wrong(
            "warehouse", f"snapshot {held[-1]} is held and needs your decision: nightbook snapshots"
        )
    books = list(snapshots.books(landed).values())
    if not books:
        return _wrong("warehouse", "no night has a book: see nightbook snapshots")
    newest, nights = books[-1], count_of(len(books), "night")
    hours = (now - snapshot_time(newest.snapshot_id)).total_seconds() / 3600
    # The number of hours is negative if the demo simulates future nights, or if this machine's
    # clock is slow.
    future = "dated after this machine's current time"
    taken = f"pulled {hours:.0f} hours ago" if hours >= 0 else future
    message = f"newest book of {newest.snapshot_date}, {taken}; {nights}"
    if is_demo(layout):
        return _well("warehouse", f"{message}, all simulated (this is the demo)")
    if hours > states.STALE_HOURS:
        run = "the schedule has not run: is the daemon running? (nightbook run pulls a night now)"
        message += f"; {download if is_reader else run}"
    return Finding("warehouse", is_well=hours <= states.STALE_HOURS, message=message)


def _schedule(nightbook: Nightbook, settings: Settings) -> Finding:
    layout, now = Layout(settings.home), nightbook.now()
    tick = next_tick(settings, now)
    message = f"{settings.schedule} in {settings.timezone}: next {tick:%Y-%m-%d %H:%M}"
    switches = read_switches(layout)
    if switches.error:
        return _wrong("schedule", f"{message}; the daemon's last report: {switches.error}")
    if is_demo(layout):
        off = "; a demo's schedule is off until somebody turns it on in Dagster"
        if not switches.is_on:
            return _well("schedule", message + off)
        state = _well if switches.is_running(now) else _warning
        return state("schedule", f"{message}, {switches.daemon(now)}")
    if switches.off:
        command = full_command(layout, "doctor", "--turn-on")
        names = ", ".join(switches.off)
        return _wrong(
            "schedule", f"{message}; turned off in Dagster: {names}. To turn them on: {command}"
        )
    if (problem := start_alert(nightbook, switches)) is not None:
        return _wrong("schedule", f"{message}, but {problem.title}. {problem.words}")
    starter = switches.daemon(now) if switches.is_running(now) else "cron started the last night"
    return _well("schedule", f"{message}, {starter}")


def _turned_on(nightbook: Nightbook) -> Finding:
    layout = nightbook.layout
    names = change_record(layout, "turn-on") if layout.dagster.is_dir() else ()
    nothing = "nothing was turned off in Dagster, so nothing was turned on"
    return _well("schedule", f"turned on in Dagster: {', '.join(names)}" if names else nothing)


def _shelf(lakehouse: "Lakehouse", *, is_reader: bool) -> Finding:
    """Test whether the object store works as a shelf.

    Raises an error if the store cannot be reached or is not consistent. The test does not write on
    a reader's machine, because readers may lack write permission.
    """
    count = lakehouse.count_nights(is_reader=is_reader)
    verb = "can be read" if is_reader else "passed its test"
    message = f"{lakehouse.url} {verb}; {count_of(count, 'night')}"
    missing = lakehouse.waiting_nights(snapshots.landed_snapshots(lakehouse.layout))
    if missing:
        message += (
            f"; {count_of(len(missing), 'night')} in this home must still be uploaded. Type: "
            "nightbook shelve"
        )
    return Finding("shelf", is_well=not missing, message=message)


def _recipients(settings: Settings, *, is_reader: bool) -> Iterator[Finding]:
    """Yield a finding about who learns of a problem. Demos and readers' homes need nobody."""
    if is_reader or is_demo(Layout(settings.home)):
        return
    channels, has_switch = count_of(len(settings.alerts), "channel"), bool(settings.heartbeat)
    if not settings.alerts and not has_switch:
        yield _warning(
            "alerts",
            "neither NIGHTBOOK_ALERTS nor NIGHTBOOK_HEARTBEAT is set, so nobody gets a message if "
            "a night is held, fails or does not start",
        )
    elif not settings.alerts:
        yield _warning(
            "alerts",
            "NIGHTBOOK_ALERTS is not set, so only the monitoring service of NIGHTBOOK_HEARTBEAT "
            "reports a problem, a day later and without a reason",
        )
    else:
        switch = "a dead-man's switch" if has_switch else "no dead-man's switch"
        advice = "" if has_switch else ": set NIGHTBOOK_HEARTBEAT, to learn that the daemon died"
        yield _well("alerts", f"{channels} and {switch}{advice}")


def _channels(settings: Settings) -> Iterator[Finding]:
    """Send a test message through every channel, including the fallbacks."""
    layout = Layout(settings.home)
    if not settings.alerts:
        missing = (
            "NIGHTBOOK_ALERTS is not set, so nobody gets a message if a night is held or fails"
        )
        yield _wrong("alerts", missing)
    test = Alert(
        cause="test",
        title="a test",
        words="If you can read this, alerts from nightbook reach you. Nothing is wrong.",
        see=str(layout.home),
        command=full_command(layout, "status"),
        kind=INFO,
    )
    delivered = (address for _, address in (*settings.deliver, *settings.owners))
    for number, address in enumerate((*settings.alerts, *delivered), 1):
        is_well = bool(deliver((address,), (test,)).sent)
        channel = f"channel {number} ({address.partition('://')[0]})"
        result = "accepted a test message" if is_well else "failed: check its address"
        yield Finding("alerts", is_well=is_well, message=f"{channel} {result}")
