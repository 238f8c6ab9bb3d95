"""The tables with their keys as a diagram in Mermaid, which GitHub draws without a tool."""

from collections.abc import Iterator, Sequence

from warehouse.contract.model import Column, Table

DAY = "snapshot_date"


def diagram(
    tables: Sequence[Table], parents: Sequence[Table] = (), direction: str = "TB"
) -> Iterator[str]:
    """Yield an entity-relationship diagram: each table with its key, and what it is a part of.

    `parents` are the tables that others may be a part of; all of them when none are named.
    """
    chosen = parents or tables
    yield "```mermaid"
    yield "erDiagram"
    yield f"    direction {direction}"
    for table in tables:
        for parent in direct_parents(table, chosen):
            line = "||--o{" if parent.resource == table.resource else "|o--o{"
            yield f'    {parent.name} {line} {table.name} : "{_label(parent, chosen)}"'
    for table in tables:
        yield f"    {table.name} {{"
        for column in _join_columns(table, chosen):
            yield f"        {column.kind.value} {column.name}{_marks(column, table, chosen)}"
        yield "    }"
    yield "```\n"


def direct_parents(table: Table, tables: Sequence[Table]) -> list[Table]:
    """Return the tables that a table is a part of, without those that a nearer one leads to."""
    every = _parents(table, tables)
    further = {above.name for parent in every for above in _parents(parent, tables)}
    return [parent for parent in every if parent.name not in further]


def _parents(table: Table, tables: Sequence[Table]) -> list[Table]:
    # A column has one name in every table, so a key within another table's columns is a reference.
    # Outside of its own key only ids count: `type` is that of a venue, or that of an instrument.
    own = {*table.key, *(name for name in table.names if name.endswith("_id"))}
    return [
        other
        for other in tables
        if set(other.key) <= own and not set(table.key) <= set(other.key) and other is not table
    ]


def _label(parent: Table, tables: Sequence[Table]) -> str:
    """Return the columns that a parent's key adds to those of its own parents."""
    above = {name for other in direct_parents(parent, tables) for name in other.key}
    names = [name for name in parent.key if name not in above | {DAY}]
    return ", ".join(names)


def _join_columns(table: Table, tables: Sequence[Table]) -> list[Column]:
    """Return the columns that tables are joined by: the key, and the keys of others."""
    names = {*table.key, *(name for parent in _parents(table, tables) for name in parent.key)}
    return [column for column in table.columns if column.name in names]


def _marks(column: Column, table: Table, tables: Sequence[Table]) -> str:
    marks = ["PK"] if column.name in table.key else []
    is_foreign = any(column.name in parent.key for parent in _parents(table, tables))
    # Every key of the book begins with the day: marking it as foreign as well would say nothing.
    marks += ["FK"] if is_foreign and column.name != DAY else []
    return f" {', '.join(marks)}" if marks else ""
