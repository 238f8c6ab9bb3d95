"""Tests at full size: reconciliations of a million keys, and exports of many positions."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.performance.million_keys import (
    BOOK_ALONE,
    DIFFERS,
    EVERY,
    LEDGER_ALONE,
    PIVOT,
    PLAIN,
    SCOPE,
    facts,
    key,
)

Sized = Callable[[int, int], int]
MILLION = 1_000_000


@pytest.mark.torture
@pytest.mark.parametrize("layout", [PLAIN, SCOPE, PIVOT])
def test_exactly_the_planted_differences_are_found(
    tmp_path: Path, sized: Sized, layout: str
) -> None:
    """In a million keys, exactly the planted differences of 1e-18 and one-sided keys are found.

    There are 1,000 planted differences. The reconciliation needs little CPU and memory.
    """
    count = sized(20_000, MILLION)
    facts("book", str(tmp_path), str(count), layout)
    facts("ledger", str(tmp_path), str(count), layout)
    found = facts("reconcile", str(tmp_path))
    print({name: found[name] for name in ("counts", "cpu", "megabytes")})
    pairs = 2 * EVERY
    ledger_alone = () if layout == PIVOT else range(LEDGER_ALONE, count, pairs)
    planted = [key(n, layout)[3] for n in range(DIFFERS, count, EVERY)]
    planted += [key(n, layout)[3] for n in (*range(BOOK_ALONE, count, pairs), *ledger_alone)]
    planted += [f"ledger-alone-{n}-zz" for n in ledger_alone]
    assert found["accounts"] == sorted(planted)
    assert found["differences"] == ["0.000000000000000001"]
    counts = {name: number for name, number in found["counts"].items() if number}
    alone = len(ledger_alone)
    assert counts == {
        "Not in ledger": count // pairs + alone,
        "Matched": count - count // EVERY - count // pairs - alone,
        "Amount differs": count // EVERY,
    } | ({"Not in snapshot": alone} if alone else {})
    if count == MILLION:
        assert found["cpu"] < 10
        assert found["megabytes"] < 900


@pytest.mark.torture
@pytest.mark.parametrize("what", ["xlsx", "csv"])
def test_a_large_book_is_exported_completely(tmp_path: Path, sized: Sized, what: str) -> None:
    """A hundred thousand accounts are exported completely, in 12 CPU seconds and little memory."""
    count = sized(10_000, 100_000)
    facts("book", str(tmp_path), str(count))
    found = facts("export", str(tmp_path), what)
    print({name: found[name] for name in ("rows", "cpu", "megabytes")})
    assert found["rows"]["Accounts"] == count
    assert rows_in(found["files"]) == count
    assert found["cpu"] < 12
    assert found["megabytes"] < 250


@pytest.mark.torture
def test_a_million_positions_continue_on_further_sheets(tmp_path: Path) -> None:
    """Rows that do not fit on a sheet continue on further sheets, and a notice says so."""
    count = 1_100_000
    facts("book", str(tmp_path), str(count))
    found = facts("export", str(tmp_path), "xlsx")
    print({name: found[name] for name in ("rows", "cpu", "megabytes", "notices")})
    assert found["rows"]["Accounts"] == rows_in(found["files"]) == count
    assert any("continues over 2 sheets" in notice for notice in found["notices"])


def rows_in(files: list[str]) -> int:
    """Return the number of account rows in the first file, without headers."""
    first = Path(files[0])
    if first.suffix == ".csv":
        return first.read_bytes().count(b"\r\n") - 1
    rows = 0
    with zipfile.ZipFile(first) as book:
        names = book.read("xl/workbook.xml").decode().split("<sheet ")[1:]
        for number, about in enumerate(names, 1):
            if 'name="Accounts' in about:
                sheet = book.read(f"xl/worksheets/sheet{number}.xml")
                rows += sheet.count(b"<row r=") - 1
    return rows
