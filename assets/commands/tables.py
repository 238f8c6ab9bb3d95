"""`nightbook tables [NAME]`: what is in the warehouse, in its own words."""

import textwrap

from assets.console.invocation import command_for
from assets.console.terminal import width
from assets.nightbook import Nightbook
from warehouse.query.read import Description, tables

NAMES = 34


class NoSuchTable(Exception):
    """Nothing in the warehouse has that name."""

    exit_code = 2

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Nothing in the warehouse is called {name!r}. `nightbook tables` lists what there is."
        )


def run(nightbook: Nightbook, *, name: str | None) -> int:
    """List everything, or one thing with its columns."""
    descriptions = tables(nightbook.layout.database)
    if name is None:
        for schema in dict.fromkeys(table.schema for table in descriptions):
            print(f"\n{schema}")
            for table in descriptions:
                if table.schema == schema:
                    _line(table)
        print(f"\nOne of them with its columns: {command_for(nightbook.layout)} tables NAME")
        return 0
    chosen = [
        table for table in descriptions if name in (table.name, f"{table.schema}.{table.name}")
    ]
    if not chosen:
        raise NoSuchTable(name)
    for table in chosen:
        _whole(table)
    return 0


def _line(table: Description) -> None:
    first = _comment(table).partition(". ")[0].rstrip(".")
    summary = textwrap.shorten(first, width() - NAMES - 3, placeholder=" …")
    print(f"  {_signature(table):<{NAMES}} {summary}")


def _comment(table: Description) -> str:
    """Return a comment without the call that a macro's begins with."""
    return table.comment.removeprefix(f"{_signature(table)}: ")


def _signature(table: Description) -> str:
    if table.kind != "macro":
        return table.name
    return f"{table.name}({', '.join(name for name, _, _ in table.columns)})"


def _whole(table: Description) -> None:
    print(f"\n{table.schema}.{_signature(table)}  ({table.kind})")
    print(textwrap.fill(_comment(table), width(), initial_indent="  ", subsequent_indent="  "))
    for name, kind, comment in table.columns:
        print(f"\n  {name}  {kind}")
        if comment:
            print(textwrap.fill(comment, width(), initial_indent="    ", subsequent_indent="    "))
