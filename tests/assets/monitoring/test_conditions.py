"""Alerts about lists with a round number of records."""

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assets.monitoring.conditions import find_alerts
from assets.nightbook import Nightbook
from tests.support.books import night, published
from warehouse.query.read import run
from warehouse.storage.layout import Layout

LISTS = (("v1", "spot", 100), ("v1", None, 100), ("v2", "spot", 250), ("v3", "future", 300))


def test_each_finding_about_a_round_count_is_in_one_alert(tmp_path: Path) -> None:
    """Alerts and findings report the same lists. An alert's cause contains no finding's text."""
    layout = Layout(tmp_path)
    instruments: list[dict[str, Any]] = [
        {"venue_id": venue, "type": type_, "instrument_id": f"{type_}{number}"}
        for venue, type_, count in LISTS
        for number in range(count)
    ]
    venues = [{"venue_id": venue} for venue in sorted({venue for venue, _, _ in LISTS})]
    more = {"instruments": instruments, "venues": venues}
    published(layout, [night("20261120T021500Z", [], more)], "a")
    query = "select venue_id, words from findings where kind = 'round_count'"
    findings = run(layout.database, query).rows
    morning = datetime(2026, 11, 20, 5, tzinfo=UTC)
    nightbook = Nightbook(lambda: {"NIGHTBOOK_HOME": str(tmp_path)}, lambda: morning)
    alerts = {
        alert.cause: alert for alert in find_alerts(nightbook) if alert.cause.startswith("round:")
    }
    assert sorted(alerts) == ["round:v1:100", "round:v2:250"]
    listed = {cause: alert.words.partition(": ")[0] for cause, alert in alerts.items()}
    assert listed["round:v1:100"] == "Instruments of type spot, Instruments of type unknown"
    counts = Counter((venue, re.findall("[0-9]+", words)[0]) for venue, words in findings)
    assert counts == Counter({("v1", "100"): 2, ("v2", "250"): 1})
