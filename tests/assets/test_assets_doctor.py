"""`nightbook doctor`: every trouble has its line, and what to do."""

import re
from collections.abc import Callable

import pytest

from tests.keeper import Keeper


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"NIGHTBOOK_API_URL": ""}, "NIGHTBOOK_API_URL is not set"),
        ({"NIGHTBOOK_API_URL": "http://api.example.com"}, "plain http is only for this machine"),
        ({"NIGHTBOOK_API_KEY": ""}, "NIGHTBOOK_API_KEY is not set"),
        ({"NIGHTBOOK_API_SECRET": ""}, "NIGHTBOOK_API_SECRET_FILE is not set"),
        ({"NIGHTBOOK_TIMEZONE": "Mars/Olympus"}, "NIGHTBOOK_TIMEZONE is 'Mars/Olympus'"),
        ({"NIGHTBOOK_SCHEDULE": "at night"}, "NIGHTBOOK_SCHEDULE is 'at night'"),
        ({"NIGHTBOOK_CONCURRENCY": "many"}, "NIGHTBOOK_CONCURRENCY is 'many'"),
        ({"NIGHTBOOK_DEADLINE": "0"}, "NIGHTBOOK_DEADLINE is '0'"),
    ],
)
def test_doctor_names_each_wrong_setting(
    empty: Callable[..., Keeper], variables: dict[str, str], words: str
) -> None:
    """A missing or wrong setting is one line that names it, and the exit code is 2."""
    said = empty(**variables)("doctor")
    assert (said.code, said.err) == (2, "")
    [line] = [line for line in said.out.splitlines() if line.startswith("✗")]
    assert words in line


def test_doctor_is_content(nights: Keeper) -> None:
    """With all well there is one line for each thing, each with a check mark."""
    said = nights("doctor")
    assert (said.code, said.err) == (0, "")
    names = [line.split()[1] for line in said.out.splitlines()]
    assert names == ["settings", "disk", "reach", "key", "clock", "warehouse", "schedule"]
    assert all(line.startswith("✓ ") for line in said.out.splitlines())


def test_doctor_names_a_wrong_key(empty: Callable[..., Keeper]) -> None:
    """A key the API does not know is said in the API's words; the rest is still looked at."""
    said = empty(NIGHTBOOK_API_SECRET="not-the-secret")("doctor")
    assert said.code == 1
    assert "✗ key" in said.out
    assert "AUTHENTICATION_FAILED" in said.out
    assert "✓ reach" in said.out
    assert "not-the-secret" not in said.out


@pytest.mark.parametrize(("skew_ms", "side"), [(45_000, "behind"), (-45_000, "ahead of")])
def test_doctor_names_a_clock_that_is_off(
    empty: Callable[..., Keeper], skew_ms: int, side: str
) -> None:
    """A clock 45 s off is measured, told with its side, and fails the doctor."""
    keeper = empty()
    keeper.sandbox.show(skew_ms=skew_ms)
    said = keeper("doctor")
    assert said.code == 1
    [line] = [line for line in said.out.splitlines() if "clock" in line[:8]]
    assert line.startswith("✗ clock")
    measured = re.search(rf"(\d+) ms {side} the API's", line)
    assert measured
    assert 44_000 <= int(measured[1]) <= 46_000


def test_doctor_names_an_unreachable_host(empty: Callable[..., Keeper]) -> None:
    """A port nobody listens on is named as what cannot be reached."""
    said = empty(NIGHTBOOK_API_URL="http://127.0.0.1:9")("doctor")
    assert said.code == 1
    assert "✗ reach" in said.out
    assert "127.0.0.1" in said.out
