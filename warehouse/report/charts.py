"""The report's charts: bars for counts, shares and changes, a line for an asset, and a calendar.

Charts are only illustrations. They are drawn with floats, so they are not exact. The exact figures
are in the tables and in the query below the chart. Amounts of two assets are never on the same
axis.

Charts are inline SVG. Colours are classes in `page.css` (ink, muted, line, main, second, third,
warn, bad), so the same drawing works in light and dark mode, and the page's policy can forbid
inline styles.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from markupsafe import Markup

from warehouse.contract.model import count_of
from warehouse.contract.states import COMPLETE, HELD, NO_SNAPSHOT, REJECTED
from warehouse.report.figures import Record, split_shares
from warehouse.report.formats import printable

Point = tuple[float, float]
WIDTH = 360.0
FONT_SIZE = 10
PITCH = 19.0
# The colour of each part of a bar. Bars have at most these parts, for example free and locked.
PART_COLOURS = ("main", "second", "third")
FULL_CHANGE = 100.0
LARGEST_DRAWN = Decimal("1e300")
AGES = {"0-1 days": "second", "2-4 days": "main", "5-29 days": "warn", "30+ days": "bad"}
# The distance from the middle of a line to the baseline of text that looks centred. SVG positions
# text by its baseline.
_BASELINE = 0.35 * FONT_SIZE
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


@dataclass(frozen=True, slots=True)
class Mark:
    """A night's mark in the calendar: a colour, and an outline whose centre is (0, 0)."""

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


class Drawing:
    """An SVG drawing. Positions are measured from its upper left corner."""

    def __init__(self, height: float, width: float = WIDTH) -> None:
        self._view = f"0 0 {_number(width)} {_number(height)}"
        self._elements: list[Markup] = []

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", colour: str = "ink"
    ) -> None:
        """Draw text that is vertically centred at `y`. `anchor` is start, middle or end."""
        self._elements.append(
            Markup('<text class="f-{}" font-size="{}" text-anchor="{}" x="{}" y="{}">{}</text>')
            .format(colour, FONT_SIZE, anchor, _number(x), _number(y + _BASELINE), text)
        )  # fmt: skip

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Fill a rectangle. If the width is negative, it extends to the left of `x`."""
        self.shapes([[(x, y), (x + width, y), (x + width, y + height), (x, y + height)]], colour)

    def shapes(
        self, outlines: Iterable[Sequence[Point]], colour: str, *, is_hollow: bool = False
    ) -> None:
        """Fill closed outlines, or only draw their edges if `is_hollow`."""
        path = " ".join(f"{_path(outline)} z" for outline in outlines)
        paint = f"f-none s-{colour}" if is_hollow else f"f-{colour}"
        self._path(path, paint, 1.3 if is_hollow else 0)

    def line(self, points: Sequence[Point], colour: str, width: float) -> None:
        """Draw a line that connects the points in order."""
        self._path(_path(points), f"f-none s-{colour}", width)

    def _path(self, path: str, paint: str, stroke: float) -> None:
        width = Markup(' stroke-width="{}"').format(_number(stroke)) if stroke else Markup()
        shape = Markup('<path class="{}"{} stroke-linejoin="round" d="{}"/>')
        self._elements.append(shape.format(paint, width, path))

    def svg(self, label: str) -> Markup:
        """Return the SVG element. Screen readers announce `label`."""
        return Markup('<svg viewBox="{}" role="img" aria-label="{}">{}</svg>').format(
            self._view, label, Markup().join(self._elements)
        )


def _path(points: Iterable[Point]) -> str:
    first, *others = (f"{_number(x)} {_number(y)}" for x, y in points)
    return " L ".join([f"M {first}", *others])


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar in a chart: its parts from left to right, and the figure next to it."""

    name: str
    is_custom: bool
    parts: tuple[float, ...]
    figure: str

    @property
    def label(self) -> str:
        """The shortened name. The mark that identifies a custom asset is never cut off."""
        mark = " (custom)" if self.is_custom else ""
        return fit_label(self.name, _LONGEST - len(mark)) + mark


def fit_label(text: str, longest: int = _LONGEST) -> str:
    """Shorten a name to the width of `longest` average characters.

    >>> fit_label("a long name of an asset", 10)
    'a long na…'
    """
    label = printable(text) or '""'
    widths = [_width(char) for char in label]
    if sum(widths) <= longest:
        return label
    used, beginning = 1.0, ""  # 1.0 is the width of the ellipsis.
    for char, width in zip(label, widths, strict=True):
        used += width
        if used > longest:
            break
        beginning += char
    return f"{beginning}…"


def _width(char: str) -> float:
    """Return the width of a character, relative to an average character."""
    if unicodedata.east_asian_width(char) in "WF" or char in "WM@%":
        return 2
    if char in "mw" or char.isupper():
        return 1.4
    return 1


def bars(assets: Sequence[Bar], label: str, *, most: str) -> Markup:
    """Draw horizontal bars on a common scale. `most` labels the end of the longest bar."""
    height = PITCH * len(assets)
    drawing = Drawing(height + _AXIS)
    longest = max((sum(bar.parts) for bar in assets), default=0.0) or 1.0
    room = WIDTH - _NAMES - _VALUES
    for middle, bar in _draw_labels(drawing, assets):
        left = _NAMES
        for part, colour in zip(bar.parts, PART_COLOURS, strict=False):
            width = room * part / longest
            drawing.bar(left, middle - _BAR / 2, width, _BAR, colour)
            left += width
        drawing.text(WIDTH, middle, bar.figure, anchor="end", colour="muted")
    drawing.line([(_NAMES, 0), (_NAMES, height), (_NAMES + room, height)], "line", 1)
    drawing.text(_NAMES, height + _AXIS / 2, "0", anchor="middle", colour="muted")
    drawing.text(_NAMES + room, height + _AXIS / 2, most, anchor="end", colour="muted")
    return drawing.svg(label)


def _draw_labels(drawing: Drawing, assets: Sequence[Bar]) -> Iterator[tuple[float, Bar]]:
    """Draw the label of each bar, and yield each bar with the y coordinate of its middle."""
    for number, bar in enumerate(assets):
        middle = PITCH * (number + 0.5)
        drawing.text(_NAMES - 6, middle, bar.label, anchor="end")
        yield middle, bar


def account_bars(holdings: Sequence[Record]) -> Markup:
    """Draw each asset's number of accounts."""
    counts = [
        Bar(row["asset_id"], row["is_custom_asset"], (row["accounts"],), f"{row['accounts']:,}")
        for row in holdings
    ]
    most = count_of(max(row["accounts"] for row in holdings), "account")
    return bars(counts, "Assets by number of accounts", most=most)


def share_bars(holdings: Sequence[Record]) -> Markup:
    """Draw each asset's free, locked and other shares. Return empty markup if there are none."""
    shares = [split_shares(row) for row in holdings]
    if not any(shares):
        return Markup()
    assets = [
        Bar(
            row["asset_id"],
            row["is_custom_asset"],
            parts,
            f"{100 * parts[1]:.1f} %" if parts else "no share",
        )
        for row, parts in zip(holdings, shares, strict=True)
    ]
    return bars(assets, "Free, locked and other shares of each asset", most="100 %")


def owner_bars(owners: Sequence[Record]) -> Markup:
    """Draw each owner's number of open breaks. The owners must be sorted, most breaks first."""
    counts = [
        Bar(
            row["owner"] or "Unassigned",
            is_custom=False,
            parts=(float(row["open_breaks"]),),
            figure=f"{row['open_breaks']:,}",
        )
        for row in owners
    ]
    return bars(counts, "Open breaks by owner", most=f"{owners[0]['open_breaks']:,} breaks")


def change_bars(moved: Sequence[Record]) -> Markup:
    """Draw losses to the left and gains to the right, in percent of the previous total.

    A change of more than 100 % ends in an arrow. Return empty markup if there is no bar to draw.
    """
    assets = [
        Bar(row["asset_id"], row["is_custom_asset"], (float(row["percent"] or 0),), row["share"])
        for row in moved
    ]
    # A tiny change in a huge total is zero as a float. If all changes are zero, there is no bar.
    if not any(bar.parts[0] for bar in assets):
        return Markup()
    most = min(max(abs(bar.parts[0]) for bar in assets), FULL_CHANGE)
    height = PITCH * len(assets)
    drawing = Drawing(height + _AXIS)
    room = (WIDTH - _NAMES - _VALUES - 16) / 2
    zero = _NAMES + 8 + room
    for middle, bar in _draw_labels(drawing, assets):
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
        drawing.text(
            zero + side * room,
            height + _AXIS / 2,
            f"{sign}{abs(side) * most:.3g} %",
            anchor="middle",
            colour="muted",
        )
    return drawing.svg("Change in each asset's total, in percent")


def amount_line(nights: Sequence[Record], days: Sequence[date]) -> Markup:
    """Draw one asset's total over `days`, which are the dates of all books."""
    # Draw amounts beyond `LARGEST_DRAWN` at the edge, because they may not fit in a float.
    amounts = {
        row["snapshot_date"]: float(max(-LARGEST_DRAWN, min(LARGEST_DRAWN, Decimal(row["total"]))))
        for row in nights
    }
    label = f"Amount of {fit_label(nights[0]['asset_id'])}, by night"
    return over_time(amounts, min(days), max(days), label)


def over_time(amounts: Mapping[date, float], first: date, last: date, label: str) -> Markup:
    """Draw one asset's amount for each night. The line has a gap where a date has no book."""
    drawing = Drawing(_PLOT + 34)
    low, high = min(amounts.values()), max(amounts.values())

    def point(day: date) -> Point:
        across = (day - first).days / max((last - first).days, 1)
        # Halve the amounts before subtracting them, because the difference between two large floats
        # may be infinite.
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
    """Format an amount so that it is short enough for an axis.

    >>> [tick(amount) for amount in (0.0, 0.25, 1234572.3, -1e30)]
    ['0', '0.25', '1,234,572', '-1.00e30']
    """
    size = abs(amount)
    if size and not 0.001 <= size < 1e9:  # noqa: PLR2004 - the margin is too narrow for more
        return f"{amount:.2e}".replace("e+", "e")
    return f"{amount:,.0f}" if size >= 1000 else f"{amount:.4g}"  # noqa: PLR2004 - the axis has room for four digits


def _runs(days: Sequence[date]) -> list[list[date]]:
    """Split the dates into runs of consecutive dates."""
    runs: list[list[date]] = []
    for day in days:
        if runs and day - runs[-1][-1] == timedelta(days=1):
            runs[-1].append(day)
        else:
            runs.append([day])
    return runs


def age_columns(nights: Sequence[Record]) -> Markup:
    """Draw each night's open breaks as a column stacked by age."""
    columns = ("to_1_day", "to_4_days", "to_29_days", "from_30_days")
    counts = {row["snapshot_date"]: [row[column] for column in columns] for row in nights}
    drawing = Drawing(_PLOT + 34)
    first, last = min(counts), max(counts)
    room = (WIDTH - 34) / max((last - first).days + 1, 7)
    most = max(map(sum, counts.values())) or 1
    for height, figure in ((8.0, f"{most:,}"), (8 + _PLOT, "0")):
        drawing.line([(30, height), (WIDTH, height)], "line", 0.8)
        drawing.text(26, height, figure, anchor="end", colour="muted")
    for day, parts in counts.items():
        bottom, left = 8 + _PLOT, 32 + room * (day - first).days
        for part, colour in zip(parts, AGES.values(), strict=True):
            height = _PLOT * part / most
            bottom -= height
            if part:
                drawing.bar(left, bottom, room * 0.8, height, colour)
    return _with_dates(drawing, 30, first, last).svg("Open breaks by age, night by night")


def _with_dates(drawing: Drawing, left: float, first: date, last: date) -> Drawing:
    """Draw the first and the last date below the chart."""
    drawing.text(left, _PLOT + 26, first.isoformat(), colour="muted")
    drawing.text(WIDTH, _PLOT + 26, last.isoformat(), anchor="end", colour="muted")
    return drawing


def age_mark(age: str) -> Markup:
    """Draw a small square in an age band's colour, for a legend."""
    drawing = Drawing(_CELL, _CELL)
    drawing.bar(0, 0, _CELL, _CELL, AGES[age])
    return drawing.svg(age)


def calendar(states: Mapping[date, str], label: str) -> Markup:
    """Draw the latest thirteen months, one per line, with a mark for each night."""
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


def state_mark(state: str) -> Markup:
    """Draw a state's calendar mark, for a legend."""
    drawing = Drawing(_CELL, _CELL)
    _draw_marks(drawing, [(_CELL / 2, _CELL / 2)], MARKS[state])
    return drawing.svg(state)


def _draw_marks(drawing: Drawing, middles: Sequence[Point], mark: Mark) -> None:
    outlines = [[(x + _HALF * dx, y + _HALF * dy) for dx, dy in mark.outline] for x, y in middles]
    if outlines:
        drawing.shapes(outlines, mark.colour, is_hollow=mark.is_hollow)
