"""The settings under which a day was reconciled when it was the newest, kept with its evidence.

A past day that is run again is run with the settings of now: what they change is said on its first
sheet, every time, and what the day's own settings were stays.
"""

from collections.abc import Iterator, Mapping
from datetime import date

from warehouse.reconcile.config import Config
from warehouse.reconcile.notices import Notice
from warehouse.reconcile.store import archive
from warehouse.reconcile.store.archive import Folder, Json

_MOST, _LONGEST = 20, 80


def own(folder: Folder, config: Config, day: date, run_id: str) -> Json:
    """Return the settings that are a day's own: those of now where it is the newest day."""
    now: Json = {"digest": config.digest, "words": dict(config.words), "run_id": run_id}
    before = archive.result(folder, day)
    if before is None or archive.is_newest(folder, day):
        return now
    older = {"digest": before["evidence"].get("SHA-256 of recon.toml", ""), "words": None}
    kept: Json = before.get("day_settings") or older | {"run_id": before["run_id"]}
    return kept


def changes(folder: Folder, config: Config, day: date) -> Iterator[Notice]:
    """Yield what the settings of now change in a past day that had others."""
    then = own(folder, config, day, "")
    if then["digest"] == config.digest:
        return
    if then["words"] is None:
        told = ["what stood there then was not kept by an older nightbook"]
    else:
        told = list(_differences(then["words"], config.words))
    if told:
        more = [f"and {len(told) - _MOST} more"] if len(told) > _MOST else []
        words = "; ".join([*told[:_MOST], *more])
        yield Notice(
            "high",
            f"this past day was run again with other settings than its own, those of run "
            f"{then['run_id']}: {words}",
            "recon.toml",
        )


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        was, given = then.get(name), now.get(name)
        if was == given:
            continue
        if was is None:
            yield f"{name} is new: {str(given)[:_LONGEST]}"
        elif given is None:
            yield f"{name} is gone: it was {was[:_LONGEST]}"
        else:
            yield f"{name} was {was[:_LONGEST]} and is now {given[:_LONGEST]}"
