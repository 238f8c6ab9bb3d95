"""The warehouse of a second machine: nights come from the shelf, and are published here."""

from dataclasses import dataclass

from assets.console.progress import progress_reporter
from assets.nightbook import Nightbook
from assets.publishing import publish
from assets.publishing.shelf import NotAllDone, following, require_shelf
from pipelines.lake import placement
from pipelines.maintenance.upgrade import is_behind
from pipelines.shelf.fetching import FetchResult, fetch
from pipelines.shelf.object_store import open_store
from warehouse.database.publish import Published


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedNights:
    """What came from the shelf, and the version that was published of it; None where none was."""

    result: FetchResult
    published: Published | None


def fetch_and_publish(nightbook: Nightbook, *, with_landing: bool) -> FetchedNights:
    """Bring this home up to the shelf and publish it; the caller is the writer.

    Raises `NoShelf`, `StoreFailed`, and `NotAllDone` where some nights did not come.
    """
    layout, say = nightbook.layout, progress_reporter(nightbook, nightbook.tell, "fetching")
    store = open_store(require_shelf(nightbook, "publish"))
    # A lake of an older contract is made again of the bodies.
    is_older = is_behind(layout)
    with following(nightbook) as tell:
        result = fetch(layout, store, say, tell, with_landing=with_landing or is_older)
        placement.settle(layout)
    is_untold = publish.restore_lake(nightbook, and_publish=False)
    is_new = bool(result.fetched) or is_older or is_untold or not layout.database.exists()
    published = publish.refresh(nightbook) if is_new and result.on_shelf else None
    if result.problems:
        raise NotAllDone(result.problems, len(result.fetched))
    return FetchedNights(result=result, published=published)
