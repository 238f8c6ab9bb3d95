"""The data dictionary, `warehouse/README.md`: written from the contract, views, macros and checks.

`python -m warehouse.dictionary.render` writes it; a test holds that the committed file is fresh,
and runs every example in it.
"""

# ruff: noqa: S608 - examples name our own tables

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from warehouse.contract.book import BOOK
from warehouse.contract.model import Column, Table
from warehouse.contract.ops import OPS, REQUESTS, SNAPSHOTS
from warehouse.contract.reconciliation import RECONCILED
from warehouse.database.ddl import DRIFT, DRIFT_COLUMNS, DRIFT_MEANING, STORAGE_VERSION
from warehouse.dictionary.diagram import diagram
from warehouse.dictionary.questions import QUESTIONS
from warehouse.sql.catalog import BEFORE, Macro, macros, views
from warehouse.sql.checks import every_check
from warehouse.sql.header import Words

FILE = Path(__file__).parents[1] / "README.md"
_OPENING = f"""# The data dictionary

Written by `make dictionary` from the contract (`contract/`), `sql/views/`, `sql/macros/` and
`checks/`. Do not edit it by hand: a test compares.

## Opening the warehouse

Open `warehouse/current/nightbook.duckdb` under `NIGHTBOOK_HOME`, read-only, with DuckDB 1.2 or
newer (storage format {STORAGE_VERSION}): `duckdb -readonly` at the terminal,
`duckdb.connect(path, read_only=True)` in Python (`pip install duckdb pytz`: without `pytz`
`fetchall()` refuses tables with times), `duckdb.read_only=true` in DBeaver. It can stay open all
day and blocks nobody. A connection shows the night on which it was opened; connect again to see the
next one. Where the file is attached to another database, say `use nightbook` first: macros look for
their tables in the database in use.

- schema `main`: the newest book under the plain names, and the views and macros below;
- schema `history`: the same tables over all nights;
- schema `ops`: what nightbook knows about its own nights.

## Amounts

`amount_text` is what the API sent and the truth. `amount` is the same as `DECIMAL(38,18)`, or NULL
where that type cannot hold it exactly. In a view every summed column has a twin `..._text`, which
is always exact: plain digits, no exponent. To add up, use `exact_sum(amount_text)`: `sum(amount)`
leaves out what is NULL there and raises past 1e20, and sums of that type in pyarrow, pandas and
polars are wrong past 1.7e20 without a word. `.df()` in Python makes floats of decimals: take the
text. Never add different assets; `asset_id` and `is_custom_asset` together say which asset it is.
Missing and zero are different: NULL is what was not stated.

All times are UTC: `set TimeZone = 'UTC'` makes clients show them so.
"""


def render() -> str:
    """The whole dictionary as Markdown."""
    return "\n".join(_lines()).rstrip() + "\n"


def examples() -> tuple[tuple[str, str], ...]:
    """Every example query of the dictionary, with the name of what it is an example of."""
    plain = [(table.name, _example(table)) for table in (*BOOK, *OPS, *RECONCILED)]
    before = [(f"{name}_before", f"select count(*) from {name}_before") for name in BEFORE]
    written = [(words.name, words.example) for words in views()]
    written += [(macro.name, macro.example) for macro in macros()]
    checks = [(check.name, check.sql) for check in every_check()]
    asked = [(question.words, question.sql) for question in QUESTIONS]
    return (*plain, *before, (DRIFT, _DRIFT_EXAMPLE), *written, *checks, *asked)


_DRIFT_EXAMPLE = (
    "select * from ops.drift where first_seen = (select max(first_seen) from ops.drift)"
)


def _example(table: Table) -> str:
    if table.schema == "ops":
        return f"select * from ops.{table.name} limit 10"
    return f"select * from {table.name} limit 10"


def _lines() -> Iterator[str]:
    yield _OPENING
    yield from _contents()
    yield from _questions()
    yield "## The tables and their keys\n"
    yield "`PK` is part of the key, `FK` of another table's. Every table has `snapshot_date`.\n"
    yield from diagram(BOOK)
    yield "In `ops`, what is known of a snapshot hangs on its `snapshot_id`:\n"
    known = [table for table in OPS if set(SNAPSHOTS.key) <= set(table.key)]
    yield from diagram(known, parents=(SNAPSHOTS, REQUESTS), direction="LR")
    yield "## Tables\n"
    yield "In `main` they show the newest book, in `history` every night.\n"
    for table in BOOK:
        yield from _table(table)
    for name in BEFORE:
        yield f"### {name}_before\n"
        yield f"As `{name}`, of the book before the newest.\n"
    yield "## Views\n"
    for words in views():
        yield from _view(words)
    yield "## Macros\n"
    for macro in macros():
        yield from _macro(macro)
    yield "## The nights themselves\n"
    for table in OPS:
        yield from _table(table)
    yield from _section(f"ops.{DRIFT}", DRIFT_MEANING, DRIFT_COLUMNS, _DRIFT_EXAMPLE)
    yield "## The reconciliation\n"
    yield "Empty until a ledger is held against the book: `nightbook reconcile run`.\n"
    for table in RECONCILED:
        yield from _table(table)
    yield from _checks()


def _contents() -> Iterator[str]:
    groups = (
        ("Tables", [table.name for table in BOOK]),
        ("Views", [words.name for words in views()]),
        ("Macros", [macro.name for macro in macros()]),
        ("The nights themselves", [*(f"ops.{table.name}" for table in OPS), f"ops.{DRIFT}"]),
        ("The reconciliation", [f"ops.{table.name}" for table in RECONCILED]),
    )
    yield "## What there is\n"
    for title, names in groups:
        yield f"- {title}: {', '.join(f'`{name}`' for name in names)}"
    yield ""


def _questions() -> Iterator[str]:
    yield "## Twenty questions\n"
    yield "Each with its answer on the nights of the demo: [the answers](answers.md).\n"
    for number, question in enumerate(QUESTIONS, start=1):
        place = f"answers.md#question-{number}"
        yield f"{number}. {question.words} ({question.asker}) [Answer]({place})\n"
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


def _view(words: Words) -> Iterator[str]:
    yield from _section(words.name, words.comment, words.entries, words.example)


def _section(name: str, comment: str, columns: Mapping[str, str], example: str) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{comment}\n"
    yield "| column | meaning |"
    yield "|---|---|"
    for column, meaning in columns.items():
        yield f"| `{column}` | {_cell(meaning)} |"
    yield ""
    yield from _query(example)


def _macro(macro: Macro) -> Iterator[str]:
    yield f"### {macro.call}\n"
    yield f"{macro.comment}\n"
    yield from (f"- `{name}`: {meaning}" for name, meaning in macro.parameters.items())
    yield ""
    yield from _query(macro.example)


def _checks() -> Iterator[str]:
    yield "## Checks\n"
    yield "Each is a query for what is wrong, run on every book before it is shown.\n"
    yield "| check | severity | what it holds |"
    yield "|---|---|---|"
    for check in every_check():
        yield f"| `{check.name}` | {check.severity} | {_cell(check.meaning)} |"


def _query(sql: str) -> Iterable[str]:
    return ("```sql", sql, "```\n")


if __name__ == "__main__":
    FILE.write_text(render(), "utf-8")
