"""A test of Dagster's pages in a browser: catalog search, accepting a night and a backfill."""

import base64
import json
import time
from pathlib import Path

import dagster as dg
import httpx
import pytest

from assets.commands.install import UNITS
from assets.runs.instance import open_instance
from tests.support.browser import Browser, chromium
from tests.support.operator_home import FIRST, FOURTH, SECOND, Keeper
from tests.support.shipped_units import environment, free_port, started, until

pytestmark = pytest.mark.torture
PATIENCE = 120.0


class Page:
    """A page of the UI in a browser."""

    def __init__(self, browser: Browser, address: str, pictures: Path) -> None:
        self.browser, self.address, self.pictures = browser, address, pictures
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        browser.call("Page.enable", self.session)
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            self.session,
            width=1500,
            height=950,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, path: str) -> None:
        """Open a page by its path."""
        self.browser.call("Page.navigate", self.session, url=f"{self.address}{path}")

    def until(self, script: str) -> object:
        """Wait until a script in the page returns a true value, and return that value."""
        end = time.monotonic() + PATIENCE
        while not (value := self.browser.evaluate(self.session, script)):
            shown = self.browser.evaluate(self.session, "(document.body?.innerText ?? '')")
            assert time.monotonic() < end, f"{script}\n{shown}"
            time.sleep(0.3)
        return value

    def reads(self, *words: str) -> None:
        """Wait until the page contains all of these texts."""
        for word in words:
            self.until(f"(document.body?.innerText ?? '').includes({json.dumps(word)})")

    def picture(self, name: str) -> None:
        """Save a screenshot of the page."""
        shot = self.browser.call("Page.captureScreenshot", self.session)
        (self.pictures / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def ask(self, query: str, **variables: object) -> dict[str, object]:
        """Send a GraphQL query to the server of the page, and return the data of its response."""
        with httpx.Client(trust_env=False, timeout=60) as client:
            sent = {"query": query, "variables": variables}
            answer = client.post(f"{self.address}/graphql", json=sent).json()
        assert "errors" not in answer, answer
        data: dict[str, object] = answer["data"]
        return data


LAUNCH = """mutation ($given: ExecutionParams!) { launchRun(executionParams: $given) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
BACKFILL = """mutation ($given: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $given) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
STATE = """query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status } } }"""


def accept(page: Page, keeper: Keeper) -> None:
    """Start the job that accepts the fourth night, as its Launchpad does, and wait for its end."""
    selector = {
        "repositoryLocationName": "assets.definitions",
        "repositoryName": "__repository__",
        "pipelineName": "decide_night",
    }
    config = {"decision": "accept", "by": "ada", "why": "the desk was closed"}
    given = {
        "selector": selector,
        "runConfigData": json.dumps({"ops": {"decision": {"config": config}}}),
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": str(FOURTH)}]},
    }
    launched = page.ask(LAUNCH, given=given)["launchRun"]
    assert isinstance(launched, dict)
    run_id = launched.get("run", launched)["runId"]
    page.open(f"/runs/{run_id}")
    page.reads("Success")
    page.picture("accepted")
    assert keeper.ask("select max(snapshot_date) from ops.snapshots where is_book") == [(FOURTH,)]


def backfill(page: Page, log: Path) -> None:
    """Backfill the first two nights, as the page for a backfill of all assets does."""
    given = {
        "selector": {
            "partitionSetName": "nightly_partition_set",
            "repositorySelector": {
                "repositoryLocationName": "assets.definitions",
                "repositoryName": "__repository__",
            },
        },
        "partitionNames": [str(FIRST), str(SECOND)],
    }
    launched = page.ask(BACKFILL, given=given)["launchPartitionBackfill"]
    assert isinstance(launched, dict)
    name = launched["backfillId"]

    def is_done() -> bool:
        state = page.ask(STATE, id=name)["partitionBackfillOrError"]
        assert isinstance(state, dict)
        return bool(state["status"] == "COMPLETED_SUCCESS")

    until("both dates are made", is_done, log)
    page.open(f"/runs/b/{name}")
    page.reads("100% completed")
    page.picture("backfilled")


def test_a_user_can_search_accept_and_backfill_in_the_ui(held: Keeper, tmp_path: Path) -> None:
    """A user can find `holdings`, trace it to the API, accept a night and backfill two dates."""
    log, port = tmp_path / "log", str(free_port())
    variables = environment(held.home, held.sandbox.origin, {})
    with (
        started(UNITS[0], held.home, variables, log),
        started(UNITS[1], held.home, variables, log, port),
        chromium(tmp_path / "profile") as browser,
    ):
        page = Page(browser, f"http://127.0.0.1:{port}", tmp_path)
        until("the UI is up", lambda: _is_up(page), log)
        page.open("/assets?asset-selection=key%3A%22*holdings*%22")
        page.reads("holdings_by_venue")
        page.picture("catalog")
        page.open("/assets/views/holdings?view=lineage&lineageScope=upstream&lineageDepth=5")
        page.reads("holdings", "balances", "api")
        page.picture("lineage")
        page.open("/assets/views/holdings?view=overview")
        page.reads("total_text", "Holdings of each portfolio", "team:analyst".removeprefix("team:"))
        page.picture("holdings")
        accept(page, held)
        backfill(page, log)
    with open_instance(held.layout) as instance:
        made = instance.get_materialized_partitions(dg.AssetKey(["views", "holdings"]))
    assert made == {str(FIRST), str(SECOND), str(FOURTH)}


def _is_up(page: Page) -> bool:
    try:
        query = "{ workspaceOrError { ... on Workspace { locationEntries { loadStatus } } } }"
        return "LOADED" in json.dumps(page.ask(query))
    except httpx.TransportError:
        return False
