"""The packs that there are: whether each is as it was written, and which ledgers they stand for."""

import zipfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from warehouse.reconcile.close import pack
from warehouse.reconcile.store.closings import Closing
from warehouse.reconcile.store.input_archive import archived_path
from warehouse.reconcile.store.run_facts import facts_of_runs
from warehouse.reconcile.store.store import Store
from warehouse.storage.layout import digest_of


def packs(store: Store) -> Path:
    """Return the folder of all packs."""
    return store.root / "packs"


def pack_problem(store: Store, closing: Closing) -> str:
    """Return what is wrong with the file of a pack; nothing where it is as it was written."""
    path = packs(store) / closing.pack
    if not path.is_file():
        return f"its pack {closing.pack} is not there"
    is_same = path.stat().st_size == closing.size and digest_of(path) == closing.sha256
    return "" if is_same else f"its pack {closing.pack} is not as it was written"


@dataclass(frozen=True, slots=True)
class PackDamage:
    """What is wrong with the packs of a closed month, and what to do."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


def damaged_packs(folder: Path) -> list[PackDamage]:
    """Return what is wrong with the packs of closed months: nothing where all are as written."""
    store = Store(folder)
    return [
        PackDamage(
            f"{item.month}, version {item.version}: {problem}",
            f"restore {packs(store)} from the backup",
        )
        for item in store.closings
        if (problem := pack_problem(store, item))
    ]


def remove_archived_ledgers(store: Store, today: date, keep_days: int) -> None:
    """Remove the kept ledgers that no day read since so many days, if a whole pack has them."""
    days: dict[str, date] = {}
    for day in store.days():
        for run in facts_of_runs(store, day):
            days |= {sha256: max(day, days.get(sha256, day)) for _, sha256 in run.files}
    old = {sha256: day for sha256, day in days.items() if (today - day).days > keep_days}
    old = {sha256: day for sha256, day in old.items() if archived_path(store, sha256).is_file()}
    for closing in store.closings if old else ():
        if pack_problem(store, closing):
            continue
        with zipfile.ZipFile(packs(store) / closing.pack) as names:
            manifest = pack.read_manifest(names.read(pack.MANIFEST))
        for sha256 in old.keys() & set(pack.ledgers_among(manifest).values()):
            archived_path(store, sha256).unlink(missing_ok=True)
