"""The settings for a layout, a file, or a file name pattern."""

import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from decimal import Decimal
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from warehouse.reconcile.settings.toml import TomlTable, parse_settings, quote, toml_value
from warehouse.reconcile.terms import FIELDS

_DAY = re.compile(r"(20[0-9]{2})[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12][0-9]|3[01])")
_DAY_FIRST = re.compile(r"(0?[1-9]|[12][0-9]|3[01])\.(0?[1-9]|1[0-2])\.(20[0-9]{2})")

_COPY = re.compile(
    r"[\W_]*(copy|kopie|copie|copia|\([0-9]+\)|final|new|v[0-9]+)(?!\w)", re.IGNORECASE
)

_WORDS = re.compile(r"(?:(-?[0-9]{1,2}) (decimal|digit)s?(?:, (cut off|calculated))?)|doubles")
READ = (*FIELDS, "amount", "as_of")

UNITS = {
    "one": Decimal(1),
    "thousands": Decimal(1000),
    "millions": Decimal(1_000_000),
    "billions": Decimal(1_000_000_000),
}

UNUSED = "unused"

# Words that mark a negative amount, next to the amount or in another column.
NEGATIVE_WORDS = (
    *("cr", "dr", "c", "d", "s", "h", "-", "+", "credit", "debit", "soll", "haben"),
    *("cr\u00e9dit", "d\u00e9bit", "debe", "haber", "dare", "avere", "af", "bij", "out", "in"),
)

LAYOUT = (
    "amount as_of decimal sheet negative_word positive_word dates unused sign unit unit_column "
    "unit_words keep_rows skip_rows fill_down groups columns_are label_columns header_rows keeps "
    "footnotes notes portfolio_spelling asset_spelling venue_spelling account_spelling"
)

SPELLED = ("portfolio", "asset", "venue", "account")

# Placeholders in a spelling: one for the name, and one for any characters around it.
NAME, ANY = "{}", "*"

_MARKS = ("CR", "DR")

# Settings whose values are added to earlier values instead of replacing them.
_JOINED = ("unused", "positive_words", "notes")

_Words = Mapping[str, tuple[str, ...]]
ALL = "*"  # the value for a file that covers all names in a field


class Kept(Enum):
    """The unit of a precision in recon.toml: decimals, significant digits, or doubles."""

    DECIMALS = "decimal"
    DIGITS = "digit"
    DOUBLES = "doubles"


class Way(Enum):
    """The reason why amounts lack digits: rounding, cutting off, or rounding in a calculation."""

    NEAREST = ""
    CUT_OFF = "cut off"
    CALCULATED = "calculated"


@dataclass(frozen=True, slots=True)
class Precision:
    """The precision of a ledger's amounts: how many digits they have, and how others were lost."""

    kept: Kept
    number: int = 0
    way: Way = Way.NEAREST

    @property
    def notation(self) -> str:
        """The precision as written in recon.toml, like `8 decimals, cut off`."""
        if self.kept is Kept.DOUBLES:
            return "doubles"
        unit = f"{self.number} {self.kept.value}{'' if self.number == 1 else 's'}"
        return ", ".join(filter(None, (unit, self.way.value)))


class Decimals(Enum):
    """The decimal separator."""

    POINT = "point"
    COMMA = "comma"


def precision_of(table: TomlTable, name: str) -> Precision | None:
    """Return a precision from a table in recon.toml, or None if it is not set."""
    words = table.choice(name)
    if not words:
        return None
    match = _WORDS.fullmatch(words)
    if match and words == Kept.DOUBLES.value:
        return Precision(Kept.DOUBLES)
    if match is None or (match[2] == Kept.DIGITS.value and int(match[1]) < 1):
        table.complaints.append(
            f'{table.place} {name} is {words!r}, expected a string like "8 decimals", '
            '"8 decimals, cut off", "11 digits", "15 digits, calculated" or "doubles"'
        )
        return None
    return Precision(Kept(match[2]), int(match[1]), Way(match[3] or ""))


def _columns(table: TomlTable) -> dict[str, str]:
    """Return the title of each field's column. Several amount columns are in `amounts`."""
    columns = {name: table.choice(name) for name in (*FIELDS, "as_of") if name in table.values}
    amounts = table.texts("amount") or ()
    return columns | ({"amount": amounts[0]} if len(amounts) == 1 else {})


def _amounts(table: TomlTable) -> tuple[str, ...]:
    amounts = table.texts("amount") or ()
    return amounts if len(amounts) > 1 else ()


def _decimals(table: TomlTable) -> Decimals | None:
    decimals = table.choice("decimal", "point", "comma")
    return Decimals(decimals) if decimals else None


def _spellings(table: TomlTable) -> Mapping[str, str]:
    """Return how each field's names are spelled, for example `{} Curncy`."""
    texts = {name: table.choice(f"{name}_spelling") for name in SPELLED}
    wrong = [name for name, text in texts.items() if text and text.count(NAME) != 1]
    table.complaints.extend(
        f"{table.place} {name}_spelling is {texts[name]!r}, expected {NAME} exactly once, in place "
        "of the name"
        for name in wrong
    )
    return {name: text for name, text in texts.items() if text and name not in wrong}


def _negative_words(table: TomlTable) -> tuple[str, ...]:
    """Return the words for a negative amount. A sign column may contain any words."""
    words = table.texts("negative_word") or ()
    wrong = [word for word in words if word.casefold() not in NEGATIVE_WORDS]
    if not wrong or table.values.get("sign"):
        return words
    expected = " or ".join(map(quote, NEGATIVE_WORDS))
    table.complaints.append(
        f"{table.place} negative_word is {wrong[0]!r}, expected {expected}. Any other word needs "
        "the `sign` setting in the same table, with the title of the column that contains the word"
    )
    return ()


def _unit_words(table: TomlTable) -> Mapping[str, Decimal]:
    """Return the factor for each word in a unit column."""
    words = table.table("unit_words")
    factors = {word: words.amount(word, Decimal(1)) for word in words.values}
    table.complaints.extend(
        f"{words.place} {word!r} is 0, expected a factor above 0"
        for word, factor in factors.items()
        if not factor
    )
    return factors


def _row_words(table: TomlTable, name: str, other: str = "") -> _Words:
    """Return a setting's words by column title.

    The `other` setting must not contain these words.
    """
    columns, others = table.table(name), table.table(other) if other else TomlTable({}, [])
    words = {title: columns.texts(title) or () for title in columns.values}
    table.complaints.extend(
        f"{table.place} lists {word!r} from column {title!r} under both {name} and {other}, but "
        "only one is allowed"
        for title, named in words.items()
        for word in set(named) & set(others.texts(title) or ())
    )
    return words


def _unit(table: TomlTable) -> Decimal | None:
    """Return the factor for all amounts. It is set as a word, or as a number in a string."""
    if "unit" not in table.values:
        return None
    value = table.values["unit"]
    is_word = isinstance(value, str) and value in UNITS
    unit = UNITS[value] if is_word else TomlTable(table.values, []).amount("unit")
    if not unit:
        table.complaints.append(
            f"{table.place} unit must be one of {', '.join(UNITS)}, or a number above 0 in quotes"
        )
        return None
    return unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Settings for ledgers with the same header or the same file name. None means not set.

    `columns` has the title of each field, or "" if no column has this field. The cells under
    `amounts` are added up. `sign` is the column with the sign, and `negative_words` are its words
    for a negative amount. `unit_column` has each amount's unit, and `unit_words` has each unit's
    factor. `keep_rows` and `skip_rows` contain, by column, the words in rows to use and in rows to
    skip. A blank cell in a `fill_down` column takes the value above it. `groups` are the fields
    that a row with only a name sets for the rows below it. `columns_are` is the field whose values
    are the titles of several amount columns, and `label_columns` lists these columns. `keeps` is
    the amounts' precision. `footnotes` are marks after amounts and names. `notes` are lines of text
    that a person has read. `spellings` have, by field, the characters around its names.
    """

    columns: Mapping[str, str] = toml_value(_columns)
    amounts: tuple[str, ...] = toml_value(_amounts)
    decimals: Decimals | None = toml_value(_decimals)
    sheet: str = toml_value(lambda table: table.choice("sheet"))
    negative_words: tuple[str, ...] = toml_value(_negative_words)
    positive_words: tuple[str, ...] = toml_value(lambda table: table.texts("positive_word") or ())
    dates: str = toml_value(lambda table: table.choice("dates", "day first", "month first"))
    unused: tuple[str, ...] = toml_value(lambda table: table.texts(UNUSED) or ())
    sign: str | None = toml_value(lambda table: table.choice_or_none("sign"))
    unit: Decimal | None = toml_value(_unit)
    unit_column: str = toml_value(lambda table: table.choice("unit_column"))
    unit_words: Mapping[str, Decimal] = toml_value(_unit_words)
    keep_rows: _Words = toml_value(partial(_row_words, name="keep_rows"))
    skip_rows: _Words = toml_value(partial(_row_words, name="skip_rows", other="keep_rows"))
    fill_down: tuple[str, ...] | None = toml_value(lambda table: table.texts("fill_down"))
    groups: tuple[str, ...] | None = toml_value(lambda table: table.texts("groups", allowed=FIELDS))
    columns_are: str | None = toml_value(
        lambda table: table.choice_or_none("columns_are", *FIELDS, "")
    )
    label_columns: tuple[str, ...] = toml_value(lambda table: table.texts("label_columns") or ())
    header_rows: int = toml_value(lambda table: table.count("header_rows", 0))
    keeps: Precision | None = toml_value(partial(precision_of, name="keeps"))
    footnotes: tuple[str, ...] = toml_value(lambda table: table.texts("footnotes") or ())
    notes: tuple[str, ...] = toml_value(lambda table: table.texts("notes") or ())
    spellings: Mapping[str, str] = toml_value(_spellings)

    @property
    def amount_titles(self) -> tuple[str, ...]:
        """The titles of the amount columns, if they are set."""
        return self.amounts or tuple(filter(None, [self.columns.get("amount")]))

    @property
    def negative_word(self) -> str:
        """The mark next to negative amounts: CR, DR, or an empty string if it is not set."""
        return next((word.upper() for word in self.negative_words if word.upper() in _MARKS), "")

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The titles of the columns that decide which rows are used."""
        return tuple({**self.keep_rows, **self.skip_rows})

    def over(self, other: "Shape") -> "Shape":
        """Merge two sets of layout settings. These settings take precedence over `other`."""
        merged = {
            item.name: _merge(item.name, getattr(self, item.name), getattr(other, item.name))
            for item in fields(self)
        }
        merged["keep_rows"] = _join_words(other.keep_rows, self.keep_rows, self.skip_rows)
        merged["skip_rows"] = _join_words(other.skip_rows, self.skip_rows, self.keep_rows)
        return Shape(**merged)


_UNSET = Shape()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Settings for files that match a name or pattern, like `coinbase*` or `custody.xlsx!Spot`.

    `covers` has, by field, the names in the file. If no column has the field, a single name applies
    to all rows. The file is compared only with this part of the book. `tab` is the field whose
    values are the tab names. An expected file is reported if it is missing. Files that cover a part
    of the book are expected, unless recon.toml says otherwise.
    """

    pattern: str
    covers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tab: str = ""
    shape: Shape = field(default_factory=Shape)
    is_expected: bool = False

    def is_of(self, name: str, sheet: str = "") -> bool:
        """Return whether the pattern matches a file, or one of its tabs."""
        names = (name, f"{name}!{sheet}") if sheet else (name,)
        return any(fnmatchcase(text.casefold(), self.pattern.casefold()) for text in names)

    def below(self, other: "FileSettings") -> "FileSettings":
        """Merge two sets of file settings.

        Settings in `other` take precedence over these settings.
        """
        return replace(
            other,
            covers={**self.covers, **other.covers},
            tab=other.tab or self.tab,
            shape=other.shape.over(self.shape),
        )


def day_in(name: str) -> date | None:
    """Return the date in a file name, or None."""
    match, german = _DAY.search(name), _DAY_FIRST.search(name)
    parts = match.groups() if match else german.groups()[::-1] if german else None
    try:
        return date(*map(int, parts)) if parts else None
    except ValueError:
        return None


def family(name: str) -> str:
    """Return the part of a file name that all nightly files for one ledger share."""
    stem = _DAY.sub("", " ".join(Path(part).stem for part in name.split("/")))
    return re.sub(r"[\W\d_]+", " ", _COPY.sub("", stem)).strip().casefold()


def name_pattern(name: str) -> str:
    """Turn a file name into a pattern for recon.toml that matches any date."""
    return _DAY_FIRST.sub("*", _DAY.sub("*", glob.escape(name)))


def shape_of(table: TomlTable) -> Shape:
    """Parse a table of layout settings."""
    table.refuse_unknown(f"{LAYOUT} {' '.join(FIELDS)}")
    return Shape(**parse_settings(Shape, table))


def file_settings(pattern: str, table: TomlTable) -> FileSettings:
    """Return the settings in one table `[file."..."]`."""
    table.refuse_unknown(f"{LAYOUT} {' '.join(FIELDS)} tab expected")
    covers = {name: names for name in FIELDS if (names := table.texts(name)) is not None}
    layout = {name: table.values[name] for name in LAYOUT.split() if name in table.values}
    return FileSettings(
        pattern=pattern,
        covers=covers,
        tab=table.choice("tab", *FIELDS, ""),
        shape=shape_of(TomlTable(layout, table.complaints, table.place)),
        is_expected=table.flag("expected", default=bool(covers) and "!" not in pattern),
    )


def _merge(name: str, ours: Any, theirs: Any) -> Any:
    """Merge two values of a setting: tables and lists in `_JOINED` are joined, others replaced."""
    if isinstance(ours, Mapping):
        return {**theirs, **ours}
    if name in _JOINED:
        return tuple(dict.fromkeys((*theirs, *ours)))
    return theirs if ours == getattr(_UNSET, name) else ours


def _join_words(theirs: _Words, ours: _Words, moved: _Words) -> _Words:
    """Merge two word lists by column title. Drop words that are now in the opposite setting."""
    return {
        title: tuple(
            dict.fromkeys(
                word
                for word in (*theirs.get(title, ()), *ours.get(title, ()))
                if word not in moved.get(title, ())
            )
        )
        for title in {**theirs, **ours}
    }
