"""Tests of Dagster's pages for a night: the report, table previews, files and check results."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.graph.record import copy_runs
from assets.runs.instance import open_instance
from tests.support.operator_home import THIRD, Keeper, Said
from warehouse.contract.book import BOOK
from warehouse.storage.layout import Layout

Shown = dict[str, dg.MetadataValue]


@pytest.fixture(scope="module")
def instance(
    taken: tuple[Keeper, Said], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dg.DagsterInstance]:
    """Open a Dagster instance that shows the run of the third night by a command."""
    home = tmp_path_factory.mktemp("pages")
    shutil.copytree(taken[0].layout.runs, home / "runs")
    with open_instance(Layout(home)) as instance:
        copy_runs(Layout(home), instance)
        yield instance


def shown(instance: dg.DagsterInstance, *key: str) -> Shown:
    """Return the metadata of an asset's newest materialization."""
    event = instance.get_latest_materialization_event(dg.AssetKey(key))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.partition == THIRD.isoformat()
    return dict(event.asset_materialization.metadata)


def test_the_report_asset_contains_the_complete_report(
    instance: dg.DagsterInstance, nights: Keeper
) -> None:
    """The report asset contains the whole report as Markdown, and the path of the HTML page."""
    found = shown(instance, "report")
    report = found["report"]
    assert isinstance(report, dg.MarkdownMetadataValue)
    assert f"The night of {THIRD} is complete and is the book." in report.value
    for section in ("Last night", "Findings", "Changes", "Holdings", "Freshness"):
        assert f"\n## {section}: " in report.value
    [(asset, text)] = nights.ask(
        "select asset_id, delta_text from (select asset_id, exact_sum(delta_text) as delta_text, "
        "count(*) as n from changes group by asset_id, is_custom_asset) "
        "order by n desc, asset_id limit 1"
    )
    row = next(line for line in report.value.splitlines() if line.startswith(f"| {asset} "))
    assert text.removeprefix("-") in row
    path = found["path"]
    assert isinstance(path, dg.PathMetadataValue)
    assert Path(str(path.path)).is_file()


@pytest.mark.parametrize("table", BOOK, ids=lambda table: table.name)
def test_a_table_shows_its_rows_and_its_file(
    instance: dg.DagsterInstance, nights: Keeper, table: object
) -> None:
    """Each table shows a preview of its rows, its row count and the path of its file."""
    name = next(one.name for one in BOOK if one is table)
    found = shown(instance, "lake", name)
    preview = found["preview"]
    assert isinstance(preview, dg.MarkdownMetadataValue)
    [(count,)] = nights.ask(f"select count(*) from {name}")
    assert found["dagster/row_count"].value == count
    assert len(preview.value.splitlines()) == 2 + min(count, 5)
    path = found["file"]
    assert isinstance(path, dg.PathMetadataValue)
    assert Path(str(path.path)).is_file()


def test_every_check_reports_its_numbers(instance: dg.DagsterInstance) -> None:
    """Every check of the newest night reports numbers, and a failed check has a description too."""
    events = instance.fetch_materializations(dg.AssetKey("warehouse"), limit=1).records
    run = instance.get_records_for_run(
        events[0].run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
    )
    checks = [
        record.event_log_entry.dagster_event.asset_check_evaluation_data
        for record in run.records
        if record.event_log_entry.dagster_event is not None
    ]
    numbered = [one for one in checks if one.check_name != "ledger_ties_out"]
    assert len(numbered) > len(BOOK)
    for one in numbered:
        assert one.passed or one.description
        assert one.metadata, one.check_name
