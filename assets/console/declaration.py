"""Command declarations: parameters, help, and the options that all commands share.

This module imports no command, so `nightbook query` starts without Dagster.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Flag, auto
from typing import Any

import click

from assets.console.completion import Complete, complete_from_book

# Exit codes. An exception class of this project may define its own `exit_code`.
DONE, FAILED, WRONG_USAGE, A_PERSON_MUST_DECIDE = range(4)
FORMATS = ("table", "json", "csv", "jsonl")
COLORS = ("auto", "always", "never")
WIDEST_TERM = 36  # width of the left column in help texts, in which long choices fit on one line
_OPTION = re.compile(r"--[a-z][a-z-]+")

Run = Callable[..., int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The values of the options that all commands share."""

    home: str | None
    is_debug: bool
    is_quiet: bool
    is_verbose: bool
    color: str | None


class Trait(Flag):
    """A set of properties of a command.

    A command without traits requires an existing home, and only reads it.
    """

    NONE = 0
    PRINTS_RESULT = auto()
    """The command's output is its result, so `--quiet` does not suppress it."""
    WITHOUT_HOME = auto()
    """The command creates a home or does not need one."""
    WRITES = auto()
    """The command writes to the home, so it must run as the home's owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A parsed command line. `load` imports the command and returns its function."""

    command: str
    step: str  # the subcommand of the command `reconcile`, or an empty string
    traits: Trait
    load: Callable[[], Run]
    options: dict[str, Any]
    shared: Shared


class Day(click.ParamType[date]):
    """The parameter type for a date, written as YYYY-MM-DD."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Parse a date. Fail with a usage error if it is invalid."""
        try:
            return date.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is not a valid date. Write it as YYYY-MM-DD, for example 2026-11-20.",
                param,
                ctx,
            )


class KeyValue(click.ParamType[tuple[str, str]]):
    """The parameter type for a name and a value, written as K=V."""

    name = "K=V"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split the text at the first equals sign."""
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r} does not have the form K=V. Nothing was sent.", param, ctx)
        return name, text


class Choice(click.Choice[str]):
    """The parameter type for keywords. The message for a wrong keyword suggests the closest one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return click's message, with a suggestion if a keyword is similar."""
        message = super().get_invalid_choice_message(value, ctx)
        near = difflib.get_close_matches(str(value), self.choices, n=1)
        return f"{message} Did you mean {near[0]!r}?" if near else message


class _HelpInSections(click.Command):
    """A command whose help starts with its summary and ends with its notes."""

    section = ""
    details = ""
    notes = ""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summary, the usage, the details, the parameters and the notes."""
        formatter.write_text(f"{self.help}.")
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        if self.details:
            formatter.write_paragraph()
            formatter.write_text(self.details)
        self.format_arguments(ctx, formatter)
        self.format_options(ctx, formatter)
        if self.notes:
            formatter.write(f"\n{self.notes}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options. The left column is wide enough for the longest choices."""
        options = [each for each in self.get_params(ctx) if not isinstance(each, click.Argument)]
        with formatter.section("Options"):
            formatter.write_dl(
                [record for each in options if (record := each.get_help_record(ctx))], WIDEST_TERM
            )


class TypedCommand(_HelpInSections):
    """A command with its traits, for example whether it writes to the home."""

    traits = Trait.NONE


class SqlCommand(TypedCommand):
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


class CommandGroup(_HelpInSections, click.Group):
    """A group that lists its commands by section, in declaration order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in declaration order."""
        del ctx
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest `--help` for `help` and `--version` for `version`, rather than a command."""
        meant = f"--{args[0]}"
        known = [name for each in self.get_params(ctx) for name in each.opts]
        if args[0] not in self.commands and meant in known:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, then the options."""
        width = max(map(len, self.commands))
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, each in self.commands.items():
            row = name.ljust(width), each.get_short_help_str()
            sections.setdefault(getattr(each, "section", ""), []).append(row)
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


def option(*names: str, complete: str = "", **attributes: Any) -> click.Option:
    """Declare an option. Shell completion suggests the rows of the query `complete`, if given."""
    return click.Option(names, shell_complete=_completer(complete), **attributes)


def flag(*names: str, **attributes: Any) -> click.Option:
    """Declare an option without a value."""
    return click.Option(names, is_flag=True, **attributes)


def _completer(query: str) -> Complete | None:
    return complete_from_book(query) if query else None


DAY: dict[str, Any] = {"type": Day(), "metavar": "YYYY-MM-DD"}
AS_OF = option("--as-of", help="Use the newest book on or before this date", **DAY)


def argument(
    name: str, metavar: str, help_text: str, *, complete: str = "", **attributes: Any
) -> click.Argument:
    """Declare an argument. Shell completion suggests the rows of the query `complete`."""
    completer = _completer(complete)
    return click.Argument(
        [name], metavar=metavar, help=help_text, shell_complete=completer, **attributes
    )


def file_argument(help_text: str) -> click.Argument:
    """Declare a file argument, so that the shell completes file names."""
    return argument("file", "FILE", help_text, type=click.Path())


def format_option(
    *formats: str, help_text: str = "Print rows in this format instead of text"
) -> click.Option:
    """Declare `--format`. The default help is for commands that can print rows instead of text."""
    return option("--format", "output_format", type=Choice(formats or FORMATS), help=help_text)


def dry_run_options() -> tuple[click.Option, click.Option]:
    """Declare `--dry-run` and the option for its output format."""
    return (
        flag("--dry-run", help="Show the changes without making them"),
        format_option(help_text="With --dry-run, print the changes as rows in this format"),
    )


def shared_options(*, hidden: bool) -> list[click.Option]:
    """Declare the shared options, shown before the command name but also accepted after it."""

    def declare(*names: str, **attributes: Any) -> click.Option:
        return option(*names, hidden=hidden, **attributes)

    return [
        declare(
            "--home",
            type=click.Path(file_okay=False),
            metavar="DIR",
            help="Data directory  [env: NIGHTBOOK_HOME; default: ./data]",
        ),
        declare("-q", "--quiet", "is_quiet", is_flag=True, help="Print only results and errors"),
        declare(
            "-v",
            "--verbose",
            "is_verbose",
            is_flag=True,
            help="Also print version, home, time and memory",
        ),
        declare(
            "--color",
            type=Choice(COLORS),
            help="Colour the output  [default: auto; off if NO_COLOR is set]",
        ),
        declare("--debug", "is_debug", is_flag=True, help="Show a traceback on errors"),
    ]


def command(
    name: str,
    summary: str,
    *parameters: click.Parameter,
    run: Callable[[], Run],
    details: str = "",
    notes: str = "",
    traits: Trait = Trait.NONE,
    group: str = "",
    kind: type[TypedCommand] = TypedCommand,
    **settings: Any,
) -> TypedCommand:
    """Declare a command, or a subcommand of `group`.

    `run` returns the command's function. Pass a lambda, so that its module is imported only if the
    command runs, because importing Dagster alone takes longer than a query may take.
    """
    shared = shared_options(hidden=True)

    def note(**options: Any) -> Invocation:
        before = click.get_current_context().find_root().params
        after = {str(option_.name): options.pop(str(option_.name)) for option_ in shared}
        return Invocation(
            command=group or name,
            step=name if group else "",
            traits=traits,
            load=run,
            options=options,
            shared=Shared(**{key: value or before[key] for key, value in after.items()}),
        )

    declared = kind(
        name,
        params=[*parameters, *shared],
        help=summary,
        short_help=summary,
        callback=note,
        **settings,
    )
    declared.traits, declared.details, declared.notes = traits, details, notes
    return declared
