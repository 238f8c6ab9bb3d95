"""`nightbook shelve` and `nightbook publish`: nights onto the shelf, and from it into a home."""

from assets.console.invocation import command_for
from assets.home.writer_lock import writing_aloud
from assets.nightbook import Nightbook
from assets.publishing import open_tables, shelf
from assets.publishing.fetched_nights import fetch_and_publish
from warehouse.contract.wording import count_of


def run(nightbook: Nightbook) -> int:
    """Shelve what is not on the shelf; each night run does it by itself."""
    address = shelf.require_shelf(nightbook, "shelve")
    with writing_aloud(nightbook, "shelving") as heard:
        nights, registered = shelf.shelve(heard), open_tables.register(heard)
    if registered:
        print(f"{count_of(len(registered), 'night')} registered as Iceberg tables.")
    if nights:
        print(f"{count_of(len(nights), 'night')} shelved, to {nights[-1]}: {address.url}")
    else:
        print(f"Every judged night is on the shelf as it is here: {address.url}")
    return 0


def publish(nightbook: Nightbook, *, with_landing: bool) -> int:
    """Make or refresh the warehouse of this home from the shelf."""
    address = shelf.require_shelf(nightbook, "publish")
    with writing_aloud(nightbook, "fetching") as heard:
        fetched = fetch_and_publish(heard, with_landing=with_landing)
    count = count_of(fetched.result.on_shelf, "night")
    if fetched.published is None:
        print(f"{address.url}: {count}, all of them here already.")
        return 0
    new = len(fetched.result.fetched)
    print(f"{address.url}: {count}, {new} of them new or changed.\n  {nightbook.layout.database}")
    print(f"Questions: {command_for(nightbook.layout)} query 'from holdings_by_asset'")
    return 0
