"""What a run says: Dagster's log lines, and JSON lines on standard error.

Dagster keeps everything in its event log; what is written beside it is for journald and for
whoever collects the lines of a container.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.console.json_log import json_line
from assets.graph.partitions import PARTITION
from assets.graph.step_errors import failure_message
from assets.nightbook import INFO, TOLD, Tell
from warehouse.query.printable import printable_lines

CONSOLE = "console"
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def run_config(level: str) -> dict[str, Any]:
    """The run configuration that lets a run say lines of a level and above."""
    return {"loggers": {CONSOLE: {"config": {"log_level": level}}}}


def telling(log: logging.Logger) -> Tell:
    """A teller that speaks through the log of a step."""

    def tell(words: str, *, event: str = TOLD, level: str = INFO, snapshot: str = "") -> None:
        log.log(LEVELS[level], words, extra={"event": event, "snapshot": snapshot})

    return tell


class Words(logging.Formatter):
    """A record of Dagster for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """When, and the words."""
        return printable_lines(super().format(record))


class JsonLines(logging.Formatter):
    """A record of Dagster as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without a line end."""
        about = getattr(record, "dagster_meta", None) or {}
        happened = about.get("dagster_event")
        facts = {
            "night": (about.get("job_tags") or {}).get(PARTITION, ""),
            "run": about.get("run_id") or "",
            "step": about.get("step_key") or "",
            "snapshot": getattr(record, "snapshot", ""),
        }
        event = happened.event_type_value.lower() if happened else getattr(record, "event", TOLD)
        words = about.get("orig_message") or record.getMessage()
        if happened is not None and happened.is_step_failure:
            words = (
                failure_message(happened) or words
            )  # Dagster's own words only say that it failed
        at = datetime.fromtimestamp(record.created, UTC)
        return json_line(at, record.levelname.lower(), event, words, facts)


@dg.logger(config_schema={"log_level": dg.Field(str, is_required=False, default_value="INFO")})
def console(context: dg.InitLoggerContext) -> logging.Logger:
    """Standard error: words in a terminal, one JSON object a line for everything else."""
    level = context.logger_config["log_level"]
    logger = logging.Logger("nightbook", level)  # noqa: LOG001 - a shared one gathers handlers
    handler = logging.StreamHandler(sys.stderr)
    is_terminal = sys.stderr.isatty()
    handler.setFormatter(Words("%(asctime)s %(message)s") if is_terminal else JsonLines())
    logger.addHandler(handler)
    return logger
