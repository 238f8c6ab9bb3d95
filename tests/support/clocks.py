"""Time for tests that wait: it passes at once, and all that is bounded by it ends as it would."""

import threading
import time
from functools import partial
from typing import Any

from pipelines.edge.client import EdgeClient


class Skipping:
    """A clock that runs on, and jumps over every wait instead of waiting."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Return the seconds that have passed, the skipped ones too."""
        return time.monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        """Let these seconds be over."""
        with self._lock:
            self._skipped += seconds


def connect(*arguments: Any, **settings: Any) -> EdgeClient:
    """Make a client that waits between attempts in no time, up to its deadline."""
    clock = Skipping()
    make = partial(EdgeClient, monotonic=clock.monotonic, sleep=clock.sleep, rng=lambda: 0.5)
    return make(*arguments, **settings)
