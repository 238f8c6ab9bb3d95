"""The subcommands of `nightbook reference`, which show the tables that people bring."""

import csv
import hashlib
import io
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import click
from click import argument, option

from assets.console.command import CommandGroup, HomeCommand, Invocation
from assets.console.exit_codes import A_PERSON_MUST_DECIDE, DONE, FAILED
from assets.console.invocation import command_for, user_name
from assets.console.parameters import Choice, Day, flag, format_option
from assets.console.rows import print_lines, print_rows
from assets.home.writer_lock import writing
from assets.nightbook import Nightbook
from assets.publishing import publish
from warehouse.contract.model import count_of, first_lines, literal
from warehouse.contract.reference import POSITIONS
from warehouse.query.formats import printable
from warehouse.query.read import run
from warehouse.reconcile.old_book import read_old_book
from warehouse.reference.child import ReadRequest
from warehouse.reference.dropped_file import display_name
from warehouse.reference.inbox import Acceptance, receive, receive_book
from warehouse.reference.own_checks import OwnFinding, run_own_checks
from warehouse.storage.layout import Layout, write_bytes

COLUMNS = ("table", "file", "received_at", "rows", "rejects", "is_present", "sha256", "state")
NAMES = ("list", "check", "load", "init", "import")
MAX_SHOWN = 10
_FILES = """
select table_name, files.file, files.received_at, files.row_count, files.reject_count, is_present,
    files.sha256, state
from ops.reference_files as files left join history.imports as imports
    on table_name = 'positions/' || as_of_date and imports.sha256 = files.sha256
order by table_name, files.received_at
"""
_LABELS = "select distinct label from internal.labels order by label"
_HIDDEN = """
select file, as_of_date, differences, reject_count from history.imports
where state = 'hidden' order by as_of_date desc limit 1
"""
_DIFFERENCES = "select * exclude (as_of_date, first_night) from history.import_differences"
_UNPRICED = """
select asset_id, is_custom_asset, '' as price_text, snapshot_date
from prices_as_of('9999-12-31', {quote}) where price_state <> 'priced' order by all
"""


@click.group(
    cls=CommandGroup,
    sections={"Commands": NAMES},
    modules=dict.fromkeys(NAMES, "reference"),
    help="Show the tables that people bring in reference/, such as prices and labels.",
    subcommand_metavar="[COMMAND] [ARGS]...",
    invoke_without_command=True,
)
@click.pass_context
def reference_command(context: click.Context) -> Invocation | None:
    """Show the tables that people bring, such as prices and labels."""
    if context.invoked_subcommand is not None:
        return None
    return list_command.invoke(list_command.make_context("list", [], parent=context))


@click.command(cls=HomeCommand, prints_result=True)
@format_option()
def list_command(nightbook: Nightbook, *, output_format: str | None) -> int:
    """List the files of each table, with their rows and rejects."""
    rows = run(nightbook.layout.database, _FILES).rows
    if output_format:
        print_rows(output_format, COLUMNS, rows)
        return DONE
    _show_files(nightbook, rows)
    return DONE


def _show_files(nightbook: Nightbook, rows: Sequence[Sequence[Any]]) -> None:
    for table, file, _, row_count, rejects, is_present, _, state in rows:
        where = state or ("" if is_present else "removed from its folder")
        counts = f"{count_of(row_count, 'row')}, {count_of(rejects, 'reject')}"
        print(printable(f"{table}/{file}: {', '.join(filter(None, (counts, where)))}"))
    labels = [name for (name,) in run(nightbook.layout.database, _LABELS).rows]
    if labels:
        print(printable(f"labels: {', '.join(labels)}"))
    if not rows:
        root, command = _root(nightbook), command_for(nightbook.layout)
        print(f"No file was received yet. Each folder in {root} is a table, for example prices.")
        print(f"Write a template for prices: {command} reference init prices --quote USD")


@click.command(cls=HomeCommand, prints_result=True)
def check_command(nightbook: Nightbook) -> int:
    """Read the new files and run your own checks on the newest book, without changing anything."""
    inbox = receive(_root(nightbook), nightbook.now(), is_check=True)
    now = [file for file in inbox.received if (file.table, file.sha256) in inbox.present]
    rejects = 0
    for file in now:
        rejects += file.reject_count
        counts = f"{count_of(file.rows, 'row')}, {count_of(file.reject_count, 'reject')}"
        print(printable(f"{file.table}/{file.file}: {counts}"))
        lines = [
            f"line {reject.line}: {reject.reason} ({reject.value})"
            if reject.line
            else reject.reason
            for reject in file.rejects
        ]
        print_lines(first_lines(lines, MAX_SHOWN, "reject"))
    for problem in inbox.problems:
        print(printable(f"{problem.table}/{problem.file}: not read, {problem.reject.reason}"))
    found = _run_checks(nightbook.layout)
    print_lines((f"{finding.severity}: {finding.words}" for finding in found), "")
    print(f"{count_of(len(now), 'file')} in {_root(nightbook)}. Nothing was changed.")
    return FAILED if rejects or inbox.problems or found else DONE


@click.command(cls=HomeCommand, writes=True)
def load_command(nightbook: Nightbook) -> int:
    """Read the new files now, and publish the book with them. The next night also does this."""
    with writing(nightbook, "loading"):
        publish.refresh(nightbook)
    _show_files(nightbook, run(nightbook.layout.database, _FILES).rows)
    return DONE


@click.command(cls=HomeCommand, writes=True)
@argument("table", type=Choice(["prices"]), help="Table to write a template for")
@option("--quote", required=True, metavar="ASSET", help="Unit of the prices, such as USD")
def init_command(nightbook: Nightbook, *, table: str, quote: str) -> int:
    """Write a template with tonight's assets that have no valid price."""
    with writing(nightbook, "upgrading"):
        publish.catch_up(nightbook)
    rows = run(nightbook.layout.database, _UNPRICED.format(quote=literal(quote))).rows
    if not rows:
        print(f"All assets of the newest book have a valid price in {quote}. Nothing was written.")
        return DONE
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("asset_id", "is_custom_asset", "quote", "price_text", "as_of", "source"))
    for asset, is_custom, price, day in rows:
        writer.writerow((asset, str(is_custom).lower(), quote, price, day, ""))
    file = nightbook.layout.exports / f"{table}-{rows[0][-1]}.csv"
    write_bytes(file, text.getvalue().encode())
    print(f"{count_of(len(rows), 'asset')} without a valid price in {quote}: {file}")
    print(f"Fill in price_text, then move the file to {_root(nightbook) / table}")
    return DONE


@click.command(cls=HomeCommand, writes=True)
@argument("file", type=click.Path(), help="Old workbook to read")
@option("--as-of", type=Day(), required=True, help="Day of the workbook, before the first night")
@flag("--preview", "is_preview", help="Show how the workbook would be read, without importing it")
@option(
    "--accept",
    default="",
    metavar="WHY",
    help="Accept that an imported workbook differs from the first night, and record this reason",
)
def import_command(
    nightbook: Nightbook, *, file: str, as_of: date, is_preview: bool, accept: str
) -> int:
    """Import an old workbook as the book of a day before the first night.

    Old books are shown in history.positions_with_imported after the last of them was compared with
    the first night. Exits with code 3 if there are open questions, or if old books are hidden.
    """
    layout, now, path = nightbook.layout, nightbook.now(), Path(file)
    with nullcontext() if is_preview else writing(nightbook, "importing"):
        if not is_preview:
            publish.catch_up(nightbook)
        book = read_old_book(layout.database, layout.home / "reconcile", path, as_of)
        is_open = bool(book.preview.question)
        print_lines(book.preview.lines if is_preview or is_open else (), "")
        print_lines(first_lines(book.notices, MAX_SHOWN, "notice"))
        if is_preview or is_open:
            print("Nothing was imported.")
            return A_PERSON_MUST_DECIDE if is_open else DONE
        table, sha256 = f"{POSITIONS.name}/{as_of}", hashlib.sha256(book.content).hexdigest()
        request = ReadRequest(table, display_name(path), now, sha256, book.content)
        acceptance = accept.strip() and Acceptance(user_name(), now, accept, book.first_night)
        is_new = receive_book(_root(nightbook), now, request, book.file_rows, acceptance or None)
        if is_new:
            publish.refresh(nightbook)
    print(f"{count_of(len(book.rows), 'row')}{'' if is_new else ', which were imported before'}.")
    return _print_gate(layout)


def _print_gate(layout: Layout) -> int:
    """Print whether old books are shown, and the differences that hide them."""
    for file, day, differences, rejects in run(layout.database, _HIDDEN).rows:
        counts = f"{count_of(differences, 'difference')} and {count_of(rejects, 'reject')}"
        print(
            printable(f"Old books are hidden: {file} of {day}, the last imported day, has {counts}")
            + ". Import a corrected file. If these are real movements until the first night, accept"
            " them: nightbook reference import FILE --as-of DAY --accept WHY"
        )
        shown = run(layout.database, f"{_DIFFERENCES} order by all limit {MAX_SHOWN}")
        print_rows("table", shown.columns, shown.rows)
        return A_PERSON_MUST_DECIDE
    print("Old books are shown in history.positions_with_imported.")
    return DONE


def _run_checks(layout: Layout) -> list[OwnFinding]:
    """Run the home's own checks on the published book, if there are checks and a book."""
    folder = layout.home / "checks"
    has_book = folder.is_dir() and layout.database.exists()
    return list(run_own_checks(folder, layout.database)) if has_book else []


def _root(nightbook: Nightbook) -> Path:
    return nightbook.layout.home / "reference"
