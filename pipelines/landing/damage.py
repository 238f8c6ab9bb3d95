"""Damaged files, and nights whose response bodies are not in this home."""

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pipelines.landing import night_folders
from pipelines.landing.night_folders import DamagedFile
from warehouse.contract.model import count_of
from warehouse.storage.layout import Layout

CHANGED, MISSING, SURPLUS = "changed", "missing", "surplus"
SHELF_RECORD = "shelf.json"


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged or unexpected file. `what` is "changed", "missing" or "surplus".

    `night` is the snapshot ID, the date if only the date is known, or None.
    """

    file: Path
    what: str
    night: str | None
    remedy: str

    def __str__(self) -> str:
        night_note = f" (night {self.night})" if self.night else ""
        return f"{self.file}{night_note}: {self.what}; {self.remedy}."


class BodiesNotLocal(Exception):
    """The command needs response bodies, but nights were loaded from the shelf without them."""

    def __init__(self, nights: Collection[str], not_done: str) -> None:
        super().__init__(
            f"The bodies of {count_of(len(nights), 'night')} (up to {max(nights)}) are not in this "
            f"home, because it was loaded from a shelf without them. {not_done}. Download them "
            "with: nightbook publish --with-landing"
        )


def without_bodies(layout: Layout) -> set[str]:
    """Return the IDs of the nights whose response bodies were not loaded from the shelf."""
    with contextlib.suppress(DamagedFile, AttributeError, KeyError, TypeError):
        if (layout.home / SHELF_RECORD).is_file():
            nights = night_folders.read(layout.home / SHELF_RECORD)["nights"]
            return {name for name, night in nights.items() if not night["has_bodies"]}
    return set()
