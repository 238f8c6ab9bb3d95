"""A step in the graph: its partition, log lines, results and errors."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from assets.console.rows import json_line
from assets.graph.record import key_of_check, to_asset, to_check
from assets.home.writer_lock import RunLock
from assets.monitoring.failures import with_merge_alerts
from assets.night.results import AssetCheck, Result
from assets.night.step import NightStep, explain, night_of_date
from assets.nightbook import DEFAULT_EVENT, INFO, EventCallback, Nightbook, utc_now
from pipelines import night
from pipelines.landing import night_folders
from pipelines.landing.snapshots import Snapshot, books, find, landed_snapshots
from warehouse.query.formats import printable_lines

PARTITION = "dagster/partition"


def nights(nightbook: Nightbook) -> dg.DailyPartitionsDefinition:
    """Return daily partitions from the first landed night (or today, if none landed) to today."""
    # `end_offset` creates today's partition before the day ends, because today's snapshot belongs
    # to today's date. By this machine's clock, which Dagster uses, only a demo's nights can be in
    # the future.
    settings = nightbook.settings()
    today = nightbook.now().astimezone(settings.timezone).date()
    ahead = (today - utc_now().astimezone(settings.timezone).date()).days
    first = min([*night_folders.dates(nightbook.layout)[:1], today])
    return dg.DailyPartitionsDefinition(
        start_date=first.isoformat(),
        timezone=str(settings.timezone),
        end_offset=1 + (max(ahead, 0) if nightbook.is_demo else 0),
    )


DECIDE = "decide_night"
"""Name of the job that lets a person decide on a night."""
COMMAND = "command"
"""Metadata key of a failed step, for the nightbook command that can fix the problem."""
SNAPSHOT = "nightbook/snapshot"
"""Run tag for the snapshot that the run created or decided on."""
STATE = "nightbook/state"
"""Run tag for the state of the run's night, so that the list of runs shows a held night."""
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def night_or_newest_book(nightbook: Nightbook, partition: str | None) -> Snapshot:
    """Return a partition's snapshot, or the newest book if the run has no partition.

    A run started from Dagster's checks page has no partition.

    Raises:
        NeverLanded: the date was never pulled.
        dagster.Failure: there is no partition and no date has a book yet.
    """
    layout = nightbook.layout
    if partition is not None:
        day = date.fromisoformat(partition)
        if (snapshot := night_of_date(layout, day)) is not None:
            return snapshot
        manifest = night.landed_for(nightbook.settings(), nightbook.now(), day)
        return find(layout, manifest.snapshot_id)
    of_dates = books(landed_snapshots(layout))
    if not of_dates:
        raise dg.Failure(
            description="The checks did not run because no night has a book yet.",
            allow_retries=False,
        )
    return of_dates[max(of_dates)]


@contextlib.contextmanager
def night_step(
    context: dg.AssetExecutionContext, nightbook: Nightbook, lock: RunLock
) -> Iterator[NightStep]:
    """Run a step of a night. An expected error fails the step with a short message and no retry."""
    layout = nightbook.layout
    with failing_in_words(layout.home):
        if not context.has_partition_key:
            raise dg.Failure(
                description="This run has no partition, so nothing was done. Start it again from "
                "the asset or job page, and choose a night as its partition.",
                allow_retries=False,
            )
        tell = with_merge_alerts(nightbook, nightbook.tell or log_teller(context.log))
        yield NightStep(
            nightbook=nightbook,
            layout=layout,
            day=date.fromisoformat(context.partition_key),
            tell=tell,
            lock=lock,
            is_decision=context.run.job_name == DECIDE,
        )


def yielding(run: Callable[[NightStep], Sequence[Result]]) -> Callable[..., Any]:
    """Return the function of an asset that runs a step of a night and yields its results."""

    def step_of_night(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        with night_step(context, nightbook, writing) as step:
            results = run(step)
        yield from selection_of(context, results)

    return step_of_night


def selection_of(
    context: dg.AssetExecutionContext, results: Sequence[Result]
) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """Yield the results that the run asked for."""
    for result in results:
        if isinstance(result, AssetCheck):
            if key_of_check(result) in context.selected_asset_check_keys:
                yield to_check(result)
        elif dg.AssetKey(result.asset) in context.selected_asset_keys:
            yield to_asset(result)


def name_snapshot(context: dg.AssetExecutionContext, snapshot_id: str) -> None:
    """Tag the run with its snapshot ID, so that the list of runs shows it."""
    context.instance.add_run_tags(context.run.run_id, {SNAPSHOT: snapshot_id})


@contextlib.contextmanager
def failing_in_words(home: Path) -> Iterator[None]:
    """Convert our own errors, and disk errors in the home, to failures without a stack trace."""
    try:
        yield
    except Exception as error:
        if (explained := explain(error, home)) is None:
            raise
        message, command = explained
        # Do not retry the whole step, because the client has already retried the requests.
        raise dg.Failure(
            description=message, metadata={COMMAND: command}, allow_retries=False
        ) from None


def log_teller(log: logging.Logger) -> EventCallback:
    """Return a callback that writes progress messages to a run's log."""

    def tell(
        message: str, *, event: str = DEFAULT_EVENT, level: str = INFO, snapshot: str = ""
    ) -> None:
        log.log(LEVELS[level], message, extra={"event": event, "snapshot": snapshot})

    return tell


def failure_command(event: dg.DagsterEvent) -> str:
    """Return the command that fixes or explains a failed step, or "" for unexpected errors."""
    failure = event.step_failure_data.user_failure_data
    value = failure.metadata.get(COMMAND) if failure is not None else None
    return str(value.value) if value is not None else ""


def failure_message(event: dg.DagsterEvent) -> str:
    """Return the reason why a step failed: our own message, or the step's name and error."""
    failure = event.step_failure_data
    ours = failure.user_failure_data
    if ours is not None and ours.description:
        return str(ours.description)
    error = failure.error and (failure.error.cause or failure.error)
    return f"{event.step_key}: {error.message.strip()}" if error else ""


CONSOLE = "console"


def run_config(level: str) -> dict[str, Any]:
    """Return the run configuration that logs messages at this level and above."""
    return {"loggers": {CONSOLE: {"config": {"log_level": level}}}}


class TerminalFormatter(logging.Formatter):
    """A formatter that shows Dagster's log records to a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the time and the message, escaping unprintable characters."""
        return printable_lines(super().format(record))


class JsonFormatter(logging.Formatter):
    """A formatter that writes Dagster's log records as JSON objects, one per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line, without a line break at the end."""
        meta = getattr(record, "dagster_meta", None) or {}
        happened = meta.get("dagster_event")
        facts = {
            "night": (meta.get("job_tags") or {}).get(PARTITION, ""),
            "run": meta.get("run_id") or "",
            "step": meta.get("step_key") or "",
            "snapshot": getattr(record, "snapshot", ""),
        }
        event = (
            happened.event_type_value.lower()
            if happened
            else getattr(record, "event", DEFAULT_EVENT)
        )
        message = meta.get("orig_message") or record.getMessage()
        if happened is not None and happened.is_step_failure:
            # Replace Dagster's own message, which does not contain the reason for the failure.
            message = failure_message(happened) or message
        at = datetime.fromtimestamp(record.created, UTC)
        return json_line(at, record.levelname.lower(), event, message, facts)


@dg.logger(config_schema={"log_level": dg.Field(str, is_required=False, default_value="INFO")})
def console(context: dg.InitLoggerContext) -> logging.Logger:
    """Log to standard error: as text in a terminal, otherwise as one JSON object per line."""
    level = context.logger_config["log_level"]
    logger = logging.Logger("nightbook", level)  # noqa: LOG001 - a shared one collects handlers
    handler = logging.StreamHandler(sys.stderr)
    is_terminal = sys.stderr.isatty()
    handler.setFormatter(
        TerminalFormatter("%(asctime)s %(message)s") if is_terminal else JsonFormatter()
    )
    logger.addHandler(handler)
    return logger
