"""What `nightbook trace` tells: a figure, the bytes it comes from, and the sums it is part of."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.flatten.landed_accounts import LandedElement
from warehouse.contract.wording import count_of
from warehouse.query.facts.sums import PublishedSum
from warehouse.query.formats import text
from warehouse.query.printable import printable
from warehouse.storage.layout import Layout

SHOWN, LONGEST = 20, 2000  # for people; JSON has all


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedAmount:
    """One amount as published, and the JSON element that says so; None where none was found."""

    bucket: str
    state: str
    amount_text: str
    element: LandedElement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedAccount:
    """One account as published, and its record as it came; None where none was found."""

    venue_id: str
    venue_name: str | None
    account_name: str
    duplicate_no: int
    record: LandedElement | None
    amounts: list[TracedAmount]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Everything that is known of the figures of one position: what `--format json` prints."""

    snapshot: Mapping[str, Any]
    requests: Sequence[Mapping[str, Any]]
    portfolio_id: str
    portfolio_name: str | None
    asset_id: str
    is_custom_asset: bool
    positions: list[LandedElement]
    accounts: list[TracedAccount]
    sums: Sequence[PublishedSum]
    rejects: list[Mapping[str, Any]]
    notices: list[str]

    @property
    def is_proved(self) -> bool:
        """Whether every amount was found in the landed bytes, and every sum ties out."""
        return not self.notices


def trace_lines(trace: Trace, layout: Layout) -> Iterator[str]:
    """Yield the trace for people."""
    custom = " (custom)" if trace.is_custom_asset else ""
    name = "" if trace.portfolio_name is None else f", {printable(trace.portfolio_name)}"
    night = trace.snapshot
    yield f"{printable(trace.asset_id)}{custom} in portfolio {printable(trace.portfolio_id)}{name}"
    yield (
        f"Book of {night['snapshot_date']}, snapshot {night['snapshot_id']}, {night['state']} by "
        f"{printable(str(night['decided_by']))} at {text(night['decided_at'])}"
    )
    for request in trace.requests:
        yield from _request_lines(request, trace, layout)
    yield from _record_lines(trace)
    yield "\nSums that it is part of"
    for sum_ in trace.sums[: 2 * SHOWN]:
        yield from _sum_lines(sum_)
    if len(trace.sums) > 2 * SHOWN:
        yield f"  {count_of(len(trace.sums) - 2 * SHOWN, 'more sum')}, all with --format json"
    yield from (
        f"\nIn no table: {printable(reject['path'])}: {printable(reject['reason'])}"
        for reject in trace.rejects
    )
    yield from (f"\n✗ {printable(notice)}" for notice in trace.notices)


def _record_lines(trace: Trace) -> Iterator[str]:
    if not trace.accounts:
        yield "\nThe position has no account, so it states no amount."
        for position in trace.positions:
            yield from _element_lines(position)
    for account in trace.accounts[:SHOWN]:
        yield from _account_lines(account)
    if len(trace.accounts) > SHOWN:
        more = count_of(len(trace.accounts) - SHOWN, "more account")
        yield f"\n{more}: narrow it with --venue and --account, or --format json"


def _request_lines(request: Mapping[str, Any], trace: Trace, layout: Layout) -> Iterator[str]:
    folder = layout.snapshot(trace.snapshot["snapshot_date"], trace.snapshot["snapshot_id"])
    query = f"?{request['query']}" if request["query"] else ""
    yield f"\nRequest {request['request_no']}: GET {printable(request['path'] + query)}"
    yield f"  sent {text(request['sent_at'])}, answered {text(request['received_at'])}"
    yield f"  {request['byte_count']:,} bytes, SHA-256 {request['sha256']}"
    if trace.positions:
        yield "  the landed bytes were read just now and have that SHA-256"
    yield f"  {folder / str(request['file'])}"
    elements = [account.record for account in trace.accounts if account.record]
    for element in (elements or trace.positions)[:1]:
        yield (
            f"  to see them: zstd -dc {shlex.quote(str(folder / str(request['file'])))} | "
            f"tail -c +{element.first_byte + 1} | head -c {element.byte_count}"
        )


def _account_lines(account: TracedAccount) -> Iterator[str]:
    venue = "" if account.venue_name is None else f" ({printable(account.venue_name)})"
    number = f", number {account.duplicate_no} of that name" if account.duplicate_no else ""
    yield f"\n{printable(account.venue_id)}{venue}, {printable(account.account_name)}{number}"
    for amount in account.amounts:
        yield f"  {printable(f'{amount.bucket}.{amount.state}')} = {amount.amount_text}"
        if amount.element:
            yield f"    {_place(amount.element)}: {_shorten(amount.element.as_it_came)}"
    if not account.amounts:
        yield "  no amount is stated, which is not zero"
    if account.record:
        yield from _element_lines(account.record)


def _element_lines(element: LandedElement) -> Iterator[str]:
    yield f"  as it came, {_place(element)}:"
    yield f"    {_shorten(element.as_it_came)}"


def _place(element: LandedElement) -> str:
    end = element.first_byte + element.byte_count
    return f"{printable(element.json_path)}, bytes {element.first_byte:,} to {end:,}"


def _shorten(words: str) -> str:
    if len(words) <= LONGEST:
        return printable(words)
    return f"{printable(words[:LONGEST])} … ({len(words):,} letters, all with --format json)"


def key_words(sum_: PublishedSum) -> str:
    """Return which row of its view a sum is."""
    return ", ".join(f"{name} {printable(str(value))}" for name, value in sum_.key.items())


def _sum_lines(sum_: PublishedSum) -> Iterator[str]:
    yield f"  {sum_.view} {key_words(sum_)}".rstrip()
    columns = defaultdict(list)
    for column, figure in sum_.figures.items():
        columns[figure].append(column)
    sign = "=" if sum_.ties_out else "≠"
    for figure, names in columns.items():
        parts = f"{sum_.sum_of_parts}, the sum of {count_of(sum_.parts, 'amount')}"
        yield f"    {', '.join(names)} {figure} {sign} {parts}"
