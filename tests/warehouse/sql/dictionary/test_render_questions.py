"""Tests of the twenty questions, whose queries are short and return the expected rows."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.support.books import Amount, Night, night, published, row
from warehouse.contract.ops import DRIFT, INEXACT, REJECTS, REQUESTS
from warehouse.query.formats import text
from warehouse.query.read import run
from warehouse.sql.dictionary.render import FILE, QUESTIONS
from warehouse.storage.layout import Layout

LONGEST = 12
TONIGHT = "20261120T021500Z"
BTC = Amount("1.75")
ETH = Amount("2e-30", asset="ETH", venue="v2", state="locked")
OWN = Amount("4", "p2", custom=True, account="cold", bucket="staking", state="locked")
LINKED = {"portfolio_id": "p1", "integration_id": "i1", "venue_id": "v1", "status": "verified"}
READ = "2026-01-01 00:00:00Z"
ANSWERS: Mapping[str, list[str]] = {
    "How much of each asset do we hold": [
        "BTC false 1.75 0 0 1.75",
        "BTC true 0 4 0 4",
        f"ETH false 0 {'0.' + '0' * 29}2 0 {'0.' + '0' * 29}2",
    ],
    "Which venues keep our BTC": ["v1 1.75 0 1.75"],
    "Which portfolios hold BTC": ["Growth p1 1.75"],
    "When were these figures read": [f"2026-11-20 {READ} {READ} {TONIGHT}"],
    "Which amounts are locked": ["BTC true staking 4", f"ETH false trading {'0.' + '0' * 29}2"],
    "How did each asset change in the last seven days": [
        "BTC false 0.75",
        "BTC true 4",
        f"ETH false {'0.' + '0' * 29}2",
    ],
    "What do we hold at venues that are not trading": [
        f"Venue v2 suspended ETH false {'0.' + '0' * 29}2"
    ],
    "What do we hold at venues without a verified integration": [
        "p1 v2 Money (1 asset) at a venue without a verified connection (integration)."
    ],
    "How much of each asset did we hold on a given day": [
        "2026-11-20 BTC false 1.75",
        "2026-11-20 BTC true 4",
        f"2026-11-20 ETH false {'0.' + '0' * 29}2",
    ],
    "Which nights are missing": ["2026-11-18 no snapshot", "2026-11-21 held"],
    "Which nights were held": ["20261121T021500Z held  "],
    "Which API responses": [f"{TONIGHT} 1 list_portfolios 0001.zst abc"],
    "Which names did each portfolio have": [
        "p1 Portfolio p1 2026-11-17 2026-11-19",
        "p1 Growth 2026-11-20 2026-11-20",
        "p2 Portfolio p2 2026-11-20 2026-11-20",
    ],
    "Which values from the API": [
        "inexact data[0] 2e-30",
        "reject data[1] 7",
        'unknown field data[].note "x"',
    ],
    "Which accounts appeared": ["p2 v1 cold BTC true"],
    "Which venues changed their state": ["v2 2026-11-20 trading_status: trading -> suspended"],
    "Which instruments were delisted": ["v1 BTC-OLD 2026-11-19"],
    "How much BTC did we hold": ["2026-11-17 1", "2026-11-19 1.5", "2026-11-20 1.75"],
    "What explains the change": [
        "BTC false 1.5 0 0 0.25 0 1.75",
        "BTC true 0 4 0 0 0 4",
        f"ETH false {'0.' + '0' * 29}2 0 0 0 0 {'0.' + '0' * 29}2",
    ],
}


def _traded(name: str) -> list[dict[str, Any]]:
    return [{"venue_id": "v1", "instrument_id": name, "type": "spot", "display_name": name}]


def _tonight() -> Night:
    """Return the newest book: a new name, a closed venue, a custom asset and an unknown field."""
    day = date(2026, 11, 20)
    more = {"integrations": [LINKED], "instruments": _traded("BTC-NEW")}
    made = night(TONIGHT, [BTC, ETH, OWN], more)
    rows = {name: list(lines) for name, lines in made.rows.items()}
    rows["portfolios"][0] |= {"name": "Growth", "integration_count": 1}
    rows["venues"][1] |= {"trading_status": "suspended"}
    about = {"snapshot_id": TONIGHT, "request_no": 1}
    request = row(
        REQUESTS, day, operation="list_portfolios", file="0001.zst", sha256="abc", **about
    )
    inexact = row(INEXACT, day, path="data[0]", value="2e-30", **about)
    reject = row(REJECTS, day, path="data[1]", value="7", **about)
    drift = row(
        DRIFT,
        day,
        snapshot_id=TONIGHT,
        path="data[].note",
        kind="unknown field",
        example='"x"',
    )
    ops = {"requests": [request], "inexact": [inexact], "rejects": [reject]}
    return replace(made, rows=rows, ops=ops | {"drift_by_night": [drift]})


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish three books, with one missing and one held night."""
    old = {"instruments": _traded("BTC-OLD")}
    nights = [
        night("20261117T021500Z", [Amount("1")], old),
        night("20261119T021500Z", [Amount("1.5"), ETH], old),
        _tonight(),
        night("20261121T021500Z", [], state="held", is_book=False),
    ]
    layout = Layout(tmp_path_factory.mktemp("questions"))
    published(layout, nights, "a")
    return layout.database


@pytest.mark.parametrize("words", ANSWERS)
def test_a_question_returns_the_expected_rows(database: Path, words: str) -> None:
    """The query of a question returns the rows that a person would write down."""
    question = next(one for one in QUESTIONS if one.words.startswith(words))
    found = run(database, question.sql).rows
    assert [" ".join(text(value) for value in line) for line in found] == ANSWERS[words]


def test_the_question_about_totals_finds_no_difference(database: Path) -> None:
    """The question about totals finds no difference.

    The number of totals that it compares depends on the book, so this test allows any large number.
    """
    question = next(one for one in QUESTIONS if one.words.startswith("Does every total agree"))
    ((measured, different),) = run(database, question.sql).rows
    assert measured > len(QUESTIONS)
    assert different == 0


def test_the_dictionary_has_all_twenty_questions() -> None:
    """There are twenty short questions from three people. All are tested and in the dictionary."""
    assert len(QUESTIONS) == len(ANSWERS) + 1 == 20
    assert {one.asker for one in QUESTIONS} == {"analyst", "auditor", "head of treasury"}
    page = FILE.read_text("utf-8")
    for one in QUESTIONS:
        assert f"{one.words} ({one.asker})" in page
        assert f"```sql\n{one.sql}\n```" in page
        assert one.sql.count("\n") < LONGEST


def test_no_question_depends_on_the_current_time() -> None:
    """No question depends on the current time, so the same file gives the same answer tomorrow."""
    assert not [one.words for one in QUESTIONS if "current_" in one.sql or "now()" in one.sql]
