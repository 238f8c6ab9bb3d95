"""The shelf: the night on an object store, for other machines, where `NIGHTBOOK_LAKE` is set."""

import dataclasses
from collections.abc import Callable, Sequence
from hashlib import sha256

import dagster as dg

from assets.console.invocation import full_command
from assets.graph.published.warehouse import WAREHOUSE
from assets.graph.step import night_step
from assets.home.writer_lock import RunLock
from assets.monitoring.alerts import Alert, store_events
from assets.nightbook import INFO, TOLD, WARNING, Nightbook, Tell
from assets.publishing import open_tables, shelf
from warehouse.contract.wording import count_of

SHELF = dg.AssetKey("shelf")
ICEBERG = dg.AssetKey("iceberg_tables")


def shelf_assets(
    nightbook: Nightbook, partitions: dg.DailyPartitionsDefinition
) -> list[dg.AssetsDefinition]:
    """Return the shelved nights; none of it where nights stay on this machine."""
    if (store := shelf.shelf_of(nightbook)) is None:
        return []
    shelved_nights = _nights_asset(
        SHELF,
        after=WAREHOUSE,
        partitions=partitions,
        kind="objectstore",
        doing="shelving",
        done=f"on the shelf {store.url}",
        bring=shelf.shelve,
        description="The judged night on the object store of NIGHTBOOK_LAKE: bodies, tables, then "
        "the manifest that makes them a night. A store that is down costs this step alone: the "
        "book is published here, and the next run shelves what is missing.",
    )
    if open_tables.catalog_of(nightbook) is None:
        return [shelved_nights]
    iceberg_tables = _nights_asset(
        ICEBERG,
        after=SHELF,
        partitions=partitions,
        kind="iceberg",
        doing="registering",
        done="registered as Iceberg tables",
        bring=open_tables.register,
        description="The shelf's files registered as Iceberg tables, all tables of a date in one "
        "commit, for the engines that read the catalog of NIGHTBOOK_CATALOG. A catalog that is "
        "down costs this step alone; the next run registers what is missing.",
    )
    return [shelved_nights, iceberg_tables]


def _with_alert(nightbook: Nightbook, tell: Tell) -> Tell:
    """Return who tells the log of the run, and once an operator if two machines had decided."""

    def hear(message: str, *, event: str = TOLD, level: str = INFO, snapshot: str = "") -> None:
        tell(message, event=event, level=level, snapshot=snapshot)
        if event == shelf.MERGED and level == WARNING:
            store_events(nightbook, [_merged_alert(nightbook, snapshot, message)])

    return hear


def _merged_alert(nightbook: Nightbook, snapshot_id: str, message: str) -> Alert:
    """Return the alert of a night on which two machines decided."""
    layout = nightbook.layout
    return Alert(
        cause=f"merged:{snapshot_id}:{sha256(message.encode()).hexdigest()[:8]}",
        title=f"two machines decided on the night {snapshot_id}",
        words=message,
        see=str(layout.database),
        command=full_command(layout, "snapshots"),
        happened=True,
    )


def _nights_asset(
    key: dg.AssetKey,
    *,
    after: dg.AssetKey,
    partitions: dg.DailyPartitionsDefinition,
    kind: str,
    doing: str,
    done: str,
    bring: Callable[[Nightbook], Sequence[str]],
    description: str,
) -> dg.AssetsDefinition:
    """Return a step that brings every night that is missing there to another place."""

    @dg.asset(
        key=key,
        deps=[after],
        partitions_def=partitions,
        group_name="published",
        kinds={kind},
        description=description,
    )
    def nights_elsewhere(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"{doing} {step.day}", step.tell)
            nights = bring(dataclasses.replace(nightbook, tell=_with_alert(nightbook, step.tell)))
            if nights:
                step.tell(f"{count_of(len(nights), 'night')} {done}", event=doing)
        return dg.MaterializeResult(metadata={"nights": list(nights)})

    return nights_elsewhere
