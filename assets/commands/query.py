"""`nightbook query SQL`: run a read-only query on the published warehouse."""

import difflib
import re
import sys
from pathlib import Path

import click
from click import argument, option

from assets.console.command import HomeCommand
from assets.console.parameters import format_option
from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.query import child
from warehouse.query.formats import FORMATS
from warehouse.storage.layout import Layout, written_aside

PARQUET = "parquet"
EXTENSIONS = (PARQUET, "csv", "json", "jsonl")
STANDARD_INPUT = "-"
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
    cls=SqlCommand, prints_result=True, context_settings={"ignore_unknown_options": True}
)
@argument("sql", required=False, help="Query to run, or - to read standard input")
@option("-f", "--file", type=click.Path(), metavar="FILE", help="Read the SQL from a file")
@format_option(help_text="Output format  [default: table]")
@option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="Write to a .parquet, .csv, .json or .jsonl file",
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
) -> int:
    """Run read-only SQL on the warehouse."""
    query = _read_query(sql, file)
    target = None if output is None else _output_file(nightbook.layout, output, output_format)
    output_format = target.suffix[1:].lower() if target else output_format or "table"
    database = nightbook.layout.database
    if output_format == PARQUET:
        stored = child.ask_parquet(database, query, limit)
        content, is_cut = stored.content, stored.is_cut
    else:
        result = child.ask(database, query, limit)
        content, is_cut = FORMATS[output_format](result).encode(), result.is_cut
    if note := staleness_note(nightbook):
        print(note, file=sys.stderr)
    if target is None:
        sys.stdout.write(content.decode())
    else:
        _write(target, content)
    if is_cut:
        rows = "row is" if limit == 1 else f"{limit} rows are"
        print(f"Only the first {rows} shown (see --limit).", file=sys.stderr)
    return 0


def _write(target: Path, content: bytes) -> None:
    try:
        with written_aside(target) as out:
            out.write(content)
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


def _problem(layout: Layout, target: Path, output_format: str | None) -> str:
    """Return the reason why a result cannot be written to this file, or an empty string."""
    extension = target.suffix[1:].lower()
    for folder in (layout.landing, layout.lake, layout.warehouse, layout.home / "reconcile"):
        if target.is_relative_to(folder.resolve()):
            return f"{folder} is reserved for nightbook's own files"
    if extension not in EXTENSIONS:
        return f"its extension must be one of .{', .'.join(EXTENSIONS)}"
    if output_format not in (None, extension):
        return f"its extension contradicts --format {output_format}; leave out the option"
    if target.exists() and not target.is_file():
        return "it is not a regular file"
    return "" if target.parent.is_dir() else f"the folder {target.parent} does not exist"
