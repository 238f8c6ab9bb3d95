"""The settings in recon.toml, including roles and the requirements for closing a month."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import partial, reduce
from pathlib import Path

from warehouse.reconcile.settings.layout import UNUSED, FileSettings, Shape, file_settings, shape_of
from warehouse.reconcile.settings.materiality import Materiality, materiality_of
from warehouse.reconcile.settings.toml import TomlTable, join_tables, parse_settings, toml_value
from warehouse.reconcile.terms import FIELDS, NotReconciled
from warehouse.spreadsheet.reading.text import fold

ROLES = ("preparer", "reviewer", "approver")

_ISO_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
LEDGER = "ledger"
OWN_WORDS = "words.toml"

_NAMES = (
    "name blank ledger_rounding accept_days stale_hours stale listed most_breaks level tolerance "
    "alias ledger inbox late file roles close materiality"
)
TEMPLATE = Path(__file__).with_name("recon.toml").read_text("utf-8")


def _choice(file: TomlTable, name: str) -> str:
    return file.table("close").choice(name, "list", "refuse", default="list")


def _roles(file: TomlTable) -> dict[str, tuple[str, ...]]:
    roles = file.table("roles")
    return {role: names for role in ROLES if (names := roles.texts(role)) is not None}


def _level(file: TomlTable) -> tuple[str, ...] | None:
    value = file.values.get("level", "auto")
    if value == "auto":
        return None
    if isinstance(value, list) and all(name in FIELDS for name in value) and "asset" in value:
        return tuple(name for name in FIELDS if name in value)
    expected = f'"auto" or a list of {", ".join(FIELDS)}'
    file.complaints.append(f"level is {value!r}, expected {expected}")
    return None


def _tolerance(file: TomlTable, name: str, default: str = "0") -> Decimal:
    return file.table("tolerance").amount(name, Decimal(default))


def _per_asset(file: TomlTable) -> dict[str, Decimal]:
    limits = file.table("tolerance").table("asset")
    return {asset: limits.amount(asset) for asset in limits.values}


def _inbox(file: TomlTable) -> dict[str, str]:
    inbox = file.table("inbox")
    return {name: inbox.choice(name, UNUSED, LEDGER, default=UNUSED) for name in inbox.values}


def _aliases(file: TomlTable) -> dict[str, dict[str, str]]:
    tables = {name: file.table("alias").table(name).values for name in FIELDS}
    return {
        name: {written: str(id_) for written, id_ in values.items()}
        for name, values in tables.items()
    }


def _stale(file: TomlTable) -> dict[str, str]:
    table = file.table("stale")
    return {name: table.choice(name) for name in table.values}


def _late(file: TomlTable) -> dict[str, frozenset[str]]:
    """Return the ledgers from other days that recon.toml allows for each day."""
    late = {}
    for day, files in file.table("late").values.items():
        names = files if isinstance(files, dict) and _ISO_DAY.fullmatch(day) else {day: ""}
        if all(word == "used" for word in names.values()):
            late[day] = frozenset(names)
        else:
            file.complaints.append(
                f"late.{day} must be a table for one day, like [late.2026-11-20], and each value "
                'must be "used"'
            )
    return late


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

    unsigned: str = toml_value(partial(_choice, name="unsigned"))
    open_breaks: str = toml_value(partial(_choice, name="open_breaks"))
    unreconciled: str = toml_value(partial(_choice, name="unreconciled"))
    needs_approver: bool = toml_value(lambda file: file.table("close").flag("approver"))
    keep_days: int = toml_value(lambda file: file.table("close").count("keep_days", 400))
    roles: Mapping[str, tuple[str, ...]] = toml_value(_roles)

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
    `stale` maps portfolios that a person knows to be stale to their last update.
    `own_words` is the content of the user's own `words.toml`, which adds words for headers.
    """

    name: str = toml_value(lambda file: file.choice("name", default="positions"))
    level: tuple[str, ...] | None = toml_value(_level)
    blank: str = toml_value(lambda file: file.choice("blank", "reject", "skip", default="reject"))
    ledger_rounding: str = toml_value(
        lambda file: file.choice("ledger_rounding", "number", "written", "off", default="number")
    )
    accept_days: int = toml_value(lambda file: file.count("accept_days", 30))
    stale_hours: int = toml_value(lambda file: file.count("stale_hours", 48))
    stale: Mapping[str, str] = toml_value(_stale)
    listed: int = toml_value(lambda file: file.count("listed", 500_000))
    most_breaks: int = toml_value(lambda file: file.count("most_breaks", 100_000))
    absolute: Decimal = toml_value(partial(_tolerance, name="absolute"))
    relative: Decimal = toml_value(partial(_tolerance, name="relative"))
    limit: Decimal = toml_value(partial(_tolerance, name="limit", default="0.0001"))
    limit_in_all: Decimal = toml_value(partial(_tolerance, name="limit_in_all", default="0.001"))
    per_asset: Mapping[str, Decimal] = toml_value(_per_asset)
    inbox: Mapping[str, str] = toml_value(_inbox)
    materiality: Materiality | None = toml_value(materiality_of)
    aliases: Mapping[str, Mapping[str, str]] = toml_value(_aliases)
    shapes: Mapping[str, Shape] = toml_value(
        lambda file: {name: shape_of(table) for name, table in file.tables("ledger")}
    )
    late: Mapping[str, frozenset[str]] = toml_value(_late)
    files: tuple[FileSettings, ...] = toml_value(
        lambda file: tuple(file_settings(name, table) for name, table in file.tables("file"))
    )
    close: CloseSettings = toml_value(
        lambda file: CloseSettings(**parse_settings(CloseSettings, file))
    )
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


def read_config(path: Path) -> Config:
    """Read recon.toml, or use the template if the file does not exist.

    Raises `NotReconciled` with all errors in one message.
    """
    return parse_config(path.read_bytes() if path.exists() else TEMPLATE.encode(), path)


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
    _refuse_unknown(table)
    settings = parse_settings(Config, table)
    if complaints:
        problems = "; ".join(dict.fromkeys(complaints))
        raise NotReconciled(f"{path.name} cannot be used: {problems}. Nothing was reconciled.")
    digest, lines = hashlib.sha256(content).hexdigest(), dict(table.lines())
    if own_words := _own_words(path.with_name(OWN_WORDS)):
        lines[OWN_WORDS] = hashlib.sha256(own_words.encode()).hexdigest()
    return Config(**settings, digest=digest, own_words=own_words, words=lines)


def _own_words(path: Path) -> str:
    try:
        return path.read_bytes().decode() if path.exists() else ""
    except UnicodeDecodeError as error:
        raise NotReconciled(
            f"{path.name} is not UTF-8: {error}. Nothing was reconciled. Save it as UTF-8."
        ) from error


def _refuse_unknown(file: TomlTable) -> None:
    file.refuse_unknown(_NAMES)
    file.table("tolerance").refuse_unknown("absolute relative limit limit_in_all asset")
    file.table("alias").refuse_unknown(" ".join(FIELDS))
    file.table("close").refuse_unknown("unsigned open_breaks unreconciled approver keep_days")
    file.table("roles").refuse_unknown(" ".join(ROLES))
