"""The first page of a pack: every day with its result and who signed it, and what is not there.

One file without a script, which asks nobody for anything, made for A4.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from warehouse.contract.wording import count_of
from warehouse.query.printable import printable
from warehouse.reconcile.close.lock import closings_of
from warehouse.reconcile.close.month import Month
from warehouse.reconcile.close.pack import PackFacts, ledger_names
from warehouse.reconcile.comments.annotations import State, StatusDecision, state
from warehouse.reconcile.comments.trail import moment
from warehouse.reconcile.settings.closing import ROLES
from warehouse.reconcile.store.records import Break, RunResult
from warehouse.reconcile.store.run_facts import AGE_BANDS, count_ages
from warehouse.reconcile.store.store import Store

_HERE = Path(__file__).parent
_MOST_BREAKS = 300


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One ledger of the month: its name, digest and days, and its name in the pack, if it is there.

    One content under two names is in the pack once.
    """

    name: str
    sha256: str
    days: str
    member: str


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """A break that was accepted in the month: as of the last day of its acceptance, who and why."""

    break_: Break
    decision: StatusDecision
    days: tuple[date, ...]

    @property
    def on_days(self) -> str:
        """The days on which it was accepted."""
        return _days_in_words(self.days)

    @property
    def reason(self) -> str:
        """Root cause and comment in one text."""
        texts = (self.break_.root_cause, self.break_.comment)
        return "; ".join(filter(None, texts))


def index_page(store: Store, month: Month, facts: PackFacts, here: frozenset[str]) -> bytes:
    """Return the page; `here` are the digests of the ledgers that the pack has."""
    last = month.results[-1]
    unsolved = sorted(last.unsolved_breaks, key=lambda break_: (break_.first_seen, break_.id))
    accepted = _accepted_lines(store, month)
    style = Markup((_HERE / "index.css").read_text("utf-8"))  # noqa: S704 - our own file
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    ours = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    ours.filters |= {"show": printable, "moment": moment, "count_of": count_of}
    page = ours.from_string((_HERE / "index.html").read_text("utf-8")).render(
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        facts=facts,
        month=month,
        roles=ROLES,
        last=last,
        bands=[
            (band[0], count)
            for band, count in zip(AGE_BANDS, count_ages(unsolved, last.day), strict=True)
        ],
        unsolved=unsolved[:_MOST_BREAKS],
        count=len(unsolved),
        more=max(len(unsolved) - _MOST_BREAKS, 0),
        accepted=accepted[:_MOST_BREAKS],
        more_accepted=max(len(accepted) - _MOST_BREAKS, 0),
        said=state(store),
        ledgers=list(_ledgers(month, here, ledger_names(store, month))),
        settings=_settings(month),
        earlier=closings_of(store, month.name),
        restatements=[item for item in store.restatements if item.day in month],
    )
    return page.encode("utf-8", "replace")


def _accepted_lines(store: Store, month: Month) -> list[AcceptedLine]:
    """Return the breaks that were accepted on any day of a month, those of its last day first."""
    found: dict[tuple[str, str], list[tuple[RunResult, Break]]] = {}
    for result in month.results:
        for break_ in (*result.breaks, *result.not_compared):
            if not break_.is_open:
                found.setdefault((break_.id, break_.difference), []).append((result, break_))
    states: dict[int, State] = {}
    lines = []
    for accepted in found.values():
        result, break_ = accepted[-1]
        said = states.setdefault(result.revision, state(store, result.revision))
        days = tuple(day.day for day, _ in accepted)
        lines.append(AcceptedLine(break_, said.decision(break_.id), days))
    return sorted(lines, key=lambda line: (-line.days[-1].toordinal(), line.break_.id))


def _days_in_words(days: Sequence[date]) -> str:
    return str(days[0]) if len(days) == 1 else f"{len(days)} days, {days[0]} to {days[-1]}"


def _ledgers(
    month: Month, here: frozenset[str], members: Mapping[str, str]
) -> Iterator[LedgerLine]:
    days: dict[tuple[str, str], list[str]] = {}
    for result in month.results:
        for source in result.sources:
            of = days.setdefault((source.name, source.sha256), [])
            if str(result.day) not in of:
                of.append(str(result.day))
    for (name, sha256), of in days.items():
        member = members[sha256] if sha256 in here else ""
        yield LedgerLine(name, sha256, ", ".join(of), member)


def _settings(month: Month) -> Mapping[str, str]:
    """Return for each recon.toml of the month the first and last day that had it."""
    days: dict[str, list[date]] = {}
    for day in month.closed_days:
        days.setdefault(day.settings, []).append(day.day)
    return {digest: _days_in_words(of_digest) for digest, of_digest in days.items()}
