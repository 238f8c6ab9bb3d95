"""The reasons for holding a night, as data. Lessons refer to a reason by its key.

A key contains the reason's kind and location (a path without indexes), but none of the night's
numbers. So the same problem has the same key on every night.
"""

import hashlib
import re
from dataclasses import dataclass
from decimal import Decimal

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_INDEX = re.compile(r"\[\d+\]")
_NUMBER = re.compile(r"\d+")
# The keys of reasons that money of the book before, or of the night itself, is not in the night.
_LOSS = re.compile(
    r"(empty|missing|reject): .*|slice: .* (gone|fell)|measure: (accounts|assets fallen)", re.DOTALL
)
MARGIN = Decimal("1.5")
MORE = Decimal("0.1")


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason to hold a night.

    `share` is the affected fraction, from 0 to 1 as a decimal string. A lesson applies only if the
    share is not much larger than when the lesson was taught. If `is_teachable`, a person's
    acceptance also applies to later nights. All other reasons (a differing control total, a missing
    slice, a doubtful date) must be reviewed each night. If `is_known`, a lesson already covers the
    reason.
    """

    key: str
    words: str
    is_teachable: bool = False
    share: str = "0"
    is_known: bool = False

    @property
    def is_loss(self) -> bool:
        """Whether money may be missing in the night."""
        return _LOSS.fullmatch(self.key) is not None

    @property
    def sentence(self) -> str:
        """The message for this reason, with a prefix if a lesson already covers the reason."""
        return f"known to be harmless: {self.words}" if self.is_known else self.words


def shape_of(text: str) -> str:
    """Replace the parts of `text` that vary from night to night: indexes, IDs and numbers."""
    return _NUMBER.sub("#", _ID.sub("{id}", _INDEX.sub("[]", text)))


def lesson_id(key: str) -> str:
    """Return the short ID of a lesson, which a person types to revoke it."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:8]


def max_share(share: str) -> Decimal:
    """Return the largest share that a lesson covers if it was taught at `share`."""
    # A lesson taught for 3 of 100 accounts must not accept a night that affects all accounts.
    seen = Decimal(share)
    return min(Decimal(1), max(seen * MARGIN, seen + MORE))
