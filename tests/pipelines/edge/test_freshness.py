"""Tests of the signs that a response is old: headers of caches, and times in `meta`."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from pipelines.edge.response.freshness import UNKNOWN_AGE, find_old_signs

NOW = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)


def codes(headers: Mapping[str, str], meta: Any = None, date: datetime = NOW) -> list[str]:
    """Return the codes of the signs in a response that was received at `NOW`."""
    given = {"date": format_datetime(date, usegmt=True), **headers}
    return [sign.code for sign in find_old_signs(given, json.dumps(meta or {}).encode(), NOW, date)]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"age": "90000"}, "is days old"),
        ({"age": "301", "x-cache": "HIT"}, "is minutes old"),
        ({"warning": '110 anderson/1.3.37 "Response is stale"'}, UNKNOWN_AGE),
        ({"warning": '199 - "Misc", 111 - "Revalidation failed"'}, UNKNOWN_AGE),
        ({"cf-cache-status": "STALE"}, UNKNOWN_AGE),
        ({"x-cache": "TCP_HIT from proxy"}, UNKNOWN_AGE),
        ({"cache-status": "edge; hit; ttl=30"}, UNKNOWN_AGE),
    ],
)
def test_a_response_from_a_cache_is_old(headers: Mapping[str, str], expected: str) -> None:
    """A cache states an age above five minutes, a stale response, or a hit without an age."""
    assert expected in codes(headers)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"age": "0", "x-cache": "HIT"},
        {"age": "300", "cf-cache-status": "HIT"},
        {"x-cache": "MISS from proxy", "cf-cache-status": "DYNAMIC"},
        {"age": "soon"},
        {"warning": '299 - "Deprecated API"'},
    ],
)
def test_a_fresh_response_is_not_old(headers: Mapping[str, str]) -> None:
    """An age of at most five minutes, a miss or an invalid age does not make a response old."""
    assert codes(headers) == []


def test_an_old_date_is_a_sign() -> None:
    """A `Date` header that is an hour behind the clock is a sign of an old response."""
    assert codes({}, date=NOW - timedelta(hours=1)) == ["is hours old"]


@pytest.mark.parametrize(
    "meta",
    [
        {"asOf": "2026-11-19T02:15:00Z"},
        {"as_of_date": "2026-11-18"},
        {"page": {"snapshotTime": "2026-11-19T03:15:00+01:00"}},
        {"generatedAt": 1763518500},
        {"timestamp": "1763518500123"},
        {"dataUpdatedAt": "2026-11-19 02:15:00"},
        {"updated": "20261119T021500Z"},
    ],
)
def test_an_old_time_in_meta_is_a_sign(meta: Any) -> None:
    """A time of the data in `meta` shows that the response is old, in every usual form."""
    assert len(codes({}, meta)) == 1


@pytest.mark.parametrize(
    "meta",
    [
        {"asOf": "2026-11-20T02:14:00Z"},
        {"asOf": "2026-11-20"},
        {"1": "2024-01-01", "\u65e5": "2024-01-01"},
        {"asOf": "2026-11-19"},
        {"asOf": None, "timestamp": True, "date": "soon", "generatedAt": 10**30},
        {"apiVersionDate": "2024-01-01", "releasedAt": "2024-01-01", "keyCreatedAt": "2024-01-01"},
        {"nextUpdateAt": "2026-11-19T02:15:00Z"},
    ],
)
def test_other_times_in_meta_are_ignored(meta: Any) -> None:
    """Times of this night, times of other things, and other values do not make a response old."""
    assert codes({}, meta) == []
