"""Tests of the demo's three nights: the answers to the twenty questions, and the report."""

import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from tests.support.browser import LOOKS, PRINTED, Browser, Look, chromium, require_sound
from tests.support.demo import MORNING, take_demo
from warehouse.query.formats import QueryResult, as_table, text
from warehouse.query.read import run
from warehouse.report.build import LATEST
from warehouse.sql.dictionary.render import FILE, QUESTIONS, Question
from warehouse.storage.layout import Layout

pytestmark = pytest.mark.torture

SHOWN = 6
OPENING = f"""# Twenty questions, answered

This page answers the twenty questions of [the dictionary](README.md) for the three nights that
`nightbook demo` simulates, up to {MORNING:%d %B %Y}. For each question, the page shows the first
{SHOWN} rows of the answer, the number of rows, and the start of the SHA-256 of all rows. The
answers do not show times of day and digests of responses, because these are different in every
run. A test runs all queries and compares the answers with this page.
"""


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Run the demo, and return the layout of its home."""
    return take_demo(tmp_path_factory.mktemp("demo") / "data")


def timeless(given: str) -> str:
    """Replace the times and digests in a text, because they are different in every run."""
    given = re.sub(r"[0-9a-f]{64}", "(64 letters)", given)
    given = re.sub(r"(\d{8}T02)\d{4}Z", r"\1mmssZ", given)
    return re.sub(r" 02:\d\d:\d\d(\.\d+)?Z?", " 02:mm:ss", given)


def _timeless(value: object) -> object:
    return timeless(text(value)) if isinstance(value, str | datetime) else value


def lines(layout: Layout) -> Iterator[str]:
    """Yield the parts of the page of answers."""
    yield OPENING
    for number, question in enumerate(QUESTIONS, start=1):
        yield f"## Question {number}\n"
        yield f"{question.words} ({question.asker})\n"
        yield from _answered(layout, question)


def _answered(layout: Layout, question: Question) -> Iterator[str]:
    found = run(layout.database, question.sql)
    rows = tuple(tuple(map(_timeless, row)) for row in found.rows)
    first = as_table(QueryResult(found.columns, rows[:SHOWN], is_cut=False))
    whole = repr([[str(value) for value in row] for row in rows])
    yield f"```text\n{first.rstrip()}\n```\n"
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    yield f"{len(found.rows)} {'row' if len(found.rows) == 1 else 'rows'}, `{digest}`.\n"


def test_demo_answers_match_the_committed_page(
    layout: Layout, golden: Callable[[str, str], None]
) -> None:
    """The answers for the demo's nights equal those on the committed page, row by row."""
    golden("../../warehouse/answers.md", "\n".join(lines(layout)))


def test_the_dictionary_links_to_every_answer() -> None:
    """Each question of the dictionary links to its section on the page of answers."""
    page = FILE.read_text("utf-8")
    answers = FILE.with_name("answers.md").read_text("utf-8")
    for number, question in enumerate(QUESTIONS, start=1):
        assert f"{question.words} ({question.asker}) [Answer](answers.md#question-{number})" in page
        assert f"## Question {number}\n\n{question.words}" in answers


@pytest.mark.parametrize("look", [*LOOKS, PRINTED], ids=str)
def test_the_demo_report_is_readable_on_screen_and_paper(
    layout: Layout, browser: Browser, look: Look
) -> None:
    """On a phone, a screen and paper, nothing overlaps or is cut, and no other file is loaded."""
    file = layout.reports / LATEST
    require_sound(browser.look(file, look), file)
    assert file.stat().st_size < 1_000_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start a browser."""
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
