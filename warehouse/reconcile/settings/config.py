"""The settings in recon.toml, including roles and the requirements for closing a month."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import reduce
from pathlib import Path
from typing import Any

from warehouse.reconcile.settings.layout import UNUSED, FileSettings, Shape, file_settings, shape_of
from warehouse.reconcile.settings.toml import TomlTable, join_tables
from warehouse.reconcile.terms import FIELDS, NotReconciled
from warehouse.spreadsheet.reading.text import fold

ROLES = ("preparer", "reviewer", "approver")

# Settings that can be set to `list` or `refuse`.
_LISTED = ("unsigned", "open_breaks", "unreconciled")

_KEEP_DAYS = 400
_ISO_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
LEDGER = "ledger"
OWN_WORDS = "words.toml"

_CHOICES = {
    "name": (),
    "blank": ("reject", "skip"),
    "ledger_rounding": ("number", "written", "off"),
}

_COUNTS = ("accept_days", "stale_hours", "listed", "most_breaks")
_AMOUNTS = ("absolute", "relative", "limit", "limit_in_all")
_TABLES = "level tolerance alias ledger inbox late file roles close"
_NAMES = " ".join((*_CHOICES, *_COUNTS, _TABLES))
TEMPLATE = Path(__file__).with_name("recon.toml").read_text("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSettings:
    """The settings in the tables `[close]` and `[roles]`.

    If a month has unsigned days, open breaks or unreconciled days, the command `close` either lists
    them (`list`) or does not close the month (`refuse`). A day is unreconciled if it has no ledger
    or no book, or if nothing was compared. `roles` has the names of the people who may sign, by
    role. A role that is not listed is open to everybody. Only people with the highest listed role
    may close a month or restate a closed day. With `needs_approver`, an approver must sign the last
    day of the month. The archive keeps the ledgers of closed months for `keep_days`, and the packs
    keep them forever.
    """

    unsigned: str = "list"
    open_breaks: str = "list"
    unreconciled: str = "list"
    needs_approver: bool = False
    keep_days: int = _KEEP_DAYS
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def may_sign(self, role: str, who: str) -> bool:
        """Return whether a person has a role. Case and spaces in the name are ignored."""
        names = self.roles.get(role)
        return names is None or fold(who) in map(fold, names)

    @property
    def closing_role(self) -> str:
        """The role that may close months and restate days: the highest role in recon.toml."""
        return next((role for role in reversed(ROLES) if role in self.roles), "")

    def why_not_close(self, who: str) -> str:
        """Return the reason why a person may not close or restate, or an empty string."""
        role = self.closing_role
        if not role or self.may_sign(role, who):
            return ""
        names = ", ".join(self.roles[role]) or "nobody"
        return (
            f"{who or 'an unknown user'} does not have the {role} role; under [roles] in "
            f"recon.toml, this role is assigned to {names}"
        )

    def roles_of(self, who: str) -> list[str]:
        """Return the roles that a person has."""
        return [role for role in ROLES if self.may_sign(role, who)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings in recon.toml. `digest` is the SHA-256 of the file when it was read.

    `limit` is the largest share of an asset's total that settings may ignore as differences, and
    `limit_in_all` limits the mean of these shares over all assets. `inbox` has `unused` or `ledger`
    by file name or name pattern. `late` maps days to the ledgers from other days that are used for
    them. `words` maps the path of each setting, like `tolerance.absolute`, to its value.
    `own_words` is the content of the user's own `words.toml`, which adds words for headers.
    """

    name: str = "positions"
    level: tuple[str, ...] | None = None
    blank: str = "reject"
    ledger_rounding: str = "number"
    accept_days: int = 30
    stale_hours: int = 48
    listed: int = 500_000
    most_breaks: int = 100_000
    absolute: Decimal = Decimal(0)
    relative: Decimal = Decimal(0)
    limit: Decimal = Decimal("0.0001")
    limit_in_all: Decimal = Decimal("0.001")
    per_asset: Mapping[str, Decimal] = field(default_factory=dict)
    inbox: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    late: Mapping[str, frozenset[str]] = field(default_factory=dict)
    files: tuple[FileSettings, ...] = ()
    close: CloseSettings = field(default_factory=CloseSettings)
    digest: str = ""
    own_words: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    def inbox_setting(self, name: str) -> str:
        """Return the setting for an inbox file. Its exact name takes precedence over a pattern."""
        matching = (pattern for pattern in self.inbox if fnmatchcase(name, pattern))
        return self.inbox.get(name) or self.inbox.get(next(matching, ""), "")

    def of_file(self, name: str, sheet: str = "") -> FileSettings:
        """Merge all settings for a file or a tab. The longest pattern takes precedence."""
        matching = [item for item in self.files if item.is_of(name, sheet)]
        matching.sort(key=lambda item: (len(item.pattern.replace("*", "")), item.pattern))
        return reduce(FileSettings.below, matching, FileSettings(pattern=name))


_DEFAULT = Config()


def close_settings(close: TomlTable, roles: TomlTable) -> CloseSettings:
    """Return the settings in the tables `[close]` and `[roles]`."""
    close.refuse_unknown(f"{' '.join(_LISTED)} approver keep_days")
    roles.refuse_unknown(" ".join(ROLES))
    choices = {name: close.choice(name, "list", "refuse", default="list") for name in _LISTED}
    return CloseSettings(
        **choices,
        needs_approver=close.flag("approver"),
        keep_days=close.count("keep_days", _KEEP_DAYS),
        roles={role: names for role in ROLES if (names := roles.texts(role)) is not None},
    )


def read_config(path: Path) -> Config:
    """Read recon.toml, or use the template if the file does not exist.

    Raises `NotReconciled` with all errors in one message.
    """
    content = path.read_bytes() if path.exists() else TEMPLATE.encode()
    return parse_config(content, path)


def parse_config(content: bytes, path: Path) -> Config:
    """Parse the content of recon.toml. The file at `path` does not need to exist yet.

    Raises `NotReconciled` with all errors in one message.
    """
    try:
        words = tomllib.loads(join_tables(content.decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotReconciled(
            f"{path.name} is not valid TOML: {error}. Nothing was reconciled. Correct that line."
        ) from error
    # TOML does not allow top-level settings after a table, so lines pasted at the end of the file
    # use the table [settings].
    complaints: list[str] = []
    of_whole = TomlTable(words, complaints).table("settings").values
    words.pop("settings", None)
    table = TomlTable({**words, **of_whole}, complaints)
    config = _config(table, hashlib.sha256(content).hexdigest())
    if table.complaints:
        problems = "; ".join(dict.fromkeys(complaints))
        raise NotReconciled(f"{path.name} cannot be used: {problems}. Nothing was reconciled.")
    own_words = _own_words(path.with_name(OWN_WORDS))
    if own_words:
        words = {**config.words, OWN_WORDS: hashlib.sha256(own_words.encode()).hexdigest()}
        config = replace(config, own_words=own_words, words=words)
    return config


def _own_words(path: Path) -> str:
    try:
        return path.read_bytes().decode() if path.exists() else ""
    except UnicodeDecodeError as error:
        raise NotReconciled(
            f"{path.name} is not UTF-8: {error}. Nothing was reconciled. Save it as UTF-8."
        ) from error


def _config(file: TomlTable, digest: str) -> Config:
    file.refuse_unknown(_NAMES)
    tolerance, inbox, aliases = map(file.table, ("tolerance", "inbox", "alias"))
    tolerance.refuse_unknown(f"{' '.join(_AMOUNTS)} asset")
    aliases.refuse_unknown(" ".join(FIELDS))
    per_asset, late = tolerance.table("asset"), file.table("late").values
    simple: dict[str, Any] = {"level": _level(file)}
    simple |= {
        name: file.choice(name, *allowed, default=getattr(_DEFAULT, name))
        for name, allowed in _CHOICES.items()
    }
    simple |= {name: file.count(name, getattr(_DEFAULT, name)) for name in _COUNTS}
    simple |= {name: tolerance.amount(name, getattr(_DEFAULT, name)) for name in _AMOUNTS}
    return Config(
        **simple,
        per_asset={asset: per_asset.amount(asset) for asset in per_asset.values},
        inbox={name: inbox.choice(name, UNUSED, LEDGER, default=UNUSED) for name in inbox.values},
        aliases={
            dimension: {name: str(id_) for name, id_ in aliases.table(dimension).values.items()}
            for dimension in FIELDS
        },
        shapes={name: shape_of(table) for name, table in file.tables("ledger")},
        late={day: _late(day, files, file.complaints) for day, files in late.items()},
        files=tuple(file_settings(name, table) for name, table in file.tables("file")),
        close=close_settings(file.table("close"), file.table("roles")),
        digest=digest,
        words=dict(file.lines()),
    )


def _level(file: TomlTable) -> tuple[str, ...] | None:
    value = file.values.get("level", "auto")
    if value == "auto":
        return None
    if isinstance(value, list) and all(name in FIELDS for name in value) and "asset" in value:
        return tuple(name for name in FIELDS if name in value)
    expected = f'"auto" or a list of {", ".join(FIELDS)}'
    file.complaints.append(f"level is {value!r}, expected {expected}")
    return None


def _late(day: str, files: object, complaints: list[str]) -> frozenset[str]:
    """Return the ledgers from other days that recon.toml allows for a day."""
    names = files if isinstance(files, dict) and _ISO_DAY.fullmatch(day) else {day: ""}
    if all(word == "used" for word in names.values()):
        return frozenset(names)
    complaints.append(
        f"late.{day} must be a table for one day, like [late.2026-11-20], and each value must "
        'be "used"'
    )
    return frozenset()
