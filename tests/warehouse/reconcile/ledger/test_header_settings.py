"""Tests of exports that known programs write: nightbook recognises their headers.

Each file in `profiles` has the header from the public document that its profile names, and values
that we invented. Exports of positions all have the same three holdings, and different figures in
every other column.
"""

import csv
import hashlib
import re
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import Desk
from tests.warehouse.reconcile.conftest import DAY, Write
from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger import header_settings
from warehouse.reconcile.ledger.header_settings import (
    ExportKind,
    Profile,
    ReadingContext,
    known_profiles,
    profile_of,
)
from warehouse.reconcile.ledger.read import read_ledger
from warehouse.reconcile.ledger.titles import count_fields, fingerprint
from warehouse.reconcile.service import verify
from warehouse.reconcile.settings.config import Config, read_config
from warehouse.reconcile.terms import FIELDS, Ambiguous
from warehouse.spreadsheet.reading.grid import open_file
from warehouse.spreadsheet.reading.text import fold

SAMPLES = Path(__file__).parent / "profiles"
PAGE = Path(header_settings.__file__).parents[1] / "FINANCE.md"
LEADS = {
    ExportKind.POSITIONS: "nightbook recognises these exports of holdings:",
    ExportKind.TRANSACTIONS: (
        "nightbook also recognises lists of transactions, and reports that they are not ledgers:"
    ),
}
PROFILES = {profile.name: profile for profile in known_profiles()}


HOLDINGS = [name for name, profile in PROFILES.items() if not profile.refusal]


def _context(settings: str) -> ReadingContext:
    """Return a context with these recon.toml lines and a book with every venue of the profiles."""
    venues = {name: () for profile in PROFILES.values() for name in profile.covers.get("venue", ())}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recon.toml"
        path.write_text(settings, encoding="utf-8")
        config = read_config(path)
    return ReadingContext(config=config, day=DAY, known=KnownNames.of({"venue": venues}, {}))


def _columns(profile: Profile) -> set[str]:
    amount = profile.shape.columns.get("amount", "")
    titles = {*profile.shape.columns.values(), *profile.shape.amounts} - {amount, ""}
    return titles | set(re.split(" [+-] ", amount)) - {""}


def _sample(name: str) -> Path:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return SAMPLES / f"{re.sub('[^a-z0-9]+', '-', plain).strip('-')}.csv"


def _titles(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    delimiter = max(",;|", key=text.splitlines()[0].count)
    return next(csv.reader([text.splitlines()[0]], delimiter=delimiter))


def test_each_profile_has_its_sample() -> None:
    """Every profile has a sample, and every sample has a profile."""
    assert {path.name for path in SAMPLES.iterdir()} == {_sample(name).name for name in PROFILES}


@pytest.mark.parametrize("name", PROFILES)
def test_an_export_is_recognised_by_its_header(name: str) -> None:
    """A header is recognised in any order and case and with more columns, but must be complete."""
    titles = _titles(_sample(name))
    profile = PROFILES[name]
    assert profile_of(titles) is profile
    assert profile_of([title.upper() for title in reversed(titles)] + ["x"]) is profile
    lacking = next(iter(sorted(profile.titles)))
    assert profile_of([title for title in titles if fold(title) != lacking]) is not profile


@pytest.mark.parametrize("name", HOLDINGS)
def test_holdings_are_read_without_a_question(name: str) -> None:
    """Holdings are read from the right columns, and belong to the venue of their export."""
    profile, path = PROFILES[name], _sample(name)
    assert {fold(title) for title in _columns(profile)} <= profile.titles
    settings = 'asset = "BTC"\n' if "asset" not in profile.shape.columns else ""
    context = _context(f'[file."*"]\n{settings}')
    (source,) = (ledger := read_ledger([open_file(path, count_fields)], context)).sources
    assert [line.amount.text for line in ledger.lines] == ["1.50000001", "20.25", "1000.5"]
    if not settings:
        assets = [line.names[FIELDS.index("asset")] for line in ledger.lines]
        assert assets == ["BTC", "ETH", "USDC"]
    assert source.profile == name
    for field, names in profile.covers.items():
        assert [line.names[FIELDS.index(field)] for line in ledger.lines] == [*names] * 3
        assert source.covers[field] == names
    columns = {field for field, title in profile.shape.columns.items() if title}
    for field in ("venue", "account", "portfolio"):
        assert (field in source.fields) == (field in columns | profile.covers.keys())


@pytest.mark.parametrize("name", sorted(PROFILES.keys() - set(HOLDINGS)))
def test_a_list_of_transactions_is_recognised_and_not_read(name: str) -> None:
    """A list of transactions is not read, and the question names the program that wrote it.

    The line of the question sets the file to unused.
    """
    path = _sample(name)
    with pytest.raises(Ambiguous) as asked:
        read_ledger([open_file(path, count_fields)], _context(""))
    assert f"this is a list of transactions ({name}), not of positions" in str(asked.value)
    assert asked.value.line == f'[inbox]\n"{path.name}" = "unused"'


def test_recon_toml_overrides_the_settings_of_a_profile(write: Write) -> None:
    """A setting in recon.toml replaces that of the profile. The rest of the profile applies."""
    path = write(
        f"{_sample('Gemini balances').read_text().replace('available,', 'available,x,', 1)}"
    )
    titles = _titles(path)
    rows = [["exchange", "BTC", "1", "2", "3", "4", "0", "0"]]
    path.write_text("\n".join(",".join(row) for row in (titles, *rows)))
    said = f'[ledger."{fingerprint(titles)}"]\namount = "available"\nunused = ["x"]\n'
    context = _context(said + '[file."*"]\nvenue = "*"\n')
    ledger = read_ledger([open_file(path, count_fields)], context)
    assert [line.amount.text for line in ledger.lines] == ["2"]
    assert ledger.sources[0].covers == {}


def test_an_export_of_an_unknown_venue_raises_one_question(write: Write) -> None:
    """If the book does not have the venue of an export, the run asks, and the line settles it."""
    path = _sample("Gemini balances")
    context = ReadingContext(config=Config(), day=DAY)
    with pytest.raises(Ambiguous, match="the book does not have a venue with that name") as asked:
        read_ledger([open_file(path, count_fields)], context)
    read_ledger([open_file(path, count_fields)], _context(asked.value.line))


def test_a_tab_of_transactions_is_not_used(write: Write) -> None:
    """A tab of transactions next to the positions is unused and does not raise a question."""
    book = openpyxl.Workbook()
    book.active.append(["Portfolio", "Asset", "Venue", "Account", "Amount"])
    book.active.append(["alpha", "BTC", "Gemini", "main", "1.5"])
    trades = book.create_sheet("Trades")
    trades.append(_titles(_sample("Kraken ledgers")))
    trades.append(["x", "x", "x", "x", "x", "x", "BTC", 3, 0, 3])
    path = write(b"", "book.xlsx")
    book.save(path)
    ledger = read_ledger([open_file(path, count_fields)], _context(""))
    assert len(ledger.lines) == 1
    assert [item.severity for item in ledger.unused if "(Kraken ledgers)" in item.reason] == [
        "medium"
    ]


def test_an_ordinary_header_is_not_recognised_as_an_export() -> None:
    """A header of a few common words is not recognised as an export of any program."""
    assert profile_of(["Portfolio", "Asset", "Venue", "Account", "Amount", "Date", "Type"]) is None


def test_finance_md_lists_every_recognised_export() -> None:
    """FINANCE.md lists exactly the exports that nightbook recognises."""
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for content, lead in LEADS.items():
        names = sorted(name for name, profile in PROFILES.items() if profile.content is content)
        assert f"{lead} {', '.join(names)}." in page


def test_the_workbook_names_the_export_and_words_toml(tmp_path: Path) -> None:
    """The Mapping sheet names a recognised export, and Evidence has the digest of words.toml."""
    desk = Desk(tmp_path)
    holdings = (("BTC", "1.50000001"), ("ETH", "20.25"), ("USDC", "1000.5"))
    desk.publish([Amount(text, "alpha", asset, "gemini", "main") for asset, text in holdings])
    desk.put(_sample("Gemini balances").read_text(encoding="utf-8"), "gemini.csv")
    own = desk.folder.root / "words.toml"
    own.write_text('[field]\nasset = ["mynt"]\n', encoding="utf-8")
    result = desk.run()
    assert (result.exit_code, result.breaks) == (0, 0), result.message
    workbook = next(path for path in result.files if path.suffix == ".xlsx")
    book = openpyxl.load_workbook(workbook)
    mapping = [list(row) for row in book["Mapping"].iter_rows(values_only=True)]
    assert ["file", "gemini.csv", "Gemini balances", "its columns", 3] in [
        row[:5] for row in mapping
    ]
    evidence = dict(row[:2] for row in book["Evidence"].iter_rows(values_only=True))
    assert evidence["SHA-256 of words.toml"] == hashlib.sha256(own.read_bytes()).hexdigest()
    assert verify(desk.folder.root, workbook).is_whole
