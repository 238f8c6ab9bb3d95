"""Tests of references to sections of the API's document, to files and to other pages."""

import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "pipelines" / "edge" / "README.md"
ROOMS = ("assets", "pipelines", "warehouse")
READ = {".py", ".sql", ".md", ".html", ".toml", ".yaml", ".service", ".txt", ""}
_NUMBER = r"[1-9](?:\.\d+)*"
# In parentheses, as in (5.2), (4.1 rule 2), (2.9, 7), (2.1 to 2.5), but not arguments of a call.
_IN_PARENTHESES = re.compile(
    rf"(?<![\w\])])\((?=[^()]*\.)({_NUMBER}(?: rules? [\d and]+)?"
    rf"(?:(?:, | and | to )(?:rules? [\d and]+|{_NUMBER}(?: rules? \d)?))*)\)"
)
_IN_WORDS = re.compile(rf"\bsections? ({_NUMBER}(?:(?:, | and | to ){_NUMBER})*)")
# Documents that were next to the tree during its development and are not part of it.
ABSENT = re.compile(
    r"\bdesign\.md\b|\bapi\.md\b|\bhouse\.md\b|\bresearch/|\bbriefs?/|\bdesign,? part\b"
    r"|\(part \d|\bpart \d of the design|\bof the design\b|\bstatement \d{2,}|\bconformance list"
    r"|\bproject's research\b"
)
PROSE = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
LARGEST_PICTURE = 200_000
LINK = re.compile(r"\]\(([^)\s]+)\)")
# A path of the tree. `warehouse/current` and `warehouse/versions` are paths of a home.
PATH = re.compile(
    r"`((?:assets|pipelines|warehouse(?!/(?:current|versions))|tests|\.github|\.ci)/[\w./-]*\w)`"
)


@cache
def tracked() -> tuple[Path, ...]:
    """Return every text file of the tree except this one."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(
        path
        for path in paths
        if path.is_file() and path.suffix in READ and path != Path(__file__).resolve()
    )


def pages() -> list[Path]:
    """Return every page of the tree."""
    return [path for path in tracked() if path.suffix == ".md"]


def cited(text: str) -> Iterator[str]:
    """Yield each section number that a text cites."""
    for match in (*_IN_PARENTHESES.finditer(text), *_IN_WORDS.finditer(text)):
        yield from re.findall(_NUMBER, re.sub(r"rules? [\d and]+", "", match[1]))


def prose(path: Path) -> str:
    """Return the comments and strings of a module, without code such as tuples of numbers."""
    if path.suffix != ".py":
        return path.read_text(encoding="utf-8")
    with path.open("rb") as file:
        tokens = [*tokenize.tokenize(file.readline)]
    return "\n".join(token.string for token in tokens if token.type in PROSE)


def rows() -> dict[str, list[str]]:
    """Return the cells of the table of rules, by section."""
    lines = RULES.read_text(encoding="utf-8").splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
    return {row[0].strip(): row for row in cells[2:]}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("as sent (5.2).", ["5.2"]),
        ("(4.1, rules 1 and 2)", ["4.1"]),
        ("(4.1 rule 2, 4.2)", ["4.1", "4.2"]),
        ("(2.1 to 2.5)", ["2.1", "2.5"]),
        ("(2.9, 7)", ["2.9", "7"]),
        ("what section 2 says", ["2"]),
        ("sleep(1.5)", []),
        ("one (2) and a half (0.5)", []),
    ],
)
def test_a_citation_is_recognised(text: str, sections: list[str]) -> None:
    """A section number in parentheses or in words is a citation, but an argument is not."""
    assert list(cited(text)) == sections


def test_every_cited_section_has_a_row() -> None:
    """Every section that the code cites has a row on the page of rules."""
    known = rows().keys()
    lost = {
        f"{path.relative_to(ROOT)} cites section {section}: give it a row in {RULES.name}"
        for path in tracked()
        if path.suffix in (".py", ".sql")
        for section in set(cited(path.read_text(encoding="utf-8"))) - known
        if section in cited(prose(path))
    }
    assert lost == set()


def test_every_rule_names_a_module_and_a_test() -> None:
    """Each row names at least one module that implements the rule and one test that checks it."""
    for section, (_, rule, where, test) in rows().items():
        assert rule.strip().endswith("."), section
        assert PATH.findall(where), section
        assert all(path.startswith("tests/") for path in PATH.findall(test)), section
        assert PATH.findall(test), section


def test_no_file_refers_to_an_absent_document() -> None:
    """No file refers to a design, a survey or a list that is not in the tree."""
    lost = [
        f"{path.relative_to(ROOT)}: {match[0]}: say the thing itself"
        for path in tracked()
        for match in ABSENT.finditer(path.read_text(encoding="utf-8"))
    ]
    assert lost == []


@pytest.mark.parametrize("text", ["(design part 6)", "see api.md", "case 7 of the design"])
def test_a_reference_to_an_absent_document_is_recognised(text: str) -> None:
    """The patterns match the usual references to absent documents."""
    assert ABSENT.search(text)


def test_every_picture_is_small_and_on_a_page() -> None:
    """Each picture of the tree is small and on a page, with a text for people who cannot see it."""
    pictures = {path for room in ROOMS for path in (ROOT / room).rglob("*.png")}
    shown = {
        (page.parent / target).resolve()
        for page in pages()
        for target in re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    assert pictures == shown
    assert [path for path in pictures if path.stat().st_size > LARGEST_PICTURE] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_path_of_a_page_is_valid(page: Path) -> None:
    """Every linked file, folder or heading exists, and so does every path in the text."""
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target
    for path in PATH.findall(text):
        assert (ROOT / path).exists(), path
