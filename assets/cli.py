"""The `nightbook` program: parse arguments, run one command, and return its exit code.

Exit codes: 0 success; 1 failure; 2 invalid arguments or settings; 3 a person must decide. An error
is printed as one paragraph. Only `--debug` shows a traceback.
"""

import contextlib
import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import click

from assets.commands.command_line import command_line
from assets.console.command import Invocation
from assets.console.errors import report_error
from assets.console.exit_codes import FAILED
from assets.console.invocation import (
    override_home,
    program,
    program_version,
    spell_commands,
    spell_for,
)
from assets.console.terminal import SafeStream, choose_color
from assets.home.writer_lock import require_place
from assets.nightbook import Nightbook
from assets.publishing.latest import renew_after_command
from pipelines.settings import InvalidSettings
from warehouse.storage.layout import private_files

DATA_COMMANDS = ("query", "api", "trace", "tables")
KILOBYTES_PER_MEGABYTE = 1024  # memory usage from `getrusage` is in kilobytes
STOPPED = "Stopped. Unfinished work was discarded. Run the command again."


def main(argv: Sequence[str] | None = None, nightbook: Nightbook | None = None) -> int:
    """Run one command and return its exit code. Errors are printed as one paragraph."""
    try:
        invocation = command_line.main(argv, prog_name="nightbook", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        print(STOPPED, file=sys.stderr)
        return FAILED
    # Click has already printed the help and returned an exit code.
    if not isinstance(invocation, Invocation):
        return int(invocation)
    if invocation.home:
        override_home(invocation.home)
    choose_color(invocation.color or "auto")
    is_silent = invocation.is_quiet and not _is_result_printed(invocation)
    chosen = replace(nightbook or Nightbook(), is_debug=invocation.is_debug)
    spell = partial(_spell, chosen)
    # Adapt nightbook commands to this home, but only in messages. Data may contain the same words
    # by chance.
    is_data = invocation.words[0] in DATA_COMMANDS or bool(invocation.options.get("output_format"))
    out = SafeStream(None if is_silent else sys.stdout, str if is_data else spell)
    errors = SafeStream(sys.stderr, spell)
    with (
        private_files(),
        contextlib.redirect_stdout(cast("Any", out)),
        contextlib.redirect_stderr(cast("Any", errors)),
    ):
        started_at = chosen.now()
        code = _exit_code(invocation, chosen)
        out.flush()
        code = _check_output(invocation, out, code)
        if invocation.is_verbose:
            _print_cost(invocation, code, (chosen.now() - started_at).total_seconds())
        return code


def _spell(nightbook: Nightbook, text: str) -> str:
    """Rewrite the nightbook commands in a message so that they work for this home."""
    if "nightbook " not in text:
        return text
    try:
        return spell_for(nightbook.layout, text)
    except (InvalidSettings, OSError, RuntimeError):
        # The settings are invalid, so the home is unknown.
        return spell_commands(text, program())


def _is_result_printed(invocation: Invocation) -> bool:
    """Return whether the command prints its whole result instead of writing it to a file."""
    return invocation.command.prints_result or bool(invocation.options.get("dry_run"))


def _print_cost(invocation: Invocation, code: int, seconds: float) -> None:
    kilobytes = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"nightbook {program_version()}: {' '.join(invocation.words)} took {seconds:.2f} s and at "
        f"most {kilobytes // KILOBYTES_PER_MEGABYTE} MB; exit code {code}.",
        file=sys.stderr,
    )


def _check_output(invocation: Invocation, out: SafeStream, code: int) -> int:
    """Report any output that could not be written, and return the final exit code.

    Lost output is a failure only if it was the command's whole result.
    """
    # Ignore a closed pipe, because the program that closed it, such as `head`, does not need more
    # output.
    if out.error is None or isinstance(out.error, BrokenPipeError):
        return code
    print(
        f"Writing to standard output failed ({out.error}), so the output of nightbook "
        f"{invocation.words[0]} was lost. The command itself has finished.",
        file=sys.stderr,
    )
    return code or FAILED * _is_result_printed(invocation)


def _exit_code(invocation: Invocation, nightbook: Nightbook) -> int:
    try:
        return _run_command(invocation, nightbook)
    except BrokenPipeError:
        # Handle a closed pipe here too, because `SafeStream` handles it only for text, and the body
        # of a response is written as bytes.
        return 0
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return FAILED
    except Exception as error:
        if invocation.is_debug:
            raise
        return report_error(error, nightbook)


def _run_command(invocation: Invocation, nightbook: Nightbook) -> int:
    command = invocation.command
    # Skip these checks for the command `doctor`, because it reports problems with settings and
    # directories itself.
    if invocation.words != ["doctor"]:
        nightbook = nightbook.with_fixed_variables()
        if invocation.is_verbose:
            print(f"home: {nightbook.layout.home}", file=sys.stderr)
        if invocation.words == ["run"] and invocation.options["day"] is None:
            # `settings` raises a single error that lists all invalid settings.
            nightbook.settings(api=True)
        require_place(nightbook.layout, invocation)
    code = command.callback(nightbook, **invocation.options)
    options = invocation.options
    is_rehearsal = options.get("dry_run") or options.get("is_preview")
    if command.writes and not is_rehearsal and not renew_after_command(nightbook):
        code = code or FAILED
    if command.then:
        command.then(nightbook)
    return code


if __name__ == "__main__":
    sys.exit(main())
