"""The SQL that people read: views, macros and checks, one file each, with their words on top.

How a file opens is told in `warehouse.sql.header`. The words become comments in the database and
pages of the dictionary. What is tied to a day (`..._as_of`) is made from the same file, never from
a second copy; what several views share is a form that each fills.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from warehouse.contract.book import BALANCES, BOOK, KNOWN_BALANCES
from warehouse.contract.model import literal, quote_identifier
from warehouse.sql.header import SqlFile, fill_form, read

HERE = Path(__file__).parent
BEFORE = ("accounts", "balances", "instruments", "portfolios")
# Views whose rows are kept for every night, since they are asked over all of them; the findings of
# a night are those against the book before it.
MATERIALIZED = ("holdings", "holdings_by_venue", "holdings_by_asset", "findings")
AS_OF = ("account_balances", "holdings", "holdings_by_venue", "holdings_by_asset")
BETWEEN = {"changes": "changes_between", "roll_forward": "roll_forward_between"}
_DAY = "Any date: the newest book on or before it is used."
_SINCE = " An error where there is none."
_PAIR = ("first_book", "second_book")


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """A macro as the database has it: call form, meaning, parameters, example, and its SQL.

    Those of schema `internal` only serve other macros and views: no analyst types them.
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
    """Return every view, its form filled, in the order in which they can be made."""
    # Views are made after those that they read: whatever reads none that still waits is next.
    waiting = [fill_form(view, HERE / "views" / "forms") for view in _folder("views")]
    ordered: list[SqlFile] = []
    while waiting:
        names = {view.name for view in waiting}
        ready = [view for view in waiting if not tables_in(view.sql, names - {view.name})]
        if not ready:
            raise ValueError(f"the views {sorted(names)} use each other in a circle")
        ordered += ready
        waiting = [view for view in waiting if view not in ready]
    return tuple(ordered)


@cache
def ops_views() -> tuple[SqlFile, ...]:
    """Return the views of schema ops: they read only tables of that schema."""
    return _folder("views/ops")


@cache
def firm_views() -> tuple[SqlFile, ...]:
    """Return the views over all sources that only a firm's book has."""
    return _folder("firm")


def tables_in(sql: str, names: set[str]) -> tuple[str, ...]:
    """Return which of these tables or views a query reads, by `from` and `join`."""
    read_names = re.findall(r"\b(?:from|join)\s+([a-z_][a-z0-9_.]*)", sql)
    return tuple(sorted(names & set(read_names)))


def _macro(sql_file: SqlFile, schema: str) -> Macro:
    call, _, comment = sql_file.comment.partition(": ")
    parameters = dict(sql_file.entries)
    returns = parameters.pop("returns")
    return Macro(
        name=sql_file.name,
        call=call,
        comment=f"{comment} Returns: {returns}",
        parameters=parameters,
        example=sql_file.example,
        sql=sql_file.sql.replace("$known_balances", _known_balances()),
        is_table=" as table" in sql_file.sql,
        schema=schema,
    )


def _known_balances() -> str:
    """Return the condition that a bucket and its state are of the document (2.5)."""
    # Buckets with the same states share a comparison: this is asked of every amount of a book.
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
    """Return every macro in the order in which they can be made.

    First the files in `macros/internal`, numbered by who uses whom, then those in `macros`, and
    last those made from tables and views.
    """
    internal = (_macro(sql_file, "internal") for sql_file in _folder("macros/internal"))
    typed = (_macro(sql_file, "main") for sql_file in _folder("macros"))
    return (*internal, *typed, *_table_macros())


def _table_macros() -> tuple[Macro, ...]:
    balances = _as_of("balances", BALANCES.meaning, "select * from balances")
    as_of = [_as_of(view.name, view.meaning, view.sql) for view in views() if view.name in AS_OF]
    between = [_between(view) for view in views() if view.name in BETWEEN]
    return (balances, *as_of, *between)


def _as_of(name: str, meaning: str, sql: str) -> Macro:
    macro = f"{name}_as_of"
    body = (
        f"select * from history.{quote_identifier(name)} where snapshot_date = (\n"
        f"{_book_of('day', or_fail=True)}\n)"
        if name in MATERIALIZED
        else at_day(sql, "day", or_fail=True)
    )
    return Macro(
        name=macro,
        call=f"{macro}(day)",
        comment=f"`{name}` as it was on a day. {meaning}",
        parameters={"day": f"{_DAY}{_SINCE}"},
        example=f"select * from {macro}((select max(snapshot_date) from portfolios)) limit 10",
        sql=f"create or replace macro {macro}(day) as table\n{body}",
        is_table=True,
    )


def _between(view: SqlFile) -> Macro:
    macro = BETWEEN[view.name]
    body = at_day(view.sql, "day2", "day1", or_fail=True)
    about = f"{_DAY}{_SINCE} Also if both days have the same book, or a day is in the future."
    return Macro(
        name=macro,
        call=f"{macro}(day1, day2)",
        comment=f"`{view.name}` between any two days. {view.notes}",
        parameters={"day1": f"The earlier one. {about}", "day2": f"The later one. {about}"},
        example=f"select * from {macro}(\n"
        "    (select min(snapshot_date) from history.portfolios),\n"
        "    (select max(snapshot_date) from portfolios)\n"
        ") limit 10",
        sql=f"create or replace macro {macro}(day1, day2) as table\n{body}",
        is_table=True,
    )


def _book_of(day: str, *, or_fail: bool = False) -> str:
    """Return a query for the date of the newest book on or before a day: NULL, or it fails."""
    newest = (
        f"select max(snapshot_date) as book_date from ops.snapshots\n"
        f"    where is_book and snapshot_date <= {day}::date"
    )
    if not or_fail:
        return newest
    # Without the error, the answer for a day before all books would be empty.
    return f"select coalesce(book_date, {_no_book(day)}) as book_date from (\n    {newest}\n)"


def _no_book(day: str) -> str:
    # NULL in the message would make the error NULL, and the answer empty.
    shown = f"coalesce({day}::date::varchar, 'NULL')"
    return f"error('no book on or before ' || {shown} || ': see ops.snapshots and ops.gaps')"


def _book_of_pair(day: str, days: tuple[str, str]) -> str:
    """Return a query for the book of one of two days; it fails if these cannot be compared."""
    first, second = days
    problems = [
        *(f"{book} is null then {_no_book(day)}" for day, book in zip(days, _PAIR, strict=True)),
        *(
            f"{day}::date > greatest(newest, current_date) then error({day}::date "
            "|| ' is in the future; the newest book is of ' || newest)"
            for day in days
        ),
    ]
    same = (
        "|| ' have the same book, of ' || first_book || ': nothing can be compared; see ops.gaps'"
    )
    pair = f"{first}::date || ' and ' || {second}::date"
    problems.append(f"first_book = second_book then error({pair} {same})")
    cases = "\n".join(f"    when {problem}" for problem in problems)
    return (
        f"select case\n{cases}\n    else {_PAIR[days.index(day)]}\nend as book_date from (\n"
        f"    select ({_book_of(first)}) as first_book, ({_book_of(second)}) as second_book,\n"
        "        (select max(snapshot_date) from ops.snapshots where is_book) as newest\n)"
    )


def at_day(sql: str, day: str, before: str = "", *, or_fail: bool = False) -> str:
    """Return the same query over the book of a day; `or_fail` makes a day without one an error."""
    # The query is kept as it is, and reads a CTE in the place of each table and view: so
    # `holdings_as_of` cannot say something else than `holdings`. The CTE has another name, for what
    # is given as the day may itself read the table (DuckDB 1.2 would find the CTE there). The views
    # come in the order in which they read each other.
    days = {table.name: (table.name, day) for table in BOOK}
    if before:
        days |= {f"{name}_before": (name, before) for name in BEFORE}
    inner = views_of(sql)
    read_there = {name for text in (*inner.values(), sql) for name in tables_in(text, set(days))}

    def book(chosen: str) -> str:
        is_pair = bool(before) and or_fail
        return (
            _book_of_pair(chosen, (before, day)) if is_pair else _book_of(chosen, or_fail=or_fail)
        )

    stand_ins = {
        name: f"select * from history.{quote_identifier(days[name][0])}\n"
        f"    where snapshot_date = ({book(days[name][1])})"
        for name in sorted(read_there)
    }
    return reading(sql, stand_ins | inner)


def at_day_of_each(sql: str, sources: str) -> str:
    """Return the same query over the books of several sources, each read by itself."""
    # `sources` is a query for source and snapshot_date. What the query joins is never another's.
    stand_ins = {
        name: f"select * exclude (source) from history.{quote_identifier(name)} "
        "where source = each_source.source and snapshot_date = each_source.snapshot_date"
        for name in tables_in(sql, {table.name for table in BOOK})
    }
    return (
        f"select each_source.source, given.* from ({sources}) as each_source, "
        f"lateral (\n{reading(sql, stand_ins)}\n) as given"
    )


def reading(sql: str, stand_ins: Mapping[str, str]) -> str:
    """Return a query that reads others in the place of tables and views."""
    parts = ",\n".join(
        f"{_stand_in(name)} as (\n    {_rename(text, stand_ins)}\n)"
        for name, text in stand_ins.items()
    )
    return f"with {parts}\n\nselect * from (\n{_rename(sql, stand_ins)}\n)"


def _rename(sql: str, names: Iterable[str]) -> str:
    """Return a query that reads what stands in for these names, and calls it as before."""
    for name in names:
        read_name = rf"\b(from|join)(\s+){re.escape(name)}\b(?!\.)"
        _, _, alias = name.rpartition(".")
        sql = re.sub(rf"{read_name}(?=\s+as\b)", rf"\1\2{_stand_in(name)}", sql)
        sql = re.sub(read_name, rf"\1\2{_stand_in(name)} as {alias}", sql)
    return sql


def _stand_in(name: str) -> str:
    return f"in_place_of_{name.replace('.', '_')}"


def views_of(sql: str) -> dict[str, str]:
    """Return the views that a query reads, and those that they read, in order."""
    sql_of = {view.name: view.sql for view in views()}
    names: set[str] = set()
    waiting = [sql]
    while waiting:
        new = set(tables_in(waiting.pop(), set(sql_of))) - names
        names |= new
        waiting += [sql_of[name] for name in new]
    return {name: text for name, text in sql_of.items() if name in names}


def checks() -> tuple[SqlFile, ...]:
    """Return every check written as a file."""
    return _folder("checks")
