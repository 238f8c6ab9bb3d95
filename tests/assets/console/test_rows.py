"""Tests of output for programs: every command that prints rows supports the four formats."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet

from assets.console.parameters import FORMATS
from assets.console.terminal import RED, choose_color, paint
from tests.support.commands import EVERY_COMMAND
from tests.support.operator_home import Keeper
from tests.support.shared import some_daily
from warehouse.reconcile import service

ROOT = Path(__file__).parents[3]
# The arguments of commands that need some. Names in capitals are replaced by names from the home.
TYPED = {
    "query": (
        "select asset_id, is_custom_asset, total, total_text, accounts from holdings_by_asset",
    ),
    "tables": ("", "holdings", "changes_between"),
    "snapshots": ("", "--lessons"),
    "accept": ("SNAPSHOT --dry-run",),
    "rebuild": ("--dry-run",),
    "sandbox": ("--fault list", "--choice list"),
    "reconcile history": ("BREAK",),
    "reconcile verify": ("WORKBOOK",),
}
# A dry run takes seconds and prints no rows here, so these commands run only once.
SLOW = ("accept", "rebuild")
# The `--format` of `export` is about files, `restore` is tested in test_nights_dry_run, and `trace`
# prints one document, which has its own golden file.
ELSEWHERE = {"export", "restore", "trace"}


@pytest.fixture
def reconciled(copied: Keeper) -> Keeper:
    """Create three nights, and reconcile the last one with a ledger that contains errors."""
    folder = copied.home / "reconcile"
    service.init(copied.layout.database, folder)
    service.rehearse(copied.layout.database, folder)
    assert copied("reconcile", "run").code == 3
    return copied


def _with_format() -> set[str]:
    """Return the commands that have the option `--format`."""
    return {
        name
        for name, command in EVERY_COMMAND.items()
        if name not in ELSEWHERE
        and any("--format" in parameter.opts for parameter in command.params)
    }


def _kind(value: object) -> str:
    names = {"str": "text", "int": "number", "bool": "truth", "NoneType": "null", "dict": "object"}
    return names.get(type(value).__name__, type(value).__name__)


def _schema(keeper: Keeper, words: list[str]) -> str:
    """Return the fields of a command's rows with their types."""
    as_csv = keeper(*words, "--format", "csv")
    head, *lines = csv.reader(io.StringIO(as_csv.out))
    rows = []
    if words[0] not in SLOW:
        said = keeper(*words, "--format", "json")
        rows = json.loads(said.out)
        assert (said.code, list(map(list, rows))) == (as_csv.code, [head] * len(rows))
    assert len(rows) == len(lines)
    kinds = ["/".join(sorted({_kind(row[name]) for row in rows})) or "no row" for name in head]
    return ", ".join(f"{name} {kind}" for name, kind in zip(head, kinds, strict=True))


def test_json_rows_have_the_fields_of_the_golden_file(
    reconciled: Keeper, golden: Callable[[str, str], None]
) -> None:
    """Every command that prints rows prints valid JSON, with the fields of the golden file."""
    assert set(TYPED) <= _with_format()
    broken = json.loads(reconciled("reconcile", "status", "--format", "json").out)[0]["break_id"]
    workbook = str(next((reconciled.home / "reconcile").glob("out/*/*.xlsx")))
    damaged = next(reconciled.layout.lake.rglob("*.parquet"))
    [snapshot] = json.loads(reconciled("snapshots", "--format", "json").out)[-1:]
    named = {"BREAK": broken, "WORKBOOK": workbook, "SNAPSHOT": snapshot["snapshot_id"]}
    lines = []
    for name in sorted(_with_format(), key=lambda name: (name == "verify", name)):
        if name == "verify":
            damaged.write_bytes(damaged.read_bytes() + b" ")
        for ending in TYPED.get(name, ("",)):
            words = [ending] if name == "query" else ending.split()
            given = [named.get(word, word) for word in words]
            schema = _schema(reconciled, [*name.split(), *given])
            lines.append(f"nightbook {name} {ending}".rstrip() + f": {schema}\n")
    golden("rows.txt", "".join(lines))


@pytest.mark.parametrize("words", [("tables", "holdings"), ("snapshots",), ("status",)])
def test_every_format_has_the_same_rows_and_exit_code(
    nights: Keeper, words: tuple[str, ...]
) -> None:
    """All four formats have the same rows, and the same exit code as the default output."""
    said = {form: nights(*words, "--format", form) for form in FORMATS}
    assert {one.code for one in said.values()} == {nights(*words).code}
    rows = json.loads(said["json"].out)
    assert [json.loads(line) for line in said["jsonl"].out.splitlines()] == rows
    assert len(list(csv.reader(io.StringIO(said["csv"].out)))) == len(rows) + 1
    assert len(said["table"].out.splitlines()) == len(rows) + 2


def test_query_reads_a_file_or_standard_input(
    nights: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`query -f FILE` and `query -` run the given query, with or without a byte order mark."""
    file = tmp_path / "question.sql"
    file.write_bytes("\ufeff-- a comment\nselect 'é' as x;\n".encode())
    assert nights("query", "-f", str(file), "--format", "csv").out == "x\né\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert nights("query", "-", "--format", "jsonl").out == '{"x": "é"}\n'
    for words in (("-f", str(tmp_path / "none")), ("select 1", "-f", str(file)), ()):
        said = nights("query", *words)
        assert (said.code, said.out) == (2, "")
        assert "Nothing was run" in said.err
    file.write_bytes(b"select '\xff'")
    assert nights("query", "-f", str(file)).code == 2


@pytest.mark.isolated
def test_an_output_file_is_exact_and_complete(nights: Keeper, tmp_path: Path) -> None:
    """`-o` writes the format of the file extension exactly. If it fails, the file is unchanged."""
    file = tmp_path / "out.parquet"
    sql = "select 12345678901234567890.123456789012345678::decimal(38,18) as x, 1 as a, 2 as a"
    assert nights("query", sql, "-o", str(file)).out == ""
    table = parquet.read_table(file)
    assert str(table["x"][0].as_py()) == "12345678901234567890.123456789012345678"
    assert table.column_names == ["x", "a", "a_2"]
    before = file.read_bytes()
    for value in (
        "340282366920938463463374607431768211455::uhugeint",
        "170141183460469231731687303715884105727::hugeint",
        "nothing",
    ):
        said = nights("query", f"select {value} as x", "-o", str(file))
        assert (said.code, said.out) == (2, "")
    assert file.read_bytes() == before
    cut = nights("query", "from range(5)", "--limit", "2", "-o", str(file))
    assert (parquet.read_table(file).num_rows, "first 2 rows" in cut.err) == (2, True)
    for ending in ("csv", "json", "jsonl"):
        text = tmp_path / f"out.{ending}"
        assert nights("query", "from holdings", "-o", str(text)).code == 0
        assert text.read_text() == nights("query", "from holdings", "--format", ending).out
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith("out")} == {
        f"out.{ending}" for ending in ("parquet", "csv", "json", "jsonl")
    }


def test_a_write_error_is_reported_with_a_remedy(nights: Keeper, tmp_path: Path) -> None:
    """If a file cannot be written, the message contains the system's error and a remedy."""
    said = nights("query", "select 1", "-o", str(tmp_path / f"{250 * 'x'}.csv"))
    assert (said.code, said.out) == (1, "")
    assert "File name too long" in said.err
    assert "another file with -o" in said.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("out.xls", ()),
        ("none/out.csv", ()),
        ("out.csv", ("--format", "json")),
        ("home/lake/out.parquet", ()),
    ],
)
def test_an_unsuitable_output_path_is_rejected(
    copied: Keeper, tmp_path: Path, place: str, words: tuple[str, ...]
) -> None:
    """`-o` rejects an unknown extension, a missing folder, and nightbook's own folders."""
    said = copied("query", "select 1", "-o", str(tmp_path / place), *words)
    assert (said.code, said.out) == (2, "")
    assert "cannot be written" in said.err
    assert not (tmp_path / place).exists()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("snaphots",), "snapshots"),
        (("version",), "--version"),
        (("reconcile", "help"), "--help"),
        (("reconcile", "statsu"), "status"),
        (("query", "select 1", "--fromat", "csv"), "--format"),
        (("query", "select 1", "--format", "jsn"), "json"),
        (("query", "from holdngs"), "holdings"),
        (("tables", "holdngs"), "holdings"),
        (("verify", "--formt", "json"), "--format"),
    ],
)
def test_a_mistyped_name_causes_a_suggestion(
    nights: Keeper, words: tuple[str, ...], meant: str
) -> None:
    """A mistyped command, option, choice or table causes a suggestion of the right name."""
    said = nights(*words)
    assert said.code == 2
    assert "Did you mean" in said.err
    assert meant in said.err


def test_only_terminals_get_colours(nights: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe gets no colours. A terminal does, unless NO_COLOR or `--color never` is set."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b[" not in nights("verify").out
    assert "\x1b[" in nights("--color", "always", "verify").out
    assert "\x1b[" not in nights("verify", "--color", "never").out
    reader, terminal = os.openpty()
    with os.fdopen(terminal, "w") as person, os.fdopen(reader, "rb"):
        choose_color("auto")
        assert paint("held", RED, person) == "\x1b[31mheld\x1b[0m"
        monkeypatch.setenv("NO_COLOR", "1")
        assert paint("held", RED, person) == "held"
        choose_color("always")
        assert paint("held", RED, person) != "held"
        choose_color("auto")


def test_quiet_prints_only_results_and_verbose_adds_the_cost(copied: Keeper) -> None:
    """-q suppresses all but results and errors. -v prints the home and the cost to stderr."""
    assert copied("-q", "export", "--format", "csv").out == ""
    assert list(copied.layout.exports.glob("*.csv"))
    assert copied("query", "select 1 as x", "-q", "--format", "csv").out == "x\n1\n"
    assert copied("accept", "20000101T000000Z", "-q").err
    said = copied("-v", "query", "select 1 as x", "--format", "csv")
    assert said.out == "x\n1\n"
    assert said.err.startswith(f"home: {copied.home}\nnightbook ")
    assert said.err.endswith("exit code 0.\n")


@pytest.mark.parametrize("shell", some_daily(["bash", "zsh", "fish"], 3))
def test_each_shell_gets_a_completion_script(shell: str) -> None:
    """Each shell gets a completion script, which completes commands, options and choices."""
    told = {"_NIGHTBOOK_COMPLETE": f"{shell}_source", "PATH": os.environ["PATH"]}
    program = [sys.executable, "-c", "import sys; from assets.cli import main; sys.exit(main())"]

    def completed(**variables: str) -> str:
        return subprocess.run(
            program, cwd=ROOT, env=told | variables, capture_output=True, text=True, check=True
        ).stdout

    assert "_nightbook_completion" in completed() or "nightbook" in completed()
    told["_NIGHTBOOK_COMPLETE"] = f"{shell}_complete"
    for typed, words in (
        ("snap", {"snapshots"}),
        ("reconcile hist", {"history"}),
        ("query --form", {"--format"}),
        ("query --format j", {"json", "jsonl"}),
    ):
        count, last = len(typed.split()), typed.split()[-1]
        current = last if shell == "fish" else str(count)
        answer = completed(COMP_WORDS=f"nightbook {typed}", COMP_CWORD=current)
        assert words <= {
            word for line in answer.split("\n") for word in line.replace(",", "\t").split("\t")
        }


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_the_documented_line(tmp_path: Path) -> None:
    """The line on the operator's page makes bash complete `nightbook snap`."""
    (program := tmp_path / "nightbook").write_text(
        f'#!/bin/sh\ncd {ROOT}\nexec {sys.executable} -m assets.cli "$@"\n'
    )
    program.chmod(0o755)
    page = (ROOT / "assets" / "OPERATING.md").read_text("utf-8")
    [line] = [each for each in page.splitlines() if "bash_source" in each]
    typed = (
        f"{line.partition('#')[0]}\n"
        "COMP_WORDS=(nightbook snap); COMP_CWORD=1\n"
        "_nightbook_completion nightbook; echo ${COMPREPLY[@]}"
    )
    said = subprocess.run(
        ["bash", "--norc", "-c", typed],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["snapshots"]


def test_a_query_into_head_prints_no_error(nights: Keeper) -> None:
    """`query ... | head -1` prints one line, and no error about the closed pipe."""
    typed = '"$@" query "from range(300000)" --format csv | head -1; echo ${PIPESTATUS[0]}'
    done = subprocess.run(
        ["bash", "-c", typed, "bash", sys.executable, "-m", "assets.cli"],
        cwd=ROOT,
        env=os.environ | nights.variables,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"range\n0\n"
    assert [line for line in done.stderr.splitlines() if b"The latest book is" not in line] == []


def test_query_fits_a_terminal_and_counts_the_rows(
    nights: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal, a result fits the window and has its row count. A pipe gets it unchanged."""
    piped = nights("query", "from holdings").out
    monkeypatch.setattr("assets.commands.query.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.delenv("PAGER", raising=False)
    shown = nights("query", "from holdings").out
    rows = len(piped.splitlines()) - 2
    assert shown.endswith(f"\n{rows} rows\n")
    assert shown.startswith("-[ row 1 ]-\n")
    assert nights("query", "select 1 as n").out == "n\n-\n1\n1 row\n"
    assert nights("query", "from holdings", "--format", "table").out == piped
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setenv("LINES", "5")
    paged: list[str] = []
    monkeypatch.setattr("click.echo_via_pager", paged.append)
    assert nights("query", "from holdings").out == ""
    assert paged == [shown]


def test_query_writes_markdown_and_workbooks(nights: Keeper, tmp_path: Path) -> None:
    """`query` prints Markdown and writes .md and .xlsx files, but prints no workbook."""
    markdown = nights("query", "select 1 as n", "--format", "markdown").out
    assert markdown == "| n |\n|---|\n| 1 |\n"
    for name in ("a.md", "a.xlsx"):
        assert nights("query", "select 1 as n", "-o", str(tmp_path / name)).code == 0
    assert (tmp_path / "a.md").read_text() == markdown
    assert (tmp_path / "a.xlsx").read_bytes().startswith(b"PK")
    refused = nights("query", "select 1", "--format", "xlsx")
    assert (refused.code, refused.out) == (2, "")
    assert "Add -o FILE.xlsx" in refused.err
