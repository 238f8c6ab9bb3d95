"""The settings of a layout, of a file, or of a pattern of file names."""

import glob
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from decimal import Decimal
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from warehouse.reconcile.settings.toml import TomlTable, quote
from warehouse.reconcile.terms import FIELDS

_DAY = re.compile(r"(20[0-9]{2})[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12][0-9]|3[01])")

_DAY_FIRST = re.compile(r"(0?[1-9]|[12][0-9]|3[01])\.(0?[1-9]|1[0-2])\.(20[0-9]{2})")

_COPY = re.compile(
    r"[\W_]*(copy|kopie|copie|copia|\([0-9]+\)|final|new|v[0-9]+)(?!\w)", re.IGNORECASE
)


def day_in(name: str) -> date | None:
    """Return the date in a file's name, or None."""
    match, german = _DAY.search(name), _DAY_FIRST.search(name)
    parts = match.groups() if match else german.groups()[::-1] if german else None
    try:
        return date(*map(int, parts)) if parts else None
    except ValueError:
        return None


def family(name: str) -> str:
    """Return what the nightly files of one ledger have in common in their names."""
    stem = _DAY.sub("", " ".join(Path(part).stem for part in name.split("/")))
    return re.sub(r"[\W\d_]+", " ", _COPY.sub("", stem)).strip().casefold()


def name_pattern(name: str) -> str:
    """Return the pattern of the nightly files of a name for recon.toml: its date may be any."""
    return _DAY_FIRST.sub("*", _DAY.sub("*", glob.escape(name)))


_WORDS = re.compile(r"(?:(-?[0-9]{1,2}) (decimal|digit)s?(?:, (cut off|calculated))?)|doubles")


class Kept(Enum):
    """What is counted: digits behind the point, or all digits that are significant."""

    DECIMALS = "decimal"
    DIGITS = "digit"
    DOUBLES = "doubles"


class Way(Enum):
    """How the rest is dropped; what is `calculated` may be one unit off besides."""

    NEAREST = ""
    CUT_OFF = "cut off"
    CALCULATED = "calculated"


@dataclass(frozen=True, slots=True)
class Precision:
    """How much is kept of each amount of a ledger."""

    kept: Kept
    number: int = 0
    way: Way = Way.NEAREST

    @property
    def words(self) -> str:
        """As recon.toml has it, like `8 decimals, cut off`."""
        if self.kept is Kept.DOUBLES:
            return "doubles"
        unit = f"{self.number} {self.kept.value}{'' if self.number == 1 else 's'}"
        return ", ".join(filter(None, (unit, self.way.value)))


def precision_of(table: TomlTable, name: str) -> Precision | None:
    """Return the precision that a table says; None where it says nothing."""
    words = table.choice(name)
    if not words:
        return None
    match = _WORDS.fullmatch(words)
    if match and words == Kept.DOUBLES.value:
        return Precision(Kept.DOUBLES)
    if match is None or (match[2] == Kept.DIGITS.value and int(match[1]) < 1):
        table.complaints.append(
            f'{table.place} {name} is {words!r}, expected a text like "8 decimals", '
            '"8 decimals, cut off", "11 digits", "15 digits, calculated" or "doubles"'
        )
        return None
    return Precision(Kept(match[2]), int(match[1]), Way(match[3] or ""))


READ = (*FIELDS, "amount", "as_of")

UNITS = {
    "one": Decimal(1),
    "thousands": Decimal(1000),
    "millions": Decimal(1_000_000),
    "billions": Decimal(1_000_000_000),
}

UNUSED = "unused"

# What a ledger may write beside an amount, or in a column of its own, for a negative one.
NEGATIVE_WORDS = (
    *("cr", "dr", "c", "d", "s", "h", "-", "+", "credit", "debit", "soll", "haben"),
    *("cr\u00e9dit", "d\u00e9bit", "debe", "haber", "dare", "avere", "af", "bij", "out", "in"),
)

LAYOUT = (
    "amount as_of decimal sheet negative_word positive_word dates unused sign unit unit_column "
    "unit_words keep_rows skip_rows fill_down groups columns_are label_columns header_rows keeps "
    "footnotes column_starts portfolio_spelling asset_spelling venue_spelling account_spelling"
)

SPELLED = ("portfolio", "asset", "venue", "account")

NAME, ANY = "{}", "*"  # in a spelling: the name, and any other text

_MARKS = ("CR", "DR")

_JOINED = ("unused", "positive_words")  # questions add to them, wherever the others are written


class Decimals(Enum):
    """Which letter stands before the decimals."""

    POINT = "point"
    COMMA = "comma"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What was settled for ledgers with the same headers, or of the same name.

    `columns` has the title of each field, "" where no column is it. `amounts` are the titles whose
    cells are added up. `sign` is the column that says the sign of the amount, `negative_words` are
    its words for a negative one. `unit_column` says the unit of each amount, and `unit_words` by
    what each of its words multiplies it. By column, `keep_rows` and `skip_rows` are the words of
    rows that are used and left out. In `fill_down` columns a blank cell means the value above it.
    `groups` are the fields that a line with nothing but a name says for the lines below it.
    `columns_are` is the field whose values are the titles of several amount columns,
    `label_columns` which of them.
    `keeps` is how much of each amount is kept. `footnotes` are the marks behind amounts and names
    that only refer to footnotes. `column_starts` is where the columns of a table in columns made of
    spaces begin, counted from 1. `spellings` are by field the texts around its names. None is what
    nobody said anything about.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    amounts: tuple[str, ...] = ()
    decimals: Decimals | None = None
    sheet: str = ""
    negative_words: tuple[str, ...] = ()
    positive_words: tuple[str, ...] = ()
    dates: str = ""
    unused: tuple[str, ...] = ()
    sign: str | None = None
    unit: Decimal | None = None
    unit_column: str = ""
    unit_words: Mapping[str, Decimal] = field(default_factory=dict)
    keep_rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skip_rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fill_down: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    columns_are: str | None = None
    label_columns: tuple[str, ...] = ()
    header_rows: int = 0
    keeps: Precision | None = None
    footnotes: tuple[str, ...] = ()
    column_starts: tuple[int, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)

    @property
    def amount_titles(self) -> tuple[str, ...]:
        """The titles of the amount, where somebody said them."""
        return self.amounts or tuple(filter(None, [self.columns.get("amount")]))

    @property
    def negative_word(self) -> str:
        """Return CR or DR, the one that marks a negative amount if it is next to the amount."""
        return next((word.upper() for word in self.negative_words if word.upper() in _MARKS), "")

    @property
    def row_columns(self) -> tuple[str, ...]:
        """Return the titles of the columns that say which rows are used."""
        return tuple({**self.keep_rows, **self.skip_rows})

    def over(self, other: "Shape") -> "Shape":
        """Return what this one says, and where it says nothing what the other one says."""
        answers = {
            setting.name: value
            for setting in fields(self)
            if (value := getattr(self, setting.name)) != getattr(_SILENT, setting.name)
        }
        answers |= {
            name: tuple(dict.fromkeys((*getattr(other, name), *getattr(self, name))))
            for name in _JOINED
        }
        answers["keep_rows"] = _join_words(other.keep_rows, self.keep_rows, self.skip_rows)
        answers["skip_rows"] = _join_words(other.skip_rows, self.skip_rows, self.keep_rows)
        answers["columns"] = {**other.columns, **self.columns}
        answers["spellings"] = {**other.spellings, **self.spellings}
        answers["unit_words"] = {**other.unit_words, **self.unit_words}
        return replace(other, **answers)


_Words = Mapping[str, tuple[str, ...]]


def _join_words(theirs: _Words, ours: _Words, moved: _Words) -> _Words:
    """Return the words by title of both, without those that we moved to the other list."""
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


_SILENT = Shape()


def shape_of(table: TomlTable, dimensions: tuple[str, ...] = FIELDS) -> Shape:
    """Return the shape that a table says; `dimensions` name columns in it."""
    table.refuse_unknown(f"{LAYOUT} {' '.join(dimensions)}")
    amounts = table.texts("amount") or ()
    columns = {name: table.choice(name) for name in (*dimensions, "as_of") if name in table.values}
    if len(amounts) == 1:
        columns["amount"] = amounts[0]
    decimals = table.choice("decimal", "point", "comma")
    return Shape(
        columns=columns,
        amounts=amounts if len(amounts) > 1 else (),
        decimals=Decimals(decimals) if decimals else None,
        sheet=table.choice("sheet"),
        negative_words=_negative_words(table),
        positive_words=table.texts("positive_word") or (),
        dates=table.choice("dates", "day first", "month first"),
        unused=table.texts(UNUSED) or (),
        sign=table.choice("sign") if "sign" in table.values else None,
        unit=_unit(table),
        unit_column=table.choice("unit_column"),
        unit_words=_unit_words(table),
        keep_rows=_row_words(table, "keep_rows"),
        skip_rows=_row_words(table, "skip_rows", "keep_rows"),
        fill_down=table.texts("fill_down"),
        groups=table.texts("groups", allowed=FIELDS),
        columns_are=table.choice("columns_are", *FIELDS, "")
        if "columns_are" in table.values
        else None,
        label_columns=table.texts("label_columns") or (),
        header_rows=table.count("header_rows", 0),
        keeps=precision_of(table, "keeps"),
        footnotes=table.texts("footnotes") or (),
        column_starts=table.counts("column_starts"),
        spellings=_spellings(table),
    )


def _spellings(table: TomlTable) -> Mapping[str, str]:
    """Return by field how its names are spelled, like `{} Curncy`."""
    texts = {name: table.choice(f"{name}_spelling") for name in SPELLED}
    wrong = [name for name, text in texts.items() if text and text.count(NAME) != 1]
    table.complaints.extend(
        f"{table.place} {name}_spelling is {texts[name]!r}, expected one {NAME} for the name"
        for name in wrong
    )
    return {name: text for name, text in texts.items() if text and name not in wrong}


def _negative_words(table: TomlTable) -> tuple[str, ...]:
    """Return the words for a negative amount; a column of signs may have any words."""
    words = table.texts("negative_word") or ()
    wrong = [word for word in words if word.casefold() not in NEGATIVE_WORDS]
    if not wrong or table.values.get("sign"):
        return words
    expected = " or ".join(map(quote, NEGATIVE_WORDS))
    table.complaints.append(
        f"{table.place} negative_word is {wrong[0]!r}, expected {expected}. Any other word needs "
        "the line `sign`, with the title of the column that has this word, in the same table"
    )
    return ()


def _unit_words(table: TomlTable) -> Mapping[str, Decimal]:
    """Return by what each word of a column of units multiplies an amount."""
    words = table.table("unit_words")
    factors = {word: words.amount(word, Decimal(1)) for word in words.values}
    table.complaints.extend(
        f"{words.place} {word!r} is 0, expected a factor above 0"
        for word, factor in factors.items()
        if not factor
    )
    return factors


def _row_words(table: TomlTable, name: str, other: str = "") -> _Words:
    """Return by title the words of rows that are used, or left out; no word may say both."""
    columns, others = table.table(name), table.table(other) if other else TomlTable({}, [])
    words = {title: columns.texts(title) or () for title in columns.values}
    table.complaints.extend(
        f"{table.place} names {word!r} of {title!r} under {name} and under {other}, expected one"
        for title, named in words.items()
        for word in set(named) & set(others.texts(title) or ())
    )
    return words


def _unit(table: TomlTable) -> Decimal | None:
    """Return by what amounts are multiplied: a word, or a number as text."""
    if "unit" not in table.values:
        return None
    value = table.values["unit"]
    unit = UNITS[value] if isinstance(value, str) and value in UNITS else table.amount("unit")
    if not unit:
        table.complaints.append(f"{table.place} unit may be one of {', '.join(UNITS)}")
        return None
    return unit


ALL = "*"  # of a field: the file covers all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """What was settled for files of one name or pattern, like `coinbase*` or `custody.xlsx!Spot`.

    `covers` has by field the names of what the file holds: one name is that of all its rows where
    no column says it, several are what it is compared with. `tab` is the field that the names of
    its tabs say. One that is `expected` is missed where it is not there, as each is that covers a
    part of the book, unless recon.toml says otherwise.
    """

    pattern: str
    covers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tab: str = ""
    shape: Shape = field(default_factory=Shape)
    is_expected: bool = False

    def is_of(self, name: str, sheet: str = "") -> bool:
        """Return whether its pattern is that of a file, or of a tab of it."""
        names = (name, f"{name}!{sheet}") if sheet else (name,)
        return any(fnmatchcase(text.casefold(), self.pattern.casefold()) for text in names)


def file_settings(pattern: str, table: TomlTable) -> FileSettings:
    """Return the settings of one table `[file."..."]`."""
    dimensions = " ".join(FIELDS)
    table.refuse_unknown(f"{LAYOUT} {dimensions} tab expected")
    covers = {name: names for name in FIELDS if (names := table.texts(name)) is not None}
    layout = {name: table.values[name] for name in LAYOUT.split() if name in table.values}
    return FileSettings(
        pattern=pattern,
        covers=covers,
        tab=table.choice("tab", *FIELDS, ""),
        shape=shape_of(TomlTable(layout, table.complaints, table.place), ()),
        is_expected=table.flag("expected", default=bool(covers) and "!" not in pattern),
    )


def of_file(files: Iterable[FileSettings], name: str, sheet: str = "") -> FileSettings:
    """Return what all matching patterns say of a file and its tab, the most exact one first."""
    matching = sorted(
        (item for item in files if item.is_of(name, sheet)),
        key=lambda item: (len(item.pattern.replace("*", "")), item.pattern),
    )
    merged = FileSettings(pattern=name)
    for item in matching:
        merged = replace(
            item,
            covers={**merged.covers, **item.covers},
            tab=item.tab or merged.tab,
            shape=item.shape.over(merged.shape),
        )
    return merged
