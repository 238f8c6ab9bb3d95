"""The command line: every nightbook command with its options and help."""

from typing import Any

import click

from assets import commands
from assets.console.completion import (
    ACCOUNTS,
    ASSETS,
    BREAKS,
    HELD,
    PORTFOLIOS,
    SNAPSHOTS,
    TABLES,
    VENUES,
)
from assets.console.declaration import (
    AS_OF,
    DAY,
    FORMATS,
    WRONG_USAGE,
    Choice,
    CommandGroup,
    KeyValue,
    SqlCommand,
    Trait,
    TypedCommand,
    argument,
    command,
    dry_run_options,
    file_argument,
    flag,
    format_option,
    option,
    shared_options,
)

PRINTS_RESULT, WRITES, WITHOUT_HOME = Trait.PRINTS_RESULT, Trait.WRITES, Trait.WITHOUT_HOME

ROLES = ("preparer", "reviewer", "approver")
LAST_PORT = 65535
ENGINES = ("duckdb", "polars", "pyarrow", "spark")
NUMBER, PORT = click.IntRange(min=0), click.IntRange(0, LAST_PORT)
FOLDER = click.Path(file_okay=False)
FILE: dict[str, Any] = {"type": click.Path(), "metavar": "FILE"}


def _section(title: str, *entries: TypedCommand) -> tuple[TypedCommand, ...]:
    """Declare commands that the help lists under one heading."""
    for entry in entries:
        entry.section = title
    return entries


def _port(help_text: str, **attributes: Any) -> click.Option:
    return option("--port", type=PORT, metavar="N", help=help_text, **attributes)


def _why(previous: str) -> click.Option:
    """Declare the option `--why`, which is required to reverse an earlier decision."""
    help_text = f"Reason for the decision. Required if the snapshot is currently {previous}"
    return option("--why", default="", help=help_text)


def _step(name: str, summary: str, *parameters: click.Parameter, **settings: Any) -> TypedCommand:
    """Declare a `nightbook reconcile` subcommand."""
    return command(name, summary, *parameters, group="reconcile", **settings)


RECONCILE = CommandGroup(
    "reconcile",
    help='Compare the book with your ledger and track all differences ("breaks")',
    short_help="Compare the book with your ledger",
    subcommand_metavar="COMMAND [ARGS]...",
    commands=[
        *_section(
            "Set up",
            _step(
                "init",
                "Create recon.toml and a ledger template",
                traits=WRITES,
                run=lambda: commands.reconcile.init,
            ),
            _step(
                "preview",
                "Show how a ledger file would be read",
                file_argument("Ledger to read"),
                details=(
                    "Also prints the open questions about the file, and the lines that you can add "
                    "to recon.toml to answer them."
                ),
                traits=PRINTS_RESULT,
                run=lambda: commands.reconcile.preview,
            ),
            _step(
                "setup",
                "Answer the open questions about a ledger file",
                file_argument("Ledger to read"),
                details="Asks one question at a time and writes your answers to recon.toml.",
                traits=WRITES,
                run=lambda: commands.reconcile.setup,
            ),
        ),
        *_section(
            "Daily work",
            _step(
                "run",
                "Compare the book with the ledgers in the inbox",
                AS_OF,
                option(
                    "--restate",
                    default="",
                    metavar="WHY",
                    help="Compare a day of a closed month again, and record this reason",
                ),
                details=(
                    "Writes a workbook with all differences. Exits with code 3 if there are open "
                    "breaks."
                ),
                traits=WRITES,
                run=lambda: commands.reconcile.run,
            ),
            _step(
                "status",
                "Show the latest result and its open breaks",
                AS_OF,
                format_option(),
                details="Exits with code 3 if there are open breaks.",
                traits=PRINTS_RESULT,
                run=lambda: commands.reconcile.status,
            ),
            _step(
                "history",
                "Show the history of one break",
                argument(
                    "break_id",
                    "ID",
                    "Break ID, from the workbook or from `nightbook reconcile status`",
                    complete=BREAKS,
                ),
                format_option(),
                traits=PRINTS_RESULT,
                run=lambda: commands.reconcile.history,
            ),
            _step(
                "sign",
                "Sign a result",
                AS_OF,
                option(
                    "--role",
                    type=Choice(ROLES),
                    default="preparer",
                    show_default=True,
                    help="Your role",
                ),
                option("--who", help="Name of the signer  [default: your user name]"),
                option("--comment", default="", help="Comment to store with the signature"),
                traits=WRITES,
                run=lambda: commands.reconcile.sign,
            ),
        ),
        *_section(
            "Month end",
            _step(
                "close",
                "Lock a month and write its evidence to one file",
                argument("month", "YYYY-MM", "Month to close, for example 2026-11"),
                details=(
                    "The evidence file is called a pack. You can verify a pack on any machine that "
                    "has nightbook. After you close a month, you must give a reason to reconcile "
                    "one of its days again."
                ),
                traits=WRITES,
                run=lambda: commands.reconcile.close,
            ),
            _step(
                "verify",
                "Check a workbook or a closed month for changes",
                file_argument("Workbook, or pack of a closed month"),
                format_option(),
                details=(
                    "You can check a pack on any machine, because checking a pack does not need a "
                    "home."
                ),
                traits=PRINTS_RESULT | WITHOUT_HOME,
                run=lambda: commands.reconcile.verify,
            ),
        ),
    ],
)
RECONCILE.section = "Reconciliation"
RECONCILE.notes = """\
`run` and `status` exit with code 3 if there are open breaks.
The guide for finance is warehouse/reconcile/FINANCE.md."""


GET_STARTED = _section(
    "Get started",
    command(
        "demo",
        "Simulate three nights in a built-in sandbox, without an API key",
        flag("--next", "is_next", help="Simulate one more night and its ledger"),
        traits=WITHOUT_HOME | WRITES,
        run=lambda: commands.demo.run_demo,
    ),
    command(
        "doctor",
        "Check settings, disk, network, API key, clock and schedule",
        flag("--alert", help="Send a test message to every alert channel"),
        flag(
            "--turn-on",
            help="Turn the schedule and sensors back on if somebody turned them off in Dagster",
        ),
        format_option(),
        traits=PRINTS_RESULT | WITHOUT_HOME,
        run=lambda: commands.doctor.run,
    ),
    command(
        "install",
        "Write systemd units for this home and user (does not start them)",
        option(
            "--into",
            type=FOLDER,
            metavar="DIR",
            help="Write the units to this directory instead of systemd's own directory",
        ),
        traits=WITHOUT_HOME,
        run=lambda: commands.install.run,
    ),
)
NIGHTLY_RUN = _section(
    "Nightly run",
    command(
        "run",
        "Download data from the API and publish tonight's book",
        option(
            "--date",
            "day",
            help="Rebuild the night of this date from its stored responses, without calling the "
            "API  [default: pull tonight's book]",
            **DAY,
        ),
        flag(
            "--unless-taken",
            help=(
                "Do nothing if this date already has a snapshot. Useful for cron jobs that run "
                "several times a night"
            ),
        ),
        details="The run downloads all data, stores the responses unchanged, builds the tables, "
        "checks them, and publishes the book. A suspicious night is held: the book does not "
        "change, and the command exits with code 3. To publish a held night, type `nightbook "
        "accept ID`.",
        traits=WITHOUT_HOME | WRITES,
        run=lambda: commands.run.run,
    ),
    command(
        "status",
        "Show last night, the current book, the next run and any problems",
        format_option(),
        traits=PRINTS_RESULT,
        run=lambda: commands.status.run,
    ),
    command(
        "snapshots",
        "List every night with its state and the reason",
        flag("--lessons", "are_lessons", help="List all lessons instead of the nights"),
        format_option(),
        traits=PRINTS_RESULT,
        run=lambda: commands.snapshots.run,
    ),
    command(
        "accept",
        "Accept a held snapshot and publish it as the book of its date",
        argument(
            "snapshot_id", "ID", "Snapshot to accept, for example 20261120T021500Z", complete=HELD
        ),
        _why("rejected"),
        *dry_run_options(),
        details=(
            "If you accept a snapshot, nightbook remembers the reasons for the hold as lessons. It "
            "then also accepts other nights that are held only for these reasons, unless the "
            "problem becomes much larger. `nightbook snapshots --lessons` lists all lessons, and "
            "`nightbook reject LESSON` revokes a lesson."
        ),
        traits=WRITES,
        run=lambda: commands.nights.accept,
    ),
    command(
        "reject",
        "Reject a snapshot, or revoke a lesson",
        argument(
            "name",
            "ID",
            "Snapshot or lesson to reject, for example 20261120T021500Z or 1f0a2b3c",
            complete=SNAPSHOTS,
        ),
        _why("accepted"),
        details="If you reject an accepted snapshot, the previous book of its date is restored.",
        traits=WRITES,
        run=lambda: commands.nights.reject,
    ),
    command(
        "report",
        "Write the morning report (HTML)",
        details="Writes a single file to the reports/ folder of the home.",
        traits=WRITES,
        run=lambda: commands.report.run,
    ),
)
QUERY_AND_EXPORT = _section(
    "Query and export",
    command(
        "query",
        "Run read-only SQL on the warehouse",
        argument("sql", "[SQL]", "Query to run, or - to read standard input", required=False),
        option("-f", "--file", help="Read the SQL from a file", **FILE),
        format_option(help_text="Output format  [default: table]"),
        option("-o", "--output", help="Write to a .parquet, .csv, .json or .jsonl file", **FILE),
        option("--limit", type=NUMBER, metavar="N", help="Print at most N rows"),
        # Accept unknown options, because a query may start with a comment (`--`), which looks like
        # an option.
        kind=SqlCommand,
        context_settings={"ignore_unknown_options": True},
        traits=PRINTS_RESULT,
        run=lambda: commands.query.run,
    ),
    command(
        "tables",
        "List tables, views and macros, or describe one of them",
        argument(
            "name",
            "[NAME]",
            "Table, view or macro to describe with its columns",
            required=False,
            complete=TABLES,
        ),
        format_option(
            *FORMATS, "dbt", help_text="Print rows in this format, or a sources.yml file for dbt"
        ),
        traits=PRINTS_RESULT,
        run=lambda: commands.tables.run,
    ),
    command(
        "trace",
        "Trace an amount back to the bytes that the API sent",
        option("--portfolio", required=True, help="Portfolio ID or name", complete=PORTFOLIOS),
        option("--asset", required=True, help="Asset ID", complete=ASSETS),
        option(
            "--custom/--no-custom",
            "is_custom",
            default=None,
            help="Select the custom or the listed asset if both have the same ID",
        ),
        option("--venue", help="Show only this venue (ID or name)", complete=VENUES),
        option("--account", help="Show only this account (name)", complete=ACCOUNTS),
        AS_OF,
        format_option("table", "json", help_text="Output format  [default: table]"),
        details=(
            "Prints the request, the bytes of each amount, and all totals that include the amount."
        ),
        traits=PRINTS_RESULT,
        run=lambda: commands.trace.run,
    ),
    command(
        "export",
        "Write positions to Excel, CSV or Parquet",
        AS_OF,
        option(
            "--format",
            "formats",
            multiple=True,
            type=Choice(["xlsx", "csv", "parquet"]),
            help="File format, repeatable  [default: xlsx]",
        ),
        details="Writes the files to the exports/ folder of the home.",
        traits=WRITES,
        run=lambda: commands.export.run,
    ),
    command(
        "combine",
        "Write the newest books of several homes to one file",
        argument("homes", "HOME...", "Homes, the most important first", nargs=-1, required=True),
        option(
            "--out",
            type=click.Path(dir_okay=False),
            metavar="FILE.duckdb",
            required=True,
            help="File to write, or to replace if the new file is complete",
        ),
        details=(
            "A home is named after its folder, or write NAME=HOME. If several homes see a "
            "portfolio, venue or instrument, it counts once, for the first of these homes. If a "
            "home has no readable book, the command fails and does not change the file."
        ),
        notes="Example:\n  nightbook combine /srv/alpha /srv/beta --out /srv/group.duckdb",
        traits=WITHOUT_HOME,
        run=lambda: commands.combine.run,
    ),
)
INTEGRITY_AND_STORAGE = _section(
    "Integrity and storage",
    command(
        "verify",
        "Check every stored file against its SHA-256",
        flag(
            "--shelf",
            "is_shelf",
            help="Check the object store instead of the home (downloads all data)",
        ),
        format_option(),
        traits=PRINTS_RESULT,
        run=lambda: commands.verify.verify_home,
    ),
    command(
        "prove",
        "Check that a query engine calculates the exact totals of the book",
        option(
            "--engine",
            type=Choice(ENGINES),
            default="duckdb",
            show_default=True,
            help="Engine to check",
        ),
        AS_OF,
        flag("--all", "are_all", help="Check all books up to --as-of, not only the newest"),
        flag(
            "--exact",
            "in_parts",
            help="Use a summation method that is exact for very large amounts",
        ),
        format_option(),
        traits=PRINTS_RESULT,
        run=lambda: commands.verify.run_proof,
    ),
    command(
        "rebuild",
        "Rebuild the warehouse from the lake or the landing folder",
        flag("--from-landing", help="Rebuild the lake too, from the stored API responses"),
        option(
            "--engine",
            type=Choice(["spark"]),
            help="Rebuild the lake too, on the cluster that Spark's own configuration names",
        ),
        *dry_run_options(),
        details=(
            "By default, rebuilds only the warehouse, from the tables in the lake. This does not "
            "call the API or change any decision."
        ),
        traits=WRITES,
        run=lambda: commands.nights.rebuild_nights,
    ),
    command(
        "prune",
        "Delete old nights",
        option(
            "--keep",
            "keep_days",
            type=NUMBER,
            metavar="DAYS",
            help="Keep the last DAYS days, counted back from the newest book",
        ),
        option(
            "--max-gb",
            metavar="N",
            help="Delete the oldest nights until API responses and tables take at most N gigabytes",
        ),
        flag("--no-month-ends", help="Treat month-end books like any other night"),
        flag("--shelf", "is_shelf", help="Also delete pruned nights from the object store"),
        flag("--dry-run", help="List the nights to delete without deleting them"),
        details=(
            "Use --keep, --max-gb or both. The command never deletes the newest book, a night that "
            "is waiting for a decision, or a night whose rows a later night still uses. The "
            "manifest and the decisions of every night are never deleted either. --keep does not "
            "delete month-end books, and --max-gb deletes them last."
        ),
        notes="Examples:\n  nightbook prune --keep 400 --dry-run\n  nightbook prune --max-gb 50",
        traits=WRITES,
        run=lambda: commands.prune.run,
    ),
    command(
        "backup",
        "Back up everything that cannot be rebuilt",
        file_argument("File to write (tar)"),
        details="The backup contains the API responses, the decisions and the reconciliations.",
        run=lambda: commands.backup.write,
    ),
    command(
        "restore",
        "Restore a backup into an empty home",
        file_argument("Backup to restore"),
        *dry_run_options(),
        details="Then rebuilds the lake and the warehouse from the restored files.",
        traits=WITHOUT_HOME | WRITES,
        run=lambda: commands.backup.restore,
    ),
)
SEVERAL_MACHINES = _section(
    "Commands for several machines that share an object store (NIGHTBOOK_LAKE)",
    command(
        "shelve",
        "Upload finished nights to the object store",
        details="Every nightly run also uploads its night.",
        traits=WRITES,
        run=lambda: commands.nights.shelve,
    ),
    command(
        "publish",
        "Build this home's warehouse from the object store",
        flag("--with-landing", help="Download the API responses too"),
        traits=WITHOUT_HOME | WRITES,
        run=lambda: commands.nights.publish_from_shelf,
    ),
)
DEVELOPMENT = _section(
    "Development",
    command(
        "dev",
        "Start the Dagster UI and daemon on this machine",
        _port("Port of the Dagster UI", default=3000, show_default=True),
        option(
            "--host-name",
            "host_names",
            multiple=True,
            metavar="NAME",
            help="Also accept requests for this host name, used by your proxy",
        ),
        traits=WITHOUT_HOME | WRITES,
        run=lambda: commands.demo.run_dev,
    ),
    command(
        "sandbox",
        "Serve a simulated API that can also simulate faults",
        _port("Port to listen on  [default: any free port]", default=0),
        option(
            "--fault",
            "faults",
            metavar="NAME[,SCOPE]",
            multiple=True,
            help="Simulate a fault (`--fault list` shows all)",
        ),
        option(
            "--choice",
            "choices",
            metavar="NAME=VALUE",
            multiple=True,
            help=(
                "Choose a behaviour that the API document does not define (`--choice list` shows "
                "all)"
            ),
        ),
        format_option(help_text="Output format of the lists of faults and choices"),
        traits=WITHOUT_HOME,
        run=lambda: commands.demo.run_sandbox,
    ),
    command(
        "api",
        "Send one signed GET request and print the response",
        argument("path", "PATH", "API path to request, for example /venues"),
        option(
            "--query",
            type=KeyValue(),
            metavar="K=V",
            multiple=True,
            help="Add a query parameter (repeatable)",
        ),
        traits=PRINTS_RESULT | WITHOUT_HOME,
        run=lambda: commands.api.run,
    ),
)


COMMANDS: dict[str, click.Command] = {
    str(entry.name): entry
    for entry in (
        *GET_STARTED,
        *NIGHTLY_RUN,
        *QUERY_AND_EXPORT,
        RECONCILE,
        *INTEGRITY_AND_STORAGE,
        *SEVERAL_MACHINES,
        *DEVELOPMENT,
    )
}


@click.group(
    "nightbook",
    cls=CommandGroup,
    commands=COMMANDS,
    params=[*shared_options(hidden=False)],
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Keep an exact nightly record of your portfolios, venues and instruments",
)
@click.version_option(
    None, "-V", "--version", package_name="nightbook", message="%(prog)s %(version)s"
)
@click.pass_context
def command_line(context: click.Context, /, **_options: Any) -> None:
    """Show help if no command is given. Each command parses its own options."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(WRONG_USAGE)


command_line.notes = """\
Exit codes:
  0  Success
  1  Failure, or a check found a difference
  2  Invalid arguments or settings
  3  Waiting for a person, for example a held night or open breaks

Examples:
  nightbook demo
  nightbook query "select * from holdings_by_asset limit 5"
  nightbook export --format xlsx --format csv
  nightbook trace --portfolio "Treasury Reserve" --asset BTC

Settings come from NIGHTBOOK_* environment variables or a .env file.
Run `nightbook COMMAND --help` for details. Operator's guide: assets/OPERATING.md"""
