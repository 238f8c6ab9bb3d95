"""The dead-man's switch: one plain GET after a published night, so that its absence tells.

urllib and not httpx: that is at home where the API is signed for, and this knows nothing of it.
"""

import urllib.request
from collections.abc import Callable
from datetime import timedelta

from assets.home.demo import is_demo
from assets.monitoring.alerts import do_once
from assets.nightbook import Nightbook
from pipelines.landing.night_folders import snapshot_time
from warehouse.query.read import run as ask

TIMEOUT = 10.0
YOUNG = timedelta(hours=20)
Get = Callable[[str], bool]


def plain_get(url: str) -> bool:
    """Whether a GET was answered well; never raises, for the night is published all the same."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310 - settings: http(s)
            return bool(answer.status < 300)  # noqa: PLR2004 - all of 2xx is well
    except (OSError, ValueError):
        return False


def send_heartbeat(nightbook: Nightbook, get: Get = plain_get) -> bool | None:
    """Send a sign of life for a newly published book; None where there is none, or once it was."""
    # Only the newest book counts, as the warehouse that people open shows it, and only within hours
    # of its taking: a rebuild of old nights is no sign of life.
    url, layout = nightbook.settings().heartbeat, nightbook.layout
    if url is None or is_demo(layout) or not layout.database.exists():
        return None
    newest = ask(layout.database, "select max(snapshot_id) from ops.snapshots where is_book")
    snapshot_id = newest.rows[0][0]
    if snapshot_id is None:
        return None
    started = snapshot_time(snapshot_id)
    now = nightbook.now()
    if now - started > YOUNG:
        return None
    return do_once(layout, f"heartbeat:{snapshot_id}", now.isoformat(), lambda: get(url))
