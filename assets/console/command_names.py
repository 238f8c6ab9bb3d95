"""The names of all commands, in the order and under the titles of the help.

`assets.commands` has the function of each command, for example `accept_command` in `nights`.
"""

SECTIONS = {
    "Get started": ("demo", "doctor", "install"),
    "Nightly run": ("run", "status", "snapshots", "accept", "reject", "report"),
    "Query and export": ("query", "tables", "trace", "serve", "export", "combine"),
    "Reconciliation": ("reconcile",),
    "Prices and labels": ("reference",),
    "Integrity and storage": ("verify", "prove", "rebuild", "prune", "backup", "restore"),
    "Commands for several machines that share an object store (NIGHTBOOK_LAKE)": (
        *("shelve", "publish"),
    ),
    "Development": ("dev", "sandbox", "api"),
}
COMMANDS = tuple(name for names in SECTIONS.values() for name in names)
MODULES = dict.fromkeys(("accept", "reject", "rebuild", "shelve", "publish"), "nights") | {
    "prove": "verify",
    "restore": "backup",
}
"""The module of each command that shares a module. Other modules are named after their command."""
