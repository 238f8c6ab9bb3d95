"""The reconciliation's vocabulary: key dimensions, questions and errors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlsxwriter.utility import xl_col_to_name

from warehouse.query.lookup_keys import CUSTOM_MARK
from warehouse.spreadsheet.reading.files import UnreadableSpreadsheet

# A custom asset of an organisation may have the same ID as a listed asset. So the custom asset's
# key ends with a character that nobody types, and people see `BTC (custom)`.
CUSTOM = CUSTOM_MARK

_ASSET = f"asset_id || case when is_custom_asset then '{CUSTOM}' else '' end"
WITH_IDS = ("portfolio", "venue")  # fields that have a column for the name and a column for the ID
TOTALLED = ("asset", "venue", "portfolio")  # fields for which totals are calculated, in this order


CHOICE = "# "  # the prefix of each line that is one of several options


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A field of a key: its column in published tables, and the SQL expression for its value.

    `width` is the column's width on the Breaks sheet, and `template_width` is its width in the
    ledger template. If a field has no template width, a ledger does not need it. If a field is
    required, its names must not be blank.
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


class Ambiguous(Exception):
    """A ledger can be read in several ways, so a person must add `line` to recon.toml.

    If there are several possible lines, each of them begins with `#`. The person must remove the
    `#` from the right line.
    """

    exit_code = 3

    def __init__(self, message: str, line: str) -> None:
        super().__init__(
            f"{message} Nothing was guessed and nothing was reconciled. "
            f"{how_to_answer(line)}\n{line}"
        )
        self.message, self.line = message, line


class LateError(Ambiguous):
    """A ledger belongs to a different day, and recon.toml does not allow this."""


class DayClosed(Exception):
    """A day in a closed month cannot be rerun without a reason."""

    exit_code = 3


class NotClosed(Exception):
    """A month was not closed, because a person must settle something first."""

    exit_code = 3


class NotReconciled(ValueError):
    """The input or the configuration cannot be used, so nothing was written."""

    exit_code = 2


def letters(place: int) -> str:
    """Return a name for a column that has no title, for example `column C`."""
    return f"column {xl_col_to_name(place)}"


def key_expression(name: str) -> str:
    """Return the SQL expression for a dimension of a book's balances and accounts."""
    return DIMENSIONS[name].expression or DIMENSIONS[name].column


def display_asset(key: str) -> str:
    """Return the name that people see for an asset's key, like `BTC (custom)`."""
    return f"{key[:-1]} (custom)" if key.endswith(CUSTOM) else key


def choices(table: str, *lines: str) -> str:
    """Build a table of lines that a person must choose from."""
    return "\n".join([table, *(f"{CHOICE}{line}" for line in lines)])


def choices_of(text: str) -> list[str]:
    """Return the lines of a question that a person must choose from."""
    return [line for line in text.split("\n") if line.startswith(CHOICE)]


def how_to_answer(lines: str) -> str:
    """Return the instruction that comes before a question's lines."""
    parts = ["Correct these lines if they are wrong, and add them to recon.toml"]
    choices = choices_of(lines)
    if choices:
        parts.append("Remove the # only from the lines that are correct")
    if choices and choices == [line for line in lines.split("\n") if not line.startswith("[")]:
        only = "Remove the # only from the lines that are correct, and add them with their heading"
        parts = [f"{only} to recon.toml"]
    if "[ledger." in lines:
        parts.append("The lines apply to every ledger with this header row")
    return f"{'. '.join(parts)}:"


def take_choice(text: str, number: int) -> str:
    """Return a question's lines with only the chosen option. `number` counts options from 1."""
    choice = choices_of(text)[number - 1]
    lines = [line for line in text.split("\n") if not line.startswith(CHOICE) or line == choice]
    return "\n".join(line.removeprefix(CHOICE) for line in lines)


def together(questions: Sequence[Ambiguous]) -> Ambiguous:
    """Combine several questions into one, so that a person can paste all answers at once."""
    if len(questions) == 1:
        return questions[0]
    numbered = enumerate(questions, 1)
    message = " ".join(f"({number}) {question.message}" for number, question in numbered)
    return Ambiguous(message, "\n".join(dict.fromkeys(question.line for question in questions)))


@contextmanager
def reading_files() -> Iterator[None]:
    """Convert the error for an unreadable spreadsheet to `NotReconciled`."""
    try:
        yield
    except UnreadableSpreadsheet as error:
        raise NotReconciled(f"{error} Nothing was reconciled.") from error
