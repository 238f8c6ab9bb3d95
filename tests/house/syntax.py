"""The syntax of the rooms: several rules look at each module."""

import ast
from functools import cache


@cache
def parsed(text: str) -> ast.Module:
    """Return the tree of a module; of the same text the same one, so nobody changes it."""
    return ast.parse(text)
