"""Ledgers that other programs wrote, all for the same book and with the same six planted errors.

Any folder of tests may have a subfolder `samples` with such ledgers. Its `samples.toml` has a table
for each file, with the program that wrote it and the lines of recon.toml that answer the questions.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.books import Amount

TESTS = Path(__file__).parents[1]
Key = tuple[str, str, str, str]  # portfolio, asset, venue, account

BOOK = (
    Amount("12.5", "alpha", "BTC", "kraken", "main"),
    Amount("250.75", "alpha", "BTC", "vault", "cold"),
    Amount("1834.125", "alpha", "ETH", "kraken", "main"),
    Amount("96.0625", "alpha", "ETH", "coinbase", "trading"),
    Amount("1250000.55", "alpha", "USD", "bank-one", "A-123"),
    Amount("-48211.07", "alpha", "EUR", "bank-one", "A-124"),
    Amount("15320.4", "alpha", "SOL", "coinbase", "trading"),
    Amount("750000", "alpha", "USDC", "coinbase", "trading"),
    Amount("3.00000001", "beta", "BTC", "kraken", "main"),
    Amount("41.2", "beta", "BTC", "vault", "cold"),
    Amount("610.5", "beta", "ETH", "vault", "cold"),
    Amount("98213.44", "beta", "USD", "bank-one", "A-125"),
    Amount("310500.9", "beta", "EUR", "bank-one", "A-126"),
    Amount("77120.35", "beta", "GBP", "bank-one", "A-127"),
    Amount("2200.25", "beta", "SOL", "kraken", "main"),
    Amount("120450.12", "beta", "USDC", "coinbase", "trading"),
)


@dataclass(frozen=True, slots=True)
class PlantedError:
    """A planted error: its name, and the amounts of the ledger rows of each key that it breaks."""

    words: str
    rows: Mapping[Key, tuple[str, ...]]


ERRORS = (
    PlantedError("an amount", {("alpha", "ETH", "kraken", "main"): ("1843.125",)}),
    PlantedError("a sign", {("alpha", "EUR", "bank-one", "A-124"): ("48211.07",)}),
    PlantedError("a missing row", {("beta", "ETH", "vault", "cold"): ()}),
    PlantedError("thousandfold", {("alpha", "SOL", "coinbase", "trading"): ("15320400",)}),
    PlantedError(
        "another portfolio",
        {
            ("beta", "GBP", "bank-one", "A-127"): (),
            ("alpha", "GBP", "bank-one", "A-127"): ("77120.35",),
        },
    ),
    PlantedError("twice", {("beta", "USDC", "coinbase", "trading"): ("120450.12",) * 2}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSample:
    """A sample file, the program that wrote it, and the lines to paste into recon.toml for it."""

    path: Path
    program: str
    settings: str = ""


def ledger_rows() -> dict[Key, tuple[str, ...]]:
    """Return the amounts of every sample's rows by key: the book with the planted errors."""
    rows: dict[Key, tuple[str, ...]] = {
        (a.portfolio, a.asset, a.venue, a.account): (a.text,) for a in BOOK
    }
    for error in ERRORS:
        rows |= error.rows
    return {key: amounts for key, amounts in rows.items() if amounts}


def ledger_samples() -> list[LedgerSample]:
    """Return all samples. Fail if a folder's files differ from the list in its `samples.toml`."""
    samples = []
    for listing in sorted(TESTS.rglob("samples/samples.toml")):
        about = tomllib.loads(listing.read_text(encoding="utf-8"))
        files = {path.name for path in listing.parent.iterdir()} - {listing.name}
        assert files == set(about), f"{listing}: {files ^ set(about)} are not both there and listed"
        for name, values in about.items():
            samples.append(LedgerSample(path=listing.parent / name, **values))
    return samples
