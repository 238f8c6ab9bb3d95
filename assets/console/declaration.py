"""How commands are declared: their parameters, and the options that all of them share.

Nothing of a command is imported here, so that `nightbook query` starts without Dagster.
"""

import difflib
import re
from dataclasses import dataclass
from datetime import date
from enum import Flag, auto
from typing import Any

import click

# Exit codes; that of our own error is its `exit_code`.
DONE, FAILED, WRONG_USAGE, A_PERSON_MUST_DECIDE = range(4)
FORMATS = ("table", "json", "csv", "jsonl")
COLORS = ("auto", "always", "never")
_OPTION = re.compile(r"--[a-z][a-z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What every command may be told: its home, and how much it says and in which colours."""

    home: str | None
    is_debug: bool
    is_quiet: bool
    is_verbose: bool
    color: str | None


class Trait(Flag):
    """What is so of a command; one with none reads a home of one organisation, which must exist.

    `ANSWERS`: nothing is left of it but what it prints, so `--quiet` leaves that.
    `WITHOUT_HOME`: it begins a home, or looks at none.
    `WRITES`: into a home, where files of another user would lock its own out.
    `IN_FIRM`: it is the same in the home of a firm, or looks at none.
    `OF_FIRM`: it is another one there, of `assets.commands.firm`.
    """

    NONE = 0
    ANSWERS = auto()
    WITHOUT_HOME = auto()
    WRITES = auto()
    IN_FIRM = auto()
    OF_FIRM = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What was typed: the command, its sub-command, the function that does it, and its options."""

    command: str
    step: str
    traits: Trait
    module: str
    function: str
    options: dict[str, Any]
    shared: Shared


class Day(click.ParamType[date]):
    """A date, written as 2026-11-20."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Read a date; a wrong one is wrong usage."""
        try:
            return date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no date: write it as 2026-11-20.", param, ctx)


class KeyValue(click.ParamType[tuple[str, str]]):
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


class Choice(click.Choice[str]):
    """One of several words; what is nearly one of them is answered with that."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return what is wrong, and which word may have been meant."""
        message = super().get_invalid_choice_message(value, ctx)
        near = difflib.get_close_matches(str(value), self.choices, n=1)
        return f"{message} Did you mean {near[0]!r}?" if near else message


class TypedCommand(click.Command):
    """A command, and what is so of it."""

    traits = Trait.NONE


class SqlCommand(TypedCommand):
    """A command whose argument may begin with `--`, as a comment of SQL does, unlike an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse what can only be a mistyped option: one word, and nothing that SQL knows."""
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
            words = f"{error.message}. The question is one argument: write it in 'quotes'."
            raise click.UsageError(words, ctx) from None


class InOrder(click.Group):
    """Commands in the order in which a person meets them, not that of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names as they were declared."""
        del ctx
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Answer `help` and `version` with the option of that name, not a command like it."""
        meant = f"--{args[0]}"
        known = [name for each in self.get_params(ctx) for name in each.opts]
        if args[0] not in self.commands and meant in known:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)


def option(*names: str, **attributes: Any) -> click.Option:
    """Declare an option."""
    return click.Option(names, **attributes)


DAY: dict[str, Any] = {"type": Day(), "metavar": "YYYY-MM-DD"}
AS_OF = option("--as-of", help="the newest book up to this date", **DAY)


def argument(name: str, metavar: str, **attributes: Any) -> click.Argument:
    """Declare an argument."""
    return click.Argument([name], metavar=metavar, **attributes)


def file_argument(**attributes: Any) -> click.Argument:
    """Declare the argument FILE, which a shell completes."""
    return argument("file", "FILE", type=click.Path(), **attributes)


def format_option(*more: str, note: str = "") -> click.Option:
    """Declare `--format` of a command that says in words what it can also give as rows."""
    help_text = f"rows, instead of words{note}"
    return option("--format", "form", type=Choice((*FORMATS, *more)), help=help_text)


def dry_run_options() -> tuple[click.Option, click.Option]:
    """Declare `--dry-run` and the format of what it says."""
    dry_run = option("--dry-run", is_flag=True, help="say what would change; nothing is written")
    form = option("--format", "form", type=Choice(FORMATS), help="of a dry run, as rows")
    return dry_run, form


def shared_options(*, hidden: bool) -> list[click.Option]:
    """Declare the options of every command: shown before its name, understood after it too."""
    return [
        option(
            "--home",
            type=click.Path(file_okay=False),
            metavar="DIR",
            hidden=hidden,
            help="instead of NIGHTBOOK_HOME (./data)",
        ),
        option(
            "-q", "--quiet", "is_quiet", is_flag=True, hidden=hidden, help="only answers and errors"
        ),
        option(
            "-v",
            "--verbose",
            "is_verbose",
            is_flag=True,
            hidden=hidden,
            help="also which home and version, and what it took",
        ),
        option(
            "--color",
            type=Choice(COLORS),
            hidden=hidden,
            help="auto: in a terminal, unless NO_COLOR is set",
        ),
        option(
            "--debug",
            "is_debug",
            is_flag=True,
            hidden=hidden,
            help="show the traceback of an error",
        ),
    ]


def command(
    name: str,
    summary: str,
    *parameters: click.Parameter,
    traits: Trait = Trait.NONE,
    run: str = "",
    kind: type[TypedCommand] = TypedCommand,
    **settings: Any,
) -> click.Command:
    """Declare one command; `run` is `module.function` in `assets.commands`."""
    # That module is imported when the command is run: Dagster alone takes longer than a query may.
    module, _, function = (run or f"{name}.run").partition(".")
    shared = shared_options(hidden=True)

    def note(**options: Any) -> Invocation:
        before = click.get_current_context().find_root().params
        after = {str(option_.name): options.pop(str(option_.name)) for option_ in shared}
        return Invocation(
            command="reconcile" if module == "reconcile" else name,
            step=name if module == "reconcile" else "",
            traits=traits,
            module=module,
            function=function,
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
    declared.traits = traits
    return declared
