"""`nightbook tables [NAME]`: tables, views and macros in the warehouse, with their comments."""

import difflib
import textwrap
from collections.abc import Sequence

import click
from click import argument

from assets.console.command import HomeCommand
from assets.console.completion import TABLES, complete_from
from assets.console.invocation import command_for
from assets.console.parameters import FORMATS, format_option
from assets.console.rows import print_rows
from assets.console.terminal import is_terminal, width
from assets.nightbook import Nightbook
from warehouse.query.read import Description, tables
from warehouse.sql.dictionary import dbt_sources

NAME_WIDTH = 34


class NoSuchTable(Exception):
    """The warehouse has no table, view or macro with this name."""

    exit_code = 2

    def __init__(self, name: str, names: Sequence[str]) -> None:
        near = difflib.get_close_matches(name, names, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(
            f"The warehouse has no table, view or macro {name!r}.{meant} List them: `nightbook "
            "tables`"
        )


@click.command(cls=HomeCommand, prints_result=True)
@argument(
    "name",
    required=False,
    shell_complete=complete_from(TABLES),
    help="Table, view or macro to describe with its columns",
)
@format_option(
    *FORMATS, "dbt", help_text="Print rows in this format, or a sources.yml file for dbt"
)
def tables_command(nightbook: Nightbook, *, name: str | None, output_format: str | None) -> int:
    """List tables, views and macros, or describe one of them."""
    descriptions = tables(nightbook.layout.database)
    chosen = [table for table in descriptions if name in _names(table)]
    if name is not None and not chosen:
        raise NoSuchTable(
            name, [other_name for table in descriptions for other_name in _names(table)]
        )
    if output_format == "dbt":
        print(dbt_sources.render(chosen or descriptions), end="")
    elif output_format:
        _print_rows(output_format, chosen or descriptions, are_columns=name is not None)
    elif name is None:
        _print_list(descriptions)
        print(f"\nDescribe a table and its columns: {command_for(nightbook.layout)} tables NAME")
    else:
        for table in chosen:
            _print_table(table)
    return 0


def _print_list(descriptions: Sequence[Description]) -> None:
    for schema in dict.fromkeys(table.schema for table in descriptions):
        print(f"\n{schema}")
        for table in descriptions:
            if table.schema == schema:
                _print_line(table)


def _names(table: Description) -> tuple[str, str]:
    """Return the names by which a user may refer to a table: with and without its schema."""
    return table.name, f"{table.schema}.{table.name}"


def _print_rows(output_format: str, chosen: Sequence[Description], *, are_columns: bool) -> None:
    """Print a row for each table, or for each column if `are_columns`.

    The columns of a macro are its parameters.
    """
    if are_columns:
        print_rows(
            output_format,
            ("schema", "table", "kind", "column", "type", "comment"),
            [
                (table.schema, table.name, table.kind, column, kind or None, comment)
                for table in chosen
                for column, kind, comment in table.columns
            ],
        )
    else:
        print_rows(
            output_format,
            ("schema", "name", "kind", "columns", "comment"),
            [
                (
                    table.schema,
                    table.name,
                    table.kind,
                    [name for name, _, _ in table.columns],
                    table.comment,
                )
                for table in chosen
            ],
        )


def _print_line(table: Description) -> None:
    first = _comment(table).partition(". ")[0].rstrip(".")
    signature = _signature(table)
    if is_terminal():  # Shorten lines only in a terminal, because programs need the full text.
        first = textwrap.shorten(
            first, width() - max(NAME_WIDTH, len(signature)) - 3, placeholder=" …"
        )
    print(f"  {signature:<{NAME_WIDTH}} {first}")


def _comment(table: Description) -> str:
    """Return a table's comment, without the signature that precedes a macro's comment."""
    return table.comment.removeprefix(f"{_signature(table)}: ")


def _signature(table: Description) -> str:
    if table.kind != "macro":
        return table.name
    return f"{table.name}({', '.join(name for name, _, _ in table.columns)})"


def _print_table(table: Description) -> None:
    print(f"\n{table.schema}.{_signature(table)}  ({table.kind})")
    print(textwrap.fill(_comment(table), width(), initial_indent="  ", subsequent_indent="  "))
    for name, kind, comment in table.columns:
        print(f"\n  {name}  {kind}")
        if comment:
            print(textwrap.fill(comment, width(), initial_indent="    ", subsequent_indent="    "))
