"""Why a reconciliation stops: what is ambiguous is asked, what cannot be read is said."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from warehouse.spreadsheet.reading.safety import UnreadableSpreadsheet

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
