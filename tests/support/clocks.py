"""A clock for tests that wait: waits take no time, but deadlines end as in real time."""

import threading
import time
from functools import partial
from typing import Any

from pipelines.edge.client import EdgeClient


class Skipping:
    """A running clock that skips every wait."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Return the seconds that have passed, including the skipped ones."""
        return time.monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        """Skip these seconds."""
        with self._lock:
            self._skipped += seconds


def connect(*arguments: Any, **settings: Any) -> EdgeClient:
    """Create a client that skips its waits between attempts, but ends at its deadline."""
    clock = Skipping()
    make = partial(EdgeClient, monotonic=clock.monotonic, sleep=clock.sleep, rng=lambda: 0.5)
    return make(*arguments, **settings)
