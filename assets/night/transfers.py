"""The steps that upload nights to the shelf and register them in the Iceberg catalog."""

import dataclasses
from collections.abc import Callable, Sequence

from assets.night.results import AssetResult
from assets.night.step import NightStep
from assets.nightbook import Nightbook
from assets.publishing import shelf
from warehouse.contract.model import count_of

SHELF, ICEBERG = ("shelf",), ("iceberg_tables",)


def shelve(step: NightStep) -> Sequence[AssetResult]:
    """Upload all missing nights to the shelf, if one is configured."""
    address = shelf.shelf_of(step.nightbook)
    place = f"on the shelf {address.url}" if address else ""
    return _transfer(step, SHELF, "shelving", place, shelf.shelve)


def register(step: NightStep) -> Sequence[AssetResult]:
    """Register all missing nights in the Iceberg catalog."""
    return _transfer(step, ICEBERG, "registering", "registered as Iceberg tables", shelf.register)


def _transfer(
    step: NightStep,
    asset: tuple[str, ...],
    event: str,
    done: str,
    transfer: Callable[[Nightbook], Sequence[str]],
) -> Sequence[AssetResult]:
    step.acquire_lock(f"{event} {step.day}")
    nights = transfer(dataclasses.replace(step.nightbook, tell=step.tell))
    if nights:
        step.tell(f"{count_of(len(nights), 'night')} {done}", event=event)
    return [AssetResult(asset=asset, metadata={"nights": list(nights)})]
