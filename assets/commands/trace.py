"""`nightbook trace`: show an amount's bytes in the response, its row and its totals."""

import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
import msgspec
from click import option

from assets.console.command import HomeCommand
from assets.console.completion import ACCOUNTS, ASSETS, PORTFOLIOS, VENUES, complete_from
from assets.console.exit_codes import DONE, FAILED
from assets.console.invocation import full_command
from assets.console.parameters import as_of_option, format_option
from assets.console.terminal import TerminalProgress, progress_reporter
from assets.monitoring.staleness import staleness_note
from assets.nightbook import DEFAULT_EVENT, INFO, EventCallback, Nightbook
from assets.publishing.shelf import shelf_of
from pipelines.flatten.accounts import LandedElement, LandedPosition, Stated, landed_positions
from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import NoSuchSnapshot
from warehouse.contract.model import count_of
from warehouse.progress import ProgressCallback
from warehouse.query.connect import connect
from warehouse.query.facts.figures import (
    FigureSelection,
    NightPruned,
    PositionAccount,
    TracedFigures,
    figures,
)
from warehouse.query.facts.published_sums import PublishedSum
from warehouse.query.formats import printable, printable_json, text
from warehouse.storage.layout import Layout

EXAMPLES = """\
Examples:
  nightbook trace --portfolio 'Treasury Reserve' --asset BTC --as-of 2026-11-20"""

# Maximum number of rows and of characters in text output (JSON output is complete).
MAX_SHOWN, MAX_CHARACTERS = 20, 2000
_FROM_WAREHOUSE = "the amounts below come only from the warehouse."


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedAmount:
    """One published amount. `element` is its JSON in the response, or None if not found."""

    bucket: str
    state: str
    amount_text: str
    element: LandedElement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedAccount:
    """One published account. `record` is its element in the response, or None if not found."""

    venue_id: str
    venue_name: str | None
    account_name: str
    duplicate_no: int
    record: LandedElement | None
    amounts: list[TracedAmount]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The trace of a position, with the same fields as the output of `--format json`."""

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
        """True if every amount was found in the landed bytes and every total ties out."""
        return not self.notices


def trace_lines(trace: Trace, layout: Layout) -> Iterator[str]:
    """Yield the lines that show a trace as text."""
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
    yield "\nTotals that include this position"
    for sum_ in trace.sums[: 2 * MAX_SHOWN]:
        yield from _sum_lines(sum_)
    if len(trace.sums) > 2 * MAX_SHOWN:
        yield f"  {count_of(len(trace.sums) - 2 * MAX_SHOWN, 'more total')} (see --format json)"
    yield from (
        f"\nNot in any table: {printable(reject['path'])}: {printable(reject['reason'])}"
        for reject in trace.rejects
    )
    yield from (f"\n✗ {printable(notice)}" for notice in trace.notices)


def describe_key(sum_: PublishedSum) -> str:
    """Return the key that identifies a total's row in its view."""
    return ", ".join(f"{name} {printable(str(value))}" for name, value in sum_.key.items())


@click.command(cls=HomeCommand, prints_result=True, epilog=EXAMPLES)
@option(
    "--portfolio",
    required=True,
    shell_complete=complete_from(PORTFOLIOS),
    help="Portfolio ID or name",
)
@option("--asset", required=True, shell_complete=complete_from(ASSETS), help="Asset ID")
@option(
    "--custom/--no-custom",
    "is_custom",
    default=None,
    help="Select the custom or the listed asset if both have the same ID",
)
@option("--venue", shell_complete=complete_from(VENUES), help="Show only this venue (ID or name)")
@option("--account", shell_complete=complete_from(ACCOUNTS), help="Show only this account (name)")
@as_of_option()
@format_option("table", "json", help_text="Output format  [default: table]")
def trace_command(nightbook: Nightbook, *, output_format: str, **requested: Any) -> int:
    """Trace an amount back to the bytes that the API sent.

    Prints the request, the bytes of each amount, and all totals that include the amount.
    """
    # Return 1 if an amount is not in the landed bytes or a total is wrong.
    if requested["as_of"] is None and (note := staleness_note(nightbook)):
        print(note, file=sys.stderr)
    layout = nightbook.layout
    with connect(layout.database) as connection, TerminalProgress() as progress:
        connection.execute("set TimeZone = 'UTC'")
        reporting = replace(nightbook, watch=progress.watch)
        trace = trace_figures(reporting, connection, FigureSelection(**requested), tell=_tell)
    if output_format == "json":
        content = msgspec.json.format(msgspec.json.encode(trace), indent=1)
        print(printable_json(content.decode()))
    else:
        print("\n".join(trace_lines(trace, layout)))
    return DONE if trace.is_proved else FAILED


def trace_figures(
    nightbook: Nightbook,
    connection: Any,
    selection: FigureSelection,
    *,
    tell: EventCallback | None = None,
) -> Trace:
    """Trace the selected figures in an open warehouse. Raises the errors of `figures`."""
    layout = nightbook.layout
    try:
        traced = figures(connection, selection)
    except NightPruned as error:
        raise NightPruned(error.snapshot, _describe_request(layout, error)) from None
    say = progress_reporter(nightbook, tell, "tracing", traced.snapshot["snapshot_id"])
    return _trace(nightbook, traced, say)


def _record_lines(trace: Trace) -> Iterator[str]:
    if not trace.accounts:
        yield "\nThe position has no accounts, so it has no amounts."
        for position in trace.positions:
            yield from _element_lines(position)
    for account in trace.accounts[:MAX_SHOWN]:
        yield from _account_lines(account)
    if len(trace.accounts) > MAX_SHOWN:
        more = count_of(len(trace.accounts) - MAX_SHOWN, "more account")
        yield f"\n{more}: narrow the output with --venue and --account, or use --format json"


def _request_lines(request: Mapping[str, Any], trace: Trace, layout: Layout) -> Iterator[str]:
    folder = layout.snapshot(trace.snapshot["snapshot_date"], trace.snapshot["snapshot_id"])
    query = f"?{request['query']}" if request["query"] else ""
    yield f"\nRequest {request['request_no']}: GET {printable(request['path'] + query)}"
    yield f"  sent {text(request['sent_at'])}, answered {text(request['received_at'])}"
    yield f"  {request['byte_count']:,} bytes, SHA-256 {request['sha256']}"
    if trace.positions:
        yield "  the landed file was just checked and still has this SHA-256"
    yield f"  {folder / str(request['file'])}"
    elements = [account.record for account in trace.accounts if account.record]
    for element in (elements or trace.positions)[:1]:
        yield (
            f"  To see these bytes: zstd -dc {shlex.quote(str(folder / str(request['file'])))} | "
            f"tail -c +{element.first_byte + 1} | head -c {element.byte_count}"
        )


def _account_lines(account: TracedAccount) -> Iterator[str]:
    venue = "" if account.venue_name is None else f" ({printable(account.venue_name)})"
    number = (
        f", account number {account.duplicate_no} with this name" if account.duplicate_no else ""
    )
    yield f"\n{printable(account.venue_id)}{venue}, {printable(account.account_name)}{number}"
    for amount in account.amounts:
        yield f"  {printable(f'{amount.bucket}.{amount.state}')} = {amount.amount_text}"
        if amount.element:
            yield f"    {_location(amount.element)}: {_shorten(amount.element.as_it_came)}"
    if not account.amounts:
        yield "  no amount, which is not the same as zero"
    if account.record:
        yield from _element_lines(account.record)


def _element_lines(element: LandedElement) -> Iterator[str]:
    yield f"  in the response, {_location(element)}:"
    yield f"    {_shorten(element.as_it_came)}"


def _location(element: LandedElement) -> str:
    end = element.first_byte + element.byte_count
    return f"{printable(element.json_path)}, bytes {element.first_byte:,} to {end:,}"


def _shorten(words: str) -> str:
    if len(words) <= MAX_CHARACTERS:
        return printable(words)
    return f"{printable(words[:MAX_CHARACTERS])} … ({len(words):,} characters, see --format json)"


def _sum_lines(sum_: PublishedSum) -> Iterator[str]:
    yield f"  {sum_.view} {describe_key(sum_)}".rstrip()
    columns = defaultdict(list)
    for column, figure in sum_.figures.items():
        columns[figure].append(column)
    sign = "=" if sum_.ties_out else "≠"
    for figure, names in columns.items():
        parts = f"{sum_.sum_of_parts}, the sum of {count_of(sum_.parts, 'amount')}"
        yield f"    {', '.join(names)} {figure} {sign} {parts}"


def _describe_request(layout: Layout, error: NightPruned) -> str:
    """Describe a pruned night's requests from its manifest, which pruning does not delete."""
    folder = snapshots.find(layout, error.snapshot["snapshot_id"]).folder
    return "".join(
        f" The manifest still shows that the response to request {response.request_no}, GET "
        f"{response.path}?{response.query}, was received at {response.received_at} and had "
        f"{response.byte_count:,} bytes with SHA-256 {response.sha256}."
        for response in load_manifest(folder).responses_of("list_portfolios")
    )


def _trace(nightbook: Nightbook, traced: TracedFigures, say: ProgressCallback) -> Trace:
    positions, notices = _read_landing(nightbook, traced, say)
    accounts = list(_join(traced.accounts, positions))
    paths = [position.element.json_path for position in positions]
    lost = [account for account in accounts if account.record is None]
    if lost and not notices:
        notices.append(
            f"The landed bytes lack {count_of(len(lost), 'account')} of the book, or contain "
            "different amounts. Check every file against its SHA-256: nightbook verify"
        )
    notices += [
        f"{sum_.view} {describe_key(sum_)} is not the sum of its parts, {sum_.sum_of_parts}. "
        "Rebuild the warehouse: nightbook rebuild"
        for sum_ in traced.sums
        if not sum_.ties_out
    ]
    return Trace(
        snapshot=traced.snapshot,
        requests=traced.requests,
        portfolio_id=traced.portfolio.id,
        portfolio_name=traced.portfolio.name,
        asset_id=traced.asset_id,
        is_custom_asset=traced.is_custom_asset,
        positions=[position.element for position in positions],
        accounts=accounts,
        sums=traced.sums,
        rejects=[row for row in traced.rejects if _is_within(row["path"], paths)],
        notices=notices,
    )


def _read_landing(
    nightbook: Nightbook, traced: TracedFigures, say: ProgressCallback
) -> tuple[list[LandedPosition], list[str]]:
    """Return the landed positions, or a message if the landed bytes cannot be read."""
    layout, snapshot_id = nightbook.layout, traced.snapshot["snapshot_id"]
    try:
        manifest = load_manifest(snapshots.find(layout, snapshot_id).folder)
        if missing := _missing_files(layout, manifest):
            return [], [_missing_message(nightbook, snapshot_id, missing)]
        asset = traced.asset_id, traced.is_custom_asset
        return landed_positions(layout, manifest, traced.portfolio.id, asset, say), []
    except (DamagedFile, NoSuchSnapshot) as error:
        return [], [f"The landed bytes could not be read. {error}"]


def _missing_message(nightbook: Nightbook, snapshot_id: str, missing: list[str]) -> str:
    """Return a message that explains how to get the response bodies that this home lacks."""
    start = f"The landed bodies of {snapshot_id} are not in this home ({', '.join(missing)}), so"
    if shelf_of(nightbook) is None:
        return f"{start} {_FROM_WAREHOUSE} Restore them from a backup."
    download = full_command(nightbook.layout, "publish", "--with-landing")
    return f"{start} {_FROM_WAREHOUSE} Download them from the shelf: {download}"


def _tell(
    message: str, *, event: str = DEFAULT_EVENT, level: str = INFO, snapshot: str = ""
) -> None:
    del event, level, snapshot
    # Print progress to standard error, because standard output is only for the trace.
    print(f"  {message}", file=sys.stderr, flush=True)


def _missing_files(layout: Layout, manifest: Manifest) -> list[str]:
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    names = [str(response.file) for response in manifest.responses_of("list_portfolios")]
    return [name for name in names if not (folder / name).is_file()]


def _join(
    accounts: Sequence[PositionAccount], positions: Sequence[LandedPosition]
) -> Iterator[TracedAccount]:
    """Pair each published account with the account in the responses that has the same amounts."""
    landed = defaultdict(list)
    for position in positions:
        for candidate in position.accounts:
            landed[(candidate.venue_id, candidate.name, _content(candidate.texts))].append(
                candidate
            )
    for account in accounts:
        same = landed[account.venue_id, account.account_name, _content(account.texts)]
        landed_account = same.pop(0) if same else None
        yield TracedAccount(
            venue_id=account.venue_id,
            venue_name=account.venue_name,
            account_name=account.account_name,
            duplicate_no=account.duplicate_no,
            record=landed_account.element if landed_account else None,
            amounts=[
                TracedAmount(
                    bucket=bucket,
                    state=state,
                    amount_text=amount,
                    element=landed_account.amounts[Stated(bucket, state)]
                    if landed_account
                    else None,
                )
                for (bucket, state), amount in account.texts.items()
            ],
        )


def _content(texts: Mapping[Any, str]) -> frozenset[tuple[Any, str]]:
    return frozenset(texts.items())


def _is_within(path: str, above: Sequence[str]) -> bool:
    return any(path == outer or path.startswith((f"{outer}.", f"{outer}[")) for outer in above)
