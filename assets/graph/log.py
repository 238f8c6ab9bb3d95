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
from assets.graph.step import failure_message
from assets.nightbook import TOLD
from warehouse.query.printable import printable_lines

CONSOLE = "console"


def run_config(level: str) -> dict[str, Any]:
    """Return the run configuration for log lines of a level and above."""
    return {"loggers": {CONSOLE: {"config": {"log_level": level}}}}


class TerminalFormatter(logging.Formatter):
    """A record of Dagster for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the time and the message."""
        return printable_lines(super().format(record))


class JsonFormatter(logging.Formatter):
    """A record of Dagster as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line end."""
        meta = getattr(record, "dagster_meta", None) or {}
        happened = meta.get("dagster_event")
        facts = {
            "night": (meta.get("job_tags") or {}).get(PARTITION, ""),
            "run": meta.get("run_id") or "",
            "step": meta.get("step_key") or "",
            "snapshot": getattr(record, "snapshot", ""),
        }
        event = happened.event_type_value.lower() if happened else getattr(record, "event", TOLD)
        message = meta.get("orig_message") or record.getMessage()
        if happened is not None and happened.is_step_failure:
            # Dagster's own message says only that the step failed, not why.
            message = failure_message(happened) or message
        at = datetime.fromtimestamp(record.created, UTC)
        return json_line(at, record.levelname.lower(), event, message, facts)


@dg.logger(config_schema={"log_level": dg.Field(str, is_required=False, default_value="INFO")})
def console(context: dg.InitLoggerContext) -> logging.Logger:
    """Log to standard error: text in a terminal, one JSON object a line elsewhere."""
    level = context.logger_config["log_level"]
    logger = logging.Logger("nightbook", level)  # noqa: LOG001 - a shared one gathers handlers
    handler = logging.StreamHandler(sys.stderr)
    is_terminal = sys.stderr.isatty()
    handler.setFormatter(
        TerminalFormatter("%(asctime)s %(message)s") if is_terminal else JsonFormatter()
    )
    logger.addHandler(handler)
    return logger
