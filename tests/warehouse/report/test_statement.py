"""Tests of the statement of a portfolio: exact amounts, its second, its notices, and any names."""

import doctest
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest

from tests.support.books import Amount, Night, exact, night, row, written
from tests.support.priced_books import NOW, drop, publish, read_at
from tests.warehouse.report.test_build import HOSTILE, TAGS, Read, read
from warehouse.contract.ops import DECISIONS
from warehouse.database.publication import publish_version
from warehouse.query.facts.night_facts import NotInBook
from warehouse.report import formats, statement
from warehouse.report.data import ReportFailed
from warehouse.report.statement import in_zone, write_statement
from warehouse.storage.layout import Layout

ZURICH = ZoneInfo("Europe/Zurich")
MISSING = formats.MISSING.striptags()
LONG = "123456789012345678901234567890123456789012345678901234567890.000000000000000000001"
AMOUNTS = [
    Amount(LONG, "p1", "WEI", custom=True),
    Amount("-999999999999999999999999999999.5", "p1", "WEI"),
    Amount("1e-8", "p1", "ETH", account="cold"),
    Amount(".5", "p1", "ETH", venue="v2", state="locked"),
    Amount("2.50", "p1"),
    Amount("7777777.7", "other", account="other account"),
]
NIGHTS = [
    read_at(f"2026{day}T021500Z", [*AMOUNTS, Amount(day, "p1", "DAY")]) for day in ("1119", "1120")
]
READ_AT = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)


def write(layout: Layout, portfolio: str = "p1", at: datetime | None = None) -> str:
    """Return the page of a statement."""
    file = write_statement(
        layout.database,
        layout.reports,
        portfolio=portfolio,
        at=at,
        now=NOW,
        zone=ZURICH,
        program_version="0.0.0",
    )
    return file.read_text()


def shown(layout: Layout, portfolio: str = "p1", at: datetime | None = None) -> Read:
    """Return the parsed page of a statement."""
    return read(write(layout, portfolio, at))


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish two nights, with prices for some of the assets."""
    home = tmp_path_factory.mktemp("home")
    prices = ("BTC,false,USD,60000.5,2026-11-19,desk", "ETH,false,USD,2,2026-01-01,old")
    drop(home, "prices.csv", *prices)
    return publish(home, NIGHTS, currency="USD", max_age=5)


def test_the_amounts_are_the_exact_texts_of_the_warehouse(layout: Layout) -> None:
    """A copied amount has no gaps. Each amount of the API and each total is on the page."""
    text = shown(layout).text
    query = (
        "select amount_text from balances where portfolio_id = 'p1' "
        "union all select total_text from holdings where portfolio_id = 'p1' "
        "union all select total_text from account_balances where portfolio_id = 'p1'"
    )
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        amounts = [amount for (amount,) in connection.execute(query).fetchall()]
    assert {LONG, "1e-8", ".5", "2.50", "2.5", exact(["1e-8", ".5"])} <= {*amounts}
    for amount in amounts:
        assert re.search(rf"(^|[ |]){re.escape(amount)}( |$)", text, re.MULTILINE), amount


def test_nothing_of_other_portfolios_is_on_the_page(layout: Layout) -> None:
    """A statement goes to a reader who may not see the other portfolios."""
    html = write(layout)
    assert "7777777" not in re.sub("</?i>", "", html)
    assert "other account" not in html


def test_a_value_names_the_assets_that_are_not_in_it(layout: Layout, tmp_path: Path) -> None:
    """The price has its date and source. Without a currency, the page has no values."""
    text = shown(layout).text
    assert "BTC | 2.5 | 60000.5 | priced | 2026-11-19 | desk | 150001.25 |" in text
    assert "Value in USD: 150001.25 for 1 asset." in text
    missing = "DAY (missing), ETH (stale), WEI (missing), WEI custom (missing)"
    assert f"Without 4 assets that have no valid price: {missing}." in text
    plain = publish(tmp_path, NIGHTS)
    assert "Value" not in shown(plain).text


def test_a_moment_has_its_second_zone_and_offset() -> None:
    """When clocks go back, two seconds have one local time, but different offsets."""
    first = datetime(2026, 10, 25, 0, 30, 7, 999999, tzinfo=UTC)
    shown_first = "2026-10-25 02:30:07 Europe/Zurich (CEST, UTC+02:00)"
    shown_second = "2026-10-25 02:30:07 Europe/Zurich (CET, UTC+01:00)"
    assert in_zone(first, ZURICH) == shown_first
    assert in_zone(first + timedelta(hours=1), ZURICH) == shown_second
    tried = doctest.testmod(statement)
    assert tried.attempted
    assert not tried.failed


def test_the_page_states_its_second_and_its_evidence(layout: Layout) -> None:
    """The page has the second of the list, and says that no venue confirmed the answer."""
    text = shown(layout).text
    assert "2026-11-20 03:15:00 Europe/Zurich (CET, UTC+01:00)" in text
    assert "No venue has confirmed it." in text
    assert "It is the newest book, and was read 24 h 45 min before this page was made." in text
    assert "20261120T021500Z" in text
    assert "Name | Date | Signature |" in text


@pytest.mark.parametrize(
    ("seconds", "day"), [(-1, "1119"), (0, "1120"), (1, "1120"), (86_400, "1120")]
)
def test_the_book_is_the_newest_one_read_at_or_before_the_moment(
    layout: Layout, seconds: int, day: str
) -> None:
    """A book of the same second counts, and the page says how old the book is."""
    at = READ_AT + timedelta(seconds=seconds)
    text = shown(layout, at=at).text
    assert f"DAY | 1 | 1 | {day} |" in text
    assert f"read at or before {in_zone(at, ZURICH)}, and was read " in text
    if seconds == 86_400:
        assert "24 h 0 min before that moment" in text


def test_a_book_read_within_the_second_belongs_to_it(tmp_path: Path) -> None:
    """A person who types the printed second gets the same book."""
    one = NIGHTS[1]
    received = READ_AT.replace(microsecond=900_000)
    requests = [each | {"received_at": received} for each in one.ops["requests"]]
    home = publish(tmp_path, [replace(one, ops={**one.ops, "requests": requests})])
    assert "DAY | 1 | 1 | 1120 |" in shown(home, at=READ_AT).text
    with pytest.raises(ReportFailed, match=r"The first one was read at 2026-11-20 03:15:00"):
        write(home, at=READ_AT - timedelta(seconds=1))


def test_a_moment_before_the_first_book_or_a_wrong_name_writes_nothing(tmp_path: Path) -> None:
    """The message says what to do, and the folder stays as it was."""
    home = publish(tmp_path, NIGHTS)
    with pytest.raises(ReportFailed, match="No statement was written"):
        write(home, at=READ_AT - timedelta(days=2))
    with pytest.raises(NotInBook, match=r"'p1' \(Portfolio p1\)(?s:.*)Nothing was written"):
        write(home, "p")
    assert not home.reports.exists()


def hostile_night() -> Night:
    """Return a night with a portfolio, a venue, an asset and accounts with hostile names."""
    amounts = [
        Amount("1", HOSTILE[0], name, venue=name or "v", account=name, bucket=name)
        for name in HOSTILE
    ]
    one = read_at("20261120T021500Z", amounts)
    portfolios = [each | {"name": HOSTILE[1]} for each in one.rows["portfolios"]]
    venues = [each | {"display_name": each["venue_id"]} for each in one.rows["venues"]]
    return replace(one, rows={**one.rows, "portfolios": portfolios, "venues": venues})


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """No name becomes a tag, an attribute, a style or a part of the file's name."""
    home = publish(tmp_path, [hostile_night()])
    found = shown(home, HOSTILE[0])
    assert found.tags <= TAGS | {"dl", "dt", "dd"}
    assert not {name for _, name, _ in found.attributes if name.startswith("on") or name == "src"}
    assert "evil" not in found.style
    for harm in HOSTILE[:8]:
        assert harm in found.text
    assert "\\u202egnp.exe\\x1b[31m\\x01" in found.text
    assert "W" * 5000 in found.text, "a signed page has the whole name"
    assert not re.search("[\u202e\x1b\x01]", found.text)
    digest = hashlib.sha256(HOSTILE[0].encode()).hexdigest()[:12]
    assert [path.name for path in home.reports.iterdir()] == [f"statement-2026-11-20-{digest}.html"]


def test_an_empty_portfolio_has_a_statement(tmp_path: Path) -> None:
    """An auditor also needs a statement that there is nothing."""
    one = read_at("20261120T021500Z", [Amount("1")])
    empty: dict[str, Any] = {"portfolio_id": "e", "name": None, "position_count": 0}
    more = night("20261120T021500Z", [], {"portfolios": [empty]}).rows["portfolios"]
    rows = {**one.rows, "portfolios": [*one.rows["portfolios"], *more]}
    text = shown(publish(tmp_path, [replace(one, rows=rows)], currency="USD"), "e").text
    assert "The portfolio has no positions." in text
    assert f"Portfolio {MISSING} Portfolio ID e As read at" in text


@pytest.fixture
def noted(tmp_path: Path) -> Callable[..., str]:
    """Return a function that publishes a night with facts, and returns the statement."""

    def publish_with(at: datetime | None = None, **facts: Any) -> str:
        layout = Layout(tmp_path)
        held = Night("20261121T021500Z", NIGHTS[1].rows, state="held", is_book=False)
        contents = written(layout, [NIGHTS[1], held])
        snapshots = tuple(
            {**each, **(facts if each["is_book"] else {"reason": "other is missing"})}
            for each in contents.snapshots
        )
        day = NIGHTS[1].day
        ids = {"snapshot_id": "20261120T001500Z", "decision_no": 1, "state": "accepted"}
        decisions = [*contents.decided["decisions"], row(DECISIONS, day, **ids)]
        contents = replace(contents, snapshots=snapshots, decided={"decisions": decisions})
        publish_version(layout, contents, version="a", built_at=NOW, program_version="0")
        return shown(layout, at=at).text

    return publish_with


def test_notices_name_no_reason_and_no_other_portfolio(noted: Callable[..., str]) -> None:
    """Held nights, rejects, decisions and earlier books are on the page, without their reasons."""
    text = noted(reject_count=3, decided_by="ada", reason="other is missing")
    for notice in (
        "Newer nights are held and not included: 20261121T021500Z.",
        "Some values in the API's responses could not be read and are in no total.",
        "A person accepted it.",
        "replaced an earlier book: 20261120T001500Z.",
    ):
        assert f"Notice: {notice}" in text or notice in text
    assert "missing" not in text
    assert "ada" not in text


def test_a_night_held_after_the_moment_is_no_notice(noted: Callable[..., str]) -> None:
    """At that moment, nobody had read the later night."""
    assert "held" not in noted(at=READ_AT + timedelta(hours=3))
