"""What an error of the API means, code first and status second, and how long to wait after it.

Full jitter keeps many callers from knocking at once; a budget for the whole client keeps retries
from multiplying an outage.
"""

import enum
import re
import threading
from dataclasses import dataclass
from datetime import datetime

from pipelines.edge.errors import (
    AccessRefused,
    ApiError,
    ClockRefused,
    EdgeError,
    KeyRefused,
    Misread,
    NotFound,
    Refused,
    RequestRefused,
    ServerFailed,
    UnknownRefusal,
    Unreachable,
)
from pipelines.edge.sending.clock import http_date

ATTEMPTS = 5
TOO_MANY = 429
# Attempts at an answer that breaks the document: the second tells a torn one from a wrong one.
MISREADS = 2
BASE, CAP = 0.5, 60.0
# Seconds of `Retry-After` that are honoured where no deadline bounds the waiting.
LONGEST_WAIT = 60.0
# Times that a list which the night can do without is told to wait while others are answered.
REFUSALS = 30

# The most severe first: where several entries apply, the first of these decides.
_CODES: dict[str, type[Refused]] = {
    "AUTHENTICATION_FAILED": KeyRefused,
    "ACCESS_DENIED": AccessRefused,
    "TIMESTAMP_INVALID": ClockRefused,
    "PARAMETER_UNSUPPORTED": RequestRefused,
    "PARAMETER_VALUE_INVALID": RequestRefused,
    "PARAMETER_INVALID": RequestRefused,
    "METHOD_UNSUPPORTED": RequestRefused,
    "RESOURCE_NOT_FOUND": NotFound,
    "INTERNAL_SERVER_ERROR": ServerFailed,
}
_STATUSES: dict[int, type[Refused]] = {
    401: KeyRefused,
    404: NotFound,
    408: ServerFailed,
    TOO_MANY: ServerFailed,
}


def refusal(where: str, status: int, errors: tuple[ApiError, ...] | None) -> Refused:
    """Return the error that an answer means (7); `errors` is None without an error body."""
    for code, kind in _CODES.items():
        named = [error for error in errors or () if error.code == code]
        if named:
            unnamed = tuple(error for error in errors or () if error not in named)
            return kind(where, status, (*named, *unnamed))
    kind = ServerFailed if status >= 500 else _STATUSES.get(status, UnknownRefusal)  # noqa: PLR2004 - 5xx
    return kind(where, status, errors or ())


def may_pass(error: EdgeError) -> bool:
    """Return whether another attempt could end better."""
    if isinstance(error, Unreachable):
        return not error.lasting
    return isinstance(error, Misread | ServerFailed)


def backoff(attempt: int, draw: float) -> float:
    """Return the seconds to wait after an attempt (from 1), by a draw from [0, 1)."""
    # Full jitter: any wait from nothing to the bound, so that callers who failed together do not
    # come back together. The bound doubles from half a second to a minute; the exponent is cut so
    # that no float overflows.
    return draw * min(CAP, BASE * 2.0 ** min(attempt - 1, 10))


def retry_after(value: str | None, now: datetime) -> float | None:
    """Read the seconds of a `Retry-After` in either form; None where it is not usable."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,12}", value.strip()):
        return float(value)
    moment = http_date(value)
    return None if moment is None else max(0.0, (moment - now).total_seconds())


class Persistence(enum.Enum):
    """How long an answer is tried for, where there is a deadline; without one all are brief."""

    # A few attempts: a person waits for it.
    BRIEF = "brief"
    # A few attempts while others are answered; while none is, the service is waited for.
    OPTIONAL = "optional"
    # Until the deadline: without it there is no night.
    REQUIRED = "required"


@dataclass(slots=True, kw_only=True)
class CallProgress:
    """How far one call has come.

    `failures` and `misreads` are those in a row while the service as a whole was up: `outages` are
    the failed probes before them. `sent` is the place of the last attempt among all requests.
    """

    persistence: Persistence
    attempt: int = 0
    failures: int = 0
    misreads: int = 0
    refusals: int = 0
    outages: int = 0
    sent: int = 0
    # With what it ends, if the service turns out to be up.
    doubted: EdgeError | None = None

    def count(self, error: EdgeError, outages: int) -> None:
        """Count a failure; what failed during an outage was no fault of this call."""
        if outages != self.outages:
            self.failures = self.misreads = 0
            self.outages, self.doubted = outages, None
        self.failures += 1
        self.misreads += isinstance(error, Misread)

    @property
    def is_exhausted(self) -> bool:
        """Whether it has had the attempts that a call of its own is worth."""
        return self.failures >= ATTEMPTS or self.misreads >= MISREADS


# A retry policy of its own for each call multiplies an outage: measured with 500 failing calls,
# five attempts each are 2,500 requests, with one budget of 50 retries for all they are 550, and 8
# where the breaker is asked inside the slot.
class Budget:
    """Retries left for the whole client: a start, and a tenth for each success."""

    def __init__(self, start: float = 50.0, per_success: float = 0.1) -> None:
        self._left, self._per_success = start, per_success
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Spend one retry, if there is one."""
        with self._lock:
            if self._left < 1:
                return False
            self._left -= 1
            return True

    def earn(self) -> None:
        """Note a success."""
        with self._lock:
            self._left += self._per_success
