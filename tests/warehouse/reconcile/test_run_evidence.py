"""Tests of a reconciliation's evidence: authors of comments, signatures and settings of a day."""

import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, Desk
from warehouse.reconcile import service
from warehouse.reconcile.record import views

OFFICE = shutil.which("soffice")
Saved = Callable[[Path, str], None]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a home in which a run finds one break."""
    made = Desk(tmp_path)
    made.publish([Amount("10"), Amount("20", asset="ETH")])
    made.put(HEAD + "p1;BTC;v1;main;11\np1;ETH;v1;main;20\n")
    return made


def _commented(desk: Desk, name: str) -> Path:
    book = desk.run().files[0]
    break_id = str(desk.breaks()[0]["id"])
    return desk.edit(book, {break_id: {"Comment": "seen"}}, desk.folder.inbox / name)


def _rewritten(path: Path, part: str, change: Callable[[str], str]) -> None:
    with zipfile.ZipFile(path) as old:
        parts = {info.filename: old.read(info) for info in old.infolist()}
    parts[part] = change(parts[part].decode()).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)


def _as_excel(path: Path, who: str) -> None:
    """Write the last author where Excel writes it, after the creator `nightbook`."""
    saved = f"<cp:lastModifiedBy>{who}</cp:lastModifiedBy>"
    made = "<dc:creator>nightbook</dc:creator>"

    def change(core: str) -> str:
        bare = re.sub(
            r"<cp:lastModifiedBy>.*?</cp:lastModifiedBy>|<dc:creator>.*?</dc:creator>", "", core
        )
        return bare.replace("</cp:coreProperties>", f"{made}{saved}</cp:coreProperties>")

    _rewritten(path, "docProps/core.xml", change)


@pytest.mark.torture
@pytest.mark.parametrize(
    ("saved", "who"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("O&apos;Neil &amp; Co", "O'Neil & Co"),
        ("nightbook", "mine.xlsx"),
        ("openpyxl", "mine.xlsx"),
        ("Microsoft Office User", "mine.xlsx"),
        ("", "mine.xlsx"),
    ],
)
def test_the_author_is_the_person_who_saved_last(desk: Desk, saved: str, who: str) -> None:
    """The author is the person who saved the file last, or else the file's name."""
    _as_excel(_commented(desk, "mine.xlsx"), saved)
    desk.run()
    rows = views.ops_rows(desk.folder)["annotations"]
    assert [(row["value"], row["who"]) for row in rows] == [("seen", who)]


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_the_author_of_an_unnamed_ods_copy_is_its_file_name(desk: Desk, tmp_path: Path) -> None:
    """If LibreOffice saved an ods file without a name, the author is the file's name."""
    book = _commented(desk, "mine.xlsx")
    command = [OFFICE or "", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless"]
    command += ["--convert-to", "ods", "--outdir", str(tmp_path), str(book)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    book.unlink()
    unnamed = Path(shutil.copy(tmp_path / "mine.ods", desk.folder.inbox / "unnamed.ods"))
    desk.run()
    authors = [row["who"] for row in views.ops_rows(desk.folder)["annotations"]]
    assert authors == [unnamed.name]


@pytest.mark.torture
def test_a_signature_keeps_the_number_of_open_breaks(desk: Desk) -> None:
    """A signature keeps the number of open breaks in status, history, verify and the workbook.

    If the result changes, the reason why the sign-off is void has the number, too.
    """
    desk.run()
    root = desk.folder.root
    service.sign(root, role="preparer", who="Ada", now=NOW)
    words = "signed by Ada as preparer at 2026-11-21 08:00:00 UTC with 1 open break"
    assert [signed.description for signed in service.status(root).signatures] == [words]
    told = service.history(root, str(desk.breaks()[0]["id"]))
    assert [entry["words"] for entry in told if entry["kind"] == "signed"] == [words]
    book = desk.run().files[0]
    assert [signed.description for signed in service.verify(root, book).signatures] == [words]
    cells = [cell.value for row in openpyxl.load_workbook(book)["Summary"] for cell in row]
    assert "with 1 open break" in cells
    desk.put(HEAD + "p1;BTC;v1;main;12\np1;ETH;v1;main;20\n")
    desk.run()
    assert "Ada (preparer) signed run" in service.status(root).void
    assert "with 1 open break, and since then" in service.status(root).void


def _past(desk: Desk, settings: str) -> list[str]:
    """Run two days, change recon.toml and rerun the first day twice.

    Return the texts on the Summary sheets that say that recon.toml has changed.
    """
    desk.settle('[tolerance]\nabsolute = "0"\n[alias.asset]\nXBT = "BTC"\n')
    desk.run()
    desk.publish([Amount("10"), Amount("20", asset="ETH")], "20261121T021500Z")
    desk.run()
    desk.settle(settings)
    told: list[str] = []
    for _ in range(2):
        done = desk.run(date(2026, 11, 20))
        summary = openpyxl.load_workbook(done.files[0])["Summary"]
        cells = [str(cell.value) for row in summary for cell in row]
        told += [cell for cell in cells if "recon.toml has changed since run" in cell]
    return told


@pytest.mark.torture
def test_a_rerun_lists_how_its_settings_differ(desk: Desk) -> None:
    """The Summary sheet of each rerun lists how its settings differ from those of the first run."""
    told = _past(desk, '[tolerance]\nabsolute = "5"\nlimit = "1"\nlimit_in_all = "1"\n')
    assert len(told) == 2
    for words in told:
        assert 'tolerance.absolute was "0" and is now "5"' in words
        assert 'alias.asset.XBT was "BTC" and is no longer set' in words
        assert 'tolerance.limit is new: "1"' in words


@pytest.mark.torture
def test_a_rerun_with_the_same_settings_reports_no_change(desk: Desk) -> None:
    """A rerun with the same settings reports no change. Comments in recon.toml are not settings."""
    assert not _past(desk, '# kept\n[alias.asset]\nXBT = "BTC"\n[tolerance]\nabsolute = "0"\n')
    desk.settle('[tolerance]\nabsolute = "0.5"\n')
    assert not [one for one in desk.run().notices if "other settings" in one.message]


@pytest.mark.torture
def test_a_rerun_reports_that_old_settings_were_not_stored(
    desk: Desk,
) -> None:
    """If an older nightbook did not store a day's settings, each rerun reports this."""
    desk.run()
    desk.publish([Amount("10"), Amount("20", asset="ETH")], "20261121T021500Z")
    desk.run()
    with desk.folder.transaction() as connection:
        connection.execute("update runs set own_settings = null where day = '2026-11-20'")
    desk.settle('[tolerance]\nabsolute = "0.5"\n')
    for _ in range(2):
        notices = desk.run(date(2026, 11, 20)).notices
        assert any("nightbook did not save the earlier settings" in one.message for one in notices)
