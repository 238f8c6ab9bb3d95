"""Tests of archives in the inbox: each member is a separate ledger, and faulty ones are named."""

import gzip
import io
import zipfile
from datetime import date
from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.pasted_answers import answer
from tests.support.reconciliation_home import Desk, ledger
from warehouse.reconcile.terms import Ambiguous, NotReconciled

pytestmark = pytest.mark.usefixtures("no_workbook")

SPOT, COLD = Amount("10"), Amount("5", venue="v2", account="cold")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a home whose book has two accounts."""
    made = Desk(tmp_path)
    made.publish([SPOT, COLD])
    made.folder.make()
    return made


def pack(desk: Desk, files: dict[str, str | bytes], name: str = "ledgers.zip") -> None:
    """Write an archive with these files into the inbox."""
    with zipfile.ZipFile(desk.folder.inbox / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files.items():
            archive.writestr(member, content)


def test_every_archive_member_is_a_separate_ledger(desk: Desk) -> None:
    """Each member of an archive is read as a ledger, except hidden files of the desktop.

    A member may be in a folder.
    """
    pack(
        desk,
        {"spot.csv": ledger([SPOT]), "vault/cold.csv": ledger([COLD]), "__MACOSX/._spot.csv": "x"},
    )
    ran = desk.run()
    assert (ran.exit_code, ran.counts["Matched"]) == (0, 2)
    (hidden,) = ran.unused
    assert (hidden.name, hidden.severity) == ("ledgers.zip/__MACOSX/._spot.csv", "low")


def test_the_source_of_a_break_begins_with_its_archive(desk: Desk) -> None:
    """The source of a break is the path of its archive and member, and the row number."""
    rows = ledger([Amount("11")]) + "p1;BTC;v2;cold;much\n"
    pack(desk, {"vault/all.csv": rows})
    desk.run()
    places = {item["source"] for item in desk.breaks()}
    assert "ledgers.zip/vault/all.csv:2" in places


def test_the_bytes_of_an_archive_member_are_kept(desk: Desk) -> None:
    """The folder `kept` has the bytes of the member, as they were in the archive."""
    pack(desk, {"all.csv": ledger([SPOT, COLD])})
    desk.run()
    kept = [path.read_bytes() for path in (desk.folder.root / "kept").iterdir()]
    assert ledger([SPOT, COLD]).encode() in kept


def test_a_gzip_file_is_read_by_its_inner_extension(desk: Desk) -> None:
    """A gzip file such as ledger.csv.gz is read as the format that its inner ending names."""
    (desk.folder.inbox / "ledger.csv.gz").write_bytes(gzip.compress(ledger([SPOT, COLD]).encode()))
    assert desk.run().counts["Matched"] == 2


def test_the_member_of_the_newer_archive_is_used(desk: Desk) -> None:
    """Of two members with the same name, the one in the archive with the later date is used."""
    pack(desk, {"all.csv": ledger([Amount("9"), COLD])}, "ledgers-2026-11-19.zip")
    pack(desk, {"all.csv": ledger([SPOT, COLD])}, "ledgers-2026-11-20.zip")
    ran = desk.run()
    assert ran.counts["Matched"] == 2
    assert [item.reason for item in ran.unused] == ["ledgers-2026-11-20.zip/all.csv is newer"]


def test_a_line_may_name_a_member_or_a_complete_archive(desk: Desk) -> None:
    """A line for recon.toml may name a single member, or an archive with all its members."""
    pack(desk, {"all (1).csv": ledger([SPOT, COLD]), "all (2).csv": ledger([SPOT])})
    with pytest.raises(Ambiguous) as asked:
        desk.run()
    desk.settle(answer(asked.value.line))
    assert len(desk.run().counts) > 0
    desk.settle('[inbox]\n"ledgers.zip" = "unused"\n')
    ran = desk.run()
    assert (ran.run_id, len(ran.unused)) == ("", 2)


@pytest.mark.parametrize("name", ["", ".", "./", "/"])
def test_an_archive_member_without_a_name_is_reported(desk: Desk, name: str) -> None:
    """A member with an empty name is reported as unused, and the other ledgers are read.

    A name that ends in a slash is a folder, and is not reported.
    """
    desk.put(ledger([SPOT, COLD]))
    with zipfile.ZipFile(desk.folder.inbox / "custody.zip", "w") as archive:
        archive.writestr("custody.csv", ledger([COLD]))
        archive.filelist[0].filename = name  # the name in the directory at the end of the file
    ran = desk.run()
    assert ran.counts["Matched"] == 2
    assert [unused.reason.partition(":")[0] for unused in ran.unused] == (
        [] if name.endswith("/") else ["it has no name in the archive"]
    )


def bomb(member: str) -> bytes:
    """Return a ZIP archive of 110 MB of zeros, or a gzip file if `member` is empty."""
    zeros = bytes(110 * 1024**2)
    if not member:
        return gzip.compress(zeros)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, zeros)
    return made.getvalue()


def test_a_zip_bomb_is_reported_and_not_unpacked(desk: Desk) -> None:
    """An archive that is too large when unpacked is unused, and the other ledgers are read."""
    desk.put(ledger([SPOT, COLD]))
    (desk.folder.inbox / "custody.zip").write_bytes(bomb("custody.csv"))
    ran = desk.run()
    (unused,) = ran.unused
    assert (unused.name, unused.severity, ran.exit_code) == ("custody.zip", "high", 3)
    assert "is larger when unpacked than the size limit for ledgers" in unused.reason


def test_an_oversized_or_damaged_gzip_file_is_refused(desk: Desk) -> None:
    """A gzip file that is too large or damaged stops the run, so no part of it is compared."""
    path = desk.folder.inbox / "custody.csv.gz"
    path.write_bytes(bomb(""))
    with pytest.raises(NotReconciled, match=r"^custody\.csv\.gz is larger when unpacked"):
        desk.run()
    path.write_bytes(gzip.compress(ledger([SPOT, COLD]).encode())[:-9])
    with pytest.raises(NotReconciled, match=r"^custody\.csv\.gz cannot be unpacked"):
        desk.run()


def test_a_ledger_that_was_read_for_an_earlier_day_is_not_news(tmp_path: Path) -> None:
    """Only an older file that was never read is among the unused files."""
    desk = Desk(tmp_path)
    desk.publish([Amount("10")], "20261119T021500Z")
    desk.publish([Amount("10")])
    row = "portfolio,asset,venue,account,amount\np1,BTC,v1,main,10"
    desk.put(f"{row}\n", "ledger-2026-11-19.csv")
    assert desk.run(as_of=date(2026, 11, 19)).exit_code == 0
    desk.put(f"{row}.0\n", "ledger-2026-11-20.csv")
    assert desk.run().unused == ()
    desk.put(f"{row}.00\n", "ledger-2026-11-18.csv")
    assert [item.name for item in desk.run().unused] == ["ledger-2026-11-18.csv"]
