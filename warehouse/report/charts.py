"""The charts: bars of counts and shares, the change of each asset, one asset over time, the nights.

A chart is for the eye: it is drawn with floats and rounds. Every exact figure is in a table or in
the query beside it. No two assets ever share an axis of amounts.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from markupsafe import Markup

from warehouse.contract.states import COMPLETE, HELD, NO_SNAPSHOT, REJECTED
from warehouse.report.svg import WIDTH, Drawing, Point
from warehouse.report.wording import printable

PITCH = 19.0
_BAR = 11.0
_NAMES = 112.0
_VALUES = 58.0
_LONGEST = 17
_MONTHS = 13
_MONTH = 50.0
_CELL = (WIDTH - _MONTH) / 31
_HALF = _CELL * 0.36
_PLOT = 96.0
_AXIS = 16.0
_SCALE = 76.0
AGE_COLOURS = ("second", "main", "warn", "bad")


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands for a night in the calendar: an outline around (0, 0), and its colour."""

    colour: str
    outline: tuple[Point, ...]
    is_hollow: bool = False


_SQUARE = ((-1, -1), (1, -1), (1, 1), (-1, 1))
_PEAK = ((0, -1), (1, 1), (-1, 1))
_DIAMOND = ((0, -1), (1, 0), (0, 1), (-1, 0))
MARKS = {
    "book": Mark("main", _SQUARE),
    NO_SNAPSHOT: Mark("bad", _SQUARE, is_hollow=True),
    HELD: Mark("warn", _PEAK),
    REJECTED: Mark("bad", _DIAMOND),
    COMPLETE: Mark("second", _DIAMOND, is_hollow=True),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One asset of a bar chart: its parts from left to right, and the figure beside."""

    asset_id: str
    is_custom: bool
    parts: tuple[float, ...]
    figure: str


def fit_label(text: str, longest: int = _LONGEST) -> str:
    """Return a name cut to the room there is; wide letters take more of it.

    >>> fit_label("a long name of an asset", 10)
    'a long na…'
    """
    label = printable(text) or '""'
    widths = [_width(char) for char in label]
    if sum(widths) <= longest:
        return label
    used, beginning = 1.0, ""  # room for the ellipsis
    for char, width in zip(label, widths, strict=True):
        used += width
        if used > longest:
            break
        beginning += char
    return f"{beginning}…"


def _label(bar: Bar) -> str:
    """Return the name of a bar, marked where the asset is custom, however little room there is."""
    mark = " (custom)" if bar.is_custom else ""
    return fit_label(bar.asset_id, _LONGEST - len(mark)) + mark


def _width(char: str) -> float:
    """Return how wide a letter is, beside an ordinary one."""
    if unicodedata.east_asian_width(char) in "WF" or char in "WM@%":
        return 2
    if char in "mw" or char.isupper():
        return 1.4
    return 1


def bars(assets: Sequence[Bar], label: str, *, most: str) -> Markup:
    """Draw horizontal bars from zero to `most`; parts are stacked, and all bars share one scale."""
    height = PITCH * len(assets)
    drawing = Drawing(height + _AXIS)
    longest = max((sum(bar.parts) for bar in assets), default=0.0) or 1.0
    room = WIDTH - _NAMES - _VALUES
    for number, bar in enumerate(assets):
        middle = PITCH * (number + 0.5)
        drawing.text(_NAMES - 6, middle, _label(bar), anchor="end")
        left = _NAMES
        for part, colour in zip(bar.parts, ("main", "second", "third"), strict=False):
            width = room * part / longest
            drawing.bar(left, middle - _BAR / 2, width, _BAR, colour)
            left += width
        drawing.text(WIDTH, middle, bar.figure, anchor="end", colour="muted")
    drawing.line([(_NAMES, 0), (_NAMES, height), (_NAMES + room, height)], "line", 1)
    drawing.text(_NAMES, height + _AXIS / 2, "0", anchor="middle", colour="muted")
    drawing.text(_NAMES + room, height + _AXIS / 2, most, anchor="end", colour="muted")
    return drawing.svg(label)


def swings(assets: Sequence[Bar], label: str, most: float) -> Markup:
    """Draw bars to the left for less, to the right for more; beyond `most` they end in an arrow."""
    height = PITCH * len(assets)
    drawing = Drawing(height + _AXIS)
    room = (WIDTH - _NAMES - _VALUES - 16) / 2
    zero = _NAMES + 8 + room
    for number, bar in enumerate(assets):
        middle = PITCH * (number + 0.5)
        drawing.text(_NAMES - 6, middle, _label(bar), anchor="end")
        value = max(-most, min(most, bar.parts[0]))
        width = room * value / most
        drawing.bar(zero, middle - _BAR / 2, width, _BAR, "second" if value < 0 else "main")
        if value != bar.parts[0]:
            arrow, anchor = ("▸", "start") if value > 0 else ("◂", "end")
            drawing.text(zero + width, middle, arrow, anchor=anchor)
        drawing.text(WIDTH, middle, bar.figure, anchor="end", colour="muted")
    drawing.line([(zero, 0), (zero, height)], "line", 1)
    drawing.line([(zero - room, height), (zero + room, height)], "line", 1)
    for side, sign in ((-1, "-"), (0, ""), (1, "+")):
        figure = f"{sign}{abs(side) * most:.3g} %"
        drawing.text(
            zero + side * room, height + _AXIS / 2, figure, anchor="middle", colour="muted"
        )
    return drawing.svg(label)


def over_time(amounts: Mapping[date, float], first: date, last: date, label: str) -> Markup:
    """Draw one asset from night to night; a date without a book is a gap in the line."""
    drawing = Drawing(_PLOT + 34)
    low, high = min(amounts.values()), max(amounts.values())

    def point(day: date) -> Point:
        across = (day - first).days / max((last - first).days, 1)
        # Halved before they are subtracted: the difference of two floats may be infinite.
        down = 0.5 if high == low else 1 - (amounts[day] / 2 - low / 2) / (high / 2 - low / 2)
        return _SCALE + 4 + (WIDTH - _SCALE - 8) * across, 8 + _PLOT * down

    heights = {point(day)[1]: amounts[day] for day in amounts if amounts[day] in (low, high)}
    for height, amount in sorted(heights.items()):
        drawing.line([(_SCALE, height), (WIDTH, height)], "line", 0.8)
        drawing.text(_SCALE - 6, height, tick(amount), anchor="end", colour="muted")
    for days in _runs(sorted(amounts)):
        points = [point(day) for day in days]
        if len(points) == 1:
            drawing.bar(points[0][0] - 2, points[0][1] - 2, 4, 4, "main")
        else:
            drawing.line(points, "main", 1.8)
    return _with_dates(drawing, _SCALE, first, last).svg(label)


def tick(amount: float) -> str:
    """Return an amount as short as an axis needs it.

    >>> [tick(amount) for amount in (0.0, 0.25, 1234572.3, -1e30)]
    ['0', '0.25', '1,234,572', '-1.00e30']
    """
    size = abs(amount)
    if size and not 0.001 <= size < 1e9:  # noqa: PLR2004 - what the margin holds
        return f"{amount:.2e}".replace("e+", "e")
    return f"{amount:,.0f}" if size >= 1000 else f"{amount:.4g}"  # noqa: PLR2004 - the axis has room for four digits


def stacks(counts: Mapping[date, tuple[int, ...]], label: str) -> Markup:
    """Draw a column for each night, its counts stacked; the days between have none."""
    drawing = Drawing(_PLOT + 34)
    first, last = min(counts), max(counts)
    days = (last - first).days + 1
    room = (WIDTH - 34) / max(days, 7)
    most = max(map(sum, counts.values())) or 1
    for height, figure in ((8.0, f"{most:,}"), (8 + _PLOT, "0")):
        drawing.line([(30, height), (WIDTH, height)], "line", 0.8)
        drawing.text(26, height, figure, anchor="end", colour="muted")
    for day, parts in counts.items():
        bottom, left = 8 + _PLOT, 32 + room * (day - first).days
        for part, colour in zip(parts, AGE_COLOURS, strict=True):
            height = _PLOT * part / most
            bottom -= height
            if part:
                drawing.bar(left, bottom, room * 0.8, height, colour)
    return _with_dates(drawing, 30, first, last).svg(label)


def _with_dates(drawing: Drawing, left: float, first: date, last: date) -> Drawing:
    """Write the first and the last date below what was drawn."""
    drawing.text(left, _PLOT + 26, first.isoformat(), colour="muted")
    drawing.text(WIDTH, _PLOT + 26, last.isoformat(), anchor="end", colour="muted")
    return drawing


def colour_mark(colour: str, label: str) -> Markup:
    """Draw a square of a colour, small enough to stand in a sentence."""
    drawing = Drawing(_CELL, _CELL)
    drawing.bar(0, 0, _CELL, _CELL, colour)
    return drawing.svg(label)


def _runs(days: Sequence[date]) -> list[list[date]]:
    """Return the dates in runs that follow each other."""
    runs: list[list[date]] = []
    for day in days:
        if runs and day - runs[-1][-1] == timedelta(days=1):
            runs[-1].append(day)
        else:
            runs.append([day])
    return runs


def nights(states: Mapping[date, str], label: str) -> Markup:
    """Draw a calendar, one line a month, the newest thirteen; a night has the mark of its state."""
    months = sorted({(day.year, day.month) for day in states})[-_MONTHS:]
    drawing = Drawing(_CELL * (len(months) + 2))
    for number in (1, 5, 10, 15, 20, 25, 30):
        middle = _MONTH + _CELL * (number - 0.5)
        drawing.text(middle, _CELL / 2, str(number), anchor="middle", colour="muted")
    heights = {month: _CELL * (line + 1) for line, month in enumerate(months, start=1)}
    for (year, month), height in heights.items():
        drawing.text(0, height, f"{year}-{month:02}", colour="muted")
    for state, mark in MARKS.items():
        middles = [
            (_MONTH + _CELL * (day.day - 0.5), heights[day.year, day.month])
            for day, stated in states.items()
            if stated == state and (day.year, day.month) in heights
        ]
        _draw_marks(drawing, middles, mark)
    return drawing.svg(label)


def legend_mark(state: str) -> Markup:
    """Draw the mark of a state, small enough to stand in a sentence."""
    drawing = Drawing(_CELL, _CELL)
    _draw_marks(drawing, [(_CELL / 2, _CELL / 2)], MARKS[state])
    return drawing.svg(state)


def _draw_marks(drawing: Drawing, middles: Sequence[Point], mark: Mark) -> None:
    outlines = [[(x + _HALF * dx, y + _HALF * dy) for dx, dy in mark.outline] for x, y in middles]
    if outlines:
        drawing.shapes(outlines, mark.colour, is_hollow=mark.is_hollow)
