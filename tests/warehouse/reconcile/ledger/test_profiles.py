"""Exports of known programs are recognised by their headers, and say what a person would say.

Each file of `profiles` has the header of the public document that its profile names, and values of
our own: of positions the same three holdings each time, and other figures in every other column.
"""

import csv
import re
import unicodedata
from pathlib import Path

import pytest

from warehouse.reconcile.ledger.header import profiles
from warehouse.reconcile.ledger.header.profiles import Content, known_profiles, profile_of
from warehouse.spreadsheet.reading.text import fold

SAMPLES = Path(__file__).parent / "profiles"
PAGE = Path(profiles.__file__).parents[2] / "README.md"
LEADS = {
    Content.POSITIONS: "Exports of holdings:",
    Content.TRANSACTIONS: "Lists of transactions are named as such, and are no ledger:",
}
PROFILES = {profile.name: profile for profile in known_profiles()}


def _sample(name: str) -> Path:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return SAMPLES / f"{re.sub('[^a-z0-9]+', '-', plain).strip('-')}.csv"


def _titles(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    delimiter = max(",;|", key=text.splitlines()[0].count)
    return next(csv.reader([text.splitlines()[0]], delimiter=delimiter))


def test_each_profile_has_its_sample() -> None:
    """No profile is without a sample, and no sample without a profile."""
    assert {path.name for path in SAMPLES.iterdir()} == {_sample(name).name for name in PROFILES}


@pytest.mark.parametrize("name", PROFILES)
def test_an_export_is_recognised_by_its_header(name: str) -> None:
    """A header is known whatever its order and case, with further columns, and not without one."""
    titles = _titles(_sample(name))
    profile = PROFILES[name]
    assert profile_of(titles) is profile
    assert profile_of([title.upper() for title in reversed(titles)] + ["x"]) is profile
    lacking = next(iter(sorted(profile.titles)))
    assert profile_of([title for title in titles if fold(title) != lacking]) is not profile


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_says_which_columns_are_read(name: str) -> None:
    """Of positions the asset and the amount are named; of transactions that they are no ledger."""
    profile = PROFILES[name]
    if profile.content is Content.TRANSACTIONS:
        assert name in profile.refusal
        assert not profile.shape.columns
        return
    titles = _titles(_sample(name))
    amounts = profile.shape.amounts or re.split(" [+-] ", profile.shape.columns["amount"])
    columns = {title for title in profile.shape.columns.values() if title in titles}
    assert columns | set(amounts) <= set(titles)
    assert not set(amounts) & set(profile.shape.unused)
    assert not profile.refusal


def test_an_ordinary_header_is_no_export() -> None:
    """A few common words are no print of any program."""
    assert profile_of(["Portfolio", "Asset", "Venue", "Account", "Amount", "Date", "Type"]) is None


def test_the_page_for_finance_names_every_export() -> None:
    """Who reads the page knows what is known, and nothing else."""
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for content, lead in LEADS.items():
        names = sorted(name for name, profile in PROFILES.items() if profile.content is content)
        assert f"{lead} {', '.join(names)}." in page
