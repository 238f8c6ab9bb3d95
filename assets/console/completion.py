"""Shell completion with names from the published book, read when a person presses Tab."""

# ruff: noqa: S608 - the queries are constants of this module; user input is a parameter

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from pipelines import settings
from warehouse.query.connect import connect
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

ACCOUNTS = "select distinct account_name, null from accounts"
ASSETS = "select distinct asset_id, null from positions"
BREAKS = "select distinct break_id, asset_id from ops.breaks"
HELD = "select snapshot_id, 'held' from ops.snapshots where state = 'held'"
PORTFOLIOS = "select portfolio_id, name from portfolios"
SNAPSHOTS = "select snapshot_id, state from ops.snapshots where state in ('held', 'accepted')"
TABLES = """
    select if(schema = 'main', name, schema || '.' || name), note from (
        select schema_name as schema, view_name as name, comment as note from duckdb_views()
        where not internal
        union all select schema_name, table_name, comment from duckdb_tables() where not internal
        union all select schema_name, function_name, comment from duckdb_functions()
        where not internal
    ) where schema in ('main', 'history', 'ops')
"""
VENUES = "select venue_id, display_name from venues"
MAX_NAMES = 200
# Offer only names without special characters. Names come from the network, and the shell inserts
# them into the command line without quotes.
_SAFE_NAME = re.compile(r"[\w.+/-]+")

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_from(query: str) -> Complete:
    """Return a function that completes a parameter with names and descriptions from a query.

    A person may type the start of a name or of its description. The completer offers nothing if
    there is no book.
    """

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del parameter
        home = context.params.get("home") or context.find_root().params.get("home")
        try:
            rows = _starting_with(query, incomplete.lower(), home)
        except Exception:  # noqa: BLE001 - an error must not appear while a person types
            return []
        return [
            CompletionItem(name, help=" ".join((note or "").split()) or None)
            for name, note in rows
            if _SAFE_NAME.fullmatch(name)
        ]

    return complete


def _starting_with(query: str, typed: str, home: str | None) -> Sequence[tuple[str, str | None]]:
    """Return the query's (name, note) rows whose name or note starts with `typed`.

    `typed` must be in lower case. `home` overrides NIGHTBOOK_HOME.
    """
    variables = dict(os.environ) | ({HOME: home} if home else {})
    found = settings.read(settings.environment(Path.cwd(), variables), api=False).home
    chosen = (
        f"select * from ({query}) as names(name, note) where starts_with(lower(name), $typed) "
        f"or starts_with(lower(note), $typed) order by all limit {MAX_NAMES}"
    )
    with connect(Layout(found).database) as book:
        return book.execute(chosen, {"typed": typed}).fetchall()
