"""The workbook's sheets, except Summary, the audit trail and the table of all positions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from xlsxwriter.utility import xl_col_to_name

from warehouse.query.lookup_keys import key_of_names
from warehouse.reconcile.book import in_name_cell
from warehouse.reconcile.model import (
    EQUAL,
    FLOAT_DIGITS,
    STATUSES,
    STEPPED,
    Break,
    DisplayNames,
    Tie,
    alias_line,
    worst_first,
)
from warehouse.reconcile.terms import DIMENSIONS, FIELDS, WITH_IDS, display_asset
from warehouse.reconcile.workbook.content import (
    BREAKS,
    EVIDENCE,
    FIRST,
    HEADER,
    MAPPING,
    NOTICES,
    RESOLVED,
    ROLLED,
    TIES,
    WORDING,
    WorkbookContent,
)
from warehouse.reconcile.workbook.edits import WORDING_LABEL
from warehouse.reconcile.workbook.sheet import (
    Formula,
    Heading,
    SheetWriter,
    help_lines,
    machine_headings,
)
from warehouse.spreadsheet.writing.cells import can_be_live, difference, fixed_point
from warehouse.spreadsheet.writing.format import Draft, must

LISTS = "Lists"
MAX_COMMENT_LENGTH = 1000
_PAPER_DECIMALS, _PAPER_DIGITS = 8, 16
# Write more breaks than this without formulas, so that the workbook opens fast enough.
MAX_LIVE = 5000

ROOT_CAUSES = (
    *("Timing", "Transfer not booked", "Trade not booked", "Fee", "Reward or interest"),
    *("Mapping", "Ledger error", "Book error", "Rounding", "Other"),
)

# The formula for the difference, with # in place of the row number.
_DIFFERENCE = difference("S#", "T#").removeprefix("=")
_NAMES = tuple(Heading(name.capitalize(), known.width) for name, known in DIMENSIONS.items())

# With these widths, all printed columns fit on one A4 page at 8 points.
HEADINGS = (
    Heading("Break ID", 13),
    Heading("Result", 8),
    *_NAMES,
    Heading("Ledger", 12, "amount"),
    Heading("Book", 12, "amount"),
    Heading("Difference", 12, "amount"),
    Heading("Age days", 4.5),
    Heading("Likely cause", 17),
    Heading("Status", 8, "yellow"),
    Heading("Owner", 7, "yellow"),
    Heading("Root cause", 8, "yellow"),
    Heading("Comment", 12, "yellow"),
    *machine_headings("Occurred on", "vs. previous run", width=11, kind="text"),
    *machine_headings("Ledger, exact", "Book, exact", "Difference, exact"),
    *machine_headings("Digits equal?", width=9, kind="text"),
    *machine_headings("Shown amounts", width=10, kind="text"),
    *machine_headings("Ledger source", width=30, kind="text"),
    *machine_headings("Tolerance rule", width=16, kind="text"),
    *machine_headings("Accepted difference", width=24),
    *machine_headings("First seen", "Occurrence", width=11, kind="text"),
    *machine_headings("Key", width=21, kind="text"),
    *machine_headings(*(f"{name.capitalize()} id" for name in WITH_IDS), width=24, kind="text"),
    *machine_headings("Value", width=16, kind="amount"),
    *machine_headings("Value, exact", width=24),
    *machine_headings("Currency", "Price state", width=10, kind="text"),
)
_VALUES = ("Value", "Value, exact", "Currency", "Price state")  # hidden without [materiality]

_RESOLVED = (
    Heading("Break ID", 13),
    Heading("Previous result", 15),
    *_NAMES,
    Heading("Difference, exact", 28, "exact"),
    Heading("Occurred on", 11),
    Heading("Closed on", 11),
    Heading("Closed because", 18),
    Heading("Status", 16),
    Heading("Owner", 12),
    Heading("Last comment", 40),
)


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

_PAPER_ROWS = 40  # approximate number of rows on a printed page

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
    "ambiguous": "not matched",
    "wrong alias": "not matched",
}

_EVIDENCE = (Heading("Item", 34), Heading("Value", 90))
_HELP_COLUMN = (Heading("Help", 110),)
_HELP = help_lines("help.txt")


def write_breaks(draft: Draft, content: WorkbookContent) -> None:
    """Write the sheet Breaks, with yellow cells that people fill in."""
    breaks, fields = content.run.breaks, content.run.fields
    # Every workbook has the same columns. If positions have no venue, for example, the columns for
    # the venue are hidden.
    absent = {name.capitalize() for name in FIELDS if name not in fields}
    absent |= set() if content.run.coverage.materiality else {*_VALUES}
    headings = [replace(heading, is_hidden=heading.title in absent) for heading in HEADINGS]
    sheet = SheetWriter(draft, BREAKS, headings)
    advice = 'fill in the yellow cells, then save the file in the "out" folder'
    sheet.title(f"Breaks as of {content.run.day}: {advice if breaks else 'none'}")
    sheet.heads()
    amounts = zip(*((b.ledger, b.snapshot, b.difference) for b in breaks), strict=True)
    sheet.measure(7, amounts, decimals=_PAPER_DECIMALS, shown=_PAPER_DIGITS)
    values = [break_.value for break_ in breaks]
    sheet.measure(len(HEADINGS) - len(_VALUES), [values], decimals=_PAPER_DECIMALS)
    is_live = len(breaks) <= MAX_LIVE
    rows = enumerate(breaks, FIRST)
    sheet.rows(_break_row(break_, fields, row, is_live=is_live) for row, break_ in rows)
    sheet.row += not breaks
    _add_rules(draft, sheet, content)
    area = f"A{FIRST}:{xl_col_to_name(len(HEADINGS) - 1)}{content.last}"
    sheet.worksheet.ignore_errors({"number_stored_as_text": area})
    sheet.finish(HEADER - 1, content.footer, frozen=4)


def _break_row(break_: Break, fields: Sequence[str], row: int, *, is_live: bool) -> list[object]:
    ledger, snapshot, exact_difference = exact_amounts(break_)
    # Three columns contain formulas, so that readers can trace the values. The results are stored
    # too, for programs that do not calculate formulas.
    shown: object = exact_difference or None
    if is_live and ledger and can_be_live(ledger, snapshot):
        formula = _DIFFERENCE.replace("#", str(row))
        shown = Formula(formula, float(break_.difference), break_.difference)
    is_equal = "yes" if ledger == snapshot else "no"
    texts = (text.replace(".", "").strip("-0") for text in (break_.ledger, break_.snapshot) if text)
    ids = dict(zip(fields, break_.key, strict=True))
    return [
        *(break_.id, break_.result_words, *_names(break_.names)),
        *(break_.ledger, break_.snapshot, shown),
        Formula(f"as_of-Q{row}", break_.age_days),
        "; ".join(filter(None, (break_.note, break_.cause))),
        *(break_.status, break_.owner, break_.root_cause, break_.comment),
        *(break_.first_seen, break_.change, ledger, snapshot, exact_difference),
        Formula(f'IF(EXACT(S{row},T{row}),"yes","no")', is_equal),
        "rounded" if any(len(digits) > FLOAT_DIGITS for digits in texts) else "exact",
        *(break_.source, break_.rule, break_.accepted, break_.ever_seen, break_.episode),
        key_of_names(ids.items()),
        *(in_name_cell(ids[name]) if ids.get(name) else None for name in WITH_IDS),
        *(break_.value, break_.value, break_.currency or None, break_.price_state or None),
    ]


def exact_amounts(break_: Break) -> tuple[str, str, str]:
    """Return a break's exact ledger amount, book amount and difference as strings.

    If the ledger amount could not be read, the ledger amount and the difference are blank.
    """
    ledger, book = fixed_point(break_.ledger), fixed_point(break_.snapshot)
    return ("", book, "") if break_.is_unread else (ledger, book, break_.difference)


def _names(names: Mapping[str, str]) -> list[str | None]:
    return [in_name_cell(names[name]) if name in names else None for name in FIELDS]


def _add_rules(draft: Draft, sheet: SheetWriter, content: WorkbookContent) -> None:
    """Add drop-down lists to the yellow cells, and colour rows by age and status."""
    last = content.last
    status: dict[str, Any] = {
        "validate": "list",
        "source": f"={LISTS}!$B$4:$B${3 + len(STATUSES)}",
        "error_type": "warning",
    }
    comment = {
        "validate": "length",
        "criteria": "<=",
        "value": MAX_COMMENT_LENGTH,
        "error_type": "warning",
        "error_message": f"Use at most {MAX_COMMENT_LENGTH} characters in a comment.",
    }
    cause = status | {"source": f"={LISTS}!$C$4:$C${3 + len(ROOT_CAUSES)}"}
    for letter, rule in (("M", status), ("O", cause), ("P", comment)):
        must(sheet.worksheet.data_validation(f"{letter}{FIRST}:{letter}{last}", rule))
    old = {"bg_color": "#FFC7CE"}, f"K{FIRST}:K{last}"
    accepted = {"font_color": "#7F7F7F"}, f"A{FIRST}:L{last}"
    for (colour, area), criteria in (
        (old, f"=AND(ISNUMBER($K{FIRST}),$K{FIRST}>=30)"),
        *((accepted, f'=$M{FIRST}="{name}"') for name in content.final_statuses),
    ):
        shape = draft.book.add_format(colour)
        condition = {"type": "formula", "criteria": criteria, "format": shape}
        must(sheet.worksheet.conditional_format(area, condition))


def write_resolved_breaks(draft: Draft, content: WorkbookContent) -> None:
    """Write the previous run's breaks that are now resolved, with their last comments."""
    title = f"Breaks resolved since the previous run, as of {content.run.day}"
    title += "" if content.run.resolved else ": none"
    rows = [
        [
            *(break_.id, break_.result_words, *_names(break_.names)),
            break_.difference,
            *(break_.first_seen.isoformat(), break_.closed_on.isoformat(), break_.closed_because),
            *(break_.status, break_.owner, break_.comment),
        ]
        for break_ in content.run.resolved
    ]
    SheetWriter(draft, RESOLVED, _RESOLVED).titled_table(title, rows, content.footer)


def write_lists(draft: Draft, content: WorkbookContent) -> None:
    """Write the hidden sheet with the drop-down choices and the ID of the run."""
    worksheet = draft.book.add_worksheet(LISTS)
    rows = [
        ("run_id", content.run.run_id, ""),
        ("base_revision", str(content.run.revision), ""),
        ("written", content.run.written, ""),
        *(("", *choices) for choices in zip_longest(STATUSES, ROOT_CAUSES, fillvalue="")),
        (WORDING_LABEL, str(WORDING), ""),
    ]
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            if text:
                must(worksheet.write_string(number, column, text))
    worksheet.hide()


def tie_cells(tie: Tie, names: DisplayNames) -> list[object]:
    """Return the cells of a total, without its number cells: three names, results and amounts."""
    name = names.get(tie.level, {}).get(tie.of, tie.of)
    name = display_asset(name) if tie.level == "asset" else name
    results = (tie.keys, tie.breaks, tie.result, "yes" if tie.adds_up else "NO")
    amounts = (tie.ledger, tie.snapshot, tie.difference, tie.broken, tie.near)
    return [tie.level, name, display_asset(tie.asset), *results, *amounts]


def write_ties(draft: Draft, content: WorkbookContent) -> None:
    """Write the totals of ledger and book, and below them the row counts of each ledger."""
    sheet = SheetWriter(draft, TIES, _TIES)
    sheet.title(f"Ledger and book totals as of {content.run.day}, differences first")
    header = sheet.row
    sheet.heads()
    ties = sorted(content.run.ties, key=lambda tie: (not tie.breaks, tie.result == EQUAL))
    amounts = ((tie.ledger, tie.snapshot, tie.difference) for tie in ties)
    sheet.measure(3, zip(*amounts, strict=True))
    rows = []
    for tie in ties:
        cells = tie_cells(tie, content.names)
        rows.append([*cells[:3], tie.ledger, tie.snapshot, tie.difference, *cells[3:]])
    sheet.rows(rows)
    with_breaks = sum(bool(tie.breaks) for tie in ties)
    sheet.finish(header, content.footer, frozen=3, paper_rows=max(with_breaks, _PAPER_ROWS))
    sheet.row += 1
    sheet.heads(_COMPLETE, range(3, 7))
    for source in content.run.sources:
        row = sheet.row + 1
        formula = f'=IF(D{row}=E{row}+F{row}+G{row},"yes","NO")'
        sheet.add(
            *(source.name, source.sheet),
            source.as_of.isoformat() if source.as_of else "not stated",
            *(source.rows, source.used, sum(source.skipped.values()), source.rejected),
            Formula(formula, "yes" if source.is_complete else "NO"),
            ", ".join(f"{reason}: {count}" for reason, count in source.skipped.items()),
        )


def write_roll_forward(draft: Draft, content: WorkbookContent) -> None:
    """Write how each asset's totals and breaks changed since the previous run."""
    sheet = SheetWriter(draft, ROLLED, _ROLLED)
    is_first = not any(line.ledger[0] for line in content.rolled)
    earlier = content.over_time.nights[-2:-1]
    before, note = f"the previous run{f' ({earlier[0].day})' if earlier else ''}", ""
    if is_first:
        before = "the previous book"
        note = ". This is the first run, so the ledger has no opening amounts"
    sheet.title(f"Change in each asset from {before} to {content.run.day}{note}")
    header = sheet.row
    sheet.heads()
    steps = [[text or None for text in line.steps] for line in content.rolled]
    sheet.measure(1, zip(*steps, strict=True))
    rows = [
        [line.line[0], *amounts, line.line[-1], *amounts]
        for line, amounts in zip(content.rolled, steps, strict=True)
    ]
    sheet.rows(rows)
    with_breaks = sum(line.has_breaks for line in content.rolled)
    sheet.finish(header, content.footer, frozen=1, paper_rows=max(with_breaks, _PAPER_ROWS))


def write_notices(draft: Draft, content: WorkbookContent) -> None:
    """Write all notices, the most severe first."""
    title = "Notices from this reconciliation, most severe first"
    quiet = [item.notice for item in content.run.coverage.unused if item.severity == "low"]
    rows = [
        (notice.severity, notice.message, notice.location, notice.raw)
        for notice in worst_first([*content.run.notices, *quiet])
    ]
    SheetWriter(draft, NOTICES, _NOTICES).titled_table(title, rows, content.footer)


def write_mapping(draft: Draft, content: WorkbookContent) -> None:
    """List the files in known export formats, and the names that differ between ledger and book."""
    rows: list[Sequence[object]] = [
        ("file", source.place_name, source.profile, "its columns", source.used, "")
        for source in content.run.sources
        if source.profile
    ]
    for alias in content.aliases:
        suggestion = alias.suggestion
        if alias.how == "suggested":
            line = alias_line(alias)
            suggestion = f"add this line under [alias.{alias.field}] in recon.toml: {line}"
        if alias.how == "wrong alias":
            suggestion = f"the alias {suggestion} is not a name in the book"
        name = alias.name or display_asset(alias.id)
        how = _MATCHED_BY[alias.how]
        rows.append((alias.field, alias.written, name, how, alias.rows, suggestion))
    title = "Names that differ between the ledger and the book, and recognised ledger files"
    title += "" if rows else ": none"
    SheetWriter(draft, MAPPING, _MAPPING).titled_table(title, rows, content.footer)


def write_evidence(draft: Draft, content: WorkbookContent) -> None:
    """Write the evidence: versions, timestamps and digests of all inputs."""
    rows = list(content.run.evidence.items())
    title = "Evidence for the figures"
    SheetWriter(draft, EVIDENCE, _EVIDENCE).titled_table(title, rows, content.footer)


def write_help(draft: Draft, content: WorkbookContent) -> None:
    """Write the page that explains the workbook."""
    rows = [(text,) for text in _HELP]
    title = "How to read this workbook"
    SheetWriter(draft, "Help", _HELP_COLUMN).titled_table(title, rows, content.footer)
