"""Tests of shell completion with names from the published book, except unsafe names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from assets.commands.command_line import command_line
from tests.support.books import Amount, night, published
from warehouse.storage.layout import Layout

AMOUNTS = [
    Amount("1", "fund-a"),
    Amount("2", "fund-b", asset="LP-GLM-USDC", venue="kestrel", account="cold"),
    Amount("3", "$(reboot)", asset="A B", venue="v;ls", account="a\nb"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a home with one book in which some names are hostile."""
    layout = Layout(tmp_path_factory.mktemp("completion"))
    held = night("20261121T021500Z", AMOUNTS, state="held", is_book=False)
    published(layout, [night("20261120T021500Z", AMOUNTS), held], "a")
    return layout.home


def completed(home: Path, *words: str) -> list[str]:
    """Return the completions of the last word."""
    shell = ShellComplete(command_line, {}, "nightbook", "_NIGHTBOOK_COMPLETE")
    *before, typed = words
    items = shell.get_completions(["--home", str(home), *before], typed)
    return [str(item.value) for item in items]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("tables", "portfolios"), ["portfolios", "portfolios_before"]),
        (("tables", "ops.reje"), ["ops.rejects"]),
        (("trace", "--portfolio", "fund"), ["fund-a", "fund-b"]),
        (("trace", "--portfolio", "Portfolio fund-b"), ["fund-b"]),
        (("trace", "--portfolio", ""), ["fund-a", "fund-b"]),
        (("trace", "--asset", ""), ["BTC", "LP-GLM-USDC"]),
        (("trace", "--asset", "lp"), ["LP-GLM-USDC"]),
        (("trace", "--venue", "kes"), ["kestrel"]),
        (("trace", "--account", ""), ["cold", "main"]),
        (("accept", ""), ["20261121T021500Z"]),
        (("reject", ""), ["20261120T021500Z", "20261121T021500Z"]),
        (("reconcile", "history", ""), []),
    ],
)
def test_names_of_the_book_are_completed(
    home: Path, words: tuple[str, ...], names: list[str]
) -> None:
    """Names are found by their start or by that of their description. Hostile ones are skipped."""
    assert completed(home, *words) == names


def test_completion_without_a_book_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a book, completion offers nothing, and prints no error that would disturb typing."""
    assert completed(tmp_path / "none", "trace", "--asset", "") == []
    assert capfd.readouterr() == ("", "")


def test_bash_completes_a_name(home: Path) -> None:
    """The script that `nightbook` generates for bash completes a name."""
    script = """
        eval "$(_NIGHTBOOK_COMPLETE=bash_source nightbook)"
        COMP_WORDS=(nightbook --home "$0" trace --asset L) COMP_CWORD=5 COMPREPLY=()
        _nightbook_completion nightbook && echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = subprocess.run(
        ["bash", "-c", script, str(home)],
        env=os.environ | {"PATH": path},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert said.stdout == "LP-GLM-USDC\n"
