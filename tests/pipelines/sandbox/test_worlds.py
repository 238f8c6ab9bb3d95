"""Faults that the application shows: each changes what it says, where and as often as asked."""

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
from pipelines.sandbox.faults.answers import ANSWER_FAULTS, BODY_FAULTS
from pipelines.sandbox.faults.catalog import DESCRIPTIONS, parse
from pipelines.sandbox.faults.records import RECORD_FAULTS
from pipelines.sandbox.faults.worlds import HOSTILE_IDS, WORLD_FAULTS, Fault
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import application
from pipelines.sandbox.world.world import Calendar, LivingWorld

Ask = Callable[..., Any]
NOW = 1_795_000_000_000
DAY = date(2026, 11, 21)
KEYS = {"all": Caller("secret-of-all")}
FULL = LivingWorld().at(DAY)
# Without the largest portfolio, so that every fault can be tried in a short time.
WORLD = replace(FULL, portfolios=FULL.portfolios[1:])
LISTS = {
    "/portfolios": "include=integrations",
    "/venues": "include=instruments",
    "/venues/kestrel/instruments": "",
}
RECORDS = sorted({*WORLD_FAULTS, *RECORD_FAULTS})
ANSWERS = sorted({*ANSWER_FAULTS, *BODY_FAULTS})


def with_faults(*texts: str, world: Calendar = WORLD, **more: Any) -> Any:
    """The application with faults, its lists in a fixed order."""
    faults = [parse(text) for text in texts]
    options = {"today": lambda: DAY, **more}
    return application(world, KEYS, lambda: NOW, Choices(order="sorted"), faults, **options)


@pytest.fixture(scope="module")
def sound(ask: Ask) -> dict[str, Any]:
    """The answers to the three lists without a fault."""
    app = with_faults()
    return {path: ask(path, query, app=app) for path, query in LISTS.items()}


@pytest.mark.parametrize("name", RECORDS)
def test_data_faults_change_data(name: str, ask: Ask, sound: dict[str, Any]) -> None:
    """Each fault of the data is an answer in good form, and some record is not what it was."""
    venue = ",venue=kestrel" if "instrument" in name and "empty" in name else ""
    app = with_faults(name + venue)
    replies = {path: ask(path, query, app=app) for path, query in LISTS.items()}
    gone = name in {"venues-empty", "venues-dropped"}
    assert {reply.status for path, reply in replies.items() if "/k" not in path} == {200}
    assert replies["/venues/kestrel/instruments"].status == 200 or gone
    assert any(reply.body != sound[path].body for path, reply in replies.items())


def test_faults_never_reach_the_world(ask: Ask, sound: dict[str, Any]) -> None:
    """After every fault of the data, together and alone, the sound world is served as before."""
    for path, query in LISTS.items():
        for names in (WORLD_FAULTS, RECORD_FAULTS):
            assert ask(path, query, app=with_faults(*names)).status in {200, 400}
        assert ask(path, query, app=with_faults()).body == sound[path].body


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_faults_change_answers(name: str, ask: Ask, sound: dict[str, Any]) -> None:
    """Each fault of an answer strikes once when asked to, and the next answer is sound."""
    small = ",mib=1" if "mib" in DESCRIPTIONS[name] else ""
    app = with_faults(f"{name},count=1{small}")
    path, query = "/portfolios", LISTS["/portfolios"]
    struck, after = ask(path, query, app=app), ask(path, query, app=app)
    well = sound[path]
    assert (struck.status, struck.headers, struck.body) != (well.status, well.headers, well.body)
    assert after.body == well.body


def amounts(reply: Any) -> list[Any]:
    """Every value in a balance."""
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
def test_one_amount_is_changed_and_no_other(
    name: str, value: Any, ask: Ask, sound: dict[str, Any]
) -> None:
    """The value stands where one amount stood; in a named portfolio, it stands there."""
    named = sound["/portfolios"].json["data"]
    chosen = next(one for one in named if one["name"].startswith("=Alpha"))
    reply = ask("/portfolios", app=with_faults(f"{name},portfolio={chosen['id']}"))
    before, after = amounts(sound["/portfolios"]), amounts(reply)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [value]
    assert {one["id"] for one in reply.json["data"] if one not in named} == {chosen["id"]}


def test_an_unknown_bucket_holds_money(ask: Ask) -> None:
    """`invented` comes with free and locked in every balance of the largest portfolio."""
    reply = ask("/portfolios", app=with_faults("unknown-bucket"))
    largest = max(WORLD.portfolios, key=lambda one: len(one["positions"]))
    accounts = sum(len(position["accounts"]) for position in largest["positions"])
    assert amounts(reply).count("1000.000000000000000001") == accounts > 40


def test_halves_and_fifths_are_what_they_say(ask: Ask, sound: dict[str, Any]) -> None:
    """Half the accounts, three of five venues, all trading balances are gone."""
    before = len(sound["/venues"].json["data"])
    assert len(ask("/venues", app=with_faults("venues-dropped")).json["data"]) == before * 2 // 5
    halved = ask("/portfolios", app=with_faults("accounts-halved")).json["data"]
    counts = [
        sum(len(one["accounts"]) for each in book for one in each["positions"])
        for book in (sound["/portfolios"].json["data"], halved)
    ]
    assert counts[1] == (counts[0] + 1) // 2
    assert '"trading"' not in ask("/portfolios", app=with_faults("bucket-gone")).body.decode()


def test_lost_access_and_lost_portfolios_differ(ask: Ask, sound: dict[str, Any]) -> None:
    """Both give an empty list; one object tells them apart (4.1, 4.2)."""
    one = sound["/portfolios"].json["data"][0]["id"]
    refusals = {}
    for name in ("access-lost", "portfolios-empty"):
        app = with_faults(name)
        assert ask("/portfolios", app=app).json["data"] == []
        refusals[name] = ask(f"/portfolios/{one}", app=app).refusal[1]
    assert refusals == {"access-lost": "ACCESS_DENIED", "portfolios-empty": "RESOURCE_NOT_FOUND"}


def test_a_vanished_portfolio_has_vanished_everywhere(ask: Ask, sound: dict[str, Any]) -> None:
    """It is neither in the list nor under its path."""
    largest = max(sound["/portfolios"].json["data"], key=lambda one: len(one["positions"]))["id"]
    app = with_faults("portfolio-vanished")
    assert largest not in {one["id"] for one in ask("/portfolios", app=app).json["data"]}
    assert ask(f"/portfolios/{largest}", app=app).refusal == (400, "RESOURCE_NOT_FOUND")


def test_an_option_is_in_neither_type(ask: Ask) -> None:
    """A type that is not documented is in the whole list and in no filtered one (4.5)."""
    app, path = with_faults("instrument-type-unknown"), "/venues/kestrel/instruments"
    lists = [ask(path, query, app=app).json["data"] for query in ("", "type=spot", "type=future")]
    assert len(lists[0]) == len(lists[1]) + len(lists[2]) + 1
    assert "option" in {one["type"] for one in lists[0]}


def test_hostile_ids_are_served_under_their_paths(ask: Ask) -> None:
    """Each id that needs care is found when every byte of it is percent-encoded."""
    app = with_faults("hostile-ids")
    for name in HOSTILE_IDS:
        path = "/venues/" + "".join(f"%{byte:02X}" for byte in name.encode())
        assert ask(path, app=app).json["data"]["id"] == name
        assert len(ask(f"{path}/instruments", app=app).json["data"]) == 1


def test_a_fault_strikes_where_and_when_it_is_asked_to(ask: Ask) -> None:
    """Path, venue, count, after and since narrow a fault; two faults may strike at once."""
    app = with_faults("503,path=/venues/*,venue=kestrel,after=1,count=1")
    paths = ["/portfolios", "/venues/kestrel", "/venues/meridian", "/venues/kestrel/instruments"]
    statuses = [ask(path, app=app).status for path in [*paths, *paths]]
    assert statuses == [200, 200, 200, 503, 200, 200, 200, 200]
    for since, count in (("2026-11-21", 0), ("2026-11-22", len(WORLD.portfolios))):
        reply = ask("/portfolios", app=with_faults(f"portfolios-empty,since={since}"))
        assert len(reply.json["data"]) == count
    both = ask("/portfolios", app=with_faults("portfolios-empty", "text-plain"))
    assert (both.json["data"], both.headers["content-type"]) == ([], "text/plain")


def test_some_venues_fail_and_others_do_not(ask: Ask, sound: dict[str, Any]) -> None:
    """More than a tenth of the instrument lists fail, and nothing else does."""
    app = with_faults("venues-fail")
    ids = [one["id"] for one in sound["/venues"].json["data"] if "/" not in one["id"]]
    statuses = [ask(f"/venues/{one}/instruments", app=app).status for one in ids]
    assert statuses.count(500) == 3
    assert ask("/venues", app=app).status == ask(f"/venues/{ids[0]}", app=app).status == 200


def test_a_skewed_clock_is_told_and_refuses(ask: Ask) -> None:
    """The server is 45 s ahead: it refuses the right time, and its Date is its own."""
    reply = ask("/venues", app=with_faults("clock-skew"))
    assert reply.refusal == (400, "TIMESTAMP_INVALID")
    assert reply.headers["date"] == "Wed, 18 Nov 2026 11:07:25 GMT"
    ahead = NOW + 45_000
    assert ask("/venues", app=with_faults("clock-skew"), timestamp=ahead).status == 200
    behind = with_faults("clock-skew,seconds=-3600")
    assert ask("/venues", app=behind, timestamp=NOW - 3_600_000).status == 200


def test_the_world_may_move_during_a_night(ask: Ask) -> None:
    """After some requests the next day is served."""
    app = with_faults("next-day,after=1", world=LivingWorld())
    bodies = [ask("/portfolios", app=app).body for _ in range(2)]
    tomorrow = with_faults(world=LivingWorld(), today=lambda: date(2026, 11, 22))
    assert bodies[0] != bodies[1] == ask("/portfolios", app=tomorrow).body


def test_a_slow_answer_is_a_good_one(ask: Ask, sound: dict[str, Any]) -> None:
    """It waits as long as it is asked to, by the sleep it is given."""
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
def test_retry_after_in_both_forms(text: str, header: str, ask: Ask) -> None:
    """A throttled answer says when to come back, in seconds or as a date."""
    assert ask("/venues", app=with_faults(text)).headers["retry-after"] == header


def test_headers_may_be_left_out(ask: Ask) -> None:
    """A refused time without a Date, or with an old one and its age."""
    assert "date" not in ask("/venues", app=with_faults("timestamp-invalid-no-date")).headers
    cached = ask("/venues", app=with_faults("timestamp-invalid-cached")).headers
    assert (cached["date"], cached["age"]) == ("Wed, 18 Nov 2026 10:06:40 GMT", "3600")


@pytest.mark.parametrize(
    "name",
    sorted(BODY_FAULTS.keys() - {"surrogate-pair", "gzip", "large", "integer-huge", "nesting"}),
)
def test_broken_bodies_are_broken(name: str, ask: Ask) -> None:
    """A strict reader of JSON refuses the body, or finds that the envelope is not that of 2.9."""
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


def test_every_part_of_a_scope_is_documented_and_the_example_works(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`sandbox --fault list` ends with each part of a SCOPE, and its example can be typed."""
    assert main(("sandbox", "--fault", "list")) == 0
    printed = capsys.readouterr().out
    for field in fields(Fault):
        assert field.name == "name" or re.search(rf"^  {field.name}=\S+ +\w", printed, re.MULTILINE)
    [example] = re.findall(r"--fault (\S+)$", printed, re.MULTILINE)
    assert parse(example).path == "/venues/*"
