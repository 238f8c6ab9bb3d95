"""Tests of signatures: roles in recon.toml, acceptances by a second person, and archived inputs."""

import hashlib
from datetime import date
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, Desk, DeskRun
from warehouse.reconcile import service
from warehouse.reconcile.close.close import close
from warehouse.reconcile.record import views
from warehouse.reconcile.record.archive import archived_path
from warehouse.reconcile.terms import NotClosed, NotReconciled

DAY, ACCEPTED = date(2026, 11, 20), "Explained - accepted"
ROLES = '[roles]\npreparer = ["ada"]\nreviewer = ["grace"]\napprover = ["margaret", "ada"]\n'


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a home with roles, in which a run finds one break."""
    made = Desk(tmp_path)
    made.publish([Amount("10"), Amount("20", asset="ETH")])
    made.put(HEAD + "p1;BTC;v1;main;11\np1;ETH;v1;main;20\n")
    made.settle(ROLES)
    return made


def test_a_person_without_the_role_cannot_sign(desk: Desk) -> None:
    """A person cannot sign in a role that recon.toml gives to others, or in two roles."""
    desk.run()
    root = desk.folder.root
    with pytest.raises(
        NotReconciled, match=r"the role reviewer\. Under .* ada has preparer, approver"
    ):
        service.sign(root, role="reviewer", who="ada", now=NOW)
    service.sign(root, role="preparer", who=" Ada", now=NOW, entered_by="ada")
    with pytest.raises(NotReconciled, match="the approver must be a different person"):
        service.sign(root, role="approver", who="ada", now=NOW)
    service.sign(root, role="approver", who="margaret", now=NOW, entered_by="ops")
    rows = views.ops_rows(desk.folder)["signoffs"]
    assert [(row["role"], row["open_breaks"], row["entered_by"]) for row in rows] == [
        ("preparer", 1, ""),
        ("approver", 1, "ops"),
    ]


def test_a_signature_in_a_workbook_is_stored_with_its_author(desk: Desk) -> None:
    """A signature in a workbook is stored with the workbook's name, digest and author.

    A signature by a person without the role is reported.
    """
    first = desk.run().files[0]
    book = openpyxl.load_workbook(first)
    summary = book["Summary"]
    for row in summary.iter_rows(max_col=2):
        if row[0].value in ("Prepared by", "Reviewed by"):
            row[1].value = "ada"
    book.properties.lastModifiedBy = "Olga Ops"
    copy = desk.folder.out / "signed.xlsx"
    book.save(copy)
    again = desk.run()
    (signature,) = desk.folder.signatures
    assert (signature.role, signature.who, signature.entered_by) == ("preparer", "ada", "Olga Ops")
    assert signature.source == "signed.xlsx"
    assert signature.sha256 == hashlib.sha256(copy.read_bytes()).hexdigest()
    assert any("ada does not have the role reviewer" in notice.message for notice in again.notices)


def saved(desk: Desk, author: str, name: str, cells: dict[str, str], **names: str) -> DeskRun:
    """Save a copy as `author` with these cells of the break and these signatures, and run."""
    book = desk.folder.day_files(DAY).workbook
    (break_,) = desk.breaks()
    copy = desk.edit(book, {break_["id"]: cells}, desk.folder.out / name)
    made = openpyxl.load_workbook(copy)
    for row in made["Summary"].iter_rows(max_col=2):
        role = str(row[0].value).partition(" ")[0].lower()
        if role in names and str(row[0].value).endswith(" by"):
            row[1].value = names[role]
    made.properties.lastModifiedBy = author
    made.save(copy)
    return run_by(desk, "ada")


def run_by(desk: Desk, who: str, *, as_of: date | None = None, why: str = "") -> DeskRun:
    """Run as a person, with a reason if the day is closed."""
    ran = service.run(
        desk.layout.database,
        desk.folder.root,
        as_of=as_of,
        program_version="0.0.0",
        now=NOW,
        pause=lambda: None,
        by=who,
        restate=why,
    )
    return DeskRun.of(ran)


def told(ran: DeskRun) -> str:
    """Return the messages of the notices with high severity."""
    return "; ".join(notice.message for notice in ran.notices if notice.severity == "high")


def test_a_signature_counts_acceptances_in_its_own_workbook(desk: Desk) -> None:
    """A signature in the workbook that accepts the only break counts no open breaks."""
    run_by(desk, "ada")
    cells = {"Status": ACCEPTED, "Root cause": "Fee"}
    saved(desk, "Grace", "1.xlsx", cells, prepared="ada")
    (signature,) = desk.folder.signatures
    assert (signature.open_breaks, desk.breaks()[0]["status"]) == (0, ACCEPTED)


def test_an_acceptance_needs_a_reason_and_keeps_it(desk: Desk) -> None:
    """An acceptance needs a reason, and the reason can be deleted only if the break is reopened."""
    run_by(desk, "ada")
    ran = saved(desk, "Grace", "1.xlsx", {"Status": ACCEPTED, "Comment": " - "})
    assert (ran.exit_code, desk.breaks()[0]["status"]) == (3, "Open")
    assert "was not accepted. An acceptance needs a reason" in told(ran)
    ran = saved(desk, "Grace", "2.xlsx", {"Status": ACCEPTED, "Root cause": "Timing"})
    assert (ran.exit_code, desk.breaks()[0]["status"]) == (0, ACCEPTED)
    ran = saved(desk, "Grace", "3.xlsx", {"Root cause": "", "Comment": ""})
    assert (ran.exit_code, desk.breaks()[0]["root_cause"]) == (0, "Timing")
    assert "was not deleted" in told(ran)
    ran = saved(desk, "Grace", "4.xlsx", {"Status": "Open", "Root cause": ""})
    assert (ran.exit_code, desk.breaks()[0]["root_cause"]) == (3, "")


@pytest.mark.parametrize(
    ("author", "words"),
    [
        ("Ada", "Ada ran or prepared this result"),
        ("openpyxl", "does not say who saved it"),
        ("Olga", "Olga is not a reviewer or approver under [roles]"),
        ("Grace", ""),
    ],
)
def test_with_an_approver_the_runner_cannot_accept_breaks(
    desk: Desk, author: str, words: str
) -> None:
    """If an approver is required, the person who ran the comparison cannot accept its breaks.

    A person without a role and an anonymous workbook cannot accept them either.
    """
    desk.settle(ROLES + "[close]\napprover = true\n")
    run_by(desk, "ada")
    ran = saved(desk, author, "b.xlsx", {"Status": ACCEPTED, "Comment": "a known fee"})
    assert words in told(ran)
    assert desk.breaks()[0]["status"] == ("Open" if words else ACCEPTED)


@pytest.mark.parametrize(("author", "taken"), [("Olga Ops", ["preparer"]), ("openpyxl", [])])
def test_one_person_cannot_enter_two_signatures_in_a_workbook(
    desk: Desk, author: str, taken: list[str]
) -> None:
    """The second name in a workbook is refused. Both are refused if the workbook has no author."""
    run_by(desk, "ada")
    ran = saved(desk, author, "signed.xlsx", {}, prepared="ada", reviewed="grace")
    assert [signature.role for signature in desk.folder.signatures] == taken
    assert ("nobody may sign or enter two signatures" in told(ran)) == bool(taken)
    assert ("does not say who saved it" in told(ran)) == (not taken)


@pytest.mark.parametrize(
    ("first", "second"), [("ada", "ada"), ("ops", "ops"), ("grace", "grace"), ("ops", "Ada")]
)
def test_one_person_cannot_enter_two_signatures_at_a_terminal(
    desk: Desk, first: str, second: str
) -> None:
    """A person who gave or typed one signature of a result cannot type a second one."""
    run_by(desk, "ada")
    root = desk.folder.root
    service.sign(root, role="preparer", who="ada", now=NOW, entered_by=first)
    with pytest.raises(NotReconciled, match="nobody may sign or enter two signatures"):
        service.sign(root, role="reviewer", who="grace", now=NOW, entered_by=second)
    service.sign(root, role="approver", who="margaret", now=NOW, entered_by="third")
    assert len(list(desk.folder.signatures)) == 2


def test_only_the_highest_role_can_close_or_rerun(desk: Desk) -> None:
    """With roles, only an approver can close a month or rerun a closed day."""
    run_by(desk, "ada")
    place = desk.layout.database, desk.folder.root
    with pytest.raises(NotClosed, match="grace does not have the approver role"):
        close(*place, "2026-11", who="grace", now=NOW, program_version="0.0.0")
    assert not (desk.folder.root / "packs").exists()
    close(*place, "2026-11", who="Margaret", now=NOW, program_version="0.0.0")
    with pytest.raises(NotReconciled, match="not restated: grace does not have the approver role"):
        run_by(desk, "grace", as_of=DAY, why="the custodian corrected its file")
    assert list(desk.folder.restatements) == []
    run_by(desk, "margaret", as_of=DAY, why="the custodian corrected its file")
    assert len(list(desk.folder.restatements)) == 1


def test_each_version_of_a_file_is_archived_once(desk: Desk) -> None:
    """Each version of the ledger and recon.toml is archived once, byte for byte."""
    ledger = desk.folder.inbox / "ledger.csv"
    content = ledger.read_bytes()
    desk.run()
    ledger.write_bytes(content.replace(b"11", b"12"))
    desk.run()
    digests = [hashlib.sha256(part).hexdigest() for part in (content, ROLES.encode())]
    assert [archived_path(desk.folder, digest).read_bytes() for digest in digests] == [
        content,
        ROLES.encode(),
    ]
    assert len(list((desk.folder.root / "kept").iterdir())) == 3


def test_the_audit_trail_lists_runs_entries_and_signatures(desk: Desk) -> None:
    """The audit trail lists runs, entries and signatures with their files.

    The Summary sheet counts the open breaks of each night by age and owner.
    """
    first = desk.run().files[0]
    (break_,) = desk.breaks()
    desk.edit(first, {break_["id"]: {"Owner": "Ada", "Comment": "=asked"}}, first)
    service.sign(desk.folder.root, role="preparer", who="ada", now=NOW)
    desk.publish([Amount("10"), Amount("20", asset="ETH")], "20261121T021500Z")
    second = desk.run().files[0]
    book = openpyxl.load_workbook(second)
    lines = [row[1:5] for row in book["Audit trail"].iter_rows(min_row=3, values_only=True)]
    assert {line[1] for line in lines} == {"run", "owner", "comment", "signature as preparer"}
    assert ("not recorded", "comment", break_["id"], "=asked") in lines
    nights = [
        row
        for row in book["Summary"].iter_rows(values_only=True)
        if str(row[0]).startswith("Open breaks by")
    ]
    assert [row[1] for row in nights] == ["0-1 days, open", "Ada"]
    assert service.verify(desk.folder.root, second).differences == ()


def test_a_signature_is_also_in_the_workbook_and_is_not_entered_twice(desk: Desk) -> None:
    """The workbook in `out` shows a signature of the command line, unless a person changed it."""
    workbook = desk.run().files[0]
    root = desk.folder.root
    service.sign(root, role="preparer", who="ada", now=NOW)
    rows = openpyxl.load_workbook(workbook)["Summary"].iter_rows(max_col=2, values_only=True)
    assert dict(rows)["Prepared by"] == "ada"
    assert service.verify(root, workbook).is_whole
    desk.run()
    assert len(views.ops_rows(desk.folder)["signoffs"]) == 1
    workbook.write_bytes(workbook.read_bytes() + b"\0")
    edited = workbook.read_bytes()
    service.sign(root, role="approver", who="margaret", now=NOW)
    assert workbook.read_bytes() == edited
