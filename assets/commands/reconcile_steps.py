"""What can be typed after `nightbook reconcile`."""

import click

from assets.console.completion import BREAKS, complete_from_book
from assets.console.declaration import (
    AS_OF,
    Choice,
    InOrder,
    Trait,
    argument,
    command,
    file_argument,
    format_option,
    option,
)

ROLES = ("preparer", "reviewer", "approver")
ANSWERS, WRITES, WITHOUT_HOME = Trait.ANSWERS, Trait.WRITES, Trait.WITHOUT_HOME


def _step(name: str, summary: str, *parameters: click.Parameter, traits: Trait) -> click.Command:
    """Declare a command of `nightbook reconcile`."""
    traits |= Trait.IN_FIRM
    return command(name, summary, *parameters, run=f"reconcile.{name}", traits=traits)


RECONCILE = InOrder(
    "reconcile",
    help="the book against a ledger: each figure ties out or is a break",
    commands=[
        _step("init", "write settings and a ledger to fill in", traits=WRITES),
        _step("preview", "what would be read of a ledger", file_argument(), traits=ANSWERS),
        _step("setup", "settle what is asked about a ledger", file_argument(), traits=WRITES),
        _step(
            "run",
            "compare; exit code 3 while breaks are open",
            AS_OF,
            option(
                "--restate", default="", metavar="WHY", help="run a day of a closed month again"
            ),
            traits=WRITES,
        ),
        _step("status", "a result and its open breaks", AS_OF, format_option(), traits=ANSWERS),
        _step(
            "history",
            "what was done about a break, by its id",
            argument("break_id", "ID", default="", shell_complete=complete_from_book(BREAKS)),
            format_option(),
            traits=ANSWERS,
        ),
        _step(
            "sign",
            "sign a result",
            AS_OF,
            option("--role", type=Choice(ROLES), default="preparer"),
            option("--who", help="who signs; the user of this machine when not given"),
            option("--comment", default="", help="kept with the signature"),
            traits=WRITES,
        ),
        _step(
            "close",
            "lock a month's days and write all that stands behind them into one file",
            argument("month", "YYYY-MM"),
            traits=WRITES,
        ),
        _step(
            "verify",
            "a workbook against what was signed, or a month's pack on any machine",
            file_argument(default=""),
            format_option(),
            traits=ANSWERS | WITHOUT_HOME,
        ),
    ],
)
