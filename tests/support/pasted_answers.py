"""A reconciliation folder for one book, and runs that paste the lines of each question."""

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeGuard

import openpyxl
import pytest

from tests.support.ledger_samples import BOOK
from tests.support.reconciliation_home import NOW, DeskRun
from warehouse.reconcile import service
from warehouse.reconcile.model import to_json
from warehouse.reconcile.settings.config import TEMPLATE
from warehouse.reconcile.terms import Ambiguous, choices_of, take_choice

ROOT = Path(__file__).parents[2]
_ROOM = "warehouse.reconcile."
CellRows = Sequence[Sequence[object]]
Content = str | CellRows | Mapping[str, CellRows]

FIELDS = ("Portfolio", "Asset", "Venue", "Account")
FINEST = "portfolio asset venue account"
KEYS = [(row.portfolio, row.asset, row.venue, row.account) for row in BOOK]
AMOUNTS = [row.text for row in BOOK]
OLDER = [str(number) for number in range(1, len(BOOK) + 1)]


def rows(titles: Sequence[object], *columns: Sequence[object]) -> CellRows:
    """Return the samples' book as a table: its keys, followed by these columns."""
    body = [[*key, *cells] for key, *cells in zip(KEYS, *columns, strict=True)]
    return [[*FIELDS, *titles], *body]


def csv(table: CellRows, delimiter: str = ",") -> str:
    """Return a table as CSV text."""
    return "".join(f"{delimiter.join(map(str, row))}\n" for row in table)


def answer(line: str, number: int = 1) -> str:
    """Return a question's lines as a person pastes them, without the `#` of choice `number`."""
    return take_choice(line, number) if choices_of(line) else line


@dataclass(slots=True)
class PastedRun:
    """A run whose questions were answered with their own lines. `asked` lists the questions."""

    summary: DeskRun | None
    asked: list[Ambiguous] = field(default_factory=list)


def assert_right(ran: PastedRun, level: str = FINEST) -> None:
    """Assert that all keys of the samples' book match at this level, and no key is left over."""
    assert ran.summary is not None, [question.message for question in ran.asked]
    counts = {result: number for result, number in ran.summary.counts.items() if number}
    keys = {tuple(getattr(row, name) for name in level.split()) for row in BOOK}
    assert (ran.summary.exit_code, counts) == (0, {"Matched": len(keys)})


@dataclass(frozen=True, slots=True)
class AnswerFolder:
    """An inbox and a recon.toml for the database of a published book."""

    database: Path
    root: Path

    def put(self, content: Content, name: str) -> None:
        """Write a ledger into the inbox: a text, or the rows of one or several sheets."""
        inbox = self.root / "inbox"
        inbox.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (inbox / name).write_text(content, encoding="utf-8")
            return
        tabs = content if isinstance(content, Mapping) else {"Ledger": content}
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, rows in tabs.items():
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(list(row))
        book.save(inbox / name)

    def settle(self, lines: str) -> None:
        """Append lines to recon.toml."""
        config = self.root / "recon.toml"
        before = config.read_text(encoding="utf-8") if config.exists() else TEMPLATE
        config.write_text(f"{before}\n{lines}\n", encoding="utf-8")

    def run(self) -> DeskRun:
        """Run the reconciliation."""
        ran = service.run(
            self.database,
            self.root,
            as_of=None,
            program_version="0.0.0",
            now=NOW,
            pause=lambda: None,
        )
        return DeskRun.of(ran)

    def paste(self, *choices: int, most: int = 2) -> PastedRun:
        """Run the reconciliation, and paste the lines of each question, until it succeeds.

        If a question has choices, the next number in `choices` selects one of them. The result has
        no summary if a question is repeated unchanged, or after more than `most` questions.
        """
        asked: list[Ambiguous] = []
        wanted = list(choices)
        for _ in range(most + 1):
            try:
                return PastedRun(self.run(), asked)
            except Ambiguous as question:
                if asked and question.line == asked[-1].line:
                    return PastedRun(None, asked)
                asked.append(question)
                is_choice = "\n# " in question.line and wanted
                self.settle(
                    take_choice(question.line, wanted.pop(0)) if is_choice else question.line
                )
        return PastedRun(None, asked)

    def breaks(self) -> list[dict[str, Any]]:
        """Return the breaks of the newest result."""
        return list(map(to_json, service.status(self.root).run.breaks))


def kinds_of_questions() -> dict[tuple[str, int], str]:
    """Return a name for each line of code that creates a question, by module and line number.

    The name is that of the function. The name of a function's second question ends with `#2`.
    `tests/warehouse/reconcile/test_old_book.py` has the question about old books.
    """
    kinds: dict[tuple[str, int], str] = {}
    for path in sorted((ROOT / "warehouse" / "reconcile").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.name == "old_book.py":
            continue
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            lines = sorted(call.lineno for call in ast.walk(function) if _makes_question(call))
            for number, line in enumerate(lines, 1):
                count = f"#{number}" if number > 1 else ""
                kinds[module, line] = f"{module.removeprefix(_ROOM)}.{function.name}{count}"
    return kinds


def _makes_question(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return True if a node creates a question: an `Ambiguous` or one of its subclasses."""
    names = {"Ambiguous", *(kind.__name__ for kind in Ambiguous.__subclasses__())}
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


@contextmanager
def questions_raised() -> Iterator[list[str]]:
    """Collect the kinds of the questions that are created, in order."""
    raised: list[str] = []
    made = Ambiguous.__init__
    kinds = kinds_of_questions()

    def noted(question: Ambiguous, words: str, line: str) -> None:
        frame: FrameType | None = sys._getframe(1)
        assert frame is not None
        raised.append(kinds[frame.f_globals["__name__"], frame.f_lineno])
        made(question, words, line)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Ambiguous, "__init__", noted)
        yield raised
