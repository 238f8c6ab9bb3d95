"""The errors of queries. This module imports nothing, so that a parent process starts fast."""


class QueryFailed(ValueError):
    """A query failed, and nothing was changed. The message includes DuckDB's message."""


class NotAQuestion(QueryFailed):
    """An invalid query: bad SQL, an unknown name, or several statements."""

    exit_code = 2
