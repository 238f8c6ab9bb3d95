"""Tests of the choices for points that the document leaves open (2, 4.6, 8, 9)."""

from collections.abc import Callable
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.options import Choices, parse_choices
from pipelines.sandbox.server import application
from pipelines.sandbox.world.world import World

Ask = Callable[..., Any]
NOW = 1_795_000_000_000
MADE = "2024-02-29T23:59:59.5Z"
WORLD = World(
    portfolios=(
        {
            "id": "3f0c9c52-8a3e-4f0f-9d7e-111111111111",
            "resource": "portfolio",
            "name": "One",
            "positions": [
                {
                    "assetId": "BTC",
                    "isCustomAsset": False,
                    "accounts": [
                        {"venueId": "v", "name": "a", "balance": {"margin": {"locked": "12.50"}}}
                    ],
                }
            ],
            "createdAt": MADE,
            "updatedAt": MADE,
        },
    ),
)


def portfolio(ask: Ask, **choices: Any) -> Any:
    """Return the only portfolio of the handmade world, as served with these choices."""
    keys = {"all": Caller("secret-of-all")}
    app = application(WORLD, keys, lambda: NOW, Choices(**choices))
    return ask("/portfolios", app=app).json["data"][0]


def test_a_handmade_world_is_served_unchanged(ask: Ask) -> None:
    """By default, a handmade world is served unchanged, and it is the same on every day."""
    assert portfolio(ask) == WORLD.portfolios[0]
    assert WORLD.at(date(1999, 1, 1)) is WORLD


@pytest.mark.parametrize(
    ("form", "text"),
    [("as-made", "12.50"), ("padded", "12.500000000000000000"), ("exponent", "1250e-2")],
)
def test_amounts_have_the_chosen_format(form: str, text: str, ask: Ask) -> None:
    """Each format is a different string for the same number (2.10)."""
    one = portfolio(ask, amounts=form)["positions"][0]["accounts"][0]["balance"]["margin"]
    assert one == {"locked": text}
    assert Decimal(text) == Decimal("12.50")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("as-made", MADE),
        ("offset", "2024-02-29T23:59:59.5+00:00"),
        ("nanoseconds", "2024-02-29T23:59:59.500000000Z"),
    ],
)
def test_instants_have_the_chosen_format(form: str, text: str, ask: Ask) -> None:
    """Each format is a different string for the same instant (2)."""
    assert portfolio(ask, datetimes=form)["createdAt"] == text
    assert datetime.fromisoformat(text) == datetime.fromisoformat(MADE)


def test_absent_fields_can_be_served_as_null(ask: Ask) -> None:
    """With the choice `optional_as_null`, absent optional fields are null at every depth."""
    one = portfolio(ask, optional_as_null=True)
    balance = one["positions"][0]["accounts"][0]["balance"]
    assert one["integrations"] is None
    assert balance == {
        "trading": None,
        "margin": {"locked": "12.50"},
        "staking": None,
        "custody": None,
    }


def test_a_truncated_list_has_a_cursor_in_meta(ask: Ask) -> None:
    """A truncated list has a cursor in `meta`, next to the chosen content (2.10, 4.6)."""
    reply = ask("/venues", page_size=5, meta={"took": 3}).json
    assert len(reply["data"]) == 5
    assert reply["meta"] == {"took": 3, "next": "5"}
    assert ask("/venues", page_size=12).json["meta"] == {}


def test_a_gateway_can_precede_the_prefix(ask: Ask, signed: Callable[..., str]) -> None:
    """Paths begin with the gateway's prefix, and a choice decides if it is signed (1, 5.2)."""
    path = "/edge/v1beta/venues"
    without = signed("secret-of-all", "GET", path, str(NOW))
    within = signed("secret-of-all", "GET", f"/gate{path}", str(NOW))
    gate = {"prefix": "/gate/edge/v1beta", "gateway": "/gate"}
    assert ask("/venues", signature=without, **gate).status == 200
    assert ask("/venues", signature=within, **gate).status == 401
    assert ask("/venues", signature=within, gateway_is_signed=True, **gate).status == 200
    assert ask("/venues", gateway="/gate").status == 404


def test_choices_set_rate_limits_and_sunset_headers(ask: Ask) -> None:
    """Requests above the rate limit are refused, and headers announce the end of service (8, 9)."""
    keys = {"all": Caller("secret-of-all")}
    clock = [NOW]
    app = application(WORLD, keys, lambda: clock[0], Choices(requests_per_second=2))
    statuses = [ask("/portfolios", app=app).status for _ in range(3)]
    clock[0] += 1000
    assert [*statuses, ask("/portfolios", app=app).status] == [200, 200, 429, 200]
    day = "Wed, 01 Dec 2027 00:00:00 GMT"
    headers = ask("/venues", deprecated_since=day).headers
    assert headers["sunset"] == headers["deprecation"] == day


def test_the_date_header_shows_the_servers_clock(ask: Ask) -> None:
    """`Date` shows the clock by which timestamps are checked. The content type is a choice."""
    headers = ask("/venues").headers
    assert headers["date"] == "Wed, 18 Nov 2026 11:06:40 GMT"
    assert headers["content-type"] == "application/json"
    other = "application/json; charset=utf-8"
    assert ask("/x", content_type=other).headers["content-type"] == other


def test_signatures_in_both_cases_are_accepted_by_default(
    ask: Ask, signed: Callable[..., str]
) -> None:
    """Signatures in lower and upper case are accepted, unless a choice requires one (5.2, 7)."""
    upper = signed("secret-of-all", "GET", "/edge/v1beta/venues", str(NOW)).upper()
    assert ask("/venues", signature=upper).status == 200
    assert ask("/venues", signature=upper, hex_case="lower").status == 401
    assert ask("/venues", signature=upper, hex_case="upper").status == 200


def test_a_choice_sets_the_order_of_checks(ask: Ask) -> None:
    """If both key and timestamp are wrong, the order of the checks decides the error (7)."""
    both = {"key": "stranger", "timestamp": NOW - 60_000}
    assert ask("/venues", **both).refusal == (400, "TIMESTAMP_INVALID")
    swapped = ask("/venues", **both, checks=("authentication", "timestamp"))
    assert swapped.refusal == (401, "AUTHENTICATION_FAILED")
    with pytest.raises(ValueError, match="every request is refused"):
        ask("/venues", checks=("timestamp",))


def test_choices_set_the_errors_for_missing_objects(ask: Ask) -> None:
    """Choices set the status and code for unknown IDs and unknown paths (4.6, 7).

    They also set the time window and the code for rate limits.
    """
    gone = ask("/venues/x", missing_status=404, missing_code="ACCESS_DENIED")
    assert gone.refusal == (404, "ACCESS_DENIED")
    assert ask("/x", unknown_path_status=400).refusal == (400, "RESOURCE_NOT_FOUND")
    late = ask("/venues", window_ms=5, timestamp=NOW - 6)
    assert late.refusal == (400, "TIMESTAMP_INVALID")
    limited = ask("/venues", requests_per_second=0, rate_limit_code="ACCESS_DENIED")
    assert limited.refusal == (429, "ACCESS_DENIED")


def test_venues_can_embed_instruments_without_include(ask: Ask) -> None:
    """A choice decides if venues embed their instruments without `include` (2.6, 2.10)."""
    assert all("instruments" not in one for one in ask("/venues").json["data"])
    unasked = ask("/venues", instruments_without_include=True).json["data"]
    assert all("instruments" in one for one in unasked)


def test_choices_are_parsed_from_strings() -> None:
    """Numbers, null, lists, objects and strings are parsed. Other choices keep their defaults."""
    made = parse_choices(
        [
            "missing_status=404",
            "future_window_ms=null",
            'missing_key=[400,"PARAMETER_INVALID"]',
            "order=sorted",
            'meta={"took":3}',
            "gateway=/gate",
            'checks=["authentication","timestamp"]',
        ]
    )
    assert made == Choices(
        missing_status=404,
        future_window_ms=None,
        missing_key=(400, "PARAMETER_INVALID"),
        order="sorted",
        meta={"took": 3},
        gateway="/gate",
        checks=("authentication", "timestamp"),
    )
    assert parse_choices([]) == Choices()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense=1", "no choice named 'nonsense'.*missing_status"),
        ("order=random", "order"),
        ("missing_status=soon", "missing_status"),
    ],
)
def test_the_message_names_a_wrong_choice(text: str, words: str) -> None:
    """The error message names the wrong choice, or lists all names if the name is unknown."""
    with pytest.raises(ValueError, match=words):
        parse_choices([text])


def test_every_choice_is_used_in_a_test() -> None:
    """Every field of `Choices` is used in these test modules."""
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [field.name for field in fields(Choices) if field.name not in tests] == []
