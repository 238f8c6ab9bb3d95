"""`nightbook reconcile`: the book against a ledger; every figure ties out or is a break."""

from datetime import date
from pathlib import Path
from typing import Any

from assets.console.invocation import command_for
from assets.console.user import me
from assets.console.version import program_version
from assets.home.writer_lock import writing
from assets.nightbook import Nightbook
from assets.publishing import publish
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable, printable_lines
from warehouse.reconcile import service
from warehouse.reconcile.comments import signoff
from warehouse.reconcile.notices import Notice

SHOWN = 12
UNTOLD = {"at", "key", "names", "id", "break_id"}


def _folder(nightbook: Nightbook) -> Path:
    return nightbook.layout.home / "reconcile"


def init(nightbook: Nightbook) -> int:
    """Write the folder of a reconciliation, with a ledger to fill in."""
    begun = service.init(nightbook.layout.database, _folder(nightbook))
    print(f"The newest book has {count_of(begun.keys, 'key')}. Written:")
    for file in begun.files:
        print(f"  {file}")
    inbox = _folder(nightbook) / "inbox"
    then = f"{command_for(nightbook.layout)} reconcile run"
    print(f"Put your ledger (xlsx, ods or csv) into {inbox}, then: {then}")
    return 0


def run(nightbook: Nightbook, *, as_of: date | None) -> int:
    """Compare the book with the ledgers of the inbox; exit code 3 while breaks are open."""
    layout, now = nightbook.layout, nightbook.now()
    with writing(nightbook, "reconciling"):
        publish.catch_up(nightbook)
        ran = service.run(
            layout.database,
            _folder(nightbook),
            as_of=as_of,
            program_version=program_version(),
            now=now,
        )
        if ran.run_id:
            publish.refresh(nightbook)
    print(printable_lines(ran.words))
    _print_list([_notice(notice) for notice in ran.notices if ran.run_id], "notice")
    for file in ran.files:
        print(f"  {file}")
    return ran.exit_code


def status(nightbook: Nightbook, *, as_of: date | None) -> int:
    """Print the newest result and its breaks; exit code 3 while breaks are open."""
    standing = service.status(_folder(nightbook), day=as_of)
    counts = ", ".join(f"{number} {words}" for words, number in standing.counts.items() if number)
    rejected = f", {count_of(standing.rejected, 'row')} rejected" if standing.rejected else ""
    print(f"{standing.day}: {counts}{rejected}")
    if standing.coverage:
        print(printable(f"  {standing.coverage}"))
    _print_list(list(standing.unread), "file")
    _print_list([_break(break_) for break_ in standing.breaks], "break")
    for signature in standing.signatures:
        print(printable(f"  {signoff.words(signature)}"))
    if standing.void:
        print(f"  {printable(standing.void)}")
    return standing.exit_code


def _notice(notice: Notice) -> str:
    """A notice on one line: where it is, where that is known, and its words."""
    return f"{notice.where}: {notice.words}" if notice.where else notice.words


def _break(break_: dict[str, Any]) -> str:
    """A break on one line: its id, status, result, difference and where it is."""
    where = " / ".join(str(name) for name in break_["names"].values())
    difference = break_["difference"] or ""
    return f"{break_['id']}  {break_['status']}  {break_['result']}  {difference}  {where}"


def _print_list(lines: list[str], word: str) -> None:
    for line in lines[:SHOWN]:
        print(f"  {printable(line)}")
    if len(lines) > SHOWN:
        more = count_of(len(lines) - SHOWN, f"more {word}")
        print(f"  and {more}: the workbook lists them all")


def history(nightbook: Nightbook, *, break_id: str) -> int:
    """Print what was done about a break, or about all of them."""
    for entry in service.history(_folder(nightbook), break_id):
        facts = [f"{name} {value}" for name, value in entry.items() if value and name not in UNTOLD]
        print(printable(f"{entry['at']}  {', '.join(facts)}"))
    return 0


def sign(
    nightbook: Nightbook, *, as_of: date | None, role: str, who: str | None, comment: str
) -> int:
    """Sign a result."""
    now = nightbook.now()
    with writing(nightbook, "signing"):
        signed = service.sign(
            _folder(nightbook),
            role=role,
            who=who or me(),
            comment=comment,
            day=as_of,
            now=now,
        )
        publish.refresh(nightbook)
    told = signoff.words(signed).removeprefix("signed")
    print(printable(f"Signed{told}: result {signed['digest']}"))
    return 0


def verify(nightbook: Nightbook, *, file: str) -> int:
    """Compare a workbook with what was signed, and print each difference."""
    checked = service.verify(_folder(nightbook), Path(file))
    if checked.is_whole:
        print(f"✓ {checked.words}")
    for difference in checked.differences:
        print(f"✗ {printable(difference)}")
    for words in (*checked.uncompared, *map(signoff.words, checked.signatures)):
        print(f"  {printable(words)}")
    return 0 if checked.is_whole else 1
