"""Tests of commands in messages: each is valid, and works as printed for its home."""

import contextlib
import html
import io
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest

from assets.commands.command_line import command_line
from assets.console.command import Invocation
from assets.console.command_names import COMMANDS
from assets.console.invocation import command_for, full_command, spell_commands
from assets.monitoring.alerts import spell_alerts
from assets.monitoring.conditions import find_alerts
from tests.house.printed_commands import PrintedCommand, in_messages, in_text
from tests.support.commands import EVERY_COMMAND
from tests.support.operator import Watched
from tests.support.operator_home import Keeper
from warehouse.report.build import LATEST
from warehouse.storage.layout import Layout

Make = Callable[..., Watched]
ROOT = Path(__file__).parents[3]
# The values in messages are not known here, so try each kind: a snapshot ID, a date, a number, a
# month and a keyword.
VALUES = ("20261120T021500Z", "2026-11-20", "400", "2026-11", "duckdb")
NAMED = {"FILE": "answer.csv", "SQL": "select 1", "NAME": "balances"}
QUICK = ("snapshots", "tables")
LONG = {"run", "dev", "sandbox", "demo", "rebuild"}
ALL = tuple(sorted({*COMMANDS} - LONG))
PROSE = re.compile(r"[a-z]+\.?")


def understood(words: list[str]) -> bool:
    """Return whether the command line can parse these words."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            typed = command_line.main(words, prog_name="nightbook", standalone_mode=False)
        except click.ClickException:
            return False
    return isinstance(typed, Invocation)


def fillings(words: list[str]) -> Iterator[list[str]]:
    """Yield the command with each kind of value in its placeholders."""
    for value in VALUES:
        yield [
            NAMED.get(word, value if re.fullmatch(r"[A-Z_]{2,}", word) else word) for word in words
        ]


def typed(command: PrintedCommand) -> list[str]:
    """Return the arguments to type for a printed command, or an empty list if it is invalid.

    If the command is not enclosed in code marks, prose may follow it.
    """
    words = command.words
    shortest = len(words) if command.is_enclosed else 1
    for length in range(len(words), shortest - 1, -1):
        for filled in fillings(words):
            if understood(filled[:length]) and all(map(PROSE.fullmatch, filled[length:])):
                return filled[:length]
    return []


def test_every_command_in_a_message_is_valid() -> None:
    """Every command in a message, including new messages, has valid arguments and options."""
    # A command keeps its help option, so the names must be the same as for other tests.
    names = ["-h", "--help"]
    contexts = [click.Context(each, help_option_names=names) for each in EVERY_COMMAND.values()]
    helped = (context.command.get_help(context) for context in contexts)
    printed = list(in_messages(ROOT, set(COMMANDS)))
    printed += (found for text in helped for found in in_text("help", text, set(COMMANDS)))
    assert len(printed) > 90
    assert not [f"{command.origin}: {command.text}" for command in printed if not typed(command)]


def test_an_invalid_command_in_a_message_is_detected() -> None:
    """An unknown option, an invalid argument and an unknown step are detected."""
    for text in ("verify --no-such", "prune --keep none", "reconcile no-such"):
        assert not typed(PrintedCommand("here", text, is_enclosed=False)), text


def test_only_commands_are_extended_with_the_home() -> None:
    """Only commands are extended with the home, not other text that contains `nightbook`."""
    text = spell_commands(
        "an older nightbook made it: `nightbook rebuild`, or nightbook --debug run; "
        "/usr/bin/nightbook run, nightbook-daemon, nightbook runs",
        "nb --home 'my home'",
    )
    assert text == (
        "an older nightbook made it: `nb --home 'my home' rebuild`, or nb --home 'my home' --debug "
        "run; /usr/bin/nightbook run, nightbook-daemon, nightbook runs"
    )


def test_the_command_of_an_alert_works_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of an alert works in any folder, because it changes to the folder of `.env`."""
    folder = tmp_path / "its settings"
    folder.mkdir()
    (folder / ".env").write_text("NIGHTBOOK_SCHEDULE='7 3 * * *'\n")
    monkeypatch.chdir(folder)
    line = full_command(Layout(folder / "data"), "doctor")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NIGHTBOOK_")}
    said = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "7 3 * * * in UTC" in said.stdout, said


def messages(keeper: Keeper) -> Iterator[str]:
    """Yield messages about a home's problems, such as a held night, damage and alerts."""
    yield from (keeper(*words).err for words in (("prune",), ("accept", "nobody"), ("reject", "x")))
    yield keeper("query", "select * from nowhere").err
    yield keeper("query", "delete from balances").err
    yield keeper("reconcile", "status").err
    yield keeper("snapshots").out
    yield keeper("status").out
    yield keeper("doctor", "--format", "json").out
    yield "\n".join(
        alert.body for alert in spell_alerts(keeper.layout, find_alerts(keeper.nightbook))
    )
    keeper("report")
    page = (keeper.layout.reports / LATEST).read_text("utf-8")
    yield "\n".join(html.unescape(code) for code in re.findall(r"<code>.*?</code>", page))
    next(keeper.layout.lake.rglob("balances/*/*.parquet")).write_bytes(b"damaged")
    yield keeper("verify").err
    yield keeper("verify", "--format", "json").out


def named_in(text: str, layout: Layout) -> Iterator[PrintedCommand]:
    """Yield the commands in a message, and check that all of them name this home."""
    starts = (command_for(layout), full_command(layout))
    for start in starts:
        text = text.replace(start, "nightbook HERE")
    names = "|".join(COMMANDS)
    assert not re.search(rf"(?<![\w./-])nightbook (?:{names})\b", text), text
    yield from in_text("", text.replace("nightbook HERE ", "nightbook "), set(COMMANDS))


@pytest.mark.parametrize("chosen", [QUICK, pytest.param(ALL, marks=pytest.mark.torture)])
def test_printed_commands_use_their_home_in_any_folder(
    watched: Make, tmp_path: Path, chosen: Sequence[str]
) -> None:
    """Printed commands work in any folder and use their home, even if its path has a space."""
    made = watched()
    made.third("portfolios-empty")
    layout = Layout(tmp_path / "else where")
    made.keeper.layout.home.rename(layout.home)
    keeper = replace(made.keeper, home=layout.home)
    found = {
        shlex.join(words)
        for text in messages(keeper)
        for command in named_in(text, layout)
        if (words := typed(command)) and words[0] not in LONG
    }
    assert {words.split()[0] for words in found} >= {"accept", "query", "snapshots", "tables"}
    environment = os.environ | keeper.variables
    del environment["NIGHTBOOK_HOME"]
    found = {line for line in found if line.split()[0] in chosen}
    assert found
    for line in sorted(found):
        said = subprocess.run(
            ["/bin/sh", "-c", f"{command_for(layout)} {line} -v"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"home: {layout.home}\n" in said.stderr, line
        assert "Usage:" not in said.stderr, (line, said.stderr)
