"""Tests of history and of the as-of macros, which return the rows of each night itself."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.books import Amount, Night, night, published
from warehouse.contract.book import BOOK
from warehouse.sql import catalog
from warehouse.storage.layout import Layout

FIRST = date(2026, 11, 1)
KINDS = ("book", "book", "book", "gap", "held", "twice", "again")
TEXTS = ("0", "1.50", "-2e3", "1e30", "0.000000000000000001", "99999999999999999999.5", "1e-19")
PARTS = (("trading", "free"), ("trading", "locked"), ("staking", "locked"), ("invented", "free"))
AS_OF = ("balances", *catalog.AS_OF)
Answers = dict[str, list[tuple[Any, ...]]]


def ask(layout: Layout, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on the published database file."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        return connection.execute(query).fetchall()


def drawn(rng: Random, snapshot_id: str, **about: Any) -> Night:
    """Return a random night, in which any row may be missing and names and states vary."""
    amounts = {}
    for portfolio in ("p1", "p2", "p3"):
        for _ in range(rng.choice((0, 2, 3))):
            bucket, state = rng.choice(PARTS)
            amount = Amount(
                rng.choice(TEXTS),
                portfolio,
                rng.choice(("BTC", "ETH")),
                rng.choice(("v1", "v2")),
                rng.choice(("main", "cold")),
                bucket,
                state,
                custom=rng.random() < 0.2,
            )
            amounts[replace(amount, text="")] = amount
    made = night(snapshot_id, amounts.values(), _more(rng), **about)
    rows = {name: [_called(rng, name, line) for line in lines] for name, lines in made.rows.items()}
    linked = [line["portfolio_id"] for line in rows["integrations"]]
    for line in rows["portfolios"]:
        count = linked.count(line["portfolio_id"])
        line["integration_count"] = count if count or rng.random() < 0.5 else None
    known = {line["portfolio_id"] for line in rows["portfolios"]}
    rows["integrations"] = [one for one in rows["integrations"] if one["portfolio_id"] in known]
    return replace(made, rows=rows)


def _more(rng: Random) -> dict[str, list[dict[str, Any]]]:
    expires = datetime(2026, 12, 25, 8, tzinfo=UTC)
    return {
        "integrations": [
            {
                "portfolio_id": portfolio,
                "integration_id": f"i{number}",
                "venue_id": f"v{number}",
                "status": rng.choice(("requested", "verified")),
            }
            for number, portfolio in enumerate(("p1", "p2", "p3"))
            if rng.random() < 0.7
        ],
        "venues": [{"venue_id": "v9", "display_name": rng.choice((None, "Nine"))}],
        "venue_types": [
            {"venue_id": "v9", "type": kind} for kind in ("otc", "exchange") if rng.random() < 0.5
        ],
        "instruments": [
            {
                "venue_id": "v9",
                "instrument_id": name,
                "display_name": name,
                "min_price": rng.choice((None, 1, 2)),
                "expiration": rng.choice((None, expires)),
            }
            for name in ("BTC-EUR", "ETH-EUR")
            if rng.random() < 0.8
        ],
    }


def _called(rng: Random, table: str, line: dict[str, Any]) -> dict[str, Any]:
    if table == "portfolios":
        return line | {"name": rng.choice((None, "Old", "Old", "New"))}
    if table == "venues":
        return line | {"trading_status": rng.choice(("trading", "trading", "suspended"))}
    return line


@dataclass(slots=True)
class Month:
    """The nights that were published, and the rows of each book when it was the newest."""

    layout: Layout
    alone: Callable[[], Layout]
    nights: dict[str, Night]
    own: dict[date, Answers]
    versions: int = 0

    def publish(self, *made: Night) -> None:
        """Publish nights. An accepted night replaces the book of its date."""
        for one in made:
            for known in list(self.nights.values()):
                if one.is_book and known.day == one.day:
                    self.nights[known.snapshot_id] = replace(known, is_book=False)
            self.nights[one.snapshot_id] = one
        self.versions += 1
        published(self.layout, self.nights.values(), f"v{self.versions:03}")
        for one in made:
            if one.is_book:
                self.own[one.day] = self._said(one)

    def _said(self, one: Night) -> Answers:
        layout = self.layout
        if one.day != max(self.own, default=one.day) and one.day in self.own:
            layout = self.alone()
            published(layout, [one], "a")
        return {name: ask(layout, f"from {name} order by all") for name in AS_OF}

    @property
    def books(self) -> dict[date, Night]:
        """The book of each date that has one, in order of the dates."""
        books = {one.day: one for one in self.nights.values() if one.is_book}
        return dict(sorted(books.items()))


def lived(month: Month, kinds: Iterable[str], rng: Random) -> None:
    """Publish the nights of a month, one after the other, in the order in which they occur."""
    for number, kind in enumerate(kinds):
        day = FIRST + timedelta(days=number)
        made = drawn(rng, f"{day:%Y%m%d}T021500Z")
        if kind == "held":
            month.publish(replace(made, state="held", is_book=False))
        elif kind == "twice":
            month.publish(made, drawn(rng, f"{day:%Y%m%d}T041500Z"))
        elif kind != "gap":
            month.publish(made)
        if kind == "again" and month.own:
            old = rng.choice(sorted(month.own))
            month.publish(drawn(rng, f"{old:%Y%m%d}T{5 + number % 18:02}{number:02}00Z"))


MONTHS = st.lists(st.sampled_from(KINDS), min_size=30, max_size=30)
EVERYTHING = ["gap", *("book", "twice", "gap", "again", "held") * 2, "book"]


@pytest.fixture
def months(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Layout]:
    """Return a function that creates a new home on each call."""
    return lambda: Layout(tmp_path_factory.mktemp("month"))


@pytest.mark.torture
def test_as_of_macros_return_the_rows_of_each_night(months: Callable[[], Layout]) -> None:
    """For every date, the as-of macros return the rows of the night itself.

    This is true after nights that were held, superseded, repeated or missing.
    """
    _hold(months, EVERYTHING, Random(5))


@pytest.mark.torture
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(MONTHS, st.integers(0, 10**6))
@example(["book"] * 30, 1)
def test_as_of_macros_return_the_rows_of_each_night_in_any_month(
    months: Callable[[], Layout], kinds: list[str], seed: int
) -> None:
    """The as-of macros return the rows of each night itself, in months of any kinds of nights."""
    _hold(months, kinds, Random(seed))


def _hold(months: Callable[[], Layout], kinds: list[str], rng: Random) -> None:
    month = Month(months(), months, {}, {})
    lived(month, kinds, rng)
    if not month.nights:
        return
    for number in range(-1, len(kinds) + 2):
        day = FIRST + timedelta(days=number)
        book = max((one for one in month.books if one <= day), default=None)
        for name in AS_OF:
            query = f"from {name}_as_of('{day}') order by all"
            if book is None:
                with pytest.raises(
                    duckdb.InvalidInputException, match=f"no book on or before {day}"
                ):
                    ask(month.layout, query)
            else:
                assert ask(month.layout, query) == month.own[book][name], (name, day)
        for table in BOOK:
            found = ask(
                month.layout,
                f"select {', '.join(table.names)} from history.{table.name} "
                f"where snapshot_date = '{day}'",
            )
            made = month.books[day].rows[table.name] if day in month.books else []
            given = [tuple(line[name] for name in table.names) for line in made]
            assert Counter(found) == Counter(given), (table.name, day)
    for view in HISTORIES:
        _require_history(month, view)


@dataclass(frozen=True, slots=True)
class History:
    """A history view: its key, its state, and how to find the state of each key in a night."""

    key: tuple[str, ...]
    state: tuple[str, ...]
    told: Callable[[Night], dict[tuple[Any, ...], tuple[Any, ...]]]
    is_silent: Callable[[Night, tuple[Any, ...]], bool] = lambda _night, _key: False


def _rows(table: str, key: tuple[str, ...], state: tuple[str, ...]) -> History:
    def told(one: Night) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return {
            tuple(line[name] for name in key): tuple(line[name] for name in state)
            for line in one.rows[table]
        }

    return History(key, state, told)


def _venues(one: Night) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    found = {}
    for line in one.rows["venues"]:
        kinds = sorted(
            kind["type"] for kind in one.rows["venue_types"] if kind["venue_id"] == line["venue_id"]
        )
        found[(line["venue_id"],)] = (
            line["display_name"],
            line["trading_status"],
            ", ".join(kinds) or None,
        )
    return found


def _says_nothing(one: Night, key: tuple[Any, ...]) -> bool:
    return any(
        line["portfolio_id"] == key[0] and line["integration_count"] is None
        for line in one.rows["portfolios"]
    )


_TERMS = next(table for table in BOOK if table.name == "instruments").names[3:-3]
HISTORIES: Mapping[str, History] = {
    "portfolio_history": _rows("portfolios", ("portfolio_id",), ("name",)),
    "venue_history": History(("venue_id",), ("display_name", "trading_status", "types"), _venues),
    "instrument_history": _rows("instruments", ("venue_id", "instrument_id"), _TERMS),
    "integration_history": replace(
        _rows("integrations", ("portfolio_id", "integration_id"), ("venue_id", "status")),
        is_silent=_says_nothing,
    ),
}
DATED = ("valid_from", "valid_to", "is_current", "nights", "changed_after", "change")


def _require_history(month: Month, view: str) -> None:
    history = HISTORIES[view]
    told = {day: (one, history.told(one)) for day, one in month.books.items()}
    keys = {key for _, states in told.values() for key in states}
    wanted = [
        row
        for key in keys
        for row in _stretches(
            {
                day: states.get(key)
                for day, (one, states) in told.items()
                if not history.is_silent(one, key)
            },
            key,
            max(told),
        )
    ]
    columns = ", ".join((*history.key, *history.state, *DATED))
    assert Counter(ask(month.layout, f"select {columns} from {view}")) == Counter(wanted), view


def _stretches(
    states: Mapping[date, tuple[Any, ...] | None], key: tuple[Any, ...], newest: date
) -> list[tuple[Any, ...]]:
    """Return the expected periods of one key from its state on each night, or None if missing."""
    found: list[tuple[tuple[Any, ...], list[date], date | None, str]] = []
    previous = None
    is_gone = True
    for day, state in states.items():
        if state is not None:
            change = "changed"
            if not found:
                change = "first" if previous is None else "new"
            elif is_gone:
                change = "back"
            if found and not is_gone and found[-1][0] == state:
                found[-1][1].append(day)
            else:
                found.append((state, [day], previous, change))
        is_gone = state is None
        previous = day
    return [
        (*key, *state, days[0], days[-1], days[-1] == newest, len(days), before, change)
        for state, days, before, change in found
    ]


def test_a_history_describes_its_changes(tmp_path: Path) -> None:
    """`what_changed` describes a new portfolio name, a suspended venue and new instrument terms."""
    old, new = (
        night(f"202611{day}T021500Z", [Amount("1")], {"instruments": [_listed(price)]})
        for day, price in ((18, 1), (20, None))
    )
    called = [line | {"name": "Growth -> Gone; x"} for line in new.rows["portfolios"]]
    closed = [line | {"trading_status": "suspended"} for line in new.rows["venues"]]
    new = replace(new, rows={**new.rows, "portfolios": called, "venues": closed})
    layout = Layout(tmp_path)
    published(layout, [old, new], "a")
    words = {view: ask(layout, f"select what_changed from {view} order by 1") for view in HISTORIES}
    assert words == {
        "portfolio_history": [("name: Portfolio p1 -> Growth -> Gone; x",), (None,)],
        "venue_history": [("trading_status: trading -> suspended",), (None,)],
        "instrument_history": [("min_price: 1 -> not stated",), (None,)],
        "integration_history": [],
    }
    query = "select changed_after, valid_from from portfolio_history where change = 'changed'"
    assert ask(layout, query) == [(date(2026, 11, 18), date(2026, 11, 20))]


def test_a_new_name_does_not_begin_a_new_period(tmp_path: Path) -> None:
    """Each row has names next to its IDs, from the last night that has these names.

    Only a change of state begins a new period, and a new name does not.
    """
    bound = {"portfolio_id": "p1", "integration_id": "i1", "venue_id": "v1", "status": "active"}
    more = {"instruments": [_listed(1)], "integrations": [bound]}
    days = (18, 19, 20)
    nights = [night(f"202611{day}T021500Z", [Amount("1")], more) for day in days]
    for one, name in zip(nights, ("Value", "Growth", "Growth"), strict=True):
        one.rows["portfolios"][0] |= {"integration_count": 1, "name": name}
    nights[2].rows["venues"][0]["display_name"] = None
    layout = Layout(tmp_path)
    published(layout, nights, "a")
    query = "select nights, portfolio_name, venue_name from integration_history"
    assert ask(layout, query) == [(3, "Growth", "Venue v1")]
    assert ask(layout, "select nights, venue_name from instrument_history") == [(3, "Venue v1")]


def _listed(price: int | None) -> dict[str, Any]:
    return {"venue_id": "v1", "instrument_id": "BTC-EUR", "min_price": price}
