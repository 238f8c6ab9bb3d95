"""A transfer of nights between a home and the shelf, one by one, with a record of the result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from pipelines.lakehouse.errors import NotAllDone
from pipelines.lakehouse.night_manifest import UNUSABLE
from pipelines.lakehouse.shelf_list import NightRecord, ShelfRecord, write_record
from warehouse.progress import Tally
from warehouse.storage.layout import Layout

PARALLEL_FILES = 8
SAVE_INTERVAL = 25  # number of nights after which progress is saved
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Transfer:
    """The nights transferred, problems with other nights, and the number of nights on the shelf."""

    nights: tuple[str, ...]
    problems: tuple[str, ...]
    on_shelf: int = 0

    def require_complete(self) -> None:
        """Raise `NotAllDone` if some nights could not be transferred."""
        if self.problems:
            raise NotAllDone(self.problems, len(self.nights))


def move_each(
    layout: Layout,
    record: ShelfRecord,
    nights: Mapping[str, Item],
    move: Callable[[Item], NightRecord],
    *,
    progress: Tally,
    before_saving: Callable[[], None] = lambda: None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Transfer nights one by one, and save this home's record of the shelf from time to time.

    Return the IDs of the nights transferred, and the problems with other nights.
    """
    done, problems = dict[str, NightRecord](), list[str]()
    for number, (snapshot_id, night) in enumerate(nights.items(), 1):
        try:
            done[snapshot_id] = move(night)
        except UNUSABLE as error:
            problems.append(str(error))
        progress.add(1)
        if number % SAVE_INTERVAL == 0 or number == len(nights):
            before_saving()
            write_record(layout, replace(record, nights={**record.nights, **done}))
    return tuple(done), tuple(problems)
