"""Tests of pulls that get old responses: they are requested again, and then hold the night."""

from datetime import UTC, datetime, timedelta

import pytest

from pipelines.edge.client import HEADERS
from pipelines.landing import notices
from pipelines.pull import recorder
from tests.pipelines.pull.test_pull import Night
from warehouse.storage.layout import Layout

REQUESTS = 28  # of a night without faults


@pytest.fixture
def pulled(layout: Layout) -> Night:
    """Return a night that has not been pulled yet."""
    return Night(layout)


def test_requests_forbid_answers_from_a_cache() -> None:
    """Every request asks that no cache answers it or keeps the response."""
    assert HEADERS["cache-control"] == "no-cache, no-store"


@pytest.mark.parametrize("fault", ["cached", "cached-date", "as-of"])
def test_an_old_response_is_requested_once_more(fault: str, pulled: Night) -> None:
    """If the second response is new, the night is pulled without a notice."""
    waited = list[float]()
    manifest = pulled.take(f"{fault},path=/portfolios,count=1", pause=waited.append)
    assert manifest.notices == ()
    assert waited == [recorder.ASK_AGAIN_AFTER]
    assert len(pulled.asked) == REQUESTS + 1
    assert [one.error for one in manifest.answers] == [None] * REQUESTS


@pytest.mark.parametrize(
    ("fault", "key", "words"),
    [
        ("cached", "notice: header age: is days old", "header age: 90000"),
        ("cached-date", "notice: header date: is days old", "header date: Fri, 20 Nov 2026"),
        ("as-of", "notice: meta.asOf: is days old", 'meta.asOf: "2024-01-01T00:00:00Z"'),
    ],
)
@pytest.mark.parametrize("path", ["/portfolios", "/venues/kestrel/instruments"])
def test_a_response_that_stays_old_holds_the_night(
    fault: str, key: str, words: str, path: str, pulled: Night
) -> None:
    """The reason names the sign and its text. Only the age of data in `meta` can be taught."""
    manifest = pulled.take(f"{fault},path={path}*")
    found = {one.key: one for one in notices.reasons(manifest.notices, manifest.signs)}
    assert key in found
    assert words in found[key].words
    assert found[key].is_teachable == (fault == "as-of")


def test_a_wrong_clock_is_no_old_response(pulled: Night) -> None:
    """If this machine's clock is an hour ahead, dates that go on are not from a cache."""
    manifest = pulled.take(now=lambda: datetime.now(UTC) + timedelta(hours=1))
    assert manifest.notices == ()
