"""Tests of the shelf's commands: waiting nights, downloaded nights and error messages."""

import re
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import obstore
import pytest

from pipelines.landing import snapshots
from tests.support.operator_home import Clock, Keeper
from tests.support.shared import some_daily
from tests.support.shelves import Calls

COUNTED = (
    "select snapshot_date, count(*) as balances, exact_sum(amount_text) as total "
    "from history.balances group by all order by all"
)


@pytest.fixture
def first(held: Keeper, tmp_path: Path) -> Keeper:
    """Create a machine with three books, a held night and a shelf that is still empty."""
    shutil.copytree(held.home, tmp_path / "first", symlinks=True)
    shelf = {"NIGHTBOOK_LAKE": f"file://{tmp_path}/shelf"}
    return Keeper(tmp_path / "first", held.sandbox, shelf)


@pytest.mark.torture
def test_a_second_machine_publishes_the_same_book(first: Keeper, tmp_path: Path) -> None:
    """A second machine publishes the shelved nights with the same figures, and later decisions.

    Before the nights are shelved, `status` reports them and `prune` refuses to delete any.
    """
    second = Keeper(tmp_path / "second", first.sandbox, first.more)
    assert "4 nights" in first("status").out
    assert "not on the shelf" in first("status").out
    refused = first("prune", "--keep", "1")
    assert (refused.code, "Shelve them first: " in refused.err) == (1, True)
    assert "4 nights shelved" in first("shelve").out
    assert "not on the shelf" not in first("status").out
    assert "passed its test; 4 nights" in first("doctor").out
    assert "4 nights, 4 of them new or changed" in second("publish").out
    assert second("query", COUNTED).out == first("query", COUNTED).out
    assert second("verify").code == first("verify", "--shelf").code == 0
    night = snapshots.landed_snapshots(first.layout)[-1].snapshot_id
    assert first("reject", night, "--why", "empty").code == 0
    assert "4 nights, 1 of them new or changed" in second("publish").out
    assert second("snapshots").out.splitlines()[2:] == first("snapshots").out.splitlines()[2:]
    assert "all of them already in this home" in second("publish").out


@contextmanager
def on_machine(name: str, clock: Clock, minutes: int, store: object = obstore) -> Iterator[None]:
    """Run the `with` block as a machine of this name, with this store and a clock that is ahead."""
    with (
        mock.patch.object(snapshots, "machine_name", return_value=name),
        mock.patch.dict(sys.modules, {"obstore": store}),
        mock.patch.object(clock, "moment", clock.moment + timedelta(minutes=minutes)),
    ):
        yield


@pytest.mark.parametrize(
    ("verb", "is_reached", "expected"),
    some_daily(
        [
            ("accept", False, [("accepted", "two", "a"), ("rejected", "one", "b")]),
            ("accept", True, [("accepted", "two", "a"), ("rejected", "one", "b")]),
            ("reject", True, [("rejected", "two", "a")]),
            ("reject", False, [("rejected", "two", "a"), ("rejected", "one", "b")]),
        ],
        every=2,
    ),
)
def test_decisions_of_two_machines_are_merged(
    first: Keeper,
    tmp_path: Path,
    verb: str,
    is_reached: bool,  # noqa: FBT001 - a parameter
    expected: list[tuple[str, str, str]],
) -> None:
    """A decision first reads the shelf. If the shelf is down, both decisions are merged later.

    In both cases, all later commands succeed, and both machines have the same decisions.
    """
    second, clock = Keeper(tmp_path / "second", first.sandbox, first.more), first.sandbox.clock
    assert first("shelve").code == second("publish").code == 0
    night = snapshots.landed_snapshots(first.layout)[-1].snapshot_id
    with on_machine("two", clock, 10):
        assert second(verb, night, "--why", "a").code == 0
    with on_machine("one", clock, 11, obstore if is_reached else Calls(is_down=True)):
        said = first("reject", night, "--why", "b")
    assert said.code == 0
    assert ("was decided on another machine" in said.err) is is_reached
    assert ("not on the shelf yet" in said.err) is not is_reached
    told = ""
    for machine in (first, second, first):
        for words in (("shelve",), ("publish",), ("prune", "--keep", "400")):
            done = machine(*words)
            assert done.code == 0, (words, done)
            told += done.out + done.err
        assert "shelf" not in machine("status").out
    assert told.count("Two machines decided") == (not is_reached)
    rows = f"from ops.decisions where snapshot_id = '{night}' order by decision_no"
    for machine in (first, second):
        assert machine.ask(f"select state, machine, reason {rows}")[1:] == expected
    assert first.ask(rows) == second.ask(rows)
    assert first("verify").code == first("verify", "--shelf").code == second("verify").code == 0


def test_doctor_accepts_a_home_that_only_reads_the_shelf(first: Keeper, tmp_path: Path) -> None:
    """`doctor` accepts a home that only reads the shelf and has no API. It does not write there."""
    assert first("shelve").code == 0
    no_api = dict.fromkeys(("NIGHTBOOK_API_URL", "NIGHTBOOK_API_KEY", "NIGHTBOOK_API_SECRET"), "")
    reader = Keeper(tmp_path / "reader", first.sandbox, first.more | no_api)
    before = sorted((tmp_path / "shelf").rglob("*"))
    for bring in (False, True):
        if bring:
            assert reader("publish").code == 0
        said = reader("doctor")
        subjects = [line.split()[1] for line in said.out.splitlines()]
        assert subjects == ["settings", "disk", "queries", "warehouse", "shelf"]
        assert "only downloads nights from the shelf" in said.out
        assert "can be read; 4 nights" in said.out
        assert said.code == int(bring)  # The newest night is held and waits for a decision.
        if bring:
            assert "nothing starts the next night" not in reader("status").out
    assert sorted((tmp_path / "shelf").rglob("*")) == before
    alone = Keeper(tmp_path / "alone", first.sandbox, no_api)
    assert alone("doctor").code == 2


class Refusing(BaseHTTPRequestHandler):
    """A store that rejects every request with an error of several lines."""

    def do_GET(self) -> None:
        body = b"<?xml?>\n<Error>\n<Code>InvalidAccessKeyId</Code>\n<Message>No such key</Message>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_GET  # noqa: N815 - its name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Discard the log message."""


def test_doctor_prints_the_error_of_a_store_without_keys(first: Keeper) -> None:
    """`doctor` prints the store's complete error on one line, without any access key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = {
            "NIGHTBOOK_LAKE": "s3://bucket/book",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "canary-id",
            "AWS_SECRET_ACCESS_KEY": "canary-secret",
        }
        said = Keeper(first.home, first.sandbox, place)("doctor").out
        server.shutdown()
    assert "403 Forbidden: InvalidAccessKeyId: No such key." in said
    assert "canary" not in said


def test_a_dry_run_of_prune_prints_why_it_would_fail(first: Keeper) -> None:
    """If a prune would fail, `--dry-run` prints the reason and the command to type."""
    rehearsed, refused = first("prune", "--keep", "1", "--dry-run"), first("prune", "--keep", "1")
    assert refused.code == 1
    assert f"Without --dry-run, this would fail: {refused.err}" in rehearsed.out
    assert first("shelve").code == 0
    assert "refuse" not in first("prune", "--keep", "1", "--dry-run").out


def test_a_trace_names_the_command_to_download_bodies(first: Keeper, tmp_path: Path) -> None:
    """If bodies are missing, a trace names a command that downloads them from the shelf."""
    second = Keeper(tmp_path / "second", first.sandbox, first.more)
    assert first("shelve").code == second("publish").code == 0
    figure = "select portfolio_id, asset_id from positions where not is_custom_asset limit 1"
    [(portfolio, asset)] = second.ask(figure)
    asked = ("trace", "--portfolio", portfolio, "--asset", asset)
    for _ in range(2):
        said = second(*asked)
        assert said.code == 1
        assert "backup" not in said.out
        [command] = re.findall(
            r"Download them from the shelf: .* --home \S+ (.*)$", said.out, re.MULTILINE
        )
        assert second(*shlex.split(command)).code == 0
        assert second(*asked).code == 0
        for body in second.layout.landing.glob("*/*/*.zst"):
            body.unlink()


def test_shelf_commands_name_a_missing_setting(first: Keeper) -> None:
    """Without NIGHTBOOK_LAKE, the shelf's commands name it, and other commands mention no shelf."""
    alone = Keeper(first.home, first.sandbox)
    for words in (("shelve",), ("publish",), ("verify", "--shelf")):
        said = alone(*words)
        assert (said.code, "NIGHTBOOK_LAKE is not set" in said.err) == (2, True)
    assert " shelf" not in alone("doctor").out + alone("status").out


def test_nothing_is_shelved_into_an_empty_mount_point(first: Keeper, tmp_path: Path) -> None:
    """If the shelf's disk is not mounted, nothing is shelved into the empty mount point."""
    assert first("shelve").code == 0
    (tmp_path / "shelf").rename(tmp_path / "away")
    (tmp_path / "shelf").mkdir()
    night = snapshots.landed_snapshots(first.layout)[-1].snapshot_id
    assert "not on the shelf yet" in first("reject", night, "--why", "empty").err
    for word in ("shelve", "publish"):
        said = first(word)
        assert (said.code, "4 nights that this home found there earlier" in said.err) == (1, True)
    assert list((tmp_path / "shelf").iterdir()) == []
    (tmp_path / "shelf").rmdir()
    (tmp_path / "away").rename(tmp_path / "shelf")
    assert "1 night shelved" in first("shelve").out


def test_a_dry_run_does_not_write_to_the_shelf(first: Keeper, tmp_path: Path) -> None:
    """`--dry-run` of a decision does not write to the shelf."""
    night = snapshots.landed_snapshots(first.layout)[-1].snapshot_id
    first("accept", night, "--why", "so it is", "--dry-run")
    assert not (tmp_path / "shelf").exists()
