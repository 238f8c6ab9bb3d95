"""Tests of the benchmark's own parts: small runs show that they measure what they claim."""

import random
import shutil
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.edge.response.envelope import raw_records, read_envelope
from tests.support.shared import tries
from tests.tools.performance import fetching
from tests.tools.performance.cpu_profile import Failed, spent
from tests.tools.performance.parts import placed
from tests.tools.performance.past import Past, drifted


def test_a_table_replaces_only_the_text_between_its_marks() -> None:
    """A table is placed between its own marks, any number of times. Missing marks are an error."""
    page = "a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb <!-- bench:y --><!-- /bench:y -->\n"
    once = placed(page, "x", "new\n")
    assert once == page.replace("old", "new")
    assert placed(once, "x", "new\n") == once
    with pytest.raises(ValueError, match="bench:z"):
        placed(page, "z", "new\n")


@settings(max_examples=tries(15, 900), deadline=None, derandomize=True)
@given(st.decimals(0, 10**9, places=6).map(lambda value: format(value, "f")), st.integers(0, 99))
def test_changed_amounts_keep_their_size(text: str, seed: int) -> None:
    """A changed amount keeps its digits, its first digit and the position of its decimal point."""
    changed = drifted(random.Random(seed), text)
    assert sorted(changed) == sorted(text)
    assert (changed[0], changed.find(".")) == (text[0], text.find("."))
    assert Decimal(changed) >= 0


def test_two_books_with_one_seed_are_equal() -> None:
    """Two books with one seed have the same amounts, which change from night to night."""
    one, other = Past(500), Past(500)
    nights = [[past.night(n)["balances"]["amount_text"] for n in range(3)] for past in (one, other)]
    assert nights[0] == nights[1]
    assert nights[0][0] != nights[0][1]


def test_a_process_is_measured_with_its_children() -> None:
    """The CPU of finished children counts. The error of a failed process contains its output."""
    burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(7)"
    cost = spent([sys.executable, "-c", command])
    assert cost.cpu >= 0.3
    assert cost.output == "7\n"
    assert cost.anonymous > 1
    with pytest.raises(Failed, match="no good"):
        spent([sys.executable, "-c", "import sys; sys.exit('no good')"])


def test_the_client_reads_every_list_from_the_slow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client reads every list from the slow server, and a list of a wrong length fails."""
    for name, value in (("CALLS", 6), ("AT_ONCE", 3), ("LATENCY", 0.01), ("INSTRUMENTS", 5)):
        monkeypatch.setattr(fetching, name, value)
    with fetching.server("0.01", "5") as origin:
        fetching.fetch(origin)
    with fetching.server("0.01", "4") as origin, pytest.raises(AssertionError, match="4"):
        fetching.fetch(origin)


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("zstd")), reason="curl or zstd is not here"
)
def test_a_landed_body_equals_the_sent_body() -> None:
    """A body that lands in frames and is unpacked by zstd has the SHA-256 of the sent bytes."""
    lines = fetching.bodies(1, megabytes=9)
    names = [fetching.CURL, fetching.UNPROVED, fetching.PROVED]
    assert all(
        line.startswith(f"| {name} | ") for line, name in zip(lines[-3:], names, strict=True)
    )


def test_a_large_body_is_a_valid_envelope(tmp_path: Path) -> None:
    """A large body is an envelope of portfolios with unique IDs, and has the requested size."""
    body = tmp_path / "body.json"
    fetching.large_body(body, 6_000_000)
    raws = raw_records(read_envelope(body.read_bytes(), single=False))
    assert 6_000_000 <= body.stat().st_size < 12_000_000
    assert len({bytes(raw)[:50] for raw in raws}) == len(raws)
