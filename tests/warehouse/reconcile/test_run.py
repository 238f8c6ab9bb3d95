"""Tests of comments and signatures over several nights: cases 47 to 56 of `test_run_cases`."""

import itertools
import os
import re
import shutil
import subprocess
import zipfile
from datetime import date, timedelta
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, SNAPSHOT, Desk
from warehouse.contract.reconciliation import RECONCILED
from warehouse.reconcile import service
from warehouse.reconcile.match.breaks import status_now
from warehouse.reconcile.model import StatusDecision
from warehouse.reconcile.record import views
from warehouse.reconcile.record.views import history_lines
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.parquet import rows_batch

OFFICE = shutil.which("soffice")
ACCEPTED = "Explained - accepted"
DAY = date(2026, 11, 20)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a home whose book has two accounts with different amounts in the ledger."""
    made = Desk(tmp_path)
    made.publish([Amount("10"), Amount("20", asset="ETH")])
    made.put(HEAD + "p1;BTC;v1;main;11\np1;ETH;v1;main;22\n")
    return made


def next_night(desk: Desk, number: int, btc: str = "10") -> None:
    """Publish the book of a later night."""
    rows = [Amount(btc), Amount("20", asset="ETH")]
    desk.publish(rows, SNAPSHOT.replace("20261120", f"{DAY + timedelta(number):%Y%m%d}"))


def by_asset(desk: Desk, day: date | None = None) -> dict[str, dict[str, object]]:
    """Return the breaks of a result by asset."""
    return {one["names"]["asset"]: one for one in desk.breaks(day)}


def test_comments_are_in_the_workbook_of_the_next_night(desk: Desk) -> None:
    """Comments typed into a workbook are in the next night's workbook and in the history."""
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    said = {"Comment": "asked the venue\nsecond line", "Owner": "Ada", "Status": "waiting"}
    desk.edit(first.files[0], {break_id: said | {"Root cause": "Timing"}}, first.files[0])
    next_night(desk, 1)
    second = desk.run()
    found = by_asset(desk)["BTC"]
    assert [found[name] for name in ("comment", "owner", "status", "root_cause")] == [
        "asked the venue\nsecond line",
        "Ada",
        "Waiting",
        "Timing",
    ]
    assert (found["id"], found["age_days"], found["change"]) == (break_id, 1, "unchanged")
    sheet = openpyxl.load_workbook(second.files[0])["Breaks"]
    assert "asked the venue\nsecond line" in [row[15].value for row in sheet.iter_rows(min_row=3)]
    told = service.history(desk.folder.root, break_id)
    assert [one["kind"] for one in told].count("break") == 2
    assert {one["field"] for one in told if one["kind"] == "said"} == {
        "comment",
        "owner",
        "status",
        "root_cause",
    }


def test_case_47_comments_are_read_from_an_edited_copy(desk: Desk) -> None:
    """Comments are read from a renamed copy with rows deleted, and a row and a column inserted."""
    first = desk.run()
    ids = {asset: str(one["id"]) for asset, one in by_asset(desk).items()}
    book = openpyxl.load_workbook(first.files[0])
    sheet = book["Breaks"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=3)]
    kept = next(row for row in rows if row[0] == ids["ETH"])
    sheet.delete_rows(3, 10)
    sheet.insert_rows(1)
    sheet.insert_cols(1)
    for place, value in enumerate(kept, 2):
        sheet.cell(6, place, None if str(value).startswith("=") else value)
    sheet.cell(6, 17, "still here")
    sheet.title = "My breaks"
    sheet.row_dimensions[6].hidden = True
    book.save(desk.folder.inbox / "copy (2).xlsx")
    desk.run()
    found = by_asset(desk)
    assert found["ETH"]["comment"] == "still here"
    assert found["BTC"]["comment"] == ""


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
@pytest.mark.parametrize("ending", ["xlsx", "ods"])
def test_case_47_a_workbook_saved_by_libreoffice_is_read(
    desk: Desk, tmp_path: Path, ending: str
) -> None:
    """Comments are read from a copy that LibreOffice saved as xlsx or ods."""
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    edited = desk.edit(first.files[0], {break_id: {"Comment": "=1+1"}}, tmp_path / "mine.xlsx")
    place = tmp_path / "saved"
    command = [OFFICE or "", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless"]
    command += ["--convert-to", ending, "--outdir", str(place), str(edited)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    shutil.copy(place / f"mine.{ending}", desk.folder.inbox / f"anything.{ending}")
    desk.run()
    assert by_asset(desk)["BTC"]["comment"] == "=1+1"
    assert by_asset(desk)["ETH"]["comment"] == ""


@pytest.mark.torture
def test_case_48_two_copies_are_merged_and_nothing_is_lost(desk: Desk) -> None:
    """Edits of different cells in two copies are merged. For the same cell, both texts are stored.

    A notice reports that two people wrote different texts.
    """
    first = desk.run()
    ids = {asset: str(one["id"]) for asset, one in by_asset(desk).items()}
    one = {ids["BTC"]: {"Comment": "from Ada", "Owner": "Ada"}}
    words = "from Bo (none of Open, In progress, Waiting, Explained - accepted)"  # like our notes
    other = {ids["BTC"]: {"Comment": words}, ids["ETH"]: {"Comment": "only Bo"}}
    desk.edit(first.files[0], one, desk.folder.inbox / "a.xlsx")
    desk.edit(first.files[0], other, desk.folder.inbox / "b.xlsx")
    second = desk.run()
    found = by_asset(desk)
    assert found["ETH"]["comment"] == "only Bo"
    assert found["BTC"]["owner"] == "Ada"
    assert {"from Ada", words} == set(str(found["BTC"]["comment"]).split("\n-- also: "))
    assert any("two people wrote different texts" in notice.message for notice in second.notices)
    assert desk.run().exit_code == 3
    assert by_asset(desk)["BTC"]["comment"] == found["BTC"]["comment"]


def test_case_49_an_invalid_status_is_added_to_the_comment(desk: Desk) -> None:
    """A status that is not valid is added to the comment, and a notice lists the valid ones."""
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    desk.edit(first.files[0], {break_id: {"Status": "Parked"}}, desk.folder.inbox / "a.xlsx")
    second = desk.run()
    found = by_asset(desk)["BTC"]
    assert found["status"] == "Open"
    assert "status Parked" in str(found["comment"])
    (told,) = [notice for notice in second.notices if "Parked" in notice.message]
    assert told.message == (
        f"'Parked' next to {break_id} is not a status. Write Open, In progress, Waiting or "
        "Explained - accepted. The text was added to the comment, and the status did not change"
    )
    assert told.location == "a.xlsx"
    head, *lines = history_lines(service.history(desk.folder.root, break_id))
    assert head == f"{break_id}  Portfolio p1 / BTC / Venue v1 / main"
    assert lines[0].startswith("  2026-11-20 ")
    assert lines[0].endswith("Open     ledger 11, book 10, difference 1; new, 0 days old")
    assert lines[1].index(" comment ") == lines[0].index(" Open ")
    assert "-- also: status Parked (none of Open, In progress" in lines[1]
    made = desk.edit(second.files[0], {break_id: {"Status": "Park"}}, desk.folder.inbox / "b.xlsx")
    book = openpyxl.load_workbook(made)
    assert book["Lists"]["A2"].value == "base_revision"
    book["Lists"]["B2"] = "\u00b2"  # a character that `isdigit` accepts but `int` does not
    book.save(made)
    desk.run()
    assert "status Park (none of Open" in str(by_asset(desk)["BTC"]["comment"])


@pytest.mark.torture
@pytest.mark.parametrize("comments", [("=HYPERLINK(1)",), ("x" * 20_000, "y" * 20_000)])
def test_case_50_any_comment_is_kept_completely(desk: Desk, comments: tuple[str, ...]) -> None:
    """A formula is stored as text. Two comments that are too long for one cell are kept whole."""
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    for number, comment in enumerate(comments):
        cells = {break_id: {"Comment": comment}}
        desk.edit(first.files[0], cells, desk.folder.inbox / f"{number}.xlsx")
    second = desk.run()
    kept = str(by_asset(desk)["BTC"]["comment"])
    assert set(kept.split("\n-- also: ")) == set(comments)
    owner = {break_id: {"Owner": "Bo"}}
    desk.edit(second.files[0], owner, desk.folder.inbox / "last.xlsx")
    desk.run()
    found = by_asset(desk)["BTC"]
    assert (found["comment"], found["owner"]) == (kept, "Bo")


@pytest.mark.torture
def test_case_51_an_accepted_break_that_moves_is_reopened(desk: Desk) -> None:
    """If an accepted difference changes by 1e-18, the break is reopened and its note says why."""
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    desk.edit(
        first.files[0],
        {break_id: {"Status": ACCEPTED, "Root cause": "Timing"}},
        desk.folder.inbox / "a.xlsx",
    )
    again = desk.run()
    assert (again.open_breaks, again.breaks) == (1, 2)
    next_night(desk, 1)
    assert (desk.run().open_breaks, by_asset(desk)["BTC"]["status"]) == (1, ACCEPTED)
    next_night(desk, 2, "9.999999999999999999")
    assert desk.run().open_breaks == 2
    found = by_asset(desk)["BTC"]
    assert found["status"] == "Open"
    assert "reopened: a difference of 1 was accepted on" in str(found["note"])
    next_night(desk, 3, "9.999999999999999999")
    desk.run()
    assert "a difference of 1 was accepted" in str(by_asset(desk)["BTC"]["note"])


def test_an_acceptance_may_be_valid_forever() -> None:
    """An acceptance is valid for any number of days and with any date in a file."""
    for on, accept_days in (("2026-11-19", 10**12), ("9999-12-31", 30)):
        decision = StatusDecision(status=ACCEPTED, accepted="1", on=on)
        assert status_now(decision, 1, "1", date(2026, 11, 20), accept_days) == (ACCEPTED, "")


@pytest.mark.torture
def test_an_acceptance_expires(desk: Desk) -> None:
    """An acceptance expires after the configured number of days."""
    desk.settle("accept_days = 0\n")
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    cells = {"Status": ACCEPTED, "Comment": "fee"}
    made = desk.edit(first.files[0], {break_id: cells}, desk.folder.inbox / "a.xlsx")
    saved_at = NOW - timedelta(days=9)
    # Set the time in the file, because openpyxl writes the current time when it saves.
    with zipfile.ZipFile(made) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    time = f">{saved_at:%Y-%m-%dT%H:%M:%SZ}</dcterms:modified>".encode()
    core = re.sub(rb">[^<]*</dcterms:modified>", time, parts["docProps/core.xml"])
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in (parts | {"docProps/core.xml": core}).items():
            archive.writestr(name, content)
    os.utime(made, (saved_at.timestamp(), saved_at.timestamp()))
    next_night(desk, 900)
    desk.run()
    assert "expired" in str(by_asset(desk)["BTC"]["note"])


@pytest.mark.torture
def test_case_52_a_returning_break_starts_a_new_episode(desk: Desk) -> None:
    """A break that returns has the same ID and comment, a new episode and the status Open."""
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    said = {"Comment": "known", "Status": ACCEPTED}
    desk.edit(first.files[0], {break_id: said}, desk.folder.inbox / "a.xlsx")
    desk.run()
    next_night(desk, 1, "11")
    gone = desk.run()
    resolved = openpyxl.load_workbook(gone.files[0])["Resolved"]
    assert break_id in [row[0].value for row in resolved.iter_rows()]
    next_night(desk, 4)
    desk.run()
    found = by_asset(desk)["BTC"]
    assert (found["id"], found["episode"], found["age_days"]) == (break_id, 2, 0)
    assert (found["status"], found["comment"], found["change"]) == ("Open", "known", "returned")
    assert found["ever_seen"] == DAY.isoformat()


def test_a_first_run_opens_with_the_previous_book(desk: Desk) -> None:
    """In a first run, the book's opening is the previous book, and the ledger has no opening.

    Only assets that the ledger covers have a row.
    """
    next_night(desk, 1, "11")
    desk.settle('[file."*"]\nasset = "BTC"\n')
    rows = list(openpyxl.load_workbook(desk.run().files[0])["Roll-forward"].values)
    (row,) = [dict(zip(rows[1], row, strict=True)) for row in rows[2:]]
    assert row["Asset"] == "BTC"
    assert (row["Ledger opening"], row["Ledger movement"]) == (None, None)
    steps = [row[f"Book {step}, exact"] for step in ("opening", "movement", "closing")]
    assert steps == ["10", "1", "11"]
    assert "previous book" in str(rows[0][0])


def test_a_break_hidden_by_a_tolerance_keeps_its_first_day(desk: Desk) -> None:
    """A break hidden by a tolerance for one night keeps the day on which it was first seen.

    The Resolved sheet names the tolerance that hid it.
    """
    desk.run()
    next_night(desk, 1)
    desk.settle('[tolerance.asset]\nBTC = "1000"\n')
    hidden = desk.run()
    assert "BTC" not in by_asset(desk)
    resolved = openpyxl.load_workbook(hidden.files[0])["Resolved"]
    assert "Within tolerance: absolute 1000 for BTC" in {
        cell.value for row in resolved.iter_rows() for cell in row
    }
    next_night(desk, 2)
    desk.settle("")
    book = openpyxl.load_workbook(desk.run().files[0], data_only=True)["Breaks"]
    found = by_asset(desk)["BTC"]
    assert (found["episode"], found["age_days"], found["change"]) == (2, 0, "returned")
    rows = {row[0].value: [cell.value for cell in row] for row in book.iter_rows()}
    row = dict(zip(rows["Break ID"], rows[found["id"]], strict=True))
    assert row["Age days"] == 0
    assert row["First seen"].date() == DAY


def test_case_53_the_reviewer_must_differ_from_the_preparer(desk: Desk) -> None:
    """The reviewer is refused if the name differs from the preparer's only in case or spaces."""
    desk.run()
    root = desk.folder.root
    service.sign(root, role="preparer", who="Ada Lovelace", now=NOW)
    with pytest.raises(NotReconciled, match="must be a different person"):
        service.sign(root, role="reviewer", who=" ada  LOVELACE", now=NOW)
    with pytest.raises(NotReconciled, match="is not valid: expected"):
        service.sign(root, role="boss", who="Bo", now=NOW)
    service.sign(root, role="reviewer", who="Bo", now=NOW)
    assert {one.who for one in service.status(root).signatures} == {"Ada Lovelace", "Bo"}


def test_a_changed_result_voids_its_signatures(desk: Desk) -> None:
    """The same result keeps its signatures. A changed result voids them and gives the reason."""
    desk.run()
    root = desk.folder.root
    service.sign(root, role="preparer", who="Ada", now=NOW)
    service.sign(root, role="reviewer", who="Grace", now=NOW)
    desk.run()
    assert service.status(root).void == ""
    desk.put(HEAD + "p1;BTC;v1;main;11.000000000000000001\np1;ETH;v1;main;22\n")
    desk.run()
    standing = service.status(root)
    assert standing.signatures == ()
    assert "sign-off void: Ada (preparer), Grace (reviewer) signed" in standing.void
    assert "the amounts of 1 break changed" in standing.void


def test_names_typed_into_the_workbook_sign_the_result(desk: Desk) -> None:
    """Names next to Prepared by and Reviewed by sign the result in the workbook."""
    first = desk.run()
    book = openpyxl.load_workbook(first.files[0])
    for row in book["Summary"].iter_rows():
        if row[0].value in ("Prepared by", "Reviewed by"):
            row[1].value = "Ada" if row[0].value == "Prepared by" else "Bo"
            row[2].value = "seen"
    book.save(first.files[0])
    desk.run()
    signed = service.status(desk.folder.root).signatures
    assert {(one.role, one.who, one.comment) for one in signed} == {
        ("preparer", "Ada", "seen"),
        ("reviewer", "Bo", "seen"),
    }


def test_case_54_edited_numbers_are_ignored_and_reported(desk: Desk) -> None:
    """A number edited in the workbook does not change the result, and `verify` reports it."""
    first = desk.run()
    book = first.files[0]
    assert service.verify(desk.folder.root, book).is_whole
    break_id = str(by_asset(desk)["BTC"]["id"])
    copy = desk.folder.inbox / "a.xlsx"
    desk.edit(book, {break_id: {"Ledger, exact": "12.000000000000000000"}}, copy)
    found = service.verify(desk.folder.root, copy)
    assert len(found.differences) == 1
    assert found.differences[0].startswith(
        f"Breaks, {break_id}: Ledger, exact was '11.000000000000000000'"
    )
    desk.run()
    assert by_asset(desk)["BTC"]["ledger"] == "11"


@pytest.mark.torture
def test_case_55_a_rerun_of_an_old_day_keeps_newer_comments(desk: Desk) -> None:
    """A rerun of an older day does not change statuses or comments on newer days."""
    desk.run()
    next_night(desk, 1, "9")
    second = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    said = {"Status": ACCEPTED, "Comment": "fine"}
    desk.edit(second.files[0], {break_id: said}, desk.folder.inbox / "a.xlsx")
    desk.run()
    old = desk.run(as_of=DAY)
    assert (old.day, by_asset(desk, DAY)["BTC"]["difference"]) == (DAY, "1")
    desk.run()
    found = by_asset(desk)["BTC"]
    assert (found["status"], found["comment"], found["difference"]) == (ACCEPTED, "fine", "2")


@pytest.mark.torture
def test_case_56_comments_are_kept_if_the_level_changes(desk: Desk) -> None:
    """With a coarser level, IDs change, but a one-to-one match keeps its comment and age.

    Only the first night reports that the level changed.
    """
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    desk.edit(first.files[0], {break_id: {"Comment": "kept"}}, desk.folder.inbox / "a.xlsx")
    desk.run()
    desk.settle('level = ["portfolio", "asset"]\n')
    for night in (1, 2):
        next_night(desk, night)
        found = desk.run()
        told = any("the level changed" in one.message for one in found.notices)
        assert told == (night == 1)
        now = by_asset(desk)["BTC"]
        assert now["id"] != break_id
        assert (now["comment"], now["age_days"]) == ("kept", night)


def test_stored_rows_fit_the_ops_tables(desk: Desk) -> None:
    """Breaks, annotations and signatures fit the declared `ops` tables and have unique keys."""
    first = desk.run()
    break_id = str(by_asset(desk)["BTC"]["id"])
    desk.edit(first.files[0], {break_id: {"Comment": "x"}}, desk.folder.inbox / "a.xlsx")
    desk.run()
    service.sign(desk.folder.root, role="preparer", who="Ada", now=NOW)
    rows = views.ops_rows(desk.folder)
    for table in RECONCILED:
        found = rows[table.name]
        assert rows_batch(table, found).num_rows == len(found) > 0
        keys = [tuple(row[name] for name in table.key) for row in found]
        assert len(set(keys)) == len(keys)


@pytest.mark.torture
def test_a_week_of_edits_by_two_people_loses_nothing(desk: Desk) -> None:
    """All comments that two people wrote into different copies on five nights are stored."""
    said: set[str] = set()
    for number in range(5):
        if number:
            next_night(desk, number, f"{10 - number}")
        done = desk.run()
        ids = [str(one["id"]) for one in desk.breaks()]
        for person, break_id in itertools.product(("Ada", "Bo"), ids):
            text = f"{person} on night {number} of {break_id}"
            said.add(text)
            copy = desk.folder.out / f"{person} {number} {break_id}.xlsx"
            desk.edit(done.files[0], {break_id: {"Comment": text}}, copy)
    desk.run()
    kept = "\n".join(row["value"] for row in views.ops_rows(desk.folder)["annotations"])
    assert [text for text in said if text not in kept] == []
