"""The sheets behind the figures: Tie-out, Roll-forward, Notices, Mapping, Evidence and Help."""

from warehouse.reconcile.ledger.coverage import worst_first
from warehouse.reconcile.matching.key_resolution import Alias, alias_line
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
    Heading("Level", 10),
    Heading("Name", 22),
    Heading("Asset", 12),
    Heading("Ledger", 12, "amount"),
    Heading("Book", 12, "amount"),
    Heading("Difference", 12, "amount"),
    Heading("Positions", 11, "count"),
    Heading("Breaks", 9, "count"),
    Heading("Result", 16),
    Heading("Sums agree", 10),
    *machine_headings("Ledger, exact", "Book, exact", "Difference, exact"),
    *machine_headings("In breaks, exact", "Within tolerance, exact"),
)
_COMPLETE = (
    *("Ledger", "Sheet", "As of", "Rows", "Used", "Skipped", "Rejected", "Accounted for"),
    "Reason for skipping",
)
_ROLLED = (
    Heading("Asset", 14),
    *(Heading(title, 12, "amount") for title in STEPPED),
    Heading("Adds up", 8),
    *machine_headings(*(f"{title}, exact" for title in STEPPED)),
)
_PAPER_ROWS = 40  # of a table with a line for every asset: about a page
_NOTICES = (
    Heading("Severity", 10),
    Heading("Message", 70),
    Heading("Location", 34),
    Heading("Original text", 34),
)
_MAPPING = (
    Heading("Field", 12),
    Heading("In the ledger", 30),
    Heading("Read as", 30),
    Heading("Matched by", 16),
    Heading("Rows", 9, "count"),
    Heading("Suggestion", 60),
)
_MATCHED_BY = {
    "folded": "case and spaces",
    "alias": "recon.toml",
    "unknown": "not matched",
    "suggested": "not matched",
}
_EVIDENCE = (Heading("Item", 34), Heading("Value", 90))
_HELP = """
Results. The first that applies counts: Rejected (the amount could not be read), Unmapped (a name \
is not known), Portfolio not delivered, Not in ledger, Not in book, Matched, Matched (zero) \
(missing on one side, zero on the other), Ledger precision (the ledger keeps fewer digits), \
Within tolerance, Amount differs.
Breaks are the results that a person must explain: Rejected, Unmapped, Not in ledger, Not in \
book, Amount differs.
Difference is ledger less book. It is calculated from the exact texts, because number cells keep \
15 digits. Exact decimals decide the result, never a formula.
A figure that begins with ~ has more digits than its cell shows. All figures of a line have the \
same number of decimals, and the exact texts are in the columns to the right.
Age counts from Occurred on, the first day of the present occurrence. A break that was away and \
came back is a new occurrence. First seen is the first day of its first occurrence.
Statuses: Open, In progress, Waiting, Explained - accepted. An accepted break opens again if its \
difference changes, if it comes back, or if the acceptance is too old.
Read back from any copy that is saved in out or inbox, as xlsx or ods, sorted, filtered or \
renamed: Status, Owner, Root cause and Comment by Break ID, and the names next to Prepared by and \
Reviewed by. All other cells are not read back.
If two people write different texts for one break, both are in the comment and in Notices.
A signature is valid for this result only. It is void as soon as an amount changes.
""".strip().splitlines()


def write_ties(draft: Draft, content: WorkbookContent) -> None:
    """Write the totals of both sides, and below them that every row of the ledger is counted."""
    on = SheetWriter(draft, TIES, _TIES)
    on.title(f"Totals of ledger and book as of {content.day}, differences first")
    on.heads()
    header = on.row - 1
    ties = sorted(content.ties, key=lambda tie: (not tie.breaks, tie.result == EQUAL))
    on.measure(3, zip(*((tie.ledger, tie.snapshot, tie.difference) for tie in ties), strict=True))
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
    before = "previous book (no previous run: the openings of the ledger are not known)"
    on.title(f"From the {before if is_first else 'previous run'} to {content.day}, per asset")
    header = on.row
    on.heads()
    steps = zip(*(line.steps for line in content.rolled), strict=True)
    on.measure(1, ([text or None for text in texts] for texts in steps))
    for line in content.rolled:
        amounts = [text or None for text in line.steps]
        asset, *_, adds_up = line.line
        on.line([asset, *amounts, adds_up, *amounts])
    with_breaks = sum(line.has_breaks for line in content.rolled)
    on.finish(header, content.footer, frozen=1, paper_rows=max(with_breaks, _PAPER_ROWS))


def write_notices(draft: Draft, content: WorkbookContent) -> None:
    """Write everything that a reader must know, the worst first."""
    on = SheetWriter(draft, NOTICES, _NOTICES)
    on.title("Notices of this reconciliation, the most severe first")
    quiet = [item.notice for item in content.unused if item.severity == "low"]
    in_order = worst_first([*content.notices, *quiet])
    rows = [[notice.severity, notice.words, notice.where, notice.raw] for notice in in_order]
    on.table(rows, content.footer)
    on.hide_if_empty(rows)


def write_mapping(draft: Draft, content: WorkbookContent) -> None:
    """Write which exports were recognised, and every name that was not taken as it was written."""
    on = SheetWriter(draft, MAPPING, _MAPPING)
    rows: list[list[object]] = [
        ["file", source.place_name, source.profile, "its columns", source.used, ""]
        for source in content.ledger.sources
        if source.profile
    ]
    rows += [
        [
            alias.field,
            alias.written,
            alias.name or display_asset(alias.id),
            _MATCHED_BY[alias.how],
            alias.rows,
            _suggestion(alias),
        ]
        for alias in content.outcome.aliases
    ]
    title = "Known exports, and names that differ between ledger and book"
    on.title(title if rows else f"{title}: none")
    on.table(rows, content.footer)
    on.hide_if_empty(rows)


def _suggestion(alias: Alias) -> str:
    if alias.how != "suggested":
        return alias.suggestion
    return f"recon.toml, under [alias.{alias.field}]: {alias_line(alias)}"


def write_evidence(draft: Draft, content: WorkbookContent) -> None:
    """Write what stands behind the figures: versions, times, digests."""
    on = SheetWriter(draft, EVIDENCE, _EVIDENCE)
    on.title("Evidence for the figures")
    on.table([[what, value] for what, value in content.evidence.items()], content.footer)


def write_help(draft: Draft, content: WorkbookContent) -> None:
    """Write one page of words."""
    on = SheetWriter(draft, "Help", (Heading("Help", 110),))
    on.title("How to read this workbook")
    on.table([[text] for text in _HELP], content.footer, frozen=0)
