"""The command line: every command of nightbook with its options."""

from typing import Any

import click

from assets.console.completion import (
    ACCOUNTS,
    ASSETS,
    BREAKS,
    HELD,
    PORTFOLIOS,
    SNAPSHOTS,
    TABLES,
    VENUES,
    complete_from_book,
)
from assets.console.declaration import (
    AS_OF,
    DAY,
    FORMATS,
    WRONG_USAGE,
    Choice,
    InOrder,
    KeyValue,
    SqlCommand,
    Trait,
    argument,
    command,
    dry_run_options,
    file_argument,
    format_option,
    option,
    shared_options,
)

ANSWERS, WRITES, IN_FIRM = Trait.ANSWERS, Trait.WRITES, Trait.IN_FIRM
WITHOUT_HOME, OF_FIRM = Trait.WITHOUT_HOME, Trait.OF_FIRM


ROLES = ("preparer", "reviewer", "approver")


def _step(name: str, summary: str, *parameters: click.Parameter, traits: Trait) -> click.Command:
    """Declare a command of `nightbook reconcile`."""
    traits |= Trait.IN_FIRM
    return command(name, summary, *parameters, run=f"reconcile.{name}", traits=traits)


RECONCILE = InOrder(
    "reconcile",
    help="the book against a ledger: each figure ties out or is a break",
    commands=[
        _step("init", "write settings and a ledger to fill in", traits=WRITES),
        _step("preview", "what would be read of a ledger", file_argument(), traits=ANSWERS),
        _step("setup", "settle what is asked about a ledger", file_argument(), traits=WRITES),
        _step(
            "run",
            "compare; exit code 3 while breaks are open",
            AS_OF,
            option(
                "--restate", default="", metavar="WHY", help="run a day of a closed month again"
            ),
            traits=WRITES,
        ),
        _step("status", "a result and its open breaks", AS_OF, format_option(), traits=ANSWERS),
        _step(
            "history",
            "what was done about a break, by its id",
            argument("break_id", "ID", default="", shell_complete=complete_from_book(BREAKS)),
            format_option(),
            traits=ANSWERS,
        ),
        _step(
            "sign",
            "sign a result",
            AS_OF,
            option("--role", type=Choice(ROLES), default="preparer"),
            option("--who", help="who signs; the user of this machine when not given"),
            option("--comment", default="", help="kept with the signature"),
            traits=WRITES,
        ),
        _step(
            "close",
            "lock a month's days and write all that stands behind them into one file",
            argument("month", "YYYY-MM"),
            traits=WRITES,
        ),
        _step(
            "verify",
            "a workbook against what was signed, or a month's pack on any machine",
            file_argument(default=""),
            format_option(),
            traits=ANSWERS | WITHOUT_HOME,
        ),
    ],
)


LAST_PORT = 65535
ENGINES = ("duckdb", "polars", "pyarrow", "spark")
NUMBER, PORT = click.IntRange(min=0), click.IntRange(0, LAST_PORT)
FOLDER = click.Path(file_okay=False)
FILE: dict[str, Any] = {"type": click.Path(), "metavar": "FILE"}
WHY = option("--why", default="", help="kept on record; needed to change what was accepted")
_ALL = (
    command(
        "demo",
        "three simulated nights against an embedded sandbox; no key needed",
        option("--next", "is_next", is_flag=True, help="one more night, with its ledger"),
        traits=WITHOUT_HOME | WRITES,
        run="demo.run_demo",
    ),
    command(
        "run",
        "take tonight's book: pull, land, flatten, judge, publish",
        option("--date", "day", help="today, or a landed date to make again", **DAY),
        option(
            "--unless-taken",
            is_flag=True,
            help="do nothing where the date has its night: for cron, several times a night",
        ),
        traits=WITHOUT_HOME | WRITES | OF_FIRM,
    ),
    command(
        "doctor",
        "check settings, disk, reach, key, clock, warehouse and schedule",
        option("--alert", is_flag=True, help="send a test by every alert channel"),
        option(
            "--turn-on",
            is_flag=True,
            help="turn on the schedule and sensors that somebody turned off in Dagster",
        ),
        format_option(),
        traits=ANSWERS | WITHOUT_HOME | OF_FIRM,
    ),
    command(
        "status",
        "in five lines: last night, the book, the next night, what is wrong",
        format_option(),
        traits=ANSWERS | OF_FIRM,
    ),
    command(
        "api",
        "one signed GET; JSON to standard output",
        argument("path", "PATH"),
        option("--query", type=KeyValue(), metavar="K=V", multiple=True, help="repeatable"),
        traits=ANSWERS | WITHOUT_HOME | IN_FIRM,
    ),
    command(
        "query",
        "ask the warehouse in SQL, read-only; SQL - reads it from standard input",
        argument("sql", "SQL", required=False),
        option("-f", "--file", help="read the SQL from a file", **FILE),
        option("--format", "form", type=Choice(FORMATS), help="table when not given"),
        option("-o", "--output", help="write a file: .parquet, .csv, .json or .jsonl", **FILE),
        option("--limit", type=NUMBER, metavar="N", help="at most N rows"),
        # A question may begin with a comment, which looks like an option.
        kind=SqlCommand,
        context_settings={"ignore_unknown_options": True},
        traits=ANSWERS | IN_FIRM,
    ),
    command(
        "tables",
        "what is in the warehouse: tables, views, macros, and what each column means",
        argument("name", "[NAME]", required=False, shell_complete=complete_from_book(TABLES)),
        format_option("dbt", note="; dbt: a sources.yml"),
        traits=ANSWERS | IN_FIRM,
    ),
    command(
        "trace",
        "where a figure comes from: request, bytes, and each sum it is in",
        option(
            "--portfolio",
            required=True,
            help="its id or name",
            shell_complete=complete_from_book(PORTFOLIOS),
        ),
        option("--asset", required=True, help="its id", shell_complete=complete_from_book(ASSETS)),
        option(
            "--custom/--no-custom",
            "is_custom",
            default=None,
            help="where the id is that of a custom asset and of another",
        ),
        option(
            "--venue",
            help="its id or name; all when not given",
            shell_complete=complete_from_book(VENUES),
        ),
        option(
            "--account",
            help="its name; all when not given",
            shell_complete=complete_from_book(ACCOUNTS),
        ),
        AS_OF,
        option("--format", "form", type=Choice(("table", "json")), help="table when not given"),
        traits=ANSWERS,
    ),
    command(
        "snapshots",
        "every night with its state and reason",
        option("--lessons", "are_lessons", is_flag=True, help="what is known to be harmless"),
        format_option(),
        traits=ANSWERS,
    ),
    command(
        "accept",
        "accept a held snapshot: the book of its date, and what held it holds no later one",
        argument("snapshot_id", "ID", shell_complete=complete_from_book(HELD)),
        WHY,
        *dry_run_options(),
        run="nights.accept",
        traits=WRITES,
    ),
    command(
        "reject",
        "reject a snapshot, also an accepted one (the last good book returns), or a lesson",
        argument("name", "ID", shell_complete=complete_from_book(SNAPSHOTS)),
        WHY,
        run="nights.reject",
        traits=WRITES,
    ),
    command(
        "export",
        "positions for people and machines, under exports/",
        AS_OF,
        option(
            "--format",
            "formats",
            multiple=True,
            type=Choice(["xlsx", "csv", "parquet"]),
            help="repeatable; xlsx when none is given",
        ),
        traits=WRITES | IN_FIRM,
    ),
    command(
        "report", "the morning report as one HTML file, under reports/", traits=WRITES | IN_FIRM
    ),
    RECONCILE,
    command(
        "verify",
        "every file of landing, lake and warehouse against its SHA-256",
        option("--shelf", "is_shelf", is_flag=True, help="what lies on the shelf, each byte read"),
        format_option(),
        traits=ANSWERS | IN_FIRM,
        run="verify.verify_home",
    ),
    command(
        "prove",
        "whether an engine adds up the nights as their control totals have them",
        option("--engine", type=Choice(ENGINES), default="duckdb", show_default=True),
        AS_OF,
        option("--all", "are_all", is_flag=True, help="every book (up to that date)"),
        option("--exact", "in_parts", is_flag=True, help="in parts that it adds up exactly"),
        format_option(),
        traits=ANSWERS,
        run="verify.run_proof",
    ),
    command(
        "shelve",
        "judged nights onto the object store of NIGHTBOOK_LAKE; runs do it too",
        traits=WRITES,
        run="nights.shelve",
    ),
    command(
        "publish",
        "make or refresh this home's warehouse from the nights on the shelf",
        option("--with-landing", is_flag=True, help="the bodies as well"),
        run="nights.publish_shelf",
        traits=WITHOUT_HOME | WRITES,
    ),
    command(
        "prune",
        "let old nights go; what was read and decided stays on record",
        option("--keep", "keep_days", type=NUMBER, metavar="DAYS", help="before the newest book"),
        option("--max-gb", metavar="N", help="that bodies and tables may take: oldest go"),
        option("--no-month-ends", is_flag=True, help="let month ends go as well"),
        option("--shelf", "is_shelf", is_flag=True, help="what is pruned here, from the shelf too"),
        option("--dry-run", is_flag=True, help="say what would go"),
        traits=WRITES,
    ),
    command(
        "rebuild",
        "make the warehouse again from the lake, or both from the landing zone, offline",
        option("--from-landing", is_flag=True, help="the lake as well"),
        option(
            "--engine",
            type=Choice(["spark"]),
            help="the lake as well, its nights flattened on a cluster; Spark's settings say where",
        ),
        *dry_run_options(),
        traits=WRITES | OF_FIRM,
        run="nights.rebuild_nights",
    ),
    command(
        "backup",
        "what cannot be made again, into one file: bodies, decisions, reconciliations",
        file_argument(),
        run="backup.write",
        traits=IN_FIRM,
    ),
    command(
        "restore",
        "a backup into an empty home, then lake and warehouse made of it",
        file_argument(),
        *dry_run_options(),
        run="backup.restore",
        traits=WITHOUT_HOME | WRITES | IN_FIRM,
    ),
    command(
        "install",
        "systemd units for this home and user; starts nothing",
        option("--into", type=FOLDER, metavar="DIR", help="instead of where systemd looks"),
        traits=WITHOUT_HOME,
    ),
    command(
        "sandbox",
        "the API on this machine, with an invented world, faults and other readings to rehearse",
        option("--port", type=PORT, default=0, help="0 takes a free one"),
        option(
            "--fault",
            "faults",
            metavar="NAME[,SCOPE]",
            help="see --fault list, also for SCOPE",
            multiple=True,
        ),
        option(
            "--choice", "choices", metavar="NAME=VALUE", help="see --choice list", multiple=True
        ),
        option("--format", "form", type=Choice(FORMATS), help="of such a list"),
        traits=WITHOUT_HOME | IN_FIRM,
        run="demo.run_sandbox",
    ),
    command(
        "dev",
        "the Dagster UI and daemon for this home, on this machine only",
        option("--port", type=PORT, default=3000, show_default=True),
        option("--host-name", "host_names", multiple=True, help="that a proxy gives it"),
        traits=WITHOUT_HOME | WRITES | IN_FIRM,
        run="demo.run_dev",
    ),
)


COMMANDS: dict[str, click.Command] = {str(entry.name): entry for entry in _ALL}


@click.group(
    "nightbook",
    cls=InOrder,
    commands=COMMANDS,
    params=[*shared_options(hidden=False)],
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="nightbook takes the book every night: portfolios, venues and instruments, exact to the "
    "last digit.",
    epilog="Exit codes: 0 done, 1 failed, 2 bad input or settings, 3 a person must decide. "
    "Settings are read from NIGHTBOOK_* variables and from .env: assets/OPERATING.md lists them.",
)
@click.version_option(
    None, "-V", "--version", package_name="nightbook", message="%(prog)s %(version)s"
)
@click.pass_context
def command_line(context: click.Context, /, **_options: Any) -> None:
    """Show the help where no command was typed; `command` reads the options."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(WRONG_USAGE)
