"""Tests of the definitions for Dagster: graph, descriptions and loading from any directory."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._utils.schedules import schedule_execution_time_iterator

from assets.definitions import assemble
from assets.home.demo import make_demo
from assets.nightbook import Nightbook
from tests.support import environments
from tests.support.operator_home import KEY, SECRET, Keeper
from warehouse.contract.book import BOOK
from warehouse.storage.layout import Layout

ROOT = Path(__file__).parents[2]


@pytest.fixture
def definitions(tmp_path: Path) -> dg.Definitions:
    """Return the definitions for an empty home."""
    return assemble(Nightbook(lambda: {"NIGHTBOOK_HOME": str(tmp_path)}))


def lines(definitions: dg.Definitions) -> Iterator[str]:
    """Yield the graph as lines of text: assets, checks, jobs and schedules."""
    graph = definitions.resolve_asset_graph()
    for node in sorted(graph.asset_nodes, key=lambda node: node.key):
        kinds = ",".join(sorted(node.kinds))
        parents = ", ".join(sorted(key.to_user_string() for key in node.parent_keys))
        yield f"{node.key.to_user_string()} [{node.group_name}; {kinds}] <- {parents or 'nothing'}"
    for key in sorted(graph.asset_check_keys):
        yield f"check {key.name} of {key.asset_key.to_user_string()}"
    repository = definitions.get_repository_def()
    for job in sorted(one.name for one in repository.get_all_jobs()):
        yield f"job {job}"
    for schedule in repository.schedule_defs:
        yield (
            f"schedule {schedule.name}: {schedule.cron_schedule} {schedule.execution_timezone} "
            f"{schedule.default_status.value} -> {schedule.job_name}"
        )


def test_the_graph_matches_its_golden_file(
    definitions: dg.Definitions, golden: Callable[[str, str], None]
) -> None:
    """Assets with parents, groups and kinds, checks, jobs and schedules match the golden file."""
    golden("graph.txt", "\n".join(lines(definitions)) + "\n")


def test_every_asset_and_check_has_a_description(definitions: dg.Definitions) -> None:
    """Every asset and check has a description, and so do the nightly job and its schedule."""
    graph = definitions.resolve_asset_graph()
    for node in graph.asset_nodes:
        assert node.description, node.key
    for key in graph.asset_check_keys:
        assert graph.get_check_spec(key).description, key
    assert definitions.resolve_job_def("nightly").description
    assert definitions.resolve_schedule_def("nightly_schedule").description


@pytest.mark.parametrize("table", BOOK, ids=lambda table: table.name)
def test_every_table_shows_its_contract(definitions: dg.Definitions, table: object) -> None:
    """The asset of a table has the type and meaning of every column, and its lineage."""
    found = next(one for one in BOOK if one is table)
    key = dg.AssetKey(["lake", found.name])
    metadata = definitions.resolve_asset_graph().get(key).metadata
    columns = metadata["dagster/column_schema"].columns
    assert [(one.name, one.type, one.description) for one in columns] == [
        (one.name, one.kind.value, one.meaning) for one in found.columns
    ]
    lineage = metadata["dagster/column_lineage"].deps_by_column
    assert set(lineage) == {one.name for one in found.columns if "." in one.source}
    parents = definitions.resolve_asset_graph().get(key).parent_keys
    assert {dep.asset_key for deps in lineage.values() for dep in deps} <= parents


def test_definitions_contain_no_secret(nights: Keeper) -> None:
    """Neither key nor secret is in the repr of the nightbook, the definitions or their config."""
    nightbook = nights.nightbook
    definitions = assemble(nightbook)
    shown = [repr(nightbook), repr(nightbook.settings(api=True)), repr(definitions)]
    shown += [repr(definitions.resolve_job_def("nightly").run_config_schema)]
    assert not any(word in text for text in shown for word in (KEY, SECRET))


@pytest.mark.torture
def test_definitions_validate_from_anywhere(tmp_path: Path) -> None:
    """`dagster definitions validate -w workspace.yaml` succeeds in a different directory."""
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "dagster", "definitions", "validate"),
            *("-w", str(ROOT / "workspace.yaml")),
        ],
        cwd=tmp_path,
        env={"PATH": "", "DAGSTER_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Validation successful" in done.stdout + done.stderr


def _dg_check(folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run Dagster's `dg check defs` in a project, which `dg` finds by its pyproject.toml."""
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n", encoding="utf-8")
    command = [sys.executable, "-c", "from dagster_dg_cli.cli import main; main()", "check", "defs"]
    given = {"PATH": "", "HOME": str(home), "DAGSTER_HOME": str(home), "VIRTUAL_ENV": sys.prefix}
    given["PYTHONPATH"] = str(environments.packages("dg"))
    return subprocess.run(
        command, cwd=folder, env=given, capture_output=True, text=True, check=False
    )


@pytest.mark.torture
def test_dg_loads_the_definitions(tmp_path: Path) -> None:
    """`dg check defs` succeeds in a checkout without options, and fails for broken definitions."""
    said = _dg_check(ROOT, tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "All definitions loaded successfully" in said.stdout + said.stderr
    broken = tmp_path / "broken"
    (broken / "assets").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", broken)
    (broken / "assets" / "definitions.py").write_text("raise SystemError('broken')\n")
    (broken / "assets" / "__init__.py").touch()
    said = _dg_check(broken, tmp_path)
    assert (said.returncode, "SystemError: broken" in said.stdout + said.stderr) == (1, True)


@pytest.mark.torture
def test_a_daemon_may_start_in_a_home(nights: Keeper) -> None:
    """A daemon can start in a home, because its folder `warehouse` does not shadow the package."""
    home = nights.home
    assert (home / "warehouse" / "versions").is_dir()
    (home / "assets").mkdir(exist_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "dagster", "definitions", "validate"),
            *("-m", "assets.definitions", "-d", str(home / "dagster")),
        ],
        cwd=home,
        env=nights.variables
        | {"PATH": "", "DAGSTER_HOME": str(home / "dagster"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    (home / "assets").rmdir()
    assert done.returncode == 0, done.stderr
    for unit in ("nightbook-daemon.service", "nightbook-web.service"):
        text = (ROOT / "assets" / "deploy" / unit).read_text(encoding="utf-8")
        assert "PYTHONSAFEPATH=1" in text
        assert "-d @HOME@/dagster" in text


ZONES = ("Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "UTC")


@pytest.mark.torture
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", ["15 2 * * *", "0 0 * * *"])
def test_each_day_of_a_year_has_its_tick(tmp_path: Path, zone: str, cron: str) -> None:
    """Every date of a year has a tick, even when clocks change, and its run has that partition."""
    variables = {
        "NIGHTBOOK_HOME": str(tmp_path),
        "NIGHTBOOK_TIMEZONE": zone,
        "NIGHTBOOK_SCHEDULE": cron,
    }
    start = datetime(2025, 1, 1, 12, tzinfo=UTC)
    definitions = assemble(Nightbook(lambda: variables, lambda: start))
    limit = start + timedelta(days=365)
    dates = []
    for tick in schedule_execution_time_iterator(start.timestamp(), cron, zone):
        if tick > limit:
            break
        local = tick.astimezone(ZoneInfo(zone))
        if local.utcoffset() != (tick - timedelta(days=2)).astimezone(local.tzinfo).utcoffset():
            request = ticked(definitions, tick)
            assert request.partition_key == local.date().isoformat()
            assert request.run_key == local.isoformat()
        dates.append(local.date())
    assert {start.date() + timedelta(days=n) for n in range(1, 365)} <= set(dates)


def ticked(definitions: dg.Definitions, tick: datetime) -> dg.RunRequest:
    """Return the run that the schedule requests at a tick."""
    schedule = definitions.resolve_schedule_def("nightly_schedule")
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_schedule_context(
            instance=instance,
            scheduled_execution_time=tick,
            repository_def=definitions.get_repository_def(),
        ) as context,
    ):
        [request] = schedule.evaluate_tick(context).run_requests or []
    return request


def test_a_repeated_tick_gives_the_same_run_key(tmp_path: Path) -> None:
    """A tick that is evaluated twice gives the same run key, which Dagster runs only once."""
    tick = datetime(2026, 3, 3, 2, 15, tzinfo=UTC)
    definitions = assemble(Nightbook(lambda: {"NIGHTBOOK_HOME": str(tmp_path)}, lambda: tick))
    first, again = ticked(definitions, tick), ticked(definitions, tick)
    assert first.run_key == again.run_key
    assert first.run_key != ticked(definitions, tick + timedelta(days=1)).run_key


def test_the_schedule_of_a_demo_is_off(tmp_path: Path) -> None:
    """The schedule of a demo is off, because real nights must not follow simulated ones."""
    make_demo(Layout(tmp_path))
    definitions = assemble(Nightbook(lambda: {"NIGHTBOOK_HOME": str(tmp_path)}))
    schedule = definitions.resolve_schedule_def("nightly_schedule")
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED
