"""Tests of whole nights under every sandbox fault: no fault causes wrong or missing money.

By default, the tests run a share of the faults. With `--torture`, they run all faults. Other tests
check the details of each fault. These tests check only the promise: a night is the book with all
its money, is held, or does not exist.
"""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from pipelines import night
from pipelines.edge.errors import EdgeError
from pipelines.edge.response.body import Limits
from pipelines.lake import lake_manifest
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.sandbox.server import DEMO_KEY, DEMO_SECRET
from pipelines.sandbox.world.world import World
from tests.pipelines.pull.test_pull import Night
from tests.support import nights, oracle
from tests.support.faults.catalog import DESCRIPTIONS
from tests.system.test_data_faults import WORLD
from warehouse.exact import EXACT
from warehouse.storage.layout import Layout

ROOT = Path(__file__).parents[2]
SHARE = 24
IMPATIENT = Limits(read=0.5, attempt=1.5, wire=1 << 26, decoded=1 << 27)
# Options for the faults that need a limited duration.
SCOPED = {"hang": ",seconds=2", "hang-mid-body": ",seconds=2", "slow": ",seconds=0.1,count=3"}
# Accepted nights whose sums differ from the world's, because the fault itself changes an amount.
OTHER_AMOUNTS = {
    "unknown-bucket": "1,000 lent in each account of one portfolio",
    "account-repeated-different": "one account twice, numbered",
    "amount-exponent": "1e-8",
    "amount-negative": "-12.75",
    "amount-minus-zero": "-0",
    "amount-bare-point": ".5",
    "amount-24-decimals": "0.123456789012345678901234",
    "amount-30-digits": "123456789012345678901234567890.5",
    "next-day": "the amounts of the next day",
    "field-null": "a null is no amount here",
    "unknown-bucket-odd": "12.5 in a vault, which is a bare text",
}
NAMES = sorted(DESCRIPTIONS)


def sums_of(world: World) -> dict[str, Decimal]:
    """Return the total of each asset of a world."""
    found: dict[str, Decimal] = {}
    for portfolio in world.portfolios:
        for position in portfolio["positions"]:
            asset = position["assetId"]
            for account in position["accounts"]:
                for _, _, text in oracle.balances(account["balance"]):
                    total = found.get(asset, Decimal(0))
                    found[asset] = EXACT.add(total, Decimal(text))
    return found


def lake_sums(layout: Layout, snapshot_id: str) -> dict[str, Decimal]:
    """Return the total of each asset, custom or not, in the Parquet files of a night."""
    found: dict[str, Decimal] = {}
    for asset, text in lake_manifest.read_manifest(layout, snapshot_id)["facts"]["totals"].items():
        name = asset.removesuffix(" (custom)")
        found[name] = EXACT.add(found.get(name, Decimal(0)), Decimal(text))
    return found


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a home with one good night."""
    home = tmp_path_factory.mktemp("sweep") / "home"
    before = nights.STARTED - timedelta(days=1)
    nights.take(Layout(home), nights.of_world(WORLD), before)
    return home


def swept(name: str, good: Path, home: Path) -> str:
    """Run one night under a fault, check that no money is wrong, and return its state."""
    shutil.copytree(good, home)
    layout = Layout(home)
    known = lake_manifest.portfolios_before(layout, "99", datetime(2999, 1, 1, tzinfo=UTC))
    fault = name + SCOPED.get(name, "")
    before = sorted(layout.landing.rglob("*"))
    started = time.monotonic()
    try:
        manifest = Night(layout).take(fault, world=WORLD, known=known, limits=IMPATIENT)
    except EdgeError:
        assert sorted(layout.landing.rglob("*")) == before
        return "no night"
    finally:
        assert time.monotonic() - started < 75
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    snapshot = night.finish(LakeManifests(layout), folder, nights.STARTED)
    if snapshot.state == "accepted":
        sealed = lake_manifest.read_manifest(layout, manifest.snapshot_id)
        assert sealed["money_shapes"] == sealed["differing_totals"] == []
        if name not in OTHER_AMOUNTS:
            assert lake_sums(layout, manifest.snapshot_id) == sums_of(WORLD)
    return snapshot.state


def test_a_sample_of_all_faults_loses_no_money(good: Path, tmp_path: Path) -> None:
    """Under a sample of all faults, each night is accepted with all its money, held, or absent."""
    ends = Counter(swept(name, good, tmp_path / name) for name in NAMES[5::SHARE])
    assert set(ends) <= {"accepted", "held", "no night"}


@pytest.mark.torture
@pytest.mark.parametrize("name", NAMES)
def test_no_single_fault_loses_money(name: str, good: Path, tmp_path: Path) -> None:
    """Under every single fault, the night is accepted with all its money, held, or absent."""
    print(f"{name}: {swept(name, good, tmp_path / 'home')}")


MEMORY = """
import json, re, sys
from pathlib import Path
from pipelines.edge.signing import Credentials
from pipelines.edge.client import EdgeClient
from pipelines.landing import zone
from pipelines.pull import pull
from tests.support import nights
from zoneinfo import ZoneInfo
from datetime import UTC, datetime
from warehouse.storage.layout import Layout
from warehouse.progress import Tally, silent
import pyarrow
def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search("VmHWM:\\s+(\\d+)", status)[1]) // 1024
before = peak()
origin, key, secret, home = json.loads(sys.argv[1])
layout = Layout(Path(home))
layout.work.mkdir(parents=True)
pulling = zone.PendingSnapshot(layout, nights.STARTED, ZoneInfo("UTC"))
heard = []
try:
    with EdgeClient(
        origin,
        Credentials(key, secret),
        sleep=lambda _: None,
        spool_dir=layout.work,
        deadline=120,
        on_event=lambda event: heard.append(event.message),
    ) as client:
        requests = Tally(silent, 0, "requests")
        pull.Pull(client, pulling, requests).land_all(lambda: datetime.now(UTC), origin, "0")
    end = "landed"
except Exception as error:
    end = str(error)
print(json.dumps([[*heard, end], before, peak()]))
"""


@pytest.mark.torture
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("endless,path=/portfolios", ["larger than 2,147,483,648 bytes on the wire"]),
        ("gzip-bomb,mib=1024,path=/portfolios,count=2", [*["larger than 2,097,152"] * 2, "landed"]),
        ("large,mib=300,path=/portfolios,count=2", [*["a megabyte of white space"] * 2, "landed"]),
        ("large,mib=300,path=/venues/*,count=2", [*["a megabyte of white space"] * 2, "landed"]),
        ("nesting,path=/portfolios,count=2", [*["nested too deeply"] * 2, "landed"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_huge_responses_use_little_memory(fault: str, words: list[str], tmp_path: Path) -> None:
    """A process that pulls huge responses uses less than 300 MB and reports each problem."""
    from_sandbox = sandbox_process(fault)
    try:
        origin = from_sandbox.stdout.readline().strip()  # type: ignore[union-attr]  # a pipe
        given = json.dumps([origin, DEMO_KEY, DEMO_SECRET, str(tmp_path / "home")])
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, given],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        from_sandbox.kill()
        from_sandbox.communicate()
    heard, before, peak = json.loads(done.stdout)
    print(f"{fault}: {heard}, {before} MB before, {peak} MB at most")
    assert peak < 300
    pairs = zip(heard, words, strict=True)
    assert [given for given, expected in pairs if expected not in given] == []


SANDBOX = """
import sys, threading
from pipelines.sandbox.server import application
from tests.support.faults.catalog import parse
from tests.support.faults.wire import serve
from pipelines.sandbox.server import DEMO_KEYS, unix_ms
from tests.system.test_data_faults import WORLD
from tests.pipelines.pull.test_pull import DAY
faults = [parse(sys.argv[1])]
app = application(WORLD, DEMO_KEYS, unix_ms, faults=faults, today=lambda: DAY)
with serve(app, faults=faults) as served:
    print(served.origin, flush=True)
    threading.Event().wait()
"""


def sandbox_process(fault: str) -> "subprocess.Popen[str]":
    """Start the sandbox in a separate process, so that its memory does not count as ours."""
    return subprocess.Popen(
        [sys.executable, "-c", SANDBOX, fault], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
