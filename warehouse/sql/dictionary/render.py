"""The data dictionary as Markdown: tables, views, macros, diagrams and questions."""

# ruff: noqa: S608 - examples name our own tables

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from warehouse.contract.book import BOOK
from warehouse.contract.model import Column, Table
from warehouse.contract.ops import OPS, REQUESTS, SNAPSHOTS
from warehouse.contract.reconciliation import RECONCILED
from warehouse.sql.catalog import BEFORE, MATERIALIZED, Macro, macros, ops_views, views
from warehouse.sql.checks import every_check
from warehouse.sql.header import SqlFile
from warehouse.storage.layout import STORAGE_VERSION

FILE = Path(__file__).parents[2] / "README.md"
DAY = "snapshot_date"
_OPENING = Path(__file__).with_name("opening.md")
_QUESTIONS = Path(__file__).with_name("questions.sql")
_QUESTION = re.compile(r"-- ([^:\n]+): ([^\n]+)\n(.+?);\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Question:
    """A question in the dictionary: the role of the person asking, the wording and the query."""

    asker: str
    words: str
    sql: str


QUESTIONS = tuple(Question(*entry) for entry in _QUESTION.findall(_QUESTIONS.read_text("utf-8")))


def diagram(
    tables: Sequence[Table], parents: Sequence[Table] = (), direction: str = "TB"
) -> Iterator[str]:
    """Yield the lines of an entity-relationship diagram: each table with its key and parents.

    `parents` has the tables that may be parents. By default, all tables may be.
    """
    candidates = parents or tables
    yield "```mermaid"
    yield "erDiagram"
    yield f"    direction {direction}"
    for table in tables:
        for parent in direct_parents(table, candidates):
            line = "||--o{" if parent.resource == table.resource else "|o--o{"
            yield f'    {parent.name} {line} {table.name} : "{_label(parent, candidates)}"'
    for table in tables:
        yield f"    {table.name} {{"
        for column in _join_columns(table, candidates):
            yield f"        {column.kind.value} {column.name}{_marks(column, table, candidates)}"
        yield "    }"
    yield "```\n"


def direct_parents(table: Table, tables: Sequence[Table]) -> list[Table]:
    """Return a table's parents, except those that are ancestors of other parents."""
    parents = _parents(table, tables)
    ancestors = {above.name for parent in parents for above in _parents(parent, tables)}
    return [parent for parent in parents if parent.name not in ancestors]


def _parents(table: Table, tables: Sequence[Table]) -> list[Table]:
    # A column has the same name in all tables, so a table that contains another table's key columns
    # refers to that table. Columns that are not keys count only if they are IDs, because `type` may
    # describe a venue or an instrument.
    own = {*table.key, *(name for name in table.names if name.endswith("_id"))}
    return [
        other
        for other in tables
        if set(other.key) <= own and not set(table.key) <= set(other.key) and other is not table
    ]


def _label(parent: Table, tables: Sequence[Table]) -> str:
    """Return a parent's key columns that are not in the keys of its own parents."""
    above = {name for other in direct_parents(parent, tables) for name in other.key}
    names = [name for name in parent.key if name not in above | {DAY}]
    return ", ".join(names)


def _join_columns(table: Table, tables: Sequence[Table]) -> list[Column]:
    """Return the columns for joins: the table's own key and the keys of its parents."""
    names = {*table.key, *(name for parent in _parents(table, tables) for name in parent.key)}
    return [column for column in table.columns if column.name in names]


def _marks(column: Column, table: Table, tables: Sequence[Table]) -> str:
    marks = ["PK"] if column.name in table.key else []
    is_foreign = any(column.name in parent.key for parent in _parents(table, tables))
    # Every key in the book begins with the day, so marking the day as a foreign key would not help.
    marks += ["FK"] if is_foreign and column.name != DAY else []
    return f" {', '.join(marks)}" if marks else ""


def render() -> str:
    """Render the whole dictionary as Markdown."""
    return "\n".join(_lines()).rstrip() + "\n"


def examples() -> tuple[tuple[str, str], ...]:
    """Return all example queries in the dictionary, each with the name of its table or view."""
    return (
        *((table.name, _example(table)) for table in (*BOOK, *OPS, *RECONCILED)),
        *((f"{name}_before", f"select count(*) from {name}_before") for name in BEFORE),
        *((view.name, view.example) for view in (*ops_views(), *views())),
        *((f"history.{name}", _over_nights(name)) for name in MATERIALIZED),
        *((macro.name, macro.example) for macro in macros()),
        *((check.name, check.sql) for check in every_check()),
        *((question.words, question.sql) for question in QUESTIONS),
    )


def _example(table: Table) -> str:
    if table.schema == "ops":
        return f"select * from ops.{table.name} limit 10"
    return f"select * from {table.name} limit 10"


def _over_nights(name: str) -> str:
    return f"select snapshot_date, count(*) from history.{name} group by all order by all"


def _lines() -> Iterator[str]:
    yield Template(_OPENING.read_text("utf-8")).substitute(storage_version=STORAGE_VERSION)
    yield from _contents()
    yield from _questions()
    yield "## The tables and their keys\n"
    yield (
        "In the diagrams, `PK` marks a table's key columns, and `FK` marks columns that "
        "refer to another table's key. All tables have a `snapshot_date` column.\n"
    )
    yield from diagram(BOOK)
    yield "In `ops`, all tables about snapshots have a `snapshot_id` column.\n"
    about_snapshots = [table for table in OPS if set(SNAPSHOTS.key) <= set(table.key)]
    yield from diagram(about_snapshots, parents=(SNAPSHOTS, REQUESTS), direction="LR")
    yield "## Tables\n"
    yield (
        "The tables in the `main` schema show the newest book. The tables in the `history` schema "
        "have the same columns and show all nights.\n"
    )
    for table in BOOK:
        yield from _table(table)
    for name in BEFORE:
        yield f"### {name}_before\n"
        yield f"The rows of `{name}` in the previous book (the book before the newest one).\n"
    yield "## Views\n"
    for view in views():
        yield from _view(view)
    yield "## Macros\n"
    for macro in _typed_macros():
        yield from _macro(macro)
    yield "## The nights themselves\n"
    for table in OPS:
        yield from _table(table)
    for view in ops_views():
        yield from _view(view, "ops.")
    yield "## The reconciliation\n"
    yield (
        "The reconciliation tables are empty until you compare a ledger with the book "
        "(`nightbook reconcile run`).\n"
    )
    for table in RECONCILED:
        yield from _table(table)
    yield from _checks()


def _contents() -> Iterator[str]:
    groups = (
        ("Tables", [table.name for table in BOOK]),
        ("Views", [view.name for view in views()]),
        ("Macros", [macro.name for macro in _typed_macros()]),
        (
            "The nights themselves",
            [
                f"ops.{name}"
                for name in [table.name for table in OPS] + [view.name for view in ops_views()]
            ],
        ),
        ("The reconciliation", [f"ops.{table.name}" for table in RECONCILED]),
    )
    yield "## Contents\n"
    for title, names in groups:
        yield f"- {title}: {', '.join(f'`{name}`' for name in names)}"
    yield ""


def _typed_macros() -> list[Macro]:
    """Return the macros for analysts."""
    return [macro for macro in macros() if macro.schema == "main"]


def _questions() -> Iterator[str]:
    yield "## Twenty questions\n"
    yield "[The answers](answers.md) show the result of each query for the demo's nights.\n"
    for number, question in enumerate(QUESTIONS, start=1):
        link = f"answers.md#question-{number}"
        yield f"{number}. {question.words} ({question.asker}) [Answer]({link})\n"
        yield from _query(question.sql)


def _table(table: Table) -> Iterator[str]:
    name = f"ops.{table.name}" if table.schema == "ops" else table.name
    yield f"### {name}\n"
    yield f"{table.meaning} Key: {', '.join(f'`{key}`' for key in table.key)}.\n"
    yield "| column | type | from | meaning |"
    yield "|---|---|---|---|"
    for column in table.columns:
        yield _row(column)
    yield ""
    yield from _query(_example(table))


def _row(column: Column) -> str:
    kind = column.kind.value + ("" if column.nullable else ", never NULL")
    return f"| `{column.name}` | {kind} | {column.source} | {_cell(column.meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _view(view: SqlFile, schema: str = "") -> Iterator[str]:
    yield f"### {schema}{view.name}\n"
    yield f"{view.comment}\n"
    yield "| column | meaning |"
    yield "|---|---|"
    for column, meaning in view.entries.items():
        yield f"| `{column}` | {_cell(meaning)} |"
    yield ""
    yield from _query(view.example)
    if view.name in MATERIALIZED:
        yield f"The table `history.{view.name}` has the same columns for all nights.\n"
        yield from _query(_over_nights(view.name))


def _macro(macro: Macro) -> Iterator[str]:
    yield f"### {macro.call}\n"
    yield f"{macro.comment}\n"
    yield from (f"- `{name}`: {meaning}" for name, meaning in macro.parameters.items())
    yield ""
    yield from _query(macro.example)


def _checks() -> Iterator[str]:
    yield "## Checks\n"
    yield (
        "Each check is a query that finds wrong rows. The checks run before a book is published.\n"
    )
    yield "| check | severity | rule |"
    yield "|---|---|---|"
    for check in every_check():
        yield f"| `{check.name}` | {check.severity} | {_cell(check.meaning)} |"


def _query(sql: str) -> Iterable[str]:
    return ("```sql", sql, "```\n")


if __name__ == "__main__":
    FILE.write_text(render(), "utf-8")
