"""Fixtures that write ledgers into a folder and read them as the desk does."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import openpyxl
import pytest

from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.read import read_ledger
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms import reading_files
from warehouse.spreadsheet.reading.grid import open_file

DAY = date(2026, 11, 20)
Write = Callable[..., Path]
Read = Callable[..., Ledger]


@pytest.fixture
def workbook() -> None:
    """Write the workbook of a run although `no_workbook` is used."""


@pytest.fixture
def no_workbook(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not write workbooks, except with the `workbook` fixture or `--torture`.

    Writing the workbook takes a third of a run's time.
    """
    if not request.config.getoption("--torture") and "workbook" not in request.fixturenames:
        monkeypatch.setattr("warehouse.reconcile.run.write_files", lambda *_: ())


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a ledger: rows of cells as xlsx, or text or bytes unchanged."""

    def written(content: str | bytes | Sequence[Sequence[object]], name: str = "") -> Path:
        if isinstance(content, str | bytes):
            path = tmp_path / (name or "ledger.csv")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            return path
        path = tmp_path / (name or "ledger.xlsx")
        book = openpyxl.Workbook()
        sheet = book.active
        for row in content:
            sheet.append(list(row))
        book.save(path)
        return path

    return written


@pytest.fixture
def read() -> Read:
    """Return a function that reads ledgers for the book of 2026-11-20."""

    def ledger(
        *paths: Path,
        config: Config | None = None,
        remembered: dict[str, dict[str, str]] | None = None,
        day: date = DAY,
    ) -> Ledger:
        with reading_files():
            files = [open_file(path, count_fields) for path in paths]
        context = ReadingContext(config=config or Config(), day=day, remembered=remembered or {})
        return read_ledger(files, context)

    return ledger
