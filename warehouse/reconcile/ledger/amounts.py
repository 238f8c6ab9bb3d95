"""A parser for amounts as people write them, with one decimal convention per column.

A cell such as `1.234` is a different amount in each convention. In that case, other cells in the
column or a person decide, and the program never guesses. A cell that is not an amount is reported
with a reason, and a blank cell is never 0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.exact import EXACT, exact, exact_sum, plain
from warehouse.reconcile.model import FLOAT_DIGITS, NO_AMOUNT, Amount
from warehouse.reconcile.settings.layout import Decimals

MAX_LENGTH = 1000
BLANK = "the amount is blank"
NEEDS_WORD = "the amount is marked CR or DR, but `negative_word` is not set"
MAX_EXPONENT = 200
_SPACES = "\u00a0\u2007\u2009\u202f\u3000\t"

_CHARACTERS = str.maketrans(
    dict.fromkeys(_SPACES, " ")
    | {"\u2212": "-", "\uff0d": "-", "\uff0b": "+", "\uff0e": ".", "\uff0c": ",", "\u2019": "'"}
    | {"\uff08": "(", "\uff09": ")"}
    | {chr(0xFF10 + digit): str(digit) for digit in range(10)}
)

_DASHES = re.compile("[-\u2010-\u2015]*")
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]{0,400})(?:\.[0-9]{1,400})?", re.ASCII)

_UNIT = re.compile(
    r"(?P<before>[^\W\d_]{2,} )?(?P<number>[^A-Za-z]*(?:[0-9.,][eE][+-]?[0-9]+)?)"
    r"(?P<after> [^\W\d_][^\s()\[\]]*|[^\W\d_]{2,})?"
)

# If several currencies share a sign, use the currency that is usually written with the sign.
_CURRENCIES = dict(
    zip(
        "$\u20ac\u00a3\u00a5\u20bf\u039e\u20b9\u20a9\u20bd\u20ba",
        ["USD", "EUR", "GBP", "JPY", "BTC", "ETH", "INR", "KRW", "RUB", "TRY"],
        strict=True,
    )
)

_SIGN = "[" + "".join(_CURRENCIES) + "]"

_SIGNED = re.compile(
    rf"(?P<open>[-+(]?) ?(?P<code>[A-Z]{{2,3}})?(?P<before>{_SIGN}) ?(?P<first>[-+(]?[0-9.,].*)"
    rf"|(?P<last>.*[0-9.,][-)]?) ?(?P<after>{_SIGN})(?P<close>[-)]?)"
)

_COUNTRY = {"US": "USD", "CA": "CAD", "AU": "AUD", "HK": "HKD", "NZ": "NZD", "SG": "SGD"}
_MAGNITUDE = re.compile("k|mm?|mn|mio|mln|mil|bn?|mrd|tsd|t|thousand|million|billion")
_SCIENTIFIC = re.compile(r"([0-9]+)(?:([.,])([0-9]*))?[eE]([+-]?[0-9]{1,3})")
_GROUPS = r"[1-9][0-9]{0,2}(?:%(g)s[0-9]{3})+|[1-9][0-9]?(?:%(g)s[0-9]{2})+%(g)s[0-9]{3}"

# A footnote mark after an amount: (1), [a], 1), *, a dagger or superscript digits.
_FOOTNOTE = re.compile(
    r"(?P<number>.*?\S)\s*(?P<mark>\((?:[0-9]{1,2}|[a-z])\)|\[(?:[0-9]{1,2}|[a-z])\]"
    r"|(?<=\s)(?:[0-9]{1,2}|[a-z])\)|[*#\u2020\u2021\u00a7\u00b6]{1,4}|[\u00b9\u00b2\u00b3\u2070-\u2079]{1,3})",
    re.IGNORECASE,
)

_DEBIT = re.compile(r"(.*?) ?(CR|DR)\.?", re.IGNORECASE)
DECIMAL_MARKS = {Decimals.POINT: ".", Decimals.COMMA: ","}
_MAX_PLAIN_LENGTH = 400


@dataclass(frozen=True, slots=True)
class Rules:
    """A column's notation: its decimal convention, and whether CR or DR is negative.

    `footnotes` are the marks after amounts that only refer to footnotes.
    """

    decimals: Decimals | None = None
    negative_word: str = ""
    footnotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Numeral:
    """An amount's parts: its sign, its digits as written, and the unit next to it."""

    minus: bool
    digits: str
    unit: str = ""


def taken_apart(cell: str, negative_word: str = "") -> Numeral | str:
    """Return the sign, digits and unit of a string, or the reason why it is not an amount."""
    text = cell.translate(_CHARACTERS).strip()
    if _DASHES.fullmatch(text):
        return BLANK
    word = _DEBIT.fullmatch(text)
    minus = False
    if word and negative_word:
        text, minus = word[1], word[2].upper() == negative_word.upper()
    # Check the length first, because the time for matching grows with the square of the length.
    text, currency = _without_sign(text) if len(text) <= MAX_LENGTH else ("", "")
    match = _UNIT.fullmatch(text)
    unit = (match["before"] or match["after"] or currency).strip() if match else ""
    if match is None or (currency and unit.upper() != currency):
        return NO_AMOUNT
    if word and unit.upper() in {"CR", "DR"}:
        return NEEDS_WORD
    if _MAGNITUDE.fullmatch(unit.casefold()):
        return f"the unit {unit} may mean thousand, million or billion"
    signed = _split_sign(match["number"].strip())
    if signed is None or (match["before"] and match["after"]):
        return NO_AMOUNT
    return Numeral(signed[0] != minus, signed[1], unit)


def footnote_mark(cell: object) -> str:
    """Return the footnote mark after an amount, or an empty string."""
    if not isinstance(cell, str) or len(cell) > MAX_LENGTH or _is_amount(cell):
        return ""
    number, mark = split_footnote(cell)
    # Superscript digits after a whole number are an exponent, as in 10², not a footnote mark.
    is_power = number.isdecimal() and mark.isdigit()
    return mark if _is_amount(number) and not is_power else ""


def split_footnote(text: str) -> tuple[str, str]:
    """Split a trailing footnote mark from a string, and return both parts."""
    match = _FOOTNOTE.fullmatch(text.strip()) if len(text) <= MAX_LENGTH else None
    return (match["number"], match["mark"]) if match is not None else (text, "")


def without_footnote(cell: str, marks: Sequence[str]) -> str:
    """Remove a trailing footnote mark from a string if the mark is in `marks`."""
    number, mark = split_footnote(cell) if marks else (cell, "")
    return number if mark in marks else cell


def readings(digits: str) -> dict[Decimals, tuple[str, int]]:
    """Map each matching convention to the unsigned number and its number of decimal places."""
    # `1.234` is 1.234 with a decimal point, and 1234 with a decimal comma. `1.23` and `1,234.5`
    # have only one possible meaning. A grouping character must be at every third digit or, as in
    # India, at every second digit before the last three. So `1,23` is not a grouped number.
    scientific = _SCIENTIFIC.fullmatch(digits)
    if scientific:
        return _scientific(scientific)
    read = {}
    for convention, numeral in _NUMERALS.items():
        match = numeral.fullmatch(digits)
        if match and (match["whole"] or match["part"]):
            whole = re.sub("[^0-9]", "", match["whole"]).lstrip("0") or "0"
            part = match["part"] or ""
            decimals = part.rstrip("0")
            read[convention] = (f"{whole}.{decimals}" if decimals else whole, len(part))
    return read


def evidence(cells: Sequence[object], negative_word: str = "") -> tuple[dict[Decimals, str], str]:
    """Map each convention to a cell that proves it, and also return an ambiguous cell, if any."""
    sure: dict[Decimals, str] = {}
    unsure = ""
    for cell in cells:
        if not isinstance(cell, str) or (Decimals.POINT in sure and _PLAIN.fullmatch(cell)):
            continue
        apart = taken_apart(cell, negative_word)
        if isinstance(apart, str):
            continue
        read = readings(apart.digits)
        if len(read) == 1:
            sure.setdefault(next(iter(read)), cell)
        elif len({text for text, _ in read.values()}) > 1:
            unsure = unsure or cell
    return sure, unsure


def negate(amount: Amount) -> Amount:
    """Return an amount with the opposite sign."""
    text = amount.text[1:] if amount.text.startswith("-") else f"-{amount.text}"
    return replace(amount, text="0" if amount.text == "0" else text)


def add_up(amounts: Sequence[Amount], unit: Decimal = Decimal(1)) -> Amount:
    """Add up amounts exactly, and multiply the sum by the unit's factor."""
    value = EXACT.multiply(exact_sum(exact(amount.text) for amount in amounts), unit)
    units = {amount.unit for amount in amounts if amount.unit}
    return Amount(
        plain(value),
        max(amount.decimals for amount in amounts) - unit.adjusted(),
        units.pop() if len(units) == 1 else "",
        is_number=any(amount.is_number for amount in amounts),
    )


def read(cell: object, rules: Rules) -> Amount | str:
    """Parse a cell as an exact amount, or return the reason why it is not an amount."""
    if isinstance(cell, str):
        if rules.decimals is not Decimals.COMMA and _PLAIN.fullmatch(cell):
            return _read_plain(cell)
        return _read_text(cell, rules)
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        return "it is a date" if isinstance(cell, date | time | timedelta) else NO_AMOUNT
    return _read_number(cell)


def is_plain(cells: pa.Array, decimals: Decimals) -> pa.Array:
    """Return a mask of the strings that are plain amounts in this decimal convention."""
    pattern = f"^-?(?:0|[1-9][0-9]*)(?:[{DECIMAL_MARKS[decimals]}][0-9]+)?$"
    is_short = pc.less_equal(pc.binary_length(cells), _MAX_PLAIN_LENGTH)
    return pc.and_(pc.match_substring_regex(cells, pattern), is_short)


def plain_amounts(cells: pa.Array, decimals: Decimals) -> tuple[pa.Array, pa.Array]:
    """Return plain amounts in canonical form, and the number of decimal places in each original."""
    mark = DECIMAL_MARKS[decimals]
    texts = cells if mark == "." else pc.replace_substring(cells, mark, ".")
    point = pc.find_substring(texts, ".")
    has_part = pc.greater_equal(point, 0)
    part = pc.subtract(pc.binary_length(texts), pc.add(point, 1))
    shortest = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    shortest = pc.if_else(has_part, shortest, texts)
    shortest = pc.if_else(pc.equal(shortest, "-0"), "0", shortest)
    return shortest, pc.if_else(has_part, part, 0).cast(pa.int32())


def _pattern(point: str, others: str) -> re.Pattern[str]:
    grouped = "|".join(_GROUPS % {"g": re.escape(other)} for other in others)
    return re.compile(rf"(?P<whole>{grouped}|[0-9]*)(?:{re.escape(point)}(?P<part>[0-9]*))?")


_NUMERALS = {Decimals.POINT: _pattern(".", ",' "), Decimals.COMMA: _pattern(",", ".' ")}


def _is_amount(text: str) -> bool:
    apart = taken_apart(text)
    return apart == NEEDS_WORD or (isinstance(apart, Numeral) and bool(readings(apart.digits)))


def _without_sign(text: str) -> tuple[str, str]:
    """Remove the currency sign from a string. Return the remaining string and the currency."""
    match = _SIGNED.fullmatch(text)
    if match is None:
        return text, ""
    if match["after"]:
        return f"{match['last']}{match['close']}", _CURRENCIES[match["after"]]
    code = match["code"]
    if code is not None and (match["before"] != "$" or code not in _COUNTRY):
        return text, ""
    currency = _COUNTRY[code] if code else _CURRENCIES[match["before"]]
    return f"{match['open']}{match['first']}", currency


def _split_sign(text: str) -> tuple[bool, str] | None:
    """Return whether a string is negative, and its unsigned part. Return None if it is invalid."""
    minus = text.startswith("(") and text.endswith(")")
    number = text[1:-1].strip() if minus else text
    if number.endswith("-") and not minus:
        minus, number = True, number[:-1].strip()
    elif number[:1] in {"-", "+"} and not minus:
        minus, number = number[0] == "-", number[1:].strip()
    return (minus, number) if number[:1].isdigit() or number[:1] in {".", ","} else None


def _scientific(match: re.Match[str]) -> dict[Decimals, tuple[str, int]]:
    whole, point, part, exponent = match.groups()
    if abs(int(exponent)) > MAX_EXPONENT:
        return {}
    value = exact(f"{whole}.{part or ''}e{exponent}")
    read = (plain(value), max(0, len(part or "") - int(exponent)))
    allowed = {".": [Decimals.POINT], ",": [Decimals.COMMA]}.get(point, list(Decimals))
    return dict.fromkeys(allowed, read)


def _read_plain(cell: str) -> Amount:
    whole, _, part = cell.partition(".")
    decimals = part.rstrip("0")
    text = f"{whole}.{decimals}" if decimals else whole
    return Amount("0" if text == "-0" else text, len(part))


def _read_number(cell: float) -> Amount | str:
    value = exact(format(cell, f".{FLOAT_DIGITS}g"))
    if not value.is_finite():
        return NO_AMOUNT
    text = plain(value)
    return Amount(text, len(text.partition(".")[2]), is_number=True)


def _read_text(cell: str, rules: Rules) -> Amount | str:
    apart = taken_apart(without_footnote(cell, rules.footnotes), rules.negative_word)
    if isinstance(apart, str):
        return apart
    read = readings(apart.digits)
    if not read:
        return NO_AMOUNT
    if rules.decimals is not None and rules.decimals not in read:
        return f"the cell does not contain an amount with a decimal {rules.decimals.value}"
    text, decimals = read.get(rules.decimals or Decimals.POINT) or next(iter(read.values()))
    minus = "-" if apart.minus and text != "0" else ""
    return Amount(f"{minus}{text}", decimals, apart.unit)
