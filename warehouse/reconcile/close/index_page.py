"""The first page of a pack: every day with its result and who signed it, and what is not there.

One file without a script, which asks nobody for anything, made for A4.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from warehouse.contract.wording import count_of
from warehouse.query.printable import printable
from warehouse.reconcile.close.lock import closings_of
from warehouse.reconcile.close.month import Month
from warehouse.reconcile.close.pack import PackFacts
from warehouse.reconcile.comments.annotations import state
from warehouse.reconcile.comments.trail import moment
from warehouse.reconcile.settings.closing import ROLES
from warehouse.reconcile.store.run_facts import AGE_BANDS, count_ages
from warehouse.reconcile.store.store import Store

_HERE = Path(__file__).parent
_MOST_BREAKS = 300


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One ledger of the month: its name, digest and days, and whether the pack has it."""

    name: str
    sha256: str
    days: str
    is_there: bool


def index_page(store: Store, month: Month, facts: PackFacts, here: frozenset[str]) -> bytes:
    """Return the page; `here` are the digests of the ledgers that the pack has."""
    last = month.results[-1]
    unsolved = sorted(last.unsolved_breaks, key=lambda break_: (break_.first_seen, break_.id))
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
        said=state(store),
        ledgers=list(_ledgers(month, here)),
        settings=_settings(month),
        earlier=closings_of(store, month.name),
        restatements=[item for item in store.restatements if item.day in month],
    )
    return page.encode("utf-8", "replace")


def _ledgers(month: Month, here: frozenset[str]) -> Iterator[LedgerLine]:
    days: dict[tuple[str, str], list[str]] = {}
    for result in month.results:
        for source in result.sources:
            of = days.setdefault((source.name, source.sha256), [])
            if str(result.day) not in of:
                of.append(str(result.day))
    for (name, sha256), of in days.items():
        yield LedgerLine(name, sha256, ", ".join(of), sha256 in here)


def _settings(month: Month) -> Mapping[str, str]:
    """Return for each recon.toml of the month the first and last day that had it."""
    days: dict[str, list[str]] = {}
    for day in month.closed_days:
        days.setdefault(day.settings, []).append(str(day.day))
    return {
        digest: of[0] if len(of) == 1 else f"{len(of)} days, {of[0]} to {of[-1]}"
        for digest, of in days.items()
    }
