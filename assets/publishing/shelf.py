"""This home and the shelf: where that is, what is not on it yet, and putting it there.

Several machines may decide on one night. Before a person decides, the shelf is asked what others
decided; what was decided apart all the same is merged when a night is shelved or fetched.
"""

import contextlib
import secrets
import sys
from collections.abc import Iterator

from msgspec.structs import replace

from assets.console.progress import progress_reporter
from assets.console.version import program_version
from assets.home.demo import is_demo
from assets.nightbook import INFO, WARNING, Nightbook
from assets.publishing import publish, withdrawal
from pipelines.landing import snapshots
from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import Snapshot
from pipelines.shelf import local_record, merging
from pipelines.shelf.address import SETTING, StoreAddress
from pipelines.shelf.merging import FollowedNight
from pipelines.shelf.object_store import StoreFailed, StoreNotInstalled, open_store
from pipelines.shelf.probe import BreaksItsWord
from pipelines.shelf.shelving import Shelver
from warehouse.contract.states import ACCEPTED, REJECTED
from warehouse.contract.wording import count_of
from warehouse.query.printable import printable_lines
from warehouse.storage.layout import Layout

TOKEN_BYTES = 16
MERGED = "merged"


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
    """Let this home and the shelf agree; returns the nights that went up, none without a shelf.

    What other machines decided is published here. The caller is the writer. Raises `StoreFailed`,
    `BreaksItsWord`, `StoreNotInstalled`, and `NotAllDone` where some nights were left out.
    """
    address = shelf_of(nightbook)
    if address is None:
        return ()
    shelver = shelver_of(nightbook, address)
    nights = snapshots.landed_snapshots(nightbook.layout)
    say = progress_reporter(nightbook, nightbook.tell, "shelving")
    with following(nightbook) as tell:
        result = shelver.shelve(nights, say, tell)
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


def ask_shelf(nightbook: Nightbook) -> Exception | None:
    """Complete the decisions of this home from the shelf, before a person decides; publish them.

    Returns the reason if the shelf cannot be asked. Then the person decides on what is known here,
    and the decisions are merged later. The caller is the writer.
    """
    if (address := shelf_of(nightbook)) is None:
        return None
    nights = snapshots.landed_snapshots(nightbook.layout)
    try:
        with following(nightbook) as tell:
            merging.follow_shelf(nightbook.layout, open_store(address), nights, tell)
    except (StoreFailed, StoreNotInstalled, Damaged) as error:
        return error
    return None


@contextlib.contextmanager
def following(nightbook: Nightbook) -> Iterator[merging.Tell]:
    """Yield a function that reports decisions of other machines, and publish them at the end."""
    followed: list[FollowedNight] = []

    def tell(night: FollowedNight) -> None:
        followed.append(night)
        message = night.message + _mark_withdrawn(nightbook.layout, night)
        if nightbook.tell is None:
            print(printable_lines(message), file=sys.stderr)
        else:
            level = WARNING if night.is_conflict else INFO
            name = night.after.snapshot_id
            nightbook.tell(message, event=MERGED, level=level, snapshot=name)

    try:
        yield tell
    except Exception:
        if followed:
            publish.restore_lake(nightbook)
        raise
    if followed:
        publish.restore_lake(nightbook)


def _mark_withdrawn(layout: Layout, night: FollowedNight) -> str:
    """Mark what this machine made of a night that another one took back; says how many files."""
    decision = night.after.decision
    states = (night.before.state, night.after.state)
    if decision is None or states != (ACCEPTED, REJECTED):
        return ""
    files = withdrawal.made_of(layout, night.before)
    withdrawal.mark(layout, night.after, replace(decision, withdrawn=files))
    return f" {count_of(len(files), 'file')} made of it here, each marked by a note beside it."


def shelve_after_deciding(nightbook: Nightbook, unreached: Exception | None = None) -> None:
    """Shelve what was decided; a store that is down costs no decision, and the next run shelves.

    A store that was `unreached` when it was asked before deciding is not asked again.
    """
    try:
        if unreached is not None:
            raise unreached
        shelve(nightbook)
    except (StoreFailed, BreaksItsWord, StoreNotInstalled, NotAllDone, Damaged) as error:
        print(printable_lines(f"Decided here, and not shelved yet: {error}"), file=sys.stderr)
