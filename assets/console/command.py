"""The classes of commands and groups: their help, and the options that all commands share.

A group imports the module of a command only if the command is typed, so `nightbook query` does not
wait for the modules of other commands.
"""

import ast
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

import click
from click.shell_completion import CompletionItem

from assets.console.parameters import Choice
from assets.nightbook import Nightbook

PACKAGE = "assets.commands"
COLORS = ("auto", "always", "never")
MAX_TERM_WIDTH = 36  # width of the left column in help texts, in which long choices fit on one line


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A parsed command line: a command, its options, and the options that all commands share."""

    command: "HomeCommand"
    words: Sequence[str]
    """The names of the command and its subcommand."""
    options: dict[str, Any]
    home: str | None
    is_quiet: bool
    is_verbose: bool
    color: str | None
    is_debug: bool


class _Help(click.Command):
    """A command whose help starts with its summary and ends with its epilog."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summary, the usage, the details, the parameters and the epilog."""
        summary, _, details = inspect.cleandoc(self.help or "").partition("\n\n")
        formatter.write_text(summary)
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        if details:
            formatter.write_paragraph()
            formatter.write_text(details)
        self.format_arguments(ctx, formatter)
        self.format_options(ctx, formatter)
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options. The left column is wide enough for the longest choices."""
        options = [each for each in self.get_params(ctx) if not isinstance(each, click.Argument)]
        with formatter.section("Options"):
            formatter.write_dl(
                [record for each in options if (record := each.get_help_record(ctx))],
                MAX_TERM_WIDTH,
            )


class HomeCommand(_Help):
    """A command, which returns its exit code. Its docstring is its help.

    It requires an existing home, unless `needs_home` is false. If it `writes` to the home, only the
    home's owner may run it. If it `prints_result`, `--quiet` does not suppress its output. After a
    command that did not raise an error, `then` is called.
    """

    callback: Callable[..., int]

    def __init__(
        self,
        name: str,
        *,
        needs_home: bool = True,
        writes: bool = False,
        prints_result: bool = False,
        then: Callable[[Nightbook], None] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(name, **attributes)
        self.params += shared_options(is_hidden=True)
        self.needs_home, self.writes, self.prints_result = needs_home, writes, prints_result
        self.then = then

    def invoke(self, ctx: click.Context) -> Invocation:
        """Return the parsed options, so that the caller can prepare the output and the home."""
        options, before = ctx.params, ctx.find_root().params
        # The name of the program may contain spaces, as in `python -m assets.cli`.
        words = ctx.command_path.removeprefix(ctx.find_root().command_path).split()
        shared = {name: options.pop(name) or value for name, value in before.items()}
        return Invocation(command=self, words=words, options=options, **shared)


class CommandGroup(_Help, click.Group):
    """A group that lists its commands by section, and imports a command only if it is typed.

    `modules` are the modules in `PACKAGE` of the commands that have no module with their name.
    """

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, Sequence[str]],
        modules: Mapping[str, str],
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self._sections = sections
        self._modules = {
            name: modules.get(name, name) for names in sections.values() for name in names
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the help."""
        del ctx
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, and return the command."""
        del ctx
        if cmd_name not in self._modules:
            return None
        module = importlib.import_module(f"{PACKAGE}.{self._modules[cmd_name]}")
        found: click.Command = getattr(module, f"{cmd_name}_command")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a similar command, `--help` for `help`, or `--version` for `version`."""
        [name, *_] = args
        if name in self._modules or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if any(f"--{name}" in each.opts for each in self.get_params(ctx)):
            ctx.fail(f"No such command {name!r}. Did you mean {f'--{name}'!r}?")
        raise click.NoSuchCommand(name, possibilities=self._modules, ctx=ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, then the options."""
        width = max(map(len, self._modules))
        for section, names in self._sections.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), self._summary(name)) for name in names])
        super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that start with the typed text."""
        commands = [
            CompletionItem(name, help=self._summary(name))
            for name in self._modules
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def _summary(self, name: str) -> str:
        """Return the first line of a command's docstring, without the full stop."""
        docstring = _docstrings(self._modules[name])[f"{name}_command"]
        return docstring.partition("\n")[0].removesuffix(".")


def shared_options(*, is_hidden: bool) -> list[click.Option]:
    """Declare the shared options, shown before the command name but also accepted after it."""
    declare = partial(click.Option, hidden=is_hidden)
    return [
        declare(
            ["--home"],
            type=click.Path(file_okay=False),
            metavar="DIR",
            help="Data directory  [env: NIGHTBOOK_HOME; default: ./data]",
        ),
        declare(["-q", "--quiet", "is_quiet"], is_flag=True, help="Print only results and errors"),
        declare(
            ["-v", "--verbose", "is_verbose"],
            is_flag=True,
            help="Also print version, home, time and memory",
        ),
        declare(
            ["--color"],
            type=Choice(COLORS),
            help="Colour the output  [default: auto; off if NO_COLOR is set]",
        ),
        declare(["--debug", "is_debug"], is_flag=True, help="Show a traceback on errors"),
    ]


@functools.cache
def _docstrings(module: str) -> dict[str, str]:
    """Read the docstrings of the functions in a command module, without importing it."""
    text = (files(PACKAGE) / f"{module}.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    return {function.name: ast.get_docstring(function) or "" for function in functions}
