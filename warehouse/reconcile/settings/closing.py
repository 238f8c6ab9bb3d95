"""Who may sign in which role, and what a month needs to be closed: `[roles]` and `[close]`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warehouse.reconcile.settings.toml_table import TomlTable
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
