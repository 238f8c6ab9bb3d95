"""The guards: every reason to hold a night, with its numbers, and none without a reason."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import amounts, guards, stillness
from pipelines.guards import Facts
from pipelines.sandbox.fault_worlds import WORLD_FAULTS
from pipelines.sandbox.faults import parse
from pipelines.sandbox.world import LivingWorld, World
from pipelines.sealing import sealed
from pipelines.snapshots import Snapshot
from pipelines.stillness import Window
from tests import nights, oracle
from warehouse.layout import Layout

COUNTS = {"accounts": 100, "instruments": 200, "venues": 10}
GOOD = Facts(COUNTS, {"BTC": "100", "ETH": "0.5"}, {"p1": True, "p2": True, "p3": False}, {})


def judged(facts: Facts, past: list[Facts], **found: Any) -> tuple[str, ...]:
    """The reasons of a night in which nothing else is wrong."""
    usual: dict[str, Any] = {"money_rejects": [], "differing_totals": [], "venues": (0, 10)}
    usual |= {"notices": (), "window": Window()}
    return guards.judge(facts, past, **(usual | found))


def accounts(count: int) -> Facts:
    """A night with another count of accounts."""
    return replace(GOOD, counts=COUNTS | {"accounts": count})


def total(text: str, asset: str = "BTC") -> Facts:
    """A night with another total."""
    return replace(GOOD, totals={**GOOD.totals, asset: text})


def past(*drops: str, measure: str = "accounts") -> list[Facts]:
    """Accepted nights with these drops of a measure."""
    return [replace(GOOD, drops={measure: drop}) for drop in drops]


def test_the_first_night_is_accepted_whatever_is_in_it() -> None:
    """With nothing before it there is nothing to fall from, not even for an empty book."""
    assert judged(GOOD, []) == ()
    assert judged(Facts({}, {}, {}, {}), []) == ()


def test_an_equal_and_a_larger_night_are_accepted() -> None:
    """Only a fall is suspicious."""
    assert judged(GOOD, [GOOD]) == ()
    more = Facts({"accounts": 10**6}, {"BTC": "1e30"}, {**GOOD.money, "p4": True}, {})
    before = replace(GOOD, counts={"accounts": 1}, totals={"BTC": "1"})
    assert judged(more, [before]) == ()


REASONS: dict[str, tuple[Facts, Mapping[str, Any], str]] = {
    "an empty list": (
        replace(GOOD, money={}),
        {},
        (
            "the portfolio list is empty and had 3 portfolios: this is what the API answers when "
            "access is lost (4.1)"
        ),
    ),
    "portfolios with money are gone": (
        replace(GOOD, money={"p3": False}),
        {},
        "2 portfolios that held money are missing: p1, p2",
    ),
    "accounts fell": (accounts(40), {}, "accounts fell from 100 to 40 (60 %; limit 40 %)"),
    "instruments fell": (
        replace(GOOD, counts=COUNTS | {"instruments": 99}),
        {},
        "instruments fell from 200 to 99 (50.5 %; limit 40 %)",
    ),
    "venues are gone": (
        replace(GOOD, counts=COUNTS | {"venues": 0}),
        {},
        "venues fell from 10 to 0 (100 %; limit 40 %)",
    ),
    "a total fell": (
        total("33.333333333333333333"),
        {},
        "the total of BTC fell from 100 to 33.333333333333333333 (66.7 %; limit 40 %)",
    ),
    "a total is gone": (
        replace(GOOD, totals={"ETH": "0.5"}),
        {},
        "the total of BTC fell from 100 to 0 (100 %; limit 40 %)",
    ),
    "a total changed its sign": (
        total("-100"),
        {},
        "the total of BTC fell from 100 to -100 (100 %; limit 40 %)",
    ),
    "money among the rejects": (
        GOOD,
        {"money_rejects": ["data[1].positions[0]", "data[2]"]},
        "2 rejected records carry money, first data[1].positions[0]: see ops.rejects",
    ),
    "control totals": (
        GOOD,
        {"differing_totals": ["balances sum BTC trading"]},
        (
            "1 control totals differ between the landed JSON and the lake, first balances sum BTC "
            "trading: see ops.control_totals"
        ),
    ),
    "more than a tenth of the venues": (
        GOOD,
        {"venues": (2, 19)},
        "the instruments of 2 of 19 venues could not be read (limit a tenth)",
    ),
    "paging": (
        GOOD,
        {"notices": ("/portfolios: cursor",)},
        (
            "an answer looks like one page of several, or not whole, which no document shows "
            "(4.6): /portfolios: cursor"
        ),
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_each_reason_is_a_sentence_with_its_numbers(name: str) -> None:
    """What is wrong, how much, and against which limit."""
    facts, found, reason = REASONS[name]
    assert judged(facts, [GOOD], **found) == (reason,)


def test_a_tenth_of_the_venues_may_fail_and_an_empty_portfolio_may_vanish() -> None:
    """The limits themselves are inside."""
    assert judged(GOOD, [GOOD], venues=(1, 10)) == ()
    assert judged(GOOD, [GOOD], venues=(0, 0)) == ()
    assert judged(replace(GOOD, money={"p1": True, "p2": True}), [GOOD]) == ()
    assert judged(accounts(60), [GOOD]) == ()
    assert judged(total("-100"), [total("-100")]) == ()


def test_many_things_at_once_are_all_told_and_a_long_list_is_cut() -> None:
    """Nobody has to accept a night twice to see its second reason."""
    before = Facts(COUNTS, {f"A{n}": "1" for n in range(9)}, {f"p{n}": True for n in range(9)}, {})
    now = Facts({}, {}, {"p0": True}, {})
    told = judged(now, [before], notices=("n",), money_rejects=["x"])
    assert len(told) == 2 + 1 + 3 + guards.SHOWN + 1
    assert "8 portfolios that held money are missing: p1, p2, p3, p4, p5 and 3 more" in told
    assert "the totals of 4 more assets fell by more than the limit" in told


def test_limits_are_learned_from_our_own_nights() -> None:
    """Two fifths while there are few, later less, and never below one and a half times what was."""
    assert guards.limit("accounts", []) == Decimal("0.4")
    assert guards.limit("accounts", past(*["0"] * 9)) == Decimal("0.4")
    assert guards.limit("accounts", past(*["0"] * 10)) == Decimal("0.3")
    assert guards.limit("accounts", past("0.4", *["0"] * 9)) == Decimal("0.60")
    assert guards.limit("accounts", past(*["0.2"] * 10)) == Decimal("0.30")
    assert guards.limit("accounts", past("0.9", measure="venues")) == Decimal("0.4")
    assert judged(accounts(65), past(*["0"] * 9)) == ()
    assert judged(accounts(65), past(*["0"] * 10)) == (
        "accounts fell from 100 to 65 (35 %; limit 30 %)",
    )
    assert judged(accounts(45), past("0.4", *["0"] * 9)) == ()


def test_the_drops_of_a_night_are_kept_for_the_next() -> None:
    """Of every measure the largest, exactly; none for the first night."""
    assert guards.drops(GOOD, None) == {}
    now = replace(accounts(75), totals={"BTC": "99.995", "ETH": "0.4"})
    found = {name: Decimal(text) for name, text in guards.drops(now, GOOD).items()}
    assert found == {
        "accounts": Decimal("0.25"),
        "instruments": 0,
        "venues": 0,
        "asset totals": Decimal("0.2"),
    }


def facts_of(world: World) -> Facts:
    """What the guards look at, worked out from the records."""
    counts: Counter[str] = Counter(venues=len(world.venues))
    counts["instruments"] = sum(map(len, (world.instruments or {}).values()))
    totals: dict[str, Decimal] = {}
    money: dict[str, bool] = {}
    for portfolio in world.portfolios:
        money[portfolio["id"]] = False
        for position in portfolio["positions"]:
            counts["accounts"] += len(position["accounts"])
            for account in position["accounts"]:
                for _, _, text in oracle.balances(account["balance"]):
                    asset = position["assetId"]
                    totals[asset] = totals.get(asset, Decimal(0)) + Decimal(text)
                    money[portfolio["id"]] |= Decimal(text) != 0
    return Facts(counts, {asset: str(one) for asset, one in totals.items()}, money, {})


def test_nothing_is_held_on_thirty_nights_of_a_living_world() -> None:
    """Balances move, things come and go, and no guard cries."""
    nights_before: list[Facts] = []
    for number in range(30):
        facts = facts_of(LivingWorld().at(date(2026, 11, 1) + timedelta(days=number)))
        assert judged(facts, nights_before) == (), number
        drops = guards.drops(facts, nights_before[-1] if nights_before else None)
        nights_before.append(replace(facts, drops=drops))


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ("portfolios-empty", "the portfolio list is empty"),
        ("portfolio-vanished", "portfolios that held money are missing"),
        ("accounts-halved", "the total of"),
        ("bucket-gone", "the total of"),
        ("venues-empty", "venues fell"),
        ("venues-dropped", "venues fell"),
        ("instruments-halved", "instruments fell"),
        ("venue-instruments-empty", None),
        ("portfolio-repeated", None),
        ("portfolio-repeated-different", "rejected records carry money"),
        ("account-repeated", None),
        ("hostile-names", None),
        ("orphan-venue", None),
    ],
)
def test_a_night_that_lost_money_is_held_and_one_that_is_odd_is_not(
    layout: Layout, fault: str, word: str | None
) -> None:
    """The faults of a whole world, as landed nights after a good one."""
    started = nights.STARTED
    world = LivingWorld().at(started.date())
    small = replace(world, portfolios=world.portfolios[1:8])
    assert nights.take(layout, nights.of_world(small), started).state == "accepted"
    spoiled = WORLD_FAULTS[fault][1](small, parse(fault))
    snapshot = nights.take(layout, nights.of_world(spoiled), started + timedelta(days=1))
    reasons = snapshot.decision.reasons if snapshot.decision else ()
    assert snapshot.state == ("held" if word else "accepted"), reasons
    assert word is None or any(word in reason for reason in reasons)


LONG = "0." + "0" * 1100 + "1"


def test_a_total_is_read_however_long_it_is() -> None:
    """One text of an amount has a thousand letters at most; a sum of legal ones may have more."""
    assert judged(total("100" + LONG[1:]), [total("100")]) == ()
    assert guards.drops(total(f"9{LONG[1:]}"), total(f"90{LONG[1:]}"))["asset totals"] == "0.9000"
    [reason] = judged(total(f"9{LONG[1:]}"), [total(f"90{LONG[1:]}")])
    assert reason.startswith("the total of BTC fell from 90.000")
    assert judged(total("0"), [total(LONG)])


def test_dust_in_a_sum_hides_no_loss(layout: Layout) -> None:
    """A legal amount makes the total longer than an amount may be; nine tenths gone are seen."""
    dust = "0." + "0" * 900 + "1e-150"
    world = LivingWorld().at(nights.STARTED.date())
    first, rest = json.dumps(world.portfolios[1]), replace(world, portfolios=())

    def book(amount: str) -> nights.Book:
        trading = {"trading": {"free": amount, "locked": dust}}
        account = {"venueId": "kestrel", "name": "main", "balance": trading}
        position = {"assetId": "BTC", "isCustomAsset": False, "accounts": [account]}
        portfolio = json.loads(first) | {"positions": [position]}
        return replace(nights.of_world(rest), portfolios=[portfolio])

    def total_of(snapshot: Snapshot) -> Decimal:
        return Decimal(sealed(layout, snapshot.snapshot_id)["facts"]["totals"]["BTC"])

    before = nights.take(layout, book("100"), nights.STARTED)
    assert total_of(before) == amounts.EXACT.add(Decimal(100), Decimal(dust))
    after = nights.take(layout, book("10"), nights.STARTED + timedelta(days=1))
    assert after.state == "held"
    assert after.decision
    assert "the total of BTC fell from 100.000" in after.decision.reasons[0]


SHARES = st.decimals("0", "1", places=4)
HISTORY = st.lists(
    st.dictionaries(st.sampled_from([*guards.COUNTS, "asset totals"]), SHARES.map(str)), max_size=40
)


@given(HISTORY, st.sampled_from(list(guards.COUNTS)), st.integers(4, 10**6), SHARES)
def test_no_history_switches_a_guard_off(
    history: list[dict[str, str]], measure: str, before: int, share: Decimal
) -> None:
    """Whatever was accepted before, by the guards or by hand, losing more than 75 % is held."""
    nights_before = [replace(GOOD, drops=drops) for drops in history]
    nights_before.append(replace(GOOD, counts=COUNTS | {measure: before}))
    now = int(before * share)
    reasons = judged(replace(GOOD, counts=COUNTS | {measure: now}), nights_before)
    if 1 - Decimal(now) / before > guards.MOST + Decimal("0.0001"):
        assert [reason for reason in reasons if reason.startswith(f"{measure} fell from ")]
    if 1 - Decimal(now) / before < guards.FLOOR - Decimal("0.0001"):
        assert reasons == ()


@given(HISTORY, st.decimals("-1e30", "1e30", allow_nan=False, places=18), SHARES)
def test_no_history_lets_an_asset_vanish(
    history: list[dict[str, str]], amount: Decimal, share: Decimal
) -> None:
    """The total of an asset, of either sign and any size, cannot fall to a quarter unseen."""
    nights_before = [replace(GOOD, drops=drops) for drops in history] + [total(f"{amount:f}")]
    left = amount * share
    reasons = judged(total(f"{left:f}"), nights_before)
    if amount and share < 1 - guards.MOST - Decimal("0.0001"):
        assert len(reasons) == 1
        assert reasons[0].startswith("the total of BTC fell from ")
    assert judged(replace(GOOD, totals={"ETH": "0.5"}), nights_before) or not amount


def test_a_reason_says_what_the_second_read_found() -> None:
    """How much later, how many there were then, and what asking by id has told of whom."""
    window = Window(
        second_count=1,
        second_after=10,
        missing={
            "p1": stillness.REFUSED,
            "p2": stillness.DELETED,
            "p3": stillness.THERE,
            "another": stillness.THERE,
        },
    )
    [empty] = judged(replace(GOOD, money={}), [GOOD], window=window)
    assert empty.endswith(
        "(4.1); a second read 10 s later had 1; asked for by id, 3 of 3: 1 not found: it was "
        "deleted (p2), 1 refused: access was taken away (p1), 1 still there: the list left it out "
        "(p3)"
    )
    [missing] = judged(replace(GOOD, money={"p3": False}), [GOOD], window=window)
    assert missing == (
        "2 portfolios that held money are missing: p1, p2; a second read 10 s later had 1; asked "
        "for by id, 2 of 2: 1 not found: it was deleted (p2), 1 refused: access was taken away (p1)"
    )
    untold = Window(missing={"p1": stillness.UNTOLD})
    [reason] = judged(replace(GOOD, money={"p2": True, "p3": False}), [GOOD], window=untold)
    assert reason == (
        "1 portfolios that held money are missing: p1; it could not be read a second time; asked "
        "for by id, 1 of 1: 1 without an answer that tells (p1)"
    )
