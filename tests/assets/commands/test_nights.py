"""Tests of the question that `nightbook accept` asks about a night with missing money."""

from datetime import date
from pathlib import Path

import pytest

from assets.commands import nights
from pipelines.landing.reasons import Reason
from pipelines.landing.snapshots import Decision, Snapshot
from warehouse.contract.states import ACCEPTED, HELD, REJECTED


@pytest.mark.parametrize("reply", ["the fund was closed", ""])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_accept_asks_why_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, reply: str, *, is_terminal: bool
) -> None:
    """`accept` asks for a reason only at a terminal, and only if money may be missing."""
    monkeypatch.setattr(nights, "is_terminal", lambda: is_terminal)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: reply)
    causes = (Reason("empty: portfolios", "the list of portfolios is empty"),)
    held = Decision(HELD, "guards", "2026-11-20T02:15:00+00:00", (), causes)
    lost = Snapshot("20261120T021500Z", date(2026, 11, 20), Path(), (held,))
    moved = Snapshot(lost.snapshot_id, lost.snapshot_date, Path(), ())
    assert nights._ask_reason(lost, ACCEPTED) == (reply if is_terminal else "")
    assert nights._ask_reason(lost, REJECTED) == ""
    assert nights._ask_reason(moved, ACCEPTED) == ""
