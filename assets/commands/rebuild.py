"""`nightbook rebuild`: the warehouse again from the lake, or both from the landing zone."""

from assets.commands.dry_run import print_changes
from assets.home.rehearsal import rehearsing
from assets.home.writer_lock import writing_aloud
from assets.nightbook import Nightbook
from assets.publishing.rebuild import SPARK, rebuild, rebuild_on_spark
from warehouse.contract.wording import count_of
from warehouse.database.publish import Published


def run(
    nightbook: Nightbook,
    *,
    from_landing: bool,
    engine: str | None = None,
    dry_run: bool = False,
    form: str | None = None,
) -> int:
    """Make everything again, offline; decisions stay as they were made."""
    is_all = from_landing or engine is not None  # what Spark flattens is the landing zone
    if dry_run:
        with rehearsing(nightbook) as rehearsal:
            _rebuild(rehearsal, engine, from_landing=is_all)
            print_changes(nightbook.layout, rehearsal.layout, form)
        return 0
    with writing_aloud(nightbook, "rebuilding") as heard:
        published = _rebuild(heard, engine, from_landing=is_all)
    source = "the landing zone" if is_all else "the lake"
    passed = sum(check.is_ok for check in published.checks)
    nights = count_of(len(published.loaded), "night")
    print(
        f"Rebuilt from {source}{' on Spark' * (engine == SPARK)}: {nights}, {passed} of "
        f"{len(published.checks)} checks passed.\n  {published.database}"
    )
    return 0


def _rebuild(nightbook: Nightbook, engine: str | None, *, from_landing: bool) -> Published:
    if engine == SPARK:
        return rebuild_on_spark([nightbook])[0]
    return rebuild(nightbook, from_landing=from_landing)
