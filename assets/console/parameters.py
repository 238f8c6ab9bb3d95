"""The types of parameters, and the options that several commands have."""

import difflib
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import click

FORMATS = ("table", "json", "csv", "jsonl")
_FINGERPRINT = re.compile("[0-9a-f]{64}")

Function = Callable[..., int]
Decorator = Callable[[Function], Function]


class Day(click.ParamType[date]):
    """The parameter type for a date."""

    name = "YYYY-MM-DD"

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


class FingerprintText(click.ParamType[str]):
    """The parameter type for a fingerprint, 64 hexadecimal digits."""

    name = "HEX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the fingerprint in lower case. Fail with a usage error if it is invalid."""
        digits = "".join(str(value).split()).lower()
        if not _FINGERPRINT.fullmatch(digits):
            self.fail(
                f"{str(value)[:80]!r} is not a fingerprint, which has 64 digits from 0 to f. Copy "
                "it from an alert, a report or a workbook.",
                param,
                ctx,
            )
        return digits


class Choice(click.Choice[str]):
    """The parameter type for keywords. The message for a wrong keyword suggests the closest one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return click's message, with a suggestion if a keyword is similar."""
        message = super().get_invalid_choice_message(value, ctx)
        near = difflib.get_close_matches(str(value), self.choices, n=1)
        return f"{message} Did you mean {near[0]!r}?" if near else message


def flag(*names: str, **attributes: Any) -> Decorator:
    """Declare an option without a value."""
    return click.option(*names, is_flag=True, **attributes)


def as_of_option() -> Decorator:
    """Declare `--as-of`, the date of the book."""
    return click.option("--as-of", type=Day(), help="Use the newest book on or before this date")


def format_option(
    *formats: str, help_text: str = "Print rows in this format instead of text"
) -> Decorator:
    """Declare `--format`. The default help is for commands that can print rows instead of text."""
    return click.option(
        "--format", "output_format", type=Choice(formats or FORMATS), help=help_text
    )


def dry_run_options() -> Decorator:
    """Declare `--dry-run` and the option for its output format."""
    formats = format_option(help_text="With --dry-run, print the changes as rows in this format")
    dry_run = flag("--dry-run", help="Show the changes without making them")
    return lambda function: dry_run(formats(function))
