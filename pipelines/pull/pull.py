"""Pull one snapshot: every request of a night, in order and concurrently."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

from pipelines.edge.client import EdgeClient
from pipelines.edge.requests import list_portfolios, list_venues
from pipelines.edge.sending.retries import Event
from pipelines.edge.signing import Credentials
from pipelines.lake import lake_manifest
from pipelines.landing import lock, snapshots
from pipelines.landing.lock import WriterBusy, hold_pull_lock, hold_writer_lock
from pipelines.landing.manifest import Manifest, Window
from pipelines.landing.night_folders import Damaged
from pipelines.landing.zone import PendingSnapshot
from pipelines.night import business_date
from pipelines.pull.recheck import Recheck
from pipelines.pull.recorder import PlannedRequest, Recorder
from pipelines.settings import InvalidSettings, Settings
from warehouse.progress import BYTES, Say, Tally, silent
from warehouse.storage.layout import Layout, make_directory

TYPES = ("spot", "future")


class Pull:
    """One snapshot being read.

    `requests` counts what is asked and answered. `known` gives the portfolios of the book before
    and whether each held money: those that are gone are asked for again. `pause` waits some seconds
    before a second read, which the deadline of the client bounds.
    """

    def __init__(
        self,
        client: EdgeClient,
        pulling: PendingSnapshot,
        requests: Tally,
        *,
        known: Callable[[], Mapping[str, bool]] = dict,
        pause: Callable[[float], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pulling, self._known, self._pause = pulling, known, pause
        self._client, self._monotonic = client, monotonic
        self._asking = Recorder(client, pulling, requests)

    def land_all(self, now: Callable[[], datetime], origin: str, program_version: str) -> Manifest:
        """Read everything and land it.

        Raises `EdgeError` when there can be no snapshot; whatever is raised, nothing stays landed.
        """
        asking = self._asking
        try:
            window = self._read()
            return self._pulling.finish(
                now().astimezone(UTC),
                tuple(asking.answers_by_clock(self._pulling.skew)),
                origin=origin,
                program_version=program_version,
                clock_skew_ms=self._skew(),
                signs=asking.notices.all(),
                window=window,
            )
        except BaseException:
            self._pulling.abandon()
            raise

    def _read(self) -> Window:
        asking = self._asking
        portfolios = asking.next_request("portfolios", list_portfolios(integrations=True))
        venues = asking.next_request("venues", list_venues(instruments=True))
        asking.ask([portfolios, venues], required=True)
        read = self._monotonic()
        # All that follows is by that clock: which book is the one before, too.
        if asking.told is not None and asking.told.is_beyond_tolerance:
            self._pulling.correct(asking.told.ahead)
        self._instruments(sorted(asking.embedded))
        closing = Recheck(
            asking,
            portfolios,
            venues,
            self._instruments,
            self._known(),
            since=lambda: self._monotonic() - read,
            left=self._client.seconds_until_deadline,
        )
        return closing.window(self._pause)

    def _skew(self) -> int | None:
        """Return how far the server is ahead in ms; None where nothing was corrected."""
        skew = self._pulling.skew
        return self._asking.skew if skew is None else round(skew.total_seconds() * 1000)

    def _instruments(self, venues: list[str]) -> None:
        """Read both typed lists of these venues, and where they lack something, all."""
        self._asking.ask(list(self._typed_requests(venues)))
        self._asking.ask(list(self._untyped_requests(venues)))

    def _typed_requests(self, venues: list[str]) -> Iterator[PlannedRequest]:
        for venue_id in venues:
            for kind in TYPES:
                asked = self._asking.instruments(venue_id, kind)
                if asked is not None:
                    yield asked

    def _untyped_requests(self, venues: list[str]) -> Iterator[PlannedRequest]:
        """Ask once more, without type, where a venue embeds more than its lists hold."""
        asking = self._asking
        for venue_id in venues:
            embedded = asking.embedded.get(venue_id)
            is_more = embedded is None or bool(embedded - asking.listed.get(venue_id, set()))
            if venue_id not in asking.failed and is_more:
                asked = asking.instruments(venue_id, None)
                if asked is not None:
                    yield asked


def pull_snapshot(
    settings: Settings,
    now: Callable[[], datetime],
    program_version: str,
    say: Say = silent,
    on_event: Callable[[Event], None] | None = None,
    *,
    started: datetime | None = None,
    pause: Callable[[float], None] = time.sleep,
    connect: Callable[..., EdgeClient] = EdgeClient,
) -> Manifest:
    """Read everything from the API and land it as a new snapshot.

    Its date is that of `started` (now, where it is not given), however long it takes; where this
    machine's clock is off, that of the same moment by the server's. `pause` waits some seconds
    before a second read, and `connect` makes the client.

    Raises `EdgeError` when portfolios or venues cannot be read: then nothing is kept, and the
    night is a gap unless it is run again.
    """
    access = settings.access
    if access is None:
        raise InvalidSettings(("NIGHTBOOK_API_URL is not set.",))
    layout, begun = Layout(settings.home), started or now()
    requests = Tally(say, 0, "requests", BYTES)
    with hold_pull_lock(layout, f"taking the snapshot of {business_date(settings, begun)}", begun):
        _sweep(layout, begun)
        pulling = PendingSnapshot(layout, begun, settings.timezone)
        pulling.follows = snapshots.newest(layout)
        try:
            with connect(
                access.url,
                Credentials(access.key, access.secret),
                concurrency=settings.concurrency,
                deadline=settings.deadline,
                clock=lambda: int(now().timestamp() * 1000),
                spool_dir=layout.work,
                on_event=on_event,
                on_bytes=lambda size: requests.add(amount=size),
            ) as client:
                known = partial(_previous_portfolios, layout, pulling)
                pull = Pull(client, pulling, requests, known=known, pause=pause)
                return pull.land_all(now, access.url, program_version)
        except BaseException:
            pulling.abandon()
            raise


def _sweep(layout: Layout, now: datetime) -> None:
    """Make room, before a night is read: what dead runs left goes, where no writer is at work."""
    make_directory(layout.work)
    lock.sweep_pulls(layout)
    with (
        contextlib.suppress(WriterBusy),
        hold_writer_lock(layout, "clearing what dead runs left", now),
    ):
        lock.sweep(layout)


def _previous_portfolios(layout: Layout, pulling: PendingSnapshot) -> dict[str, bool]:
    """Return the portfolios of the book before; where it is damaged nothing is known of it."""
    with contextlib.suppress(Damaged):
        return lake_manifest.portfolios_before(layout, pulling.snapshot_id, pulling.started_at)
    return {}
