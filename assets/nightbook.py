"""The context for every command and asset: settings, clock and progress callbacks.

It contains no secret. Settings are read from the environment when they are needed, so they cannot
reach Dagster's configuration, its event log or a repr.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pipelines import settings
from pipelines.settings import Settings
from warehouse.progress import ProgressCallback
from warehouse.storage.layout import Layout

INFO, WARNING, ERROR = "info", "warning", "error"
DEFAULT_EVENT, STARTED = "told", "started"


class EventCallback(Protocol):
    """A progress callback that gets a message, the event's name, its level and the snapshot."""

    def __call__(
        self, message: str, *, event: str = DEFAULT_EVENT, level: str = INFO, snapshot: str = ""
    ) -> None:
        """Report one line."""


def utc_now() -> datetime:
    """Return this machine's time in UTC."""
    return datetime.now(UTC)


def process_environment() -> Mapping[str, str]:
    """Return the variables from this process and from `.env` in the current folder."""
    return settings.environment(Path.cwd())


@dataclass(frozen=True, slots=True)
class Nightbook:
    """Context for a command or asset. `variables` has the settings; `now` is the clock (UTC)."""

    variables: Callable[[], Mapping[str, str]] = field(default=process_environment, repr=False)
    now: Callable[[], datetime] = field(default=utc_now, repr=False)
    _: KW_ONLY
    tell: EventCallback | None = field(default=None, repr=False)
    """Called with a line of text at each step of long work. If it is None, Dagster's log gets the
    line."""
    watch: ProgressCallback | None = field(default=None, repr=False)
    """Called with the progress for a progress bar (`assets.console.terminal`). If it is None,
    `tell` is called."""
    is_demo: bool = False
    """True if simulated nights are allowed, in a home that is marked for them."""
    pause: Callable[[float], None] = field(default=time.sleep, repr=False)
    """Called to wait some seconds, for example before a list that lost portfolios is reread."""
    connect: Callable[..., Any] | None = field(default=None, repr=False)
    """Called to create the API client. If it is None, the real client is imported when it is
    needed."""
    is_debug: bool = False
    """True if the traceback of a failed step is shown."""

    def settings(self, *, api: bool = False) -> Settings:
        """Return the settings. Raises one `InvalidSettings` that lists every error."""
        return settings.read(self.variables(), api=api)

    def with_fixed_variables(self) -> "Nightbook":
        """Return a copy with the current variables, so that a command reads them only once."""
        variables = self.variables()
        return replace(self, variables=lambda: variables)

    @property
    def layout(self) -> Layout:
        """Return the home's paths."""
        return Layout(self.settings().home)
