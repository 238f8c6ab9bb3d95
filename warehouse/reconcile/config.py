"""recon.toml: what a person settled, once, in lines that a question told them to write."""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from warehouse.exact import exact
from warehouse.reconcile.dimensions import FIELDS
from warehouse.reconcile.errors import NotReconciled

READ = (*FIELDS, "amount", "as_of")
_BARE = re.compile("[a-z_]+")
_ISO_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
UNUSED, LEDGER = "unused", "ledger"
_WORDS = {
    "decimal": ("point", "comma"),
    "dates": ("day first", "month first"),
    "negative_word": ("CR", "DR", "cr", "dr"),
}
_LEDGER = {"decimal", "sheet", "negative_word", "dates", UNUSED, *READ}
_KNOWN = {
    "": {"name", "level", "blank", "ledger_rounding", "accept_days", "stale_hours", "listed"}
    | {"tolerance", "alias", "ledger", "inbox", "late"},
    "tolerance": {"absolute", "relative", "limit", "limit_in_all", "asset"},
    "alias": set(FIELDS),
}
TEMPLATE = """\
# What was settled for the reconciliation. A question of `nightbook reconcile run` names the line.
name = "positions"            # part of every break's id
level = "auto"                # the finest that the ledger has, or ["portfolio", "asset", "venue"]
blank = "reject"              # a blank amount is no zero; or "skip"
ledger_rounding = "number"    # number cells keep 15 digits; "written" also forgives rounded texts
accept_days = 30              # an accepted break is asked about again after so many days
stale_hours = 48              # a portfolio not updated for longer is told
listed = 500000               # of more keys only those that do not match are in the workbook

[tolerance]
absolute = "0"
relative = "0"
# limit = "0.0001"            # the part of an asset that may be forgiven in all its keys together
# limit_in_all = "0.001"      # the same as the mean of all assets

[tolerance.asset]
# SHIB = "0.01"

[inbox]
# "statement_*.pdf" = "unused"  # or "ledger", of one that is read beside another of its name

[alias.asset]
# XBT = "BTC"

[alias.venue]

[alias.account]

[alias.portfolio]
"""


class Decimals(Enum):
    """Which letter stands before the decimals."""

    POINT = "point"
    COMMA = "comma"


@dataclass(frozen=True, slots=True)
class Shape:
    """What was settled for ledgers with the same headers: columns by field, decimals, sheet.

    `unused` are columns that a person looked at and leaves out.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    decimals: Decimals | None = None
    sheet: str = ""
    negative_word: str = ""
    dates: str = ""
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """All that a person settled; `digest` is the SHA-256 of the file as it was read.

    `words` has every line of it by its place, as `tolerance.absolute`.

    `late` has by day the ledgers of other days that are used for it.
    `inbox` says of names, or patterns of names, that a file is `unused` or a `ledger` of its own;
    `limit` and `limit_in_all` are the parts of an asset, and of all, that tolerance may forgive.
    """

    name: str = "positions"
    level: tuple[str, ...] | None = None
    blank: str = "reject"
    ledger_rounding: str = "number"
    accept_days: int = 30
    stale_hours: int = 48
    listed: int = 500_000
    absolute: Decimal = Decimal(0)
    relative: Decimal = Decimal(0)
    limit: Decimal = Decimal("0.0001")
    limit_in_all: Decimal = Decimal("0.001")
    per_asset: Mapping[str, Decimal] = field(default_factory=dict)
    inbox: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    late: Mapping[str, frozenset[str]] = field(default_factory=dict)
    digest: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    def said_of(self, name: str) -> str:
        """Return what a person said of a file: its own name counts before a pattern."""
        if name in self.inbox:
            return self.inbox[name]
        patterns = (name_ for name_ in self.inbox if fnmatchcase(name, name_))
        return self.inbox.get(next(patterns, ""), "")


def setting(name: str, value: str) -> str:
    """A line of recon.toml that says so, whatever letters are in it."""
    key = name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def read_config(path: Path) -> Config:
    """The configuration, or what stands in the template where there is no file.

    Raises `NotReconciled` with every complaint in one message.
    """
    given = path.read_bytes() if path.exists() else TEMPLATE.encode()
    try:
        words = tomllib.loads(_together(given.decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotReconciled(
            f"{path.name} is not TOML: {error}. Nothing was reconciled. Mend that line."
        ) from error
    complaints: list[str] = []
    config = _config(words, complaints, hashlib.sha256(given).hexdigest())
    if complaints:
        raise NotReconciled(
            f"{path.name} cannot be used: {'; '.join(complaints)}. Nothing was reconciled."
        )
    return replace(config, words=dict(_lines(words)))


def _lines(words: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting with the tables that it stands in."""
    for name, given in words.items():
        if isinstance(given, dict):
            yield from _lines(given, f"{place}{name}.")
        else:
            yield f"{place}{name}", json.dumps(given, ensure_ascii=False, default=str)


def _together(text: str) -> str:
    """Return the text with the lines of a table that is opened twice below its first heading.

    Each question names the table of its answer, so that two answers, pasted, open one table twice,
    which TOML refuses.
    """
    tables: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.splitlines(keepends=True):
        found = _TABLE.fullmatch(line)
        name = found[1].strip() if found else name
        if not found or name not in tables:
            tables.setdefault(name, []).append(line if line.endswith("\n") else f"{line}\n")
    return "".join(line for lines in tables.values() for line in lines)


def _config(words: dict[str, Any], complaints: list[str], digest: str) -> Config:
    tolerance = _table(words, "tolerance", complaints)
    for place, known in _KNOWN.items():
        given = _table(words, place, complaints) if place else words
        complaints += [f"{place or 'the file'} has no {name}" for name in given.keys() - known]
    return Config(
        name=_choice(words, "name", "positions", (), complaints),
        level=_level(words.get("level", "auto"), complaints),
        blank=_choice(words, "blank", "reject", ("reject", "skip"), complaints),
        ledger_rounding=_choice(
            words, "ledger_rounding", "number", ("number", "written", "off"), complaints
        ),
        accept_days=_count(words, "accept_days", 30, complaints),
        stale_hours=_count(words, "stale_hours", 48, complaints),
        listed=_count(words, "listed", 500_000, complaints),
        absolute=_amount("absolute", tolerance.get("absolute", "0"), complaints),
        relative=_amount("relative", tolerance.get("relative", "0"), complaints),
        limit=_amount("limit", tolerance.get("limit", "0.0001"), complaints),
        limit_in_all=_amount("limit_in_all", tolerance.get("limit_in_all", "0.001"), complaints),
        per_asset={
            asset: _amount(asset, text, complaints)
            for asset, text in _table(tolerance, "asset", complaints).items()
        },
        inbox={
            name: _choice(files, name, UNUSED, (UNUSED, LEDGER), complaints)
            for files in [_table(words, "inbox", complaints)]
            for name in files
        },
        aliases={
            name: {
                str(entry): str(other) for entry, other in _table(given, name, complaints).items()
            }
            for given in [_table(words, "alias", complaints)]
            for name in FIELDS
        },
        shapes={
            print_: _shape(print_, given, complaints)
            for print_, given in _table(words, "ledger", complaints).items()
        },
        late={
            day: _late(day, given, complaints)
            for day, given in _table(words, "late", complaints).items()
        },
        digest=digest,
    )


def _late(day: str, given: object, complaints: list[str]) -> frozenset[str]:
    """Return the ledgers of other days that are used for the book of a day."""
    if not _ISO_DAY.fullmatch(day) or not isinstance(given, dict) or {*given.values()} - {"used"}:
        complaints.append(f'late.{day} is no table of a day like [late.2026-11-20] with "used"')
        return frozenset()
    return frozenset(given)


def _table(words: Mapping[str, Any], name: str, complaints: list[str]) -> dict[str, Any]:
    given = words.get(name, {})
    if not isinstance(given, dict):
        complaints.append(f"{name} is not a table")
        return {}
    return given


def _choice(
    words: dict[str, Any], name: str, default: str, allowed: tuple[str, ...], complaints: list[str]
) -> str:
    given = words.get(name, default)
    if not isinstance(given, str) or (allowed and given not in allowed):
        complaints.append(f"{name} is {given!r}, expected {' or '.join(allowed) or 'a text'}")
        return default
    return given


def _count(words: dict[str, Any], name: str, default: int, complaints: list[str]) -> int:
    given = words.get(name, default)
    if type(given) is not int or given < 0:
        complaints.append(f"{name} is {given!r}, expected a whole number")
        return default
    return given


def _amount(name: str, given: object, complaints: list[str]) -> Decimal:
    """A tolerance: text, since TOML's numbers are floats."""
    if isinstance(given, str):
        try:
            value = exact(given)
        except ArithmeticError:
            value = Decimal("NaN")
        if value.is_finite() and value >= 0:
            return value
    complaints.append(f'tolerance {name} is {given!r}, expected a text like "0.01"')
    return Decimal(0)


def _level(given: object, complaints: list[str]) -> tuple[str, ...] | None:
    if given == "auto":
        return None
    if isinstance(given, list) and all(field_ in FIELDS for field_ in given) and "asset" in given:
        return tuple(name for name in FIELDS if name in given)
    complaints.append(f'level is {given!r}, expected "auto" or a list of {", ".join(FIELDS)}')
    return None


def _shape(name: str, given: object, complaints: list[str]) -> Shape:
    if not isinstance(given, dict) or not all(
        isinstance(value, str) for key, value in given.items() if key != UNUSED
    ):
        complaints.append(f"ledger.{name} is not a table of texts")
        return Shape()
    unused = given.get(UNUSED, [])
    if not isinstance(unused, list) or not all(isinstance(title, str) for title in unused):
        complaints.append(f"ledger.{name}.{UNUSED} is {unused!r}, expected a list of columns")
        return Shape()
    complaints += [f"ledger.{name} has no {word}" for word in given.keys() - _LEDGER]
    for entry, allowed in _WORDS.items():
        if given.get(entry, allowed[0]) not in allowed:
            expected = " or ".join(f'"{word}"' for word in allowed)
            complaints.append(f"ledger.{name}.{entry} is {given[entry]!r}, expected {expected}")
            return Shape()
    decimals = given.get("decimal")
    return Shape(
        {word: given[word] for word in READ if word in given},
        Decimals(decimals) if decimals else None,
        given.get("sheet", ""),
        given.get("negative_word", ""),
        given.get("dates", ""),
        tuple(unused),
    )
