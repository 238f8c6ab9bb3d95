"""Pulling one snapshot from the API: reading all lists, rechecking them, and landing them."""

import contextlib
import time
from collections.abc import Callable, Mapping
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
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.zone import PendingSnapshot
from pipelines.night import business_date
from pipelines.pull.recheck import Recheck
from pipelines.pull.recorder import Recorder
from pipelines.settings import InvalidSettings, Settings
from warehouse.progress import BYTES, ProgressCallback, Tally, silent
from warehouse.storage.layout import Layout, make_directory

TYPES = ("spot", "future")


class Pull:
    """The steps that pull one snapshot: read all lists, recheck them, and land the responses.

    `requests` counts requests and responses. `known` maps each portfolio of the previous book to
    whether it had money, because missing portfolios are requested by ID. `pause` waits for a number
    of seconds before a second read, but not beyond the client's deadline.
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
        self._recorder = Recorder(client, pulling, requests, pause)

    def land_all(self, now: Callable[[], datetime], origin: str, program_version: str) -> Manifest:
        """Read all lists from the API, and land the responses as a snapshot.

        Raises `EdgeError` if no snapshot can be taken. After an error, nothing remains in the
        landing zone.
        """
        session = self._recorder
        try:
            window = self._read()
            return self._pulling.finish(
                now().astimezone(UTC),
                tuple(session.answers_by_clock(self._pulling.skew)),
                origin=origin,
                program_version=program_version,
                clock_skew_ms=self._skew(),
                signs=session.notices.all(),
                window=window,
            )
        except BaseException:
            self._pulling.abandon()
            raise

    def _read(self) -> Window:
        """Read all lists, then recheck them. Return the result of the recheck."""
        session = self._recorder
        portfolios = session.next_request("portfolios", list_portfolios(integrations=True))
        venues = session.next_request("venues", list_venues(instruments=True))
        session.send([portfolios, venues], required=True)
        read = self._monotonic()
        # If this machine's clock is wrong, use the server's clock from here on, even to choose the
        # previous book.
        if session.told is not None and session.told.is_beyond_tolerance:
            self._pulling.correct(session.told.ahead)
        self._instruments(sorted(session.embedded))
        closing = Recheck(
            session,
            portfolios,
            venues,
            self._instruments,
            self._known(),
            since=lambda: self._monotonic() - read,
            left=self._client.seconds_until_deadline,
        )
        return closing.window(self._pause)

    def _skew(self) -> int | None:
        """Return how many milliseconds the server's clock is ahead, or None if this is unknown."""
        skew = self._pulling.skew
        return self._recorder.skew if skew is None else round(skew.total_seconds() * 1000)

    def _instruments(self, venues: list[str]) -> None:
        """Read these venues' instruments by type, then in a single list if any are missing."""
        plan = self._recorder.instruments
        typed = [plan(venue_id, kind) for venue_id in venues for kind in TYPES]
        self._recorder.send(filter(None, typed))
        untyped = [plan(venue_id, None) for venue_id in venues if self._has_more(venue_id)]
        self._recorder.send(filter(None, untyped))

    def _has_more(self, venue_id: str) -> bool:
        """Return whether a venue's typed lists could be read, but may be missing instruments."""
        session = self._recorder
        embedded = session.embedded.get(venue_id)
        is_more = embedded is None or bool(embedded - session.listed.get(venue_id, set()))
        return venue_id not in session.failed and is_more


def pull_snapshot(
    settings: Settings,
    now: Callable[[], datetime],
    program_version: str,
    say: ProgressCallback = silent,
    on_event: Callable[[Event], None] | None = None,
    *,
    started: datetime | None = None,
    pause: Callable[[float], None] = time.sleep,
    connect: Callable[..., EdgeClient] = EdgeClient,
) -> Manifest:
    """Read all lists from the API, and land the responses as a new snapshot.

    The snapshot's date is the date of `started` (default: now), even if the pull ends on the next
    day. If this machine's clock is wrong, the server's clock determines that date. `pause` waits
    for a number of seconds, for example before a second read, and `connect` creates the client.

    Raises `EdgeError` if portfolios or venues cannot be read. In that case, nothing is stored, and
    the night remains a gap unless the pull is run again.
    """
    access = settings.access
    if access is None:
        raise InvalidSettings(("NIGHTBOOK_API_URL is not set.",))
    layout, begun = Layout(settings.home), started or now()
    operation = f"pulling the snapshot of {business_date(settings, begun)}"
    requests = Tally(say, 0, "requests", BYTES)
    with hold_pull_lock(layout, operation, begun, pause):
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
                ca_file=access.ca_file,
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
    """Delete the files of killed pulls and, unless a writer is active, of all other killed runs."""
    make_directory(layout.work)
    lock.sweep_pulls(layout)
    doing = "deleting files of killed runs"
    with contextlib.suppress(WriterBusy), hold_writer_lock(layout, doing, now):
        lock.sweep(layout)


def _previous_portfolios(layout: Layout, pulling: PendingSnapshot) -> dict[str, bool]:
    """Map the last book's portfolios to whether each held money. Return {} for a damaged book."""
    with contextlib.suppress(DamagedFile):
        return lake_manifest.portfolios_before(layout, pulling.snapshot_id, pulling.started_at)
    return {}
