"""The settings under which a day was reconciled when it was the newest, kept with its evidence.

A past day that is run again is run with the settings of now: what they change is said on its first
sheet, every time, and what the day's own settings were stays.
"""

from collections.abc import Iterator, Mapping
from datetime import date

from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.store.records import DaySettings
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.notices import Notice

_MOST, _LONGEST = 20, 80


def own(store: Store, config: Config, day: date, run_id: str) -> DaySettings:
    """Return the settings that are a day's own: those of now where it is the newest day."""
    before = store.result(day)
    if before is None or store.is_newest(day):
        return DaySettings(digest=config.digest, words=dict(config.words), run_id=run_id)
    return before.day_settings or DaySettings(
        digest=before.settings_digest, words=None, run_id=before.run_id
    )


def changes(store: Store, config: Config, day: date) -> Iterator[Notice]:
    """Yield what the settings of now change in a past day that had others."""
    then = own(store, config, day, "")
    if then.digest == config.digest and then.words in (None, config.words):
        return
    if then.words is None:
        differences = ["what stood there then was not kept by an older nightbook"]
    else:
        differences = list(_differences(then.words, config.words))
    if differences:
        more_count = len(differences) - _MOST
        more = [f"and {more_count} more"] if more_count > 0 else []
        yield Notice(
            "high",
            f"this past day was run again with other settings than its own, those of run "
            f"{then.run_id}: {'; '.join([*differences[:_MOST], *more])}",
            "recon.toml",
        )


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        was, is_now = then.get(name), now.get(name)
        if was is None and is_now is not None:
            yield f"{name} is new: {is_now[:_LONGEST]}"
        elif is_now is None and was is not None:
            yield f"{name} is gone: it was {was[:_LONGEST]}"
        elif was is not None and is_now is not None and was != is_now:
            yield f"{name} was {was[:_LONGEST]} and is now {is_now[:_LONGEST]}"
