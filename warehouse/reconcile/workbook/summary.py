"""What a workbook shows of the nights before: the audit trail, and how many breaks were open."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

from warehouse.contract.model import count_of
from warehouse.reconcile.model import (
    ACCEPTED,
    AGE_BANDS,
    EQUAL,
    STATUSES,
    TITLES,
    UNASSIGNED,
    Result,
    level_words,
    lines_of,
    totals,
    unused_by_reason,
)
from warehouse.reconcile.terms import display_asset
from warehouse.reconcile.workbook.content import TRAIL, TrendNight, WorkbookContent
from warehouse.reconcile.workbook.edits import ROLES
from warehouse.reconcile.workbook.sheet import LETTERS, Heading, SheetWriter
from warehouse.spreadsheet.writing.format import Draft, must, print_set_up

_NIGHTS, _OWNERS, _MOST_LINES = 14, 4, 2000

_OTHERS = "others"

_TRAIL = tuple(
    Heading(title, width) for title, width in zip(TITLES, (19, 16, 22, 16, 60, 30, 34), strict=True)
)

_COLOURS = ("#9DB8D9", "#4F81BD", "#F2A33A", "#B3261E", "#7F7F7F")

_HEIGHT, _ROW = 240, 20  # pixels: of a chart, and of a row of a spreadsheet


def write_trends(draft: Draft, on: SheetWriter, content: WorkbookContent) -> None:
    """Write the open breaks of the last nights by age and by owner, each with a chart."""
    nights = content.over_time.nights
    if len(nights) == 1:  # one night is no trend
        return
    titles = tuple(f"{label}, open" for label, _, _ in AGE_BANDS)
    on.sheet.set_h_pagebreaks([on.row])
    _write_trend(draft, on, ("age", *titles), [(night.day, night.ages) for night in nights])
    counted: Counter[str] = Counter()
    for night in nights:
        counted.update(night.owners)
    names = sorted(counted, key=lambda name: (-counted[name], not name, name))
    shown = names if len(names) <= _OWNERS else [*names[: _OWNERS - 1], _OTHERS]
    lines = [(night.day, _by_owner(night, shown)) for night in nights]
    _write_trend(draft, on, ("owner", *(name or UNASSIGNED for name in shown)), lines)


def _by_owner(night: TrendNight, shown: list[str]) -> tuple[int, ...]:
    counts = [night.owners.get(name, 0) for name in shown]
    if _OTHERS in shown and _OTHERS not in night.owners:
        counts[-1] = sum(night.owners.values()) - sum(counts)
    return tuple(counts)


def _write_trend(
    draft: Draft,
    on: SheetWriter,
    heading: tuple[str, ...],
    lines: list[tuple[date, tuple[int, ...]]],
) -> None:
    """Write a small table of counts by night, and below it the chart of it.

    The first of the titles is what is counted by.
    """
    by, *titles = heading
    if not titles:
        return
    width = len(on.headings)
    blank = [""] * (width - 2 - len(titles))
    head = on.row
    on.heads(("Night", *titles, "Total", *blank), range(1, width))
    first = on.row
    for day, counts in lines:
        on.day(0, day)
        for place, count in enumerate((*counts, sum(counts)), 1):
            on.count(place, count)
        on.row += 1
    chart = draft.book.add_chart({"type": "column", "subtype": "stacked"})
    for place, colour in zip(range(1, len(titles) + 1), _COLOURS, strict=False):
        chart.add_series(
            {
                "name": [on.name, head, place],
                "categories": [on.name, first, 0, on.row - 1, 0],
                "values": [on.name, first, place, on.row - 1, place],
                "fill": {"color": colour},
                "gap": 60,
            }
        )
    chart.set_title({"name": f"Open breaks by {by}, night by night", "name_font": {"size": 10}})
    chart.set_x_axis({"text_axis": True, "num_format": "dd mmm", "num_font": {"size": 8}})
    chart.set_y_axis({"num_format": "0", "major_gridlines": {"visible": True}, "min": 0})
    chart.set_legend({"position": "bottom"})
    chart.set_size({"width": 840, "height": _HEIGHT})
    on.row += 1
    must(on.sheet.insert_chart(on.row, 0, chart, {"object_position": 1}))
    on.row += _HEIGHT // _ROW + 2


def write_trail(draft: Draft, content: WorkbookContent) -> None:
    """Write who did what and when in the month of the book, the newest last."""
    lines = content.over_time.trail
    on = SheetWriter(draft, TRAIL, _TRAIL)
    left = len(lines) - _MOST_LINES
    more = "" if lines else ": none"
    if left > 0:
        more = f"; {count_of(left, 'earlier line')} in ops.annotations and the pack"
    on.title(f"Actions in {content.day:%Y-%m} before this run{more}")
    on.table(lines[-_MOST_LINES:], content.footer)
    on.hide_if_empty(lines)


_COLUMNS = (
    Heading("", 24),
    Heading("", 22, "amount"),
    Heading("", 18, "amount"),
    Heading("", 18, "amount"),
    Heading("", 14),
    Heading("", 16),
)

_CHANGES = ("new", "returned", "changed", "unchanged")

_SHOWN_ASSETS = 10

_UNUSED = 40

_PAGE_ROWS = 80

_LINE = 130  # letters over all columns


def write_summary(draft: Draft, content: WorkbookContent) -> None:
    """Write the first sheet; it is protected without a password but for the sign-off."""
    on = SheetWriter(draft, "Summary", _COLUMNS)
    on.title(f"Reconciliation {content.name}")
    on.text(0, "As of")
    must(on.sheet.write_datetime(on.row, 1, content.day, draft.formats.day))
    draft.book.define_name("as_of", f"=Summary!$B${on.row + 1}")
    on.row += 1
    for label, value in (("Book", content.source.snapshot_id), ("Run", content.run_id)):
        on.text(0, label)
        on.text(1, value)
        on.row += 1
    for label, value in (
        ("Compared at", level_words(content.ledger)),
        ("Not used", _unused_words(content)),
    ):
        _spread(on, ((0, 0, label), (1, len(_COLUMNS) - 1, value)))
    _write_banner(draft, on, content)
    _write_coverage(on, content)
    _write_counters(on, content)
    _write_ages(on, content)
    _write_assets(on, content)
    _write_signatures(on, content)
    write_trends(draft, on, content)
    on.fit(0, on.row)
    on.sheet.print_area(0, 0, on.row, len(_COLUMNS) - 1)
    print_set_up(on.sheet, footer=f"{content.footer}, Summary")
    on.sheet.set_portrait()
    on.sheet.fit_to_pages(1, 1 if on.row <= _PAGE_ROWS else 0)
    on.sheet.protect("", {"format_columns": True, "format_rows": True})


def _unused_words(content: WorkbookContent) -> str:
    in_all = totals(content.unused)
    return f"{in_all}: see below" if in_all else "nothing: everything in the inbox was read"


def _write_banner(draft: Draft, on: SheetWriter, content: WorkbookContent) -> None:
    breaks = content.outcome.breaks
    total, accepted = len(breaks), sum(not break_.is_open for break_ in breaks)
    cells, status = content.cells("A"), content.cells("M")
    counted = f'COUNTA({cells})-COUNTIF({status},"{ACCEPTED}")'
    noun = f'IF({counted}=1," open break ("," open breaks (")'
    partial = "".join(f"; {words}" for words in (content.partial,) if words)
    formula = f'={counted}&{noun}&COUNTA({cells})&" in total){partial}"'
    # Without separators of thousands, as the formula gives it.
    number = total - accepted
    words = f"{number} open break{'s' * (number != 1)} ({total} in total){partial}"
    on.sheet.set_row(on.row, 24)
    # Green says that the whole book ties: nothing is open, and nothing was left out.
    kind = "fair" if partial else "good"
    if total > accepted or content.is_lost:
        kind = "bad"
    _across(on, "", getattr(draft.formats, kind))
    on.formula(0, formula, words, kind)
    on.row += 1
    _write_warnings(draft, on, content)
    on.row += 1


def _write_warnings(draft: Draft, on: SheetWriter, content: WorkbookContent) -> None:
    """Write that something was not read, and the worst of what a reader must know."""
    unread = sum(item.count for item in content.unused if item.severity == "high")
    if unread:
        words = f"NOT EVERYTHING WAS READ: {count_of(unread, 'file')} in the inbox, see below"
        _across(on, words, draft.formats.bad)
        on.row += 1
    # What was not used stands below in whole: here only what nobody decided about.
    below = {item.notice for item in content.unused if item.severity == "medium"}
    urgent = [
        notice
        for notice in content.notices
        if notice.severity in ("high", "medium") and notice not in below
    ]
    for notice in urgent[:6]:
        words = ": ".join(filter(None, (notice.where, notice.words)))[:500]
        on.sheet.set_row(on.row, 15 * len(textwrap.wrap(words, _LINE)) + 3)
        _across(on, words, draft.formats.notice)
        on.row += 1
    if len(urgent) > 6:  # noqa: PLR2004 - as many as are shown above
        on.text(0, f"and {len(urgent) - 6} more: see Notices")
        on.row += 1


def _across(on: SheetWriter, words: str, shape: Any) -> None:
    """Write over all columns of a line."""
    must(on.sheet.merge_range(on.row, 0, on.row, len(_COLUMNS) - 1, words, shape))


def _write_coverage(on: SheetWriter, content: WorkbookContent) -> None:
    """Write what was read and at which level, and everything that was not used, the worst first."""
    on.heads(("File", "Level", "", "Rows", "", ""))
    for name, level, rows in lines_of(content.ledger):
        _wide(on, name, level, rows)
    *assets, of_all = content.outcome.forgiven or [None]
    for line in (of_all, *assets[:_SHOWN_ASSETS]):
        if line:
            asset, keys, amount, share = line
            _wide(on, f"Forgiven of {asset}", keys, f"{amount} of {share}")
    if len(assets) > _SHOWN_ASSETS:
        more = count_of(len(assets) - _SHOWN_ASSETS, "more asset")
        _wide(on, f"and of {more}", "", "see Within tolerance, exact in Tie-out")
    lines = unused_by_reason(content.unused)
    for severity, where, reason in lines[:_UNUSED]:
        _wide(on, f"NOT USED ({severity})" if severity != "low" else "not used", where, reason)
    if len(lines) > _UNUSED:
        on.text(0, f"and {len(lines) - _UNUSED} more: see Notices")
        on.row += 1
    on.row += 1


def _wide(on: SheetWriter, name: str, middle: str, last: str) -> None:
    """Write a line of three texts that may be long: the last ones take two and three columns."""
    _spread(on, ((0, 0, name), (1, 2, middle), (3, len(_COLUMNS) - 1, last)))


def _spread(on: SheetWriter, texts: Sequence[tuple[int, int, str]]) -> None:
    """Write a line of texts that each take the columns from one to another."""
    widths = [sum(column.width for column in _COLUMNS[first : end + 1]) for first, end, _ in texts]
    lines = max(
        -(-len(text) // int(width * LETTERS))
        for (_, _, text), width in zip(texts, widths, strict=True)
    )
    on.sheet.set_row(on.row, 15 * min(max(lines, 1), 8))
    for first, end, text in texts:
        if end > first:
            must(on.sheet.merge_range(on.row, first, on.row, end, ""))
        on.text(first, text[:1000])
    on.row += 1


def _write_counters(on: SheetWriter, content: WorkbookContent) -> None:
    on.heads(("Result", "Positions", "", "Since the previous run", "Breaks", ""), (1, 4))
    changes = {
        change: sum(b.change == change for b in content.outcome.breaks) for change in _CHANGES
    }
    right = [*changes.items(), ("resolved", len(content.resolved))]
    assets = [tie for tie in content.ties if tie.level == "asset"]
    equal = sum(tie.result == EQUAL for tie in assets)
    right.append((f"equal assets, of {len(assets)}", equal))
    for place, result in enumerate(Result):
        on.text(0, result.words)
        on.count(1, content.outcome.counts[result])
        if place < len(right):
            on.text(3, right[place][0])
            on.count(4, right[place][1])
        on.row += 1
    on.text(0, "Total")
    on.formula(1, f"=SUM(B{on.row - len(Result) + 1}:B{on.row})", content.keys, "count")
    on.row += 2


def _write_ages(on: SheetWriter, content: WorkbookContent) -> None:
    """Write breaks by status and age, counted live."""
    on.heads(("Status", *(label for label, _, _ in AGE_BANDS), "Total"), range(1, 6))
    status, age = content.cells("M"), content.cells("K")
    for name in STATUSES:
        on.text(0, name)
        ages = [b.age_days for b in content.outcome.breaks if b.status == name]
        for place, (_, low, high) in enumerate(AGE_BANDS, 1):
            formula = f'=COUNTIFS({status},$A{on.row + 1},{age},">={low}",{age},"<={high}")'
            on.formula(place, formula, sum(low <= days <= high for days in ages), "count")
        on.formula(5, f"=SUM(B{on.row + 1}:E{on.row + 1})", len(ages), "count")
        on.row += 1
    on.row += 1


def _write_assets(on: SheetWriter, content: WorkbookContent) -> None:
    on.heads(("Asset", "Ledger", "Book", "Difference", "Breaks", "Result"), range(1, 5))
    assets = [tie for tie in content.ties if tie.level == "asset"]
    assets = sorted(assets, key=lambda tie: (-tie.breaks, tie.asset))[:_SHOWN_ASSETS]
    amounts = [(tie.ledger, tie.snapshot, tie.difference) for tie in assets]
    on.measure(1, zip(*amounts, strict=True))
    for tie in assets:
        on.scale(1, (tie.ledger, tie.snapshot, tie.difference))
        on.text(0, display_asset(tie.asset))
        on.number(1, tie.ledger)
        on.number(2, tie.snapshot)
        on.number(3, tie.difference)
        on.count(4, tie.breaks)
        on.text(5, tie.result)
        on.row += 1
    on.row += 1


def _write_signatures(on: SheetWriter, content: WorkbookContent) -> None:
    on.heads(("Sign-off", "Name", "Comment", "", "", ""))
    rows = []
    for label, role in ROLES.items():
        signature = content.signatures.get(role)
        if role == "approver" and not signature and role not in content.over_time.roles:
            continue
        on.text(0, label.capitalize())
        on.text(1, signature.who if signature else "", "yellow")
        on.text(2, signature.comment if signature else "", "yellow")
        on.text(3, signature.open_words if signature else "")
        rows.append(on.row + 1)
        on.row += 1
    preparer, reviewer = (f"LOWER(TRIM(B{row}))" for row in rows[:2])
    words = "REVIEWER MUST DIFFER FROM PREPARER"
    on.formula(0, f'=IF(AND({preparer}<>"",{preparer}={reviewer}),"{words}","")', "", "warning")
    on.row += 1
    if content.void:
        on.text(0, content.void)
        on.row += 1
