"""Tests of the preview of a ledger: how it would be read, and the lines that settle a question."""

from pathlib import Path

import pytest

from tests.support.ledger_samples import BOOK
from tests.support.reconciliation_home import Desk
from warehouse.reconcile import service
from warehouse.reconcile.settings.config import read_config
from warehouse.reconcile.terms import NotReconciled

SAMPLES = Path(__file__).with_name("samples")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home with the book that the samples are based on."""
    desk = Desk(tmp_path_factory.mktemp("home"))
    desk.publish(BOOK)
    return desk


def lines(home: Desk, name: str) -> list[str]:
    """Return the lines of a preview of a sample."""
    seen = service.preview(home.layout.database, home.folder.root, SAMPLES / name)
    return list(seen.lines)


def test_a_preview_shows_a_question_then_columns_and_sums(home: Desk) -> None:
    """A preview shows a question with lines, and after the answer, it shows columns and sums."""
    name = "pivot-venues-2026-11-20.xlsx"
    asked = lines(home, name)
    assert asked[0].startswith("Question: pivot-venues-2026-11-20.xlsx: no row has titles")
    assert asked[-2].strip() == 'columns_are = "venue"'
    service.settle(home.folder.root, "\n".join(line.strip() for line in asked[-3:]))
    answered = lines(home, name)
    assert answered[0] == f"{name}!Pivot: the header is row 1"
    assert " ".join(answered[4].split()) == (
        "D kraken amount of kraken (specified in recon.toml) 12.5 | 1843.125"
    )
    assert "SOL 15322600.25 in 2 rows" in [" ".join(line.split()) for line in answered]
    assert not any(line.startswith("Question") for line in answered)


def test_a_preview_stores_nothing(home: Desk, tmp_path: Path) -> None:
    """A preview does not create or change any files, for example to remember a header."""
    desk = Desk(tmp_path)
    desk.publish(BOOK)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    service.preview(desk.layout.database, desk.folder.root, SAMPLES / "camel-2026-11-20.csv")
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_invalid_lines_do_not_change_recon_toml(home: Desk) -> None:
    """Invalid lines do not change recon.toml, and the error says what is wrong."""
    service.settle(home.folder.root, '[settings]\nlevel = ["asset"]')
    before = home.folder.config.read_bytes()
    with pytest.raises(NotReconciled, match="has an unknown setting: colour"):
        service.settle(home.folder.root, '[file."a*"]\ncolour = "red"')
    assert home.folder.config.read_bytes() == before


def test_a_second_answer_replaces_the_first(tmp_path: Path) -> None:
    """A second answer to the same question replaces the first answer."""
    desk = Desk(tmp_path)
    service.settle(desk.folder.root, '[ledger."0a1b2c3d"]\namount = "Free"')
    service.settle(desk.folder.root, '[ledger."0a1b2c3d"]\namount = ["Free", "Locked"]')
    service.settle(desk.folder.root, "[settings]\naccept_days = 7")
    config = read_config(desk.folder.config)
    assert config.shapes["0a1b2c3d"].amounts == ("Free", "Locked")
    assert config.accept_days == 7
