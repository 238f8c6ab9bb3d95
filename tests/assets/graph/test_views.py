"""Tests of Dagster's catalog: the columns, types and lineage of each view match the warehouse."""

import re
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.definitions import assemble
from assets.graph.views import _view_spec
from assets.nightbook import Nightbook
from warehouse.sql.catalog import ops_views, views
from warehouse.sql.header import read

GRAPH = assemble(Nightbook(lambda: {"NIGHTBOOK_HOME": "nowhere"})).resolve_asset_graph()
API = dg.AssetKey("api")
CONTRACT = Path(__file__).parents[2] / "golden" / "public_contract.txt"
VIEWS = [view.name for view in (*views(), *ops_views())]
# These columns describe whole rows or the night, so no single column of the API is their source.
OF_ROWS = {
    "kind",
    "words",
    "severity",
    "severity_rank",
    "move",
    "change",
    "what_changed",
    "read_at",
}
# The ops views describe nights, so no column of the API is the source of their columns.
OF_ROWS |= {column for view in ops_views() for column in view.entries}


def columns_of(key: dg.AssetKey) -> dict[str, set[dg.TableColumnDep]]:
    """Return the column lineage of an asset."""
    lineage = GRAPH.get(key).metadata["dagster/column_lineage"].deps_by_column
    return {name: set(deps) for name, deps in lineage.items()}


def types_of(key: dg.AssetKey) -> dict[str, str]:
    """Return the type of each column of an asset."""
    columns = GRAPH.get(key).metadata["dagster/column_schema"].columns
    return {column.name: column.type for column in columns}


def behind(dep: dg.TableColumnDep) -> set[dg.TableColumnDep]:
    """Return the sources of a column. The only source of a landed column is its API field."""
    if dep.asset_key == API:
        return set()
    deps = columns_of(dep.asset_key).get(dep.column_name, set())
    if dep.asset_key.path[0] == "landing":
        assert deps == {dg.TableColumnDep(API, dep.column_name)}
    return deps


@pytest.mark.parametrize("name", VIEWS)
def test_the_columns_of_a_view_match_the_public_contract(name: str) -> None:
    """Each column of a view has the name and the type that the public contract states."""
    pattern = rf"^(?:main|ops)\.{name}\.(\w+) (.+?)(?: not null)? ?$"
    promised = dict(re.findall(pattern, CONTRACT.read_text("utf-8"), re.MULTILINE))
    long_names = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}
    shown = types_of(dg.AssetKey(["views", name]))
    assert {column: long_names.get(kind, kind) for column, kind in shown.items()} == promised, (
        "add the columns that the view computes to COMPUTED or OF_VIEW in assets/graph/views.py"
    )


@pytest.mark.parametrize("name", VIEWS)
def test_the_lineage_of_a_column_leads_to_the_api(name: str) -> None:
    """The lineage of each column of a view leads through existing columns to the API."""
    for column, deps in columns_of(dg.AssetKey(["views", name])).items():
        assert deps or column in OF_ROWS, (
            f"{column} has no origin: add it to COMPUTED in assets/graph/views.py or OF_ROWS"
        )
        parents = GRAPH.get(dg.AssetKey(["views", name])).parent_keys
        assert {dep.asset_key for dep in deps} <= parents
        waiting = deps
        while waiting:
            assert all(dep.column_name in types_of(dep.asset_key) for dep in waiting)
            waiting = set().union(*map(behind, waiting))


def test_a_view_of_views_has_their_column_types(tmp_path: Path) -> None:
    """A view that reads other views has their column types, and its lineage leads to them."""
    file = tmp_path / "shares.sql"
    lines = ("Shares.", "", "snapshot_date: A.", "asset_id: B.", "total: C.", "total_text: D.")
    sql = "select * from holdings_by_asset inner join holdings using (snapshot_date, asset_id)"
    file.write_text("".join(f"-- {line}\n" for line in (*lines, "example: from shares")) + sql)
    spec = _view_spec(read(file), "main", dg.AssetKey("warehouse"))
    columns = spec.metadata["dagster/column_schema"].columns
    assert [column.type for column in columns] == ["DATE", "VARCHAR", "DECIMAL(38,18)", "VARCHAR"]
    lineage = spec.metadata["dagster/column_lineage"].deps_by_column
    both = {dg.AssetKey(["views", name]) for name in ("holdings", "holdings_by_asset")}
    assert all({dep.asset_key for dep in deps} == both for deps in lineage.values())


def test_the_lineage_of_a_total_leads_to_the_balances() -> None:
    """The lineage of `holdings.total` leads through `amount` to the balances in the API."""
    key = dg.AssetKey(["views", "holdings"])
    path = ["total"]
    for _ in range(3):
        dep = min(columns_of(key)[path[-1]], key=lambda dep: dep.column_name)
        key, path = dep.asset_key, [*path, dep.column_name]
    assert key == dg.AssetKey("api")
    assert path[1] == "amount"
    assert path[-1] == "Balance.*.*"


def test_every_asset_has_an_owner_and_each_view_a_deadline() -> None:
    """Every asset has an owner and a reader, and a view has a deadline from the schedule."""
    for key in GRAPH.get_all_asset_keys():
        node = GRAPH.get(key)
        assert node.owners
        assert node.tags["nightbook/reader"]
    policy = GRAPH.get(dg.AssetKey(["views", "holdings"])).freshness_policy
    expected = dg.FreshnessPolicy.cron("45 7 * * *", timedelta(hours=7, minutes=45), "UTC")
    assert policy == expected


def test_severe_checks_of_the_warehouse_block_later_steps() -> None:
    """Severe checks of the warehouse block later steps, and those of tables are marked as gates."""
    warehouse = dg.AssetKey("warehouse")
    specs = [GRAPH.get_check_spec(key) for key in GRAPH.asset_check_keys]
    blocking = {spec.name for spec in specs if spec.blocking}
    assert blocking == {"amounts", "holdings", "orphans"}
    gates = {spec.name for spec in specs if "gates" in (spec.metadata or {})}
    assert {"control_totals_agree", "balances_key", "amounts"} <= gates
    assert "drift" not in gates
    own = [spec for spec in specs if spec.name != "ledger_ties_out"]
    assert all(spec.partitions_def for spec in own)
    assert warehouse in {spec.asset_key for spec in specs}
