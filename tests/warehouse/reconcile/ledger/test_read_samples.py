"""Tests of ledgers that other programs wrote: every row is read as those programs show it."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ledger_samples import Key, LedgerSample, ledger_rows, ledger_samples
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import read_config

Read = Callable[..., Ledger]
OWN = [sample for sample in ledger_samples() if sample.path.parent.parent == Path(__file__).parent]


@pytest.mark.parametrize("sample", OWN, ids=lambda sample: sample.path.name)
def test_every_row_of_a_sample_is_read(sample: LedgerSample, tmp_path: Path, read: Read) -> None:
    """Each key has the amounts that were written, and no row is rejected or left over."""
    settings = tmp_path / "recon.toml"
    settings.write_text(sample.settings, encoding="utf-8")
    ledger = read(sample.path, config=read_config(settings))
    rows: dict[Key, tuple[str, ...]] = defaultdict(tuple)
    for line in ledger.lines:
        portfolio, asset, venue, account, _ = line.names
        rows[portfolio, asset, venue, account] += (line.amount.text,)
    assert rows == ledger_rows()
    assert not ledger.rejected
    assert all(source.is_complete for source in ledger.sources)
