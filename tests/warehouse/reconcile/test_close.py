"""Tests of closing a month: packs that verify elsewhere, and closed days."""

import gzip
import io
import os
import shutil
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, SNAPSHOT, Desk
from tests.support.shared import some_daily
from warehouse.reconcile import service
from warehouse.reconcile.close import pack
from warehouse.reconcile.close.close import (
    CloseSummary,
    close,
    remove_archived_ledgers,
)
from warehouse.reconcile.close.pack import PackCheck
from warehouse.reconcile.close.verify import verify_pack
from warehouse.reconcile.model import Run, to_json
from warehouse.reconcile.record.archive import archived_path
from warehouse.reconcile.record.record import damaged_packs, find_damage
from warehouse.reconcile.terms import DayClosed, NotClosed, NotReconciled
from warehouse.reconcile.workbook.content import WORDING
from warehouse.storage.layout import json_bytes

MONTH, FIRST = "2026-11", date(2026, 11, 20)
LATER = datetime(2026, 12, 1, 9, tzinfo=UTC)


def night(desk: Desk, number: int, btc: str) -> datetime:
    """Publish a book of two assets, write its ledger and run. Return the time of the run."""
    day = FIRST + timedelta(number)
    desk.publish(
        [Amount("10"), Amount("20", asset="ETH")], SNAPSHOT.replace("20261120", f"{day:%Y%m%d}")
    )
    desk.put(HEAD + f"p1;BTC;v1;main;{btc}\np1;ETH;v1;main;20\n", f"ledger_{day}.csv")
    moment = datetime(2026, 11, 21, 8, tzinfo=UTC) + timedelta(number)
    desk.run(now=moment)
    return moment


def closed(desk: Desk, now: datetime = LATER, who: str = "margaret") -> CloseSummary:
    """Close the month and return the summary."""
    database, root = desk.layout.database, desk.folder.root
    return close(database, root, MONTH, who=who, now=now, program_version="0.0.0")


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home with three nights. The third one ties, and the first one has two signatures.

    On the first two nights, BTC is the same break.
    """
    made = Desk(tmp_path_factory.mktemp("month"))
    for number, btc in enumerate(("11", "11", "10")):
        at = night(made, number, btc)
        if not number:
            service.sign(made.folder.root, role="preparer", who="ada", now=at)
            service.sign(made.folder.root, role="reviewer", who="grace", now=at, entered_by="ops")
    return made


@pytest.fixture
def desk(month: Desk, tmp_path: Path) -> Desk:
    """Return a copy of the home with three nights."""
    shutil.copytree(month.home, tmp_path / "home", symlinks=True)
    return Desk(tmp_path / "home", month.versions, list(month.nights))


@pytest.fixture(scope="module")
def kept_pack(month: Desk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the month's pack, which tests copy."""
    home = tmp_path_factory.mktemp("closed") / "home"
    shutil.copytree(month.home, home, symlinks=True)
    return closed(Desk(home)).pack


def elsewhere(file: Path, place: Path) -> PackCheck:
    """Verify a copy of a pack in a folder without other files, as on a different machine."""
    place.mkdir()
    return verify_pack(Path(shutil.copy(file, place / file.name)), "0.0.0")


def test_the_pack_of_a_closed_month_verifies_elsewhere(desk: Desk, tmp_path: Path) -> None:
    """A pack has all workbooks, ledgers, settings and signatures, and it verifies elsewhere.

    The summary lists the days that are not signed or have no book.
    """
    summary = closed(desk)
    assert "27 days without a book" in summary.listed[1]
    assert summary.listed[0] == "2 days not signed: 2026-11-21, 2026-11-22"
    ledger = (desk.folder.inbox / "ledger_2026-11-20.csv").read_bytes()
    with zipfile.ZipFile(summary.pack) as names:
        contents = {name: names.read(name) for name in names.namelist()}
    assert ledger in contents.values()
    assert sum(name.endswith(".xlsx") for name in contents) == 3
    page = contents[pack.INDEX].decode()
    assert "grace, 2026-11-21, entered by ops" in page
    assert summary.index.read_bytes() == contents[pack.INDEX]
    trail = contents[pack.TRAIL].decode("utf-8-sig").splitlines()
    assert sum(",signature as " in line for line in trail) == 2
    assert sum(",run," in line for line in trail) == 3
    check = elsewhere(summary.pack, tmp_path / "other")
    assert (check.is_whole, check.uncompared, check.sha256) == (True, [], summary.closing.sha256)
    assert check.compared[1:] == [
        "3 results with the SHA-256 of their 6 positions",
        "3 workbooks with every cell that nightbook wrote",
        "2 signatures with the result that was signed",
        "2 ledgers and 1 recon.toml by SHA-256",
        "audit_trail.csv and index.html",
    ]


def members_of(file: Path) -> dict[str, bytes]:
    """Return the names and contents of the files in a pack."""
    with zipfile.ZipFile(file) as names:
        return {name: names.read(name) for name in names.namelist()}


def sign_off(content: bytes) -> dict[str, tuple[str, str]]:
    """Return the name and the comment next to each role on the Summary sheet of a workbook."""
    sheet = openpyxl.load_workbook(io.BytesIO(content))["Summary"]
    return {
        str(row[0]): (str(row[1] or ""), str(row[2] or ""))
        for row in sheet.iter_rows(values_only=True)
        if str(row[0]).endswith("ed by") and row[0] != "Compared by"
    }


def test_the_index_lists_accepted_breaks_with_their_reasons(desk: Desk, tmp_path: Path) -> None:
    """A break that was accepted on any day of the month is listed, even if it changed later.

    The index shows the amount, the person, the reason and the day.
    """
    book = desk.folder.day_files(FIRST + timedelta(1)).workbook
    (break_,) = result(desk, FIRST + timedelta(1)).breaks
    said = {"Status": "Explained - accepted", "Comment": "fee, see invoice 7", "Root cause": "Fee"}
    author = openpyxl.load_workbook(desk.edit(book, {break_.id: said}, desk.home / "edited.xlsx"))
    author.properties.lastModifiedBy = "edith"
    author.save(desk.folder.inbox / "edited.xlsx")
    night(desk, 2, "11")
    night(desk, 3, "12")  # the difference changed, so the break is reopened
    desk.put(HEAD + "p1;BTC;v1;main;12\np1;ETH;v1;main;20\n", "ledger_2026-11-23.csv")
    summary = closed(desk)
    page = summary.index.read_text()
    accepted = page.partition("<h2>Accepted breaks</h2>")[2].partition("</table>")[0]
    assert accepted.count("<tr>") == 2  # the header and one break
    for text in (break_.id, ">1<", "edith", "Fee; fee, see invoice 7", "2026-11-22"):
        assert text in accepted
    assert elsewhere(summary.pack, tmp_path / "other").is_whole


def save_copy(desk: Desk, day: date, author: str, cells: dict[str, str], name: str) -> Path:
    """Save a copy of a day's workbook in the inbox, with these cells next to its only break."""
    (break_,) = result(desk, day).breaks
    workbook = desk.folder.day_files(day).workbook
    copy = openpyxl.load_workbook(desk.edit(workbook, {break_.id: cells}, desk.home / name))
    copy.properties.lastModifiedBy = author
    copy.save(desk.folder.inbox / name)
    return desk.folder.inbox / name


def test_each_acceptance_of_a_break_has_a_line_in_the_index(desk: Desk) -> None:
    """A break accepted by edith, reopened, and accepted by frank has two lines in the index."""
    accepted = {"Status": "Explained - accepted"}
    save_copy(desk, FIRST + timedelta(1), "edith", accepted | {"Comment": "timing"}, "1.xlsx")
    night(desk, 2, "11")
    save_copy(desk, FIRST + timedelta(2), "frank", {"Status": "Open"}, "2.xlsx")
    night(desk, 3, "11")
    save_copy(desk, FIRST + timedelta(3), "frank", accepted | {"Comment": "a fee"}, "3.xlsx")
    night(desk, 4, "11")
    page = closed(desk).index.read_text()
    lines = page.partition("<h2>Accepted breaks</h2>")[2].partition("</table>")[0].split("<tr>")[2:]
    assert [("edith" in line, "frank" in line) for line in lines] == [(False, True), (True, False)]
    assert "2026-11-24</td>" in lines[0]
    assert "2026-11-22</td>" in lines[1]


def test_an_entry_after_a_close_is_in_the_next_pack(desk: Desk) -> None:
    """The next close reads and reports an entry saved after a close, and writes a new pack.

    A third close finds nothing new.
    """
    assert closed(desk).closing.version == 1
    copy = save_copy(desk, FIRST + timedelta(1), "edith", {"Comment": "they called"}, "late.xlsx")
    saved_at = (LATER + timedelta(1)).timestamp()
    os.utime(copy, (saved_at, saved_at))
    summary = closed(desk, LATER + timedelta(2))
    assert (summary.is_new, summary.closing.version) == (True, 2)
    assert summary.changes == ("1 new entry in workbooks",)
    assert "they called" in members_of(summary.pack)[pack.TRAIL].decode()
    assert not closed(desk, LATER + timedelta(3)).is_new


def test_packed_workbooks_contain_command_line_signatures(desk: Desk, tmp_path: Path) -> None:
    """A pack's workbooks contain the signatures from the command line, and `out` is unchanged.

    The program that saved the workbook does not matter. If a workbook has no row for a role, the
    pack lists the signature as missing.
    """
    root, second = desk.folder.root, FIRST + timedelta(1)
    book = desk.folder.day_files(second).workbook
    saved = openpyxl.load_workbook(book)  # writes different XML than nightbook does
    saved.save(book)
    before = book.read_bytes()
    for role, who, comment in (("preparer", "A <B> & Ć", "=1+1"), ("reviewer", "grace", "")):
        service.sign(root, role=role, who=who, comment=comment, day=second, now=LATER)
    service.sign(root, role="approver", who="hedy", day=second, now=LATER)
    summary = closed(desk)
    contents = members_of(summary.pack)
    names = {
        day: sign_off(contents[f"days/{day}/recon_{day}.xlsx"])
        for day in ("2026-11-20", f"{second}")
    }
    assert {role: who for role, (who, _) in names["2026-11-20"].items()} == {
        "Prepared by": "ada",
        "Reviewed by": "grace",
    }
    assert "entered by ops" in names["2026-11-20"]["Reviewed by"][1]
    assert names[str(second)]["Prepared by"] == (
        "A <B> & Ć",
        "=1+1; signed at 2026-12-01 09:00:00 UTC; with 1 open break",
    )
    assert book.read_bytes() == before
    # The run wrote no row for an approver, so the pack lists this signature as missing.
    words = "the signature of hedy as approver, in recon_2026-11-21.xlsx"
    assert f"not in the pack: {words}" in summary.listed
    check = elsewhere(summary.pack, tmp_path / "other")
    assert (check.is_whole, check.uncompared) == (
        True,
        [f"already missing when the pack was made: {words}"],
    )

    def unsign(files: dict[str, bytes]) -> None:
        files[f"days/{second}/{book.name}"] = before

    file = Path(shutil.copy(summary.pack, tmp_path / "unsigned.zip"))
    rewritten(file, unsign, honest=True)
    assert [words.partition(",")[0] for words in verify_pack(file, "0.0.0").differences] == [
        "the signature of A <B> & Ć as preparer",
        "the signature of grace as reviewer",
    ]


def test_each_ledger_has_a_unique_name_in_the_pack(desk: Desk, tmp_path: Path) -> None:
    """A pack has each ledger in a folder for its day, with a unique name.

    An unpacked ledger has the suffix of its content.
    """
    for path in desk.folder.inbox.iterdir():
        path.unlink()
    day = FIRST + timedelta(3)
    lines = {name: f"p1;{name};v1;main;5\n" for name in ("BTC", "ETH", "LTC")}
    night(desk, 3, "10")
    desk.put(HEAD + lines["BTC"], f"ledger_{day}.csv")
    desk.put(HEAD + lines["ETH"], f"Ledger_{day}.csv")
    with gzip.open(desk.folder.inbox / f"bank {day}.csv.gz", "wt") as file:
        file.write(HEAD + lines["LTC"])
    with zipfile.ZipFile(desk.folder.inbox / f"all {day}.zip", "w") as archive:
        archive.writestr("x/a?b.csv", HEAD + "p1;SOL;v1;main;5\n")
        archive.writestr("x/custody.csv", HEAD + "p1;XRP;v1;main;5\n")
    desk.settle(f'[inbox]\n"?edger_{day}.csv" = "ledger"\n')
    desk.run(now=LATER - timedelta(days=7))
    summary = closed(desk)
    contents = members_of(summary.pack)
    ledgers = {
        name.removeprefix(f"{pack.LEDGERS}{day}/"): content.decode().splitlines()[1]
        for name, content in contents.items()
        if name.startswith(f"{pack.LEDGERS}{day}/")
    }
    assert ledgers == {
        f"Ledger_{day}.csv": "p1;ETH;v1;main;5",
        f"ledger_{day} (2).csv": "p1;BTC;v1;main;5",
        f"bank {day}.csv": "p1;LTC;v1;main;5",
        f"all {day}.zip/x/a_b.csv": "p1;SOL;v1;main;5",
        f"all {day}.zip/x/custody.csv": "p1;XRP;v1;main;5",
    }
    page = summary.index.read_text()
    assert all(f"<td>{pack.LEDGERS}{day}/{name}</td>" in page for name in ledgers)
    assert elsewhere(summary.pack, tmp_path / "other").is_whole


def test_equal_months_close_into_identical_packs(desk: Desk, tmp_path: Path) -> None:
    """Two homes with the same nights close into identical packs. A second close changes nothing."""
    shutil.copytree(desk.home, tmp_path / "twin", symlinks=True)
    first, second = closed(desk), closed(Desk(tmp_path / "twin"))
    assert first.pack.read_bytes() == second.pack.read_bytes()
    again = closed(desk, LATER + timedelta(days=1))
    assert (again.is_new, again.closing) == (False, [*desk.folder.closings][-1])


def rewritten(file: Path, change: Callable[[dict[str, bytes]], None], *, honest: bool) -> None:
    """Change the files of a pack. If `honest`, write a manifest that matches the changed files."""
    with zipfile.ZipFile(file) as names:
        contents = {name: names.read(name) for name in names.namelist() if name != pack.MANIFEST}
        manifest = pack.read_manifest(names)
    change(contents)
    if honest:
        facts = pack.read_facts(contents[pack.FACTS])
        members = (pack.PackMember(name, content) for name, content in contents.items())
        pack.write_pack(file, facts, members)
        return
    with zipfile.ZipFile(file, "w") as names:
        for name, content in contents.items():
            names.writestr(name, content)
        names.writestr(pack.MANIFEST, json_bytes(to_json(manifest)))


def _replace(ending: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(contents: dict[str, bytes]) -> None:
        names = [name for name in contents if name.endswith(ending) and old in contents[name]]
        assert names
        for name in names:
            contents[name] = contents[name].replace(old, new)

    return change


def _drop(part: str) -> Callable[[dict[str, bytes]], None]:
    def change(contents: dict[str, bytes]) -> None:
        del contents[next(name for name in sorted(contents) if part in name)]

    return change


def _swap(contents: dict[str, bytes]) -> None:
    first, second = sorted(name for name in contents if name.endswith(".parquet"))[:2]
    contents[first] = contents[second]


def _ledger(contents: dict[str, bytes]) -> None:
    name = next(name for name in contents if name.startswith(pack.LEDGERS))
    contents[name] += b"p1;BTC;v1;main;1\n"


@pytest.mark.parametrize(
    ("change", "words"),
    some_daily(
        [
            (_replace(".html", b"grace", b"edith"), "index.html does not match"),
            (_replace(".csv", b"signature as", b"Signature as"), "audit_trail.csv does not match"),
            (_replace(".jsonl", b'"who": "grace"', b'"who": "edith"'), "differs from"),
            (
                _replace(".jsonl", b'"difference": "1"', b'"difference": "2"'),
                "Difference, exact was",
            ),
            (_swap, "belongs to run"),
            (_ledger, "is not the file that nightbook read under this name"),
        ],
        3,
    ),
)
def test_a_change_is_found_even_if_the_manifest_matches(
    kept_pack: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], words: str
) -> None:
    """A change is found even if the manifest matches, because other files contradict it."""
    file = Path(shutil.copy(kept_pack, tmp_path / "changed.zip"))
    rewritten(file, change, honest=True)
    check = verify_pack(file, "0.0.0")
    assert any(words in difference for difference in check.differences), check.differences


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_replace(".html", b"grace", b"edith"), "index.html has changed since it was written"),
        (_drop("recon_2026-11-21.xlsx"), "recon_2026-11-21.xlsx is missing"),
        (
            lambda contents: contents.update({"days/x.txt": b"new"}),
            "days/x.txt is not in the manifest",
        ),
    ],
)
def test_a_changed_missing_or_added_file_is_reported(
    kept_pack: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], words: str
) -> None:
    """A changed, missing or added file is reported by name."""
    file = Path(shutil.copy(kept_pack, tmp_path / "changed.zip"))
    rewritten(file, change, honest=False)
    assert verify_pack(file, "0.0.0").differences[0].endswith(words)


@pytest.mark.parametrize(("place", "number"), [("verify.WORDING", 10), ("pack.FORMAT", 4)])
def test_a_pack_of_another_format_is_refused(
    kept_pack: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    """A pack of an older version is refused, and the message names the remedy."""
    monkeypatch.setattr(f"warehouse.reconcile.close.{place}", number)
    with pytest.raises(NotReconciled, match="verify it with the version that wrote it"):
        verify_pack(kept_pack, "0.0.0")


def _bare_pack(file: Path, *members: pack.PackMember, through: date = FIRST) -> None:
    facts = pack.PackFacts(
        month=MONTH,
        version=1,
        first=FIRST,
        through=through,
        who="",
        at="",
        program="",
        books={},
        changes=(),
        missing=(),
        wording=WORDING,
    )
    about = pack.PackMember(pack.FACTS, json_bytes(to_json(facts)))
    pack.write_pack(file, facts, iter([about, *members]))


def test_a_file_that_is_not_a_complete_pack_is_refused(tmp_path: Path) -> None:
    """A file that is not a complete pack is refused.

    Such files are a truncated file, an unrelated zip, a path out of the folder, an encrypted zip,
    days outside the month and a pack without files.
    """
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as names:
        names.writestr("a.txt", "a")
    _bare_pack(tmp_path / "out.zip", pack.PackMember("../../out", b""))
    _bare_pack(tmp_path / "locked.zip")
    content = (tmp_path / "locked.zip").read_bytes()
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # set the flag for encryption
        parts = content.split(mark)
        content = mark.join(
            [parts[0], *(part[: place - 4] + b"\x01" + part[place - 3 :] for part in parts[1:])]
        )
    (tmp_path / "locked.zip").write_bytes(content)
    _bare_pack(tmp_path / "before.zip", through=date(2026, 10, 31))
    _bare_pack(tmp_path / "after.zip", through=date(9999, 12, 31))
    _bare_pack(tmp_path / "empty.zip")
    for file in sorted(tmp_path.glob("*.zip")):
        with pytest.raises(NotReconciled, match="is not a month's pack"):
            verify_pack(file, "0.0.0")


@pytest.mark.parametrize("byte", range(0, 40, 7))
def test_a_damaged_member_of_a_pack_is_reported(kept_pack: Path, tmp_path: Path, byte: int) -> None:
    """A member with damaged bytes is reported as changed, without a crash."""
    content = bytearray(kept_pack.read_bytes())
    with zipfile.ZipFile(kept_pack) as names:
        name = "closing.json"
        place = names.getinfo(name).header_offset + 30 + len(name) + byte
    content[place] ^= 0xFF
    (tmp_path / "changed.zip").write_bytes(content)
    assert (
        f"{name} has changed since it was "
        "written" in verify_pack(tmp_path / "changed.zip", "").differences
    )


def test_rerunning_a_closed_day_needs_a_visible_reason(desk: Desk, tmp_path: Path) -> None:
    """A closed day needs a reason to be rerun. The workbook and the next pack show the reason.

    The old pack stays unchanged, and both packs verify.
    """
    first = closed(desk)
    old = first.pack.read_bytes()
    day = FIRST + timedelta(1)
    desk.put(HEAD + "p1;BTC;v1;main;12\np1;ETH;v1;main;20\n", f"ledger_{day}.csv")
    with pytest.raises(DayClosed, match='--as-of 2026-11-21 --restate "why"'):
        desk.run(day)
    assert len(desk.folder.runs_of(day)) == 1
    service.run(
        desk.layout.database,
        desk.folder.root,
        as_of=day,
        program_version="0.0.0",
        now=LATER + timedelta(hours=1),
        pause=lambda: None,
        by="ada",
        restate="the custodian  corrected its file",
    )
    book = openpyxl.load_workbook(desk.folder.out / f"{day}" / f"recon_{day}.xlsx")
    told = [str(cell) for row in book["Summary"].values for cell in row if cell]
    assert any("was restated by ada: the custodian corrected its file" in cell for cell in told)
    second = closed(desk, LATER + timedelta(hours=2))
    assert (second.pack.name, first.pack.read_bytes()) == ("2026-11_v2.zip", old)
    (change,) = second.changes
    assert change.startswith("2026-11-21 was restated: run 20261121-")
    assert change.endswith("the custodian corrected its file (ada, 2026-12-01 10:00:00 UTC)")
    page = second.index.read_text()
    assert ("the custodian corrected its file" in page, first.closing.sha256 in page) == (
        True,
        True,
    )
    assert elsewhere(second.pack, tmp_path / "v2").is_whole
    assert elsewhere(first.pack, tmp_path / "v1").is_whole


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            '[close]\nunsigned = "refuse"\n',
            r"without both signatures .preparer and reviewer.: 2026-11-21",
        ),
        ("[close]\napprover = true\n", "sign --role approver --as-of 2026-11-22"),
        (
            '[close]\nunreconciled = "refuse"\n',
            r"27 days .of 30. without a reconciliation: 2026-11-01 .no .*, 2026-11-30 .no book.",
        ),
    ],
)
def test_unmet_requirements_of_recon_toml_stop_a_close(
    desk: Desk, settings: str, words: str
) -> None:
    """If recon.toml requires signatures, an approver or all days, closing without them fails."""
    desk.settle(settings)
    with pytest.raises(NotClosed, match=words):
        closed(desk)
    assert not (desk.folder.root / "packs").exists()


def test_a_day_that_compared_nothing_may_stop_a_close(desk: Desk) -> None:
    """A day with a book and a ledger that compared nothing is listed as not reconciled.

    With `unreconciled = "refuse"`, it stops the close.
    """
    day = FIRST + timedelta(3)
    desk.publish([Amount("10")], SNAPSHOT.replace("20261120", f"{day:%Y%m%d}"))
    desk.put(HEAD + "p1;BTC;v1;main;10\n", f"ledger_{day}.csv")
    desk.settle('[file."*"]\nasset = "ETH"\n')  # an asset that only earlier books have
    assert desk.run(day).exit_code == 3
    settings = desk.folder.config.read_text()
    desk.settle(f'{settings}[close]\nunreconciled = "refuse"\n')
    with pytest.raises(NotClosed, match=r"2026-11-19 .no book., 2026-11-23 .nothing compared."):
        closed(desk)
    desk.settle(settings)
    summary = closed(desk)
    assert "1 day on which nothing was compared: 2026-11-23" in summary.listed
    assert "<b>Nothing was compared:</b> 2026-11-23" in summary.index.read_text()


def test_a_workbook_of_a_different_run_stops_a_close(desk: Desk) -> None:
    """A workbook that shows a different run than the stored one stops the close."""
    book = desk.folder.out / "2026-11-21" / "recon_2026-11-21.xlsx"
    shutil.copy(desk.folder.out / "2026-11-20" / "recon_2026-11-20.xlsx", book)
    with pytest.raises(NotClosed, match="the workbook shows run 20261120-"):
        closed(desk)


class _Stop(BaseException):
    """An exception that simulates the end of the process."""


@pytest.mark.torture
def test_a_close_succeeds_after_a_killed_close(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close killed before any of its renames stores no closing, and the next close succeeds."""
    replace, count = Path.replace, 0
    whole = closed(desk_copy(desk, tmp_path / "whole")).pack.read_bytes()

    def stop(path: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == stop_at:
            raise _Stop
        return replace(path, target)

    for stop_at in range(1, 20):
        made, count = desk_copy(desk, tmp_path / str(stop_at)), 0
        monkeypatch.setattr(Path, "replace", stop)
        try:
            closed(made)
            break
        except _Stop:
            monkeypatch.undo()
        assert not list(made.folder.closings)
        assert closed(made).pack.read_bytes() == whole
    assert stop_at > 2


def desk_copy(desk: Desk, place: Path) -> Desk:
    """Return a copy of a home in a different folder."""
    shutil.copytree(desk.home, place, symlinks=True)
    return Desk(place)


def test_a_changed_pack_is_reported_and_stops_a_close(desk: Desk) -> None:
    """A changed pack is reported as damaged, and a second close is refused."""
    summary = closed(desk)
    root = desk.folder.root
    closing = service.status(root).closing
    assert closing is not None
    assert closing.description == summary.closing.description
    assert damaged_packs(root) == []
    summary.pack.write_bytes(summary.pack.read_bytes() + b" ")
    (damage,) = damaged_packs(root)
    assert "the pack 2026-11.zip has changed since it was written" in damage.what
    with pytest.raises(NotClosed, match="Restore"):
        closed(desk)


def test_a_damaged_record_is_reported(desk: Desk) -> None:
    """A damaged page and a file that is not SQLite are reported. An intact record has no damage."""
    closed(desk)
    root, database = desk.folder.root, desk.folder.database
    assert find_damage(root) == []
    content = database.read_bytes()
    half = len(content) // 2
    for changed in (content[:half] + bytes(4096) + content[half + 4096 :], b"not SQLite" * 1000):
        database.write_bytes(changed)
        (damage,) = find_damage(root)
        assert (damage.file, damage.remedy) == (database, f"restore {root} from the backup")
        assert damage.what.startswith("record.db ")


def test_archived_ledgers_are_deleted_only_if_a_pack_has_them(desk: Desk) -> None:
    """Archived ledgers are deleted after `keep_days` if a pack contains them."""
    night(desk, 11, "9")
    kept = {source.sha256 for day in desk.folder.days() for source in result(desk, day).sources}
    assert len(kept) == 3
    desk.settle("[close]\nkeep_days = 1000000000000\n")  # an extreme value for "keep forever"
    closed(desk, LATER + timedelta(days=30))
    assert all(archived_path(desk.folder, digest).exists() for digest in kept)
    remove_archived_ledgers(desk.folder, (LATER + timedelta(days=30)).date(), 3)
    left = {digest for digest in kept if archived_path(desk.folder, digest).exists()}
    assert left == {source.sha256 for source in result(desk, date(2026, 12, 1)).sources}


def result(desk: Desk, day: date) -> Run:
    """Return the newest result of a day."""
    found = desk.folder.result(day)
    assert found is not None
    return found
