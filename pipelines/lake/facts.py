"""What the guards look at: what is known of a night, and of those before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import msgspec

from pipelines.lake.repeated_accounts import RepeatedAccounts
from pipelines.lake.slices import Slice
from pipelines.landing.manifest import Window
from pipelines.landing.notices import AnswerNotice
from warehouse.exact import EXACT, exact, plain


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a book that some portfolios have: exact totals and accounts, both by asset."""

    totals: Mapping[str, str] = field(default_factory=dict)
    accounts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortfolioChange:
    """The portfolios that only one of two books has, and the slices of the portfolios of both.

    `missing` are those that held money in the book before; `new` are all those that it lacks.
    """

    missing: Sequence[str] = ()
    new: Sequence[str] = ()
    missing_share: Share = field(default_factory=Share)
    new_share: Share = field(default_factory=Share)
    slices: Sequence[Slice] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the guards look at: counts by table, exact totals by asset, portfolios with money.

    `drops` are the largest moves against the book before, by measure, 0 to 1 as text; `everywhere`
    are the defects that stand in every record of a list; `accounts` are how many there are by
    asset; `unread` are venues whose instruments could not be read, or are listed no more; `slices`
    are those that moved as one, by the snapshot that they are compared with; `portfolio_changes`
    are by the same snapshot, if its portfolios differ; `kinds` are its balance kinds. `is_suspect`
    is a night that was held for its numbers and accepted by hand.
    """

    counts: Mapping[str, int]
    totals: Mapping[str, str]
    money: Mapping[str, bool]
    drops: Mapping[str, str]
    everywhere: Sequence[str] = ()
    accounts: Mapping[str, int] = field(default_factory=dict)
    unread: Sequence[str] = ()
    slices: Mapping[str, Sequence[Slice]] = field(default_factory=dict)
    portfolio_changes: Mapping[str, PortfolioChange] = field(default_factory=dict)
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
        changes = content.get("portfolio_changes", {})
        known["portfolio_changes"] = msgspec.convert(changes, dict[str, PortfolioChange])
        return cls(**known, snapshot_id=snapshot_id, is_suspect=is_suspect)

    def without(self, share: Share) -> "Facts":
        """Return the facts about the rest of the book."""
        subtrahends = {asset: exact(text) for asset, text in share.totals.items()}
        zero = Decimal(0)
        totals = {
            asset: plain(EXACT.subtract(exact(text), subtrahends.get(asset, zero)))
            if asset in subtrahends
            else text
            for asset, text in self.totals.items()
        }
        accounts = {
            asset: count - share.accounts.get(asset, 0) for asset, count in self.accounts.items()
        }
        counts = dict(self.counts)
        if "accounts" in counts:
            counts["accounts"] -= sum(share.accounts.values())
        return replace(self, totals=totals, accounts=accounts, counts=counts)


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
