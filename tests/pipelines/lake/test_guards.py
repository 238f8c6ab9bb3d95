"""Tests of the guards: all reasons to hold a night, with their figures."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.lake import guards, measures
from pipelines.lake.date_doubts import DateDoubt
from pipelines.lake.facts import Facts, Findings, RejectGroup
from pipelines.lake.lake_manifest import read_manifest
from pipelines.lake.origins import OtherServer
from pipelines.lake.slices import Slice
from pipelines.landing.manifest import DELETED, REFUSED, THERE, UNTOLD, Window
from pipelines.landing.snapshots import Snapshot
from pipelines.sandbox.faults import change_world
from pipelines.sandbox.world.world import LivingWorld, World
from tests.support import nights, oracle
from tests.support.faults.catalog import parse
from tests.support.shared import some_daily
from warehouse.exact import EXACT
from warehouse.storage.layout import Layout

COUNTS = {"accounts": 100, "instruments": 200, "venues": 10}
GOOD = Facts(
    counts=COUNTS,
    totals={"BTC": "100", "ETH": "0.5"},
    money={"p1": True, "p2": True, "p3": False},
    drops={},
)


def judged(facts: Facts, past: list[Facts], **found: Any) -> tuple[str, ...]:
    """Return the messages of the reasons to hold a night. `found` contains other findings."""
    return tuple(reason.words for reason in guards.find_reasons(facts, past, Findings(**found)))


def accounts(count: int) -> Facts:
    """Return a night with a different number of accounts."""
    return replace(GOOD, counts=COUNTS | {"accounts": count})


def total(text: str, asset: str = "BTC") -> Facts:
    """Return a night with a different total of an asset."""
    return replace(GOOD, totals={**GOOD.totals, asset: text})


def past(*drops: str, measure: str = "accounts") -> list[Facts]:
    """Return accepted nights with these drops of a measure."""
    return [replace(GOOD, drops={measure: drop}) for drop in drops]


def test_another_server_holds_a_night() -> None:
    """If another server answered than on the last accepted night, the night is held once."""
    other = OtherServer("b.example", "a.example", "20261119T021500Z")
    [reason] = guards.find_reasons(GOOD, [GOOD], Findings(other_server=other))
    assert (reason.key, reason.is_teachable) == ("origin: b.example", True)
    assert "b.example, but a.example on the last accepted night, 20261119T021500Z" in reason.words


def test_a_first_night_is_held_only_if_a_list_is_empty() -> None:
    """A first night has no earlier book, so it is held only if a list is empty."""
    assert judged(GOOD, []) == ()
    assert judged(replace(GOOD, counts=COUNTS | {"accounts": 0}), []) == ()
    why = ". This is how the API responds if the key has no access (4.1)"
    assert judged(replace(GOOD, money={}), []) == (f"the list of portfolios is empty{why}",)
    no_position = replace(GOOD, counts=COUNTS | {"positions": 0})
    assert judged(no_position, []) == (f"no portfolio has a position{why}",)
    no_venue = replace(GOOD, counts=COUNTS | {"venues": 0})
    assert judged(no_venue, []) == (f"the list of venues is empty{why}",)
    nothing = Facts(counts={"positions": 0, "venues": 0}, totals={}, money={}, drops={})
    assert len(judged(nothing, [])) == 2


def test_an_accepted_empty_night_holds_no_later_night() -> None:
    """If a person has accepted an empty night, neither empty nor full later nights are held."""
    for empty in (replace(GOOD, money={}), replace(GOOD, counts={"positions": 0, "venues": 0})):
        assert judged(empty, [empty]) == ()
        assert judged(GOOD, [replace(empty, is_suspect=True)]) == ()


def test_a_moderately_larger_night_is_accepted() -> None:
    """A night with new portfolios, a new asset and a fifth more of everything is accepted."""
    assert judged(GOOD, [GOOD]) == ()
    more = replace(
        GOOD,
        counts={"accounts": 130, "instruments": 260, "venues": 14},
        totals={"BTC": "120", "ETH": "0.6", "USDC": "1e9"},
        money={**GOOD.money, "p4": True},
    )
    assert judged(more, [GOOD]) == ()


REASONS: dict[str, tuple[Facts, Mapping[str, Any], str]] = {
    "an empty list": (
        replace(GOOD, money={}),
        {},
        (
            "the list of portfolios is empty, but had 3 before. This is how the API responds if "
            "the key has lost its access (4.1)"
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
        replace(GOOD, counts=COUNTS | {"venues": 3}),
        {},
        "venues fell from 10 to 3 (70 %; limit 40 %)",
    ),
    "accounts rose": (accounts(167), {}, "accounts rose from 100 to 167 (40.1 %; limit 40 %)"),
    "all totals fell": (
        replace(GOOD, totals={"BTC": "33.333333333333333333", "ETH": "-1"}),
        {},
        (
            "the totals of 2 of 2 assets fell by more than a fifth: BTC from 100 to "
            "33.333333333333333333, ETH from 0.5 to -1 (100 %; limit 50 %)"
        ),
    ),
    "every amount a thousandfold": (
        replace(GOOD, totals={"BTC": "100000", "ETH": "500"}),
        {},
        (
            "the totals of 2 of 2 assets rose by more than a fifth: BTC from 100 to 100000, ETH "
            "from 0.5 to 500 (100 %; limit 50 %)"
        ),
    ),
    "a venue that is gone": (
        replace(
            GOOD,
            slices={"": [Slice(kind="venue", identity="v1", change="gone", assets=3, moved=3)]},
        ),
        {},
        "venue v1 is now empty, but had 3 assets before",
    ),
    "a portfolio of another scale": (
        replace(
            GOOD,
            slices={"": [Slice(kind="portfolio", identity="p1", change="rose", assets=3, moved=3)]},
        ),
        {},
        (
            "3 of the 3 assets in portfolio p1 are now more than 8 times their earlier amount. The "
            "API may have changed the scale of its amounts"
        ),
    ),
    "money among the rejects": (
        GOOD,
        {
            "rejects": [
                RejectGroup(
                    path="data[]",
                    reason="an object was expected",
                    count=2,
                    share="0.5",
                    first="data[1]",
                    message="expected an object",
                )
            ]
        },
        (
            "rejected values that carry money: 2, the first at data[1] (expected an object). See "
            "ops.rejects"
        ),
    ),
    "a doubtful date": (
        GOOD,
        {"date_doubts": [DateDoubt("clocks differ", "uncertain")]},
        "uncertain",
    ),
    "control totals": (
        GOOD,
        {"differing_totals": ["balances sum BTC trading"]},
        (
            "control totals differ between landed JSON and lake: 1, the first for balances sum "
            "BTC trading. See ops.control_totals"
        ),
    ),
    "more than a tenth of the venues": (
        GOOD,
        {"venues": 19, "failed": ["v1", "v2"]},
        "the instruments of 2 of 19 venues could not be read (limit: a tenth)",
    ),
    "paging": (
        GOOD,
        {"notices": ("/portfolios: cursor",)},
        (
            "a response looks like one page of several, or incomplete, although the API document "
            "does not mention pages or incomplete responses (4.6): /portfolios: cursor"
        ),
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_each_reason_states_the_problem_and_the_limit(name: str) -> None:
    """Each reason states the problem, its size and the limit."""
    facts, found, reason = REASONS[name]
    assert judged(facts, [GOOD], **found) == (reason,)


def test_a_change_up_to_the_limit_is_accepted() -> None:
    """A change up to the limit itself does not hold a night, nor does a missing empty portfolio."""
    assert judged(GOOD, [GOOD], venues=10, failed=["v1"]) == ()
    assert judged(GOOD, [GOOD], venues=0) == ()
    assert judged(replace(GOOD, money={"p1": True, "p2": True}), [GOOD]) == ()
    assert judged(accounts(60), [GOOD]) == ()
    assert judged(total("-100"), [total("-100")]) == ()


@pytest.mark.parametrize("text", ["0", "-100", "227", "100000", "1e-9"])
def test_a_change_in_one_asset_never_holds_a_night(text: str) -> None:
    """A change in one asset never holds a night, even if all its accounts appear or disappear."""
    assert judged(total(text), [GOOD]) == ()
    before = replace(GOOD, accounts={"BTC": 90, "ETH": 10})
    now = replace(accounts(10), accounts={"ETH": 10}, totals={"ETH": "0.5"})
    assert judged(now, [before]) == ()
    assert judged(before, [now]) == ()


def test_venues_that_already_lacked_instruments_do_not_count() -> None:
    """Venues whose instruments were already missing on an accepted night do not count."""
    before = replace(GOOD, unread=["v1", "v2"])
    assert judged(GOOD, [before], venues=10, failed=["v1"], emptied=["v2"]) == ()
    assert judged(GOOD, [before], venues=10, failed=["v1", "v3"]) == ()
    assert judged(GOOD, [before], venues=10, failed=["v4", "v3"])


def test_an_accepted_wrong_night_does_not_hold_later_nights() -> None:
    """Neither a wrong night that was accepted nor a true change holds the nights after it."""
    wrong = replace(
        GOOD, totals={"BTC": "100000", "ETH": "500"}, drops={"assets risen": "1"}, is_suspect=True
    )
    assert judged(wrong, [GOOD])
    assert judged(GOOD, [wrong])
    assert judged(GOOD, [GOOD, wrong]) == ()
    assert judged(wrong, [GOOD, wrong]) == ()
    other = replace(GOOD, totals={"BTC": "5000", "ETH": "50"})
    assert judged(other, [GOOD, wrong])
    few = [replace(GOOD, drops={"accounts": "0.6"}, is_suspect=True)]
    assert measures.limit("accounts", few) == Decimal("0.4")


def test_all_reasons_are_reported_at_once() -> None:
    """All reasons are reported at once, so that nobody has to accept a night twice.

    Long lists are cut.
    """
    before = Facts(
        counts=COUNTS,
        totals={f"A{n}": "1" for n in range(9)},
        money={f"p{n}": True for n in range(9)},
        drops={},
    )
    now = Facts(
        counts={"accounts": 1, "instruments": 1, "venues": 1},
        totals={},
        money={"p0": True},
        drops={},
    )
    shape = RejectGroup(
        path="data[]", reason="text was expected", count=1, share="1", first="data[0]"
    )
    told = judged(now, [before], notices=("n",), rejects=[shape])
    assert len(told) == 2 + 1 + 3 + 1
    assert "8 portfolios that held money are missing: p1, p2, p3, p4, p5 and 3 more" in told
    assert any("9 of 9 assets fell" in words and ", ... (" in words for words in told)


def test_limits_are_learned_from_earlier_nights() -> None:
    """The limit is 40 %, then 30 % after ten nights, and at least 1.5 times the largest drop."""
    assert measures.limit("accounts", []) == Decimal("0.4")
    assert measures.limit("accounts", past(*["0"] * 9)) == Decimal("0.4")
    assert measures.limit("accounts", past(*["0"] * 10)) == Decimal("0.3")
    assert measures.limit("accounts", past("0.4", *["0"] * 9)) == Decimal("0.60")
    assert measures.limit("accounts", past(*["0.2"] * 10)) == Decimal("0.30")
    assert measures.limit("accounts", past("0.9", measure="venues")) == Decimal("0.4")
    assert judged(accounts(65), past(*["0"] * 9)) == ()
    assert judged(accounts(65), past(*["0"] * 10)) == (
        "accounts fell from 100 to 65 (35 %; limit 30 %)",
    )
    assert judged(accounts(45), past("0.4", *["0"] * 9)) == ()


def test_the_drops_of_a_night_are_stored_for_later_nights() -> None:
    """The exact drop in each measure is stored for later nights. The first night has no drops."""
    assert measures.drops(GOOD, None) == {}
    now = replace(accounts(75), totals={"BTC": "70", "ETH": "0.3"})
    found = {name: Decimal(text) for name, text in measures.drops(now, GOOD).items()}
    assert {name: share for name, share in found.items() if share} == {
        "accounts": Decimal("0.25"),
        "assets fallen": Decimal(1),
    }
    assert len(found) == 8


def facts_of(world: World) -> Facts:
    """Compute the guards' facts from the records of a world."""
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
    return Facts(
        counts=counts,
        totals={asset: str(one) for asset, one in totals.items()},
        money=money,
        drops={},
    )


@pytest.mark.torture
def test_thirty_nights_of_normal_changes_are_not_held() -> None:
    """The guards hold no night while balances move and records appear and disappear normally."""
    nights_before: list[Facts] = []
    for number in range(30):
        facts = facts_of(LivingWorld().at(date(2026, 11, 1) + timedelta(days=number)))
        assert judged(facts, nights_before) == (), number
        drops = measures.drops(facts, nights_before[-1] if nights_before else None)
        nights_before.append(replace(facts, drops=drops))


@pytest.mark.parametrize(
    ("fault", "word"),
    some_daily(
        [
            ("portfolios-empty", "the list of portfolios is empty"),
            ("portfolio-vanished", "portfolios that held money are missing"),
            ("accounts-halved", "the totals of"),
            ("bucket-gone", "is now empty, but had"),
            ("venues-empty", "the list of venues is empty"),
            ("venues-dropped", "venues fell"),
            ("instruments-halved", "instruments fell"),
            ("venue-instruments-empty", None),
            ("portfolio-repeated", None),
            ("portfolio-repeated-different", "rejected values that carry money"),
            ("account-repeated", "listed more than once with the same amounts"),
            ("account-repeated-different", None),
            ("position-repeated", "listed more than once with the same amounts"),
            ("hostile-names", None),
            ("orphan-venue", None),
        ],
        3,
    ),
)
def test_only_serious_faults_hold_a_night(layout: Layout, fault: str, word: str | None) -> None:
    """Each serious fault holds the night after a good one, and each harmless fault does not."""
    started = nights.STARTED
    world = LivingWorld().at(started.date())
    small = replace(world, portfolios=world.portfolios[1:8])
    assert nights.take(layout, nights.of_world(small), started).state == "accepted"
    spoiled = change_world([parse(fault)], small)
    snapshot = nights.take(layout, nights.of_world(spoiled), started + timedelta(days=1))
    reasons = snapshot.decision.reasons if snapshot.decision else ()
    assert snapshot.state == ("held" if word else "accepted"), reasons
    assert word is None or any(word in reason for reason in reasons)


LONG = "0." + "0" * 1100 + "1"


def test_totals_of_any_length_are_read() -> None:
    """Totals of any length are read, although a single amount has at most a thousand characters."""
    assert judged(total("100" + LONG[1:]), [total("100")]) == ()
    both = {"BTC": f"9{LONG[1:]}", "ETH": "0"}
    before = replace(GOOD, totals={"BTC": f"90{LONG[1:]}", "ETH": LONG})
    [reason] = judged(replace(GOOD, totals=both), [before])
    assert "BTC from 90.000" in reason
    assert len(reason) < 400


def test_a_tiny_amount_does_not_hide_a_loss(layout: Layout) -> None:
    """A tiny valid amount makes a total very long, but a loss of nine tenths is still noticed."""
    dust = "0." + "0" * 900 + "1e-150"
    world = LivingWorld().at(nights.STARTED.date())
    first, rest = json.dumps(world.portfolios[1]), replace(world, portfolios=())

    def book(amount: str) -> nights.Book:
        trading = {"trading": {"free": amount, "locked": dust}}
        account = {"venueId": "kestrel", "name": "main", "balance": trading}
        positions = [
            {"assetId": asset, "isCustomAsset": False, "accounts": [account]}
            for asset in ("BTC", "ETH")
        ]
        portfolio = json.loads(first) | {"positions": positions}
        return replace(nights.of_world(rest), portfolios=[portfolio])

    def total_of(snapshot: Snapshot) -> Decimal:
        return Decimal(read_manifest(layout, snapshot.snapshot_id)["facts"]["totals"]["BTC"])

    before = nights.take(layout, book("100"), nights.STARTED)
    assert total_of(before) == EXACT.add(Decimal(100), Decimal(dust))
    after = nights.take(layout, book("10"), nights.STARTED + timedelta(days=1))
    assert after.state == "held"
    assert after.decision
    assert any("BTC from 100.000" in words for words in after.decision.reasons)


SHARES = st.decimals("0", "1", places=4)
HISTORY = st.lists(
    st.dictionaries(
        st.sampled_from(
            [*measures.COUNTS, *(f"{name} risen" for name in measures.COUNTS), "assets fallen"]
        ),
        SHARES.map(str),
    ),
    max_size=40,
)


@given(HISTORY, st.sampled_from(list(measures.COUNTS)), st.integers(4, 10**6), SHARES)
def test_no_history_switches_a_guard_off(
    history: list[dict[str, str]], measure: str, before: int, share: Decimal
) -> None:
    """Whatever was accepted before, a night that loses more than 75 % of a measure is held.

    A night that loses less than 30 % is not held.
    """
    nights_before = [replace(GOOD, drops=drops) for drops in history]
    nights_before.append(replace(GOOD, counts=COUNTS | {measure: before}))
    now = int(before * share)
    reasons = judged(replace(GOOD, counts=COUNTS | {measure: now}), nights_before)
    if 1 - Decimal(now) / before > measures.MAX_LIMIT + Decimal("0.0001"):
        assert [reason for reason in reasons if reason.startswith(f"{measure} fell from ")]
    if 1 - Decimal(now) / before < measures.MIN_LIMIT - Decimal("0.0001"):
        assert reasons == ()


@given(HISTORY, st.lists(st.decimals("-1e30", "1e30", places=18), min_size=2, max_size=9), SHARES)
def test_no_history_hides_a_change_of_all_totals(
    history: list[dict[str, str]], before: list[Decimal], share: Decimal
) -> None:
    """Whatever was accepted before, the totals of all assets cannot move together unnoticed."""
    totals = {f"A{number}": amount for number, amount in enumerate(before) if amount}
    book = replace(GOOD, totals={asset: f"{amount:f}" for asset, amount in totals.items()})
    less = {asset: f"{amount * share:f}" for asset, amount in totals.items()}
    nights_before = [replace(GOOD, drops=drops) for drops in history]
    small = replace(GOOD, totals=less)
    is_seen = len(totals) > 1 and share < 1 - measures.MOVED
    assert bool(judged(small, [*nights_before, book])) == is_seen
    if share:
        assert bool(judged(book, [*nights_before, small])) == is_seen


def test_a_reason_includes_the_result_of_the_second_read() -> None:
    """A reason includes the result of the second read, and the responses to requests by ID."""
    window = Window(
        second_count=1,
        second_after=10,
        missing={
            "p1": REFUSED,
            "p2": DELETED,
            "p3": THERE,
            "another": THERE,
        },
    )
    [empty] = judged(replace(GOOD, money={}), [GOOD], window=window)
    assert empty.endswith(
        "(4.1); a second read 10 s later returned 1; requested by ID, 3 of 3: 1 deleted (p2), "
        "1 still available by ID, but not in the list (p3), 1 with access removed (p1)"
    )
    [missing] = judged(replace(GOOD, money={"p3": False}), [GOOD], window=window)
    assert missing == (
        "2 portfolios that held money are missing: p1, p2; a second read 10 s later returned "
        "1; requested by ID, 2 of 2: 1 deleted (p2), 1 with access removed (p1)"
    )
    untold = Window(missing={"p1": UNTOLD})
    [reason] = judged(replace(GOOD, money={"p2": True, "p3": False}), [GOOD], window=untold)
    assert reason == (
        "1 portfolio that held money is missing: p1; the list could not be read a second "
        "time; requested by ID, 1 of 1: 1 not answered (p1)"
    )


def portfolios_of(count: int, *, first: int = 0, scale: str = "1") -> list[Any]:
    """Return portfolios with three assets each. `p0` has the most accounts and largest amounts."""
    times = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
    portfolios = []
    for number in range(first, first + count):
        accounts = [
            {
                "venueId": f"v{place % 3}",
                "name": f"main{place}",
                "balance": {
                    "trading": {"free": str(Decimal(scale) * 100 / (1 + number)), "locked": "0"}
                },
            }
            for place in range(12 if number == 0 else 2)
        ]
        positions = [
            {"assetId": asset, "isCustomAsset": asset == "ACE", "accounts": accounts}
            for asset in ("ACE", "BTC", "ETH")
        ]
        kind = {"id": f"p{number}", "resource": "portfolio", "name": f"P{number}"}
        portfolios.append({**kind, "positions": positions, **times})
    return portfolios


def second_night(layout: Layout, before: list[Any], now: list[Any]) -> tuple[str, ...]:
    """Return the reasons to hold the second of two nights, after the first was accepted."""
    rest = nights.small()
    nights.take(layout, replace(rest, portfolios=before), nights.STARTED)
    taken = nights.take(layout, replace(rest, portfolios=now), nights.STARTED + timedelta(days=1))
    assert taken.decision
    assert bool(taken.decision.reasons) is (taken.state == "held")
    return taken.decision.reasons


MISSING = "1 portfolio that held money is missing: p0"


def test_a_missing_portfolio_is_the_only_reason(
    layout: Layout,
) -> None:
    """A missing portfolio is the only reason, because the other portfolios have not moved."""
    assert second_night(layout, portfolios_of(4), portfolios_of(3, first=1)) == (MISSING,)


def test_other_moves_are_reported_with_a_missing_portfolio(layout: Layout) -> None:
    """If the rest of the book has moved too, that is reported next to the missing portfolio."""
    thousandth = portfolios_of(3, first=1, scale="0.001")
    missing, *rest = second_night(layout, portfolios_of(4), thousandth)
    assert missing == MISSING
    assert [words for words in rest if "portfolio p1" in words]
    [totals] = [words for words in rest if "assets fell" in words]
    assert totals.startswith("in the portfolios of both books: the totals of 3 of 3 assets fell")
    assert "BTC from 216.666" in totals
    assert not [words for words in rest if "accounts fell" in words]


def test_a_new_portfolio_is_one_reason_that_lists_the_moves(layout: Layout) -> None:
    """A new portfolio that moves counts and totals too far is one reason, which lists the moves."""
    [reason] = second_night(layout, portfolios_of(3, first=1), portfolios_of(4))
    assert reason.startswith(
        "1 portfolio is new: p0; including new portfolios, accounts rose from 18 to 54 ("
    )
    assert "the totals of 3 of 3 assets rose by more than a fifth" in reason


def test_a_replaced_portfolio_is_reported_as_missing_and_new(layout: Layout) -> None:
    """A missing and a new portfolio are both reported, although the book's sums hardly change."""
    large = portfolios_of(1, scale="9") + portfolios_of(1, first=1)
    small = portfolios_of(2, first=1)
    missing, new = second_night(layout, [*small, *portfolios_of(1, first=9)], [*large, *small[1:]])
    assert missing == "1 portfolio that held money is missing: p9"
    assert new.startswith("1 portfolio is new: p0; including new portfolios, ")


@pytest.mark.parametrize("seed", range(12))
def test_comparing_only_common_portfolios_changes_no_decision(layout: Layout, seed: int) -> None:
    """Comparing without new and missing portfolios changes the reasons, but not the decision."""
    random = Random(seed)

    def some() -> list[Any]:
        chosen = random.sample(range(5), random.randrange(1, 6))
        scales = ("1", "1", "1", "0.9", "0.01", "100", "0")
        return [portfolios_of(1, first=one, scale=random.choice(scales))[0] for one in chosen]

    reasons = second_night(layout, some(), some())
    first, second = sorted(path.stem for path in layout.manifests.glob("*.json"))
    base, now = (Facts.of(read_manifest(layout, name)["facts"], name) for name in (first, second))
    whole = guards.find_reasons(replace(now, portfolio_changes={}), [base])
    assert bool(reasons) is bool(whole)
