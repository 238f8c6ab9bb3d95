"""Tests of the evidence of a query result: who holds it can ask again and compare."""

import hashlib
import json
from pathlib import Path

from tests.support.operator_home import Keeper
from warehouse.query import child
from warehouse.query.evidence import evidence_of
from warehouse.storage.layout import Layout

QUERY = "select asset_id, total_text from holdings_by_asset order by all"


def test_the_digest_is_that_of_the_printed_csv(copied: Keeper) -> None:
    """The evidence names query, night, version and fingerprint, and CSV has the same digest."""
    said = json.loads(copied("query", "--format", "json", "--evidence", QUERY).out)
    printed = copied("query", "--format", "csv", QUERY).out
    evidence, build = said["evidence"], copied.ask("select version, fingerprint from ops.build")
    assert evidence["digest"] == hashlib.sha256(printed.encode()).hexdigest()
    assert [(evidence["version"], evidence["fingerprint"])] == build
    assert (evidence["query"], evidence["row_count"]) == (QUERY, len(said["rows"]))
    assert evidence["is_whole"]
    assert said["rows"] == json.loads(copied("query", "--format", "json", QUERY).out)


def test_a_cut_result_is_not_whole(two_nights: Path) -> None:
    """If rows are missing, the evidence says that the result is not whole."""
    database = Layout(two_nights).database
    result = child.ask(database, QUERY, 1)
    assert evidence_of(database, QUERY, result)["is_whole"] is False


def test_evidence_needs_json(copied: Keeper) -> None:
    """Other formats have no room for the evidence, so they are refused before the query runs."""
    said = copied("query", "--evidence", "select 1")
    assert (said.code, "--evidence needs --format json" in said.err) == (2, True)
