"""What a workbook shows of the nights before: the audit trail, and how many breaks were open."""

from collections import Counter
from datetime import date

from warehouse.contract.wording import count_of
from warehouse.reconcile.comments.trail import TITLES, trail
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.store.run_facts import (
    AGE_BANDS,
    UNASSIGNED,
    count_ages,
    count_owners,
    newest_facts,
)
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.workbook.content import TRAIL, OverTime, TrendNight, WorkbookContent
from warehouse.reconcile.workbook.sheet import Heading, SheetWriter
from warehouse.spreadsheet.writing.format import Draft, must

_NIGHTS, _OWNERS, _MOST_LINES = 14, 4, 2000
_OTHERS = "others"
_TRAIL = tuple(
    Heading(title, width) for title, width in zip(TITLES, (19, 16, 22, 16, 60, 30, 34), strict=True)
)
_COLOURS = ("#9DB8D9", "#4F81BD", "#F2A33A", "#B3261E", "#7F7F7F")
_HEIGHT, _ROW = 240, 20  # pixels: of a chart, and of a row of a spreadsheet


def look_back(store: Store, config: Config, content: WorkbookContent) -> OverTime:
    """Return what was done in the month of a book, and the nights before it."""
    day = content.day
    return OverTime(
        trail=tuple(trail(store, day.replace(day=1), day, content.run_id)),
        nights=(*_nights_before(store, day), _tonight(content)),
        roles=(*config.close.roles, *(("approver",) if config.close.needs_approver else ())),
    )


def _nights_before(store: Store, day: date) -> list[TrendNight]:
    days = [earlier for earlier in store.days() if earlier < day][-(_NIGHTS - 1) :]
    runs = [run for earlier in days if (run := newest_facts(store, earlier))]
    return [TrendNight(run.day, run.ages, run.owners) for run in runs]


def _tonight(content: WorkbookContent) -> TrendNight:
    breaks = (*content.outcome.breaks, *content.outcome.not_compared)
    unsolved = [break_ for break_ in breaks if break_.is_open]
    return TrendNight(content.day, count_ages(unsolved, content.day), count_owners(unsolved))


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
