"""A script that recreates the reconciliation: `python -m tests.homes.reconciliation FOLDER`.

The code of the last commit before texts and codes were separated makes it, with the packages of
this environment: `PYTHONPATH=<checkout of 476b94c> python -m tests.homes.reconciliation FOLDER`.
The archive contains the folder `reconcile` of a home with a closed month, but no warehouse. The
tests publish the books again.
"""

import sys
import tarfile
import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from tests.support.books import Amount, night
from tests.support.reconciliation_home import HEAD, Desk
from warehouse.reconcile import service
from warehouse.reconcile.close.close import CloseInputs, close

ARCHIVE = Path(__file__).parent / "reconciliation-476b94c.tar.xz"
DAYS = [date(2026, 11, day) for day in (18, 19, 20)]
OTHERS = "p1;ETH;v1;main;100\np1;SOL;v1;cold;7.0\np1;??;v1;main;1\np1;DOT;v1;main;TBC\n"
LEDGERS = (
    f"{HEAD}p1;BTC;v1;main;11\n{OTHERS}",
    f"{HEAD}p1;BTC;v1;main;1523.123456789012345678\n{OTHERS}",
    f"{HEAD}p1;BTC;v1;main;12\np1;XRP;v1;spare;5\n{OTHERS}",
)


def amounts() -> list[Amount]:
    """Return the book of each night, which has one break of each result."""
    return [
        Amount("1523.123456789012345678"),
        Amount("0.1", asset="ETH"),
        Amount("7", asset="SOL"),
        Amount("3", asset="DOT"),
        Amount("2", asset="ADA"),
    ]


def publish(desk: Desk, days: Sequence[date]) -> None:
    """Publish the books of these days in one step."""
    *ids, last = [f"{day:%Y%m%d}T021500Z" for day in days]
    desk.nights += [night(id_, amounts()) for id_ in ids]
    desk.publish(amounts(), last)


def now(day: date, hour: int = 8) -> datetime:
    """Return a time on a day."""
    return datetime(day.year, day.month, day.day, hour, tzinfo=UTC)


def make(home: Path) -> None:
    """Run three nights, with comments and signatures, and close their month."""
    desk = Desk(home)
    for day, ledger in zip(DAYS, LEDGERS, strict=True):
        publish(desk, [day])
        desk.put(ledger)
        book = desk.run(as_of=day, now=now(day)).files[0]
        ids = {one["names"]["asset"]: one["id"] for one in desk.breaks(day)}
        if day == DAYS[0]:
            cells = {
                ids["ETH"]: {"Status": "Explained - accepted", "Comment": "a known unit"},
                ids["BTC"]: {"Status": "Waiting", "Owner": "Ada", "Root cause": "Snapshot error"},
            }
            desk.edit(book, cells, book.with_name("edited.xlsx"))
        root = desk.folder.root
        service.sign(root, role="preparer", who="Ada", day=day, now=now(day, 9))
        service.sign(root, role="reviewer", who="Bo", day=day, now=now(day, 10))
    inputs = CloseInputs(month="2026-11", who="Cy", now=now(DAYS[-1], 12), program_version="0.0.0")
    close(desk.layout.database, desk.folder.root, inputs)


def unpack(home: Path) -> Desk:
    """Return a home with the stored reconciliation and without a book."""
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(home, filter="data")
    return Desk(home)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        target = Path(sys.argv[1], ARCHIVE.name)
        with tarfile.open(target, "w:xz", preset=9) as tar:
            tar.add(Path(folder, "reconcile"), "reconcile")
        print(f"{target}: {target.stat().st_size:,} bytes")
