"""Functions that format values for the page: exact, escaped and readable.

All text from outside goes through `name`, `digits` or the templates' autoescape. Only tags that
this module writes itself are marked as safe.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from markupsafe import Markup, escape

from warehouse.query.formats import printable as visible
from warehouse.report.figures import Record

LONGEST_NAME = 80
SHORT_NAME = 16
LONG_AMOUNT = 26
SHORT_AMOUNT = 12
_SMALLEST, _LARGEST = Decimal("0.0001"), Decimal("1e15")
_AMOUNT = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]+))?")
_SIZES = ("bytes", "kB", "MB", "GB", "TB")
_STEP = 1000
_CUSTOM = Markup(' <span class="mark">custom</span>')
MISSING = Markup('<span class="none">&ndash;</span>')
# The colour and shape for each status. The shapes differ, too, for people who do not see colours.
_GOOD, _WARN, _BAD = ("good", "●"), ("warn", "▲"), ("bad", "■")
_LIGHTS = {
    "read": _GOOD,
    "fresh": _GOOD,
    "ageing": _WARN,
    "old": _BAD,
    "not read": _BAD,
    "in the book": _GOOD,
    "not in it": _BAD,
    "high": _BAD,
    "medium": _WARN,
    "low": ("muted", "●"),
    "error": _BAD,
    "warning": _WARN,
    "info": ("muted", "●"),
}


def printable(value: str, longest: int = LONGEST_NAME) -> str:
    """Make control characters in a string visible, and truncate it if it is too long.

    >>> printable("a name of a portfolio", 6)
    'a nam…'
    """
    beginning = value if len(value) <= longest else value[: longest - 1]
    seen = visible(beginning)
    return seen if len(value) <= longest and len(seen) <= 2 * longest else f"{seen[:longest]}…"


def name(value: object, otherwise: object = None) -> Markup:
    """Format a value, or `otherwise` if the value is None. `bdi` isolates its text direction."""
    value = otherwise if value is None else value
    if value is None:
        return MISSING
    text = printable(str(value))
    if not text:
        return Markup('<span class="none">""</span>')
    css_class = Markup(' class="short"') if len(text) <= SHORT_NAME else Markup()
    return Markup("<bdi{}>{}</bdi>").format(css_class, text)


def asset(asset_id: object, is_custom: object) -> Markup:
    """Format an asset. A custom asset gets a mark, because a listed asset may have the same ID."""
    return name(asset_id) + (_CUSTOM if is_custom else Markup())


def whole_name(value: object) -> Markup:
    """Format a complete name, for a page that people sign."""
    text = visible(str(value))
    return Markup("<bdi>{}</bdi>").format(text) if text else name(text)


def whole_asset(asset_id: object, is_custom: object) -> Markup:
    """Format an asset with its complete ID."""
    return whole_name(asset_id) + (_CUSTOM if is_custom else Markup())


def whole_amount(value: str | None) -> Markup:
    """Format an exact amount with all its characters, also if the API sent it as `1e-8`."""
    is_plain = value is None or _AMOUNT.fullmatch(value)
    return digits(value) if is_plain else whole_name(value)


def amount_parts(parts: Sequence[Record] | None) -> Markup:
    """Format the amounts of an account, each with its bucket and state."""
    return Markup("").join(
        Markup("<div>{} {}</div>").format(
            printable(part["part"]), whole_amount(part["amount_text"])
        )
        for part in parts or ()
    )


def light(value: str) -> Markup:
    """Format a state as a coloured mark, followed by its name."""
    colour, mark = _LIGHTS.get(value, ("muted", "○"))
    return Markup('<span class="lit"><span class="light {}">{}</span> {}</span>').format(
        colour, mark, name(value)
    )


def digits(value: object, *, signed: bool = False) -> Markup:
    """Format an exact amount in groups of three digits. Copying it does not copy the gaps."""
    if value is None:
        return MISSING
    match = _AMOUNT.fullmatch(str(value))
    if match is None:
        return name(value)
    sign, whole, part = match.groups(default="")
    if signed and not sign and (whole + part).strip("0"):
        sign = "+"
    size = len(whole) + len(part)
    kind = "long" if size > LONG_AMOUNT else "amount" if size > SHORT_AMOUNT else "amount brief"
    fraction = Markup(".") + _group(part, 3) if part else ""
    return Markup('<span class="{}">{}{}{}</span>').format(kind, sign, _group(whole), fraction)


def amount(value: object, *, signed: bool = False) -> Markup:
    """Format a rounded amount, aligned at its decimal point. A click shows the exact amount."""
    if value is None or _AMOUNT.fullmatch(str(value)) is None:
        return digits(value, signed=signed)
    number = Decimal(str(value))
    short = _round(number)
    sign = "+" if signed and number > 0 else "-" if short.startswith("-") else ""
    whole, point, part = short.removeprefix("-").partition(".")
    aligned = Markup('<span class="amount brief">{}{}<span class="part">{}</span></span>').format(
        sign, _group(whole), point + part
    )
    if "e" not in short and Decimal(short) == number:
        return aligned
    return Markup('<details class="exact"><summary>{}</summary>{}</details>').format(
        aligned, digits(value, signed=signed)
    )


def brief(value: object) -> Markup:
    """Format a rounded amount for a sentence."""
    return digits(_round(Decimal(str(value))))


def delta(value: object) -> Markup:
    """Format a rounded amount with its sign, as for a change."""
    return amount(value, signed=True)


def figure(text: object) -> Markup:
    """Escape a text for a column whose cells are aligned like numbers (see `NUMBERS`)."""
    return escape(text)


def join(*texts: object) -> Markup:
    """Escape texts and join them with spaces."""
    return Markup(" ").join(map(escape, texts))


def asset_amounts(assets: Sequence[Record] | None, count: int) -> Markup:
    """Format the first assets with their amounts, and say how many of `count` are not shown."""
    if not assets:
        return MISSING
    lines = [
        Markup("{} {}").format(
            asset(row["asset_id"], row["is_custom_asset"]), amount(row["amount"])
        )
        for row in assets
    ]
    if count > len(assets):
        lines.append(Markup("and {:,} more").format(count - len(assets)))
    # Only Markdown shows the comma. The HTML page hides the comma and shows separate lines.
    return Markup('<span class="comma">, </span>').join(
        Markup('<div class="held">{}</div>').format(line) for line in lines
    )


NUMBERS = (digits, amount, delta, figure, asset_amounts, whole_amount, amount_parts)


def _round(value: Decimal) -> str:
    """Round to about four significant digits. Use scientific notation for very long amounts.

    >>> [_round(Decimal(text)) for text in ("1234.5678", "0.123456", "0.00000123", "-9e30")]
    ['1234.57', '0.1235', '1.23e-6', '-9.00e30']
    """
    size = value.copy_abs()  # Do not use `abs` here, because it would round to 28 digits.
    if not size or size == size.to_integral_value() < _LARGEST:
        return f"{value:f}".partition(".")[0]
    if not _SMALLEST <= size < _LARGEST:
        return f"{value:.2e}".replace("e+", "e")
    places = 2 if size >= 1 else 4
    # Show fewer decimal places if this does not change the amount.
    exponent = value.normalize().as_tuple().exponent if len(str(value)) < LONG_AMOUNT else -places
    return f"{value:.{min(places, -int(exponent))}f}"


def _group(text: str, first: int = 0) -> Markup:
    """Split digits into groups of three, beginning with a group of `first` digits.

    If `first` is 0, the first group is shorter if necessary, so that the last group is complete.
    """
    # Make each group an HTML element with a margin, because a space or comma would be copied
    # together with the number.
    first = first or len(text) % 3 or 3
    groups = [text[start : start + 3] for start in range(first, len(text), 3)]
    return Markup(text[:first] + "".join(f"<i>{group}</i>" for group in groups))  # noqa: S704 - only digits


def moment(value: object) -> Markup:
    """Format a time in UTC, to the second."""
    if not isinstance(value, datetime):
        return MISSING
    return Markup("<time>{:%Y-%m-%d %H:%M:%S} UTC</time>").format(value.astimezone(UTC))


def day(value: object) -> Markup:
    """Format a date."""
    if not isinstance(value, date):
        return MISSING
    return Markup("<time>{}</time>").format(value.isoformat())


def duration(value: timedelta) -> str:
    """Format a duration in its two largest units.

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
    """Format a number of bytes in a suitable unit.

    >>> size(999), size(283_222), size(999_960)
    ('999 bytes', '283.2 kB', '1.0 MB')
    """
    number, units = float(value), iter(_SIZES)
    unit = next(units)
    while round(number, 1) >= _STEP and (larger := next(units, None)):
        number, unit = number / _STEP, larger
    return f"{value} {unit}" if unit == _SIZES[0] else f"{number:.1f} {unit}"
