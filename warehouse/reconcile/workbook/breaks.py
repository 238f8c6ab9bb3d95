"""The sheets Breaks, for people to write into, and Resolved."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from warehouse.query.lookup_key import key_of_names
from warehouse.reconcile.comments.edits import WORDING_LABEL
from warehouse.reconcile.ledger.cells.amounts import FLOAT_DIGITS
from warehouse.reconcile.matching.names import in_name_cell
from warehouse.reconcile.store.records import ACCEPTED, STATUSES, Break
from warehouse.reconcile.terms.dimensions import DIMENSIONS, FIELDS, WITH_IDS
from warehouse.reconcile.workbook.content import (
    BREAKS,
    FIRST,
    HEADER,
    RESOLVED,
    WORDING,
    WorkbookContent,
)
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
