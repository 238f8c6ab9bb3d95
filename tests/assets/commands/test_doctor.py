"""Tests of `nightbook doctor`, which prints a line with a remedy for each problem."""

import json
import re
import shutil
import socket
from collections.abc import Callable

import pytest

from assets.commands.doctor import ignored_variables
from assets.home.demo import MARK
from pipelines.edge.access import Access
from tests.support.operator import DEAD
from tests.support.operator_home import FIRST, SECOND, Keeper

ACCESS = ("NIGHTBOOK_API_URL", "NIGHTBOOK_API_KEY", "NIGHTBOOK_API_SECRET")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"NIGHTBOOK_API_URL": ""}, "NIGHTBOOK_API_URL is not set"),
        (
            {"NIGHTBOOK_API_URL": "http://api.example.com"},
            "plain http, which is allowed only for connections to",
        ),
        ({"NIGHTBOOK_API_KEY": ""}, "NIGHTBOOK_API_KEY is not set"),
        ({"NIGHTBOOK_API_SECRET": ""}, "nor NIGHTBOOK_API_SECRET_FILE is set"),
        ({"NIGHTBOOK_TIMEZONE": "Mars/Olympus"}, "NIGHTBOOK_TIMEZONE is 'Mars/Olympus'"),
        ({"NIGHTBOOK_SCHEDULE": "at night"}, "NIGHTBOOK_SCHEDULE is 'at night'"),
        ({"NIGHTBOOK_CONCURRENCY": "many"}, "NIGHTBOOK_CONCURRENCY is 'many'"),
        ({"NIGHTBOOK_DEADLINE": "0"}, "NIGHTBOOK_DEADLINE is '0'"),
    ],
)
def test_doctor_names_each_wrong_setting(
    empty: Callable[..., Keeper], variables: dict[str, str], words: str
) -> None:
    """A missing or wrong setting causes one line that names it, and exit code 2."""
    keeper = empty(**variables)
    keeper.report()
    said = keeper("doctor")
    assert (said.code, said.err) == (2, "")
    [line] = [line for line in said.out.splitlines() if line.startswith("✗")]
    assert words in line


def test_doctor_names_ignored_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables for certificates and proxies that other programs use are named as ignored."""
    monkeypatch.setenv("SSL_CERT_FILE", "/certificates.pem")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    first, second = ignored_variables(Access("https://api.example.com", "key", "secret"))
    assert "SSL_CERT_FILE is ignored" in first.message
    assert second.message == "HTTPS_PROXY is ignored: nightbook connects directly"
    assert not [*ignored_variables(Access("http://127.0.0.1", "key", "secret"))]


def test_doctor_prints_a_check_mark_for_each_check(copied: Keeper) -> None:
    """Without problems, `doctor` prints one line for each check, each with a check mark."""
    copied.report()
    copied.more.update(NIGHTBOOK_ALERTS=DEAD, NIGHTBOOK_HEARTBEAT="http://127.0.0.1:9/alive")
    said = copied("doctor")
    assert (said.code, said.err) == (0, "")
    names = [line.split()[1] for line in said.out.splitlines()]
    assert names == [
        "settings",
        "disk",
        "reach",
        "key",
        "clock",
        "queries",
        "warehouse",
        "schedule",
        "alerts",
    ]
    assert all(line.startswith("✓ ") for line in said.out.splitlines())


@pytest.mark.parametrize(
    ("settings", "mark", "words"),
    [
        ({}, "!", "neither NIGHTBOOK_ALERTS nor NIGHTBOOK_HEARTBEAT is set"),
        ({"NIGHTBOOK_HEARTBEAT": "http://127.0.0.1:9/alive"}, "!", "NIGHTBOOK_ALERTS is not set"),
        ({"NIGHTBOOK_ALERTS": DEAD}, "✓", "1 channel and no dead-man's switch: set "),
    ],
)
def test_doctor_warns_if_nobody_learns_of_a_problem(
    copied: Keeper, settings: dict[str, str], mark: str, words: str
) -> None:
    """Without alerts, `doctor` prints a warning, which does not change the exit code."""
    copied.report()
    copied.more.update(settings)
    said = copied("doctor")
    assert said.code == 0
    assert said.out.splitlines()[-1].startswith(f"{mark} alerts")
    assert words in said.out.splitlines()[-1]
    last = json.loads(copied("doctor", "--format", "jsonl").out.splitlines()[-1])
    assert (last["is_well"], last["is_warning"]) == (mark == "✓", mark == "!")


def test_a_demo_needs_no_alerts(copied: Keeper) -> None:
    """`doctor` says nothing about the alerts of a demo, whose nights are simulated."""
    (copied.home / MARK).write_text("{}", encoding="utf-8")
    assert " alerts " not in copied("doctor").out


def test_a_demo_needs_no_api(copied: Keeper) -> None:
    """`doctor` succeeds in a demo without API settings, but reports incomplete ones."""
    (copied.home / MARK).write_text("{}", encoding="utf-8")
    copied.more.update(dict.fromkeys(ACCESS, ""))
    said = copied("doctor")
    assert said.code == 0, said.out
    assert "a demo needs none" in said.out
    copied.more["NIGHTBOOK_API_KEY"] = "k"
    assert copied("doctor").code == 2


@pytest.mark.parametrize("folder", ["", "landing"])
def test_doctor_suggests_a_demo_only_without_an_api(
    empty: Callable[..., Keeper], folder: str
) -> None:
    """In an empty home, `doctor` suggests the first run, and a demo only if no API is set."""
    keeper = empty()
    (keeper.home / folder).mkdir(parents=True)
    for variables, said in (({}, "run"), (dict.fromkeys(ACCESS, ""), "demo")):
        keeper.more.update(variables)
        [line] = [line for line in keeper("doctor").out.splitlines() if " warehouse " in line]
        assert (" demo " in line) == (said == "demo")
        assert " run" in line


def test_doctor_reports_an_unknown_key(empty: Callable[..., Keeper]) -> None:
    """An unknown key is reported with the API's error, and the other checks still run."""
    said = empty(NIGHTBOOK_API_SECRET="not-the-secret")("doctor")
    assert said.code == 1
    assert "✗ key" in said.out
    assert "AUTHENTICATION_FAILED" in said.out
    assert "✓ reach" in said.out
    assert "not-the-secret" not in said.out


@pytest.mark.parametrize(("skew_ms", "side"), [(45_000, "behind"), (-45_000, "ahead of")])
def test_doctor_reports_a_wrong_clock(
    empty: Callable[..., Keeper], skew_ms: int, side: str
) -> None:
    """A clock that is 45 s off is reported with its direction, and `doctor` fails."""
    keeper = empty()
    keeper.sandbox.show(skew_ms=skew_ms)
    said = keeper("doctor")
    assert said.code == 1
    [line] = [line for line in said.out.splitlines() if "clock" in line[:8]]
    assert line.startswith("✗ clock")
    measured = re.search(rf"(\d+) ms {side} the API's clock", line)
    assert measured
    assert 44_000 <= int(measured[1]) <= 46_000


def test_doctor_names_an_unreachable_host(empty: Callable[..., Keeper]) -> None:
    """If the API cannot be reached, `doctor` prints its address and fails."""
    said = empty(NIGHTBOOK_API_URL="http://127.0.0.1:9")("doctor")
    assert said.code == 1
    assert "✗ reach" in said.out
    assert "127.0.0.1" in said.out


@pytest.mark.torture
def test_doctor_reports_a_damaged_warehouse_and_continues(empty: Callable[..., Keeper]) -> None:
    """A damaged warehouse is reported with its remedy, and the schedule is still checked."""
    keeper = empty()
    assert keeper.run(FIRST).code == 0
    database = keeper.layout.database.resolve()
    database.chmod(0o640)
    with database.open("r+b") as file:
        file.write(bytes(8192))
    keeper.report()
    said = keeper("doctor")
    assert (said.code, said.err) == (1, "")
    [line] = [line for line in said.out.splitlines() if line.startswith("\u2717")]
    assert line.startswith("\u2717 warehouse")
    assert "rebuild` rebuilds the file" in line
    assert "\u2713 schedule" in said.out
    asked = keeper("query", "select 1")
    assert asked.code == 1
    assert "cannot be read" in asked.err


def test_writing_commands_reject_a_home_that_is_a_file(empty: Callable[..., Keeper]) -> None:
    """If the home is a file, commands that write do nothing and report the problem."""
    keeper = empty()
    keeper.home.parent.mkdir(parents=True, exist_ok=True)
    keeper.home.write_text("", encoding="utf-8")
    for words in (("run",), ("rebuild",), ("prune", "--keep", "3")):
        said = keeper(*words)
        assert said.code == 2
        if words == ("run",):
            assert "that is not a folder. The run did not start." in said.err
        else:
            assert "that is not a folder. Nothing was done." in said.err


@pytest.mark.torture
def test_a_copied_night_folder_does_not_stop_a_run(empty: Callable[..., Keeper]) -> None:
    """A copy of a night's folder in the landing folder does not stop the next run."""
    keeper = empty()
    assert keeper.run(FIRST).code == 0
    shutil.copytree(
        keeper.layout.landing / FIRST.isoformat(), keeper.layout.landing / "2026-03-01.bak"
    )
    assert keeper.run(SECOND).code == 0


@pytest.mark.parametrize("words", [("dev", "--port", "70000"), ("sandbox", "--port", "-1")])
def test_a_port_number_out_of_range_is_rejected(nights: Keeper, words: tuple[str, ...]) -> None:
    """A port number that is out of range is rejected."""
    assert nights(*words).code == 2


def test_the_sandbox_suggests_a_port_if_its_own_is_in_use(nights: Keeper) -> None:
    """If the port is in use, the sandbox suggests the next one."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = nights("sandbox", "--port", str(port))
    assert said.code == 1
    assert f" sandbox --port {port + 1}" in said.err
