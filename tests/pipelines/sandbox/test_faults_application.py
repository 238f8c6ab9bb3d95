"""Tests of the application's faults: each changes only the responses in its scope."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import date
from typing import Any

import pytest

from assets.cli import main
from pipelines.sandbox.authentication import Caller
from pipelines.sandbox.faults import Fault
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import application
from pipelines.sandbox.world.world import Calendar, LivingWorld
from tests.support.faults.answers import ANSWER_FAULTS, BODY_FAULTS
from tests.support.faults.catalog import DESCRIPTIONS, parse
from tests.support.faults.records import RECORD_FAULTS
from tests.support.faults.worlds import HOSTILE_IDS, WORLD_FAULTS

Ask = Callable[..., Any]
NOW = 1_795_000_000_000
DAY = date(2026, 11, 21)
KEYS = {"all": Caller("secret-of-all")}
FULL = LivingWorld().at(DAY)
# Exclude the largest portfolio, so that every fault can be tested in a short time.
WORLD = replace(FULL, portfolios=FULL.portfolios[1:])
LISTS = {
    "/portfolios": "include=integrations",
    "/venues": "include=instruments",
    "/venues/kestrel/instruments": "",
}
RECORDS = sorted({*WORLD_FAULTS, *RECORD_FAULTS})
ANSWERS = sorted({*ANSWER_FAULTS, *BODY_FAULTS})


def with_faults(*texts: str, world: Calendar = WORLD, **more: Any) -> Any:
    """Return an application with these faults and with sorted lists."""
    faults = [parse(text) for text in texts]
    options = {"today": lambda: DAY, **more}
    return application(world, KEYS, lambda: NOW, Choices(order="sorted"), faults, **options)


@pytest.fixture(scope="module")
def sound(ask: Ask) -> dict[str, Any]:
    """Return the responses to the three list requests without a fault."""
    app = with_faults()
    return {path: ask(path, query, app=app) for path, query in LISTS.items()}


@pytest.mark.parametrize("name", RECORDS)
def test_each_data_fault_changes_at_least_one_response(
    name: str, ask: Ask, sound: dict[str, Any]
) -> None:
    """With each data fault, requests still succeed, but at least one response is different.

    Only the instruments of a removed venue may fail.
    """
    venue = ",venue=kestrel" if "instrument" in name and "empty" in name else ""
    app = with_faults(name + venue)
    replies = {path: ask(path, query, app=app) for path, query in LISTS.items()}
    gone = name in {"venues-empty", "venues-dropped"}
    assert {reply.status for path, reply in replies.items() if "/k" not in path} == {200}
    assert replies["/venues/kestrel/instruments"].status == 200 or gone
    assert any(reply.body != sound[path].body for path, reply in replies.items())


def test_data_faults_do_not_change_the_world(ask: Ask, sound: dict[str, Any]) -> None:
    """Data faults do not change the world, which is still served unchanged without them."""
    for path, query in LISTS.items():
        for names in (WORLD_FAULTS, RECORD_FAULTS):
            assert ask(path, query, app=with_faults(*names)).status in {200, 400}
        assert ask(path, query, app=with_faults()).body == sound[path].body


@pytest.mark.parametrize("name", ANSWERS)
def test_a_response_fault_with_count_1_changes_one_response(
    name: str, ask: Ask, sound: dict[str, Any]
) -> None:
    """With `count=1`, each response fault changes only the first response."""
    small = ",mib=1" if "mib" in DESCRIPTIONS[name] else ""
    app = with_faults(f"{name},count=1{small}")
    path, query = "/portfolios", LISTS["/portfolios"]
    struck, after = ask(path, query, app=app), ask(path, query, app=app)
    well = sound[path]
    assert (struck.status, struck.headers, struck.body) != (well.status, well.headers, well.body)
    assert after.body == well.body


def amounts(reply: Any) -> list[Any]:
    """Return all values in the balances of a response."""
    return [
        value
        for portfolio in reply.json["data"]
        for position in portfolio["positions"]
        for account in position["accounts"]
        for bucket in account["balance"].values()
        for value in (bucket.values() if isinstance(bucket, dict) else [bucket])
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("amount-24-decimals", "0.123456789012345678901234"),
        ("amount-30-digits", "123456789012345678901234567890.5"),
        ("amount-exponent", "1e-8"),
        ("amount-minus-zero", "-0"),
        ("amount-number", 1.5),
        ("amount-null", None),
    ],
)
def test_an_amount_fault_changes_exactly_one_amount(
    name: str, value: Any, ask: Ask, sound: dict[str, Any]
) -> None:
    """Each fault replaces exactly one amount, which is in the named portfolio."""
    named = sound["/portfolios"].json["data"]
    chosen = next(one for one in named if one["name"].startswith("=Alpha"))
    reply = ask("/portfolios", app=with_faults(f"{name},portfolio={chosen['id']}"))
    before, after = amounts(sound["/portfolios"]), amounts(reply)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [value]
    assert {one["id"] for one in reply.json["data"] if one not in named} == {chosen["id"]}


def test_the_unknown_bucket_fault_adds_a_bucket_with_money(ask: Ask) -> None:
    """The bucket `invented`, with free and locked, is in all balances of the largest portfolio."""
    reply = ask("/portfolios", app=with_faults("unknown-bucket"))
    largest = max(WORLD.portfolios, key=lambda one: len(one["positions"]))
    accounts = sum(len(position["accounts"]) for position in largest["positions"])
    assert amounts(reply).count("1000.000000000000000001") == accounts > 40


def test_faults_remove_the_stated_share_of_the_data(ask: Ask, sound: dict[str, Any]) -> None:
    """The faults remove half of the accounts, three of five venues, or all trading balances."""
    before = len(sound["/venues"].json["data"])
    assert len(ask("/venues", app=with_faults("venues-dropped")).json["data"]) == before * 2 // 5
    halved = ask("/portfolios", app=with_faults("accounts-halved")).json["data"]
    counts = [
        sum(len(one["accounts"]) for each in book for one in each["positions"])
        for book in (sound["/portfolios"].json["data"], halved)
    ]
    assert counts[1] == (counts[0] + 1) // 2
    assert '"trading"' not in ask("/portfolios", app=with_faults("bucket-gone")).body.decode()


def test_lost_access_and_lost_portfolios_have_different_errors(
    ask: Ask, sound: dict[str, Any]
) -> None:
    """Lost access and lost portfolios both give an empty list.

    They differ in the error for a single portfolio (4.1, 4.2).
    """
    one = sound["/portfolios"].json["data"][0]["id"]
    refusals = {}
    for name in ("access-lost", "portfolios-empty"):
        app = with_faults(name)
        assert ask("/portfolios", app=app).json["data"] == []
        refusals[name] = ask(f"/portfolios/{one}", app=app).refusal[1]
    assert refusals == {"access-lost": "ACCESS_DENIED", "portfolios-empty": "RESOURCE_NOT_FOUND"}


def test_a_vanished_portfolio_is_missing_everywhere(ask: Ask, sound: dict[str, Any]) -> None:
    """A vanished portfolio is neither in the list nor under its path."""
    largest = max(sound["/portfolios"].json["data"], key=lambda one: len(one["positions"]))["id"]
    app = with_faults("portfolio-vanished")
    assert largest not in {one["id"] for one in ask("/portfolios", app=app).json["data"]}
    assert ask(f"/portfolios/{largest}", app=app).refusal == (400, "RESOURCE_NOT_FOUND")


def test_an_option_is_in_no_typed_list(ask: Ask) -> None:
    """An instrument of an undocumented type is in the whole list, but in no typed list (4.5)."""
    app, path = with_faults("instrument-type-unknown"), "/venues/kestrel/instruments"
    lists = [ask(path, query, app=app).json["data"] for query in ("", "type=spot", "type=future")]
    assert len(lists[0]) == len(lists[1]) + len(lists[2]) + 1
    assert "option" in {one["type"] for one in lists[0]}


def test_hostile_ids_are_found_under_encoded_paths(ask: Ask) -> None:
    """Each hostile ID is found under a path in which all its bytes are percent-encoded."""
    app = with_faults("hostile-ids")
    for name in HOSTILE_IDS:
        path = "/venues/" + "".join(f"%{byte:02X}" for byte in name.encode())
        assert ask(path, app=app).json["data"]["id"] == name
        assert len(ask(f"{path}/instruments", app=app).json["data"]) == 1


def test_a_fault_applies_only_within_its_scope(ask: Ask) -> None:
    """`path`, `venue`, `count`, `after` and `since` limit a fault. Two faults can act together."""
    app = with_faults("503,path=/venues/*,venue=kestrel,after=1,count=1")
    paths = ["/portfolios", "/venues/kestrel", "/venues/meridian", "/venues/kestrel/instruments"]
    statuses = [ask(path, app=app).status for path in [*paths, *paths]]
    assert statuses == [200, 200, 200, 503, 200, 200, 200, 200]
    for since, count in (("2026-11-21", 0), ("2026-11-22", len(WORLD.portfolios))):
        reply = ask("/portfolios", app=with_faults(f"portfolios-empty,since={since}"))
        assert len(reply.json["data"]) == count
    both = ask("/portfolios", app=with_faults("portfolios-empty", "text-plain"))
    assert (both.json["data"], both.headers["content-type"]) == ([], "text/plain")


def test_three_venues_fail_and_all_others_work(ask: Ask, sound: dict[str, Any]) -> None:
    """The fault affects three instrument lists, more than a tenth of them, and nothing else."""
    app = with_faults("venues-fail")
    ids = [one["id"] for one in sound["/venues"].json["data"] if "/" not in one["id"]]
    statuses = [ask(f"/venues/{one}/instruments", app=app).status for one in ids]
    assert statuses.count(500) == 3
    assert ask("/venues", app=app).status == ask(f"/venues/{ids[0]}", app=app).status == 200


def test_a_server_with_a_wrong_clock_refuses_the_right_time(ask: Ask) -> None:
    """A server whose clock is 45 s ahead refuses the right time, and `Date` shows its own clock."""
    reply = ask("/venues", app=with_faults("clock-skew"))
    assert reply.refusal == (400, "TIMESTAMP_INVALID")
    assert reply.headers["date"] == "Wed, 18 Nov 2026 11:07:25 GMT"
    ahead = NOW + 45_000
    assert ask("/venues", app=with_faults("clock-skew"), timestamp=ahead).status == 200
    behind = with_faults("clock-skew,seconds=-3600")
    assert ask("/venues", app=behind, timestamp=NOW - 3_600_000).status == 200


def test_the_world_can_change_during_a_night(ask: Ask) -> None:
    """With `next-day` and `after=1`, the second request gets the next day's data."""
    app = with_faults("next-day,after=1", world=LivingWorld())
    bodies = [ask("/portfolios", app=app).body for _ in range(2)]
    tomorrow = with_faults(world=LivingWorld(), today=lambda: date(2026, 11, 22))
    assert bodies[0] != bodies[1] == ask("/portfolios", app=tomorrow).body


def test_a_slow_response_is_complete(ask: Ask, sound: dict[str, Any]) -> None:
    """A slow response is complete, and waits for the given number of seconds or the default."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    app = with_faults("slow,seconds=0.3,count=1", "slow,path=/venues", sleep=sleep)
    bodies = [ask("/portfolios", LISTS["/portfolios"], app=app).body for _ in range(2)]
    assert bodies == [sound["/portfolios"].body] * 2
    assert ask("/venues", app=app).status == 200
    assert waits == [0.3, 2]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("429", "2"),
        ("429,seconds=31", "31"),
        ("429-date", "Wed, 18 Nov 2026 11:06:45 GMT"),
        ("429-day", "86400"),
        ("503-retry-after,seconds=1", "1"),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str, header: str, ask: Ask) -> None:
    """A throttled response has `Retry-After`, as a number of seconds or as a date."""
    assert ask("/venues", app=with_faults(text)).headers["retry-after"] == header


def test_the_date_header_can_be_missing_or_old(ask: Ask) -> None:
    """A refusal of a timestamp can lack `Date`, or have an old `Date` with its `Age`."""
    assert "date" not in ask("/venues", app=with_faults("timestamp-invalid-no-date")).headers
    cached = ask("/venues", app=with_faults("timestamp-invalid-cached")).headers
    assert (cached["date"], cached["age"]) == ("Wed, 18 Nov 2026 10:06:40 GMT", "3600")


@pytest.mark.parametrize(
    "name",
    sorted(BODY_FAULTS.keys() - {"surrogate-pair", "gzip", "large", "integer-huge", "nesting"}),
)
def test_broken_bodies_are_invalid_json_or_envelopes(name: str, ask: Ask) -> None:
    """A strict JSON parser rejects each broken body, or finds an envelope that differs from 2.9.

    Only `gzip-not` and `data-ten` have a valid document.
    """
    app = with_faults(f"{name},mib=1" if name == "gzip-bomb" else name)
    body = ask("/portfolios", app=app).body

    def strict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError(pairs[0][0])
        return dict(pairs)

    def refuse(literal: str) -> Any:
        raise ValueError(literal)

    try:
        document = json.loads(body.decode(), object_pairs_hook=strict, parse_constant=refuse)
        "".join(json.dumps(document, ensure_ascii=False)).encode()
    except ValueError:
        return
    meant = name in {"gzip-not", "data-ten"}
    assert (
        document == {"data": document["data"], "meta": {}}
        if meant
        else (
            type(document) is not dict
            or set(document) != {"data", "meta"}
            or document["meta"] != {}
        )
    )


def test_the_fault_list_documents_every_part_of_a_scope(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`sandbox --fault list` describes each part of a SCOPE, and prints a valid example."""
    assert main(("sandbox", "--fault", "list")) == 0
    printed = capsys.readouterr().out
    for field in fields(Fault):
        assert field.name in {"name", "kind"} or re.search(
            rf"^  {field.name}=\S+ +\w", printed, re.MULTILINE
        )
    [example] = re.findall(r"--fault (\S+)$", printed, re.MULTILINE)
    assert parse(example).path == "/venues/*"
