"""Tests of all commands: their help, their exit codes, and their output."""

import fcntl
import importlib
import inspect
import io
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assets.cli import main
from assets.commands import api
from assets.commands.command_line import command_line
from assets.console.command import HomeCommand
from assets.console.terminal import TerminalProgress
from assets.night.tables import cell, preview
from pipelines.sandbox.server import DEMO_SECRET
from tests.support.commands import EVERY_COMMAND
from tests.support.operator_home import KEY, SECRET, THIRD, Keeper, Sandbox
from warehouse.progress import BYTES, Progress

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "assets" / "commands").glob("[!_]*.py"))


@pytest.mark.parametrize("command", ["", "reconcile", *EVERY_COMMAND])
def test_help_matches_its_golden_file(
    command: str,
    golden: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The help of every command, at 80 columns, matches its golden file."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command.split(), "--help"]) == 0
    golden(f"help/{command.replace(' ', '-') or 'nightbook'}.txt", capsys.readouterr().out)


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_the_function_of_a_command_accepts_all_its_options(name: str) -> None:
    """The function of each command accepts all its options, and has the name of the command."""
    command, shared = EVERY_COMMAND[name], {str(option.name) for option in command_line.params}
    assert command.name == name.rsplit(maxsplit=1)[-1]
    own = {str(parameter.name): None for parameter in command.params}
    inspect.signature(command.callback).bind(
        None, **{option: value for option, value in own.items() if option not in shared}
    )


def test_the_list_of_commands_names_every_command_of_a_module() -> None:
    """The list of commands, which the help reads without importing modules, is complete."""
    modules = [importlib.import_module(f"assets.commands.{module.stem}") for module in MODULES]
    declared = {
        (module.__name__, name)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, HomeCommand) and value.callback.__module__ == module.__name__
    }
    assert declared == {
        (command.callback.__module__, command.callback.__name__)
        for command in EVERY_COMMAND.values()
    }


def test_only_the_module_of_the_typed_command_is_imported() -> None:
    """The help imports no command, and `nightbook query` imports no other command."""
    program = "import sys; from assets.cli import main; main({words}); print(*sys.modules)"
    for words, expected in ((["-h"], set()), (["query", "-h"], {"query"})):
        said = subprocess.run(
            [sys.executable, "-c", program.format(words=words)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = {f"assets.commands.{module.stem}" for module in MODULES}
        loaded &= set(said.stdout.splitlines()[-1].split())
        assert loaded == {f"assets.commands.{name}" for name in ("command_line", *expected)}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("dance",), 2),
        (("run", "--date", "yesterday"), 2),
        (("export", "--as-of", "2026-13-01"), 2),
        (("api", "/venues", "--query", "include"), 2),
        (("tables", "nothing_like_it"), 2),
        (("query", "select * from nothing_like_it"), 2),
        (("query", "delete from balances"), 2),
        (("query", "select 1", "--limit=-1"), 2),
        (("sandbox", "--fault", "nothing-like-it"), 2),
        (("sandbox", "--choice", "nothing-like-it=1"), 2),
        (("sandbox", "--choice", "missing_status=soon"), 2),
        (("accept", "nothing-like-it"), 2),
        (("snapshots",), 0),
        (("tables",), 0),
        (("tables", "balances"), 0),
        (("query", "select 1"), 0),
        (("sandbox", "--fault", "list"), 0),
        (("sandbox", "--choice", "list"), 0),
        (("query", "selec 1"), 2),
        (("query", "select nothing from balances"), 2),
        (("query", "select 1; select 2"), 2),
        (("query", ""), 2),
    ],
)
def test_commands_end_with_the_expected_code(
    nights: Keeper, words: tuple[str, ...], code: int
) -> None:
    """Commands end with the expected code, and only errors print to stderr, without a traceback."""
    said = nights(*words)
    assert said.code == code
    assert "Traceback" not in said.err
    assert bool(said.err) == (code != 0 and bool(words))


def test_a_query_with_several_statements_is_rejected(nights: Keeper) -> None:
    """A query with several statements is rejected, because only the last would be shown.

    A single statement may end in a semicolon.
    """
    said = nights("query", "select 1; select 2")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("The query has 2 statements")
    assert nights("query", "select 1 as n;", "--format", "csv").out == "n\n1\n"


def test_a_shell_parses_a_printed_command_correctly(nights: Keeper, tmp_path: Path) -> None:
    """A printed command contains the home once, and a shell parses it correctly."""
    home = tmp_path / "a home's $x"
    shutil.copytree(nights.home, home, symlinks=True)
    keeper, file = Keeper(home, nights.sandbox), tmp_path / "a back up.tar"
    listed = shlex.split(keeper("tables").out.rpartition("columns: ")[2])
    assert listed[-4:] == ["--home", str(home), "tables", "NAME"]
    restore = keeper("backup", str(file)).out.rpartition("To restore it: ")[2]
    assert shlex.split(restore)[-4:] == ["--home", "NEW", "restore", str(file)]
    assert restore.count("--home") == 1


def test_an_export_counts_rows_and_not_venues(nights: Keeper) -> None:
    """An export reports the number of rows in a sheet, which is not the number of venues."""
    [(rows,)] = nights.ask("select count(*) from holdings_by_venue")
    said = nights("export", "--format", "csv").out
    assert f"Venues {rows} rows" in said
    assert f"{rows} Venues" not in said


def test_an_empty_home_prints_the_command_to_pull(empty: Callable[..., Keeper]) -> None:
    """Before the first night, every command that needs a book prints the command to pull one."""
    keeper = empty()
    for words in (("query", "select 1"), ("tables",), ("export",), ("snapshots",)):
        said = keeper(*words)
        assert said.code == 2
        assert f"--home {keeper.home} run" in said.err
    assert not keeper.home.exists()
    keeper.layout.landing.mkdir(parents=True)
    for words in (("query", "select 1"), ("tables",), ("export",)):
        said = keeper(*words)
        assert said.code == 1
        assert f"--home {keeper.home} run" in said.err
    assert f"--home {keeper.home} demo)" in keeper("snapshots").out


def test_query_formats_keep_every_digit(nights: Keeper) -> None:
    """Table, CSV and JSON show exact decimals, and --limit prints a note if it removed rows."""
    sql = "select 123456789012345678.000000000000000001::decimal(38,18) as x union all select 2"
    csv = "x\n123456789012345678.000000000000000001\n2\n"
    assert nights("query", sql, "--format", "csv").out == csv
    [one, two] = json.loads(nights("query", sql, "--format", "json").out)
    assert (one, two) == ({"x": "123456789012345678.000000000000000001"}, {"x": "2"})
    cut = nights("query", sql, "--limit", "1")
    assert "123456789012345678.000000000000000001" in cut.out
    assert cut.err == "Only the first row is shown (see --limit).\n"


def test_api_writes_the_exact_body_to_a_pipe(nights: Keeper) -> None:
    """`nightbook api` writes the response body unchanged to a pipe, without a final line break."""
    said = nights("api", "/portfolios", "--query", "include=integrations")
    assert (said.code, said.err) == (0, "")
    assert said.raw.startswith(b'{"data":[')
    assert not said.raw.endswith(b"\n")
    assert len(json.loads(said.raw)["data"]) == 14
    refused = nights("api", "/venues/nothing-like-it")
    assert (refused.code, refused.out) == (1, "")
    assert "RESOURCE_NOT_FOUND" in refused.err


class Terminal(io.TextIOWrapper):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_api_keeps_amounts_and_order_in_a_terminal(
    nights: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal, `nightbook api` keeps the amounts, order and white space of the body."""
    monkeypatch.setattr(io, "TextIOWrapper", Terminal)
    said = nights("api", "/venues/kestrel")
    assert said.raw.startswith(b'{"data":{"id":"kestrel","resource":"venue",')
    assert said.raw.endswith(b'"meta":{}}')
    assert (said.code, said.err) == (0, "\n")


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ('{"a": 1.10,\r\n\t"b":"é 🦊\u200d🦊\u00a0"}\n', None),
        ('{"a":"\x1b[2J\x9b2J\x7f\u202e\r"}', '{"a":"\\u001b[2J\\u009b2J\\u007f\\u202e\\r"}'),
    ],
)
def test_api_escapes_control_characters_in_a_terminal(sent: str, shown: str | None) -> None:
    """In a terminal, control characters are shown as JSON escapes, and all others unchanged."""
    assert api._printable_body(sent.encode()).decode() == (shown or sent)


def test_api_rejects_an_argument_that_is_not_utf_8(nights: Keeper) -> None:
    """`nightbook api` rejects an argument that is not valid UTF-8, and sends nothing."""
    for words in (("/portfolios", "--query", "id=\udcff"), ("/venues/\udcff",)):
        said = nights("api", *words)
        assert (said.code, said.out) == (2, "")
        assert r"'\udcff' contains half of a surrogate pair" in said.err
        assert "Nothing was sent" in said.err


def test_export_prints_the_paths_of_its_files(copied: Keeper) -> None:
    """`nightbook export` writes the requested format and prints the paths of the files."""
    said = copied("export", "--format", "csv", "--as-of", "2026-03-04")
    assert (said.code, said.err) == (0, "")
    files = [
        Path(line.strip()) for line in said.out.splitlines() if line.endswith((".csv", ".zip"))
    ]
    assert files
    assert all(file.is_file() and file.is_relative_to(copied.home) for file in files)
    assert "Book of 2026-03-04" in said.out


def test_terminals_get_a_progress_bar_and_logs_get_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a terminal, progress is one line that is redrawn. In a log, it is lines without codes."""
    log = TerminalProgress()
    assert log.watch is None
    log("landed")
    assert capsys.readouterr().out == "  landed\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal = TerminalProgress()
    assert terminal.watch is not None
    terminal.watch(Progress(done=13, known=26, things="requests", amount=2_500_000, of=BYTES))
    terminal("landed")
    assert capsys.readouterr().out == (
        "\r\x1b[K  [############............] 13 of 26 requests, 2.5 MB\r\x1b[K  landed\n"
    )


def test_a_query_into_a_closed_pipe_succeeds(nights: Keeper) -> None:
    """`nightbook query ... | head -1` succeeds and prints only the note about an old book."""
    question = "from history.balances"
    command = [sys.executable, "-m", "assets.cli", "query", question, "--format", "csv"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | nights.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"snapshot_date,")
        process.stdout.close()
        [stale] = process.stderr.read().splitlines()
    assert stale.startswith(b"The latest book is from 2026-03-")
    assert process.returncode == 0


@pytest.mark.torture
def test_every_command_that_the_demo_prints_works(tmp_path: Path, api: Sandbox) -> None:
    """The demo pulls three nights, and every query and command that it prints works."""
    keeper = Keeper(tmp_path / "a home", api)
    api.clock.moment = datetime.now(UTC)
    said = keeper("demo")
    assert (said.code, said.err) == (0, "")
    assert "3 nights are in the book." in said.out
    assert said.out.count("accepted: snapshot") == 3
    # Two spaces separate each command from its description.
    lines = [line.strip() for line in said.out.splitlines() if " --home " in line]
    printed = [shlex.split(line.partition("  ")[0]) for line in lines]
    commands = [words[words.index(str(keeper.home)) + 1 :] for words in printed]
    assert [words[0] for words in commands] == [
        *("query", "query", "tables", "snapshots", "export", "reconcile", "demo", "dev", "sandbox"),
    ]
    for words in commands[:2]:
        answer = keeper("query", words[1])
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.splitlines()[2].strip() in said.out
    assert keeper("snapshots").out.count("book") == 3
    assert keeper("tables").code == 0
    assert keeper("doctor").out.count("all simulated (this is the demo)") == 1
    assert keeper("run").code == 2


@pytest.mark.parametrize("other", ["", "/nowhere"])
def test_a_printed_command_names_its_home_if_needed(
    nights: Keeper, tmp_path: Path, other: str
) -> None:
    """If the environment names a different home, the printed command contains `--home`."""
    shutil.copytree(nights.home, tmp_path / "data", symlinks=True)
    ran = subprocess.run(
        [sys.executable, "-m", "assets.cli", "--home", "data", "tables"],
        cwd=tmp_path,
        env=os.environ | {"NIGHTBOOK_HOME": other, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    *_, typed = ran.stdout.splitlines()
    assert typed.endswith("tables NAME")
    assert (f"--home {tmp_path / 'data'} " in typed) is bool(other)


def test_verify_uses_singular_and_plural(copied: Keeper) -> None:
    """`verify` uses the singular for one file, and the plural for several."""
    assert copied("verify").out.startswith("✓ 3 nights: every file in ")
    manifest = next(copied.layout.landing.glob(f"{THIRD}/*/decision.json"))
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    said = copied("verify")
    assert said.err.endswith("\n1 file is damaged or missing.\n")
    shutil.rmtree(manifest.parent.parent)
    assert " files are damaged or missing.\n" in copied("verify").err


def test_dev_needs_a_free_port_and_no_other_daemon(copied: Keeper) -> None:
    """`nightbook dev` fails if the port is in use, or if the home already has a daemon."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = copied("dev", "--port", port)
    assert (said.code, said.out) == (1, "")
    assert f"Port {port} on this machine cannot be used" in said.err
    copied.report()
    with (copied.layout.dagster / "daemon.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        said = copied("dev")
    assert (said.code, said.out) == (1, "")
    assert "Dagster is already running" in said.err


def test_lists_fit_a_narrow_terminal(nights: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists of tables and snapshots fit into the 80 columns of a terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("assets.commands.tables.is_terminal", lambda: True)
    for words in (("tables",), ("tables", "balances"), ("snapshots",)):
        lines = [line for line in nights(*words).out.splitlines() if "-m assets.cli" not in line]
        assert max(map(len, lines)) <= 80


def test_tables_does_not_shorten_its_lines_in_a_pipe(nights: Keeper) -> None:
    """In a pipe, `nightbook tables` does not shorten its lines."""
    said = nights("tables").out
    assert "…" not in said
    assert max(map(len, said.splitlines())) > 80


def test_real_nights_and_a_demo_never_share_a_home(tmp_path: Path, nights: Keeper) -> None:
    """A demo fails in a home with real nights, and a real run fails in the home of a demo."""
    said = nights("demo")
    assert (said.code, said.out) == (2, "")
    assert "contains 3 real snapshots" in said.err
    keeper = Keeper(tmp_path, nights.sandbox)
    (tmp_path / "demo.json").write_text("{}")
    said = keeper("run")
    assert (said.code, said.out) == (2, "")
    assert "simulated nights" in said.err


def test_no_file_or_output_contains_a_secret(nights: Keeper, copied: Keeper) -> None:
    """After good and bad runs, no file in the home and no output contains the key or a secret."""
    shown = []
    for fault in ("authentication-failed", "timestamp-invalid"):
        copied.sandbox.show(f"{fault},path=/portfolios")
        shown += [copied("--debug", "run"), copied("doctor")]
    copied.sandbox.show()
    shown += [copied("api", "/venues"), copied("snapshots")]
    files = [path for path in copied.home.rglob("*") if path.is_file()]
    assert len(files) > 100
    texts = [path.read_bytes() for path in files]
    texts += [f"{said.out}{said.err}".encode() for said in shown]
    for canary in (KEY, SECRET, DEMO_SECRET):
        assert not any(canary.encode() in text for text in texts)


def test_a_preview_escapes_and_shortens_names(nights: Keeper) -> None:
    """A preview escapes and shortens names from the API, and has at most five rows."""
    assert cell("a|b") == "a\\|b"
    assert cell("<b>[x](y)`") == "\\<b\\>\\[x\\]\\(y\\)\\`"
    assert cell("one\ntwo\x1b\u202e") == "one\\\\ntwo\\\\x1b\\\\u202e"
    assert cell(None) == ""
    assert len(cell("x" * 1000)) == 40
    [path] = nights.layout.lake.glob(f"balances/snapshot_date={THIRD}/*.parquet")
    assert len(preview(path).splitlines()) == 2 + 5
