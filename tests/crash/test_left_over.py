"""A test of a landed night that one run could not flatten, and that the next run completes."""

import shutil
from pathlib import Path

import pytest

from pipelines import night
from pipelines.flatten.parts import Part
from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest
from pipelines.maintenance.verify import verify
from tests.crash import nights
from tests.crash.scenarios import books
from warehouse.contract import states
from warehouse.storage.layout import Layout


@pytest.mark.torture
def test_a_left_over_night_becomes_a_book_once_readable(
    two_nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as a left-over night can be read, it becomes the book of its date and is not held.

    The books are the same as in a home without the failure.
    """
    home, other = tmp_path / "home", tmp_path / "other"
    shutil.copytree(two_nights, home, symlinks=True)
    shutil.copytree(two_nights, other, symlinks=True)
    moments = [nights.at(number) for number in (2, 3, 4)]
    left = nights.land(Layout(home), nights.Clock(moments[0]), nights.answers(moments[0].date()))
    stage = night.stage_portfolios

    def unreadable(layout: Layout, manifest: Manifest) -> Part:
        if manifest.snapshot_id == left.snapshot_id:
            raise OSError("Input/output error")
        return stage(layout, manifest)

    with monkeypatch.context() as failing:
        failing.setattr(night, "stage_portfolios", unreadable)
        nights.run(home, moments[1])
    assert snapshots.find(Layout(home), left.snapshot_id).state == states.COMPLETE
    nights.run(home, moments[2])
    for moment in moments:
        nights.run(other, moment)
    assert snapshots.find(Layout(home), left.snapshot_id).state == states.ACCEPTED
    assert books(home) == books(other)
    assert list(verify(Layout(home))) == []
