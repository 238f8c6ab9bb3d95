"""The names from the published book that shell completion suggests."""

# ruff: noqa: S608 - the queries are constants of assets.console.completion; user input is a parameter

import os
from collections.abc import Sequence
from pathlib import Path

from pipelines import settings
from warehouse.query.connect import connect
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

_MAX_NAMES = 200


def starting_with(query: str, typed: str, home: str | None) -> Sequence[tuple[str, str | None]]:
    """Return the query's (name, note) rows whose name or note starts with `typed`.

    `typed` must be in lower case. `home` overrides NIGHTBOOK_HOME. Raises `InvalidSettings`,
    `FileNotFoundError` if there is no book, and the errors of `warehouse.query.connect.connect`.
    """
    variables = dict(os.environ) | ({HOME: home} if home else {})
    found = settings.read(settings.environment(Path.cwd(), variables), api=False).home
    chosen = (
        f"select * from ({query}) as names(name, note) where starts_with(lower(name), $typed) "
        f"or starts_with(lower(note), $typed) order by all limit {_MAX_NAMES}"
    )
    with connect(Layout(found).database) as book:
        return book.execute(chosen, {"typed": typed}).fetchall()
