"""The command line: the group of all commands, with the options that all commands share."""

from typing import Any

import click

from assets.console.command import CommandGroup, shared_options
from assets.console.command_names import MODULES, SECTIONS
from assets.console.exit_codes import WRONG_USAGE

NOTES = """\
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


@click.group(
    "nightbook",
    cls=CommandGroup,
    sections=SECTIONS,
    modules=MODULES,
    params=[*shared_options(is_hidden=False)],
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=NOTES,
)
@click.version_option(
    None, "-V", "--version", package_name="nightbook", message="%(prog)s %(version)s"
)
@click.pass_context
def command_line(context: click.Context, /, **_options: Any) -> None:
    """Keep an exact nightly record of your portfolios, venues and instruments."""
    # Each command parses its own options. Show the help if no command is given.
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(WRONG_USAGE)
