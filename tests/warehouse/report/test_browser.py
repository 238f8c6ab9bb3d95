"""The morning report in a real browser: whatever the names are, it can be read and does nothing."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support.browser import LOOKS, PRINTED, Browser, Look, chromium, require_sound
from tests.warehouse.report.test_report import HOSTILE, NOW, hostile_night, warehouse
from warehouse.report.build import page

pytestmark = pytest.mark.torture

DAYS = [date(2025, 11, 20) + timedelta(days=number) for number in (0, 1, 182, 363, 364, 365)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser."""
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A year whose every name is hostile, with gaps, findings, rejects, and a held last night."""
    home = tmp_path_factory.mktemp("hostile")
    nights = [hostile_night(f"{day:%Y%m%d}T021500Z") for day in DAYS]
    nights[-1] = replace(nights[-1], state="held", is_book=False)
    reason = " ".join(HOSTILE)
    database = warehouse(home, nights, reason=reason, decided_by=None, decided_at=None)
    file = home / "report.html"
    file.write_text(page(database, now=NOW, program_version="0.0.0"), "utf-8")
    return file


@pytest.mark.parametrize("look", [*LOOKS, PRINTED], ids=str)
def test_a_hostile_year_can_be_read(browser: Browser, hostile: Path, look: Look) -> None:
    """On a phone, a screen and paper nothing overlaps or is cut, asks for anything or runs."""
    require_sound(browser.look(hostile, look), hostile)


def test_the_measures_see_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    """A page that is too wide, covers its own words, cuts them, asks and runs is found out."""
    file = tmp_path / "bad.html"
    words = "<p>word</p>" * 120
    file.write_text(
        "<!doctype html><title>Morning report</title><script>console.log(1)</script>"
        "<img src='nothing.png'>"
        "<p style='position:absolute;margin:0;top:310px'>covers what is below it</p>"
        "<p style='width:3000px'>wide</p>"
        f"<p style='width:2em;overflow:hidden;white-space:nowrap'>cut off here</p>{words}"
    )
    seen = browser.look(file, LOOKS[0])
    assert seen.measures["wide"] > 0
    assert seen.measures["cut"]
    assert seen.measures["over"]
    assert len(seen.asked) > 1
    assert seen.said
