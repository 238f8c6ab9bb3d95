"""What a model documents, and what a record has beyond it: JSON paths, with an example each."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

UNKNOWN_FIELD = "unknown field"
UNKNOWN_VALUE = "unknown value"
UNKNOWN_BALANCE = "unknown balance kind"

_EXAMPLE = 120


@dataclass(frozen=True, slots=True)
class Novelty:
    """One thing that is new: where (as a pattern, without positions), of what kind, an example."""

    path: str
    kind: str
    example: str


def unknown(
    record: bytes | msgspec.Raw,
    model: type[Struct],
    values: Mapping[str, frozenset[str]],
    balance: type[Struct],
) -> Iterator[Novelty]:
    """Everything in a record that its model does not have, each occurrence.

    `values` are the documented ones by path; what `balance` lacks is a kind of balance.
    A record that holds nothing new is passed over at the speed of typed decoding. One that cannot
    be read at all has no news: it is the flattening that rejects it.
    """
    text = bytes(record)
    tree: Any = _documented_record(text, model)
    if tree is None:
        try:
            tree = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        yield from _fields(tree, model, "", balance)
    for path, known in values.items():
        for value in _at(tree, path.split(".")):
            if isinstance(value, str) and value not in known:
                yield Novelty(path, UNKNOWN_VALUE, value[:_EXAMPLE])


def _documented_record(text: bytes, model: type[Struct]) -> Struct | None:
    """The typed record, if written again it holds every string the text holds; else None.

    A field the model lacks is two quotation marks fewer; with a backslash in the text the count
    proves nothing, and the record is looked at in full.
    """
    if b"\\" in text:
        return None
    try:
        typed = _decoder(model).decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return typed if msgspec.json.encode(typed).count(b'"') == text.count(b'"') else None


@cache
def _decoder(model: type[Struct]) -> msgspec.json.Decoder[Struct]:
    return msgspec.json.Decoder(model)


@cache
def _documented_keys(model: type[Struct]) -> dict[str, tuple[str, type[Struct] | None]]:
    """The documented keys of a model: the attribute and the model within, if there is one."""
    return {
        field.encode_name: (field.name, inside(field.type)[0])
        for field in msgspec.structs.fields(model)
    }


def _fields(
    tree: Any, model: type[Struct], prefix: str, balance: type[Struct]
) -> Iterator[Novelty]:
    if not isinstance(tree, dict):
        return
    known = _documented_keys(model)
    for key, value in tree.items():
        path = f"{prefix}{plain_key(key)}"
        if key not in known:
            kind = UNKNOWN_BALANCE if model is balance else UNKNOWN_FIELD
            yield Novelty(path, kind, shorten(value))
        elif (inner := known[key][1]) is not None:
            yield from _inside(value, inner, path, balance)


def _inside(value: Any, model: type[Struct], path: str, balance: type[Struct]) -> Iterator[Novelty]:
    if isinstance(value, list):
        for element in value:
            yield from _fields(element, model, f"{path}[].", balance)
    else:
        yield from _fields(value, model, f"{path}.", balance)


def _at(node: Any, parts: list[str]) -> Iterator[Any]:
    """The values at a path pattern, in a decoded tree or in a typed record alike."""
    if not parts:
        yield node
        return
    name = parts[0].removesuffix("[]")
    value = _member(node, name)
    if not parts[0].endswith("[]"):
        yield from _at(value, parts[1:])
    elif isinstance(value, list):
        for element in value:
            yield from _at(element, parts[1:])


def _member(node: Any, name: str) -> Any:
    if isinstance(node, Struct):
        return getattr(node, _documented_keys(type(node))[name][0])
    return node.get(name) if isinstance(node, dict) else None


def plain_key(key: str) -> str:
    """A key as part of a path; one that would read as path itself is put in quotes."""
    return key if re.fullmatch(r"[\w-]{1,64}", key) else msgspec.json.encode(key[:64]).decode()


def shorten(value: Any) -> str:
    """Return a value as JSON text, cut to what an example may have."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _EXAMPLE else text[:_EXAMPLE] + "…"


def documented_fields(model: Any, prefix: str = "") -> dict[str, bool]:
    """Every documented field of a model by its JSON path, and whether it is required.

    The path is a pattern like `positions[].accounts[].balance.trading.free`.
    """
    paths: dict[str, bool] = {}
    for field in msgspec.structs.fields(model):
        path = f"{prefix}{field.encode_name}"
        paths[path] = field.required
        inner, mark = inside(field.type)
        if mark and inner is None:
            paths[f"{path}[]"] = True
        if inner is not None:
            paths |= documented_fields(inner, f"{path}{mark}.")
    return paths


def inside(annotation: Any) -> tuple[type[Struct] | None, str]:
    """The model within a field's type, if there is one, and `[]` where the field is a list."""
    for option in getattr(annotation, "__args__", ()) or (annotation,):
        if isinstance(option, type) and issubclass(option, Struct):
            return option, ("[]" if getattr(annotation, "__origin__", None) is list else "")
        if getattr(option, "__origin__", None) is list:
            return inside(option)[0], "[]"
    return None, "[]" if getattr(annotation, "__origin__", None) is list else ""
