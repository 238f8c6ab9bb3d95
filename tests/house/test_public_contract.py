"""The public contract: tables, columns, files, keys, settings, commands, options, exit codes.

The golden file was first written before all modules were moved. A change of the file may break
analysts' queries, finance's workbooks and operators' scripts, so it needs a reason.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import openpyxl
from pyarrow import parquet

from pipelines.settings import DEFAULTS, NAMES
from tests.support.operator_home import SECOND, Keeper
from warehouse.reconcile import service

HELP = Path(__file__).parents[1] / "golden" / "help"
WORKBOOKS = "workbooks.txt"
FINANCE = Path(__file__).parents[2] / "warehouse" / "reconcile" / "FINANCE.md"
# Commands whose exit codes are in the contract, for a home of three nights without a ledger.
ENDS = (
    ("tables",),
    ("snapshots",),
    ("snapshots", "--lessons"),
    ("status",),
    ("verify",),
    ("query", "select 1 as x"),
    ("query", "select nothing from nowhere"),
    ("query", "drop table balances"),
    ("accept", "20000101T000000Z"),
    ("reject", "20000101T000000Z", "--why", "a test"),
    ("export", "--as-of", "2000-01-01"),
    ("export", "--as-of", "yesterday"),
    ("run", "--date", "2000-01-01"),
    ("reconcile", "run"),
    ("reconcile", "status"),
    ("no-such-command",),
    ("query",),
    (),
)


def _database(path: Path) -> Iterator[str]:
    """Yield a line for each column of each table and view, and for each macro for analysts."""
    with duckdb.connect(str(path), read_only=True) as connection:
        yield from (
            " ".join(map(str, row))
            for row in connection.execute(
                "select concat_ws('.', schema_name, table_name, column_name), data_type, "
                "case when is_nullable then '' else 'not null' end from duckdb_columns() "
                "where not internal and schema_name in ('main', 'history', 'ops', 'reference') "
                "order by all"
            ).fetchall()
        )
        yield from (
            f"macro {name}({', '.join(parameters)})"
            for name, parameters in connection.execute(
                "select function_name, parameters from duckdb_functions() where not internal "
                "and schema_name = 'main' and function_type like '%macro' order by all"
            ).fetchall()
        )


def _masked(path: str) -> str:
    """Return a path with N for each run of digits and H for each hash."""
    path = re.sub(r"\.latest-\w+", ".latest-R", path)
    return re.sub(r"\d+", "N", re.sub(r"[0-9a-f-]{20,}", "H", path))


def _files(home: Path) -> Iterator[str]:
    """Yield each kind of file below a home, with its columns or keys."""
    lines = set()
    for path in home.rglob("*"):
        name = path.relative_to(home).as_posix()
        if not path.is_file() or name.startswith("dagster/"):
            continue
        held = ""
        if path.suffix == ".parquet":
            schema = parquet.read_schema(path)
            held = ", ".join(f"{field.name} {field.type}" for field in schema)
        elif path.suffix == ".json":
            content = json.loads(path.read_bytes())
            held = ", ".join(sorted(content)) if "digests" not in name else "one for each file"
        lines.add(f"{_masked(name)}: {held}".rstrip(": "))
    yield from sorted(lines)


def _workbook(path: Path) -> Iterator[str]:
    """Yield the sheets of an exported workbook with their column titles."""
    workbook = openpyxl.load_workbook(path, read_only=True)
    for sheet in workbook.worksheets:
        titles = next(
            (row for row in sheet.iter_rows(values_only=True) if sum(map(bool, row)) > 3), ()
        )
        yield f"{sheet.title}: {'; '.join(str(title) for title in titles if title)}"


def _options() -> Iterator[str]:
    """Yield each command with its options."""
    for command in sorted({path.stem.partition("-")[0] for path in HELP.glob("*.txt")}):
        texts = [path.read_text("utf-8") for path in HELP.glob(f"{command}*.txt")]
        lines = re.findall(r"^  -.*", "\n".join(texts), re.MULTILINE)  # without examples
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(lines)))
        yield f"{command} {' '.join(sorted(options - {'--help'}))}".rstrip()


def test_workbook_sheets_and_columns_keep_their_names_and_order(
    copied: Keeper, golden: Callable[[str, str], None]
) -> None:
    """Last month's lookups work: sheets and columns keep names and order, and new ones are last."""
    folder = copied.home / "reconcile"
    service.init(copied.layout.database, folder)
    service.rehearse(copied.layout.database, folder)
    assert copied("reconcile", "run").code == 3
    assert copied("export", "--as-of", str(SECOND)).code == 0
    books = (next(copied.layout.exports.glob("*.xlsx")), next(folder.glob("out/*/*.xlsx")))
    now = [line for book in books for line in _workbook(book) if not line.endswith(": ")]
    before = (HELP.parent / WORKBOOKS).read_text("utf-8").splitlines()
    # Check this even if the golden file is updated.
    later = iter(now)
    for line in before:
        assert any(new == line or new.startswith(f"{line}; ") for new in later), line
    golden(WORKBOOKS, "\n".join(now) + "\n")
    page = FINANCE.read_text("utf-8")
    assert [line for line in now if f"| {line.replace(': ', ' | ', 1)} |" not in page] == []


def test_the_public_contract_does_not_change(
    copied: Keeper, golden: Callable[[str, str], None]
) -> None:
    """Tables, columns, files, keys, settings, commands, options and exit codes do not change."""
    for folder in ("exports", "reports"):  # files that other tests made from these nights
        shutil.rmtree(copied.home / folder, ignore_errors=True)
    assert copied("export", "--as-of", str(SECOND)).code == 0
    assert copied("report").code == 0
    parts = {
        "database": _database(copied.layout.database),
        "files": _files(copied.home),
        "workbook": _workbook(next(copied.home.rglob("*.xlsx"))),
        "settings": (f"{name}={DEFAULTS.get(name, '')}" for name in sorted(NAMES)),
        "options": _options(),
        "exit codes": (f"nightbook {' '.join(words)}: {copied(*words).code}" for words in ENDS),
    }
    text = "\n".join(f"[{part}]\n" + "\n".join(lines) + "\n" for part, lines in parts.items())
    golden("public_contract.txt", text)
