"""A reconciliation that is killed or finds a full disk at a call that changes a file.

    LD_PRELOAD=shim.so python -m tests.crash.reconciling FOLDER COUNT

Prints JSON with the number of calls of a run, the numbers of cases, killed runs and failed runs,
and the problems. Every case starts with the same home: a reconciled night, a workbook with a
comment and a signature, and a second night with its ledger.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import openpyxl

from tests.crash.children import armed, forked
from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, Desk
from warehouse.reconcile import service
from warehouse.reconcile.record.record import Record

FIRST, SECOND = date(2026, 11, 20), date(2026, 11, 21)
COMMENT = "asked the custodian"
LATER = NOW + timedelta(days=1)
MODES = ("before", "torn", "full")


@dataclass(frozen=True, slots=True)
class Seen:
    """The state that a case left: digests of the runs by day, comments and signatures."""

    digests: dict[str, list[str]]
    comments: list[str]
    signatures: list[str]

    @classmethod
    def of(cls, root: Path) -> "Seen":
        """Read the state as a command would."""
        record = Record(root)
        entries = (entry for note in record.annotations for entry in note.entries)
        return cls(
            digests={
                str(day): [run.digest for run in record.runs_of(day)] for day in record.days()
            },
            comments=[entry.value for entry in entries if entry.field == "comment"],
            signatures=[signature.who for signature in record.signatures],
        )


def prepare(home: Path) -> Desk:
    """Make the home that every case starts with."""
    desk = Desk(home)
    desk.publish([Amount("1"), Amount("3", asset="ETH")])
    desk.put(HEAD + "p1;BTC;v1;main;2\np1;ETH;v1;main;3\n", f"ledger_{FIRST}.csv")
    workbook = desk.run().files[0]
    [break_] = desk.breaks()
    desk.edit(workbook, {break_["id"]: {"Comment": COMMENT}}, workbook)
    book = openpyxl.load_workbook(workbook)
    for row in book["Summary"].iter_rows():
        if str(row[0].value).casefold() == "prepared by":
            row[1].value = "Ada"
    book.save(workbook)
    desk.publish([Amount("1"), Amount("5", asset="ETH")], f"{SECOND:%Y%m%d}T021500Z")
    desk.put(HEAD + "p1;BTC;v1;main;2\np1;ETH;v1;main;4\n", f"ledger_{SECOND}.csv")
    return desk


def run(desk: Desk) -> list[str]:
    """Run the reconciliation and return the files that it acknowledges."""
    return [str(path) for path in desk.run(now=LATER).files]


def problems(desk: Desk, before: Seen, after: Seen, status: int) -> Iterator[str]:
    """Yield the problems of a case. Its state must be the one before or after the run."""
    root = desk.folder.root
    # Read the state before the next run, as a colleague might do while no program runs.
    if Record(root).problem():
        yield f"damaged: {Record(root).problem()}"
    seen = Seen.of(root)
    if seen not in (before, after):
        yield f"half stored: {seen}"
    if status == 0 and seen != after:
        yield "acknowledged, and lost"
    if service.status(root).run.run_id not in {
        run.run_id for run in Record(root).runs_of(FIRST)
    } | {run.run_id for run in Record(root).runs_of(SECOND)}:
        yield "status shows no stored run"
    run(desk)
    if Seen.of(root) != after:
        yield f"the next run left another state: {Seen.of(root)}"
    found = service.verify(root, desk.folder.day_files(SECOND).workbook)
    if not found.is_whole or found.uncompared:
        yield f"the workbook does not verify: {found.differences} {found.uncompared}"
    if left := [str(path) for path in root.rglob(".*aside*")]:
        yield f"left over: {left}"


def main(folder: Path, count: int) -> dict[str, Any]:
    """Run `count` cases, spread over all calls and modes, and return the results."""
    start, home = folder / "start", folder / "home"
    prepare(start)

    def case(mode: str, point: int) -> tuple[int, Any]:
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(start, home, symlinks=True)

        def work() -> list[Any]:
            with armed(home, mode, point, -1) as shim:
                files = run(Desk(home))
                return [files, int(shim.shim_calls())]

        return forked(work)

    before = Seen.of(start / "reconcile")
    status, told = case("count", 0)
    calls, after = told["value"][1], Seen.of(home / "reconcile")
    assert status == 0
    assert after.comments == [COMMENT]
    assert after.signatures == ["Ada"]
    points = [1 + number * (calls - 1) // max(1, count - 1) for number in range(count)]
    chosen = [(MODES[number % len(MODES)], point) for number, point in enumerate(points)]
    found, killed, failed = [], 0, 0
    for mode, point in chosen:
        status, told = case(mode, point)
        killed += os.WIFSIGNALED(status)
        failed += bool(told.get("error"))
        found += [f"{mode} {point}: {what}" for what in problems(Desk(home), before, after, status)]
    return {
        "calls": calls,
        "cases": len(chosen),
        "killed": killed,
        "failed": failed,
        "found": found,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
