"""The charts: bars of counts and shares, the change of each asset, one asset over time, the nights.

A chart is for the eye: it is drawn with floats and rounds. Every exact figure is in a table or in
the query beside it. No two assets ever share an axis of amounts.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from warehouse.report.svg import (
    BAD,
    LINE,
    MAIN,
    MUTED,
    SECOND,
    THIRD,
    WARN,
    WIDTH,
    canvas,
    svg,
    write,
)
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


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands for a night in the calendar: an outline around (0, 0), and its colour."""

    colour: str
    outline: tuple[tuple[float, float], ...]
    is_hollow: bool = False


_SQUARE = ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))
_PEAK = ((0, -1), (1, 1), (-1, 1), (0, -1))
_DIAMOND = ((0, -1), (1, 0), (0, 1), (-1, 0), (0, -1))
MARKS = {
    "book": Mark(MAIN, _SQUARE),
    "no snapshot": Mark(BAD, _SQUARE, is_hollow=True),
    "held": Mark(WARN, _PEAK),
    "rejected": Mark(BAD, _DIAMOND),
    "complete": Mark(SECOND, _DIAMOND, is_hollow=True),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One asset of a bar chart: its parts from left to right, and the figure beside."""

    asset_id: str
    is_custom: bool
    parts: tuple[float, ...]
    figure: str


def fit_label(text: str, longest: int = _LONGEST) -> str:
    """A name cut to the room there is; wide letters take more of it.

    >>> fitted("a long name of an asset", 10)
    'a long na…'
    """
    shown = printable(text) or '""'
    widths = [_width(char) for char in shown]
    if sum(widths) <= longest:
        return shown
    used, kept = 1.0, ""
    for char, width in zip(shown, widths, strict=True):
        used += width
        if used > longest:
            break
        kept += char
    return f"{kept}…"


def _label(bar: Bar) -> str:
    """Two assets of one name are told apart, however little room there is."""
    mark = " (custom)" if bar.is_custom else ""
    return fit_label(bar.asset_id, _LONGEST - len(mark)) + mark


def _width(char: str) -> float:
    """How wide a letter is, beside an ordinary one."""
    if unicodedata.east_asian_width(char) in "WF" or char in "WM@%":
        return 2
    if char in "mw" or char.isupper():
        return 1.4
    return 1


def bars(given: Sequence[Bar], words: str) -> Markup:
    """Horizontal bars from zero; parts of one bar are stacked, and all bars share one scale."""
    figure, axes = canvas(PITCH * len(given))
    longest = max((sum(bar.parts) for bar in given), default=0.0) or 1.0
    room = WIDTH - _NAMES - _VALUES
    for number, bar in enumerate(given):
        middle = PITCH * (number + 0.5)
        write(axes, _NAMES - 6, middle, f"{{{number}}}", at="right")
        start = _NAMES
        for part, colour in zip(bar.parts, (MAIN, SECOND, THIRD), strict=False):
            width = room * part / longest
            axes.barh(middle, width, height=_BAR, left=start, color=colour, clip_on=False)
            start += width
        write(axes, WIDTH, middle, bar.figure, at="right", colour=MUTED)
    return svg(figure, words, [_label(bar) for bar in given])


def swings(given: Sequence[Bar], words: str, most: float) -> Markup:
    """Bars to the left for less and to the right for more; beyond `most` a bar ends in an arrow."""
    figure, axes = canvas(PITCH * len(given))
    room = (WIDTH - _NAMES - _VALUES - 16) / 2
    middle_x = _NAMES + 8 + room
    for number, bar in enumerate(given):
        middle = PITCH * (number + 0.5)
        value = max(-most, min(most, bar.parts[0]))
        colour = SECOND if value < 0 else MAIN
        write(axes, _NAMES - 6, middle, f"{{{number}}}", at="right")
        axes.barh(middle, room * value / most, height=_BAR, left=middle_x, color=colour)
        if value != bar.parts[0]:
            tip = middle_x + room * value / most
            write(axes, tip, middle, "▸" if value > 0 else "◂", at="left" if value > 0 else "right")
        write(axes, WIDTH, middle, bar.figure, at="right", colour=MUTED)
    axes.plot([middle_x] * 2, [0, PITCH * len(given)], color=LINE, linewidth=1, clip_on=False)
    return svg(figure, words, [_label(bar) for bar in given])


def over_time(points: Mapping[date, float], first: date, last: date, words: str) -> Markup:
    """One asset from night to night; a date without a book is a gap in the line."""
    figure, axes = canvas(_PLOT + 34)
    low, high = min(points.values()), max(points.values())
    places = {
        day: (
            4 + (WIDTH - 8) * (day - first).days / max((last - first).days, 1),
            8 + _PLOT * (0.5 if high == low else 1 - (value - low) / (high - low)),
        )
        for day, value in points.items()
    }
    for line in sorted({places[day][1] for day in points if points[day] in (low, high)}):
        axes.plot([0, WIDTH], [line] * 2, color=LINE, linewidth=0.8, clip_on=False)
    for stretch in _stretches(sorted(points)):
        xs, ys = zip(*(places[day] for day in stretch), strict=True)
        if len(stretch) == 1:
            axes.barh(ys[0], 4, height=4, left=xs[0] - 2, color=MAIN, clip_on=False)
        else:
            axes.plot(xs, ys, color=MAIN, linewidth=1.8, clip_on=False, solid_joinstyle="round")
    write(axes, 0, _PLOT + 26, first.isoformat(), colour=MUTED)
    write(axes, WIDTH, _PLOT + 26, last.isoformat(), at="right", colour=MUTED)
    return svg(figure, words)


def _stretches(days: Sequence[date]) -> list[list[date]]:
    """Runs of dates that follow each other."""
    found: list[list[date]] = []
    for day in days:
        if found and day - found[-1][-1] == timedelta(days=1):
            found[-1].append(day)
        else:
            found.append([day])
    return found


def nights(states: Mapping[date, str], words: str) -> Markup:
    """A calendar, one line a month, the newest thirteen; each night has the mark of its state."""
    months = sorted({(day.year, day.month) for day in states})[-_MONTHS:]
    figure, axes = canvas(_CELL * (len(months) + 2))
    for number in (1, 5, 10, 15, 20, 25, 30):
        middle = _MONTH + _CELL * (number - 0.5)
        write(axes, middle, _CELL / 2, str(number), at="center", colour=MUTED)
    for line, (year, month) in enumerate(months, start=1):
        write(axes, 0, _CELL * (line + 1), f"{year}-{month:02}", colour=MUTED)
    lines = {month: number for number, month in enumerate(months, start=1)}
    for state, mark in MARKS.items():
        places = [
            (_MONTH + _CELL * (day.day - 0.5), _CELL * (lines[day.year, day.month] + 1))
            for day, found in states.items()
            if found == state and (day.year, day.month) in lines
        ]
        _marks(axes, places, mark)
    return svg(figure, words)


def legend_mark(state: str) -> Markup:
    """The mark of a state, small enough to stand in a sentence."""
    figure, axes = canvas(_CELL)
    _marks(axes, [(_CELL / 2, _CELL / 2)], MARKS[state])
    return svg(figure, state, width=_CELL)


def _marks(axes: Axes, places: Sequence[tuple[float, float]], mark: Mark) -> None:
    if not places:
        return
    outlines = [
        Path([(x + _HALF * dx, y + _HALF * dy) for dx, dy in mark.outline], closed=True)
        for x, y in places
    ]
    fill, edge = ("none", mark.colour) if mark.is_hollow else (mark.colour, "none")
    whole = Path.make_compound_path(*outlines)
    axes.add_patch(PathPatch(whole, facecolor=fill, edgecolor=edge, linewidth=1.3, clip_on=False))
