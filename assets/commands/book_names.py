"""Look up names in the published book, for `assets.console.completion`."""

# ruff: noqa: S608 - the queries are those of assets.console.completion; what is typed is a value

import os
from collections.abc import Sequence
from pathlib import Path

from pipelines import settings
from warehouse.query.connect import connect
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

_MOST = 200


def starting_with(query: str, typed: str, home: str | None) -> Sequence[tuple[str, str | None]]:
    """Return those rows of a query, name and note, of which one starts with the lower-case text.

    `home` takes the place of the setting. Raises `InvalidSettings`, `FileNotFoundError` without a
    book, and what `warehouse.query.connect.connect` raises.
    """
    variables = dict(os.environ) | ({HOME: home} if home else {})
    found = settings.read(settings.environment(Path.cwd(), variables), api=False).home
    chosen = (
        f"select * from ({query}) as names(name, note) where starts_with(lower(name), $typed) "
        f"or starts_with(lower(note), $typed) order by all limit {_MOST}"
    )
    with connect(Layout(found).database) as book:
        return book.execute(chosen, {"typed": typed}).fetchall()
