"""`nightbook tables [NAME]`: what is in the warehouse, in its own words."""

import argparse
import textwrap

from assets.console.terminal import command_for, width
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


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """List everything, or one thing with its columns."""
    found = tables(nightbook.layout.database)
    if arguments.name is None:
        for schema in dict.fromkeys(one.schema for one in found):
            print(f"\n{schema}")
            for one in found:
                if one.schema == schema:
                    _line(one)
        print(f"\nOne of them with its columns: {command_for(nightbook.layout)} tables NAME")
        return 0
    chosen = [one for one in found if arguments.name in (one.name, f"{one.schema}.{one.name}")]
    if not chosen:
        raise NoSuchTable(arguments.name)
    for one in chosen:
        _whole(one)
    return 0


def _line(one: Description) -> None:
    first = _comment(one).partition(". ")[0].rstrip(".")
    words = textwrap.shorten(first, width() - NAMES - 3, placeholder=" …")
    print(f"  {_signature(one):<{NAMES}} {words}")


def _comment(one: Description) -> str:
    """The words without the call that a macro's comment begins with."""
    return one.comment.removeprefix(f"{_signature(one)}: ")


def _signature(one: Description) -> str:
    if one.kind != "macro":
        return one.name
    return f"{one.name}({', '.join(name for name, _, _ in one.columns)})"


def _whole(one: Description) -> None:
    print(f"\n{one.schema}.{_signature(one)}  ({one.kind})")
    print(textwrap.fill(_comment(one), width(), initial_indent="  ", subsequent_indent="  "))
    for name, kind, comment in one.columns:
        print(f"\n  {name}  {kind}")
        if comment:
            print(textwrap.fill(comment, width(), initial_indent="    ", subsequent_indent="    "))
