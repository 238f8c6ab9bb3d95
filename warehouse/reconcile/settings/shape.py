"""What is settled of ledgers of one shape, under `[ledger."1a2b3c4d"]` or `[file."name*"]`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from enum import Enum

from warehouse.reconcile.settings.precision import Precision, precision_of
from warehouse.reconcile.settings.toml_table import TomlTable, quote
from warehouse.reconcile.terms.dimensions import FIELDS

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
    "amount as_of decimal sheet negative_word dates unused sign unit fill_down groups columns_are "
    "label_columns header_rows keeps footnotes"
)


class Decimals(Enum):
    """Which letter stands before the decimals."""

    POINT = "point"
    COMMA = "comma"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What was settled for ledgers with the same headers, or of the same name.

    `columns` has the title of each field, "" where no column is it. `amounts` are the titles whose
    cells are added up. `sign` is the column that says the sign of the amount, `negative_word` the
    word for a negative one. In `fill_down` columns a blank cell means the value above it. `groups`
    are the fields that a line with nothing but a name says for the lines below it. `columns_are` is
    the field whose values are the titles of several amount columns, `label_columns` which of them.
    `keeps` is how much of each amount is kept. `footnotes` are the marks behind amounts and names
    that only refer to footnotes. None is what nobody said anything about.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    amounts: tuple[str, ...] = ()
    decimals: Decimals | None = None
    sheet: str = ""
    negative_word: str = ""
    dates: str = ""
    unused: tuple[str, ...] = ()
    sign: str | None = None
    unit: Decimal | None = None
    fill_down: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    columns_are: str | None = None
    label_columns: tuple[str, ...] = ()
    header_rows: int = 0
    keeps: Precision | None = None
    footnotes: tuple[str, ...] = ()

    @property
    def amount_titles(self) -> tuple[str, ...]:
        """The titles of the amount, where somebody said them."""
        return self.amounts or tuple(filter(None, [self.columns.get("amount")]))

    def over(self, other: "Shape") -> "Shape":
        """Return what this one says, and where it says nothing what the other one says."""
        answers = {
            setting.name: value
            for setting in fields(self)
            if (value := getattr(self, setting.name)) != getattr(_SILENT, setting.name)
        }
        columns = {**other.columns, **self.columns}
        return replace(other, **answers | {"columns": columns})


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
        negative_word=_negative_word(table),
        dates=table.choice("dates", "day first", "month first"),
        unused=table.texts(UNUSED) or (),
        sign=table.choice("sign") if "sign" in table.values else None,
        unit=_unit(table),
        fill_down=table.texts("fill_down"),
        groups=table.texts("groups", allowed=FIELDS),
        columns_are=table.choice("columns_are", *FIELDS, "")
        if "columns_are" in table.values
        else None,
        label_columns=table.texts("label_columns") or (),
        header_rows=table.count("header_rows", 0),
        keeps=precision_of(table, "keeps"),
        footnotes=table.texts("footnotes") or (),
    )


def _negative_word(table: TomlTable) -> str:
    word = table.choice("negative_word")
    if word and word.casefold() not in NEGATIVE_WORDS:
        expected = " or ".join(map(quote, NEGATIVE_WORDS))
        table.complaints.append(f"{table.place} negative_word is {word!r}, expected {expected}")
        return ""
    return word


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
