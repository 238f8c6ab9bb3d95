"""The sheets Breaks, for people to write into, and Resolved."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from warehouse.query.origins import key_of_names
from warehouse.reconcile.book import in_name_cell
from warehouse.reconcile.model import (
    ACCEPTED,
    EQUAL,
    FLOAT_DIGITS,
    STATUSES,
    STEPPED,
    Alias,
    Break,
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
from warehouse.reconcile.workbook.sheet import Heading, SheetWriter, machine_headings
from warehouse.spreadsheet.writing.exact_difference import can_be_live, difference, fixed_point
from warehouse.spreadsheet.writing.format import Draft, must
from warehouse.spreadsheet.writing.plain_sheet import Formula

LISTS = "Lists"

LONGEST_COMMENT = 1000

_PAPER_DECIMALS, _PAPER_DIGITS = 8, 16

MOST_LIVE = 5000  # breaks: beyond, formulas would take longer to open than they are worth

ROOT_CAUSES = (
    *("Timing", "Transfer not booked", "Trade not booked", "Fee", "Reward or interest"),
    *("Mapping", "Ledger error", "Book error", "Rounding", "Other"),
)

_DIFFERENCE = difference("S#", "T#").removeprefix("=")  # of the exact texts, in row #

_NAMES = tuple(Heading(name.capitalize(), known.width) for name, known in DIMENSIONS.items())

# So wide that all of them, one page wide on A4, are printed with letters of 8 points.
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
    *machine_headings("First seen", width=11, kind="text"),
    *machine_headings("Occurrence", width=11, kind="text"),
    *machine_headings("Key", width=21, kind="text"),
    *machine_headings(*(f"{name.capitalize()} id" for name in WITH_IDS), width=24, kind="text"),
)

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


def _headings(fields: Sequence[str]) -> tuple[Heading, ...]:
    """Return the columns, always the same; names that this level does not have are hidden."""
    absent = {name.capitalize() for name in FIELDS if name not in fields}
    return tuple(
        replace(heading, is_hidden=True) if heading.title in absent else heading
        for heading in HEADINGS
    )


def write_breaks(draft: Draft, content: WorkbookContent) -> None:
    """Write the sheet Breaks: what was found, and yellow cells for what people say."""
    on = SheetWriter(draft, BREAKS, _headings(content.outcome.fields))
    advice = "write into the yellow cells, then save the file anywhere in the folder out"
    on.title(f"Breaks as of {content.day}: {advice if content.outcome.breaks else 'none'}")
    on.heads()
    breaks = content.outcome.breaks
    amounts = zip(*((b.ledger, b.snapshot, b.difference) for b in breaks), strict=True)
    on.measure(7, amounts, decimals=_PAPER_DECIMALS, shown=_PAPER_DIGITS)
    is_live = len(breaks) <= MOST_LIVE
    for break_ in breaks:
        _break(on, break_, content.outcome.fields, is_live=is_live)
    if not breaks:
        on.row += 1
    _rules(draft, on, content)
    on.sheet.ignore_errors({"number_stored_as_text": f"A{FIRST}:AE{content.last}"})
    on.finish(HEADER - 1, content.footer, frozen=4)


def _break(on: SheetWriter, break_: Break, fields: Sequence[str], *, is_live: bool) -> None:
    row = on.row + 1
    ledger, snapshot, exact_difference = exact_amounts(break_)
    # Three columns are formulas, so that a reader can follow them; their values stand beside them
    # for programs that do not calculate.
    difference_: object = exact_difference or None
    if is_live and ledger and can_be_live(ledger, snapshot):
        formula = _DIFFERENCE.replace("#", str(row))
        difference_ = Formula(formula, float(break_.difference), break_.difference)
    is_equal = "yes" if ledger == snapshot else "no"
    on.line(
        [
            *(break_.id, break_.result_words, *_names(break_.names)),
            *(break_.ledger, break_.snapshot, difference_),
            Formula(f"as_of-Q{row}", break_.age_days),
            "; ".join(filter(None, (break_.note, break_.cause))),
            *(break_.status, break_.owner, break_.root_cause, break_.comment),
            *(break_.first_seen, break_.change, ledger, snapshot, exact_difference),
            Formula(f'IF(EXACT(S{row},T{row}),"yes","no")', is_equal),
            *(_digits(break_), break_.source, break_.rule, break_.accepted),
            *(break_.ever_seen, break_.episode, *_ids(break_, fields)),
        ]
    )


def exact_amounts(break_: Break) -> tuple[str, str, str]:
    """Return the exact texts of ledger, book and difference; blank if no amount was read."""
    ledger, book = fixed_point(break_.ledger), fixed_point(break_.snapshot)
    if break_.is_unread:
        return "", book, ""
    return ledger, book, break_.difference


def _ids(break_: Break, fields: Sequence[str]) -> list[str | None]:
    """Return the key for lookups, and the ids of what is shown by its name."""
    ids = dict(zip(fields, break_.key, strict=True))
    shown = (ids.get(name) for name in WITH_IDS)
    return [key_of_names(ids.items()), *(in_name_cell(id_) if id_ else None for id_ in shown)]


def _names(names: Mapping[str, str]) -> list[str | None]:
    return [in_name_cell(names[name]) if name in names else None for name in FIELDS]


def _digits(break_: Break) -> str:
    long = [
        text
        for text in (break_.ledger, break_.snapshot)
        if text and len(text.replace(".", "").strip("-0")) > FLOAT_DIGITS
    ]
    return "rounded" if long else "exact"


def _rules(draft: Draft, on: SheetWriter, content: WorkbookContent) -> None:
    """Set choices for the yellow cells, and colours by age and status."""
    last = content.last
    status: dict[str, Any] = {
        "validate": "list",
        "source": f"={LISTS}!$B$4:$B${3 + len(STATUSES)}",
        "error_type": "warning",
    }
    cause = status | {"source": f"={LISTS}!$C$4:$C${3 + len(ROOT_CAUSES)}"}
    comment = {
        "validate": "length",
        "criteria": "<=",
        "value": LONGEST_COMMENT,
        "error_type": "warning",
        "error_message": f"Keep comments below {LONGEST_COMMENT} characters.",
    }
    for letters, rule in (("M", status), ("O", cause), ("P", comment)):
        must(on.sheet.data_validation(f"{letters}{FIRST}:{letters}{last}", rule))
    old = draft.book.add_format({"bg_color": "#FFC7CE"})
    done = draft.book.add_format({"font_color": "#7F7F7F"})
    rules = (
        (f"K{FIRST}:K{last}", f"=AND(ISNUMBER($K{FIRST}),$K{FIRST}>=30)", old),
        (f"A{FIRST}:L{last}", f'=$M{FIRST}="{ACCEPTED}"', done),
    )
    for area, criteria, shape in rules:
        condition = {"type": "formula", "criteria": criteria, "format": shape}
        must(on.sheet.conditional_format(area, condition))


def write_resolved_breaks(draft: Draft, content: WorkbookContent) -> None:
    """Write the breaks of the run before that are gone, with what was last said of them."""
    on = SheetWriter(draft, RESOLVED, _RESOLVED)
    on.title(f"Breaks resolved by {content.day}{'' if content.resolved else ': none'}")
    rows = [
        [
            *(break_.id, break_.result_words, *_names(break_.names)),
            break_.difference,
            *(break_.first_seen.isoformat(), break_.closed_on.isoformat(), break_.closed_because),
            *(break_.status, break_.owner, break_.comment),
        ]
        for break_ in content.resolved
    ]
    on.table(rows, content.footer)
    on.hide_if_empty(rows)


def write_lists(draft: Draft, content: WorkbookContent) -> None:
    """Write the hidden sheet: choices, and what the workbook was made from."""
    paper = draft.book.add_worksheet(LISTS)
    rows = [
        ("run_id", content.run_id, ""),
        ("base_revision", str(content.revision), ""),
        ("written", content.written, ""),
        *(("", *choices) for choices in zip_longest(STATUSES, ROOT_CAUSES, fillvalue="")),
        (WORDING_LABEL, str(WORDING), ""),
    ]
    for number, row in enumerate(rows):
        for place, text in enumerate(row):
            if text:
                must(paper.write_string(number, place, text))
    paper.hide()


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
