"""Facts about nights: the guards' figures, doubts about dates, and parts of books that moved."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pipelines.lake import lessons
from pipelines.landing.manifest import Manifest, Window, load_manifest
from pipelines.landing.notices import ResponseNotice
from pipelines.landing.reasons import max_share
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.ops import DECISIONS, LESSONS, REASONS, WITHDRAWN
from warehouse.exact import subtract
from warehouse.sql.files import open_files

GONE, FELL, ROSE = "gone", "fell", "rose"
VENUE, PORTFOLIO, KIND = "venue", "portfolio", "balance kind"
# If all assets change by more than this factor at once, the cause is not trading, but probably a
# scaling error.
SCALE = 8

_MOVES = Path(__file__).with_name("slices.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Slice:
    """A venue, portfolio or balance kind whose amounts nearly all rose, fell or disappeared.

    `change` is `GONE`, `FELL` or `ROSE`, `assets` is the number of assets in the slice, and `moved`
    is the number of assets that moved.
    """

    kind: str
    identity: str
    change: str
    assets: int
    moved: int


def moves(before: Path, now: Path, without: Collection[str] = ()) -> list[Slice]:
    """Compare two balance files. Return the moved slices (see `Slice`), by kind and identity.

    `without` contains the portfolios to leave out.
    """
    with open_files({"before": before, "now": now}) as connection:
        rows = connection.execute(_MOVES, {"without": sorted(without), "scale": SCALE}).fetchall()
    return [Slice(*row) for row in rows]


class DateDoubt(NamedTuple):
    """A reason why a night's date is uncertain.

    `code` is part of the reason's stored key, so it must never change.
    """

    code: str
    message: str


def doubts(manifest: Manifest, landed: Sequence[Snapshot]) -> list[DateDoubt]:
    """Return the reasons why a landed night's date is uncertain, or an empty list."""
    return [*_by_clock(manifest), *_backwards(manifest, landed), *_by_zone(manifest, landed)]


def _by_clock(manifest: Manifest) -> Iterator[DateDoubt]:
    if manifest.is_date_doubtful:
        yield DateDoubt(
            "clocks differ",
            f"the date is uncertain: it is {manifest.snapshot_date} by the server's clock, but "
            f"{manifest.machine_date} by this machine's clock. Check this machine's clock",
        )


def _backwards(manifest: Manifest, landed: Sequence[Snapshot]) -> Iterator[DateDoubt]:
    """Yield a doubt if a night seems to have started before the previous night."""
    for earlier in landed:
        if earlier.snapshot_id != manifest.follows or earlier.state == states.REJECTED:
            continue
        before = datetime.fromisoformat(load_manifest(earlier.folder).started_at)
        if before > datetime.fromisoformat(manifest.started_at):
            yield DateDoubt(
                "clock moved back",
                f"the date is uncertain: this night began at {manifest.started_at}, but the "
                f"previous night, {earlier.snapshot_id}, began at {before.isoformat()}. The clock "
                "has been moved back since then, or it was ahead on the previous night",
            )


def _by_zone(manifest: Manifest, landed: Sequence[Snapshot]) -> Iterator[DateDoubt]:
    day = manifest.snapshot_date
    for book in landed:
        is_book = book.state == states.ACCEPTED and book.snapshot_id != manifest.snapshot_id
        if book.snapshot_date != day or not is_book:
            continue
        zone = load_manifest(book.folder).timezone
        if zone != manifest.timezone:
            yield DateDoubt(
                "time zone changed",
                f"the date is uncertain: the book of {day}, {book.snapshot_id}, uses the time zone "
                f"{zone}, but this night uses {manifest.timezone}",
            )
            return


Row = dict[str, Any]


def rows(nights: Sequence[Snapshot]) -> dict[str, list[Row]]:
    """Return the rows of `decisions`, `reasons`, `lessons` and `withdrawn` for these nights."""
    return {
        DECISIONS.name: [row for night in nights for row in _decisions(night)],
        REASONS.name: [row for night in nights for row in _reasons(night)],
        LESSONS.name: [_lesson(lesson) for lesson in lessons.all_lessons(nights)],
        WITHDRAWN.name: [row for night in nights for row in _withdrawn(night)],
    }


def _of(night: Snapshot) -> Row:
    return {"snapshot_date": night.snapshot_date, "snapshot_id": night.snapshot_id}


def _decisions(night: Snapshot) -> Iterator[Row]:
    for number, decision in enumerate(night.decisions, start=1):
        yield _of(night) | {
            "decision_no": number,
            "state": decision.state,
            "decided_by": decision.by,
            "decided_at": datetime.fromisoformat(decision.at),
            "reason": "; ".join(decision.reasons),
            "machine": decision.machine or None,
            "decision_id": decision.token,
        }


def _reasons(night: Snapshot) -> Iterator[Row]:
    """Yield the reasons from a night's latest decision that has reasons."""
    judged = [decision for decision in night.decisions if decision.causes]
    for cause in {cause.key: cause for cause in judged[-1].causes}.values() if judged else ():
        yield _of(night) | {
            "reason_key": cause.key,
            "words": cause.words,
            "is_teachable": cause.is_teachable,
            "share": cause.share,
            "is_known": judged[-1].state == states.ACCEPTED or cause.is_known,
        }


def _lesson(lesson: lessons.Lesson) -> Row:
    back = lesson.taken_back
    return _of(lesson.snapshot) | {
        "lesson_id": lesson.name,
        "reason_key": lesson.reason.key,
        "words": lesson.reason.words,
        "share": lesson.reason.share,
        "most_share": str(max_share(lesson.reason.share)),
        "taught_by": lesson.taught.by,
        "taught_at": datetime.fromisoformat(lesson.taught.at),
        "taken_back_by": back.by if back else None,
        "taken_back_at": datetime.fromisoformat(back.at) if back else None,
    }


def _withdrawn(night: Snapshot) -> Iterator[Row]:
    # If a night was rejected twice, the same file can be withdrawn twice. Keep only the last
    # withdrawal.
    latest = {file: decision for decision in night.decisions for file in decision.withdrawn}
    for file, decision in latest.items():
        yield _of(night) | {
            "file": file,
            "rejected_by": decision.by,
            "rejected_at": datetime.fromisoformat(decision.at),
            "reason": "; ".join(decision.reasons),
        }


_REPEATED = Path(__file__).with_name("repeated_accounts.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class RepeatedAccounts:
    """The accounts at one venue that are listed more than once with the same amounts.

    `share` is the fraction of the venue's accounts that are repeated, as a decimal string from 0 to
    1. `totals` contains the amounts that are counted more than once, by asset. `first` names one of
    the accounts.
    """

    venue_id: str
    accounts: int
    share: str
    totals: Mapping[str, str]
    first: str


def find_repeated_accounts(accounts: Path, balances: Path) -> list[RepeatedAccounts]:
    """Find the accounts that are listed more than once, in one night's Parquet files."""
    with open_files({"accounts": accounts, "balances": balances}) as connection:
        rows = connection.execute(_REPEATED).fetchall()
    return [
        RepeatedAccounts(
            venue_id=venue_id,
            accounts=count,
            share=str((Decimal(listings) / all_listings).quantize(Decimal("0.0001"))),
            totals=totals,
            first=f"account {name} of portfolio {portfolio_id}",
        )
        for venue_id, count, listings, all_listings, totals, portfolio_id, name in rows
    ]


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
    recheck. `repeated` contains the accounts that are listed more than once.
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
