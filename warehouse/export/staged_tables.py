"""Questions to the staged tables of an export: their columns, sizes, and rows in batches."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

from collections.abc import Iterator
from typing import Any

from warehouse.contract.firm import SOURCE
from warehouse.contract.model import quote_identifier
from warehouse.query.book import PORTFOLIO_NAME, Exhibit, OpenBook
from warehouse.spreadsheet.writing.cells import LONGEST_NUMBER
from warehouse.spreadsheet.writing.sql_rows import is_rounded
from warehouse.sql.catalog import views

BATCH = 1024  # rows: four times as many cost 25 MB and save nothing (measured)


def columns_of(source: OpenBook, exhibit: Exhibit) -> dict[str, str]:
    """Return the columns of an exhibit and their types, the portfolio's name first."""
    rows = source.connection.execute(f"describe {exhibit.staged_name}").fetchall()
    return {name: kind for name, kind, *_ in rows}


def meanings(exhibit: Exhibit) -> dict[str, str]:
    """Return the meaning of every column, as the view's own file says it."""
    view = next(view for view in views() if view.name == exhibit.view)
    return {
        SOURCE.name: SOURCE.meaning,
        PORTFOLIO_NAME: "The portfolio's name at that time, or its id where it has none.",
        **view.entries,
    }


def batches(
    source: OpenBook, exhibit: Exhibit, names: tuple[str, ...]
) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield some columns of an exhibit in its order, a batch of columns at a time.

    Decimals come as text in plain digits, since every reader of batches writes text.
    """
    kinds = columns_of(source, exhibit)
    columns = ", ".join(_column(name, kinds) for name in names)
    result = source.connection.execute(f"select {columns} from {exhibit.staged_name}")
    while fetched := result.fetchmany(BATCH):
        yield tuple(zip(*fetched, strict=True))
        source.on_rows(len(fetched))


def _column(name: str, kinds: dict[str, str]) -> str:
    return f"{quote_identifier(name)}{'::varchar' if kinds[name].startswith('DECIMAL') else ''}"


def longest(source: OpenBook, exhibit: Exhibit) -> dict[str, int]:
    """Return the length of the longest text of each column of texts."""
    names = [name for name, kind in columns_of(source, exhibit).items() if kind == "VARCHAR"]
    columns = ", ".join(f"coalesce(max(length({quote_identifier(name)})), 0)" for name in names)
    row = source.connection.execute(f"select {columns} from {exhibit.staged_name}").fetchone()
    return dict(zip(names, row or (), strict=True))


def longest_whole(source: OpenBook, exhibit: Exhibit) -> dict[str, int]:
    """Return the most digits before the point of each column of amounts, up to 15."""
    names = [name for name in columns_of(source, exhibit) if name.endswith("_text")]
    columns = ", ".join(
        f"coalesce(max(least(15, coalesce(nullif(instr({name}, '.'), 0) - 1, strlen({name})))), 0)"
        for name in map(quote_identifier, names)
    )
    row = source.connection.execute(f"select {columns} from {exhibit.staged_name}").fetchone()
    return dict(zip(names, row or (), strict=True))


def count_rounded_rows(source: OpenBook, exhibit: Exhibit) -> int:
    """Return how many rows have an amount of more digits than a number keeps, counted by DuckDB."""
    names = [name for name in columns_of(source, exhibit) if name.endswith("_text")]
    tests = " or ".join(
        f"strlen({name}) > {LONGEST_NUMBER} or {is_rounded(name)}"
        for name in map(quote_identifier, names)
    )
    query = f"select count(*) from {exhibit.staged_name} where {tests}"
    row = source.connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def texts_over(source: OpenBook, exhibit: Exhibit, size: int) -> list[str]:
    """Return every text of an exhibit that is longer than so many bytes."""
    texts: set[str] = set()
    for name, kind in columns_of(source, exhibit).items():
        if kind == "VARCHAR":
            column = quote_identifier(name)
            query = (
                f"select distinct {column} from {exhibit.staged_name} where strlen({column}) > ?"
            )
            texts.update(row[0] for row in source.connection.execute(query, [size]).fetchall())
    return sorted(texts)
