"""The sheets behind the figures: Tie-out, Roll-forward, Notices, Mapping, Evidence and Help."""

from warehouse.reconcile.ledger.coverage import worst_first
from warehouse.reconcile.matching.totals import EQUAL, STEPPED
from warehouse.reconcile.terms.dimensions import display_asset
from warehouse.reconcile.workbook.content import (
    EVIDENCE,
    MAPPING,
    NOTICES,
    ROLLED,
    TIES,
    WorkbookContent,
)
from warehouse.reconcile.workbook.sheet import Heading, SheetWriter, machine_headings
from warehouse.spreadsheet.writing.format import Draft

_TIES = (
    Heading("Per", 10),
    Heading("Of", 22),
    Heading("Asset", 12),
    Heading("Ledger", 12, "amount"),
    Heading("Snapshot", 12, "amount"),
    Heading("Difference", 12, "amount"),
    Heading("Keys", 9, "count"),
    Heading("Breaks", 9, "count"),
    Heading("Result", 16),
    Heading("Sums agree", 10),
    *machine_headings("Ledger, exact", "Snapshot, exact", "Difference, exact"),
    *machine_headings("Of breaks, exact", "Within tolerance, exact"),
)
_COMPLETE = (
    *("Ledger", "Sheet", "As of", "Rows", "Used", "Skipped", "Rejected", "Accounted for"),
    "Skipped because",
)
_ROLLED = (
    Heading("Asset", 14),
    *(Heading(title, 12, "amount") for title in STEPPED),
    Heading("Adds up", 8),
    *machine_headings(*(f"{title}, exact" for title in STEPPED)),
)
_PAPER_ROWS = 40  # of a table that says the same of every asset: about a page
_NOTICES = (
    Heading("Severity", 10),
    Heading("What", 70),
    Heading("Where", 34),
    Heading("As it stood there", 34),
)
_MAPPING = (
    Heading("Field", 12),
    Heading("Written", 30),
    Heading("Taken for", 30),
    Heading("How", 12),
    Heading("Rows", 9, "count"),
    Heading("Perhaps", 30),
)
_EVIDENCE = (Heading("What", 34), Heading("Value", 90))
_HELP = """
Results, the first that holds: Rejected (the amount could not be read), Unmapped (a name is not \
known), Portfolio not delivered, Not in ledger, Not in snapshot, Matched, Matched (zero) (nothing \
on one side, zero on the other), Ledger precision (the ledger keeps fewer digits), Within \
tolerance, Amount differs.
Breaks are those that somebody must explain: Rejected, Unmapped, Not in ledger, Not in snapshot, \
Amount differs.
Difference is ledger less snapshot. It is calculated from the exact texts, since numbers of a \
spreadsheet keep 15 digits; the verdict was made by exact decimals and never by a formula.
Statuses: Open, In progress, Waiting, Explained - accepted. An accepted break opens again when \
its difference changes, when it comes back, or when the acceptance is too old.
What is read back, from any copy saved in out or inbox, as xlsx or ods, sorted, filtered or \
renamed: Status, Owner, Root cause and Comment by Break ID, and the names beside Prepared by and \
Reviewed by. Everything else is ignored.
Where two people said different things of one break, both stand in the comment and in Notices.
A sign-off holds for this result only: it is void as soon as an amount changes.
""".strip().splitlines()


def write_ties(draft: Draft, content: WorkbookContent) -> None:
    """Write the totals of both sides, and below them that every row of the ledger is counted."""
    on = SheetWriter(draft, TIES, _TIES)
    on.title(f"Totals of ledger and snapshot as of {content.day}, what differs first")
    on.heads()
    header = on.row - 1
    ties = sorted(content.ties, key=lambda tie: (not tie.breaks, tie.result == EQUAL))
    for place, name in enumerate(("ledger", "snapshot", "difference"), 3):
        on.measure(place, (getattr(tie, name) for tie in ties))
    for tie in ties:
        name = content.names.get(tie.level, {}).get(tie.of, tie.of)
        of = display_asset(name) if tie.level == "asset" else name
        amounts = (tie.ledger, tie.snapshot, tie.difference)
        agree = "yes" if tie.adds_up else "NO"
        result = (tie.keys, tie.breaks, tie.result, agree)
        exact = (*amounts, tie.broken, tie.near)
        on.line([tie.level, of, display_asset(tie.asset), *amounts, *result, *exact])
    with_breaks = sum(bool(tie.breaks) for tie in ties)
    on.finish(header, content.footer, frozen=3, paper_rows=max(with_breaks, _PAPER_ROWS))
    _complete(on, content)


def _complete(on: SheetWriter, content: WorkbookContent) -> None:
    on.row += 1
    on.heads(_COMPLETE, range(3, 7))
    for source in content.ledger.sources:
        row = on.row + 1
        skipped = sum(source.skipped.values())
        on.text(0, source.name)
        on.text(1, source.sheet)
        on.text(2, source.as_of.isoformat() if source.as_of else "not stated")
        numbers = (source.rows, source.used, skipped, source.rejected)
        for place, number in enumerate(numbers, 3):
            on.count(place, number)
        formula = f'=IF(D{row}=E{row}+F{row}+G{row},"yes","NO")'
        on.formula(7, formula, "yes" if source.is_complete else "NO")
        on.text(8, ", ".join(f"{reason}: {count}" for reason, count in source.skipped.items()))
        on.row += 1


def write_roll_forward(draft: Draft, content: WorkbookContent) -> None:
    """Write how both sides, and the breaks, came from the run before to this one."""
    on = SheetWriter(draft, ROLLED, _ROLLED)
    is_first = not any(line.ledger[0] for line in content.rolled)
    before = "book before (no run before: openings of the ledger are not known)"
    on.title(f"From the {before if is_first else 'run before'} to {content.day}, per asset")
    header = on.row
    on.heads()
    steps = zip(*(line.steps for line in content.rolled), strict=True)
    for place, texts in enumerate(steps, 1):
        on.measure(place, (text or None for text in texts))
    for line in content.rolled:
        amounts = [text or None for text in line.steps]
        asset, *_, adds_up = line.line
        on.line([asset, *amounts, adds_up, *amounts])
    with_breaks = sum(line.has_breaks for line in content.rolled)
    on.finish(header, content.footer, frozen=1, paper_rows=max(with_breaks, _PAPER_ROWS))


def write_notices(draft: Draft, content: WorkbookContent) -> None:
    """Write everything that a reader must know, the worst first."""
    on = SheetWriter(draft, NOTICES, _NOTICES)
    on.title("What to know of this reconciliation")
    quiet = [item.notice for item in content.unused if item.severity == "low"]
    in_order = worst_first([*content.notices, *quiet])
    rows = [[notice.severity, notice.words, notice.where, notice.raw] for notice in in_order]
    on.table(rows, content.footer)


def write_mapping(draft: Draft, content: WorkbookContent) -> None:
    """Write which exports were recognised, and every name that was not taken as it was written."""
    on = SheetWriter(draft, MAPPING, _MAPPING)
    rows: list[list[object]] = [
        ["file", source.place_name, source.profile, "columns", source.used, ""]
        for source in content.ledger.sources
        if source.profile
    ]
    rows += [
        [
            alias.field,
            alias.written,
            alias.name or display_asset(alias.id),
            alias.how,
            alias.rows,
            alias.suggestion,
        ]
        for alias in content.outcome.aliases
    ]
    title = "Exports that are known by their columns, and names that were not taken as written"
    on.title(title if rows else f"{title}: none")
    on.table(rows, content.footer)


def write_evidence(draft: Draft, content: WorkbookContent) -> None:
    """Write what stands behind the figures: versions, times, digests."""
    on = SheetWriter(draft, EVIDENCE, _EVIDENCE)
    on.title("What stands behind the figures")
    on.table([[what, value] for what, value in content.evidence.items()], content.footer)


def write_help(draft: Draft, content: WorkbookContent) -> None:
    """Write one page of words."""
    on = SheetWriter(draft, "Help", (Heading("Help", 110),))
    on.title("How to read this workbook")
    on.table([[text] for text in _HELP], content.footer, frozen=0)
