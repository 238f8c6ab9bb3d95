"""The words every part of the reconciliation uses: dimensions, notices, errors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlsxwriter.utility import xl_col_to_name

from warehouse.query.origins import CUSTOM_MARK
from warehouse.spreadsheet.reading.safety import UnreadableSpreadsheet


def letters(place: int) -> str:
    """Return what a column without a title is called: `column C`."""
    return f"column {xl_col_to_name(place)}"


# An asset that the organization defined itself may have the id of a listed one, so its key ends
# with a letter that nobody types; people see `BTC (custom)`.
CUSTOM = CUSTOM_MARK

_ASSET = f"asset_id || case when is_custom_asset then '{CUSTOM}' else '' end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One part of a key: its column in published tables, and the SQL that makes the key's part.

    `width` is that of its column where breaks are listed, `template_width` in the ledger template;
    one without the latter is not asked of a ledger. Of a `required` one no name may be blank.
    """

    column: str
    width: float
    expression: str = ""
    template_width: int = 0
    required: bool = False


DIMENSIONS = {
    "portfolio": Dimension(column="portfolio_id", width=10, template_width=24, required=True),
    "asset": Dimension(
        column="asset_id", width=6.5, expression=_ASSET, template_width=14, required=True
    ),
    "venue": Dimension(column="venue_id", width=9, template_width=20, required=True),
    "account": Dimension(column="account_name", width=10, template_width=28),
    "bucket": Dimension(column="bucket", width=9, expression="bucket || ' ' || state"),
}

FIELDS = tuple(DIMENSIONS)

LEDGER_FIELDS = tuple(name for name, known in DIMENSIONS.items() if known.template_width)

REQUIRED_NAMES = tuple(name for name, known in DIMENSIONS.items() if known.required)

WITH_IDS = ("portfolio", "venue")  # are shown by their names, with their ids beside them

TOTALLED = ("asset", "venue", "portfolio")  # in this order their totals are shown

# A firm's portfolio is told with its organisation, whose name has no such thing in it.
BETWEEN_SOURCE = " / "


def of_source(source: str, portfolio: str) -> str:
    """Return how a portfolio of one of a firm's organisations is told."""
    return f"{source}{BETWEEN_SOURCE}{portfolio}"


def key_expression(name: str) -> str:
    """Return the SQL of a dimension over the balances and accounts of a book."""
    return DIMENSIONS[name].expression or DIMENSIONS[name].column


def display_asset(key: str) -> str:
    """Return the key of an asset as people see it."""
    return f"{key[:-1]} (custom)" if key.endswith(CUSTOM) else key


CHOICE = "# "  # before a line that a person must choose


class Ambiguous(Exception):
    """Two readings are possible and none is taken: `line` is what settles it in recon.toml.

    If nothing in the file shows which of several lines is right, each of them begins with `#`. They
    settle nothing until a person removes the `#` of one of them.
    """

    exit_code = 3

    def __init__(self, words: str, line: str) -> None:
        add = "Remove the # of the line that is right, and add" if choices_of(line) else "Add"
        super().__init__(
            f"{words} Nothing was guessed and nothing was reconciled. {add} to recon.toml:\n{line}"
        )
        self.words, self.line = words, line


def choices(table: str, *lines: str) -> str:
    """Return a table whose lines a person must choose from."""
    return "\n".join([table, *(f"{CHOICE}{line}" for line in lines)])


def choices_of(text: str) -> list[str]:
    """Return the lines of a question that a person must choose from."""
    return [line for line in text.split("\n") if line.startswith(CHOICE)]


def take_choice(text: str, number: int) -> str:
    """Return the lines of a question with one of its choices, counted from 1, and no other."""
    choice = choices_of(text)[number - 1]
    lines = [line for line in text.split("\n") if not line.startswith(CHOICE) or line == choice]
    return "\n".join(line.removeprefix(CHOICE) for line in lines)


def together(questions: Sequence[Ambiguous]) -> Ambiguous:
    """Return several questions as one, so that one pasting answers all of them."""
    if len(questions) == 1:
        return questions[0]
    words = " ".join(f"({number}) {question.words}" for number, question in enumerate(questions, 1))
    return Ambiguous(words, "\n".join(dict.fromkeys(question.line for question in questions)))


class Late(Ambiguous):
    """A ledger is of another day, and nobody has said that it is to be used."""


class DayClosed(Exception):
    """A day of a closed month was to be run again without a reason."""

    exit_code = 3


class NotClosed(Exception):
    """A month was not closed: what a person must settle before it is."""

    exit_code = 3


class NotReconciled(ValueError):
    """The input or the configuration cannot be used; nothing was written."""

    exit_code = 2


@contextmanager
def reading_files() -> Iterator[None]:
    """Raise `NotReconciled` for a file that cannot be read."""
    try:
        yield
    except UnreadableSpreadsheet as error:
        raise NotReconciled(f"{error} Nothing was reconciled.") from error
