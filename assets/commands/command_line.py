"""What can be typed: every command of `nightbook` with its arguments and options.

Nothing of a command is imported here, so that `nightbook query` starts without Dagster.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

import click

LAST_PORT = 65535
WRONG_USAGE = 2
ROLES = ("preparer", "reviewer", "approver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What was typed: the command, its sub-command, the function that does it, and its options."""

    command: str
    step: str
    module: str
    function: str
    options: dict[str, Any]
    home: str | None
    is_debug: bool


class Day(click.ParamType):
    """A date, written as 2026-11-20."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Read a date; a wrong one is wrong usage."""
        try:
            return date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no date: write it as 2026-11-20.", param, ctx)


class KeyValue(click.ParamType):
    """A name and a value, written as K=V."""

    name = "K=V"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first equals sign."""
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not of the form K=V. Nothing was sent.", param, ctx)
        return name, text


class InOrder(click.Group):
    """Commands in the order in which a person meets them, not that of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names as they were declared."""
        del ctx
        return list(self.commands)


def _command(
    name: str, summary: str, *parameters: click.Parameter, run: str = "", **settings: Any
) -> click.Command:
    """Declare one command; `run` is `module.function` in `assets.commands`."""
    # That module is imported when the command is run: Dagster alone takes longer than a query may.
    module, _, function = (run or f"{name}.run").partition(".")

    def note(**options: Any) -> Invocation:
        shared = click.get_current_context().find_root().params
        return Invocation(
            command="reconcile" if module == "reconcile" else name,
            step=name if module == "reconcile" else "",
            module=module,
            function=function,
            options=options,
            home=shared["home"],
            is_debug=shared["debug"],
        )

    return click.Command(
        name, params=list(parameters), help=summary, short_help=summary, callback=note, **settings
    )


def _option(*names: str, **attributes: Any) -> click.Option:
    return click.Option(names, **attributes)


def _argument(name: str, metavar: str, **attributes: Any) -> click.Argument:
    return click.Argument([name], metavar=metavar, **attributes)


NUMBER, PORT = click.IntRange(min=0), click.IntRange(0, LAST_PORT)
DAY: dict[str, Any] = {"type": Day(), "metavar": "YYYY-MM-DD"}
WHY = _option("--why", default="", help="kept on record; needed to change what was accepted")
AS_OF = _option("--as-of", help="the newest book up to this date", **DAY)
LEDGER = _argument("file", "FILE")
RECONCILE = InOrder(
    "reconcile",
    help="the book against a ledger: each figure ties out or is a break",
    commands=[
        _command("init", "write settings and a ledger to fill in", run="reconcile.init"),
        _command("preview", "what would be read of a ledger", LEDGER, run="reconcile.preview"),
        _command("setup", "settle what is asked about a ledger", LEDGER, run="reconcile.setup"),
        _command(
            "run",
            "compare; exit code 3 while breaks are open",
            AS_OF,
            _option(
                "--restate", default="", metavar="WHY", help="run a day of a closed month again"
            ),
            run="reconcile.run",
        ),
        _command("status", "a result and its open breaks", AS_OF, run="reconcile.status"),
        _command(
            "history",
            "what was done about a break, by its id",
            _argument("break_id", "ID", default=""),
            run="reconcile.history",
        ),
        _command(
            "sign",
            "sign a result",
            AS_OF,
            _option("--role", type=click.Choice(ROLES), default="preparer"),
            _option("--who", help="who signs; the user of this machine when not given"),
            _option("--comment", default="", help="kept with the signature"),
            run="reconcile.sign",
        ),
        _command(
            "close",
            "lock a month's days and write all that stands behind them into one file",
            _argument("month", "YYYY-MM"),
            run="reconcile.close",
        ),
        _command(
            "verify",
            "a workbook against what was signed, or a month's pack on any machine",
            _argument("file", "FILE", default=""),
            run="reconcile.verify",
        ),
    ],
)
_ALL = (
    _command(
        "demo",
        "three simulated nights against an embedded sandbox; no key needed",
        _option("--next", "is_next", is_flag=True, help="one more night, with its ledger"),
    ),
    _command(
        "run",
        "take tonight's book: pull, land, flatten, judge, publish",
        _option("--date", "day", help="today, or a landed date to make again", **DAY),
        _option(
            "--unless-taken",
            is_flag=True,
            help="do nothing where the date has its night: for cron, several times a night",
        ),
    ),
    _command(
        "doctor",
        "check settings, disk, reach, key, clock, warehouse and schedule",
        _option("--alert", is_flag=True, help="send a test by every alert channel"),
    ),
    _command("status", "in five lines: last night, the book, the next night, what is wrong"),
    _command(
        "api",
        "one signed GET; JSON to standard output",
        _argument("path", "PATH"),
        _option("--query", type=KeyValue(), metavar="K=V", multiple=True, help="repeatable"),
    ),
    _command(
        "query",
        "ask the warehouse in SQL, read-only",
        _argument("sql", "SQL"),
        _option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table"),
        _option("--limit", type=NUMBER, metavar="N", help="at most N rows"),
        # A question may begin with a comment, which looks like an option.
        context_settings={"ignore_unknown_options": True},
    ),
    _command(
        "tables",
        "what is in the warehouse: tables, views, macros, and what each column means",
        _argument("name", "[NAME]", required=False),
    ),
    _command(
        "snapshots",
        "every night with its state and reason",
        _option("--lessons", "are_lessons", is_flag=True, help="what is known to be harmless"),
    ),
    _command(
        "accept",
        "accept a held snapshot: the book of its date, and what held it holds no later one",
        _argument("snapshot_id", "ID"),
        WHY,
        run="decide.accept",
    ),
    _command(
        "reject",
        "reject a snapshot, also an accepted one (the last good book returns), or a lesson",
        _argument("name", "ID"),
        WHY,
        run="decide.reject",
    ),
    _command(
        "export",
        "positions for people and machines, under exports/",
        AS_OF,
        _option(
            "--format",
            "formats",
            multiple=True,
            type=click.Choice(["xlsx", "csv", "parquet"]),
            help="repeatable; xlsx when none is given",
        ),
    ),
    _command("report", "the morning report as one HTML file, under reports/"),
    RECONCILE,
    _command("verify", "every file of landing, lake and warehouse against its SHA-256"),
    _command(
        "prune",
        "let old nights go; what was read and decided stays on record",
        _option("--keep", "keep_days", type=NUMBER, metavar="DAYS", help="before the newest book"),
        _option("--max-gb", metavar="N", help="that bodies and tables may take: oldest go"),
        _option("--no-month-ends", is_flag=True, help="let month ends go as well"),
        _option("--dry-run", is_flag=True, help="say what would go"),
    ),
    _command(
        "rebuild",
        "make the warehouse again from the lake, or both from the landing zone, offline",
        _option("--from-landing", is_flag=True, help="the lake as well"),
    ),
    _command(
        "backup",
        "what cannot be made again, into one file: bodies, decisions, reconciliations",
        _argument("file", "FILE"),
        run="backup.write",
    ),
    _command(
        "restore",
        "a backup into an empty home, then lake and warehouse made of it",
        _argument("file", "FILE"),
        run="backup.restore",
    ),
    _command(
        "install",
        "systemd units for this home and user; starts nothing",
        _option("--into", metavar="DIR", help="instead of where systemd looks"),
    ),
    _command(
        "sandbox",
        "the API on this machine, with an invented world, faults and other readings to rehearse",
        _option("--port", type=PORT, default=0, help="0 takes a free one"),
        _option(
            "--fault", "faults", metavar="NAME[,SCOPE]", help="see --fault list", multiple=True
        ),
        _option(
            "--choice", "choices", metavar="NAME=VALUE", help="see --choice list", multiple=True
        ),
    ),
    _command(
        "dev",
        "the Dagster UI and daemon for this home, on this machine only",
        _option("--port", type=PORT, default=3000, show_default=True),
        _option("--host-name", "host_names", multiple=True, help="that a proxy gives it"),
    ),
)


COMMANDS: dict[str, click.Command] = {str(command.name): command for command in _ALL}


@click.group(
    "nightbook",
    cls=InOrder,
    commands=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="nightbook takes the book every night: portfolios, venues and instruments, exact to the "
    "last digit.",
    epilog="Exit codes: 0 done, 1 failed, 2 bad input or settings, 3 a person must decide. "
    "Settings are read from NIGHTBOOK_* variables and from .env: assets/OPERATING.md lists them.",
)
@click.option("--home", metavar="DIR", help="instead of NIGHTBOOK_HOME (./data)")
@click.option("--debug", is_flag=True, help="show the traceback of an error")
@click.pass_context
def command_line(context: click.Context, /, **_options: Any) -> None:
    """Show the help where no command was typed; `_command` reads the options."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(WRONG_USAGE)
