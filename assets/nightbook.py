"""The context for every command and asset: settings, clock and progress callbacks.

It contains no secret. Settings are read from the environment when they are needed, so they cannot
reach Dagster's configuration, its event log or a repr.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from pipelines import settings
from pipelines.settings import Settings
from warehouse.progress import ProgressCallback
from warehouse.storage.layout import Layout

INFO, WARNING, ERROR = "info", "warning", "error"
DEFAULT_EVENT, STARTED = "told", "started"


class EventCallback(Protocol):
    """A callback that receives a progress message, an event name, a level and a snapshot ID."""

    def __call__(
        self, message: str, *, event: str = DEFAULT_EVENT, level: str = INFO, snapshot: str = ""
    ) -> None:
        """Report one progress message."""


def utc_now() -> datetime:
    """Return this machine's time in UTC."""
    return datetime.now(UTC)


def process_environment() -> Mapping[str, str]:
    """Return the environment variables of this process and those in the current folder's `.env`."""
    return settings.environment(Path.cwd())


class FixedVariables:
    """Environment variables that do not change, and the settings in them, which are parsed once."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.settings = cache(partial(settings.read, variables))

    def __call__(self) -> Mapping[str, str]:
        """Return the variables."""
        return self._variables


@dataclass(frozen=True, slots=True)
class Nightbook:
    """The context of a command or asset: its environment variables, clock and callbacks."""

    variables: Callable[[], Mapping[str, str]] = field(default=process_environment, repr=False)
    now: Callable[[], datetime] = field(default=utc_now, repr=False)
    _: KW_ONLY
    tell: EventCallback | None = field(default=None, repr=False)
    """Called with a line of text at each step of a long task. If it is None, the line goes to
    Dagster's log.
    """
    watch: ProgressCallback | None = field(default=None, repr=False)
    """Called to update the progress bar (`assets.console.terminal`). If it is None, `tell` is
    called instead.
    """
    is_demo: bool = False
    """True if simulated nights are allowed. The home must be marked as a demo."""
    pause: Callable[[float], None] = field(default=time.sleep, repr=False)
    """Called to wait for a number of seconds, for example before rereading a list that lost
    portfolios.
    """
    connect: Callable[..., Any] | None = field(default=None, repr=False)
    """Called to create the API client. If it is None, the real client is imported when it is
    needed."""
    is_debug: bool = False
    """True to show the traceback of a failed step."""

    def settings(self, *, api: bool = False) -> Settings:
        """Return the settings. Raises one `InvalidSettings` that lists all invalid settings."""
        if isinstance(self.variables, FixedVariables):
            return self.variables.settings(api=api)
        return settings.read(self.variables(), api=api)

    def with_fixed_variables(self) -> "Nightbook":
        """Return a copy with fixed environment variables, so a command parses them only once."""
        return replace(self, variables=FixedVariables(self.variables()))

    @property
    def layout(self) -> Layout:
        """Return the paths of files and folders in this home."""
        return Layout(self.settings().home)
