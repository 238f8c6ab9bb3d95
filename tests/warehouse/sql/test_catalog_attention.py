"""Tests of the view `ops.attention`: one row for each problem that the database knows."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support import environments
from tests.support.books import BUILT_AT, Amount, Night, night, row, written
from tests.warehouse.query.test_connect_older_clients import OLDER, asked
from warehouse.contract.ops import DECISIONS, DRIFT, REQUESTS, WITHDRAWN
from warehouse.contract.reconciliation import BREAKS, RECONCILIATIONS
from warehouse.database.publication import publish_version
from warehouse.storage.layout import Layout

DAY = date(2026, 11, 20)
OLD, NEW = "20261120T021500Z", "20261120T051500Z"
LATER = "20261121T021500Z"
# The decisions on two snapshots of one date as (snapshot, hours since midnight, author, state).
Decided = Sequence[tuple[str, int, str, str]]


def filled(tmp_path: Path, nights: Sequence[Night], rejects: int = 0, **more: Any) -> Layout:
    """Publish these nights with other rows of the tables of decisions and of the reconciliation.

    Each night has this number of rejected values.
    """
    layout = Layout(tmp_path)
    contents = written(layout, nights)
    starts = [datetime.fromisoformat(snapshot["snapshot_id"]) for snapshot in contents.snapshots]
    snapshots = [
        {**snapshot, "started_at": start, "reject_count": rejects}
        for snapshot, start in zip(contents.snapshots, starts, strict=True)
    ]
    changed = replace(contents, snapshots=tuple(snapshots), **more)
    publish_version(layout, changed, version="a", built_at=BUILT_AT, program_version="0.0.0")
    return layout


def problems(layout: Layout) -> dict[str, dict[str, Any]]:
    """Return the rows of the view by cause."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        result = connection.execute("from ops.attention")
        names = [column[0] for column in result.description or ()]
        rows = [dict(zip(names, values, strict=True)) for values in result.fetchall()]
    assert len({line["cause"] for line in rows}) == len(rows)
    return {line["cause"]: line for line in rows}


def decision_rows(decided: Decided) -> list[dict[str, Any]]:
    """Return rows of `ops.decisions`."""
    midnight = datetime(2026, 11, 20, tzinfo=UTC)
    return [
        row(
            DECISIONS,
            DAY,
            snapshot_id=snapshot_id,
            decision_no=number,
            state=state,
            decided_by=author,
            decided_at=midnight + timedelta(hours=hour),
            reason="wrong",
        )
        for number, (snapshot_id, hour, author, state) in enumerate(decided, 1)
    ]


@pytest.mark.parametrize(
    ("decided", "is_told"),
    [
        ([(OLD, 2, "guards", "accepted"), (OLD, 9, "ann", "rejected")], True),
        ([(OLD, 2, "guards", "held"), (OLD, 9, "ann", "rejected")], False),
        (
            [
                (OLD, 2, "guards", "held"),
                (NEW, 5, "guards", "accepted"),
                (OLD, 8, "ann", "accepted"),
                (OLD, 9, "ann", "rejected"),
            ],
            False,
        ),
        (
            [
                (OLD, 2, "guards", "held"),
                (NEW, 5, "guards", "accepted"),
                (OLD, 7, "ann", "accepted"),
                (NEW, 8, "ann", "rejected"),
                (OLD, 9, "ann", "rejected"),
            ],
            True,
        ),
        (
            [
                (OLD, 2, "guards", "accepted"),
                (NEW, 5, "guards", "held"),
                (NEW, 8, "ann", "accepted"),
                (OLD, 9, "ann", "rejected"),
            ],
            True,
        ),
        (
            [
                (OLD, 2, "guards", "accepted"),
                (OLD, 8, "ann", "rejected"),
                (OLD, 9, "ann", "accepted"),
            ],
            False,
        ),
        ([(OLD, -200, "guards", "accepted"), (OLD, -199, "ann", "rejected")], False),
    ],
    ids=[
        "the book",
        "never accepted",
        "accepted after a newer book",
        "the book for an hour",
        "the book until a newer one",
        "accepted again",
        "long ago",
    ],
)
def test_a_rejected_snapshot_is_a_problem_if_it_was_the_book(
    tmp_path: Path, decided: Decided, *, is_told: bool
) -> None:
    """A rejected snapshot is a problem for a week if it was the book of its date."""
    nights = [
        night(one, [], state="rejected", is_book=False)
        for one in sorted({snapshot_id for snapshot_id, *_ in decided})
    ]
    at = datetime(2026, 11, 20, 9, tzinfo=UTC)
    files = [
        row(WITHDRAWN, DAY, snapshot_id=OLD, file=file, rejected_by="ann", rejected_at=at)
        for file in ("exports/b.xlsx", "exports/a.csv")
    ]
    found = problems(
        filled(tmp_path, nights, decided={"decisions": decision_rows(decided), "withdrawn": files})
    )
    told = [line for line in found.values() if line["code"] == "taken back"]
    assert bool(told) is is_told
    if is_told:
        assert told[0]["cause"] == f"taken back:{OLD}:2026-11-20T09:00:00+00:00"
        assert told[0]["message"].endswith("Files made from it:\nexports/a.csv\nexports/b.xlsx")


def test_held_nights_are_problems_with_the_book_that_stays(tmp_path: Path) -> None:
    """A held night names the book that stays. Held nights before a newer book are one problem."""
    first = night("20261120T011500Z", [], state="held", is_book=False)
    second = replace(first, snapshot_id=OLD)
    found = problems(
        filled(tmp_path, [first, second, night(NEW, []), replace(first, snapshot_id=LATER)])
    )
    assert {cause: line["title"] for cause, line in found.items()} == {
        f"held:{OLD}": "2 snapshots of 2026-11-20 held, but the date has a newer book",
        f"held:{LATER}": "the night of 2026-11-21 is held",
    }
    assert (
        f"is still {NEW}. You may reject these snapshots: {OLD}, "
        in found[f"held:{OLD}"]["message"]
    )
    later = found[f"held:{LATER}"]
    assert "The book of 2026-11-20 was not changed." in later["message"]
    assert later["command"] == f"nightbook accept {LATER} --dry-run"
    assert later["file"] == f"landing/2026-11-21/{LATER}"


def troubled(tmp_path: Path) -> Layout:
    """Publish a night with a problem of almost every kind."""
    instruments = [{"venue_id": "v9", "instrument_id": "x", "stale_since": date(2026, 11, 18)}]
    instruments += [
        {"venue_id": "v1", "type": "spot", "instrument_id": str(number)} for number in range(100)
    ]
    more: dict[str, list[dict[str, Any]]] = {
        "instruments": instruments,
        "venues": [{"venue_id": "v9"}],
    }
    failed = row(REQUESTS, DAY, snapshot_id=OLD, venue_id="v9", error="status 404", purpose="book")
    drift = [
        row(
            DRIFT,
            DAY,
            snapshot_id=OLD,
            path="data[]",
            kind="unknown field",
            word=str(number),
            seen=1,
        )
        for number in range(7)
    ]
    book = night(OLD, [Amount("1")], more, ops={"requests": [failed], "drift_by_night": drift})
    reconciled = row(RECONCILIATIONS, DAY, reconciliation="ledger", positions_compared=0)
    breaks = [
        row(
            BREAKS,
            DAY,
            reconciliation="ledger",
            break_id=f"B{age}",
            first_seen=seen,
            ever_seen=seen,
            status="Open",
        )
        for age in (0, 7, 8)
        for seen in [DAY - timedelta(days=age)]
    ]
    accepted = {**breaks[0], "break_id": "B", "status": "Explained - accepted"}
    rows = {"reconciliations": [reconciled], "breaks": [*breaks, accepted]}
    last = night(NEW, [], state="complete", is_book=False)
    return filled(tmp_path, [book, last], reconciled=rows)


def test_each_kind_of_problem_has_its_cause(tmp_path: Path) -> None:
    """Each kind of problem has a row with its stored cause, severity, title and command."""
    layout = troubled(tmp_path)
    found = problems(layout)
    assert {cause: (line["severity"], line["title"]) for cause, line in found.items()} == {
        f"unfinished:{NEW}": ("warning", "the night of 2026-11-20 was landed but not judged"),
        "drift:2026-11-20:7": (
            "info",
            "the API sent 7 kinds of data that are not as documented",
        ),
        "stale:v9:2026-11-18": ("warning", "venue v9 could not be read"),
        "round:v1:100": ("info", "a list has a round number of records"),
        "nothing-compared:2026-11-20": ("warning", "the ledger was not compared with any position"),
        "breaks:2026-11-20": ("warning", "3 breaks are open"),
        "breaks-old:2026-11-12": ("warning", "1 break is open since 2026-11-12"),
        "breaks-old:2026-11-13": ("warning", "1 break is open since 2026-11-13"),
    }
    assert found["drift:2026-11-20:7"]["message"].endswith("\nand 2 more")
    assert found["stale:v9:2026-11-18"]["message"].endswith("carried over since then. status 404")
    assert {line["command"].split()[0] for line in found.values()} == {"nightbook"}


@pytest.mark.parametrize(("rejects", "verb"), [(1, "value is"), (320, "values are")])
def test_values_that_are_not_in_the_book_are_a_problem_each_night(
    tmp_path: Path, rejects: int, verb: str
) -> None:
    """The newest book's rejected values are a problem, with a different cause each night."""
    nights = [night(f"202611{day}T021500Z", [Amount("1")]) for day in (19, 20)]
    found = problems(filled(tmp_path, nights, rejects))
    assert found.keys() == {"rejects:20261120T021500Z"}
    [line] = found.values()
    assert line["title"] == f"{rejects} {verb} not in the book of 2026-11-20"


@pytest.mark.parametrize("client", OLDER)
def test_an_older_client_finds_the_same_problems(tmp_path: Path, client: str) -> None:
    """An older DuckDB returns the same rows of the view, with one thread and with several."""
    layout = troubled(tmp_path)
    expected = sorted(problems(layout))
    query = "from (select cause from ops.attention)"
    queries = [(str(threads), f"set threads = {threads}; {query}") for threads in (1, 4)]
    _, said = asked(environments.python(client), layout.database, queries)
    for rows in said.values():
        assert rows == sorted(str([cause]) for cause in expected)
