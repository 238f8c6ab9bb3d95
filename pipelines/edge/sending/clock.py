"""The clock that requests are signed with: this machine's, corrected to the server's (5.3)."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

# Milliseconds; a clock further off than a day is not a matter of skew.
LARGEST_CORRECTION = 24 * 3_600_000
# Milliseconds by which a corrected request is signed behind the server's clock, at least: a server
# may refuse whatever is ahead of its own (of 12 runs aimed at the measured time, one refused 5).
BEHIND = 2_000
# Milliseconds; a clock that was corrected and is further off again has jumped meanwhile.
STEADY = 5_000
CORRECTIONS = 5
# Milliseconds; a night is dated by the server's clock where this machine's is further off.
TOLERATED = 10_000


@dataclass(frozen=True, slots=True)
class Skew:
    """How far the server's clock is ahead of this machine's, and how far that may be wrong: ms."""

    ahead: int
    doubt: int

    @property
    def is_beyond_tolerance(self) -> bool:
        """Whether this machine's clock is off, whatever the trip took."""
        return abs(self.ahead) > TOLERATED + self.doubt


class Clock:
    """Unix milliseconds, corrected to the server's clock where it asks for it; thread-safe."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._corrections = 0
        self._signing = 0
        # Milliseconds that the server is ahead of this machine; None while none was needed.
        self.offset: int | None = None

    def now(self) -> int:
        """Return the corrected time in Unix milliseconds."""
        return self._clock() + (self.offset or 0)

    def machine(self) -> int:
        """Return this machine's own time in Unix milliseconds."""
        return self._clock()

    def signing(self) -> tuple[int | None, int]:
        """Return the offset in force, and what is added to this machine's time to sign."""
        with self._lock:
            return self.offset, self._signing

    def correct(self, measured: Skew | None, signed_with: int | None) -> tuple[bool, bool]:
        """Take a measured skew, unless the one in force was measured as the same.

        `signed_with` is the offset that the refused request was signed with. Returns whether
        another attempt makes sense, and whether this call made the correction.
        """
        with self._lock:
            # Another thread has corrected the clock since this request was signed: try again with
            # that.
            if self.offset != signed_with:
                return True, False
            if measured is None or abs(measured.ahead) > LARGEST_CORRECTION:
                return False, False
            # The same skew again means that the refusal is not about the clock: correcting it once
            # more would ask for ever. Only one that is further off tells of a clock that has jumped
            # since.
            is_known = self.offset is not None and abs(measured.ahead - self.offset) < STEADY
            if is_known or self._corrections == CORRECTIONS:
                return False, False
            self._corrections += 1
            self.offset = measured.ahead
            # The least that the server's clock can have been when the answer was in.
            self._signing = measured.ahead - measured.doubt - BEHIND
            return True, True


def measured_skew(headers: Mapping[str, str], sent: int, received: int) -> Skew | None:
    """Return how far the server is ahead of us, good to half a second and half the trip.

    None where the answer has no usable `Date`, or an `Age`: then the date is of another time.
    """
    moment = http_date(headers.get("date", ""))
    if moment is None or "age" in headers:
        return None
    # The server wrote its date at some moment between `sent` and `received`; the middle of the two
    # is wrong by half the trip at most. The Date has whole seconds: on average it is half a second
    # behind.
    ahead = int(moment.timestamp() * 1000) + 500 - (sent + received) // 2
    return Skew(ahead, 500 + (received - sent + 1) // 2)


@lru_cache(maxsize=64)
def http_date(text: str) -> datetime | None:
    """Return an HTTP date as UTC, or None where it is none that UTC can have."""
    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def utc(milliseconds: int) -> datetime:
    """Return Unix milliseconds as a UTC datetime."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
