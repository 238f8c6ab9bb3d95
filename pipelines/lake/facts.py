"""The figures and findings of a night, which the guards judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from pipelines.lake.date_doubts import DateDoubt
from pipelines.lake.origins import OtherServer
from pipelines.lake.repeated_accounts import RepeatedAccounts
from pipelines.lake.slices import Slice
from pipelines.landing.manifest import Window
from pipelines.landing.notices import ResponseNotice
from warehouse.exact import subtract


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a book that a group of portfolios contributes: exact totals and account counts.

    `totals` and `accounts` are both by asset.
    """

    totals: Mapping[str, str] = field(default_factory=dict)
    accounts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortfolioChange:
    """The portfolios in only one of two books, and the slices that moved in all other portfolios.

    `missing` contains the portfolios that held money in the earlier book and are not in the later
    one. `new` contains the portfolios that are not in the earlier book. `slices` contains the
    slices that moved, calculated without the missing and new portfolios.
    """

    missing: Sequence[str] = ()
    new: Sequence[str] = ()
    missing_share: Share = field(default_factory=Share)
    new_share: Share = field(default_factory=Share)
    slices: Sequence[Slice] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A night's figures, which the guards compare with the figures of earlier nights.

    `counts` contains row counts by table, `totals` exact totals by asset, and `money` shows whether
    each portfolio holds money. `drops` contains the share by which each measure changed since the
    earlier book, as a decimal string from 0 to 1. `everywhere` contains the keys of the defects
    that all records of a list share, and `defect_messages` their messages, except in older
    manifests. `accounts` contains the number of accounts by asset, and `unread` the venues whose
    instruments could not be read, or are no longer listed. `slices` contains, by snapshot ID, the
    slices that moved since that snapshot. `portfolio_changes` uses the same keys, for snapshots
    with different portfolios. `kinds` contains the balance kinds. `is_suspect` is True if a person
    accepted the night, but the guards had held it for a reason that cannot become a lesson.
    """

    counts: Mapping[str, int]
    totals: Mapping[str, str]
    money: Mapping[str, bool]
    drops: Mapping[str, str]
    everywhere: Sequence[str] = ()
    defect_messages: Mapping[str, str] = field(default_factory=dict)
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
        """Return the facts that are stored in a night's lake manifest."""
        # Older manifests lack some facts. Convert only the slices and the changed portfolios from
        # JSON, because converting all facts would be slow for years of manifests.
        known = {name: content[name] for name in cls.__slots__ if name in content}
        known["slices"] = msgspec.convert(content.get("slices", {}), dict[str, list[Slice]])
        changes = content.get("portfolio_changes", {})
        known["portfolio_changes"] = msgspec.convert(changes, dict[str, PortfolioChange])
        return cls(**known, snapshot_id=snapshot_id, is_suspect=is_suspect)

    def without(self, share: Share) -> "Facts":
        """Return a copy without the totals and account counts of some portfolios."""
        totals = {
            asset: subtract(text, share.totals[asset]) if asset in share.totals else text
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
    """Rejected values with the same path and defect. They may have contained amounts of money.

    `reason` is the defect's key, and `message` describes the first reject. It is empty in older
    manifests. `count` is the number of rejects, `share` is their fraction of the list, and `first`
    is the path of the first reject.
    """

    path: str
    reason: str
    count: int
    share: str
    first: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Findings about a night that are not in `Facts`, such as rejects and failed venues.

    `venues` is the number of venues whose instruments were requested. `date_doubts` contains the
    reasons why the night's date is uncertain. `notices` contains messages about signs of incomplete
    responses (4.6), and `signs` the signs with counts and examples. `window` is the result of the
    recheck. `repeated` contains the accounts that are listed more than once. `other_server` is set
    if a different server answered on the last accepted night.
    """

    rejects: Sequence[RejectGroup] = ()
    differing_totals: Sequence[str] = ()
    venues: int = 0
    failed: Sequence[str] = ()
    emptied: Sequence[str] = ()
    notices: Sequence[str] = ()
    signs: Sequence[ResponseNotice] = ()
    window: Window = field(default_factory=Window)
    date_doubts: Sequence[DateDoubt] = ()
    repeated: Sequence[RepeatedAccounts] = ()
    other_server: OtherServer | None = None
