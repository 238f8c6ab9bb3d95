"""The command `nightbook`: runs what was typed, and gives the exit code.

Exit codes: 0 done; 1 failed; 2 bad input or settings; 3 a person must decide. An error is one
paragraph; a traceback is shown with `--debug` only.
"""

import contextlib
import gc
import importlib
import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, cast

import click

from assets.commands.command_line import command_line
from assets.console.declaration import FAILED, Invocation, Trait
from assets.console.errors import report_error
from assets.console.invocation import (
    override_home,
    program,
    program_version,
    spell_commands,
    spell_for,
)
from assets.console.terminal import SafeStream, choose_color
from assets.home.gate import NoHome, misplaced_firm, require_firm_command, require_place
from assets.nightbook import Nightbook
from pipelines.settings import InvalidSettings
from warehouse.query.printable import printable
from warehouse.storage.layout import private_files

DATA = ("query", "api", "trace", "tables")
MEGABYTE = 1024  # in the unit of getrusage


def main(argv: Sequence[str] | None = None, nightbook: Nightbook | None = None) -> int:
    """Run one command; errors become one paragraph and an exit code."""
    try:
        typed = command_line.main(argv, prog_name="nightbook", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    if not isinstance(typed, Invocation):  # the exit code of a help that was shown
        return int(typed)
    if typed.shared.home:
        override_home(typed.shared.home)
    choose_color(typed.shared.color or "auto")
    is_silent = typed.shared.is_quiet and not _is_answer(typed)
    chosen = replace(nightbook or Nightbook(), is_debug=typed.shared.is_debug)
    spell = partial(_spell, chosen)
    # The answer of a command may have these words from anywhere; sentences are our own.
    is_data = typed.command in DATA or bool(typed.options.get("form"))
    out = SafeStream(None if is_silent else sys.stdout, str if is_data else spell)
    errors = SafeStream(sys.stderr, spell)
    with (
        private_files(),
        contextlib.redirect_stdout(cast("Any", out)),
        contextlib.redirect_stderr(cast("Any", errors)),
    ):
        began = chosen.now()
        code = _exit_code(typed, chosen)
        out.flush()
        code = _check_output(typed, out, code)
        if typed.shared.is_verbose:
            _print_cost(typed, code, (chosen.now() - began).total_seconds())
        return code


def _spell(nightbook: Nightbook, text: str) -> str:
    """Write each command in a message as it has to be typed for this home."""
    if "nightbook " not in text:
        return text
    try:
        return spell_for(nightbook.layout, text)
    except (InvalidSettings, OSError, RuntimeError):  # the home itself is wrong
        return spell_commands(text, program())


def _is_answer(typed: Invocation) -> bool:
    """Whether nothing is left of a command but what it prints."""
    is_rehearsal = bool(typed.options.get("dry_run"))
    return Trait.ANSWERS in typed.traits or is_rehearsal


def _print_cost(typed: Invocation, code: int, seconds: float) -> None:
    kilobytes = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    words = f"{typed.command} {typed.step}".strip()
    print(
        f"nightbook {program_version()}: {words} took {seconds:.2f} s and at most "
        f"{kilobytes // MEGABYTE} MB; exit code {code}.",
        file=sys.stderr,
    )


def _check_output(typed: Invocation, out: SafeStream, code: int) -> int:
    """Return the exit code; lost output changes it only where it was all that was asked for."""
    # A reader that goes away, `head` for instance, has had enough.
    if out.error is None or isinstance(out.error, BrokenPipeError):
        return code
    print(
        f"Standard output could not be written ({out.error}): what nightbook {typed.command} "
        "printed is lost, what it did is done.",
        file=sys.stderr,
    )
    return code or FAILED * _is_answer(typed)


def _exit_code(typed: Invocation, nightbook: Nightbook) -> int:
    of_firm = False
    try:
        if typed.command != "doctor":  # it reports on each setting and place itself
            nightbook = nightbook.with_fixed_variables()
            if typed.shared.is_verbose:
                print(f"home: {nightbook.layout.home}", file=sys.stderr)
            is_tonight = typed.command == "run" and typed.options["day"] is None
            # What is wrong with the firm's settings is said below, with every other complaint.
            with contextlib.suppress(*([InvalidSettings] if is_tonight else [])):
                of_firm = require_firm_command(nightbook.layout, typed)
            if is_tonight and not of_firm:
                nightbook.settings(api=True)  # every complaint at once, as doctor has them
            require_place(nightbook.layout, typed)
        else:
            with contextlib.suppress(InvalidSettings):
                of_firm = require_firm_command(nightbook.layout, typed)
        # Only the chosen command is imported: Dagster alone takes longer than a query may.
        name, function = ("firm", typed.command) if of_firm else (typed.module, typed.function)
        module = _import_command(name)
        code: int = getattr(module, function)(nightbook, **typed.options)
    except BrokenPipeError:  # of a body that goes out as bytes
        return 0
    except KeyboardInterrupt:
        print("Stopped. What was not finished leaves nothing; run it again.", file=sys.stderr)
        return FAILED
    except Exception as error:
        if typed.shared.is_debug:
            raise
        code = report_error(error, nightbook)
        _hint_at_firm(error, nightbook)
        return code
    return code


def _hint_at_firm(error: Exception, nightbook: Nightbook) -> None:
    """Say where firm.toml belongs, if a command found another home than its folder."""
    is_other_home = isinstance(error, InvalidSettings | NoHome)
    with contextlib.suppress(InvalidSettings, OSError):
        if is_other_home and (hint := misplaced_firm(nightbook.layout)):
            print(printable(hint), file=sys.stderr)


def _import_command(name: str) -> ModuleType:
    """Return the module of a command; nothing that an import makes is garbage to look for."""
    gc.disable()  # a fifth of the CPU time of what a night imports (measured: 0.35 of 2.0 s)
    try:
        return importlib.import_module(f"assets.commands.{name}")
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
