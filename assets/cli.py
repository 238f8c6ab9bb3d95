"""The command `nightbook`: arguments in, words and an exit code out.

Exit codes: 0 done; 1 failed; 2 bad input or settings; 3 a person must decide. An error is one
paragraph; a traceback is shown with `--debug` only.
"""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from assets.console.endings import FAILED, report_error
from assets.console.streams import SafeStream
from assets.home.gate import require_place
from assets.nightbook import Nightbook

BAD_INPUT = 2
LAST_PORT = 65535
# Commands of which nothing is left but what they print.
ANSWERS = {"api", "doctor", "query", "snapshots", "status", "tables", "verify"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command, as argparse takes it."""

    names: tuple[str, ...]
    options: dict[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    """An argument, written as argparse has it."""
    return Argument(names, options)


def whole(text: str) -> int:
    """A number of things: 0 or more. Raises `ValueError`, which argparse tells in its words."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 0")
    return number


def port(text: str) -> int:
    """A port of this machine. Raises as `whole` does."""
    number = whole(text)
    if number > LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {LAST_PORT}")
    return number


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its words, its arguments, and the module in `assets.commands` that does it."""

    name: str
    words: str
    arguments: tuple[Argument, ...] = ()
    module: str = field(default="")


WHY = argument("--why", default="", help="kept on record; needed to change what was accepted")
DATE = {"metavar": "YYYY-MM-DD", "default": None}
MANY: dict[str, Any] = {"action": "append", "default": []}  # argparse never adds to the default
COMMANDS = (
    Command("demo", "three simulated nights against an embedded sandbox; no key needed"),
    Command(
        "run",
        "take tonight's book: pull, land, flatten, judge, publish",
        (
            argument("--date", help="today, or a landed date to make again", **DATE),
            argument(
                "--unless-taken",
                action="store_true",
                help="do nothing where the date has its night: for cron, several times a night",
            ),
        ),
    ),
    Command(
        "doctor",
        "check settings, disk, reach, key, clock, warehouse and schedule",
        (argument("--alert", action="store_true", help="send a test by every alert channel"),),
    ),
    Command("status", "in five lines: last night, the book, the next night, what is wrong"),
    Command(
        "api",
        "one signed GET; JSON to standard output",
        (
            argument("path", metavar="PATH", help="such as /venues or /portfolios/ID"),
            argument("--query", metavar="K=V", action="append", default=[], help="repeatable"),
        ),
    ),
    Command(
        "query",
        "ask the warehouse in SQL, read-only",
        (
            argument("sql", metavar="SQL"),
            argument("--format", choices=("table", "csv", "json"), default="table"),
            argument("--limit", type=whole, metavar="N", help="at most N rows"),
        ),
    ),
    Command(
        "tables",
        "what is in the warehouse: tables, views, macros, and what each column means",
        (argument("name", metavar="NAME", nargs="?", help="only this one, with its columns"),),
    ),
    Command(
        "snapshots",
        "every night with its state and reason",
        (argument("--lessons", action="store_true", help="what is known to be harmless"),),
    ),
    Command(
        "accept",
        "accept a held snapshot: the book of its date, and what held it holds no later one",
        (argument("snapshot", metavar="ID"), WHY),
        "decide",
    ),
    Command(
        "reject",
        "reject a snapshot, also an accepted one (the last good book returns), or a lesson",
        (argument("snapshot", metavar="ID"), WHY),
        "decide",
    ),
    Command(
        "export",
        "positions for people and machines, under exports/",
        (
            argument("--as-of", help="the newest book up to this date", **DATE),
            argument(
                "--format",
                action="append",
                choices=("xlsx", "csv", "parquet"),
                help="repeatable; xlsx when none is given",
            ),
        ),
    ),
    Command("report", "the morning report as one HTML file, under reports/"),
    Command(
        "reconcile",
        "the book against a ledger: init, run, status, history, sign, verify",
        (
            argument(
                "step", choices=("init", "run", "status", "history", "sign", "verify"), help=""
            ),
            argument(
                "what", metavar="WHAT", nargs="?", help="a break's id (history), a file (verify)"
            ),
            argument("--as-of", help="the newest book up to this date", **DATE),
            argument(
                "--role", choices=("preparer", "reviewer"), default="preparer", help="to sign"
            ),
            argument("--who", help="who signs; the user of this machine when not given"),
            argument("--comment", default="", help="kept with the signature"),
        ),
    ),
    Command("verify", "every file of landing, lake and warehouse against its SHA-256"),
    Command(
        "prune",
        "let old nights go; what was read and decided stays on record",
        (
            argument("--keep", type=whole, metavar="DAYS", help="before the newest book"),
            argument("--max-gb", metavar="N", help="that bodies and tables may take: oldest go"),
            argument("--no-month-ends", action="store_true", help="let month ends go as well"),
            argument("--dry-run", action="store_true", help="say what would go"),
        ),
    ),
    Command(
        "rebuild",
        "make the warehouse again from the lake, or both from the landing zone, offline",
        (argument("--from-landing", action="store_true", help="the lake as well"),),
    ),
    Command(
        "backup",
        "what cannot be made again, into one file: bodies, decisions, reconciliations",
        (argument("file", metavar="FILE"),),
    ),
    Command(
        "restore",
        "a backup into an empty home, then lake and warehouse made of it",
        (argument("file", metavar="FILE"),),
        "backup",
    ),
    Command(
        "install",
        "systemd units for this home and user; starts nothing",
        (argument("--into", metavar="DIR", help="instead of where systemd looks"),),
    ),
    Command(
        "sandbox",
        "the API on this machine, with an invented world, faults and other readings to rehearse",
        (
            argument("--port", type=port, default=0, help="0 takes a free one"),
            argument("--fault", metavar="NAME[,SCOPE]", help="--fault list tells them", **MANY),
            argument(
                "--choice",
                metavar="NAME=VALUE",
                help="another reading; --choice list tells",
                **MANY,
            ),
        ),
    ),
    Command(
        "dev",
        "the Dagster UI and daemon for this home, on this machine only",
        (
            argument("--port", type=port, default=3000),
            argument("--host-name", action="append", default=[], help="that a proxy gives it"),
        ),
    ),
)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="nightbook",
        description="nightbook takes the book every night: portfolios, venues and instruments, "
        "exact to the last digit.",
        epilog="Exit codes: 0 done, 1 failed, 2 bad input or settings, 3 a person must decide. "
        "Settings are read from NIGHTBOOK_* variables and from .env: see README.md.",
    )
    top.add_argument("--home", metavar="DIR", help="instead of NIGHTBOOK_HOME (./data)")
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.words, description=command.words)
        for argument_ in command.arguments:
            sub.add_argument(*argument_.names, **argument_.options)
        sub.set_defaults(module=command.module or command.name)
    return top


def main(argv: Sequence[str] | None = None, nightbook: Nightbook | None = None) -> int:
    """Run one command; errors become one paragraph and an exit code."""
    top = parser()
    arguments = top.parse_args(argv)
    if arguments.command is None:
        top.print_help()
        return BAD_INPUT
    if arguments.home:
        os.environ["NIGHTBOOK_HOME"] = arguments.home
    out, errors = SafeStream(sys.stdout), SafeStream(sys.stderr)
    with (
        contextlib.redirect_stdout(cast("Any", out)),
        contextlib.redirect_stderr(cast("Any", errors)),
    ):
        code = _exit_code(arguments, nightbook or Nightbook())
        out.flush()
        return _unsaid(arguments, out, code)


def _unsaid(arguments: argparse.Namespace, out: SafeStream, code: int) -> int:
    """The exit code, which what was not said changes only where it was all that was asked for.

    A reader that goes away, `head` for instance, has had enough.
    """
    if out.error is None or isinstance(out.error, BrokenPipeError):
        return code
    print(
        f"Standard output could not be written ({out.error}): what nightbook {arguments.command} "
        "said is lost, what it did is done.",
        file=sys.stderr,
    )
    return code or FAILED * (arguments.command in ANSWERS)


def _exit_code(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    try:
        if arguments.command == "run" and arguments.date is None:
            nightbook.settings(api=True)  # every complaint at once, as doctor has them
        if arguments.command != "doctor":  # which tells of each setting and place itself
            require_place(nightbook.layout, arguments.command, getattr(arguments, "step", ""))
        # Only the chosen command is imported: Dagster alone takes longer than a query may.
        module = importlib.import_module(f"assets.commands.{arguments.module}")
        code: int = module.run(arguments, nightbook)
    except BrokenPipeError:  # of a body that goes out as bytes
        return 0
    except KeyboardInterrupt:
        print("Stopped. What was not finished leaves nothing; run it again.", file=sys.stderr)
        return FAILED
    except Exception as error:
        if arguments.debug:
            raise
        return report_error(error, nightbook)
    return code


if __name__ == "__main__":
    sys.exit(main())
