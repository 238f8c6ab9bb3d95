"""The book as dbt sources: `nightbook tables --format dbt > models/sources.yml`.

Tables, types and descriptions come from the published file, and tests from the contract.
"""

import json
from collections.abc import Iterator, Sequence

from warehouse.contract.book import BOOK
from warehouse.contract.model import Table
from warehouse.contract.ops import OPS
from warehouse.contract.reconciliation import RECONCILED
from warehouse.contract.reference import CONTRACTED, REFERENCED
from warehouse.contract.states import STALE_HOURS
from warehouse.query.read import Description

HEAD = (
    "# Written by `nightbook tables --format dbt`, for dbt 1.10 or newer. After upgrading",
    "# nightbook, rerun the command. profiles.yml attaches the database as `nightbook`, read-only.",
)
_SOURCES = {
    "main": ("nightbook", "The newest book."),
    "history": ("nightbook_history", "The books of all nights."),
    "ops": ("nightbook_ops", "The data that nightbook records about nights."),
    "reference": ("nightbook_reference", "The tables that people bring."),
}


def render(descriptions: Sequence[Description]) -> str:
    """Render `sources.yml` with tables and views. Macros are omitted, as they need no source."""
    return "\n".join(_lines(descriptions)) + "\n"


def _lines(descriptions: Sequence[Description]) -> Iterator[str]:
    contracts = {
        (table.schema, table.name): table
        for table in (*BOOK, *OPS, *RECONCILED, *REFERENCED, *CONTRACTED)
    }
    yield from (*HEAD, "version: 2", "sources:")
    for schema, (source, meaning) in _SOURCES.items():
        tables = [
            description
            for description in descriptions
            if description.schema == schema and description.kind != "macro"
        ]
        if tables:
            yield f"  - name: {source}"
            yield "    database: nightbook"
            yield f"    schema: {schema}"
            yield f"    description: {json.dumps(meaning)}"
            yield "    tables:"
        for table in tables:
            yield from _table(table, contracts.get((schema, table.name)))


def _table(description: Description, contract: Table | None) -> Iterator[str]:
    yield f"      - name: {description.name}"
    yield f"        description: {json.dumps(description.comment)}"
    if (description.schema, description.name) == ("ops", "snapshots"):
        yield "        config:"
        yield "          loaded_at_field: finished_at"
        yield "          freshness:"
        yield f"            warn_after: {{count: {STALE_HOURS}, period: hour}}"
        yield "            filter: is_book"
    # Leave the date out of keys in the schema `main`, because all rows there have the same date.
    constant = ("snapshot_date",) if description.schema == "main" else ()
    key = [name for name in contract.key if name not in constant] if contract else []
    if len(key) > 1:
        yield "        data_tests:"
        yield f'          - unique: {{arguments: {{column_name: "row({", ".join(key)})"}}}}'
    yield "        columns:"
    for name, kind, comment in description.columns:
        yield f"          - name: {name}"
        yield f"            data_type: {json.dumps(kind)}"
        yield f"            description: {json.dumps(comment)}"
        tests = ["unique"] * (key == [name])
        if contract and not contract.column(name).nullable:
            tests.insert(0, "not_null")
        if tests:
            yield f"            data_tests: [{', '.join(tests)}]"
