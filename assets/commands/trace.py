"""`nightbook trace`: where a figure comes from, down to the bytes that the API sent."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from assets.console.declaration import DONE, FAILED
from assets.console.invocation import full_command
from assets.console.progress import progress_reporter
from assets.console.terminal import TerminalProgress
from assets.console.trace_lines import Trace, TracedAccount, TracedAmount, key_words, trace_lines
from assets.monitoring.staleness import staleness_note
from assets.nightbook import INFO, TOLD, Nightbook
from assets.publishing.shelf import shelf_of
from pipelines.flatten.landed_accounts import (
    LandedPosition,
    Stated,
    landed_positions,
)
from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import NoSuchSnapshot
from warehouse.contract.wording import count_of
from warehouse.query.connect import connect
from warehouse.query.facts.figures import (
    NightPruned,
    PositionAccount,
    TracedFigures,
    Wanted,
    figures,
)
from warehouse.query.printable import printable_json
from warehouse.storage.layout import Layout

_LEFT = "the figures below are those of the warehouse alone."


def run(nightbook: Nightbook, *, form: str, **wanted: Any) -> int:
    """Print the trace; exit code 1 where a figure has no bytes or a sum does not tie out."""
    if wanted["as_of"] is None and (note := staleness_note(nightbook)):
        print(note, file=sys.stderr)
    layout = nightbook.layout
    with connect(layout.database) as connection:
        connection.execute("set TimeZone = 'UTC'")
        try:
            traced = figures(connection, Wanted(**wanted))
        except NightPruned as error:
            raise NightPruned(error.snapshot, _manifest_words(layout, error)) from None
    with TerminalProgress() as teller:
        heard = replace(nightbook, watch=teller.watch)
        trace = _trace(heard, traced)
    if form == "json":
        content = msgspec.json.format(msgspec.json.encode(trace), indent=1)
        print(printable_json(content.decode()))
    else:
        print("\n".join(trace_lines(trace, layout)))
    return DONE if trace.is_proved else FAILED


def _manifest_words(layout: Layout, error: NightPruned) -> str:
    """Say what the manifest of a pruned night, which stays, knows of what was read."""
    folder = snapshots.find(layout, error.snapshot["snapshot_id"]).folder
    return "".join(
        f" Still known: request {answer.request_no}, GET {answer.path}?{answer.query}, was "
        f"answered at {answer.received_at} with {answer.byte_count:,} bytes of SHA-256 "
        f"{answer.sha256}."
        for answer in load_manifest(folder).answers_of("list_portfolios")
    )


def _trace(nightbook: Nightbook, traced: TracedFigures) -> Trace:
    positions, notices = _read_landing(nightbook, traced)
    accounts = list(_join(traced.accounts, positions))
    paths = [position.element.json_path for position in positions]
    lost = [account for account in accounts if account.record is None]
    if lost and not notices:
        notices.append(
            f"{count_of(len(lost), 'account')} of the book was not found in the landed bytes as "
            "published. Compare every file with its SHA-256: nightbook verify"
        )
    notices += [
        f"{sum_.view} {key_words(sum_)} is not the sum of its parts, {sum_.sum_of_parts}. Make "
        "the warehouse again: nightbook rebuild"
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
    nightbook: Nightbook, traced: TracedFigures
) -> tuple[list[LandedPosition], list[str]]:
    """Return the position in the landed bytes; where they cannot be read, what to say of it."""
    layout, snapshot_id = nightbook.layout, traced.snapshot["snapshot_id"]
    say = progress_reporter(nightbook, _tell, "tracing", snapshot_id)
    try:
        manifest = load_manifest(snapshots.find(layout, snapshot_id).folder)
        if gone := _missing_files(layout, manifest):
            return [], [_missing_words(nightbook, snapshot_id, gone)]
        asset = traced.asset_id, traced.is_custom_asset
        return landed_positions(layout, manifest, traced.portfolio.id, asset, say), []
    except (Damaged, NoSuchSnapshot) as error:
        return [], [f"The landed bytes could not be read. {error}"]


def _missing_words(nightbook: Nightbook, snapshot_id: str, gone: list[str]) -> str:
    """Say that bodies are not in this home, and where they are."""
    files = f"The landed bodies of {snapshot_id} are not in this home ({', '.join(gone)}), so"
    if shelf_of(nightbook) is None:
        return f"{files} {_LEFT} Restore them from a backup."
    bring = full_command(nightbook.layout, "publish", "--with-landing")
    return f"{files} {_LEFT} Bring them from the shelf: {bring}"


def _tell(message: str, *, event: str = TOLD, level: str = INFO, snapshot: str = "") -> None:
    del event, level, snapshot
    print(f"  {message}", file=sys.stderr, flush=True)  # standard output is the answer's


def _missing_files(layout: Layout, manifest: Manifest) -> list[str]:
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    names = [str(answer.file) for answer in manifest.answers_of("list_portfolios")]
    return [name for name in names if not (folder / name).is_file()]


def _join(
    accounts: Sequence[PositionAccount], positions: Sequence[LandedPosition]
) -> Iterator[TracedAccount]:
    """Yield each published account with the landed one that says the same, word for word."""
    landed = defaultdict(list)
    for position in positions:
        for candidate in position.accounts:
            key = candidate.venue_id, candidate.name, _content(candidate.texts)
            landed[key].append(candidate)
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
