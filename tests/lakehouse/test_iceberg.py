"""A test of nights from the command line on a store and in a catalog, read by another program."""

import json
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import environments
from tests.support.object_stores import ObjectStore
from tests.support.operator_home import FIRST, SECOND, Keeper, sandbox
from tests.support.postgres import Postgres

pytestmark = pytest.mark.lakehouse

READ = """
import json, sys
import pyarrow.compute as pc
from pyiceberg.catalog import load_catalog
catalog = load_catalog("nightbook", **json.loads(sys.argv[1]))
nights = catalog.load_table("nightbook.nights").scan().to_arrow().to_pylist()
nights.sort(key=lambda row: row["sequence"])
states = {row["snapshot_id"]: row["state"] for row in nights}
table = catalog.load_table("nightbook.balances")
rows = {}
for snapshot_id, state in states.items():
    tag = table.refs()[f"night_{snapshot_id}"].snapshot_id
    scan = table.scan(snapshot_id=tag, row_filter=f"snapshot_id = '{snapshot_id}'")
    found = scan.to_arrow().group_by("asset_id").aggregate([("amount_text", "list")]).to_pylist()
    rows[snapshot_id] = sorted(
        [row["asset_id"], sorted(row["amount_text_list"])] for row in found
    )
print(json.dumps([states, rows]))
"""


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalog: the settings for nightbook, and the options for any reader with pyiceberg."""

    settings: Mapping[str, str]
    reader: Mapping[str, str]

    def read(self) -> tuple[dict[str, str], dict[str, list[list[str]]]]:
        """Read the state and the amounts of each night in a program that does not use nightbook."""
        places = str(environments.packages("iceberg"))
        answer = subprocess.run(
            [sys.executable, "-c", READ, json.dumps(self.reader)],
            env={**os.environ, "PYTHONPATH": places},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr[-3000:]
        states, amounts = json.loads(answer.stdout)
        return states, amounts


@pytest.fixture(params=["postgresql", "rest"])
def catalog(
    request: pytest.FixtureRequest, seaweedfs: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> Catalog:
    """Return a catalog in PostgreSQL and one with a REST API."""
    monkeypatch.syspath_prepend(str(environments.packages("iceberg")))
    key, secret = (
        seaweedfs.variables[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
    )
    store = {"s3.endpoint": seaweedfs.endpoint, "s3.region": "us-east-1"}
    store |= {"s3.access-key-id": key, "s3.secret-access-key": secret}
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        place = f"dagster:{urllib.parse.quote(server.password)}@127.0.0.1:{server.port}/dagster"
        return Catalog(
            {"NIGHTBOOK_CATALOG": f"postgresql://{place}"},
            {"uri": f"postgresql+psycopg://{place}", "warehouse": seaweedfs.root, **store},
        )
    for name, value in seaweedfs.rest_variables.items():
        monkeypatch.setenv(name, value)
    from pyiceberg import catalog as catalogs  # noqa: PLC0415 - its packages are there now

    monkeypatch.setattr(catalogs, "_ENV_CONFIG", catalogs.Config())
    return Catalog(
        {"NIGHTBOOK_CATALOG": seaweedfs.iceberg},
        {"uri": seaweedfs.iceberg, **seaweedfs.rest_options, **store},
    )


def _amounts(keeper: Keeper) -> dict[str, list[list[str]]]:
    """Return every amount of each night in the published book, in the format of `Catalog.read`."""
    rows = keeper.ask(
        "select strftime(snapshot_date, '%Y%m%d'), asset_id, "
        "list(amount_text order by amount_text) "
        "from history.balances group by all order by all"
    )
    nights: dict[str, list[list[str]]] = {}
    for day, asset, texts in rows:
        nights.setdefault(day, []).append([asset, texts])
    return nights


def test_the_catalog_follows_runs_and_decisions(
    catalog: Catalog, seaweedfs: ObjectStore, tmp_path: Path
) -> None:
    """The catalog contains exactly the amounts of the book, and it follows a later decision.

    If the catalog is down, the run fails without showing its password, and `shelve` adds the night.
    """
    place = {"NIGHTBOOK_LAKE": f"{seaweedfs.root}/{tmp_path.name}", **seaweedfs.variables}
    with sandbox() as api:
        keeper = Keeper(tmp_path / "home", api, {**place, **catalog.settings})
        assert keeper.run(FIRST).code == 0
        gone = {**place, "NIGHTBOOK_CATALOG": "postgresql://nobody:hidden@127.0.0.1:1/none"}
        failed = Keeper(tmp_path / "home", api, gone).run(SECOND)
        assert (failed.code, "hidden" in failed.out + failed.err) == (1, False)
        assert "The Iceberg catalog of NIGHTBOOK_CATALOG cannot be used" in failed.err
        books = _amounts(keeper)
        assert keeper("shelve").code == 0
        states, amounts = catalog.read()
        assert set(states.values()) == {"accepted"}
        assert {name[:8]: rows for name, rows in amounts.items()} == books
        second = max(states)
        assert keeper("reject", second, "--why", "a test").code == 0
        states, again = catalog.read()
        assert (states[second], again) == ("rejected", amounts)
