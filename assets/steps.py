"""How a step fails: with the words of the error, and never tried again by itself.

The client retries requests; a step that failed will fail again until somebody reads why.
"""

import contextlib
from collections.abc import Iterator

import dagster as dg

from assets.words import is_ours


@contextlib.contextmanager
def failing_in_words() -> Iterator[None]:
    """Turn our own errors into a failure that shows their paragraph; others keep their trace."""
    try:
        yield
    except Exception as error:
        if not is_ours(error):
            raise
        raise dg.Failure(description=str(error), allow_retries=False) from None
