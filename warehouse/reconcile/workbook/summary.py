"""The workbook's first sheet (Summary, which includes the trends) and its audit trail."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

from warehouse.contract.model import count_of
from warehouse.reconcile.model import (
    AGE_BANDS,
    EQUAL,
    TITLES,
    UNASSIGNED,
    Result,
    TrendNight,
    unused_by_reason,
)
from warehouse.reconcile.terms import display_asset
from warehouse.reconcile.workbook.content import TIES, TRAIL, WorkbookContent
from warehouse.reconcile.workbook.edits import ROLES
from warehouse.reconcile.workbook.sheet import LETTERS, Formula, Heading, SheetWriter
from warehouse.spreadsheet.writing.format import Draft, must, print_set_up

TREND_NIGHTS = 14  # number of nights in the tables and charts of trends
_MAX_OWNERS, _MAX_ASSETS, _MAX_UNUSED, _MAX_URGENT, _MAX_TRAIL = 4, 10, 40, 6, 2000
_OTHERS = "others"
_TRAIL = tuple(map(Heading, TITLES, (19, 16, 22, 16, 60, 30, 34)))
_COLOURS = ("#9DB8D9", "#4F81BD", "#F2A33A", "#B3261E", "#7F7F7F")
_CHART_HEIGHT, _ROW_HEIGHT = 240, 20  # heights of a chart and of a row below it, in pixels

_COLUMNS = (
    Heading("", 24),
    *(Heading("", width, "amount") for width in (22, 18, 18)),
    *(Heading("", width) for width in (14, 16)),
)

_LAST = len(_COLUMNS) - 1
_CHANGES = ("new", "returned", "changed", "unchanged")
_PAGE_ROWS = 80
_LINE = 130  # number of characters that fit on a line across all columns


def _write_trends(draft: Draft, sheet: SheetWriter, content: WorkbookContent) -> None:
    """Write tables of recent nights' open breaks by age and by owner, each with a chart."""
    nights = content.over_time.nights
    if len(nights) == 1:  # A single night is not a trend, so write nothing.
        return
    sheet.worksheet.set_h_pagebreaks([sheet.row])
    bands = [f"{label}, open" for label, _, _ in AGE_BANDS]
    _write_trend(draft, sheet, "age", bands, [(night.day, night.ages) for night in nights])
    counts = sum((Counter(night.owners) for night in nights), Counter[str]())
    names = sorted(counts, key=lambda name: (-counts[name], not name, name))
    shown = names if len(names) <= _MAX_OWNERS else [*names[: _MAX_OWNERS - 1], _OTHERS]
    lines = [(night.day, _by_owner(night, shown)) for night in nights]
    _write_trend(draft, sheet, "owner", [name or UNASSIGNED for name in shown], lines)


def _by_owner(night: TrendNight, shown: Sequence[str]) -> tuple[int, ...]:
    counts = [night.owners.get(name, 0) for name in shown]
    if _OTHERS in shown and _OTHERS not in night.owners:
        counts[-1] = sum(night.owners.values()) - sum(counts)
    return tuple(counts)


def _write_trend(
    draft: Draft,
    sheet: SheetWriter,
    group: str,
    titles: Sequence[str],
    lines: Sequence[tuple[date, tuple[int, ...]]],
) -> None:
    """Write a table of counts per night, and below it a chart of these counts."""
    if not titles:
        return
    header = sheet.row
    blanks = [""] * (_LAST - 1 - len(titles))
    sheet.heads((f"Open breaks by {group}", *titles, "Total", *blanks), range(1, len(_COLUMNS)))
    for day, counts in lines:
        sheet.add(day, *counts, sum(counts))
    chart = draft.book.add_chart({"type": "column", "subtype": "stacked"})
    first, last = header + 1, sheet.row - 1
    for column, colour in zip(range(1, len(titles) + 1), _COLOURS, strict=False):
        chart.add_series(
            {
                "name": [sheet.name, header, column],
                "categories": [sheet.name, first, 0, last, 0],
                "values": [sheet.name, first, column, last, column],
                "fill": {"color": colour},
                "gap": 60,
            }
        )
    chart.set_title({"name": f"Open breaks by {group}, night by night", "name_font": {"size": 10}})
    chart.set_x_axis({"text_axis": True, "num_format": "dd mmm", "num_font": {"size": 8}})
    chart.set_y_axis({"num_format": "0", "major_gridlines": {"visible": True}, "min": 0})
    chart.set_legend({"position": "bottom"})
    chart.set_size({"width": 840, "height": _CHART_HEIGHT})
    sheet.row += 1
    must(sheet.worksheet.insert_chart(sheet.row, 0, chart, {"object_position": 1}))
    sheet.row += _CHART_HEIGHT // _ROW_HEIGHT + 2


def write_trail(draft: Draft, content: WorkbookContent) -> None:
    """Write the actions in the book's month (who did what, and when), oldest first."""
    lines = content.over_time.trail
    sheet = SheetWriter(draft, TRAIL, _TRAIL)
    more = "" if lines else ": none"
    if len(lines) > _MAX_TRAIL:
        earlier = count_of(len(lines) - _MAX_TRAIL, "earlier line")
        more = f"; {earlier} in ops.annotations and the pack"
    title = f"Actions in {content.run.day:%Y-%m} before this run{more}"
    sheet.titled_table(title, lines[-_MAX_TRAIL:], content.footer)


def write_summary(draft: Draft, content: WorkbookContent) -> None:
    """Write the first sheet. It is protected without a password, except for the sign-off cells."""
    sheet = SheetWriter(draft, "Summary", _COLUMNS)
    sheet.title(f"Reconciliation: {content.run.name}")
    must(sheet.worksheet.write_datetime(sheet.row, 1, content.run.day, draft.formats.day))
    draft.book.define_name("as_of", f"=Summary!$B${sheet.row + 1}")
    sheet.add("As of")
    sheet.add("Book", content.source.snapshot_id)
    sheet.add("Run", content.run.run_id)
    unused = content.run.coverage.in_all
    not_used = f"{unused}: see below" if unused else "nothing: everything in the inbox was read"
    _spread(sheet, ((0, 0, "Compared by"), (1, _LAST, content.run.coverage.level)))
    _spread(sheet, ((0, 0, "Not used"), (1, _LAST, not_used)))
    _write_banner(draft, sheet, content)
    _write_coverage(sheet, content)
    _write_counters(sheet, content)
    _write_ages(sheet, content)
    _write_assets(sheet, content)
    _write_signatures(draft, sheet, content)
    _write_trends(draft, sheet, content)
    sheet.fit(0, sheet.row)
    sheet.worksheet.print_area(0, 0, sheet.row, _LAST)
    print_set_up(sheet.worksheet, footer=f"{content.footer}, Summary")
    sheet.worksheet.set_portrait()
    sheet.worksheet.fit_to_pages(1, 1 if sheet.row <= _PAGE_ROWS else 0)
    sheet.worksheet.protect("", {"format_columns": True, "format_rows": True})


def _write_banner(draft: Draft, sheet: SheetWriter, content: WorkbookContent) -> None:
    breaks = content.run.breaks
    total, number = len(breaks), sum(break_.is_open for break_ in breaks)
    cells, status = content.cells("A"), content.cells("M")
    settled = "".join(f'-COUNTIF({status},"{name}")' for name in content.final_statuses)
    counted = f"COUNTA({cells}){settled}"
    noun = f'IF({counted}=1," open break ("," open breaks (")'
    partial = "" if content.run.is_whole else f"; {content.run.extent}"
    formula = f'={counted}&{noun}&COUNTA({cells})&" in total){partial}"'
    # The stored result has no thousands separators, because the formula does not write them.
    words = f"{number} open break{'s' * (number != 1)} ({total} in total){partial}"
    # The banner is green if no break is open and every position was compared.
    kind = "bad" if number or content.run.is_lost else "fair" if partial else "good"
    sheet.worksheet.set_row(sheet.row, 24)
    shape = getattr(draft.formats, kind)
    _across(sheet, "", shape)
    sheet.formula(0, Formula(formula, words), shape)
    sheet.row += 1
    _write_warnings(draft, sheet, content)
    sheet.row += 1


def _write_warnings(draft: Draft, sheet: SheetWriter, content: WorkbookContent) -> None:
    """Write a line about unread files, and the most severe notices."""
    unread = sum(item.count for item in content.run.coverage.unused if item.severity == "high")
    if unread:
        words = f"NOT EVERYTHING WAS READ: {count_of(unread, 'file')} in the inbox, see below"
        _across(sheet, words, draft.formats.bad)
        sheet.row += 1
    # The lines below list the unused parts, so do not repeat notices of medium severity about them.
    below = {item.notice for item in content.run.coverage.unused if item.severity == "medium"}
    urgent = [
        notice
        for notice in content.run.notices
        if notice.severity in ("high", "medium") and notice not in below
    ]
    for notice in urgent[:_MAX_URGENT]:
        words = ": ".join(filter(None, (notice.location, notice.message)))[:500]
        sheet.worksheet.set_row(sheet.row, 15 * len(textwrap.wrap(words, _LINE)) + 3)
        _across(sheet, words, draft.formats.notice)
        sheet.row += 1
    _add_more(sheet, urgent, _MAX_URGENT)


def _add_more(sheet: SheetWriter, items: Sequence[object], most: int) -> None:
    if len(items) > most:
        sheet.add(f"and {len(items) - most} more: see Notices")


def _across(sheet: SheetWriter, words: str, shape: Any) -> None:
    """Write a string across all columns."""
    must(sheet.worksheet.merge_range(sheet.row, 0, sheet.row, _LAST, words, shape))


def _write_coverage(sheet: SheetWriter, content: WorkbookContent) -> None:
    """Write the files with their levels, the differences within tolerance, and the unused files."""
    sheet.heads(("File", "Compared by", "", "Rows", "", ""))
    for line in content.run.coverage.files:
        _add_wide(sheet, *line)
    *assets, of_all = content.run.coverage.forgiven or [None]
    for forgiven in filter(None, (of_all, *assets[:_MAX_ASSETS])):
        asset, keys, amount, share = forgiven
        _add_wide(sheet, f"Ignored differences: {asset}", keys, f"{amount} of {share}")
    if len(assets) > _MAX_ASSETS:
        more = count_of(len(assets) - _MAX_ASSETS, "more asset")
        _add_wide(
            sheet, f"and of {more}", "", "see the sheet Within tolerance (exact amounts: Tie-out)"
        )
    if content.run.coverage.materiality:
        limits = content.run.coverage.materiality.description
        _add_wide(sheet, "Materiality", limits, content.run.accepted_by_rule or "none by rule")
    lines = unused_by_reason(content.run.coverage.unused)
    for severity, where, reason in lines[:_MAX_UNUSED]:
        name = f"NOT USED ({severity})" if severity != "low" else "not used"
        _add_wide(sheet, name, where, reason)
    _add_more(sheet, lines, _MAX_UNUSED)
    sheet.row += 1


def _add_wide(sheet: SheetWriter, name: str, middle: str, last: str) -> None:
    """Write a row of three strings. The second spans two columns, and the third spans three."""
    _spread(sheet, ((0, 0, name), (1, 2, middle), (3, _LAST, last)))


def _spread(sheet: SheetWriter, texts: Sequence[tuple[int, int, str]]) -> None:
    """Write a row of strings, given as tuples of first column, last column and text."""
    lines = 1
    for first, last, text in texts:
        width = sum(column.width for column in _COLUMNS[first : last + 1])
        lines = max(lines, -(-len(text) // int(width * LETTERS)))
    sheet.worksheet.set_row(sheet.row, 15 * min(lines, 8))
    for first, last, text in texts:
        if last > first:
            must(sheet.worksheet.merge_range(sheet.row, first, sheet.row, last, ""))
        sheet.text(first, text[:1000])
    sheet.row += 1


def _write_counters(sheet: SheetWriter, content: WorkbookContent) -> None:
    sheet.heads(("Result", "Positions", "", "Since the previous run", "Breaks", ""), (1, 4))
    changes = Counter(break_.change for break_ in content.run.breaks)
    first, right = sheet.row + 1, [(change, changes[change]) for change in _CHANGES]
    counters = iter([*right, ("resolved", len(content.run.resolved))])
    for result in Result:
        sheet.add(result.label, content.run.counts[result.value], None, *next(counters, ()))
    sheet.add("Total", Formula(f"=SUM(B{first}:B{sheet.row})", content.run.position_count))
    sheet.row += 1


def _write_ages(sheet: SheetWriter, content: WorkbookContent) -> None:
    """Write a table with formulas that count the breaks by status and by age."""
    sheet.heads(("Breaks by age", *(label for label, _, _ in AGE_BANDS), "Total"), range(1, 6))
    status, age = content.cells("M"), content.cells("K")
    for name in content.statuses:
        row, ages = sheet.row + 1, [b.age_days for b in content.run.breaks if b.status == name]
        bands = (
            Formula(
                f'=COUNTIFS({status},$A{row},{age},">={low}",{age},"<={high}")',
                sum(low <= days <= high for days in ages),
            )
            for _, low, high in AGE_BANDS
        )
        sheet.add(name, *bands, Formula(f"=SUM(B{row}:E{row})", len(ages)))
    sheet.row += 1


def _write_assets(sheet: SheetWriter, content: WorkbookContent) -> None:
    sheet.heads(("Asset", "Ledger", "Book", "Difference", "Breaks", "Result"), range(1, 5))
    of_assets = [tie for tie in content.run.ties if tie.level == "asset"]
    ties = sorted(of_assets, key=lambda tie: (-tie.breaks, tie.asset))[:_MAX_ASSETS]
    amounts = [(tie.ledger, tie.snapshot, tie.difference) for tie in ties]
    sheet.measure(1, zip(*amounts, strict=True))
    for tie, of_tie in zip(ties, amounts, strict=True):
        sheet.scale(1, of_tie)
        for column, amount in enumerate(of_tie, 1):
            sheet.number(column, amount)
        sheet.add(display_asset(tie.asset), None, None, None, tie.breaks, tie.result)
    equal = sum(tie.result == EQUAL for tie in of_assets)
    words = f"{equal:,} of {count_of(len(of_assets), 'asset')} are equal in every position"
    if len(of_assets) > len(ties):
        words += f". The sheet {TIES} contains all {len(of_assets):,} assets"
    _spread(sheet, ((0, _LAST, words),))
    sheet.row += 1


def _write_signatures(draft: Draft, sheet: SheetWriter, content: WorkbookContent) -> None:
    sheet.heads(("Sign-off", "Name", "Comment", "", "", ""))
    names = []
    for label, role in ROLES.items():
        signature = content.signatures.get(role)
        if role == "approver" and not signature and role not in content.over_time.roles:
            continue
        sheet.text(1, signature.who if signature else "", "yellow")
        sheet.text(2, signature.comment if signature else "", "yellow")
        names.append(f"LOWER(TRIM(B{sheet.row + 1}))")
        sheet.add(label.capitalize(), None, None, signature.open_breaks_phrase if signature else "")
    preparer, reviewer, *_ = names
    words = "REVIEWER MUST DIFFER FROM PREPARER"
    formula = f'=IF(AND({preparer}<>"",{preparer}={reviewer}),"{words}","")'
    sheet.formula(0, Formula(formula, ""), draft.formats.label)
    sheet.row += 1
    if content.void:
        sheet.add(content.void)
