"""The calls that make one snapshot: portfolios, venues, instruments per type.

Portfolios and venues must be read, or there is no snapshot. A venue whose instruments cannot be
read does not stop the night: the failed request is in the manifest, and its last good rows are
carried over later. At the end both lists are read once more (`pipelines.pull.recheck`).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from pipelines.edge.client import EdgeClient
from pipelines.edge.requests import list_portfolios, list_venues
from pipelines.landing.manifest import Manifest, Window
from pipelines.landing.zone import PendingSnapshot
from pipelines.pull.recheck import Recheck
from pipelines.pull.recorder import PlannedRequest, Recorder
from warehouse.progress import Tally

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

    def take(self, now: Callable[[], datetime], origin: str, program_version: str) -> Manifest:
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
