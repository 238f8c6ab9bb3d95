"""`nightbook reconcile`: the book against a ledger; every figure ties out or is a break."""

import argparse
import getpass
from collections.abc import Callable
from pathlib import Path

from assets.commands.export import day
from assets.resources import Nightbook, program_version
from pipelines.writer import the_writer
from warehouse.reconcile import desk

Step = Callable[[argparse.Namespace, Nightbook], int]


def run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    """Do one step of the reconciliation; exit code 3 while breaks are open."""
    return STEPS[arguments.step](arguments, nightbook)


def _folder(nightbook: Nightbook) -> Path:
    return nightbook.layout.home / "reconcile"


def _init(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    del arguments
    begun = desk.init(nightbook.layout.database, _folder(nightbook))
    print(f"The newest book has {begun.keys} keys. Written:")
    for file in begun.files:
        print(f"  {file}")
    inbox = _folder(nightbook) / "inbox"
    print(f"Put your ledger (xlsx, ods or csv) into {inbox}, then: nightbook reconcile run")
    return 0


def _run(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    layout, now = nightbook.layout, nightbook.now()
    with the_writer(layout, "reconciling", now):
        ran = desk.run(
            layout.database,
            _folder(nightbook),
            as_of=day(arguments.as_of),
            program_version=program_version(),
            now=now,
        )
    print(ran.words)
    for notice in ran.notices if ran.run_id else ():
        print(f"  {notice.words}")
    for file in ran.files:
        print(f"  {file}")
    return ran.exit_code


def _status(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    standing = desk.status(_folder(nightbook), day=day(arguments.as_of))
    counts = ", ".join(f"{number} {words}" for words, number in standing.counts.items() if number)
    print(f"{standing.day}: {counts}")
    for one in standing.breaks:
        print(
            f"  {one['break_id']}  {one['status']:<12} {one.get('key_words', one.get('key', ''))}"
        )
    for one in standing.signatures:
        print(f"  signed by {one['who']} as {one['role']} at {one['at']}")
    if standing.void:
        print(f"  {standing.void}")
    return standing.exit_code


def _history(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    for one in desk.history(_folder(nightbook), arguments.what or ""):
        facts = ", ".join(f"{name} {value}" for name, value in one.items() if name != "at")
        print(f"{one['at']}  {facts}")
    return 0


def _sign(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    now = nightbook.now()
    with the_writer(nightbook.layout, "signing", now):
        signed = desk.sign(
            _folder(nightbook),
            role=arguments.role,
            who=arguments.who or getpass.getuser(),
            comment=arguments.comment,
            day=day(arguments.as_of),
            now=now,
        )
    print(f"Signed by {signed['who']} as {signed['role']}: result {signed['digest']}")
    return 0


def _verify(arguments: argparse.Namespace, nightbook: Nightbook) -> int:
    checked = desk.verify(_folder(nightbook), Path(arguments.what or ""))
    if checked.is_whole:
        print(f"✓ {checked.file}: every exact figure is that of run {checked.run_id}.")
        return 0
    for difference in checked.differences:
        print(f"✗ {difference}")
    return 1


STEPS: dict[str, Step] = {
    "init": _init,
    "run": _run,
    "status": _status,
    "history": _history,
    "sign": _sign,
    "verify": _verify,
}
