"""`nightbook query SQL`: ask the published warehouse, read-only."""

import sys
from pathlib import Path

from assets.monitoring.staleness import staleness_note
from assets.nightbook import Nightbook
from warehouse.query import child
from warehouse.query.formats import FORMATS
from warehouse.storage.layout import Layout, written_aside

PARQUET = "parquet"
ENDINGS = (PARQUET, "csv", "json", "jsonl")
STANDARD_INPUT = "-"


class NotAsked(Exception):
    """What was typed holds no question, or names a file that cannot be the answer's."""

    exit_code = 2


class NotWritten(Exception):
    """The file of an answer could not be written; the sentence says why."""


def run(
    nightbook: Nightbook,
    *,
    sql: str | None,
    file: str | None,
    form: str | None,
    output: str | None,
    limit: int | None,
) -> int:
    """Print the answer or write it into a file; a cut one says so on standard error."""
    question = _question(sql, file)
    target = None if output is None else _target(nightbook.layout, output, form)
    form = target.suffix[1:].lower() if target else form or "table"
    database = nightbook.layout.database
    if form == PARQUET:
        stored = child.ask_parquet(database, question, limit)
        content, is_cut = stored.content, stored.is_cut
    else:
        answer = child.ask(database, question, limit)
        content, is_cut = FORMATS[form](answer).encode(), answer.is_cut
    if note := staleness_note(nightbook):
        print(note, file=sys.stderr)
    if target is None:
        sys.stdout.write(content.decode())
    else:
        _write(target, content)
    if is_cut:
        rows = "row is" if limit == 1 else f"{limit} rows are"
        print(f"Only the first {rows} shown (--limit).", file=sys.stderr)
    return 0


def _write(target: Path, content: bytes) -> None:
    try:
        with written_aside(target) as out:
            out.write(content)
    except OSError as error:
        raise NotWritten(
            f"The answer could not be written to {target}: {error.strerror}. What was there "
            "stands. Name another place with -o."
        ) from None


def _question(sql: str | None, file: str | None) -> str:
    """Return the question: typed, of a file, or of standard input for `-`."""
    if (sql is None) == (file is None):
        typed = "both an SQL and a file" if sql is not None else "no question"
        raise NotAsked(
            f"There is {typed}, and one question is asked at a time. Nothing was asked. Type "
            "nightbook query 'select ...', or query -f FILE, or query - for standard input."
        )
    if file is None and sql != STANDARD_INPUT:
        return str(sql)
    try:
        if file is None or file == STANDARD_INPUT:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(file).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, AttributeError) as error:  # it may be closed
        source = file or "standard input"
        raise NotAsked(
            f"The question could not be read from {source}: {error}. Nothing was asked. It is one "
            "SQL statement as UTF-8."
        ) from None


def _target(layout: Layout, output: str, form: str | None) -> Path:
    """Return the file to write; raises `NotAsked` where that is none of a person's."""
    target = Path(output).resolve()
    try:
        problem = _problem(layout, target, form)
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        raise NotAsked(f"{target} cannot be written: {problem}. Nothing was asked.")
    return target


def _problem(layout: Layout, target: Path, form: str | None) -> str:
    """Return why an answer is not written there, or nothing."""
    ending = target.suffix[1:].lower()
    for folder in (layout.landing, layout.lake, layout.warehouse, layout.home / "reconcile"):
        if target.is_relative_to(folder.resolve()):
            return f"{folder} holds what nightbook itself wrote"
    if ending not in ENDINGS:
        return f"its ending is none of .{', .'.join(ENDINGS)}"
    if form not in (None, ending):
        return f"its ending says otherwise than --format {form}; leave that out"
    if target.exists() and not target.is_file():
        return "it is no ordinary file"
    return "" if target.parent.is_dir() else f"there is no folder {target.parent}"
