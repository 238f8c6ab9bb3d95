"""The subcommands of `nightbook reference`, which show the tables that people bring."""

import csv
import io
from pathlib import Path

import click
from click import argument, option

from assets.console.command import CommandGroup, HomeCommand, Invocation
from assets.console.exit_codes import DONE, FAILED
from assets.console.invocation import command_for
from assets.console.parameters import Choice, format_option
from assets.console.rows import print_rows
from assets.nightbook import Nightbook
from warehouse.contract.model import count_of, first_lines, literal
from warehouse.query.formats import printable
from warehouse.query.read import run
from warehouse.reference.inbox import receive
from warehouse.reference.own_checks import OwnFinding, run_own_checks
from warehouse.storage.layout import Layout, written_aside

COLUMNS = ("table", "file", "received_at", "rows", "rejects", "is_present", "sha256")
MAX_SHOWN = 10
_FILES = """
select table_name, file, received_at, row_count, reject_count, is_present, sha256
from ops.reference_files order by table_name, received_at
"""
_LABELS = "select distinct label from internal.labels order by label"
_UNPRICED = """
select asset_id, is_custom_asset, '' as price_text, snapshot_date
from prices_as_of('9999-12-31', {quote}) where price_state <> 'priced' order by all
"""


@click.group(
    cls=CommandGroup,
    sections={"Commands": ("list", "check", "init")},
    modules=dict.fromkeys(("list", "check", "init"), "reference"),
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
    for table, file, _, row_count, rejects, is_present, _ in rows:
        removed = "" if is_present else ", removed from its folder"
        counts = f"{count_of(row_count, 'row')}, {count_of(rejects, 'reject')}{removed}"
        print(printable(f"{table}/{file}: {counts}"))
    labels = [name for (name,) in run(nightbook.layout.database, _LABELS).rows]
    if labels:
        print(printable(f"labels: {', '.join(labels)}"))
    if not rows:
        root, command = _root(nightbook), command_for(nightbook.layout)
        print(f"No file was received yet. Each folder in {root} is a table, for example prices.")
        print(f"Write a template for prices: {command} reference init prices --quote USD")
    return DONE


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
        for line in first_lines(lines, MAX_SHOWN, "reject"):
            print(f"  {printable(line)}")
    for problem in inbox.problems:
        print(printable(f"{problem.table}/{problem.file}: not read, {problem.reject.reason}"))
    found = _run_checks(nightbook.layout)
    for finding in found:
        print(printable(f"{finding.severity}: {finding.words}"))
    print(f"{count_of(len(now), 'file')} in {_root(nightbook)}. Nothing was changed.")
    return FAILED if rejects or inbox.problems or found else DONE


@click.command(cls=HomeCommand, writes=True)
@argument("table", type=Choice(["prices"]), help="Table to write a template for")
@option("--quote", required=True, metavar="ASSET", help="Unit of the prices, such as USD")
def init_command(nightbook: Nightbook, *, table: str, quote: str) -> int:
    """Write a template with tonight's assets that have no valid price."""
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
    with written_aside(file) as out:
        out.write(text.getvalue().encode())
    print(f"{count_of(len(rows), 'asset')} without a valid price in {quote}: {file}")
    print(f"Fill in price_text, then move the file to {_root(nightbook) / table}")
    return DONE


def _run_checks(layout: Layout) -> list[OwnFinding]:
    """Run the home's own checks on the published book, if there are checks and a book."""
    folder = layout.home / "checks"
    has_book = folder.is_dir() and layout.database.exists()
    return list(run_own_checks(folder, layout.database)) if has_book else []


def _root(nightbook: Nightbook) -> Path:
    return nightbook.layout.home / "reference"
