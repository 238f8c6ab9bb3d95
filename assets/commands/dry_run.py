"""`--dry-run` of `accept`, `rebuild` and `restore`: what would change, in words or as rows."""

from assets.console.rows import print_records
from assets.home.rehearsal import ROWS, Change, changes, state_changes
from warehouse.contract.wording import first_lines
from warehouse.query.printable import printable
from warehouse.storage.layout import Layout

SHOWN = 40
COLUMNS = ("date", "what", "name", "is_custom_asset", "before", "after")
NOTHING = "none"


def print_changes(before: Layout, after: Layout, form: str | None) -> None:
    """Print what differs between a home and its rehearsal: states, rows, exact totals."""
    states, differences = state_changes(before, after), changes(before, after)
    if form:
        print_records(form, COLUMNS, [*states, *differences])
        return
    print("Nothing was written. What it would change:")
    for state in states:
        print(f"  {state.date}  snapshot {state.name}: {state.before or NOTHING} -> {state.after}")
    lines = list(map(_line, differences))
    for line in first_lines(lines, SHOWN, "change", "--format csv lists them all"):
        print(f"  {line}")
    if not differences:
        print("  no row and no total of any night")


def _line(change: Change) -> str:
    """Return a change on one line; rows that change in content alone say so."""
    before, after = change.before or NOTHING, change.after or NOTHING
    values = "other content" if before == after else f"{before} -> {after}"
    if change.what == ROWS:
        return f"{change.date}  rows of {change.name}: {values}"
    custom = " (custom)" if change.is_custom_asset else ""
    return printable(f"{change.date}  total of {change.name}{custom}: {values}")
