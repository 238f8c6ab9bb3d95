"""The data dictionary as Markdown: tables, views, macros, diagrams and questions.

`SKILL.md`, which tells an assistant how to ask the book, is made from the same sources.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from warehouse.contract.book import BOOK
from warehouse.contract.combination import SHARED, SOURCES
from warehouse.contract.model import Column, Table
from warehouse.contract.ops import OPS, REQUESTS, SNAPSHOTS
from warehouse.contract.reconciliation import RECONCILED
from warehouse.contract.reference import CONTRACTED, REFERENCED
from warehouse.sql.catalog import BEFORE, MATERIALIZED, history_views, macros, ops_views, views
from warehouse.sql.checks import every_check
from warehouse.storage.layout import STORAGE_VERSION

_ROOM = Path(__file__).parents[2]
FILE, SKILL = _ROOM / "README.md", _ROOM / "SKILL.md"
DAY = "snapshot_date"
_TEMPLATES = {FILE: "dictionary.md.jinja", SKILL: "skill.md.jinja"}
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

    `parents` lists the tables that may be parents. The default is all of `tables`.
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
    yield "```"


def direct_parents(table: Table, tables: Sequence[Table]) -> list[Table]:
    """Return a table's direct parents: the tables that it refers to, without their own parents."""
    parents = _parents(table, tables)
    ancestors = {above.name for parent in parents for above in _parents(parent, tables)}
    return [parent for parent in parents if parent.name not in ancestors]


def _parents(table: Table, tables: Sequence[Table]) -> list[Table]:
    # Columns have the same names in all tables. So if a table contains the key columns of a
    # different table, it refers to that table. A column that is not a key counts only if it is an
    # ID, because a name like `type` may describe a venue or an instrument.
    own = {*table.key, *(name for name in table.names if name.endswith("_id"))}
    return [
        other
        for other in tables
        if set(other.key) <= own and not set(table.key) <= set(other.key) and other is not table
    ]


def _label(parent: Table, tables: Sequence[Table]) -> str:
    """Return a parent's key columns that are not in the keys of its own parents."""
    above = {name for other in direct_parents(parent, tables) for name in other.key}
    return ", ".join([name for name in parent.key if name not in above | {DAY}])


def _join_columns(table: Table, tables: Sequence[Table]) -> list[Column]:
    """Return a table's columns for joins: its own key, and the keys of tables that it refers to."""
    names = {*table.key, *(name for parent in _parents(table, tables) for name in parent.key)}
    return [column for column in table.columns if column.name in names]


def _marks(column: Column, table: Table, tables: Sequence[Table]) -> str:
    marks = ["PK"] if column.name in table.key else []
    is_foreign = any(column.name in parent.key for parent in _parents(table, tables))
    # Do not mark the day as a foreign key, because all keys in the book begin with the day.
    marks += ["FK"] if is_foreign and column.name != DAY else []
    return f" {', '.join(marks)}" if marks else ""


def render(file: Path = FILE) -> str:
    """Render the whole dictionary, or the page for assistants, as Markdown."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(),  # escapes HTML templates, but not this Markdown template
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = templates.get_template(_TEMPLATES[file]).render(
        first_sentence=_first_sentence,
        storage_version=STORAGE_VERSION,
        book=BOOK,
        before=BEFORE,
        views=views(),
        materialized=MATERIALIZED,
        macros=[macro for macro in macros() if macro.schema == "main"],
        ops=OPS,
        ops_views=ops_views(),
        history_views=history_views(),
        reconciled=RECONCILED,
        referenced=(*CONTRACTED, *REFERENCED),
        combined=(SOURCES, SHARED),
        checks=every_check(),
        questions=QUESTIONS,
        about_snapshots=[table for table in OPS if set(SNAPSHOTS.key) <= set(table.key)],
        snapshot_parents=(SNAPSHOTS, REQUESTS),
        diagram=lambda *arguments: "\n".join(diagram(*arguments)),
        quote_all=_quote_all,
    )
    return page.rstrip() + "\n"


def _first_sentence(text: str) -> str:
    return f"{text.partition('. ')[0].removesuffix('.')}."


def _quote_all(names: Iterable[str], schema: str = "") -> str:
    return ", ".join(f"`{schema}{name}`" for name in names)


if __name__ == "__main__":
    for page in _TEMPLATES:
        page.write_text(render(page), "utf-8")
