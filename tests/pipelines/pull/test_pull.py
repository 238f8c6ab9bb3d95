"""Tests of pulls over a real loopback socket: requests, landed responses and failures."""

import itertools
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from starlette.types import Receive, Scope, Send

from pipelines.edge.errors import AuthenticationFailed, EdgeError, MalformedResponseError
from pipelines.edge.response.body import Limits
from pipelines.edge.response.envelope import Envelope, raw_records
from pipelines.edge.signing import Credentials
from pipelines.flatten import flatten
from pipelines.landing import zone
from pipelines.landing.manifest import Manifest, Window
from pipelines.pull import pull, recorder
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import DEMO_KEY, DEMO_KEYS, DEMO_SECRET, application, unix_ms
from pipelines.sandbox.world.world import Calendar, LivingWorld, World
from tests.support import clocks, nights
from tests.support.faults.catalog import parse
from tests.support.faults.wire import serve
from tests.support.shared import some_daily
from warehouse.progress import BYTES, Progress, Tally
from warehouse.storage.layout import Layout

DAY = nights.STARTED.date()
VENUES = {str(one["id"]) for one in LivingWorld().at(DAY).venues}
PREFIX = "/edge/v1beta"


class Night:
    """Pulls from a sandbox, with the requests that it received and the reported progress."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.asked: list[str] = []
        self.told: list[Progress] = []
        self._lock = threading.Lock()

    def take(
        self,
        *faults: str,
        world: Calendar = LivingWorld(),  # noqa: B008 - frozen, so calls can share the instance
        secret: str = DEMO_SECRET,
        known: Mapping[str, bool] | None = None,
        pause: Callable[[float], None] = lambda _: None,
        limits: Limits | None = None,
        deadline: float = 60.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        **choices: Any,
    ) -> Manifest:
        """Pull tonight's book from a sandbox with these faults and choices."""
        chosen = [parse(text) for text in faults]
        app = application(
            world,
            DEMO_KEYS,
            unix_ms,
            Choices(**choices),
            chosen,
            today=lambda: DAY,
            rng=random.Random(5),
        )

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            with self._lock:
                query = scope["query_string"].decode()
                self.asked.append(scope["raw_path"].decode() + (f"?{query}" if query else ""))
            await app(scope, receive, send)

        pulling = zone.PendingSnapshot(self.layout, nights.STARTED, ZoneInfo("UTC"))
        requests = Tally(self.told.append, 0, "requests", BYTES)
        with (
            serve(watched, faults=chosen) as served,
            clocks.connect(
                served.origin,
                Credentials(DEMO_KEY, secret),
                deadline=deadline,
                clock=lambda: int(now().timestamp() * 1000),
                limits=limits,
                on_bytes=lambda size: requests.add(amount=size),
            ) as client,
        ):
            taking = pull.Pull(client, pulling, requests, known=lambda: known or {}, pause=pause)
            return taking.land_all(now, served.origin, "0")


@pytest.fixture
def night(layout: Layout) -> Night:
    """Return a night that has not been pulled yet."""
    return Night(layout)


def _paths(venues: Iterable[str], encode: Callable[[str], str] = lambda one: one) -> set[str]:
    return {
        f"{PREFIX}/venues/{encode(venue)}/instruments?type={kind}"
        for venue in venues
        for kind in ("spot", "future")
    }


def test_a_night_lands_both_lists_and_all_instruments(night: Night) -> None:
    """A night lands both lists with `include`, and the instruments of every venue by type.

    At the end, both lists are read without `include`. These responses are only compared, not
    stored.
    """
    manifest = night.take()
    lists = {f"{PREFIX}/portfolios?include=integrations", f"{PREFIX}/venues?include=instruments"}
    closing = {f"{PREFIX}/portfolios", f"{PREFIX}/venues"}
    assert sorted(night.asked) == sorted(
        lists
        | closing
        | {
            path.replace("north sea/otc desk", "north%20sea%2Fotc%20desk")
            for path in _paths(VENUES)
        }
    )
    assert [answer.request_no for answer in manifest.answers] == list(range(1, 29))
    assert {answer.path for answer in manifest.answers if answer.file is None} == closing
    assert manifest.window == Window("still")
    assert len(manifest.book) == 26
    for answer in manifest.book:
        assert (answer.status, answer.attempts, answer.error) == (200, 1, None)
        assert len(zone.body(night.layout, manifest, answer)) == answer.byte_count
    assert f"{PREFIX}/venues?include=instruments" in {
        f"{answer.path}?{answer.query}" for answer in manifest.answers
    }


def test_progress_counts_requests_and_bytes(night: Night) -> None:
    """Progress never decreases, and ends with the number of all requests and bytes."""
    manifest = night.take()
    counts = [(one.done, one.known, one.amount) for one in night.told]
    for before, after in itertools.pairwise(counts):
        assert all(now >= then for then, now in zip(before, after, strict=True))
    assert {one.done for one in night.told} == set(range(29))
    size = sum(answer.byte_count or 0 for answer in manifest.answers)
    assert counts[-1] == (28, 28, size)
    assert night.told[-1].words == f"28 of 28 requests, {size / 1e6:,.1f} MB"


def test_two_pulls_use_identical_request_numbers_and_file_names(layout: Layout) -> None:
    """Two pulls of the same world number their requests and name their files identically."""
    first, second = (
        [(one.request_no, one.path, one.query, one.file) for one in Night(layout).take().answers]
        for _ in range(2)
    )
    assert first == second


def test_a_venue_that_fails_does_not_stop_the_night(night: Night) -> None:
    """The requests for a venue that fails have an error and no file. All others are landed."""
    manifest = night.take("access-denied-400,path=/venues/kestrel/*")
    assert flatten.failed_venues(manifest) == {"kestrel"}
    assert flatten.whole_venues(manifest) == VENUES - {"kestrel"}
    failed = [answer for answer in manifest.answers if answer.error is not None]
    assert [(one.venue_id, one.status, one.byte_count) for one in failed] == [
        ("kestrel", 400, None)
    ] * 2
    assert all("ACCESS_DENIED" in str(one.error) for one in failed)


@pytest.mark.parametrize("fault", ["500", "access-denied-400", "json-cut", "meta-missing"])
@pytest.mark.parametrize("path", ["/portfolios", "/venues"])
def test_an_unreadable_portfolio_or_venue_list_lands_nothing(
    night: Night, fault: str, path: str
) -> None:
    """If either list cannot be read, the pull lands nothing and raises an error with its path."""
    with pytest.raises(EdgeError, match=path):
        night.take(f"{fault},path={path}")
    assert [path for path in night.layout.landing.rglob("*") if path.is_file()] == []
    assert list(night.layout.landing.iterdir()) == []


def test_a_refused_key_ends_the_night_at_once(night: Night) -> None:
    """A wrong secret ends the night after at most two requests, and nothing is landed."""
    with pytest.raises(AuthenticationFailed):
        night.take(secret="wrong")
    assert len(night.asked) <= 2
    assert list(night.layout.landing.iterdir()) == []


def test_a_key_refused_in_the_middle_ends_the_night(night: Night) -> None:
    """If the key is refused in the middle of a pull, nothing is landed, so the night is a gap."""
    with pytest.raises(AuthenticationFailed):
        night.take("authentication-failed,path=/venues/*")
    assert list(night.layout.landing.iterdir()) == []


def test_a_failed_pull_lands_nothing(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any other error, such as a full disk, nothing remains in the landing zone."""

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zone.PendingSnapshot, "land", full)
    with pytest.raises(OSError, match="No space"):
        night.take()
    assert list(night.layout.landing.iterdir()) == []


def test_an_unknown_instrument_type_adds_an_untyped_request(night: Night) -> None:
    """A venue that embeds an instrument of an undocumented type is also read without a type.

    All other venues are read only by type.
    """
    manifest = night.take("instrument-type-unknown,venue=kestrel")
    more = [answer for answer in manifest.answers if answer.venue_id and not answer.query]
    assert [answer.venue_id for answer in more] == ["kestrel"]
    part = flatten.flatten_venues(night.layout, manifest)
    rows = nights.rows_of(night.layout.staged_file("instruments", manifest.snapshot_id))
    options = [row for row in rows if row["type"] == "option"]
    assert [row["venue_id"] for row in options] == ["kestrel"]
    assert ("kestrel", options[0]["instrument_id"], "typed lists") in part.listings
    assert not any(total.differs for total in part.totals)


def test_no_untyped_request_follows_a_failed_typed_list(night: Night) -> None:
    """If a typed list of a venue failed, the venue is not requested without a type.

    Without both typed lists, the pull cannot tell if an embedded instrument is missing from them.
    """
    night.take("500,path=/venues/kestrel/instruments,count=5")
    assert f"{PREFIX}/venues/kestrel/instruments" not in night.asked


@pytest.mark.parametrize("broken", [{"instruments": [{}]}, {"instruments": 7}, {"type": None}])
def test_instruments_of_an_invalid_venue_are_still_read(
    night: Night, broken: dict[str, Any]
) -> None:
    """The instruments of a venue are read even if its record violates the contract."""
    world = LivingWorld().at(DAY)
    venues = tuple({**one, **broken} if one["id"] == "kestrel" else one for one in world.venues)
    manifest = night.take(world=World(world.portfolios, venues, world.instruments))
    assert "kestrel" in flatten.whole_venues(manifest)


def test_missing_embedded_instruments_add_untyped_requests(night: Night) -> None:
    """If venues do not embed their instruments despite `include`, all are also read without a type.

    Otherwise, an instrument of a new type would be missed, because neither typed list contains it
    (2.6, 4.5).
    """
    manifest = night.take("instruments-untold,path=/venues")
    untyped = {path for path in night.asked if path.endswith("/instruments")}
    assert len(untyped) == len(VENUES)
    assert flatten.whole_venues(manifest) == VENUES
    part = flatten.flatten_venues(night.layout, manifest)
    assert part.listings == []


def test_hostile_venue_ids_are_sent_exactly_or_fail(night: Night) -> None:
    """Venue IDs are sent exactly. If an ID cannot be in a path, that venue fails with an error."""
    manifest = night.take("hostile-ids")
    refused = {"..", ".", "tab\there"}
    assert flatten.failed_venues(manifest) == refused
    assert "a/b?c#d" in flatten.whole_venues(manifest)
    assert f"{PREFIX}/venues/a%2Fb%3Fc%23d/instruments?type=spot" in night.asked
    told = [answer for answer in manifest.answers if answer.venue_id in refused]
    assert all("it cannot be sent unchanged" in str(answer.error) for answer in told)
    rows = flatten.flatten_venues(night.layout, manifest).tables
    assert rows["venues"].rows == len(VENUES) + 12


def test_meta_that_looks_like_paging_gives_a_notice(night: Night) -> None:
    """A cursor or a total in `meta` gives notices that name the operation.

    The document does not describe paging.
    """
    manifest = night.take("meta-cursor,path=/portfolios")
    assert manifest.notices == (
        "meta.nextCursor: says that there is more (list_portfolios)",
        "meta.total: says another number of records than came (list_portfolios)",
    )
    assert tuple(notice.text for notice in manifest.signs) == manifest.notices
    assert night.take().notices == ()


def test_a_null_record_does_not_stop_a_pull(night: Night) -> None:
    """A null record is landed unchanged, and flattening rejects it."""
    manifest = night.take("record-null")
    rows, parts = nights.staged(night.layout, manifest)
    assert len(rows["portfolios"]) == len(LivingWorld().at(DAY).portfolios)
    told = nights.noted(parts, "rejects")
    assert {one["value"] for one in told} == {"null"}
    assert any(one["carries_money"] for one in told)


def test_a_venue_list_nested_too_deeply_fails_the_pull(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the list of venues is nested too deeply to be split, the pull fails and lands nothing."""
    monkeypatch.setattr(recorder, "raw_records", _too_deep_in(b'"resource":"venue"'))
    with pytest.raises(MalformedResponseError, match="nested too deeply"):
        night.take()
    assert list(night.layout.landing.iterdir()) == []


def test_instruments_nested_too_deeply_fail_only_their_venue(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the instruments of a venue are nested too deeply to be split, only that venue fails."""
    monkeypatch.setattr(recorder, "raw_records", _too_deep_in(b'"feedId":"kestrel:'))
    manifest = night.take()
    assert flatten.failed_venues(manifest) == {"kestrel"}
    told = [answer.error for answer in manifest.answers if answer.error is not None]
    assert all("nested too deeply" in str(error) for error in told)


def _too_deep_in(mark: bytes) -> Callable[[Envelope], Any]:
    split = raw_records

    def deep(envelope: Envelope) -> Any:
        if mark in bytes(envelope.data):
            raise RecursionError
        return split(envelope)

    return deep


@pytest.mark.parametrize(
    "choices",
    some_daily(
        [
            {"optional_as_null": True},
            {"datetimes": "nanoseconds"},
            {"datetimes": "offset"},
            {"amounts": "exponent"},
            {"amounts": "padded"},
            {"order": "sorted"},
        ],
        3,
    ),
)
def test_undocumented_choices_change_no_row_count_or_sum(
    night: Night, choices: dict[str, Any]
) -> None:
    """Nulls for absent fields, different formats and sorted lists give the same counts and sums."""
    base = Night(night.layout)
    plain_rows, plain_parts = nights.staged(night.layout, base.take())
    rows, parts = nights.staged(night.layout, night.take(**choices))
    assert {name: len(several) for name, several in rows.items()} == {
        name: len(several) for name, several in plain_rows.items()
    }
    assert parts["portfolios"]["totals"] == plain_parts["portfolios"]["totals"]
    assert nights.differing(parts) == []
    assert nights.noted(parts, "rejects") == []
