"""recon.toml: what a person settled, once, in lines that a question told them to write."""

import contextlib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
_CHOICES = {
    "decimal": ("point", "comma"),
    "dates": ("day first", "month first"),
    "negative_word": ("CR", "DR", "cr", "dr"),
}
_NAMES = {  # which settings each table may have
    "": "name level blank ledger_rounding accept_days stale_hours listed "
    "tolerance alias ledger inbox late",
    "tolerance": "absolute relative limit limit_in_all asset",
    "alias": " ".join(FIELDS),
}
_LEDGER = {*_CHOICES, "sheet", UNUSED, *READ}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What was settled for ledgers with the same headers; `unused` columns are left out."""

    columns: Mapping[str, str] = field(default_factory=dict)
    decimals: Decimals | None = None
    sheet: str = ""
    negative_word: str = ""
    dates: str = ""
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All that a person settled; `digest` is the SHA-256 of the file as it was read.

    `limit` and `limit_in_all` are the parts of an asset, and of all, that tolerance may forgive.
    `inbox` says of names, or patterns of names, that a file is `unused` or a `ledger` of its own;
    `late` has by day the ledgers of other days that are used for it. `words` has every line by its
    place, as `tolerance.absolute`.
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

    def inbox_setting(self, name: str) -> str:
        """Return what a person said of a file: its own name counts before a pattern."""
        matching = (pattern for pattern in self.inbox if fnmatchcase(name, pattern))
        return self.inbox.get(name) or self.inbox.get(next(matching, ""), "")


def setting(name: str, value: str) -> str:
    """Return a line of recon.toml that says so, whatever letters are in it."""
    key = name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def read_config(path: Path) -> Config:
    """Read the configuration, or what stands in the template where there is no file.

    Raises `NotReconciled` with every complaint in one message.
    """
    content = path.read_bytes() if path.exists() else TEMPLATE.encode()
    try:
        words = tomllib.loads(_join_tables(content.decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotReconciled(
            f"{path.name} is not TOML: {error}. Nothing was reconciled. Mend that line."
        ) from error
    table = _Settings(words, [])
    config = _config(table, hashlib.sha256(content).hexdigest())
    if table.complaints:
        raise NotReconciled(
            f"{path.name} cannot be used: {'; '.join(table.complaints)}. Nothing was reconciled."
        )
    return config


def _join_tables(text: str) -> str:
    """Return the text with the lines of a table that is opened twice below its first heading."""
    # Each question names the table of its answer, so that two answers, pasted one after the other,
    # open one table twice, which TOML refuses.
    tables: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.splitlines(keepends=True):
        heading = _TABLE.fullmatch(line)
        name = heading[1].strip() if heading else name
        if not heading or name not in tables:
            tables.setdefault(name, []).append(line if line.endswith("\n") else f"{line}\n")
    return "".join(line for lines in tables.values() for line in lines)


@dataclass(frozen=True, slots=True)
class _Settings:
    """One table of recon.toml; what is wrong in any of them is collected in `complaints`."""

    values: Mapping[str, Any]
    complaints: list[str]

    def table(self, name: str) -> "_Settings":
        """Return a table within this one."""
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            self.complaints.append(f"{name} is not a table")
            value = {}
        return _Settings(value, self.complaints)

    def lines(self, place: str = "") -> Iterator[tuple[str, str]]:
        """Yield each setting with the tables that it stands in."""
        for name, value in self.values.items():
            if isinstance(value, dict):
                yield from self.table(name).lines(f"{place}{name}.")
            else:
                yield f"{place}{name}", json.dumps(value, ensure_ascii=False, default=str)

    def choice(self, name: str, *allowed: str, default: str) -> str:
        """Return a text, one of those allowed where some are named."""
        value = self.values.get(name, default)
        if isinstance(value, str) and (not allowed or value in allowed):
            return value
        self.complaints.append(f"{name} is {value!r}, expected {' or '.join(allowed) or 'a text'}")
        return default

    def count(self, name: str, default: int) -> int:
        """Return a whole number."""
        value = self.values.get(name, default)
        if type(value) is int and value >= 0:
            return value
        self.complaints.append(f"{name} is {value!r}, expected a whole number")
        return default

    def amount(self, name: str, default: str = "0") -> Decimal:
        """Return a tolerance: text, since TOML's numbers are floats."""
        value = self.values.get(name, default)
        with contextlib.suppress(ArithmeticError):
            amount = exact(value) if isinstance(value, str) else Decimal("NaN")
            if amount.is_finite() and amount >= 0:
                return amount
        self.complaints.append(f'tolerance {name} is {value!r}, expected a text like "0.01"')
        return Decimal(0)


def _config(file: _Settings, digest: str) -> Config:
    for place, names in _NAMES.items():
        table = file.table(place) if place else file
        unknown = table.values.keys() - set(names.split())
        file.complaints.extend(f"{place or 'the file'} has no {name}" for name in unknown)
    tolerance, inbox, aliases = map(file.table, ("tolerance", "inbox", "alias"))
    per_asset = tolerance.table("asset")
    return Config(
        name=file.choice("name", default="positions"),
        level=_level(file),
        blank=file.choice("blank", "reject", "skip", default="reject"),
        ledger_rounding=file.choice(
            "ledger_rounding", "number", "written", "off", default="number"
        ),
        accept_days=file.count("accept_days", 30),
        stale_hours=file.count("stale_hours", 48),
        listed=file.count("listed", 500_000),
        absolute=tolerance.amount("absolute"),
        relative=tolerance.amount("relative"),
        limit=tolerance.amount("limit", "0.0001"),
        limit_in_all=tolerance.amount("limit_in_all", "0.001"),
        per_asset={asset: per_asset.amount(asset) for asset in per_asset.values},
        inbox={name: inbox.choice(name, UNUSED, LEDGER, default=UNUSED) for name in inbox.values},
        aliases={
            field_: {name: str(id_) for name, id_ in aliases.table(field_).values.items()}
            for field_ in FIELDS
        },
        shapes={
            fingerprint: _shape(fingerprint, table, file.complaints)
            for fingerprint, table in file.table("ledger").values.items()
        },
        late={
            day: _late(day, files, file.complaints)
            for day, files in file.table("late").values.items()
        },
        digest=digest,
        words=dict(file.lines()),
    )


def _level(file: _Settings) -> tuple[str, ...] | None:
    value = file.values.get("level", "auto")
    if value == "auto":
        return None
    if isinstance(value, list) and all(name in FIELDS for name in value) and "asset" in value:
        return tuple(name for name in FIELDS if name in value)
    expected = f'"auto" or a list of {", ".join(FIELDS)}'
    file.complaints.append(f"level is {value!r}, expected {expected}")
    return None


def _late(day: str, files: object, complaints: list[str]) -> frozenset[str]:
    """Return the ledgers of other days that are used for the book of a day."""
    if not _ISO_DAY.fullmatch(day) or not isinstance(files, dict) or {*files.values()} - {"used"}:
        complaints.append(f'late.{day} is no table of a day like [late.2026-11-20] with "used"')
        return frozenset()
    return frozenset(files)


def _shape(name: str, table: object, complaints: list[str]) -> Shape:
    place = f"ledger.{name}"
    if not isinstance(table, dict) or not all(
        isinstance(value, str) for key, value in table.items() if key != UNUSED
    ):
        complaints.append(f"{place} is not a table of texts")
        return Shape()
    unused = table.get(UNUSED, [])
    if not isinstance(unused, list) or not all(isinstance(title, str) for title in unused):
        complaints.append(f"{place}.{UNUSED} is {unused!r}, expected a list of columns")
        return Shape()
    complaints += [f"{place} has no {word}" for word in table.keys() - _LEDGER]
    for setting_, allowed in _CHOICES.items():
        if table.get(setting_, allowed[0]) not in allowed:
            expected = " or ".join(f'"{word}"' for word in allowed)
            complaints.append(f"{place}.{setting_} is {table[setting_]!r}, expected {expected}")
            return Shape()
    decimals = table.get("decimal")
    return Shape(
        columns={field_: table[field_] for field_ in READ if field_ in table},
        decimals=Decimals(decimals) if decimals else None,
        sheet=table.get("sheet", ""),
        negative_word=table.get("negative_word", ""),
        dates=table.get("dates", ""),
        unused=tuple(unused),
    )
