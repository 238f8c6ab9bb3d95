"""Tests of breaks with a value: the two limits in recon.toml, and the second person."""

import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.support import priced_books
from tests.support.books import Amount, night
from tests.support.reconciliation_home import HEAD, NOW, SNAPSHOT, Desk, DeskRun
from warehouse.reconcile import service
from warehouse.reconcile.close.close import CloseSummary, close
from warehouse.reconcile.close.verify import verify_pack
from warehouse.reconcile.record import views
from warehouse.reconcile.settings.config import parse_config
from warehouse.reconcile.terms import NotClosed, NotReconciled

DAY, ACCEPTED, SECOND = date(2026, 11, 20), "Explained - accepted", "Needs a second person"
RULE = "Accepted by rule"
LIMITS = '[materiality]\ncurrency = "USD"\naccept_below = "10"\nsecond_person_above = "500"\n'
BOOK = [
    *(Amount("10"), Amount("20", asset="ETH"), Amount("100", asset="USD")),
    *(Amount("7", asset="XYZ", custom=True), Amount("3", asset="ADA")),
    *(Amount("4", asset="DOT"), Amount("1", asset="NUL")),
]
PRICES = [
    *("BTC,,USD,1000,2026-11-20,", "ETH,,USD,10,2026-11-20,", "XYZ,,USD,0.1,2026-11-20,"),
    *("DOT,,USD,1,2026-11-01,", "NUL,,USD,0,2026-11-20,", "LTC,,USD,2,2026-11-20,"),
    *("SOL,,USD,3,2026-11-20,", "ETH,,USD,1,2026-11-20T02:15:01Z,"),
]
LEDGER = {
    "BTC": "10.5",
    "ETH": "19",
    "USD": "109",
    "XYZ (custom)": "8",
    "ADA": "4",
    "DOT": "5",
    "NUL": "2",
    "LTC": "3",
    "SOL": "2",
}


def put(desk: Desk, **amounts: str) -> None:
    """Write the ledger with these amounts of assets."""
    rows = {**LEDGER, **amounts}.items()
    desk.put(HEAD + "".join(f"p1;{asset};v1;main;{text}\n" for asset, text in rows))


def publish(desk: Desk, *prices: str, max_age: int = 5) -> None:
    """Publish the nights with these prices."""
    desk.versions += 1
    moment = datetime(2026, 11, 21, 3, desk.versions, tzinfo=UTC)
    priced_books.drop(desk.home, f"{desk.versions}.csv", *prices)
    priced_books.publish(desk.home, desk.nights, f"v{desk.versions}", moment, max_age=max_age)


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home with prices. An asset is only in the earlier book, and one is in no book."""
    desk = Desk(tmp_path_factory.mktemp("priced"))
    earlier = night("20261119T021500Z", [*BOOK, Amount("2", asset="SOL")])
    desk.nights = [earlier, night(SNAPSHOT, BOOK)]
    publish(desk, *PRICES)
    put(desk)
    desk.settle(LIMITS)
    return desk


@pytest.fixture
def desk(priced: Desk, tmp_path: Path) -> Desk:
    """Return a copy of the home."""
    shutil.copytree(priced.home, tmp_path / "home", symlinks=True)
    return Desk(tmp_path / "home", priced.versions, list(priced.nights))


def found(desk: Desk) -> dict[str, dict[str, Any]]:
    """Return the breaks by the name of their asset, in their order."""
    return {break_["names"]["asset"].upper(): break_ for break_ in desk.breaks()}


def statuses(desk: Desk) -> dict[str, str]:
    """Return the statuses of the breaks by asset."""
    return {asset: break_["status"] for asset, break_ in found(desk).items()}


def save(desk: Desk, who: str, name: str, source: Path | None = None, /, **said: str) -> None:
    """Save a copy of the workbook as a person who sets the status of assets, with a comment."""
    book = source or desk.folder.day_files(DAY).workbook
    ids = {asset: break_["id"] for asset, break_ in found(desk).items()}
    cells = {ids[asset]: {"Status": status, "Comment": name} for asset, status in said.items()}
    desk.edit(book, cells, desk.folder.out / f"{name}.xlsx", who)


def accept(desk: Desk, who: str, name: str, *assets: str) -> DeskRun:
    """Accept breaks as a person, and run."""
    save(desk, who, name, None, **dict.fromkeys(assets, ACCEPTED))
    return desk.run()


def closed(desk: Desk) -> CloseSummary:
    """Close the month."""
    now = datetime(2026, 12, 1, 9, tzinfo=UTC)
    root = desk.folder.root
    return close(desk.layout.database, root, "2026-11", who="m", now=now, program_version="0.0.0")


@pytest.mark.usefixtures("no_workbook")
def test_only_a_priced_break_below_the_limit_is_accepted_by_rule(desk: Desk) -> None:
    """Breaks are sorted by value, and those without a value come first and stay open.

    An exact limit accepts nothing. A price of 0 is a price. The price of a ticker does not count
    for a custom asset, but for an asset that only the ledger has.
    """
    ran = desk.run()
    facts = {
        asset: (break_["value"], break_["price_state"], break_["status"])
        for asset, break_ in found(desk).items()
    }
    assert facts == {
        "ADA": (None, "missing", "Open"),
        "DOT": (None, "stale", "Open"),
        "XYZ (CUSTOM)": (None, "missing", "Open"),
        "BTC": ("500", "priced", "Open"),
        "ETH": ("10", "priced", "Open"),
        "USD": ("9", "priced", RULE),
        "LTC": ("6", "priced", RULE),
        "SOL": ("6", "priced", RULE),
        "NUL": ("0", "priced", RULE),
    }
    assert list(found(desk)) == list(facts)
    assert (ran.breaks, ran.open_breaks, ran.exit_code) == (9, 5, 3)
    assert "4 breaks accepted by rule, 21 USD in all" in ran.message
    assert any("3 breaks of 9 without a value in USD" in item.message for item in ran.notices)
    rows = {row["asset_id"]: row for row in views.ops_rows(desk.folder)["breaks"]}
    assert (rows["BTC"]["value"], rows["BTC"]["currency"]) == (500, "USD")
    [night_] = views.ops_rows(desk.folder)["reconciliations"]
    assert (night_["open_breaks"], views.trends(desk.folder, [DAY])[0].ages[0]) == (5, 5)


@pytest.mark.usefixtures("no_workbook")
def test_a_small_break_that_grows_or_loses_its_price_is_open(desk: Desk) -> None:
    """Each run compares the value with the limits of its time. Results of other days stay."""
    desk.run()
    put(desk, USD="110")
    assert desk.run().open_breaks == 6
    desk.settle(LIMITS.replace('"10"', '"10.01"'))
    assert (desk.run().open_breaks, statuses(desk)["ETH"]) == (4, RULE)
    desk.settle(LIMITS.replace("USD", "CHF"))
    ran = desk.run()
    assert (ran.open_breaks, {break_["value"] for break_ in desk.breaks()}) == (9, {None})
    assert any("9 breaks of 9 without a value in CHF" in item.message for item in ran.notices)
    desk.settle("")
    assert (desk.run().open_breaks, statuses(desk)["USD"]) == (9, "Open")
    assert desk.breaks()[0]["price_state"] == ""


@pytest.mark.usefixtures("no_workbook")
def test_a_break_with_an_unread_amount_has_no_value(desk: Desk) -> None:
    """The difference is unknown, so it is never below the limit."""
    put(desk, NUL="#N/A")
    desk.run()
    break_ = found(desk)["NUL"]
    assert (break_["value"], break_["price_state"], break_["status"]) == (None, "unread", "Open")


@pytest.mark.usefixtures("no_workbook")
def test_later_prices_do_not_change_the_results_of_earlier_days(desk: Desk) -> None:
    """A new price counts for the next night, and the earlier night keeps its values."""
    desk.run()
    desk.nights.append(night("20261121T021500Z", BOOK))
    publish(desk, "USD,,USD,5,2026-11-21,", "LTC,,USD,200,2026-11-21,")
    ran = desk.run(now=NOW.replace(day=22))
    assert (ran.day.day, found(desk)["LTC"]["value"], statuses(desk)["LTC"]) == (21, "600", "Open")
    assert statuses(desk)["USD"] == RULE
    earlier = {break_["names"]["asset"].upper(): break_ for break_ in desk.breaks(DAY)}
    assert (earlier["LTC"]["value"], earlier["LTC"]["status"]) == ("6", RULE)


@pytest.mark.usefixtures("workbook")
def test_a_large_break_needs_a_second_person(desk: Desk) -> None:
    """Above the limit, or without a value, an acceptance waits until a different person accepts.

    At the limit, one person is enough. The same person does not count twice, and a file without
    an author does not count.
    """
    put(desk, LTC="400")
    desk.run()
    accept(desk, "Ada", "first", "BTC", "LTC", "ADA")
    assert [statuses(desk)[asset] for asset in ("BTC", "LTC", "ADA")] == [ACCEPTED, SECOND, SECOND]
    assert "accepted by Ada" in found(desk)["LTC"]["note"]
    for who, name in (("  ada", "second"), ("openpyxl", "third")):
        accept(desk, who, name, "LTC")
        assert (who, statuses(desk)["LTC"]) == (who, SECOND)
    with pytest.raises(NotClosed, match="a second person must accept 2 breaks: B-"):
        closed(desk)
    accept(desk, "Grace", "fourth", "LTC", "ADA")
    assert [statuses(desk)[asset] for asset in ("LTC", "ADA")] == [ACCEPTED, ACCEPTED]
    assert "accepted by Ada and Grace" in found(desk)["LTC"]["note"]
    assert service.verify(desk.folder.root, desk.folder.day_files(DAY).workbook).is_whole
    put(desk, LTC="401")
    assert (desk.run().open_breaks, statuses(desk)["LTC"]) == (4, "Open")


@pytest.mark.usefixtures("workbook")
def test_only_a_workbook_that_shows_the_status_accepts_as_second_person(desk: Desk) -> None:
    """Saving an older copy in which somebody else accepted a break is not an acceptance."""
    put(desk, LTC="400")
    older = desk.folder.out / "older.xlsx"
    shutil.copy(desk.run().files[0], older)
    accept(desk, "Ada", "older", "LTC")
    save(desk, "Grace", "older", older, BTC="Waiting")
    desk.run()
    assert (statuses(desk)["LTC"], statuses(desk)["BTC"]) == (SECOND, "Waiting")
    shown = desk.folder.root / "shown.xlsx"
    shutil.copy(desk.folder.day_files(DAY).workbook, shown)
    desk.settle(LIMITS.replace("500", "501"))
    desk.run()
    save(desk, "Grace", "late", shown, LTC=ACCEPTED)
    ran = desk.run()
    assert statuses(desk)["LTC"] == SECOND
    assert any("this is an earlier workbook" in notice.message for notice in ran.notices)
    accept(desk, "Grace", "now", "LTC")
    assert statuses(desk)["LTC"] == ACCEPTED


@pytest.mark.usefixtures("workbook")
def test_a_signature_counts_a_break_that_needs_a_second_person(desk: Desk) -> None:
    """The workbook that accepts a large break and is signed has that break among the open ones."""
    put(desk, LTC="400", ADA="3", DOT="4", ETH="20", **{"XYZ (custom)": "7"})
    desk.run()
    save(desk, "Ada", "signed", None, LTC=ACCEPTED, BTC=ACCEPTED)
    copy = desk.folder.out / "signed.xlsx"
    made = openpyxl.load_workbook(copy)
    for row in made["Summary"].iter_rows(max_col=2):
        if row[0].value == "Prepared by":
            row[1].value = "Ada"
    made.save(copy)
    assert desk.run().open_breaks == 1
    [signature] = desk.folder.signatures
    assert signature.open_breaks == 1


@pytest.mark.usefixtures("workbook")
def test_todays_limits_apply_to_breaks_that_were_not_compared(desk: Desk) -> None:
    """If no ledger covers a small break, it stays accepted while its last value is small.

    A break that needs a second person can still get one.
    """
    both = [*BOOK, Amount("1", venue="v2")]
    desk.nights += [night(f"202611{number}T021500Z", both) for number in (21, 22)]
    publish(desk)
    venues = '[file."ledger*"]\nvenue = "v1"\n[file."other*"]\nvenue = "v2"\n'
    desk.settle(venues + LIMITS)
    desk.put(HEAD + "p1;BTC;v2;main;1\n", "other.csv")
    first = date(2026, 11, 21)
    desk.run(first)
    book = desk.folder.day_files(first).workbook
    save(desk, "Ada", "first", book, ADA=ACCEPTED)
    desk.run(first)
    assert (statuses(desk)["USD"], statuses(desk)["ADA"]) == (RULE, SECOND)
    save(desk, "Grace", "../second", book, ADA=ACCEPTED)
    (desk.folder.inbox / "ledger.csv").unlink()
    for limit, status in (("9", "Open"), ("10", RULE)):
        desk.settle(venues + LIMITS.replace('"10"', f'"{limit}"'))
        run = desk.run(date(2026, 11, 22)).run
        assert run
        carried = {item.names["asset"]: item.status for item in run.not_compared}
        assert (carried["USD"], carried["ADA"]) == (status, SECOND)
    (desk.folder.root / "second.xlsx").rename(desk.folder.out / "second.xlsx")
    run = desk.run(date(2026, 11, 22)).run
    assert run
    assert {item.names["asset"]: item.status for item in run.not_compared}["ADA"] == ACCEPTED


@pytest.mark.usefixtures("workbook")
def test_a_person_can_reopen_a_break_that_the_rule_accepted(desk: Desk) -> None:
    """A status that a person sets counts more than the rule. An unchanged cell says nothing."""
    desk.run()
    save(desk, "Ada", "mine", USD="Open", LTC=RULE, SOL="In progress", BTC=RULE)
    ran = desk.run()
    found_ = statuses(desk)
    assert [found_[name] for name in ("USD", "LTC", "SOL")] == ["Open", RULE, "In progress"]
    assert found_["BTC"] == "Open"
    words = [notice.message for notice in ran.notices if "is not a status" in notice.message]
    assert len(words) == 1
    desk.settle(LIMITS.replace('"10"', '"11"'))
    desk.run()
    assert (statuses(desk)["USD"], statuses(desk)["ETH"]) == ("Open", RULE)


@pytest.mark.usefixtures("workbook")
def test_the_pack_and_the_workbook_list_the_breaks_accepted_by_rule(
    desk: Desk, tmp_path: Path
) -> None:
    """They show each value, the limits, and the sum of all breaks that the rule accepted."""
    same = LIMITS.replace('"10"', '"501"').replace('"500"', '"501"')
    desk.settle(same + '[close]\nopen_breaks = "refuse"\n')
    put(desk, ADA="3", DOT="4", **{"XYZ (custom)": "7"})
    ran = desk.run()
    assert (ran.breaks, ran.open_breaks, ran.exit_code) == (6, 0, 0)
    book = openpyxl.load_workbook(ran.files[0])
    header, first = (
        [cell.value for cell in row] for row in book["Breaks"].iter_rows(min_row=2, max_row=3)
    )
    assert header[-4:] == ["Value", "Value, exact", "Currency", "Price state"]
    assert first[-4:] == [500, "500", "USD", "priced"]
    rows = book["Summary"].iter_rows(values_only=True)
    lines = [[cell for cell in row if cell is not None] for row in rows]
    limits = "accepted by rule below 501 USD, second person above 501 USD"
    assert ["Materiality", limits, "6 breaks accepted by rule, 531 USD in all"] in lines
    assert [line[-1] for line in lines if line[:1] == ["Accepted by rule"]] == ["=SUM(B32:E32)"]
    summary = closed(desk)
    page = summary.index.read_text("utf-8")
    assert f"6 breaks accepted by rule, 531 USD in all ({limits})" in page
    assert page.count("by rule</td>") == 6
    assert verify_pack(summary.pack, "0.0.0").is_whole


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('accept_below = "1"', "materiality needs a currency"),
        ('currency = "USD"\naccept_below = 1', "accept_below is 1, expected a string"),
        ('currency = "USD"\naccept_below = "-1"', "accept_below is '-1', expected a string"),
        ('currency = "USD"\naccept_over = "1"', "unknown setting: accept_over"),
        (LIMITS.partition("\n")[2].replace("500", "9"), "larger than second_person_above"),
    ],
)
def test_wrong_limits_are_refused(lines: str, words: str) -> None:
    """The message names each wrong limit."""
    with pytest.raises(NotReconciled, match=words):
        parse_config(f"[materiality]\n{lines}\n".encode(), Path("recon.toml"))
