"""All commands and subcommands, imported from their modules."""

from collections.abc import Iterator

import click

from assets.commands.command_line import command_line
from assets.console.command import CommandGroup, HomeCommand


def _commands(group: CommandGroup) -> Iterator[tuple[str, HomeCommand]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, CommandGroup):
            yield from ((f"{name} {step}", found) for step, found in _commands(command))
        else:
            assert isinstance(command, HomeCommand), name
            yield name, command


EVERY_COMMAND = dict(_commands(command_line))
"""Each command by its name. The name of a subcommand is `reconcile run`."""
