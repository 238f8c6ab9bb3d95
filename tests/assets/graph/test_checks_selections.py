"""Tests of selections in Dagster: each run succeeds, or fails with a clear message."""

import shutil
from datetime import date, timedelta

import dagster as dg
import pytest

from assets.definitions import assemble
from assets.graph.warehouse import DECISION, WAREHOUSE
from assets.night import warehouse
from assets.nightbook import Nightbook
from pipelines.landing import night_folders
from pipelines.landing.snapshots import landed_snapshots
from tests.support.operator_home import FIRST, THIRD, Keeper, Said
from tests.support.shared import some_daily
from warehouse.contract.book import BOOK
from warehouse.sql.checks import ERROR, Check, every_check
from warehouse.storage.layout import Layout

NEVER_LANDED = THIRD + timedelta(days=1)
TODAY = THIRD + timedelta(days=2)
GRAPH = assemble(Nightbook(dict)).resolve_asset_graph()
ASSETS = {key.to_user_string(): {key} for key in sorted(GRAPH.materializable_asset_keys)}
GROUPS = {
    f"group {name}": set(dg.AssetSelection.groups(name).resolve(GRAPH))
    for name in ("landing", "lake", "published")
}
MIXED = {
    "all": set(GRAPH.materializable_asset_keys),
    "a resource and a table of another": {
        dg.AssetKey(["landing", "portfolios"]),
        dg.AssetKey(["lake", "venues"]),
    },
    "a table and the warehouse": {dg.AssetKey(["lake", "balances"]), dg.AssetKey("warehouse")},
}
SELECTIONS = ASSETS | GROUPS | MIXED
CLICKED = [*some_daily(ASSETS, 18), *some_daily(GROUPS, 3), *some_daily(MIXED, 3)]
# The check `ledger_ties_out` runs with its asset, and Dagster has no button to run it alone.
CHECKS = [key for key in sorted(GRAPH.asset_check_keys) if key.name != "ledger_ties_out"]


@pytest.fixture(scope="module")
def clicked(taken: tuple[Keeper, Said], tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    """Return a copy of three nights. The tests in this file change it."""
    keeper = taken[0]
    home = tmp_path_factory.mktemp("clicked") / "home"
    shutil.copytree(keeper.home, home, symlinks=True)
    return Keeper(home, keeper.sandbox)


def launched(
    keeper: Keeper,
    day: str | None,
    assets: set[dg.AssetKey],
    checks: set[dg.AssetCheckKey] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a selection as the UI, a backfill or the queue does, two days after the third night."""
    keeper.sandbox.show()
    keeper.sandbox.clock.night(TODAY, hour=9)
    job = assemble(keeper.nightbook).resolve_implicit_global_asset_job_def()
    chosen = job.get_subset(asset_selection=assets, asset_check_selection=checks)
    return chosen.execute_in_process(partition_key=day, raise_on_error=False)


def words(run: dg.ExecuteInProcessResult) -> list[str]:
    """Return the messages of the failed steps. A step without our own message counts as ""."""
    steps = [event.step_failure_data for event in run.all_events if event.is_step_failure]
    return [
        step.user_failure_data.description or "" if step.user_failure_data else "" for step in steps
    ]


def materialized(run: dg.ExecuteInProcessResult) -> set[dg.AssetKey]:
    """Return the assets that a run materialized."""
    return {
        event.asset_key
        for event in run.all_events
        if event.is_step_materialization and event.asset_key is not None
    }


@pytest.mark.parametrize("name", CLICKED)
def test_a_run_of_a_landed_date_makes_only_its_selection(clicked: Keeper, name: str) -> None:
    """A run of a selection for a landed date succeeds and materializes only the selected assets.

    If the warehouse is selected, the guards' decision is recorded too. Otherwise, Dagster's launch
    dialog would list it as missing.
    """
    run = launched(clicked, str(THIRD), SELECTIONS[name])
    assert run.success, words(run)
    decision = {DECISION} if WAREHOUSE in SELECTIONS[name] else set()
    assert materialized(run) == SELECTIONS[name] | decision
    failed = [one for one in run.get_asset_check_evaluations() if not one.passed]
    assert not failed


@pytest.mark.parametrize("name", CLICKED)
def test_a_run_of_a_date_that_never_landed_fails(clicked: Keeper, name: str) -> None:
    """A selection for a date that was never landed fails with a message and makes nothing."""
    run = launched(clicked, str(NEVER_LANDED), SELECTIONS[name])
    assert not run.success
    assert not materialized(run)
    expected = (f"{NEVER_LANDED} was never pulled", f"{NEVER_LANDED} has no book")
    assert all(said.startswith(expected) for said in words(run)), words(run)


@pytest.mark.parametrize(
    "check", some_daily([(key,) for key in CHECKS], 5), ids=lambda key: key.to_user_string()
)
def test_each_check_can_run_alone(clicked: Keeper, check: dg.AssetCheckKey) -> None:
    """Each check that Dagster can run alone passes on the newest book, and no other check runs."""
    run = launched(clicked, None, set(), {check})
    assert run.success, words(run)
    [found] = run.get_asset_check_evaluations()
    assert (found.asset_check_key, found.passed) == (check, True)


def test_all_checks_can_run_without_a_partition(clicked: Keeper) -> None:
    """A run of all checks without a partition checks the newest book and publishes nothing.

    Dagster starts such a run if a person clicks "Execute all" on the checks page.
    """
    before = clicked.layout.database.resolve()
    run = launched(clicked, None, set(), set(CHECKS))
    assert run.success, words(run)
    found = {one.asset_check_key: one.passed for one in run.get_asset_check_evaluations()}
    assert found == dict.fromkeys(CHECKS, True)
    assert clicked.layout.database.resolve() == before


@pytest.mark.parametrize("name", ["warehouse", "report"])
def test_a_run_of_assets_without_a_partition_fails(clicked: Keeper, name: str) -> None:
    """A run without a partition makes nothing, and its message says that a night must be chosen."""
    run = launched(clicked, None, SELECTIONS[name])
    assert not run.success
    assert not materialized(run)
    assert all("choose a night" in said for said in words(run))


def test_a_new_check_runs_on_an_older_book(nights: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that is newer than a published night runs on its book and reports its result."""
    new = Check("a_new_check", "There is no account.", ERROR, "select * from accounts")
    monkeypatch.setattr(warehouse, "every_check", lambda: [*every_check(), new])
    newest = landed_snapshots(nights.layout)[-1]
    *others, result = warehouse.check_results(nights.layout.database, newest)
    [(accounts,)] = nights.ask("select count(*) from accounts")
    assert (result.check, result.passed, result.description) == (new.name, False, None)
    assert result.metadata["wrong rows"] == accounts
    assert all(other.passed for other in others)


def test_a_rebuilt_table_that_differs_is_published(clicked: Keeper) -> None:
    """If a rebuilt table differs from its sealed digest, `warehouse` publishes the whole night."""
    layout = clicked.layout
    snapshot_id = _snapshot(layout, FIRST)
    before = clicked.history()
    content = night_folders.read(layout.manifest(snapshot_id))
    content["tables"]["venues"]["sha256"] = "0" * 64
    night_folders.write(layout.manifest(snapshot_id), content)
    assert launched(clicked, str(FIRST), SELECTIONS["lake/venues"]).success
    run = launched(clicked, str(FIRST), SELECTIONS["warehouse"])
    assert run.success, words(run)
    assert clicked("verify").code == 0
    assert clicked.history() == before


def test_the_warehouse_alone_flattens_and_publishes_a_night(clicked: Keeper) -> None:
    """`warehouse` alone flattens and publishes a night whose run died after landing."""
    layout = clicked.layout
    snapshot_id = _snapshot(layout, THIRD)
    before = clicked.history()
    layout.manifest(snapshot_id).unlink()
    for table in BOOK:
        layout.parquet(table.name, THIRD, snapshot_id).unlink()
    for file in layout.staging(snapshot_id).glob("*"):
        file.unlink()
    run = launched(clicked, str(THIRD), SELECTIONS["warehouse"])
    assert run.success, words(run)
    assert clicked("verify").code == 0
    assert clicked.history() == before


def _snapshot(layout: Layout, day: date) -> str:
    return max(folder.name for folder in (layout.landing / str(day)).glob("[0-9]*"))
