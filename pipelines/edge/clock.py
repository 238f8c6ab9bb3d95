"""The clock that requests are signed with: this machine's, corrected once to the server's (5.3)."""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LARGEST_CORRECTION = 24 * 3_600_000
"""Milliseconds; a clock further off than a day is not a matter of skew."""


class Clock:
    """Unix milliseconds, with at most one correction in its life; shared by threads."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.offset: int | None = None
        """Milliseconds added to this machine's clock; None while nothing was corrected."""

    def now(self) -> int:
        """The corrected time in Unix milliseconds."""
        return self._clock() + (self.offset or 0)

    def machine(self) -> int:
        """This machine's own time in Unix milliseconds."""
        return self._clock()

    def correct(self, measured: int | None, signed_with: int | None) -> tuple[bool, bool]:
        """Take a measured offset, unless one was taken already.

        `signed_with` is the offset that the refused request was signed with. Returns whether
        another attempt makes sense, and whether this call made the correction.
        """
        with self._lock:
            if self.offset is not None:
                return self.offset != signed_with, False
            if measured is None or abs(measured) > LARGEST_CORRECTION:
                return False, False
            self.offset = measured
            return True, True


def measured_offset(headers: Mapping[str, str], sent: int, received: int) -> int | None:
    """How far the server is ahead of us in milliseconds, good to half a second and half the trip.

    None where the answer has no usable `Date`, or an `Age`: then the date is of another time.
    """
    moment = http_date(headers.get("date", ""))
    if moment is None or "age" in headers:
        return None
    # The Date has whole seconds: on average it is half a second behind.
    return int(moment.timestamp() * 1000) + 500 - (sent + received) // 2


def http_date(text: str) -> datetime | None:
    """An HTTP date as UTC, or None where it is none that UTC can have."""
    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def utc(milliseconds: int) -> datetime:
    """Unix milliseconds as a UTC datetime."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
