"""Tonight's book: read from the API and landed, with the room that it needs made before."""

import contextlib
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial

from pipelines.edge.client import EdgeClient
from pipelines.edge.sending.attempts import Event
from pipelines.edge.signing import Credentials
from pipelines.lake import lake_manifest
from pipelines.landing import leftovers, snapshots
from pipelines.landing.lock import WriterBusy, the_puller, the_writer
from pipelines.landing.manifest import Manifest
from pipelines.landing.sealed_json import Damaged
from pipelines.landing.zone import PendingSnapshot
from pipelines.night import business_date
from pipelines.pull.pull import Pull
from pipelines.settings import Settings, SettingsWrong
from warehouse.progress import BYTES, Say, Tally, silent
from warehouse.storage.layout import Layout, make_directory


def take(
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
        raise SettingsWrong(("NIGHTBOOK_API_URL is not set.",))
    layout, begun = Layout(settings.home), started or now()
    requests = Tally(say, 0, "requests", BYTES)
    with the_puller(layout, f"taking the snapshot of {business_date(settings, begun)}", begun):
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
                return pull.take(now, access.url, program_version)
        except BaseException:
            pulling.abandon()
            raise


def _sweep(layout: Layout, now: datetime) -> None:
    """Make room, before a night is read: what dead runs left goes, where no writer is at work."""
    make_directory(layout.work)
    leftovers.sweep_pulls(layout)
    with contextlib.suppress(WriterBusy), the_writer(layout, "clearing what dead runs left", now):
        leftovers.sweep(layout)


def _previous_portfolios(layout: Layout, pulling: PendingSnapshot) -> dict[str, bool]:
    """Return the portfolios of the book before; where it is damaged nothing is known of it."""
    with contextlib.suppress(Damaged):
        return lake_manifest.portfolios_before(layout, pulling.snapshot_id, pulling.started_at)
    return {}
