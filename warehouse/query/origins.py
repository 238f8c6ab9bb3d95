"""The origins of a query's columns, and the lookup keys that identify rows of published tables."""

import functools
import hashlib
import itertools
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Flag, auto
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal

Node = Mapping[str, Any]


class Origin(Flag):
    """The kinds of amounts that a column is calculated from. NOTHING means no amounts."""

    NOTHING = 0
    NUMBER = auto()  # a DECIMAL column with amounts from the book
    GAPPED = auto()  # a decimal that is NULL if the amount does not fit in DECIMAL(38,18)
    TEXT = auto()  # an amount as a string
    SKIPPED = auto()  # a result for which NULL amounts were skipped or replaced
    ROUNDED = auto()  # the result of a function that may round


UNKNOWN = Origin.NUMBER | Origin.GAPPED | Origin.SKIPPED
_FLOAT_TYPES = {"DOUBLE", "FLOAT", "REAL", "FLOAT4", "FLOAT8"}
_STRING_TYPES = {"VARCHAR", "TEXT", "STRING", "CHAR"}
# Functions with an exact result. Strict functions return NULL if an argument is NULL, and all other
# functions skip NULL.
_STRICT = {"+", "-", "*", "%", "@", "add", "subtract", "multiply", "mod", "abs", "negate"} | {
    *("round", "round_even", "trunc", "floor", "ceil", "ceiling", "lag", "lead", "first", "last"),
    *("arbitrary", "first_value", "last_value", "nth_value", "unnest", "row", "struct_pack"),
    *("struct_extract", "list_value"),
}
_EXACT = _STRICT | {
    *("sum", "min", "max", "any_value", "arg_min", "arg_max", "arg_min_null", "arg_max_null"),
    *("min_by", "max_by", "greatest", "least", "if", "iif", "nullif", "list", "array_agg"),
    *("quantile_disc", "mode"),
}
_COMPARING = {"min", "max", "greatest", "least", "quantile_disc"}
_CALL = re.compile(r"([a-z_]\w*)\s*\(|/")
_FLOAT = re.compile(r"\b(double|real|float[48]?)\b")
_SYNTAX = {"pivot", "pivot_wider", "using", "on", "in", "by", "from", "as", "with", "select"}
_NO_AMOUNT = {"COMPARISON", "BETWEEN", "CONJUNCTION", "CONSTANT", "PARAMETER", "DEFAULT", "TYPE"}
_SKIPPING = {"OPERATOR_COALESCE", "OPERATOR_NULLIF", "OPERATOR_TRY"}
_PASSING = {"OPERATOR_UNPACK", "ARRAY_EXTRACT", "ARRAY_SLICE", "STRUCT_EXTRACT"} | {
    "ARRAY_CONSTRUCTOR"
}


class Origins:
    """The kinds of amounts that each column of a query is calculated from.

    Columns are found by index if possible, otherwise by name. `known` maps the amount columns of
    the book to their origins. If the query uses a name twice, both origins are combined.
    """

    def __init__(
        self, connection: DuckDBPyConnection, sql: str, known: Mapping[str, Origin]
    ) -> None:
        [(text,)] = connection.execute("select json_serialize_sql(?)", [sql]).fetchall()
        tree = json.loads(text)
        self._names, self._unnamed = dict(known), Origin.NOTHING
        self._by_index: list[Origin] | None = None
        self._unknown = UNKNOWN
        if tree["error"]:  # DuckDB cannot convert some statements, such as PIVOT, to a tree.
            self._names, self._unknown = {}, _without_tree(sql.casefold())
            return
        node = tree["statements"][-1]["node"]
        if (node.get("from_table") or {}).get("type") == "SHOW_REF":
            self._unknown = Origin.NOTHING  # DESCRIBE shows column names, not amounts.
            return
        items = list(_items(node))
        before = None
        while before != (before := (dict(self._names), self._unnamed)):
            for alias, item in items:
                self._add(alias, self._of(item))
        self._by_index = self._column_origins(node)

    def _add(self, alias: str, origin: Origin) -> None:
        if alias:
            self._names[alias] = self._names.get(alias, Origin.NOTHING) | origin
        else:
            self._unnamed |= origin

    def column(self, index: int, name: str, kind: str) -> Origin:
        """Return the kinds of amounts from which a result column of type `kind` is calculated."""
        if self._by_index is not None:
            return self._by_index[index]
        # If the origin of a text column is unknown, assume that it contains names, not amounts.
        unknown = Origin.NOTHING if kind == "VARCHAR" else self._unknown | self._unnamed
        return self._names.get(name.casefold(), unknown)

    def _column_origins(self, node: Node) -> list[Origin] | None:
        """Return each column's origin, or None if a `*` makes the number of columns unknown."""
        if parts := _set_operands(node):
            sides = [self._column_origins(part) for part in parts]
            known = [side for side in sides if side is not None]
            if len(known) < len(sides) or "BY_NAME" in node["setop_type"]:
                return None
            return [_union(column) for column in zip(*known, strict=True)]
        items = node.get("select_list")
        if items is None or any(map(_has_star, items)):
            return None
        return [self._of(item) for item in items]

    def _of(self, node: Node) -> Origin:
        """Return the kinds of amounts that an expression is calculated from."""
        reader = self._readers.get(node["class"])
        return reader(node) if reader else self._of_all(_children(node))

    @functools.cached_property
    def _readers(self) -> Mapping[str, Callable[[Node], Origin]]:
        return {
            **dict.fromkeys(_NO_AMOUNT, lambda _: Origin.NOTHING),
            "COLUMN_REF": self._column,
            **dict.fromkeys(("STAR", "POSITIONAL_REFERENCE"), self._any_column),
            "CAST": self._cast,
            **dict.fromkeys(("FUNCTION", "WINDOW"), self._call),
            "CASE": self._case,
            "SUBQUERY": self._subquery,
            "OPERATOR": self._operator,
        }

    def _column(self, node: Node) -> Origin:
        return self._names.get(node["column_names"][-1].casefold(), Origin.NOTHING)

    def _any_column(self, _: Node) -> Origin:
        return UNKNOWN | Origin.TEXT | self._unnamed

    def _case(self, node: Node) -> Origin:
        results = [check["then_expr"] for check in node["case_checks"]]
        return _skipping(self._of_all([*results, node["else_expr"]]))

    def _subquery(self, node: Node) -> Origin:
        if node["subquery_type"] != "SCALAR":
            return Origin.NOTHING
        origins = self._column_origins(node["subquery"]["node"])
        return UNKNOWN | self._unnamed if origins is None else _union(origins)

    def _operator(self, node: Node) -> Origin:
        if node["type"] in _SKIPPING:
            return _skipping(self._of_all(node["children"]))
        return self._of_all(node["children"]) if node["type"] in _PASSING else Origin.NOTHING

    def _of_all(self, nodes: Iterable[Node]) -> Origin:
        return _union(map(self._of, nodes))

    def _cast(self, node: Node) -> Origin:
        target = (node.get("type_expr") or {}).get("type_name") or node["cast_type"]["id"]
        if target.upper() in _FLOAT_TYPES:  # The user explicitly requested a float.
            return Origin.NOTHING
        origin = self._of(node["child"])
        if Origin.TEXT in origin and target.upper() not in _STRING_TYPES:
            origin = (origin & ~Origin.TEXT) | UNKNOWN
        return origin

    def _call(self, node: Node) -> Origin:
        name = node["function_name"]
        # In the tree of a call like `total.abs()`, `total` is the schema of the function.
        arguments = [self._names.get(node["schema"].casefold(), Origin.NOTHING)]
        arguments += [self._of(argument) for argument in _arguments(node)]
        origin = _union(arguments)
        if name == "exact_sum":
            return _skipping(origin) | Origin.TEXT
        if name == "/" and Origin.NUMBER in arguments[-1]:
            return Origin.NOTHING  # a ratio of two amounts is not an amount
        if name not in _EXACT and Origin.NUMBER in origin:
            origin |= Origin.ROUNDED
        # Comparing amounts as text does not produce an amount, because text sorts differently.
        if name not in _EXACT - _COMPARING:
            origin &= ~Origin.TEXT
        return origin if name in _STRICT else _skipping(origin)


def _without_tree(sql: str) -> Origin:
    """Guess one origin for all columns from the words in the SQL, if there is no syntax tree."""
    if _FLOAT.search(sql):
        return UNKNOWN & ~Origin.NUMBER
    calls = set(_CALL.findall(sql)) - _SYNTAX
    return UNKNOWN if calls <= _EXACT else UNKNOWN | Origin.ROUNDED


def _skipping(origin: Origin) -> Origin:
    return origin | Origin.SKIPPED if origin else origin


def _union(origins: Iterable[Origin]) -> Origin:
    return functools.reduce(operator.or_, origins, Origin.NOTHING)


def _arguments(node: Node) -> list[Node]:
    """Return the arguments of a call in a syntax tree from DuckDB 1 or DuckDB 2."""
    arguments = [argument["expression"] for argument in node.get("arguments") or []]
    default = [node["default_expr"]] if node.get("default_expr") else []
    return [*(arguments or node.get("children") or []), *default]


def _set_operands(node: Node) -> list[Node]:
    if node["type"] != "SET_OPERATION_NODE":
        return []
    return list(node.get("children") or [node["left"], node["right"]])


def _children(value: Any) -> Iterator[Node]:
    """Yield the expressions directly below a node, including those in nested lists."""
    for child in value.values() if isinstance(value, Mapping) else value:
        if isinstance(child, Mapping) and "class" in child:
            yield child
        elif isinstance(child, Mapping | list):
            yield from _children(child)


def _has_star(node: Node) -> bool:
    """Return whether an expression expands to several columns."""
    if node["class"] == "SUBQUERY":
        return False
    return node["class"] == "STAR" or any(map(_has_star, _children(node)))


def _items(value: Any) -> Iterator[tuple[str, Node]]:
    """Yield the name and expression of each column that a query or a subquery defines."""
    if isinstance(value, Mapping):
        yield from _own_items(value)
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _items(part)


def _own_items(node: Node) -> Iterator[tuple[str, Node]]:
    for item in node.get("select_list") or []:
        if item["class"] != "COLUMN_REF" or item["alias"]:
            yield item["alias"].casefold(), item
    for replaced in node.get("replace_list") or []:
        yield replaced["key"].casefold(), replaced["value"]
    for renamed in node.get("rename_list") or []:
        yield renamed["value"].casefold(), _ANY
    for key in ("aliases", "column_name_alias", "unpivot_names"):
        names = [name.casefold() for name in node.get(key) or []]
        for row in _rows(node):
            yield from zip(names, row, strict=False)


_ANY: Node = {"class": "STAR"}


def _rows(node: Node) -> list[Iterable[Node]]:
    """Return the expressions that a node's column aliases name, or placeholders if unknown."""
    if values := node.get("values"):
        return list(values)
    select = (node.get("subquery") or node.get("query") or {}).get("node") or {}
    items = (node.get("query_node") or select).get("select_list") or []
    return [items if items and not any(map(_has_star, items)) else itertools.repeat(_ANY)]


_KEY_LENGTH = 16
CUSTOM_MARK = "\x1f"
_ASSET = f"asset_id || case when is_custom_asset then {literal(CUSTOM_MARK)} else '' end"
_PARTS = {
    "source": ("source", "source"),
    "portfolio_id": ("portfolio", "portfolio_id"),
    "asset_id": ("asset", _ASSET),
    "venue_id": ("venue", "venue_id"),
    "account_name": ("account", "account_name"),
}


def lookup_key(parts: Iterable[tuple[str, str]]) -> str:
    """Return the SQL expression for a lookup key. `parts` has the name and SQL of each field."""
    # Write the length before each part, so that different keys produce different strings.
    cells = ", ".join(f"{literal(field)}, strlen({sql}), {sql}" for field, sql in parts)
    return f"'K-' || upper(left(sha256(concat_ws(chr(30), {cells})), {_KEY_LENGTH}))"


def key_of_names(parts: Iterable[tuple[str, str]]) -> str:
    """Calculate a lookup key from names and values, with the same result as `lookup_key` in SQL."""
    cells = [
        cell
        for field, text in parts
        for cell in (field, str(len(text.encode("utf-8", "surrogatepass"))), text)
    ]
    digest = hashlib.sha256("\x1e".join(cells).encode("utf-8", "surrogatepass")).hexdigest()
    return f"K-{digest[:_KEY_LENGTH].upper()}"


def key_of_columns(key: Iterable[str]) -> str:
    """Return the SQL expression for the lookup key of a published table with these key columns."""
    names = set(key)
    return lookup_key(part for column, part in _PARTS.items() if column in names)
