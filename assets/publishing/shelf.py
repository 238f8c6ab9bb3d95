"""This home and the shelf: where that is, what is not on it yet, and putting it there."""

import secrets
import sys

from assets.console.progress import progress_reporter
from assets.console.version import program_version
from assets.home.demo import is_demo
from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from pipelines.shelf import local_record
from pipelines.shelf.address import SETTING, StoreAddress
from pipelines.shelf.object_store import StoreFailed, StoreNotInstalled, open_store
from pipelines.shelf.probe import BreaksItsWord
from pipelines.shelf.shelving import Shelver
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable_lines

TOKEN_BYTES = 16


class NoShelf(Exception):
    """No shelf is set, and a command is about one."""

    exit_code = 2

    def __init__(self, command: str) -> None:
        super().__init__(
            f"{SETTING} is not set (and invented nights are never shelved), so there is no shelf, "
            "and nothing was done. Set it to an object store that several machines reach, such as "
            f"s3://bucket/book (assets/OPERATING.md), then: nightbook {command}"
        )


class NotAllDone(Exception):
    """Some nights could not be shelved or fetched; the others were."""

    def __init__(self, problems: tuple[str, ...], done: int) -> None:
        listed = "\n".join(f"  {problem}" for problem in problems)
        many = count_of(len(problems), "night")
        super().__init__(
            f"Between this home and the shelf, {many} could not be settled; "
            f"{count_of(done, 'night')} could:\n{listed}"
        )


class NotYetShelved(Exception):
    """Nights are not on the shelf, and what is to be done would keep them from it."""

    def __init__(self, nights: list[Snapshot]) -> None:
        super().__init__(
            f"{count_of(len(nights), 'night')} of this home (to {nights[-1].snapshot_id}) are not "
            "on the shelf yet, and of what is pruned nothing can be shelved any more. Nothing was "
            "pruned. Shelve them first: nightbook shelve"
        )


def shelf_of(nightbook: Nightbook) -> StoreAddress | None:
    """Return where nights are shelved; None where they are not, and for invented ones."""
    is_invented = nightbook.is_demo or is_demo(nightbook.layout)
    return None if is_invented else nightbook.settings().shelf


def require_shelf(nightbook: Nightbook, command: str) -> StoreAddress:
    """Return where nights are shelved; raises `NoShelf`."""
    address = shelf_of(nightbook)
    if address is None:
        raise NoShelf(command)
    return address


def waiting_nights(nightbook: Nightbook, nights: list[Snapshot]) -> list[Snapshot]:
    """Return the judged nights that are not on the shelf as they are here."""
    address = shelf_of(nightbook)
    if address is None:
        return []
    return local_record.waiting_nights(nightbook.layout, address.url, nights)


def require_all_on_shelf(nightbook: Nightbook) -> None:
    """Raise `NotYetShelved` where judged nights are not on the shelf as they are here."""
    if waiting := waiting_nights(nightbook, snapshots.landed_snapshots(nightbook.layout)):
        raise NotYetShelved(waiting)


def shelve(nightbook: Nightbook) -> tuple[str, ...]:
    """Shelve what is not on the shelf yet; returns the nights, none where there is no shelf.

    The caller is the writer. Raises `StoreFailed`, `BreaksItsWord`, `StoreNotInstalled`, and
    `NotAllDone` where some nights were left out.
    """
    address = shelf_of(nightbook)
    if address is None:
        return ()
    shelver = shelver_of(nightbook, address)
    nights = snapshots.landed_snapshots(nightbook.layout)
    result = shelver.shelve(nights, progress_reporter(nightbook, nightbook.tell, "shelving"))
    if result.problems:
        raise NotAllDone(result.problems, len(result.shelved))
    return result.shelved


def shelver_of(nightbook: Nightbook, address: StoreAddress) -> Shelver:
    """Return who writes on the shelf for this run."""
    return Shelver(
        layout=nightbook.layout,
        store=open_store(address),
        token=secrets.token_hex(TOKEN_BYTES),
        at=nightbook.now(),
        program_version=program_version(),
    )


def shelve_after_deciding(nightbook: Nightbook) -> None:
    """Shelve what was decided; a store that is down costs no decision, and the next run shelves."""
    try:
        shelve(nightbook)
    except (StoreFailed, BreaksItsWord, StoreNotInstalled, NotAllDone) as error:
        print(printable_lines(f"Decided here, and not shelved yet: {error}"), file=sys.stderr)
