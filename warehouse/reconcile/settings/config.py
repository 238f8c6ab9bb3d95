"""The file recon.toml as settings, with the roles and what a month needs to be closed."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path

from warehouse.reconcile.settings.layout import (
    UNUSED,
    FileSettings,
    Shape,
    file_settings,
    of_file,
    shape_of,
)
from warehouse.reconcile.settings.toml import TomlTable, join_tables
from warehouse.reconcile.terms import FIELDS, NotReconciled
from warehouse.spreadsheet.reading.text import fold

ROLES = ("preparer", "reviewer", "approver")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSettings:
    """What `close` does with unsigned days and open breaks: `list` them, or `refuse`.

    `unreconciled` says the same of days without a ledger or a book, or that compared nothing.
    `roles` has the names of those who may sign, by role; a role that is not there is anybody's.
    Only who has the highest of them may close a month or restate a closed day.
    Where an `approver` is needed, the last day of the month must be signed by one. Ledgers of
    closed months are kept for `keep_days`, and in the packs for ever.
    """

    unsigned: str = "list"
    open_breaks: str = "list"
    unreconciled: str = "list"
    needs_approver: bool = False
    keep_days: int = 400
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def may_sign(self, role: str, who: str) -> bool:
        """Return whether a person has a role, however the name is written."""
        names = self.roles.get(role)
        return names is None or fold(who) in map(fold, names)

    @property
    def closing_role(self) -> str:
        """The role that closes months and restates days: the highest of those in recon.toml."""
        return next((role for role in reversed(ROLES) if role in self.roles), "")

    def why_not_close(self, who: str) -> str:
        """Return why a person may not close or restate; nothing if they may."""
        role = self.closing_role
        if not role or self.may_sign(role, who):
            return ""
        names = ", ".join(self.roles[role]) or "nobody"
        return (
            f"{who or 'somebody unknown'} is not {role}; under [roles] in recon.toml it is {names}"
        )

    def roles_of(self, who: str) -> list[str]:
        """Return the roles that a person has."""
        return [role for role in ROLES if self.may_sign(role, who)]


def close_settings(close: TomlTable, roles: TomlTable) -> CloseSettings:
    """Return the settings of the tables `[close]` and `[roles]`."""
    default = CloseSettings()
    close.refuse_unknown("unsigned open_breaks unreconciled approver keep_days")
    roles.refuse_unknown(" ".join(ROLES))
    return CloseSettings(
        unsigned=close.choice("unsigned", "list", "refuse", default=default.unsigned),
        open_breaks=close.choice("open_breaks", "list", "refuse", default=default.open_breaks),
        unreconciled=close.choice("unreconciled", "list", "refuse", default=default.unreconciled),
        needs_approver=close.flag("approver"),
        keep_days=close.count("keep_days", default.keep_days),
        roles={role: names for role in ROLES if (names := roles.texts(role)) is not None},
    )


_ISO_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")

LEDGER = "ledger"

OWN_WORDS = "words.toml"

_NAMES = (
    "name level blank ledger_rounding accept_days stale_hours listed most_breaks "
    "tolerance alias ledger inbox late file roles close"
)

_TOLERANCE = "absolute relative limit limit_in_all asset"

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

# [file."coinbase*"]            # what files of a name cover: one name, or a list
# venue = "coinbase"
# keeps = "8 decimals"          # of each amount; also "8 decimals, cut off", "11 digits", "doubles"
# expected = true               # its ledger is missed where it is not there

[inbox]
# "statement_*.pdf" = "unused"  # or "ledger", of one that is read beside another of its name

# [roles]                       # who may sign; only the highest of these roles closes and restates
# preparer = ["ada"]            # user names of this machine, or names as they are typed
# reviewer = ["grace"]
# approver = ["margaret"]

# [close]
# unsigned = "list"             # or "refuse": a month with unsigned days is not closed
# open_breaks = "list"          # or "refuse": nor one whose last day has open breaks
# unreconciled = "list"         # or "refuse": nor one with days without a ledger or a book
# approver = true               # an approver signs its last day; a second person accepts breaks
# keep_days = 400               # of ledgers that a pack has; the packs stay

[alias.asset]
# XBT = "BTC"

[alias.venue]

[alias.account]

[alias.portfolio]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All that a person settled; `digest` is the SHA-256 of the file as it was read.

    `limit` and `limit_in_all` are the parts of an asset, and of all, that tolerance may forgive.
    `inbox` says of names, or patterns of names, that a file is `unused` or a `ledger` of its own;
    `late` has by day the ledgers of other days that are used for it, `files` what was settled of
    files by their names. `words` has every line by its place, as `tolerance.absolute`; `own_words`
    is the text of the person's own `words.toml`, whose words are known in headers besides ours.
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
        """Return what a person said of a file: its own name counts before a pattern."""
        matching = (pattern for pattern in self.inbox if fnmatchcase(name, pattern))
        return self.inbox.get(name) or self.inbox.get(next(matching, ""), "")

    def of_file(self, name: str, sheet: str = "") -> FileSettings:
        """Return what was settled of a file, or of one of its tabs, by its name."""
        return of_file(self.files, name, sheet)


def read_config(path: Path) -> Config:
    """Read the configuration, or what stands in the template where there is no file.

    Raises `NotReconciled` with every complaint in one message.
    """
    content = path.read_bytes() if path.exists() else TEMPLATE.encode()
    return parse_config(content, path)


def parse_config(content: bytes, path: Path) -> Config:
    """Read the configuration from what stands in a file, or is to be written into it.

    Raises `NotReconciled` with every complaint in one message.
    """
    try:
        words = tomllib.loads(join_tables(content.decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotReconciled(
            f"{path.name} is not TOML: {error}. Nothing was reconciled. Mend that line."
        ) from error
    # Below a table nothing can be said of the whole any more, so that what is pasted at the end
    # has a table of its own for that.
    complaints: list[str] = []
    of_whole = TomlTable(words, complaints).table("settings").values
    words.pop("settings", None)
    table = TomlTable({**words, **of_whole}, complaints)
    config = _config(table, hashlib.sha256(content).hexdigest())
    if table.complaints:
        raise NotReconciled(
            f"{path.name} cannot be used: {'; '.join(table.complaints)}. Nothing was reconciled."
        )
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
            f"{path.name} is no text in UTF-8: {error}. Nothing was reconciled. Save it so."
        ) from error


def _config(file: TomlTable, digest: str) -> Config:
    default = Config()
    file.refuse_unknown(_NAMES)
    tolerance, inbox, aliases = map(file.table, ("tolerance", "inbox", "alias"))
    tolerance.refuse_unknown(_TOLERANCE)
    aliases.refuse_unknown(" ".join(FIELDS))
    per_asset = tolerance.table("asset")
    return Config(
        name=file.choice("name", default=default.name),
        level=_level(file),
        blank=file.choice("blank", "reject", "skip", default=default.blank),
        ledger_rounding=file.choice(
            "ledger_rounding", "number", "written", "off", default=default.ledger_rounding
        ),
        accept_days=file.count("accept_days", default.accept_days),
        stale_hours=file.count("stale_hours", default.stale_hours),
        listed=file.count("listed", default.listed),
        most_breaks=file.count("most_breaks", default.most_breaks),
        absolute=tolerance.amount("absolute", default.absolute),
        relative=tolerance.amount("relative", default.relative),
        limit=tolerance.amount("limit", default.limit),
        limit_in_all=tolerance.amount("limit_in_all", default.limit_in_all),
        per_asset={asset: per_asset.amount(asset) for asset in per_asset.values},
        inbox={name: inbox.choice(name, UNUSED, LEDGER, default=UNUSED) for name in inbox.values},
        aliases={
            dimension: {name: str(id_) for name, id_ in aliases.table(dimension).values.items()}
            for dimension in FIELDS
        },
        shapes={name: shape_of(table) for name, table in file.tables("ledger")},
        late={
            day: _late(day, files, file.complaints)
            for day, files in file.table("late").values.items()
        },
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
    """Return the ledgers of other days that are used for the book of a day."""
    names = files if isinstance(files, dict) and _ISO_DAY.fullmatch(day) else {day: "no table"}
    if all(word == "used" for word in names.values()):
        return frozenset(names)
    complaints.append(f'late.{day} is no table of a day like [late.2026-11-20] with "used"')
    return frozenset()
