"""How a step fails: with the words of the error, never tried again by itself; and what it said.

The client retries requests; a step that failed will fail again until somebody reads why.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from assets.console.errors import disk_message, is_ours

NOWHERE = Path("the home")


@contextlib.contextmanager
def failing_in_words(home: Path = NOWHERE) -> Iterator[None]:
    """Turn our own errors, and those of the disk of a home, into a failure that shows a paragraph.

    Others keep their trace.
    """
    try:
        yield
    except Exception as error:
        words = str(error) if is_ours(error) else disk_message(error, home)
        if words is None:
            raise
        raise dg.Failure(description=words, allow_retries=False) from None


def failure_message(event: dg.DagsterEvent) -> str:
    """What a failed step said: our own paragraph, or the step and the error's message."""
    failure = event.step_failure_data
    ours = failure.user_failure_data
    if ours is not None and ours.description:
        return str(ours.description)
    error = failure.error and (failure.error.cause or failure.error)
    return f"{event.step_key}: {error.message.strip()}" if error else ""
