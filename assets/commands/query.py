"""`nightbook query SQL`: run a read-only query on the published warehouse."""

import difflib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click import argument, option

from assets.console.command import HomeCommand
from assets.console.parameters import FORMATS as NAMES
from assets.console.parameters import flag, format_option
from assets.console.terminal import MAX_WIDTH, is_terminal
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.contract.reconciliation import RECORD_FOLDERS
from warehouse.query import child
from warehouse.query.evidence import evidence_of
from warehouse.query.formats import FORMATS, QueryResult, as_json, as_table
from warehouse.storage.layout import Layout, write_bytes

PARQUET, WORKBOOK, JSON = "parquet", "xlsx", "json"
EXTENSIONS = (PARQUET, "csv", "json", "jsonl", WORKBOOK, "md")
_FORMAT_OF = {"md": "markdown"}  # the extensions that are not the name of their format
STANDARD_INPUT = "-"
EXAMPLES = """\
Examples:
  nightbook query "from holdings where asset_id = 'BTC' order by total desc"
  nightbook query -f exposure.sql -o exposure.parquet
  nightbook query 'select * from ops.attention' --format markdown"""
_OPTION = re.compile(r"--[a-z][a-z-]+")


class InvalidQueryArguments(Exception):
    """The arguments contain no query, or the output file cannot be used."""

    exit_code = 2


class OutputNotWritten(Exception):
    """The output file could not be written. The message gives the reason."""


class SqlCommand(HomeCommand):
    """A command whose argument may start with `--`, as SQL comments do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reject a mistyped option, which is a single word that cannot be an SQL statement."""
        known = [name for parameter in self.get_params(ctx) for name in parameter.opts]
        for word in args:
            name = word.partition("=")[0]
            if _OPTION.fullmatch(name) and name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise click.NoSuchOption(name, possibilities=near, ctx=ctx)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "extra argument" not in error.message:
                raise
            message = f"{error.message}. The query must be a single argument: put it in 'quotes'."
            raise click.UsageError(message, ctx) from None


# Accept unknown options, because a query may start with a comment (`--`), which looks like an
# option.
@click.command(
    cls=SqlCommand,
    epilog=EXAMPLES,
    prints_result=True,
    context_settings={"ignore_unknown_options": True},
)
@argument("sql", required=False, help="Query to run, or - to read standard input")
@option("-f", "--file", type=click.Path(), metavar="FILE", help="Read the SQL from a file")
@format_option(
    *NAMES, "markdown", WORKBOOK, help_text="Output format  [default: table]; xlsx needs -o"
)
@option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="Write to a .parquet, .csv, .json, .jsonl, .xlsx or .md file",
)
@flag(
    "--evidence",
    "is_evident",
    help="With json: also print query, night, version, fingerprint, row count and digest",
)
@option("--limit", type=click.IntRange(min=0), metavar="N", help="Print at most N rows")
def query_command(
    nightbook: Nightbook,
    *,
    sql: str | None,
    file: str | None,
    output_format: str | None,
    output: str | None,
    limit: int | None,
    is_evident: bool,
) -> int:
    """Run read-only SQL on the warehouse.

    A query is stopped after 60 seconds. In a terminal, a table is fitted to the window and long
    results are shown with $PAGER, if it is set.
    """
    query = _read_query(sql, file)
    target = None if output is None else _output_file(nightbook.layout, output, output_format)
    if target is not None:
        output_format = _format_of(target)
    elif output_format == WORKBOOK:
        raise InvalidQueryArguments(
            "A workbook cannot be printed. Nothing was run. Add -o FILE.xlsx."
        )
    if is_evident and output_format != JSON:
        raise InvalidQueryArguments(
            "--evidence needs --format json or a .json file. A workbook always has its evidence. "
            "Nothing was run."
        )
    result, content, is_cut = _fetch(nightbook.layout, query, limit, output_format, is_evident)
    if note := staleness_note(nightbook):
        print(note, file=sys.stderr)
    if result is not None and (target, output_format) == (None, None) and is_terminal():
        _show(result)
    elif target is None:
        sys.stdout.write(content.decode())
    else:
        _write(target, content)
    if is_cut:
        rows = "row is" if limit == 1 else f"{limit} rows are"
        print(f"Only the first {rows} shown (see --limit).", file=sys.stderr)
    return 0


def _fetch(
    layout: Layout,
    query: str,
    limit: int | None,
    output_format: str | None,
    is_evident: bool,  # noqa: FBT001 - the command's own options, in their order
) -> tuple[QueryResult | None, bytes, bool]:
    """Return the result (None for Parquet), the bytes to write, and whether rows are missing."""
    # The result and its evidence must be from the same version.
    database = layout.database.resolve()
    if output_format == PARQUET:
        stored = child.ask_parquet(database, query, limit)
        return None, stored.content, stored.is_cut
    result = child.ask(database, query, limit)
    needs_evidence = is_evident or output_format == WORKBOOK
    facts = evidence_of(database, query, result) if needs_evidence else None
    return result, _render(result, output_format, facts), result.is_cut


def _render(
    result: QueryResult, output_format: str | None, facts: Mapping[str, Any] | None
) -> bytes:
    if output_format == WORKBOOK:
        # Import XlsxWriter only here, so that queries in a terminal start faster.
        content: bytes = import_module("warehouse.query.workbook").as_workbook(result, facts)
        return content
    if facts is not None:
        return as_json(result, facts).encode()
    return FORMATS[output_format or "table"](result).encode()


def _show(result: QueryResult) -> None:
    """Print a table that fits the window, with its row count, through $PAGER if it is long."""
    window = shutil.get_terminal_size((MAX_WIDTH, 24))
    count = f"{len(result.rows):,} {'row' if len(result.rows) == 1 else 'rows'}\n"
    shown = as_table(result, window.columns) + count
    if os.environ.get("PAGER") and shown.count("\n") >= window.lines:
        click.echo_via_pager(shown)
    else:
        sys.stdout.write(shown)


def _write(target: Path, content: bytes) -> None:
    try:
        write_bytes(target, content)
    except OSError as error:
        raise OutputNotWritten(
            f"The result could not be written to {target}: {error.strerror}. Any existing file "
            "there was not changed. Choose another file with -o."
        ) from None


def _read_query(sql: str | None, file: str | None) -> str:
    """Return the query from the argument, a file, or standard input (`-`)."""
    if (sql is None) == (file is None):
        problem = "both SQL and a file were given" if sql is not None else "no query was given"
        raise InvalidQueryArguments(
            f"Pass one query; {problem}. Nothing was run. Type nightbook query 'select ...', or "
            "query -f FILE, or query - for standard input."
        )
    if file is None and sql != STANDARD_INPUT:
        return str(sql)
    try:
        if file is None or file == STANDARD_INPUT:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(file).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, AttributeError) as error:
        # If standard input is closed, reading it raises AttributeError.
        source = file or "standard input"
        raise InvalidQueryArguments(
            f"The query could not be read from {source}: {error}. Nothing was run. Pass one "
            "SQL statement in UTF-8."
        ) from None


def _output_file(layout: Layout, output: str, output_format: str | None) -> Path:
    """Return the path to write to. Raises `InvalidQueryArguments` if it cannot be used."""
    target = Path(output).resolve()
    try:
        problem = _problem(layout, target, output_format)
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        raise InvalidQueryArguments(f"{target} cannot be written: {problem}. Nothing was run.")
    return target


def _format_of(target: Path) -> str:
    extension = target.suffix[1:].lower()
    return _FORMAT_OF.get(extension, extension)


def _problem(layout: Layout, target: Path, output_format: str | None) -> str:
    """Return the reason why a result cannot be written to this file, or an empty string."""
    extension = target.suffix[1:].lower()
    own = (layout.home / name for name in (*RECORD_FOLDERS.values(), "reference/kept"))
    for folder in (layout.landing, layout.lake, layout.warehouse, *own):
        if target.is_relative_to(folder.resolve()):
            return f"{folder} is reserved for nightbook's own files"
    if extension not in EXTENSIONS:
        return f"its extension must be one of .{', .'.join(EXTENSIONS)}"
    if output_format not in (None, _format_of(target)):
        return f"its extension contradicts --format {output_format}; leave out the option"
    if target.exists() and not target.is_file():
        return "it is not a regular file"
    return "" if target.parent.is_dir() else f"the folder {target.parent} does not exist"
