"""How a value is written on the page: exact, escaped, and readable.

Everything that could have come over the wire passes `name` or `digits`; only what this module
writes itself is marked as safe.
"""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from markupsafe import Markup, escape

from warehouse.query.printable import printable as visible

LONGEST_NAME = 80
SHORT_NAME = 16
LONG_AMOUNT = 26
SHORT_AMOUNT = 12
_SMALLEST, _LARGEST = Decimal("0.0001"), Decimal("1e15")
_AMOUNT = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]+))?")
_SIZES = ("bytes", "kB", "MB", "GB", "TB")
_STEP = 1000
MISSING = Markup('<span class="none">&ndash;</span>')


def printable(value: str, longest: int = LONGEST_NAME) -> str:
    """Return the text with controls made visible, and cut where it is too long.

    >>> printable("a name of a portfolio", 6)
    'a nam…'
    """
    beginning = value if len(value) <= longest else value[: longest - 1]
    seen = visible(beginning)
    return seen if len(value) <= longest and len(seen) <= 2 * longest else f"{seen[:longest]}…"


def name(value: object) -> Markup:
    """Return a text from the wire that cannot change the direction of what is around it."""
    if value is None:
        return MISSING
    text = printable(str(value))
    if not text:
        return Markup('<span class="none">""</span>')
    css_class = Markup(' class="short"') if len(text) <= SHORT_NAME else Markup()
    return Markup("<bdi{}>{}</bdi>").format(css_class, text)


def custom(value: object, *, is_custom: bool) -> Markup:
    """Return an asset; a custom one is marked, for it may share a name."""
    mark = Markup(' <span class="mark">custom</span>') if is_custom else Markup()
    return name(value) + mark


def digits(value: object, *, signed: bool = False) -> Markup:
    """Return an exact amount, grouped in threes for the eye; what is copied has no gaps in it."""
    if value is None:
        return MISSING
    match = _AMOUNT.fullmatch(str(value))
    if match is None:
        return name(value)
    sign, whole, part = match.groups()
    if signed and not sign and (int(whole) or int(part or 0)):
        sign = "+"
    # Grouped by empty elements with a margin and not by blanks or commas: what is copied is the
    # number as a spreadsheet or another program reads it.
    size = len(whole) + len(part or "")
    kind = "long" if size > LONG_AMOUNT else "amount" if size > SHORT_AMOUNT else "amount brief"
    first = len(whole) % 3 or 3
    grouped = escape(sign) + _join_groups([whole[:first], *_threes(whole[first:])])
    if part:
        grouped += Markup(".") + _join_groups(_threes(part))
    return Markup('<span class="{}">{}</span>').format(kind, grouped)


def amount(value: object, *, signed: bool = False) -> Markup:
    """Return an amount rounded for the eye, on its point, that opens to the exact text."""
    exact = digits(value, signed=signed)
    if value is None or _AMOUNT.fullmatch(str(value)) is None:
        return exact
    short = _short_text(Decimal(str(value)))
    sign = "+" if signed and Decimal(str(value)) > 0 else "-" if short.startswith("-") else ""
    whole, point, part = short.removeprefix("-").partition(".")
    first = len(whole) % 3 or 3
    grouped = escape(sign) + _join_groups([whole[:first], *_threes(whole[first:])])
    aligned = Markup('<span class="amount brief">{}<span class="part">{}</span></span>').format(
        grouped, point + part
    )
    if "e" not in short and Decimal(short) == Decimal(str(value)):
        return aligned
    return Markup('<details class="exact"><summary>{}</summary>{}</details>').format(aligned, exact)


def _short_text(value: Decimal) -> str:
    """Return about four digits after which nobody looks; beyond what a line holds, a power.

    >>> [_short_text(Decimal(text)) for text in ("1234.5678", "0.123456", "0.00000123", "-9e30")]
    ['1234.57', '0.1235', '1.23e-6', '-9.00e30']
    """
    size = value.copy_abs()  # not `abs`, which rounds to 28 digits
    if not size or size == size.to_integral_value() < _LARGEST:
        return f"{value:f}".partition(".")[0]
    if not _SMALLEST <= size < _LARGEST:
        return f"{value:.2e}".replace("e+", "e")
    places = 2 if size >= 1 else 4
    # What is exact in fewer digits is shown in them.
    exponent = value.normalize().as_tuple().exponent if len(str(value)) < LONG_AMOUNT else -places
    return f"{value:.{min(places, -int(exponent))}f}"


def _threes(text: str) -> list[str]:
    return [text[start : start + 3] for start in range(0, len(text), 3)]


def _join_groups(groups: list[str]) -> Markup:
    """Return the groups apart for the eye, each of them whole where a line must break."""
    return escape(groups[0]) + Markup().join(
        Markup("<i>{}</i>").format(group) for group in groups[1:]
    )


def moment(value: object) -> Markup:
    """Return a time in UTC to the second."""
    if not isinstance(value, datetime):
        return MISSING
    return Markup("<time>{}</time>").format(f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")


def day(value: object) -> Markup:
    """Return a date."""
    if not isinstance(value, date):
        return MISSING
    return Markup("<time>{}</time>").format(value.isoformat())


def duration(value: timedelta) -> str:
    """Return a length of time, in the two units that matter.

    >>> duration(timedelta(seconds=3725)), duration(timedelta(seconds=59.97))
    ('1 h 2 min', '1 min 0 s')
    """
    seconds = round(value.total_seconds(), 1)
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    minutes, seconds_left = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes} min {seconds_left} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:  # noqa: PLR2004 - two days
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"


def size(value: int) -> str:
    """Return a number of bytes in the unit that suits it.

    >>> size(999), size(283_222), size(999_960)
    ('999 bytes', '283.2 kB', '1.0 MB')
    """
    number, units = float(value), iter(_SIZES)
    unit = next(units)
    while round(number, 1) >= _STEP and (larger := next(units, None)):
        number, unit = number / _STEP, larger
    return f"{value} {unit}" if unit == _SIZES[0] else f"{number:.1f} {unit}"
