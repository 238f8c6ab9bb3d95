"""Why a night is held, as data: what a person accepts once is known by its key from then on.

A key says of what kind a reason is and where it stands (a path without indexes), never tonight's
numbers, so that the same thing has the same key on every night.
"""

import hashlib
import re
from dataclasses import dataclass
from decimal import Decimal

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_INDEX = re.compile(r"\[\d+\]")
_NUMBER = re.compile(r"\d+")
MARGIN = Decimal("1.5")
MORE = Decimal("0.1")


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason to hold a night.

    `share` is how much of what it is about has it, 0 to 1 as text: a lesson holds for about as
    much as was there when it was taught. One that `is_teachable` holds no later night once a
    person has accepted it; the others (a control total that differs, a slice that is gone, a
    doubtful date) are looked at on each night. One that `is_known` was accepted before.
    """

    key: str
    words: str
    is_teachable: bool = False
    share: str = "0"
    is_known: bool = False

    @property
    def sentence(self) -> str:
        """The reason in words, and whether it was known."""
        return f"known to be harmless: {self.words}" if self.is_known else self.words


def shape_of(text: str) -> str:
    """Strip a text of what changes from night to night: indexes, ids, numbers."""
    return _NUMBER.sub("#", _ID.sub("{id}", _INDEX.sub("[]", text)))


def lesson_id(key: str) -> str:
    """Return the short name of a lesson, by which a person takes it back."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:8]


def max_share(share: str) -> Decimal:
    """Return the largest share of which a lesson still says that it is harmless."""
    # What was seen in three accounts of a hundred must not let a night through in which it is in
    # every account.
    seen = Decimal(share)
    return min(Decimal(1), max(seen * MARGIN, seen + MORE))
