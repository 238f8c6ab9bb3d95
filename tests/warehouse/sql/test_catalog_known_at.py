"""Tests of the macros for earlier states of the book, with nights that were decided on twice."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from tests.support.books import Amount, Night, night, row, written
from warehouse.contract.ops import DECISIONS
from warehouse.database.publication import publish_version
from warehouse.storage.layout import Layout

HUGE = "99999999999999999999.9"
FIRST = night("20261118T021500Z", [Amount("1"), Amount(HUGE, "p2"), Amount(HUGE, "p3")])
WRONG = night("20261119T021500Z", [Amount("1e40"), Amount("2", asset="ETH")])
AGAIN = night("20261119T041500Z", [Amount("1e30"), Amount("2.0", asset="ETH")])
LATE = night("20261120T021500Z", [Amount("-7")])
GONE = night("20261121T021500Z", [Amount("8")])
BOOKS = (FIRST, AGAIN, LATE)


def at(night: Night, hours: float = 0) -> datetime:
    """Return the time that is `hours` hours after the start of a night."""
    begun = datetime.strptime(night.snapshot_id, "%Y%m%dT%H%M%S%z")
    return begun.astimezone(UTC) + timedelta(hours=hours)


# Each decision: its night, the state that it led to, and its time.
DECIDED = (
    (FIRST, "accepted", at(FIRST, 1)),
    (WRONG, "accepted", at(WRONG, 1)),
    (AGAIN, "accepted", at(AGAIN, 1)),
    (LATE, "held", at(LATE, 1)),
    (LATE, "accepted", at(LATE, 30)),
    (GONE, "accepted", at(GONE, 1)),
    (GONE, "rejected", at(GONE, 5)),
)


@pytest.fixture(scope="module", params=[None, 2], ids=["all in the file", "one in the lake"])
def book(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a warehouse with nights that were read twice, accepted late and rejected at last."""
    layout = Layout(tmp_path_factory.mktemp("known"))
    states = {one.snapshot_id: state for one, state, _ in DECIDED}
    nights = [
        replace(one, state=states[one.snapshot_id], is_book=one in BOOKS)
        for one in (FIRST, WRONG, AGAIN, LATE, GONE)
    ]
    contents = written(layout, nights)
    numbers: Counter[str] = Counter()
    decisions = []
    for one, state, moment in DECIDED:
        numbers[one.snapshot_id] += 1
        decisions.append(
            row(
                DECISIONS,
                one.day,
                snapshot_id=one.snapshot_id,
                decision_no=numbers[one.snapshot_id],
                state=state,
                decided_by="me",
                decided_at=moment,
                reason=f"{state} by me",
            )
        )
    snapshots = tuple(
        dict(line) | {"started_at": at(one)}
        for line, one in zip(contents.snapshots, nights, strict=True)
    )
    contents = replace(
        contents,
        decided={"decisions": decisions},
        snapshots=snapshots,
        native_nights=request.param,
    )
    publish_version(layout, contents, version="a", built_at=at(GONE, 9), program_version="0.0.0")
    with duckdb.connect(str(layout.database), read_only=True) as reader:
        reader.execute("set TimeZone = 'UTC'")
        yield reader


@pytest.mark.parametrize(
    ("moment", "wanted"),
    [
        (at(FIRST, 0.5), []),
        (at(WRONG, 1.5), [FIRST, WRONG]),
        (at(AGAIN, 1.5), [FIRST, AGAIN]),
        (at(LATE, 2), [FIRST, AGAIN]),
        (at(GONE, 2), [FIRST, AGAIN, GONE]),
        (at(GONE, 5.5), [FIRST, AGAIN]),
        (at(GONE, 8), [FIRST, AGAIN, LATE]),
    ],
)
def test_the_book_at_a_moment_is_the_newest_accepted_snapshot(
    book: duckdb.DuckDBPyConnection, moment: datetime, wanted: list[Night]
) -> None:
    """At each moment, the book of a date is the newest snapshot that was accepted by then."""
    rows = book.execute("select snapshot_id from known_at(?) order by all", [moment]).fetchall()
    assert [snapshot for (snapshot,) in rows] == [one.snapshot_id for one in wanted]


def test_the_totals_of_an_earlier_book_are_exact(book: duckdb.DuckDBPyConnection) -> None:
    """Totals are exact even for a night that is no longer the book.

    If there was no book at that moment, the macro fails.
    """
    query = "select asset_id, total_text, total from totals_known_at(?, ?) order by all"
    rows = book.execute(query, [WRONG.day, at(WRONG, 1.5)]).fetchall()
    assert rows[0] == ("BTC", "1" + "0" * 40, None)
    assert rows[1][:2] == ("ETH", "2")
    rows = book.execute(query, [WRONG.day, at(WRONG)]).fetchall()
    assert [line[:2] for line in rows] == [("BTC", "200000000000000000000.8")]
    for day, moment in ((FIRST.day, at(FIRST)), (FIRST.day - timedelta(days=1), at(GONE))):
        with pytest.raises(duckdb.InvalidInputException, match="no book was known then"):
            book.execute(query, [day, moment]).fetchall()


def test_restated_totals_have_exact_differences(book: duckdb.DuckDBPyConnection) -> None:
    """Replaced, added and withdrawn totals have exact differences. New nights are not included."""
    query = (
        "select snapshot_date, change, asset_id, before_text, after_text, delta_text, reason "
        "from restated_since(?) order by all"
    )
    less = "-" + "9" * 10 + "0" * 30
    taken_again = ("replaced", "BTC", "1" + "0" * 40, "1" + "0" * 30, less, "accepted by me")
    added = (LATE.day, "added", "BTC", None, "-7", "-7", "accepted by me")
    withdrawn = (GONE.day, "withdrawn", "BTC", "8", None, "-8", "rejected by me")
    assert book.execute(query, [at(WRONG, 1.5)]).fetchall() == [(WRONG.day, *taken_again)]
    assert book.execute(query, [at(GONE, 2)]).fetchall() == [added, withdrawn]
    assert book.execute(query, [at(GONE, 8)]).fetchall() == []
