"""The clock for signing requests (§5.3), and parsers for dates and waits in response headers."""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple

from pipelines.edge.response.freshness import MAX_AGE, parse_age
from pipelines.edge.response.refusal import TOO_MANY_REQUESTS

# If the clocks differ by more milliseconds than this, the server's date is wrong, so our clock is
# not corrected.
MAX_CORRECTION = 24 * 3_600_000
# After a correction, timestamps in signatures are at least this many milliseconds behind the
# server's clock, because a server may refuse timestamps from the future. (In one of 12 runs without
# this margin, 5 requests were refused.)
SAFETY_MARGIN = 2_000
# If the skew differs from the last correction by this many milliseconds or more, the clock has
# jumped.
JUMP = 5_000
MAX_CORRECTIONS = 5
# If this machine's clock is wrong by more milliseconds than this, the server's clock determines the
# night's date.
TOLERANCE = 10_000

_RESET_HEADERS = ("ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset")
_SECONDS_PER_DAY = 86_400.0
_NO_AGE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Skew:
    """The offset of the server's clock from this machine's clock, in milliseconds.

    `ahead` is positive if the server's clock is ahead, and may be off by `uncertainty` in either
    direction.
    """

    ahead: int
    uncertainty: int

    @property
    def is_beyond_tolerance(self) -> bool:
        """True if this machine's clock is certainly wrong by more than 10 seconds."""
        return abs(self.ahead) > TOLERANCE + self.uncertainty


class Correction(NamedTuple):
    """The result of trying to correct the clock."""

    can_retry: bool
    is_new: bool  # True if this call changed the clock


class Clock:
    """A Unix clock in milliseconds. Once corrected, it follows the server's clock. Thread-safe."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._corrections = 0
        self._signing_offset = 0
        # The server's clock is ahead of this machine's clock by this many milliseconds. None before
        # the first correction.
        self.offset: int | None = None

    def machine_time(self) -> int:
        """Return this machine's Unix time in milliseconds."""
        return self._clock()

    def corrected_time(self) -> int:
        """Return the current Unix time in milliseconds, by the server's clock if it is known."""
        return self._clock() + (self.offset or 0)

    def offsets(self) -> tuple[int | None, int]:
        """Return the clock correction and the offset for signatures, both in milliseconds."""
        with self._lock:
            return self.offset, self._signing_offset

    def correct(self, skew: Skew | None, signed_with: int | None) -> Correction:
        """Correct the clock after the API refused a timestamp (§5.3).

        `skew` is measured from the response that refused the timestamp, or None if the response has
        no usable date. `signed_with` is the correction with which the refused request was signed.
        The clock does not change if another thread has corrected it since, if the skew is larger
        than 24 hours, if the same skew was corrected before, or after 5 corrections.
        """
        with self._lock:
            # If the offset differs, another thread has corrected the clock since this request was
            # signed, so the request can be retried.
            if self.offset != signed_with:
                return Correction(can_retry=True, is_new=False)
            if skew is None or abs(skew.ahead) > MAX_CORRECTION:
                return Correction(can_retry=False, is_new=False)
            # If the skew has not changed since the last correction, the API refused the timestamp
            # for another reason. Correcting the clock again would repeat the same refusal forever.
            is_same = self.offset is not None and abs(skew.ahead - self.offset) < JUMP
            if is_same or self._corrections == MAX_CORRECTIONS:
                return Correction(can_retry=False, is_new=False)
            self._corrections += 1
            self.offset = skew.ahead
            # Sign with the earliest server time that fits the measurement, minus the safety margin.
            self._signing_offset = skew.ahead - skew.uncertainty - SAFETY_MARGIN
            return Correction(can_retry=True, is_new=True)


def measure_skew(headers: Mapping[str, str], sent: int, received: int) -> Skew | None:
    """Measure the clock skew from a response's `Date` header.

    `sent` and `received` are this machine's time in Unix milliseconds. Returns None if the response
    has no valid `Date`, or if a cache states that the response is more than five minutes old.
    """
    date = parse_http_date(headers.get("date", ""))
    age = parse_age(headers)
    if date is None or (age or _NO_AGE) > MAX_AGE:
        return None
    # The server wrote the date between `sent` and `received`, so the midpoint is off by at most
    # half the round trip. The date has whole seconds, so on average it is half a second behind. A
    # cache states an age in whole seconds, too, which it may have rounded up or down.
    trip, rounding = max(0, received - sent), 500 if age is None else 1500
    now = date + (age or _NO_AGE)
    ahead = int(now.timestamp() * 1000) + 500 - (sent + received) // 2
    return Skew(ahead, rounding + (trip + 1) // 2)


def requested_wait(headers: Mapping[str, str], status: int, received: int) -> float | None:
    """Return how many seconds a response asks the client to wait (§8), or None.

    Reads `Retry-After` or, for status 429, the usual rate limit reset header. Dates are compared
    with the `Date` header of the same response, because our clock may be off. `received`, the
    corrected time in Unix milliseconds, replaces a missing `Date`.
    """
    date = None if parse_age(headers) else parse_http_date(headers.get("date", ""))
    now = date or to_utc(received)
    wait = parse_retry_after(headers.get("retry-after"), now)
    if wait is not None or status != TOO_MANY_REQUESTS:
        return wait
    resets = [headers[name].strip() for name in _RESET_HEADERS if name in headers]
    if not resets or not re.fullmatch(r"[0-9]{1,10}", resets[0]):
        return None
    reset = float(resets[0])
    # Some services send the number of seconds to wait. Other services send the Unix time at which
    # the rate limit is reset.
    wait = reset if reset <= _SECONDS_PER_DAY else reset - now.timestamp()
    return wait if 0 <= wait <= _SECONDS_PER_DAY else None


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Parse a `Retry-After` header into seconds. Return None if it is missing or invalid.

    The value is a number of seconds, or an HTTP date, which is compared with `now`.
    """
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,12}", value.strip()):
        return float(value)
    date = parse_http_date(value)
    return None if date is None else max(0.0, (date - now).total_seconds())


@lru_cache(maxsize=64)
def parse_http_date(text: str) -> datetime | None:
    """Parse an HTTP date as UTC. Return None if it is invalid or not representable in UTC."""
    try:
        date = parsedate_to_datetime(text)
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def to_utc(milliseconds: int) -> datetime:
    """Convert Unix milliseconds to a datetime in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
