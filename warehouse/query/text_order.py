"""A check that a query does not rank amounts by the characters of their text.

Text sorts '9' after '10', so `order by total_text` and `max(total_text)` return a wrong amount
without an error. This module imports only DuckDB.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from duckdb import DuckDBPyConnection

_SUFFIX = "_text"
_EXACT_SUM = "exact_sum"
# Functions that compare their arguments. The first argument of `_BY` is returned, and the second
# one is compared.
_RANKING = {"max", "min", "greatest", "least", "median", "quantile", "quantile_disc"}
_BY = {"arg_max", "arg_min", "argmax", "argmin", "max_by", "min_by", "arg_max_null", "arg_min_null"}
# Functions that compare the items of a list, and those that call the function named by a string.
_RANKING |= {f"{kind}_{name}" for kind in ("list", "array") for name in ("max", "min", "sort")}
_RANKING |= {
    f"{kind}_{name}" for kind in ("list", "array") for name in ("reverse_sort", "grade_up")
}
_CALLING = {"list_aggregate", "list_aggr", "array_aggregate", "array_aggr", "aggregate"}
# Functions that return their arguments unchanged, perhaps as one value, so amount texts stay
# amount texts.
_SAME = {"any_value", "first", "last", "first_value", "last_value", "nth_value", "lag", "lead"}
_SAME |= {"list", "array_agg", "list_value", "list_distinct", "struct_pack", "row"}
_SAME |= {"nullif", "ifnull", "max", "min", "greatest", "least"} | _BY
_COMPARING = {
    f"COMPARE_{kind}{suffix}"
    for kind in ("LESSTHAN", "GREATERTHAN")
    for suffix in ("", "OREQUALTO")
}

# DuckDB cannot parse a PIVOT whose columns depend on the data. A PIVOT with fixed columns compares
# the same amounts.
_OPEN_PIVOT = re.compile(r"\bon\b(?:(?!\bon\b).)*?\busing\b", re.IGNORECASE | re.DOTALL)
_FIXED_PIVOT = "on x in ('x') using"

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _QueryColumns:
    """The output columns of a `select`, and the output columns of the queries in its FROM."""

    select_list: list[Node] = field(default_factory=list)
    derived: dict[str, Node] = field(default_factory=dict)

    def output(self, expression: Node) -> Node:
        """Replace the name or number of an output column in ORDER BY with its expression."""
        literal: Node = expression.get("literal") or {}
        names: list[str] = expression.get("column_names") or []
        if literal.get("kind") == "INTEGER" and not any(
            column["class"] == "STAR" for column in self.select_list
        ):
            return dict(enumerate(self.select_list, 1)).get(int(literal["text"]), expression)
        own = {column["alias"].casefold(): column for column in self.select_list}
        return own.get(names[0].casefold(), expression) if len(names) == 1 else expression


def text_order(connection: DuckDBPyConnection, sql: str) -> str:
    """Return why a query ranks amounts by their text, and the remedy, or an empty string."""
    tree = _parse(connection, sql)
    if tree["error"]:
        tree = _parse(connection, _OPEN_PIVOT.sub(_FIXED_PIVOT, sql))
    with contextlib.suppress(RecursionError):  # DuckDB accepts deeper queries than Python
        for expression in _amount_texts(tree):
            return _message(expression)
    return ""


def _parse(connection: DuckDBPyConnection, sql: str) -> Node:
    [(text,)] = connection.execute("select json_serialize_sql($1)", [sql]).fetchall()
    tree: Node = json.loads(text)
    return tree


def _message(name: str) -> str:
    number = f"the number `{name.removesuffix(_SUFFIX)}`, or " if name.endswith(_SUFFIX) else ""
    return (
        f"The query sorts or compares {name}, which is text. Text is compared by its characters, "
        f"so '9' comes after '10'. Nothing was run. Use {number}`{name}::decimal(38, 18)`, which "
        f"raises an error if an amount does not fit, or `{name}::double` for larger amounts. To "
        f"select any one of equal texts, use any_value. To sort by characters, write "
        f"`{name}::varchar`."
    )


def _amount_texts(tree: Any) -> Iterator[str]:
    """Yield the name of each amount text that a parsed query sorts or compares."""
    ctes = {entry["key"].casefold(): entry["value"]["query_node"] for entry in _entries(tree)}
    stack: list[tuple[Any, _QueryColumns]] = [(tree, _QueryColumns())]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, list):
            stack.extend((item, scope) for item in node)
        if not isinstance(node, dict):
            continue
        if (select := _first_select(node)) is not None:
            scope = _QueryColumns(
                select["select_list"], _source_columns(select["from_table"], ctes)
            )
            for modifier in node["modifiers"]:
                for order in modifier.get("orders", ()):
                    yield from _text(scope.output(order["expression"]), scope)
                    stack.append((order["expression"], scope))
        for expression in _operands(node):
            yield from _text(expression, scope)
        stack.extend((item, scope) for name, item in node.items() if name != "modifiers")


def _entries(tree: Any) -> Iterator[Node]:
    """Yield all common table expressions of a parsed query."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield from (node.get("cte_map") or {}).get("map", ())
        if isinstance(node, dict | list):
            stack.extend(node.values() if isinstance(node, dict) else node)


def _first_select(node: Any) -> Node | None:
    """Return a query's `select`, or that of the first part of a union, which names the columns."""
    while isinstance(node, dict) and node.get("type") == "SET_OPERATION_NODE":
        node = next(iter(node["children"]), None)
    is_select = isinstance(node, dict) and node.get("type") == "SELECT_NODE"
    return node if is_select else None


def _source_columns(source: Node, ctes: dict[str, Node]) -> dict[str, Node]:
    """Return the output columns of the queries in FROM, or {} if it also has other tables.

    The value column of an UNPIVOT contains the columns that it lists.
    """
    kind = source["type"]
    if kind == "JOIN":
        sides = [_source_columns(source[side], ctes) for side in ("left", "right")]
        return sides[0] | sides[1] if all(sides) else {}
    if kind == "PIVOT":
        listed = [
            entry["star_expr"]
            for pivot in source["pivots"]
            for entry in pivot["entries"]
            if entry["star_expr"]
        ]
        value = {"type": "OPERATOR_COALESCE", "children": listed}
        return {name.casefold(): value for name in source["unpivot_names"]}
    name = source["table_name"].casefold() if kind == "BASE_TABLE" else ""
    select = _first_select(source["subquery"]["node"] if kind == "SUBQUERY" else ctes.get(name))
    if select is None:
        return {}
    others = {key: query for key, query in ctes.items() if key != name}  # a query may name itself
    has_star = any(column["class"] == "STAR" for column in select["select_list"])
    inner = _source_columns(select["from_table"], others) if has_star else {}
    return inner | {c["alias"].casefold(): c for c in select["select_list"] if c["alias"]}


def _operands(node: Node) -> list[Node]:
    """Return the expressions that this part of a query sorts or compares."""
    kind, name, arguments = str(node.get("type")), _function(node), _arguments(node)
    if kind in _COMPARING:
        sides = [node["left"], node["right"]]
        is_empty = any((side.get("literal") or {}).get("text") == "" for side in sides)
        return [] if is_empty else sides
    if kind == "COMPARE_BETWEEN":
        return [node["input"], node["lower"], node["upper"]]
    if node.get("comparison_type") in _COMPARING:  # `> any (select ...)`
        return [node["child"]]
    if name:
        return _operands_of_call(name, arguments)
    if "null_order" in node:
        return [node["expression"]]
    return []


def _operands_of_call(name: str, arguments: list[Node]) -> list[Node]:
    """Return the arguments that a function compares."""
    if name in _CALLING and len(arguments) > 1:
        called = str((arguments[1].get("literal") or {}).get("text")).casefold()
        return arguments[:1] if called in _RANKING else []
    if name in _BY:
        return arguments[1:2]
    return arguments if name in _RANKING else []


def _text(expression: Node, scope: _QueryColumns) -> Iterator[str]:
    """Yield the name of each amount text that an expression may return unchanged."""
    if names := expression.get("column_names"):
        found = scope.derived.get(names[-1].casefold(), expression)
        if found is not expression:
            yield from _text(found, _QueryColumns())
        elif names[-1].casefold().endswith(_SUFFIX):
            yield names[-1]
    if _function(expression) == _EXACT_SUM:
        yield "exact_sum(...)"
    for value in _values(expression):
        yield from _text(value, scope)


def _values(expression: Node) -> list[Node]:
    """Return the expressions whose values an expression may return unchanged."""
    name, arguments = _function(expression), _arguments(expression)
    if name in _SAME:
        return arguments[:1] if name in _BY else arguments
    if expression.get("type") == "OPERATOR_COALESCE":
        return arguments
    if expression.get("type") != "CASE_EXPR":
        return []
    return [
        *(check["then_expr"] for check in expression["case_checks"]),
        expression["else_expr"],
    ]


def _function(node: Node) -> str:
    return str(node.get("function_name", "")).casefold()


def _arguments(node: Node) -> list[Node]:
    return [
        argument.get("expression", argument)
        for argument in node.get("arguments") or node.get("children") or ()
        if isinstance(argument, dict)
    ]
