"""Tests of the 40 faults of data, storage and operations, each with its number and its outcome.

The nights with data faults are pulled from the sandbox over a socket after a good night, and
judged. The faults of storage and operations need killed processes, full disks or flipped bits, so
their tests are in other files. This file names these tests, and checks that they exist.
"""

import ast
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipelines import night
from pipelines.flatten import flatten
from pipelines.lake import guards, lake_manifest
from pipelines.lake.facts import Facts
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing.manifest import Manifest
from pipelines.landing.snapshots import Snapshot
from pipelines.records import amounts
from pipelines.sandbox.world.world import LivingWorld, World
from tests.pipelines.pull.test_pull import DAY, Night
from tests.support import nights, oracle
from tests.support.shared import some_daily
from warehouse.storage.layout import Layout

ROOT = Path(__file__).parents[2]
LIVING = LivingWorld().at(DAY)
WORLD = replace(
    LIVING,
    portfolios=tuple({**one, "positions": one["positions"][:4]} for one in LIVING.portfolios[1:6]),
    instruments={venue: each[:8] for venue, each in (LIVING.instruments or {}).items()},
)
KNOWN = {str(one["id"]): True for one in WORLD.portfolios}
ACCEPTED, HELD = "accepted", "held"


@dataclass(frozen=True, slots=True)
class After:
    """A judged night after a fault: its rows, rejects and drift, and why it is held."""

    manifest: Manifest
    snapshot: Snapshot
    rows: nights.Rows
    sealed: dict[str, Any]
    parts: dict[str, Any]

    @property
    def reasons(self) -> str:
        """The reasons for which the night is held."""
        return "; ".join(self.snapshot.decision.reasons if self.snapshot.decision else ())

    def drift(self) -> set[tuple[str, str]]:
        """Return the kinds and paths of the data that differ from the documentation."""
        return {(one["kind"], one["path"]) for one in nights.noted(self.parts, "drift")}

    def rejects(self) -> list[str]:
        """Return the paths of rejected values."""
        return [one["path"] for one in nights.noted(self.parts, "rejects")]


@dataclass(frozen=True, slots=True)
class DataFault:
    """A data fault: its sandbox faults, the expected state of the night, and a further check."""

    number: str
    what: str
    faults: tuple[str, ...]
    state: str
    seen: Callable[[After], bool]


KESTREL_SINCE = {("kestrel", DAY - timedelta(days=1))}


def _carried(after: After) -> set[tuple[str, date]]:
    """Return the venues whose instruments are carried over, with their `stale_since` dates."""
    rows = after.rows["instruments"]
    return {(row["venue_id"], row["stale_since"]) for row in rows if row["stale_since"]}


DATA = (
    DataFault(
        "D1",
        "portfolios suddenly []",
        ("portfolios-empty",),
        HELD,
        lambda a: "the list of portfolios is empty, but had 5" in a.reasons,
    ),
    DataFault(
        "D2",
        "venues drop 60 %",
        ("venues-dropped",),
        HELD,
        lambda a: "venues fell from 12 to 4 (66.7 %; limit 40 %)" in a.reasons,
    ),
    DataFault(
        "D3",
        "one venue's instruments [], with status 200",
        ("venue-instruments-empty,venue=kestrel",),
        ACCEPTED,
        lambda a: _carried(a) == KESTREL_SINCE and a.sealed["emptied"] == ["kestrel"],
    ),
    DataFault(
        "D4",
        "one venue 500 for ever",
        ("500,path=/venues/kestrel/*",),
        ACCEPTED,
        lambda a: _carried(a) == KESTREL_SINCE,
    ),
    DataFault(
        "D5",
        "more than 10 % of the venues fail",
        ("venues-fail",),
        HELD,
        lambda a: "the instruments of 3 of 12 venues could not be read" in a.reasons,
    ),
    DataFault(
        "D6",
        "the same portfolio twice, equal",
        ("portfolio-repeated",),
        ACCEPTED,
        lambda a: len(a.rejects()) == 1 and len(a.rows["portfolios"]) == len(WORLD.portfolios),
    ),
    DataFault(
        "D7",
        "the same id twice, different",
        ("portfolio-repeated-different",),
        HELD,
        lambda a: "rejected values that carry money: 2" in a.reasons,
    ),
    DataFault(
        "D8",
        "(venue, account) twice in a position",
        ("account-repeated-different",),
        ACCEPTED,
        lambda a: sorted({row["duplicate_no"] for row in a.rows["accounts"]}) == [0, 1],
    ),
    DataFault(
        "D9",
        "an unknown field",
        ("unknown-field",),
        ACCEPTED,
        lambda a: ("unknown field", "data[].newField") in a.drift(),
    ),
    DataFault(
        "D10",
        "a new enum value",
        ("unknown-value",),
        ACCEPTED,
        lambda a: (
            ("unknown value", "data[].tradingStatus") in a.drift()
            and "brand-new" in {row["trading_status"] for row in a.rows["venues"]}
        ),
    ),
    DataFault(
        "D11",
        "a required field missing in one record",
        ("field-missing-in-account",),
        HELD,  # it contains an amount; its siblings are in the tables
        lambda a: len(a.rejects()) == 1 and bool(a.rows["accounts"]),
    ),
    DataFault(
        "D12",
        "a required field missing everywhere",
        ("field-missing-everywhere",),
        HELD,
        lambda a: (
            "every record has the same defect" in a.reasons and "list_venues createdAt" in a.reasons
        ),
    ),
    DataFault(
        "D13",
        "an amount as a JSON number",
        ("amount-number",),
        HELD,
        lambda a: (
            a.rejects()[0].endswith("balance.trading.free")
            and any(kind == "changed type" for kind, _ in a.drift())
        ),
    ),
    DataFault(
        "D14",
        "an amount that is none: NaN",
        ("amount-nan",),
        HELD,
        lambda a: "rejected values that carry money: 1" in a.reasons,
    ),
    DataFault(
        "D14b",
        "an amount that is none: 1_000",
        ("amount-underscore",),
        HELD,
        lambda a: "rejected values that carry money: 1" in a.reasons,
    ),
    DataFault(
        "D14c",
        "an amount that is none: full-width digits",
        ("amount-full-width",),
        HELD,
        lambda a: "rejected values that carry money: 1" in a.reasons,
    ),
    DataFault(
        "D15",
        "an amount with more decimals than the type",
        ("amount-24-decimals",),
        ACCEPTED,
        lambda a: (
            [row["amount"] for row in a.rows["balances"] if len(row["amount_text"]) == 26] == [None]
        ),
    ),
    DataFault(
        "D16",
        "a malformed uuid",
        ("uuid-malformed,path=/portfolios",),
        HELD,  # kept as received, so the portfolio with the money is missing
        lambda a: (
            "not-a-uuid" in {row["portfolio_id"] for row in a.rows["portfolios"]}
            and "1 portfolio that held money is missing" in a.reasons
        ),
    ),
    DataFault(
        "D17",
        "the field `resource` is wrong",
        ("resource-wrong",),
        ACCEPTED,
        lambda a: ("unknown value", "data[].resource") in a.drift(),
    ),
    DataFault(
        "D18",
        "a single object comes with another id",
        ("portfolio-vanished,path=/portfolios", "other-object,path=/portfolios/*"),
        HELD,
        lambda a: "1 of 1: 1 not answered" in a.reasons,
    ),
    DataFault(
        "D19",
        "a venueId that no venue has",
        ("orphan-venue",),
        ACCEPTED,
        lambda a: "a-venue-that-nobody-knows" in {row["venue_id"] for row in a.rows["balances"]},
    ),
    DataFault(
        "D20",
        "a time without a zone",
        ("timestamp-naive,path=/portfolios",),
        ACCEPTED,
        lambda a: [path.endswith("updatedAt") for path in a.rejects()] == [True],
    ),
    DataFault(
        "D20b",
        "an impossible time",
        ("timestamp-impossible,path=/portfolios",),
        ACCEPTED,
        lambda a: [path.endswith("createdAt") for path in a.rejects()] == [True],
    ),
    DataFault(
        "D21",
        "updatedAt goes backwards",
        ("timestamp-backwards",),
        ACCEPTED,
        lambda a: {row["updated_at"].year for row in a.rows["portfolios"]} == {1999},
    ),
    DataFault(
        "D22",
        "hostile names",
        ("hostile-names",),
        ACCEPTED,
        lambda a: "=cmd|' /C calc'!A0" in {row["name"] for row in a.rows["portfolios"]},
    ),
    DataFault(
        "D23",
        "meta carries a cursor",
        ("meta-cursor,path=/venues",),
        HELD,
        lambda a: "look like one page of several" in a.reasons and "nextCursor" in a.reasons,
    ),
    DataFault(
        "D24",
        "the data change between the first and the last call",
        ("timestamp-backwards,path=/portfolios,after=1",),
        ACCEPTED,
        lambda a: (
            a.manifest.window.state == "moved"
            and a.manifest.window.moved[0].startswith("portfolios: 5 changed")
        ),
    ),
)

# The tests of storage and operations faults, which run with real failures.
ELSEWHERE = {
    "S1": ("killed at every call", "crash/test_kill.py", "test_every_call_may_be_interrupted"),
    "S2": ("a torn write", "crash/test_kill.py", "test_every_call_may_be_interrupted"),
    "S3": ("power cut, lost or zeroed", "crash/test_kill.py", "test_every_call_may_be_interrupted"),
    "S4": ("renames out of order", "crash/test_kill.py", "test_every_call_may_be_interrupted"),
    "S5": ("a full disk at every call", "crash/test_kill.py", "test_every_call_may_be_interrupted"),
    "S6": ("EIO at every call", "crash/test_kill.py", "test_every_call_may_be_interrupted"),
    "S7": (
        "a flipped bit",
        "pipelines/maintenance/test_verify.py",
        "test_verify_reports_every_file_with_a_changed_bit",
    ),
    "S8": (
        "a file cut short",
        "pipelines/maintenance/test_verify_cut_files.py",
        "test_verify_names_each_truncated_file_and_its_remedy",
    ),
    "S9": (
        "a second run starts",
        "assets/home/test_writer_lock.py",
        "test_a_second_run_fails_and_names_the_first",
    ),
    "S10": (
        "a reader is open while it is published",
        "warehouse/database/test_publication.py",
        "test_a_reader_keeps_its_version_during_a_publish",
    ),
    "S11": (
        "left-over WAL and scratch",
        "warehouse/database/test_publication.py",
        "test_remains_of_a_dead_run_do_not_block_a_publish",
    ),
    "S12": (
        "landing deleted in part",
        "pipelines/maintenance/test_verify_cut_files.py",
        "test_a_rebuild_names_everything_missing_from_landing",
    ),
    "O1": (
        "the schedule in an hour that is not, or is twice",
        "assets/test_definitions.py",
        "test_each_day_of_a_year_has_its_tick",
    ),
    "O2": (
        "the clock jumps during the run",
        "pipelines/pull/test_recorder_clocks.py",
        "test_a_clock_jump_during_a_run_does_not_change_the_book",
    ),
    "O3": (
        "Dagster was killed and its run stays STARTED",
        "assets/runs/test_dead_runs_crashes.py",
        "test_the_next_run_publishes_the_nights_of_dead_runs",
    ),
    "O4": (
        "the secret is changed during the run",
        "pipelines/pull/test_pull.py",
        "test_a_key_refused_in_the_middle_ends_the_night",
    ),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a home with one good night."""
    home = tmp_path_factory.mktemp("good") / "home"
    before = nights.STARTED - timedelta(days=1)
    assert nights.take(Layout(home), nights.of_world(WORLD), before).state == ACCEPTED
    return home


def night_after(good: Path, home: Path, *faults: str, world: World = WORLD) -> After:
    """Copy that home, and pull the next night over a socket under faults."""
    shutil.copytree(good, home)
    layout = Layout(home)
    known = lake_manifest.portfolios_before(layout, "99", datetime(2999, 1, 1, tzinfo=UTC))
    assert known.keys() == KNOWN.keys()
    manifest = Night(layout).take(*faults, world=world, known=known)
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    night.stage_portfolios(layout, manifest)
    night.stage_venues(layout, manifest)
    rows = nights.read(layout, manifest)
    parts = {
        "portfolios": nights.as_json(flatten.flatten_portfolios(layout, manifest)),
        "venues": nights.as_json(night.stage_venues(layout, manifest)),
    }
    snapshot = night.finish(LakeManifests(layout), folder, nights.STARTED)
    return After(
        manifest, snapshot, rows, lake_manifest.read_manifest(layout, manifest.snapshot_id), parts
    )


@pytest.mark.parametrize(
    "fault", some_daily(DATA, 6), ids=lambda fault: f"{fault.number}-{fault.what}"
)
def test_each_data_fault_has_its_expected_outcome(
    fault: DataFault, good: Path, tmp_path: Path
) -> None:
    """The night is held or accepted as expected, and each anomaly is visible."""
    after = night_after(good, tmp_path / "home", *fault.faults)
    assert after.snapshot.state == fault.state, after.reasons
    assert fault.seen(after), after.reasons
    if fault.state == ACCEPTED:
        assert nights.differing(after.parts) == []
        assert not after.sealed["money_shapes"]


def test_accepted_data_faults_change_no_sum(good: Path, tmp_path: Path) -> None:
    """Accepted faults that do not affect amounts leave every sum equal to the world's."""
    expected: dict[str, Decimal] = {}
    for portfolio in WORLD.portfolios:
        for position in portfolio["positions"]:
            for account in position["accounts"]:
                for _, _, text in oracle.balances(account["balance"]):
                    asset = position["assetId"]
                    expected[asset] = expected.get(asset, Decimal(0)) + Decimal(text)
    untouched = {"D4", "D6", "D9", "D10", "D17", "D19", "D20", "D22", "D24"}
    chosen = [one for fault in DATA if fault.number in untouched for one in fault.faults]
    after = night_after(good, tmp_path / "home", *chosen)
    assert after.snapshot.state == ACCEPTED, after.reasons
    totals: dict[str, Decimal] = {}
    for row in after.rows["balances"]:
        value = amounts.parse(row["amount_text"])
        totals[row["asset_id"]] = totals.get(row["asset_id"], Decimal(0)) + (value or 0)
    assert totals == expected


def test_a_defect_in_every_record_is_held_once(good: Path, tmp_path: Path) -> None:
    """A defect in all records holds one night, and not the next one with the same defect."""
    first = night_after(good, tmp_path / "home", "field-missing-everywhere")
    assert first.snapshot.state == HELD
    facts = Facts.of(first.sealed["facts"])
    assert len(facts.everywhere) == 3
    judged = guards.find_reasons(facts, [facts])
    assert judged == ()


def test_the_list_of_faults_is_complete() -> None:
    """The list has 24 data, 12 storage and 4 operations faults, each with an existing test."""
    data = {fault.number.rstrip("bc") for fault in DATA}
    assert data == {f"D{number}" for number in range(1, 25)}
    others = {f"S{number}" for number in range(1, 13)} | {f"O{number}" for number in range(1, 5)}
    assert ELSEWHERE.keys() == others
    assert len(data | others) == 40
    for number, (_, file, name) in ELSEWHERE.items():
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        tests = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
        assert name in tests, f"{number}: {file} has no {name}"
