"""`nightbook demo`, `dev` and `sandbox`, which run nightbook on a single machine."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from time import monotonic, sleep

from assets.commands import reconcile
from assets.commands.run import take
from assets.console.invocation import command_for
from assets.console.rows import print_rows
from assets.console.terminal import wants_color
from assets.home.demo import FIRST_NIGHTS, next_of_demo, the_demo
from assets.home.instance import DAEMON_MODULE
from assets.nightbook import Nightbook
from assets.runs.dead_runs import reap
from pipelines.landing import snapshots
from pipelines.sandbox.faults import catalog
from pipelines.sandbox.options import describe_choices, parse_choices
from pipelines.sandbox.server import DEMO_KEY, DEMO_KEYS, DEMO_SECRET, application, serve, unix_ms
from pipelines.sandbox.world.world import LivingWorld
from warehouse.contract.model import count_of
from warehouse.query.formats import as_table, printable
from warehouse.query.read import run as ask
from warehouse.reconcile import service
from warehouse.reconcile.record.record import Record
from warehouse.report.build import LATEST
from warehouse.storage.home import HOME
from warehouse.storage.layout import UMASK, Layout

HOUR, MINUTE = 2, 15
HELD = (
    "select asset_id, is_custom_asset, total_text, portfolios, venues "
    "from holdings_by_asset order by accounts desc limit 8"
)
OVER_TIME = (
    "select snapshot_date, exact_sum(amount_text) as btc from history.balances "
    "where asset_id = 'BTC' and not is_custom_asset group by all order by all"
)
QUESTIONS = (
    ("Each asset's total across all portfolios", HELD),
    ("The exact total of one asset on each night", OVER_TIME),
)
NEXT = (
    ("tables", "list the warehouse's tables and their columns"),
    ("snapshots", "list the nights and their states"),
    ("export --format csv", "export the positions"),
    ("reconcile run", "compare the book with a ledger that has errors (exits with code 3)"),
    ("demo --next", "simulate one more night: breaks age, close and reopen"),
    ("dev", "show the same nights in Dagster, in a browser"),
    ("sandbox", "serve the simulated API for your own client"),
)
LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
POLL_SECONDS, STOP_TIMEOUT = 0.2, 60


class SimulatedClock:
    """A clock that can be set to any time and then keeps running."""

    def __init__(self) -> None:
        self._set_at = monotonic()
        self._time = datetime.now(UTC)

    def set(self, time: datetime) -> None:
        """Set the clock to a time. It then continues to run."""
        self._set_at, self._time = monotonic(), time

    def __call__(self) -> datetime:
        """Return the simulated time in UTC."""
        return self._time + timedelta(seconds=monotonic() - self._set_at)


def run_demo(nightbook: Nightbook, *, is_next: bool) -> int:
    """Simulate three nights, or one more if `is_next`. Print the files and commands to try."""
    if is_next:
        return _run_next(nightbook)
    layout = nightbook.layout
    today = nightbook.now().astimezone(nightbook.settings().timezone)
    with the_demo(layout, nightbook.now()):
        code = _take_nights(
            nightbook, [today - timedelta(days=ago) for ago in reversed(range(FIRST_NIGHTS))], today
        )
        if code:
            return code
        service.init(layout.database, layout.home / "reconcile")
        ledger, planted = service.rehearse(layout.database, layout.home / "reconcile")
    _print_result(layout)
    print(f"\nFor finance: the ledger is {ledger}. It contains these errors:")
    for error in planted:
        print(f"  - {error}")
    return 0


def _run_next(nightbook: Nightbook) -> int:
    """Simulate one more night and its ledger, then compare the book with the ledger."""
    layout, settings = nightbook.layout, nightbook.settings()
    folder = layout.home / "reconcile"
    with next_of_demo(layout, nightbook.now()) as days:
        first = days[FIRST_NIGHTS - 1]
        night = datetime.combine(days[-1] + timedelta(days=1), time(HOUR, MINUTE))
        night = night.replace(tzinfo=settings.timezone)
        morning = _demo_at(nightbook, night + timedelta(hours=6))
        if days[-1] not in Record(folder).days():
            print(f"The ledger for {days[-1]} has not been compared yet, so this is done first.")
            reconcile.run(_demo_at(nightbook, night), as_of=days[-1], restate="")
        code = _take_nights(nightbook, [night], night)
        if code:
            return code
        ledger, errors = service.rehearse(layout.database, folder, first=first)
        print(f"\nThe ledger for {night.date()}: {ledger}\nIt contains these errors:")
        for error in errors:
            print(f"  - {error}")
        print()
        reconcile.run(morning, as_of=None, restate="")
    me = command_for(layout)
    print("\nNext: open the workbook, fill in its yellow cells, save it, and type")
    print(f"  {me} demo --next            simulate the next night (your entries are kept)")
    print(f"  {me} reconcile history ID   show the history of one break")
    print(f"  {me} reconcile close {night:%Y-%m}  lock the month and write it to a single file")
    return 0


def _demo_at(nightbook: Nightbook, moment: datetime) -> Nightbook:
    """Return the context for a demo command that runs at a simulated time."""
    clock = SimulatedClock()
    clock.set(moment.astimezone(UTC))
    return replace(nightbook, now=clock, is_demo=True)


def _take_nights(nightbook: Nightbook, days: Sequence[datetime], latest: datetime) -> int:
    """Serve the sandbox, and pull a night for each date until a run fails. Return the exit code."""
    settings = nightbook.settings()
    clock = SimulatedClock()
    app = application(LivingWorld(), DEMO_KEYS, lambda: int(clock().timestamp() * 1000))
    with serve(app) as served:
        access = {
            "NIGHTBOOK_API_URL": served.origin,
            "NIGHTBOOK_API_KEY": DEMO_KEY,
            "NIGHTBOOK_API_SECRET": DEMO_SECRET,
            "NIGHTBOOK_API_SECRET_FILE": "",
            HOME: str(settings.home),
        }
        variables = dict(nightbook.variables()) | access
        demo = Nightbook(lambda: variables, clock, is_demo=True)
        nights = f"{count_of(len(days), 'simulated night')} follow{'s' * (len(days) == 1)}"
        print(f"The sandbox is serving the API at {served.origin}; {nights}.\n")
        for day in days:
            night = day.replace(hour=HOUR, minute=MINUTE, second=0, microsecond=0)
            clock.set(min(night, latest).astimezone(UTC))
            code = take(demo, night.date())
            if code:
                return code
    return 0


def _print_result(layout: Layout) -> None:
    me = command_for(layout)
    nights = len(snapshots.books(snapshots.landed_snapshots(layout)))
    print(f"\n{count_of(nights, 'night')} {'is' if nights == 1 else 'are'} in the book.\n\nOpen:")
    print(f"  {layout.database}   (open it read-only in the DuckDB CLI, DBeaver or Python)")
    newest = sorted(layout.exports.glob("*.xlsx"))[-1:]
    for file in [layout.reports / LATEST, *newest]:
        print(f"  {file}")
    for description, sql in QUESTIONS:
        print(f'\n{description}:\n  {me} query "{sql}"\n')
        print(textwrap.indent(as_table(ask(layout.database, sql)).rstrip("\n"), "  "))
    print("\nNext:")
    for command, description in NEXT:
        print(f"  {me} {command:<20} {description}")


class NotStarted(Exception):
    """The server could not be started."""


def run_dev(nightbook: Nightbook, *, port: int, host_names: tuple[str, ...]) -> int:
    """Start Dagster, then wait for Ctrl-C or for SIGTERM from a supervisor."""
    layout = nightbook.layout
    require_free(port, "dev")
    with os.fdopen(reap(nightbook)) as lock:
        print(f"Dagster for {layout.home}: http://{LOOPBACK}:{port}   (Ctrl-C stops it)")
        print(
            "Dagster has no login and can start runs with your API key, so do not make this port "
            "accessible to other people."
        )
        sys.stdout.flush()
        log = ["--log-format", "colored" if wants_color(sys.stderr) else "json"]
        folder = ["-d", str(layout.dagster)]
        daemon = [DAEMON_MODULE, "run", *log, "-m", "assets.definitions", *folder]
        web = ["assets.runs.web", *log, *folder, "--port", str(port)]
        web += [word for name in host_names for word in ("--host-name", name)]
        return _run_until_stop([daemon, web], layout, lock.fileno())


def _run_until_stop(modules: list[list[str]], layout: Layout, lock: int) -> int:
    """Run each module in a child process until one exits or a signal arrives, then stop all."""
    # The child processes inherit the demo's lock, so killing this process does not release the
    # lock. PYTHONSAFEPATH keeps Python from importing modules from the current folder, which may be
    # a home with a folder named `warehouse`.
    variables = {"PYTHONWARNINGS": "ignore", HOME: str(layout.home), "PYTHONSAFEPATH": "1"}
    signals: list[int] = []
    # Set the handlers before the children start. Otherwise, the children would also ignore the
    # signals that nohup or a background job ignores.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: signals.append(received))
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=os.environ | variables,
            pass_fds=(lock,),
            umask=UMASK,
            # Use a separate process group, so that Ctrl-C does not reach the children directly.
            # Otherwise, they would get two signals, and the second signal would kill them.
            process_group=0,
        )
        for arguments in modules
    ]
    while not signals and all(process.poll() is None for process in started):
        sleep(POLL_SECONDS)
    ended = [process.returncode for process in started if process.returncode is not None]
    for process in started:
        process.terminate()
    for process in started:
        _wait_for(process)
    return 0 if signals else max(map(abs, ended))


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def require_free(port: int, command: str) -> None:
    """Raise `NotStarted` if a port cannot be used. With port 0, the system chooses a free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise NotStarted(
                f"Port {port} on this machine cannot be used ({error.strerror}). Nothing was "
                f"started. Choose another port: nightbook {command} --port {port % LAST_PORT + 1}"
            ) from None


class NoSuchFault(Exception):
    """A fault, scope or choice was requested that the sandbox does not have."""

    exit_code = 2


def run_sandbox(
    nightbook: Nightbook,
    *,
    port: int,
    faults: tuple[str, ...],
    choices: tuple[str, ...],
    output_format: str | None,
) -> int:
    """Serve the sandbox until Ctrl-C, and print the settings that connect nightbook to it."""
    del nightbook
    if "list" in (*faults, *choices):
        _print_list(output_format, is_choices="list" in choices)
        return 0
    try:
        chosen = tuple(catalog.parse(text) for text in faults)
        options = parse_choices(choices)
    except ValueError as error:
        raise NoSuchFault(str(error)) from None
    app = application(LivingWorld(), DEMO_KEYS, unix_ms, options, chosen)
    require_free(port, "sandbox")
    with serve(app, port=port, faults=chosen) as served:
        print(
            f"The sandbox serves the API at {served.origin} until you press Ctrl-C. In another "
            "terminal:\n"
        )
        print(f"  export NIGHTBOOK_API_URL={served.origin}")
        print(f"  export NIGHTBOOK_API_KEY={DEMO_KEY}")
        print(f"  export NIGHTBOOK_API_SECRET={DEMO_SECRET}", flush=True)
        for fault in chosen:
            print(f"\nFault: {fault}", flush=True)
        for text in choices:
            print(f"\nChoice: {printable(text)}", flush=True)
        try:
            while True:
                sleep(3600)
        except KeyboardInterrupt:
            print("\nThe sandbox has stopped.")
    return 0


def _print_list(output_format: str | None, *, is_choices: bool) -> None:
    """Print the faults, or the choices with their possible values and defaults."""
    choices, faults = describe_choices(), sorted(catalog.DESCRIPTIONS.items())
    if output_format and is_choices:
        print_rows(output_format, ("choice", "may_be", "default"), choices)
    elif output_format:
        print_rows(output_format, ("fault", "description"), faults)
    elif is_choices:
        for name, may_be, default in choices:
            print(f"{name:<30} {default:<32} {may_be}")
    else:
        for name, description in faults:
            print(f"{name:<32} {description}")
        print(f"\nA SCOPE limits a fault, for example: --fault {catalog.EXAMPLE}")
        for example, meaning in catalog.SCOPES.items():
            print(f"  {example:<30} {meaning}")
