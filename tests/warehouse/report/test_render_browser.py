"""Tests of the morning report in a real browser, with names that must not break the page."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support.books import Amount, Night, night
from tests.support.browser import LOOKS, PRINTED, Browser, Look, chromium, require_sound
from tests.warehouse.report.test_build import (
    HOSTILE,
    NOW,
    closed,
    hostile_night,
    page,
    warehouse,
)

pytestmark = pytest.mark.torture

DAYS = [date(2025, 11, 20) + timedelta(days=number) for number in (0, 1, 182, 363, 364, 365)]
PHONE = 6_000
# As wide as A4 and shorter than Letter, both without their margins, at 96 dots per inch.
PAPER = Look(703, medium="print", height=900)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start a browser."""
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a year of hostile names, with gaps, findings, rejects and a held night."""
    home = tmp_path_factory.mktemp("hostile")
    nights = [hostile_night(f"{day:%Y%m%d}T021500Z") for day in DAYS]
    nights[-1] = replace(nights[-1], state="held", is_book=False)
    reason = " ".join(HOSTILE)
    database = warehouse(home, nights, reason=reason, decided_by=None, decided_at=None)
    file = home / "report.html"
    file.write_text(page(database, now=NOW, program_version="0.0.0"), "utf-8")
    return file


def mornings(home: Path) -> Iterator[tuple[str, Path]]:
    """Write the pages of a quiet, a busy, a held and a stale morning, and yield their paths."""
    same = [Amount("1.5"), Amount("1200.25", "p2", "ETH", "v2")]
    quiet = [night("20261119T021500Z", same), night("20261120T021500Z", same)]
    first, second = busy_nights()
    held = [first, replace(second, state="held", is_book=False)]
    why = {"reason": "BTC fell by 40 %", "decided_by": None, "decided_at": None}
    late = NOW + timedelta(days=2)
    for name, nights, about, now in (
        ("quiet", quiet, {}, NOW),
        ("busy", [first, second], {}, NOW),
        ("held", held, why, NOW),
        ("stale", quiet, {}, late),
    ):
        file = home / f"{name}.html"
        database = warehouse(home / name, nights, **about)
        file.write_text(page(database, now=now, program_version="0.0.0"), "utf-8")
        yield name, file


def busy_nights() -> list[Night]:
    """Return two nights of thirty assets, four portfolios and two venues, one of which closes."""
    amounts = [
        Amount(
            f"{(number + 1) ** 5}.{number:02}1", f"p{number % 4}", f"A{number}", f"v{number % 2}"
        )
        for number in range(30)
    ]
    later = [
        replace(amount, text=f"{number * 7}.000000000000000001")
        for number, amount in enumerate(amounts)
    ]
    return [night("20261119T021500Z", amounts), closed(night("20261120T021500Z", later), "v1")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the pages of the four mornings, and return their paths by name."""
    return dict(mornings(tmp_path_factory.mktemp("mornings")))


@pytest.mark.parametrize("name", ["quiet", "busy", "held", "stale"])
def test_every_page_can_be_read_on_screen_and_paper(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    """Every page can be read on a phone, a screen and paper, and no text is faint or cut off.

    It has at most six thousand pixels on a phone, and its first part fits on one printed page.
    """
    for look in (*LOOKS, PAPER):
        seen = browser.look(pages[name], look)
        require_sound(seen, pages[name])
        if look.width == LOOKS[0].width:
            assert seen.measures["height"] <= PHONE
        if look is PAPER:
            assert seen.measures["first"] <= look.height


def test_every_fold_opens_by_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    """The Tab key reaches each fold of the page in order, and Enter opens it."""
    session = browser.open(pages["busy"], LOOKS[0])
    folds = browser.evaluate(
        session, "[...document.querySelectorAll('.fold > summary')].map((one) => one.innerText)"
    )
    opened: list[str] = []
    for _ in range(200):
        browser.press(session, "Tab", 9)
        if browser.evaluate(session, "document.activeElement.matches('.fold > summary')"):
            browser.press(session, "Enter", 13)
            script = "document.activeElement.parentElement.open && document.activeElement.innerText"
            opened.append(browser.evaluate(session, script))
            browser.press(session, "Enter", 13)
    assert folds
    assert opened[: len(folds)] == folds


@pytest.mark.parametrize("look", [*LOOKS, PRINTED], ids=str)
def test_a_page_with_hostile_names_can_be_read(browser: Browser, hostile: Path, look: Look) -> None:
    """On a phone, a screen and paper, no text overlaps or is cut off.

    The page requests nothing and runs nothing.
    """
    require_sound(browser.look(hostile, look), hostile)


def test_the_measures_find_a_bad_page(browser: Browser, tmp_path: Path) -> None:
    """The measures find a page that is too wide, or that has covered, cut or faint text.

    They also find requests and scripts.
    """
    file = tmp_path / "bad.html"
    words = "<p>word</p>" * 120
    file.write_text(
        "<!doctype html><title>Morning report</title><script>console.log(1)</script>"
        "<img src='nothing.png'>"
        "<p style='position:absolute;margin:0;top:310px'>covers<br>what<br>is<br>below<br>it</p>"
        "<p style='width:3000px'>wide</p>"
        "<p style='color:#999'>too faint</p>"
        f"<p style='width:2em;overflow:hidden;white-space:nowrap'>cut off here</p>{words}"
    )
    seen = browser.look(file, LOOKS[0])
    assert seen.measures["wide"] > 0
    assert seen.measures["cut"]
    assert seen.measures["over"]
    assert seen.measures["faint"] == ["too faint"]
    assert len(seen.asked) > 1
    assert seen.said
