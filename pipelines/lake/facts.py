"""What the guards look at: what is known of a night, and of those before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pipelines.lake.repeated_accounts import RepeatedAccounts
from pipelines.lake.slices import Slice
from pipelines.landing.manifest import Window
from pipelines.landing.notices import AnswerNotice


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the guards look at: counts by table, exact totals by asset, portfolios with money.

    `drops` are the largest moves against the book before, by measure, 0 to 1 as text; `everywhere`
    are the defects that stand in every record of a list; `accounts` are how many there are by
    asset; `unread` are venues whose instruments could not be read, or are listed no more; `slices`
    are those that moved as one, by the snapshot that they are compared with; `kinds` are its
    balance kinds. `is_suspect` is a night that was held for its numbers and accepted by hand.
    """

    counts: Mapping[str, int]
    totals: Mapping[str, str]
    money: Mapping[str, bool]
    drops: Mapping[str, str]
    everywhere: Sequence[str] = ()
    accounts: Mapping[str, int] = field(default_factory=dict)
    unread: Sequence[str] = ()
    slices: Mapping[str, Sequence[Slice]] = field(default_factory=dict)
    kinds: Sequence[str] = ()
    snapshot_id: str = ""
    is_suspect: bool = False

    @classmethod
    def of(
        cls, content: Mapping[str, Any], snapshot_id: str = "", *, is_suspect: bool = False
    ) -> "Facts":
        """Return facts as a manifest keeps them."""
        # An older manifest lacks some; the large ones are not converted, for years are read.
        known = {name: content[name] for name in cls.__slots__ if name in content}
        known["slices"] = msgspec.convert(content.get("slices", {}), dict[str, list[Slice]])
        return cls(**known, snapshot_id=snapshot_id, is_suspect=is_suspect)


@dataclass(frozen=True, slots=True)
class RejectGroup:
    """Rejects that carry money and stand at the same place for the same reason.

    `count` is how many, `share` of how much of the list they stand in, `first` where one stands.
    """

    path: str
    reason: str
    count: int
    share: str
    first: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What else was seen of a night.

    `venues` are how many were asked for their instruments; `date_doubts` say why its date is not
    sure; `notices` are what the pull saw that looks like paging (4.6), `signs` the same with their
    numbers; `window` has what a second read said; `repeated` are accounts that count twice.
    """

    rejects: Sequence[RejectGroup] = ()
    differing_totals: Sequence[str] = ()
    venues: int = 0
    failed: Sequence[str] = ()
    emptied: Sequence[str] = ()
    notices: Sequence[str] = ()
    signs: Sequence[AnswerNotice] = ()
    window: Window = field(default_factory=Window)
    date_doubts: Sequence[str] = ()
    repeated: Sequence[RepeatedAccounts] = ()
