"""The values of a book's groups: the whole book, its portfolios, its venues and its labels."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.query.connect import records


def scopes(connection: DuckDBPyConnection) -> tuple[str, ...]:
    """Return `book`, `portfolio`, `venue` and the names of all labels."""
    labels = records(connection, "select distinct label from internal.labels order by label")
    return ("book", "portfolio", "venue", *(row["label"] for row in labels))


def groups_query(scope: str, currency: str, day: date) -> str:
    """Return a query for the values of a scope's groups, the largest first."""
    book = f"date {literal(day.isoformat())}"
    return (
        f"select * from internal.value_groups({literal(scope)}, {literal(currency)}, {book}, "  # noqa: S608 - literals are quoted
        f"{book}) order by value_text::double desc nulls last, group_name, group_id"
    )


def group_values(
    connection: DuckDBPyConnection, currency: str, day: date, limit: int
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each scope with its groups, at most `limit` of each scope."""
    for scope in scopes(connection):
        query = f"{groups_query(scope, currency, day)} limit {limit}"
        yield from ((scope, row) for row in records(connection, query))
