"""The queries that the dictionary prints, each with a name."""

from warehouse.contract.book import BOOK
from warehouse.contract.ops import OPS
from warehouse.contract.reconciliation import RECONCILED
from warehouse.contract.reference import REFERENCED
from warehouse.sql.catalog import BEFORE, MATERIALIZED, macros, ops_views, views
from warehouse.sql.checks import every_check
from warehouse.sql.dictionary.render import QUESTIONS


def examples() -> tuple[tuple[str, str], ...]:
    """Return all example queries in the dictionary, each with the name of its table or view."""
    ops = (*OPS, *RECONCILED, *REFERENCED)
    return (
        *((table.name, f"select * from {table.name} limit 10") for table in BOOK),
        *((table.name, f"select * from ops.{table.name} limit 10") for table in ops),
        *((f"{name}_before", f"select count(*) from {name}_before") for name in BEFORE),
        *((view.name, view.example) for view in (*ops_views(), *views())),
        *((f"history.{name}", _over_nights(name)) for name in MATERIALIZED),
        *((macro.name, macro.example) for macro in macros()),
        *((check.name, check.sql) for check in every_check()),
        *((question.words, question.sql) for question in QUESTIONS),
    )


def _over_nights(name: str) -> str:
    return f"select snapshot_date, count(*) from history.{name} group by all order by all"
