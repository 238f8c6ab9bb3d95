"""The catalog of SQL files: views, macros and checks, each in one file with a header.

`warehouse.sql.header` describes the header. It becomes comments in the database and pages in the
dictionary. Macros for a day (`..._as_of`) are generated from the view's file, so there is no second
copy. Views with the same structure share a form, which is an SQL template.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from warehouse.contract.book import BALANCES, BOOK, KNOWN_BALANCES
from warehouse.contract.model import literal, quote_identifier
from warehouse.sql.header import SqlFile, fill_form, read

HERE = Path(__file__).parent
BEFORE = ("accounts", "balances", "instruments", "portfolios")
# Views whose rows are stored for every night, because people query them across all nights. Findings
# compare a night's book with the previous book, so they must be recomputed if the previous book
# changes.
MATERIALIZED = ("holdings", "holdings_by_venue", "holdings_by_asset", "findings")
AS_OF = ("account_balances", "holdings", "holdings_by_venue", "holdings_by_asset")
BETWEEN = {"changes": "changes_between", "roll_forward": "roll_forward_between"}
_DAY = "Any date. The macro uses the newest book on or before this date."
_NO_BOOK_ERROR = " If there is no such book, the macro fails with an error."
_PAIR = ("first_book", "second_book")


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """A database macro: its call, meaning, parameters, example and SQL.

    Macros in schema `internal` are helpers for other macros and views. Analysts do not use them.
    """

    name: str
    call: str
    comment: str
    parameters: Mapping[str, str]
    example: str
    sql: str
    is_table: bool
    schema: str = "main"


def _folder(name: str) -> tuple[SqlFile, ...]:
    return tuple(read(path) for path in sorted((HERE / name).glob("*.sql")))


@cache
def views() -> tuple[SqlFile, ...]:
    """Return all views in creation order. Shared SQL templates (forms) are filled in."""
    # Sort the views, because a view must be created after the views that it reads.
    filled = {view.name: fill_form(view, HERE / "views" / "forms") for view in _folder("views")}
    reads = {name: tables_in(view.sql, set(filled) - {name}) for name, view in filled.items()}
    return tuple(filled[name] for name in TopologicalSorter(reads).static_order())


@cache
def ops_views() -> tuple[SqlFile, ...]:
    """Return the views in the ops schema, in the order of the numbers of their files."""
    return _folder("views/ops")


@cache
def history_views() -> tuple[SqlFile, ...]:
    """Return the views in the schema history about old books, in the order of their numbers."""
    return _folder("views/history")


def tables_in(sql: str, names: set[str]) -> tuple[str, ...]:
    """Return the `names` that a query reads with `from` or `join`, in alphabetical order."""
    return tuple(sorted(names & set(re.findall(r"\b(?:from|join)\s+([a-z_][a-z0-9_.]*)", sql))))


def _macro(sql_file: SqlFile, schema: str) -> Macro:
    call, _, comment = sql_file.comment.partition(": ")
    parameters = dict(sql_file.entries)
    returns = parameters.pop("returns", None)
    if returns is None:
        raise ValueError(
            f"the header of the macro {sql_file.name} needs a line `-- returns: ...`, as in "
            "warehouse/sql/macros/3_restated_since.sql"
        )
    return Macro(
        name=sql_file.name,
        call=call,
        comment=f"{comment} Returns: {returns}",
        parameters=parameters,
        example=sql_file.example,
        sql=_fill_dates(sql_file.sql.replace("$known_balances", _known_balances())),
        is_table=" as table" in sql_file.sql,
        schema=schema,
    )


def _fill_dates(sql: str) -> str:
    """Replace the placeholders for the dates of the books that a macro reads."""
    pair = ("day1", "day2")
    sql = sql.replace("$book_date", _book_date("day", or_fail=True))
    sql = sql.replace("$first_book", _book_date_of_pair("day1", pair))
    return sql.replace("$second_book", _book_date_of_pair("day2", pair))


def _known_balances() -> str:
    """Return an SQL condition for documented buckets and states (2.5)."""
    # Combine buckets with the same states into a single comparison, because the condition is
    # evaluated for every amount.
    buckets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for bucket, states in KNOWN_BALANCES.items():
        buckets[states].append(bucket)
    return "\n    or ".join(
        f"(bucket in ({', '.join(map(literal, names))})"
        f" and state in ({', '.join(map(literal, states))}))"
        for states, names in buckets.items()
    )


@cache
def macros() -> tuple[Macro, ...]:
    """Return all macros in creation order.

    The files in `macros/internal` come first, in the order of their numbers. Then come the files in
    `macros`, and finally the macros that are generated from tables and views.
    """
    internal = (_macro(sql_file, "internal") for sql_file in _folder("macros/internal"))
    typed = (_macro(sql_file, "main") for sql_file in _folder("macros"))
    balances = _as_of("balances", BALANCES.meaning, "select * from balances")
    as_of = (_as_of(view.name, view.meaning, view.sql) for view in views() if view.name in AS_OF)
    between = (_between(view) for view in views() if view.name in BETWEEN)
    return (*internal, *typed, balances, *as_of, *between)


def _as_of(name: str, meaning: str, sql: str) -> Macro:
    macro = f"{name}_as_of"
    body = (
        f"select * from history.{quote_identifier(name)} where snapshot_date = (\n"
        f"{_book_date('day', or_fail=True)}\n)"
        if name in MATERIALIZED
        else at_day(sql, "day", or_fail=True)
    )
    return Macro(
        name=macro,
        call=f"{macro}(day)",
        comment=f"The rows of `{name}` on any day. {meaning}",
        parameters={"day": f"{_DAY}{_NO_BOOK_ERROR}"},
        example=f"select * from {macro}((select max(snapshot_date) from portfolios)) limit 10",
        sql=f"create or replace macro {macro}(day) as table\n{body}",
        is_table=True,
    )


def _between(view: SqlFile) -> Macro:
    macro = BETWEEN[view.name]
    body = at_day(view.sql, "day2", "day1", or_fail=True)
    about = (
        f"{_DAY} The macro fails if there is no such book, if both days have the same book, "
        "if the first day is after the second, or if a day is in the future."
    )
    return Macro(
        name=macro,
        call=f"{macro}(day1, day2)",
        comment=f"The rows of `{view.name}` between any two days. {view.notes}",
        parameters={"day1": f"The earlier day. {about}", "day2": f"The later day. {about}"},
        example=f"select * from {macro}(\n"
        "    (select min(snapshot_date) from history.portfolios),\n"
        "    (select max(snapshot_date) from portfolios)\n"
        ") limit 10",
        sql=f"create or replace macro {macro}(day1, day2) as table\n{body}",
        is_table=True,
    )


def _book_date(day: str, *, or_fail: bool = False) -> str:
    """Return a query for the date of the newest book on or before a day.

    If there is no book, the query returns NULL, or raises an error if `or_fail` is set.
    """
    newest = (
        f"select max(snapshot_date) as book_date from ops.snapshots\n"
        f"    where is_book and snapshot_date <= {day}::date"
    )
    if not or_fail:
        return newest
    # Raise an error for a day before the first book. Otherwise, the result would be empty.
    return f"select coalesce(book_date, {_no_book(day)}) as book_date from (\n    {newest}\n)"


def _no_book(day: str) -> str:
    # Show a NULL day as 'NULL'. Otherwise, the whole message would be NULL, so `error` would not
    # raise an error, and the result would be empty.
    shown = f"coalesce({day}::date::varchar, 'NULL')"
    return f"error('no book on or before ' || {shown} || ': see ops.snapshots and ops.gaps')"


def _book_date_of_pair(day: str, days: tuple[str, str]) -> str:
    """Return a query for the book date of one of two compared days.

    The query raises an error if a day has no book or is in the future, if the first day is
    after the second, or if both share a book.
    """
    first, second = days
    problems = [
        *(f"{book} is null then {_no_book(day)}" for day, book in zip(days, _PAIR, strict=True)),
        *(
            f"{day}::date > greatest(newest, current_date) then error({day}::date "
            "|| ' is in the future; the newest book is from ' || newest)"
            for day in days
        ),
    ]
    same = (
        "|| ' have the same book, from ' || first_book || ', so nothing can be compared; see "
        "ops.gaps'"
    )
    pair = f"{first}::date || ' and ' || {second}::date"
    problems.append(
        f"{first}::date > {second}::date then error({first}::date || ' is after ' "
        f"|| {second}::date || ': write the earlier day first')"
    )
    problems.append(f"first_book = second_book then error({pair} {same})")
    cases = "\n".join(f"    when {problem}" for problem in problems)
    return (
        f"select case\n{cases}\n    else {_PAIR[days.index(day)]}\nend as book_date from (\n"
        f"    select ({_book_date(first)}) as first_book, ({_book_date(second)}) as second_book,\n"
        "        (select max(snapshot_date) from ops.snapshots where is_book) as newest\n)"
    )


def at_day(sql: str, day: str, before: str = "", *, or_fail: bool = False) -> str:
    """Rewrite a query so that it reads the newest book on or before a given day.

    `day` and `before` are SQL expressions. The tables `..._before` are read from the book of the
    day `before`. With `or_fail`, the query raises an error if there is no such book.
    """
    # Replace each table and view in the query with a CTE, and change nothing else, so that
    # `holdings_as_of` cannot differ from `holdings`. The CTE and the table have different names,
    # because the expression for the day may read the table, and DuckDB 1.2 would read the CTE
    # instead. Each view comes after the views that it reads.
    days = {table.name: (table.name, day) for table in BOOK}
    if before:
        days |= {f"{name}_before": (name, before) for name in BEFORE}
    inner = views_of(sql)
    used = {name for text in (*inner.values(), sql) for name in tables_in(text, set(days))}

    def book_date(chosen: str) -> str:
        if before and or_fail:
            return _book_date_of_pair(chosen, (before, day))
        return _book_date(chosen, or_fail=or_fail)

    replacements = {
        name: f"select * from history.{quote_identifier(days[name][0])}\n"
        f"    where snapshot_date = ({book_date(days[name][1])})"
        for name in sorted(used)
    }
    return reading(sql, replacements | inner)


def reading(sql: str, replacements: Mapping[str, str]) -> str:
    """Replace tables and views in a query with other queries.

    `replacements` maps the name of each table or view to its query.
    """
    parts = ",\n".join(
        f"{_replacement_name(name)} as (\n    {_rename(text, replacements)}\n)"
        for name, text in replacements.items()
    )
    return f"with {parts}\n\nselect * from (\n{_rename(sql, replacements)}\n)"


def _rename(sql: str, names: Iterable[str]) -> str:
    """Replace table and view names in a query with CTE names. The old names become aliases."""
    for name in names:
        read_name = rf"\b(from|join)(\s+){re.escape(name)}\b(?!\.)"
        _, _, alias = name.rpartition(".")
        sql = re.sub(rf"{read_name}(?=\s+as\b)", rf"\1\2{_replacement_name(name)}", sql)
        sql = re.sub(read_name, rf"\1\2{_replacement_name(name)} as {alias}", sql)
    return sql


def _replacement_name(name: str) -> str:
    return f"in_place_of_{name.replace('.', '_')}"


def views_of(sql: str) -> dict[str, str]:
    """Return the SQL of all views that a query reads directly or indirectly, in creation order."""
    sql_by_view = {view.name: view.sql for view in views()}
    used = set(tables_in(sql, set(sql_by_view)))
    for name in reversed(sql_by_view):  # Each view comes after the views that it reads.
        if name in used:
            used.update(tables_in(sql_by_view[name], set(sql_by_view)))
    return {name: text for name, text in sql_by_view.items() if name in used}


def checks() -> tuple[SqlFile, ...]:
    """Return the handwritten checks from the folder `checks`."""
    return _folder("checks")


def finding_rules() -> tuple[SqlFile, ...]:
    """Return the queries in the folder `findings`, whose rows are rows of `ops.own_findings`.

    `reads:` in the header is the reference table without which a query has no rows.
    """
    return _folder("findings")
