"""Requests and large bodies through our client, compared with an ideal and with curl and zstd.

    python -m tests.tools.performance.fetching fetch|landing

`fetch` requests four hundred lists of instruments, sixteen at a time, from a server that needs 100
ms for each. `landing` receives a body of 700 MB until it is compressed in the landing zone, and
compares the cost with `curl | zstd -1`.
"""

import contextlib
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import EdgeError
from pipelines.edge.requests import list_instruments, list_portfolios
from pipelines.edge.response.envelope import raw_records
from pipelines.edge.signing import Credentials
from pipelines.landing.zone import PendingSnapshot
from tests.tools.performance.bodies import SCALES, portfolios
from tests.tools.performance.cpu_profile import Spent, spent
from warehouse.storage.layout import Layout

CALLS, AT_ONCE, LATENCY, INSTRUMENTS = 400, 16, 0.1, 100
IDEAL = CALLS / AT_ONCE * LATENCY
MEGABYTES = 700
CURL = "curl … \\| zstd -1"
UNPROVED = "nightbook: signed, received, both SHA-256, landed, on disk"
PROVED = "the same, and proved to be strict JSON before it counts, as in every pull"


@contextlib.contextmanager
def server(*arguments: str) -> Iterator[str]:
    """Start the slow server in its own process, and yield its origin."""
    command = [sys.executable, "-m", "tests.tools.performance.slow_server", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def fetch(origin: str) -> None:
    """Fetch the lists with the client of production, check them, and print the wall time."""
    calls = [list_instruments(f"venue-{n}", "spot") for n in range(CALLS)]
    begun = datetime.now(UTC)
    with EdgeClient(origin, Credentials("key", "secret"), concurrency=AT_ONCE) as edge:
        for call, outcome in edge.fetch_all(calls):
            if isinstance(outcome, EdgeError):
                raise outcome
            found = len(raw_records(outcome.envelope))
            assert found == INSTRUMENTS, (call.path, found)
            outcome.body.close()
    print(f"wall {(datetime.now(UTC) - begun).total_seconds():.3f}")


def land(origin: str, home: str, *, proved: bool) -> None:
    """Land one large body and print its SHA-256. If `proved`, check first that it is strict JSON.

    A pull checks every body before it lands, and requests it again if it is not JSON. `curl | zstd`
    has no such check, so both variants are measured.
    """
    layout = Layout(Path(home))
    pulling = PendingSnapshot(layout, datetime.now(UTC), ZoneInfo("UTC"))
    layout.work.mkdir(parents=True)
    call = list_portfolios(integrations=True)
    with EdgeClient(origin, Credentials("key", "secret"), spool_dir=layout.work) as edge:
        got = edge.fetch(call) if proved else edge._sender.send(call, call.path, lambda: None)
        if isinstance(got, EdgeError):
            raise got
        pulling.land("0001-portfolios", got.body.buffer())
        print(f"sha256 {got.body.sha256}")
        got.body.close()


def large_body(path: Path, size: int) -> None:
    """Write portfolios of scale S repeatedly, with different IDs, until `size` bytes are full.

    The portfolios are larger than the window of zstd, so they compress as if all were different.
    """
    told = [
        (str(one["id"]), json.dumps(one, separators=(",", ":")))
        for one in portfolios(SCALES["S"], 7)
    ]
    copy = 0
    with path.open("w", encoding="ascii") as file:
        file.write('{"data":[')
        while file.tell() < size:
            for identity, text in told:
                other = f"{copy:08x}{identity[8:]}"
                comma = "," if file.tell() > 9 else ""
                file.write(comma + text.replace(identity, other, 1))
            copy += 1
        file.write('],"meta":{}}')


def requests(runs: int) -> list[str]:
    """Return the lines of a table with the cost of the requests, and the ideal."""
    with server(str(LATENCY), str(INSTRUMENTS)) as origin:
        ours = [_ours("requests", origin) for _ in range(runs)]
    wall = statistics.median(float(_told(one, "wall")) for one in ours)
    cpu = statistics.median(one.cpu for one in ours)
    title = f"{CALLS} instrument requests, {LATENCY * 1000:.0f} ms each, {AT_ONCE} at a time"
    return [
        title,
        "",
        "| | wall s | CPU s | of the ideal |",
        "|---|---:|---:|---:|",
        f"| ideal | {IDEAL:.2f} | | 1.00 |",
        f"| nightbook's client, signing | {wall:.2f} | {cpu:.1f} | {wall / IDEAL:.2f} |",
    ]


def bodies(runs: int, megabytes: int = MEGABYTES) -> list[str]:
    """Return the lines of a table with the cost of landing a large body, and `curl | zstd -1`."""
    costs: dict[str, list[Spent]] = {CURL: [], UNPROVED: [], PROVED: []}
    with tempfile.TemporaryDirectory(prefix="nightbook-bench-") as folder:
        body = Path(folder) / "body.json"
        large_body(body, megabytes * 1_000_000)
        with body.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        with server("0", str(body)) as origin:
            for run in range(runs):
                costs[CURL].append(_theirs(origin, Path(folder) / "curl.zst"))
                for name, what in ((UNPROVED, "unproved"), (PROVED, "body")):
                    home = Path(folder) / f"{what}-{run}"
                    costs[name].append(_landed(what, origin, home, digest.hexdigest()))
    return _against(costs, f"A body of {megabytes} MB, landed compressed")


def _landed(what: str, origin: str, home: Path, digest: str) -> Spent:
    cost = _ours(what, origin, str(home))
    assert _told(cost, "sha256") == digest, "not the bytes that were sent"
    kept = next(home.rglob("0001-portfolios.json.zst"))
    assert _unpacked(kept) == digest, "not the bytes that were kept"
    return cost


def _unpacked(path: Path) -> str:
    """Return the SHA-256 of the content of a compressed file, unpacked by zstd's own tool."""
    with subprocess.Popen(["zstd", "-dcq", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        digest = hashlib.sha256()
        while piece := process.stdout.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _theirs(origin: str, target: Path) -> Spent:
    address = f"{origin}/edge/v1beta/portfolios"
    return spent(["sh", "-c", 'curl -sS "$0" | zstd -1 -q -f -o "$1"', address, str(target)])


def _ours(what: str, *arguments: str) -> Spent:
    return spent(
        [sys.executable, "-m", "tests.tools.performance.fetching", f"one-{what}", *arguments]
    )


def _told(cost: Spent, name: str) -> str:
    return next(line.split()[1] for line in cost.output.splitlines() if line.startswith(f"{name} "))


def _against(costs: dict[str, list[Spent]], title: str) -> list[str]:
    base = statistics.median(one.cpu for one in costs[CURL])
    lines = [
        title,
        "",
        "| | CPU s | wall s | anonymous MB | CPU, curl = 1 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, several in costs.items():
        cpu = statistics.median(one.cpu for one in several)
        wall = statistics.median(one.wall for one in several)
        memory = statistics.median(one.anonymous for one in several)
        lines.append(f"| {name} | {cpu:.2f} | {wall:.2f} | {memory:.0f} | {cpu / base:.2f} |")
    return lines


if __name__ == "__main__":
    if sys.argv[1] == "one-requests":
        fetch(sys.argv[2])
    elif sys.argv[1] == "one-body":
        land(sys.argv[2], sys.argv[3], proved=True)
    elif sys.argv[1] == "one-unproved":
        land(sys.argv[2], sys.argv[3], proved=False)
    else:
        print("\n".join({"fetch": requests, "landing": bodies}[sys.argv[1]](3)))
