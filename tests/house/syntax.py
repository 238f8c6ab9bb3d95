"""Syntax trees of modules, which several rules share."""

import ast
from functools import cache


@cache
def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module. The tree is cached, so nobody may change it."""
    return ast.parse(text)
