"""A demo's home is marked, so that invented nights and real ones never meet in one book."""

import shutil

from pipelines import snapshots
from warehouse.layout import Layout, write_json

MARK = "demo.json"


class OnlyADemo(Exception):
    """A real night was to be written over a demo's."""

    exit_code = 2

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"{layout.home} holds the demo's invented nights, and a real night does not belong "
            "among them. Nothing was read or written. Remove that folder, or choose another: "
            "set NIGHTBOOK_HOME, or nightbook --home DIR run"
        )


class RealNights(Exception):
    """A demo was to be written over real nights."""

    exit_code = 2

    def __init__(self, layout: Layout, nights: int) -> None:
        super().__init__(
            f"{layout.home} holds {nights} real snapshots, and the demo's invented nights do not "
            "belong among them. Nothing was written. Choose another place: "
            "nightbook --home DIR demo"
        )


def is_demo(layout: Layout) -> bool:
    """Whether a home holds a demo."""
    return (layout.home / MARK).is_file()


def require_real(layout: Layout) -> None:
    """Raise `OnlyADemo` where a home holds a demo."""
    if is_demo(layout):
        raise OnlyADemo(layout)


def make_demo(layout: Layout) -> None:
    """An empty, marked home; an earlier demo there is removed. Raises `RealNights`."""
    if not is_demo(layout) and (known := snapshots.landed(layout)):
        raise RealNights(layout, len(known))
    for path in (
        layout.landing,
        layout.lake,
        layout.warehouse,
        layout.exports,
        layout.reports,
        layout.dagster,
        layout.work,
        layout.home / "reconcile",
    ):
        shutil.rmtree(path, ignore_errors=True)
    write_json(layout.home / MARK, {"what": "invented nights of nightbook demo"})
