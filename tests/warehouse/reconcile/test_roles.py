"""Who signs is somebody, in a role that recon.toml gives them, and what was read is kept."""

import hashlib
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, Desk
from warehouse.reconcile import service
from warehouse.reconcile.store import ops_rows
from warehouse.reconcile.store.input_archive import archived_path
from warehouse.reconcile.terms.errors import NotReconciled

ROLES = '[roles]\npreparer = ["ada"]\nreviewer = ["grace"]\napprover = ["margaret", "ada"]\n'


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A home with one open break, and roles."""
    made = Desk(tmp_path)
    made.publish([Amount("10"), Amount("20", asset="ETH")])
    made.put(HEAD + "p1;BTC;v1;main;11\np1;ETH;v1;main;20\n")
    made.settle(ROLES)
    return made


def test_who_has_no_such_role_cannot_sign(desk: Desk) -> None:
    """A role of somebody else's is refused by its name, and so are two roles of one person."""
    desk.run()
    root = desk.folder.root
    with pytest.raises(NotReconciled, match="ada is no reviewer: ada has preparer, approver"):
        service.sign(root, role="reviewer", who="ada", now=NOW)
    service.sign(root, role="preparer", who=" Ada", now=NOW, entered_by="ada")
    with pytest.raises(NotReconciled, match="the approver must differ from the preparer"):
        service.sign(root, role="approver", who="ada", now=NOW)
    service.sign(root, role="approver", who="margaret", now=NOW, entered_by="ops")
    rows = ops_rows.rows(desk.folder)["signoffs"]
    assert [(row["role"], row["open_breaks"], row["entered_by"]) for row in rows] == [
        ("preparer", 1, ""),
        ("approver", 1, "ops"),
    ]


def test_a_name_typed_into_a_workbook_says_who_saved_it(desk: Desk) -> None:
    """A signature in the sheet has the file, its digest and author; who has no role is told."""
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
    assert any("ada is no reviewer" in notice.words for notice in again.notices)


def test_what_was_read_is_kept_once_under_its_digest(desk: Desk) -> None:
    """The very bytes of ledger and recon.toml stay, however the inbox changes afterwards."""
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


def test_the_workbook_shows_who_did_what_and_how_breaks_come_and_go(desk: Desk) -> None:
    """The audit trail has runs, words and signatures with their files; Summary counts by night."""
    first = desk.run().files[0]
    (break_,) = desk.breaks()
    desk.edit(first, {break_["id"]: {"Owner": "Ada", "Comment": "=asked"}}, first)
    service.sign(desk.folder.root, role="preparer", who="ada", now=NOW)
    desk.publish([Amount("10"), Amount("20", asset="ETH")], "20261121T021500Z")
    second = desk.run().files[0]
    book = openpyxl.load_workbook(second)
    lines = [row[1:5] for row in book["Audit trail"].iter_rows(min_row=3, values_only=True)]
    assert {line[1] for line in lines} == {"run", "owner", "comment", "signature as preparer"}
    assert (first.name, "comment", break_["id"], "=asked") in lines
    nights = [row for row in book["Summary"].iter_rows(values_only=True) if row[0] == "Night"]
    assert [row[1] for row in nights] == ["0-1 days, open", "Ada"]
    assert service.verify(desk.folder.root, second).differences == ()
