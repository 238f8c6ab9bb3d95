"""What every asset is given: where things lie, what time it is, who hears of progress.

It holds no secret: settings are read from the environment when they are needed, so nothing of
them can reach Dagster's configuration, its event log or a repr.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pipelines import settings
from pipelines.settings import Settings
from warehouse.progress import Say
from warehouse.storage.layout import Layout

INFO, WARNING, ERROR = "info", "warning", "error"
TOLD, STARTED = "told", "started"


class Tell(Protocol):
    """Whoever hears of progress: a sentence, what happened in one word, and facts by name."""

    def __call__(
        self, message: str, *, event: str = TOLD, level: str = INFO, snapshot: str = ""
    ) -> None:
        """Say one line."""


def utc_now() -> datetime:
    """Return this machine's time."""
    return datetime.now(UTC)


def process_environment() -> Mapping[str, str]:
    """Return the variables of this process and of the `.env` beside it."""
    return settings.environment(Path.cwd())


@dataclass(frozen=True, slots=True)
class Nightbook:
    """The keeper of the book: `variables` give the settings, `now` the time in UTC."""

    # `tell` is given one line whenever long work has got somewhere; None leaves it to Dagster's
    # log. `watch` is given how far it is, for a bar; without it lines are told
    # (`assets.console.terminal`). `is_demo` lets invented nights into a home that is marked for
    # them. `pause` waits some seconds before a list that has lost portfolios is read a second time;
    # `connect` makes another client than the API's own, which is loaded only by what asks the API.
    # `is_debug` shows where a step failed.

    variables: Callable[[], Mapping[str, str]] = field(default=process_environment, repr=False)
    now: Callable[[], datetime] = field(default=utc_now, repr=False)
    _: KW_ONLY
    tell: Tell | None = field(default=None, repr=False)
    watch: Say | None = field(default=None, repr=False)
    is_demo: bool = False
    pause: Callable[[float], None] = field(default=time.sleep, repr=False)
    connect: Callable[..., Any] | None = field(default=None, repr=False)
    is_debug: bool = False

    def settings(self, *, api: bool = False) -> Settings:
        """Return the settings; raises `InvalidSettings` with every complaint at once."""
        return settings.read(self.variables(), api=api)

    def with_fixed_variables(self) -> "Nightbook":
        """Return the same with the variables of now, so that a command reads them once."""
        variables = self.variables()
        return replace(self, variables=lambda: variables)

    @property
    def layout(self) -> Layout:
        """Return where everything lies."""
        return Layout(self.settings().home)
