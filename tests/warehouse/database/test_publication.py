"""Tests of publishing. A night is published completely or not at all, and readers never wait."""

import hashlib
import shutil
import stat
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.books import (
    BUILT_AT,
    Amount,
    Night,
    exact,
    night,
    published,
    published_once,
    row,
    totals,
    written,
)
from tests.support.empty_warehouses import make_empty
from tests.support.shared import some_daily
from warehouse.contract.book import BALANCES, BOOK, PORTFOLIOS
from warehouse.contract.model import Table
from warehouse.contract.ops import CONTROL_TOTALS, DRIFT
from warehouse.database.load import FileChanged
from warehouse.database.new_version import NotPublished
from warehouse.database.publication import publish_version
from warehouse.database.versions import KEPT_VERSIONS, is_as_published
from warehouse.storage.layout import DATABASE, DIGESTS, Layout, read_json
from warehouse.storage.parquet import rows_batch, write

Rows = list[tuple[Any, ...]]
FIRST = night("20261119T021500Z", [Amount("1.5"), Amount("2", state="locked")])
SECOND = night("20261120T021500Z", [Amount("4"), Amount("9", asset="ETH")])
SECOND_AGAIN = night("20261120T101500Z", [Amount("5"), Amount("1e30", asset="ETH")])
HOSTILE = "a\"b'c;-- \n\r\t=1+1 {x} %s ☂ \u202e\x00 é"


def rows(layout: Layout, query: str) -> Rows:
    """Return the rows of a query on the published database file."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        return connection.execute(query).fetchall()


def everything(layout: Layout) -> dict[str, Rows]:
    """Return all rows of all nights, by table."""
    with duckdb.connect(str(layout.database), read_only=True):  # Keep the file open.
        return {
            table.name: rows(layout, f"select * from history.{table.name} order by all")
            for table in BOOK
        }


def shown(layout: Layout) -> tuple[str, bytes]:
    """Return the link to the published version, and the bytes of its file."""
    link = layout.warehouse / "current"
    return str(link.readlink()), layout.database.read_bytes()


def test_plain_names_show_the_newest_book(tmp_path: Path) -> None:
    """Tables with plain names show the newest book, and the schema history has all books."""
    layout = Layout(tmp_path)
    done = published(layout, [FIRST, SECOND], "a")
    assert (done.version, done.database, done.removed) == ("a", layout.database, ())
    assert done.loaded == (FIRST.day, SECOND.day)
    assert rows(layout, "select asset_id, amount from balances order by all") == [
        ("BTC", Decimal(4)),
        ("ETH", Decimal(9)),
    ]
    assert rows(layout, "select count(*) from history.balances") == [(4,)]
    assert rows(layout, "select amount from balances_before order by all") == [
        (Decimal("1.5"),),
        (Decimal(2),),
    ]


def test_a_warehouse_without_a_book_has_empty_tables(tmp_path: Path) -> None:
    """If the first night is held, the warehouse has empty tables and no error."""
    layout = Layout(tmp_path)
    held = replace(FIRST, state="held", is_book=False)
    published(layout, [held], "a")
    assert rows(layout, "select * from holdings") == []
    assert rows(layout, "select newest_date from ops.build") == [(None,)]
    assert rows(layout, "select snapshot_date, reason from ops.gaps") == [(FIRST.day, "held")]
    assert rows(layout, "select distinct in_warehouse from ops.control_totals") == [(None,)]
    published(layout, [], "b")
    assert rows(layout, "select count(*) from ops.snapshots") == [(0,)]


def test_a_publish_loads_only_the_new_night(tmp_path: Path) -> None:
    """A publish loads only the new day, and keeps the days that did not change."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    contents = written(layout, [FIRST, SECOND])
    for file in contents.books[0].files.values():
        file.unlink()
    done = publish_version(layout, contents, version="b", built_at=BUILT_AT, program_version="0")
    assert done.loaded == (SECOND.day,)
    assert rows(layout, "select distinct snapshot_date from history.balances order by all") == [
        (FIRST.day,),
        (SECOND.day,),
    ]


@pytest.mark.torture
def test_publishing_twice_changes_no_row(tmp_path: Path) -> None:
    """The same contents give the same rows, in an update and in a build from scratch."""
    layout = Layout(tmp_path)
    published(layout, [FIRST, SECOND], "a")
    once = everything(layout)
    assert published(layout, [FIRST, SECOND], "b").loaded == ()
    assert everything(layout) == once
    assert published(layout, [FIRST, SECOND], "c", fresh=True).loaded == (FIRST.day, SECOND.day)
    assert everything(layout) == once
    assert rows(layout, "select count(*) from ops.control_totals where in_warehouse is null") == [
        (0,)
    ]


def test_a_newer_book_of_a_date_replaces_the_older_book(tmp_path: Path) -> None:
    """The newer read of a date becomes its book, and the older read is listed as superseded."""
    layout = Layout(tmp_path)
    published(layout, [FIRST, SECOND], "a")
    superseded = replace(SECOND, is_book=False)
    done = published(layout, [FIRST, superseded, SECOND_AGAIN], "b")
    assert (done.loaded, done.removed) == ((SECOND.day,), (SECOND.day,))
    assert rows(layout, "select asset_id, total_text from holdings order by all") == [
        ("BTC", "5"),
        ("ETH", "1" + "0" * 30),
    ]
    assert rows(layout, "select count(*), count(*) filter (where is_book) from ops.snapshots") == [
        (3, 2)
    ]


def test_a_rejected_book_becomes_a_gap(tmp_path: Path) -> None:
    """A rejected book is removed from history, and its date is a gap with the reason."""
    layout = Layout(tmp_path)
    published(layout, [FIRST, SECOND], "a")
    done = published(layout, [FIRST, replace(SECOND, state="rejected", is_book=False)], "b")
    assert (done.loaded, done.removed) == ((), (SECOND.day,))
    assert rows(layout, "select max(snapshot_date) from history.balances") == [(FIRST.day,)]
    assert rows(layout, "select distinct snapshot_date from balances") == [(FIRST.day,)]
    assert rows(layout, "select * from ops.gaps") == [(SECOND.day, "rejected", FIRST.day, None)]


@pytest.mark.parametrize("is_windowed", [False, True])
def test_a_removed_book_leaves_the_totals_of_a_rebuild(
    tmp_path: Path, *, is_windowed: bool
) -> None:
    """After a book is superseded or rejected, the control totals are those of a rebuild.

    They do not depend on the books that a machine loaded earlier.
    """
    layout, superseded = Layout(tmp_path), replace(SECOND, is_book=False)
    totals_now = "from ops.control_totals order by all"

    def put(version: str, nights: list[Night], *, fresh: bool = False) -> Rows:
        contents = replace(written(layout, nights), native_nights=2 if is_windowed else None)
        publish_version(
            layout, contents, version=version, built_at=BUILT_AT, program_version="0", fresh=fresh
        )
        return rows(layout, totals_now)

    put("a", [FIRST, SECOND])
    for version, nights in (
        ("b", [FIRST, superseded, SECOND_AGAIN]),
        ("c", [FIRST, superseded, replace(SECOND_AGAIN, state="rejected", is_book=False)]),
    ):
        assert put(version, nights) == put(f"{version}-fresh", nights, fresh=True)


def test_every_missing_night_is_a_gap(tmp_path: Path) -> None:
    """Dates between two books that were never read are gaps, with the dates of both books."""
    layout = Layout(tmp_path)
    late = night("20261122T021500Z", [Amount("1")])
    published(layout, [FIRST, late], "a")
    assert rows(layout, "select * from ops.gaps order by all") == [
        (date(2026, 11, 20), "no snapshot", FIRST.day, late.day),
        (date(2026, 11, 21), "no snapshot", FIRST.day, late.day),
    ]


@pytest.mark.parametrize("measure", ["rows", "sum"])
def test_a_book_whose_total_differs_is_not_published(tmp_path: Path, measure: str) -> None:
    """A book whose total differs from the lake is not published, and readers see no change."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    before = shown(layout)
    lines = totals(SECOND)
    line = next(line for line in lines if line["measure"] == measure)
    line["in_lake"] = "41"
    with pytest.raises(NotPublished, match="41") as caught:
        published(layout, [FIRST, replace(SECOND, ops={"control_totals": lines})], "b")
    assert caught.value.snapshots == (SECOND.snapshot_id,)
    assert "still shows its previous data" in str(caught.value)
    assert shown(layout) == before
    assert [path.name for path in (layout.warehouse / "versions").iterdir()] == ["a"]


def test_a_total_that_differs_only_from_the_json_is_published(tmp_path: Path) -> None:
    """A total that differs only from the JSON is published, because the guards have judged it."""
    layout = Layout(tmp_path)
    lines = [*totals(FIRST), {**totals(FIRST)[-1], "asset_id": "LOST", "in_lake": "0"}]
    published(layout, [replace(FIRST, ops={"control_totals": lines})], "a")
    query = "select in_lake, in_warehouse from ops.control_totals where asset_id = 'LOST'"
    assert rows(layout, query) == [("0", None)]


def test_an_amount_without_a_control_total_is_not_published(tmp_path: Path) -> None:
    """A book is refused if it has no control totals, or if they do not include an amount."""
    layout = Layout(tmp_path)
    lines = [line for line in totals(SECOND) if line["asset_id"] != "ETH"]
    with pytest.raises(NotPublished, match="ETH"):
        published(layout, [replace(SECOND, ops={"control_totals": lines})], "a")
    with pytest.raises(NotPublished, match="rows of balances"):
        published(layout, [replace(SECOND, ops={"control_totals": []})], "a")
    assert not layout.database.exists()


def _with(one: Night, table: Table, **values: Any) -> Night:
    """Return the night with one more row, which its totals include."""
    extra = {name: list(lines) for name, lines in one.rows.items()}
    extra[table.name].append(row(table, one.day, **values))
    return replace(one, rows=extra)


BALANCE = {"portfolio_id": "p1", "asset_id": "BTC", "venue_id": "v1", "account_name": "main"}


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (
            "balances_key",
            {"bucket": "trading", "state": "free", "amount": Decimal(0), "amount_text": "0"},
        ),
        (
            "amounts",
            {"bucket": "margin", "state": "locked", "amount": None, "amount_text": "1"},
        ),
        (
            "amounts",
            {
                "bucket": "margin",
                "state": "locked",
                "amount": Decimal("0.1"),
                "amount_text": "0.1000000000000000001",
            },
        ),
        (
            "orphans",
            {
                "bucket": "margin",
                "state": "locked",
                "amount": Decimal(1),
                "amount_text": "1",
                "duplicate_no": 1,
            },
        ),
    ],
)
def test_a_failed_check_stops_the_publish(
    tmp_path: Path, check: str, wrong: dict[str, object]
) -> None:
    """A failed check of severity error stops the publish, and the error names check and row."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    before = shown(layout)
    bad = _with(SECOND, BALANCES, **(BALANCE | wrong))
    with pytest.raises(NotPublished, match=rf"check {check} found 1 wrong rows.*p"):
        published(layout, [FIRST, bad], "b")
    assert shown(layout) == before


def test_small_tables_reject_a_repeated_key(tmp_path: Path) -> None:
    """Small tables have a primary key, which rejects a row with a repeated key."""
    bad = _with(SECOND, PORTFOLIOS, portfolio_id="p1")
    with pytest.raises(duckdb.ConstraintException, match=r"[Dd]uplicate key"):
        published(Layout(tmp_path), [bad], "a")


def test_a_file_with_a_wrong_column_or_date_is_refused(tmp_path: Path) -> None:
    """A Parquet file with the wrong columns or of the wrong date is refused.

    The message names the file, and nothing is published.
    """
    layout = Layout(tmp_path)
    contents = written(layout, [FIRST])
    other = written(layout, [SECOND]).books[0].files
    wrong = replace(
        contents.books[0], files={**contents.books[0].files, "venues": other["balances"]}
    )
    with pytest.raises(ValueError, match=r"venues .*columns that warehouse/contract/book.py"):
        publish_version(
            layout,
            replace(contents, books=(wrong,)),
            version="a",
            built_at=BUILT_AT,
            program_version="0",
        )
    wrong = replace(contents.books[0], files=other)
    with pytest.raises(ValueError, match="but the file is for 2026-11-19"):
        publish_version(
            layout,
            replace(contents, books=(wrong,)),
            version="a",
            built_at=BUILT_AT,
            program_version="0",
        )
    assert not layout.database.exists()


def test_a_file_with_more_decimals_is_refused(tmp_path: Path) -> None:
    """A file whose amounts have more decimals is refused, even if the first file is correct."""
    layout = Layout(tmp_path)
    contents = written(layout, [FIRST, SECOND])
    file = contents.books[1].files["balances"]
    finer = "select * replace (amount::decimal(38, 19) as amount)"
    with duckdb.connect() as connection:
        connection.execute(f"create table x as {finer} from '{file}'")
        connection.execute(f"copy x to '{file}' (format parquet)")
    with pytest.raises(ValueError, match=r"balances .*some files differ"):
        publish_version(layout, contents, version="a", built_at=BUILT_AT, program_version="0")
    assert not layout.database.exists()


def test_books_that_differ_from_their_snapshots_are_refused(tmp_path: Path) -> None:
    """Contents whose books differ from their snapshots are refused before any work is done."""
    contents = written(Layout(tmp_path), [FIRST, SECOND])
    with pytest.raises(ValueError, match="differ from the snapshots that are books"):
        replace(contents, books=contents.books[:1])


def test_a_reader_keeps_its_version_during_a_publish(tmp_path: Path) -> None:
    """An open file stays complete while new versions are published and old ones are deleted.

    A new reader sees the new version.
    """
    layout = Layout(tmp_path)
    published(layout, [FIRST], "v0")
    with duckdb.connect(str(layout.database), read_only=True) as reader:
        for number in range(1, KEPT_VERSIONS + 2):
            published(layout, [FIRST, SECOND], f"v{number}")
        assert reader.execute("select sum(amount) from history.balances").fetchall() == [
            (Decimal("3.5"),)
        ]
        assert rows(layout, "select count(*) from history.balances") == [(4,)]
    kept = sorted(path.name for path in (layout.warehouse / "versions").iterdir())
    assert kept == [f"v{number}" for number in range(2, KEPT_VERSIONS + 2)]


def test_older_versions_stay_within_their_budget(tmp_path: Path) -> None:
    """Older versions are deleted if they exceed their budget.

    The published version and the one before it are always kept.
    """
    layout = Layout(tmp_path)
    for number, room in enumerate((20, 20, 20, 0)):
        published(layout, [FIRST], f"v{number}", versions_gb=room)
        kept = sorted(path.name for path in (layout.warehouse / "versions").iterdir())
        assert kept == [f"v{shown}" for shown in range(number + 1)][-2 if not room else 0 :]


def test_the_published_file_is_read_only(tmp_path: Path) -> None:
    """The published file has mode 0440 and the storage format of DuckDB 1.2.

    Only its digests are next to it, and `current` is a relative link.
    """
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    assert stat.S_IMODE(layout.database.stat().st_mode) == 0o440
    beside = sorted(path.name for path in layout.database.parent.iterdir())
    assert beside == [DIGESTS, DATABASE]
    digests = read_json(layout.database.with_name(DIGESTS))
    content = layout.database.read_bytes()
    blocks = [content[start : start + (1 << 20)] for start in range(0, len(content), 1 << 20)]
    assert digests["blocks"] == [hashlib.sha256(block).hexdigest() for block in blocks]
    whole = hashlib.sha256("".join(digests["blocks"]).encode()).hexdigest()
    assert digests["files"] == {DATABASE: whole}
    assert str((layout.warehouse / "current").readlink()) == "versions/a"
    assert rows(layout, "select tags from duckdb_databases() where not internal") == [
        ({"storage_version": "v1.2.0+"},)
    ]


def test_remains_of_a_dead_run_do_not_block_a_publish(tmp_path: Path) -> None:
    """Half-built versions, a dangling link and an unpublished version do not block a publish."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    versions = layout.warehouse / "versions"
    shutil.copytree(versions / "a", versions / ".tmp-b")
    (versions / ".tmp-b" / f"{DATABASE}.wal").write_bytes(b"torn")
    (versions / "b").mkdir()
    (versions / "b" / DATABASE).write_bytes(b"torn")
    (layout.warehouse / ".current").symlink_to("versions/b")
    assert published(layout, [FIRST, SECOND], "b").loaded == (SECOND.day,)
    assert sorted(path.name for path in versions.iterdir()) == ["a", "b"]
    assert not (layout.warehouse / ".current").is_symlink()


def test_a_damaged_version_is_rebuilt_from_the_lake(tmp_path: Path) -> None:
    """If the published file is damaged, the next publish builds it from the lake."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    layout.database.chmod(0o640)
    layout.database.write_bytes(b"not a database" * 1000)
    assert published(layout, [FIRST, SECOND], "b").loaded == (FIRST.day, SECOND.day)


@pytest.mark.torture
def test_a_version_with_one_flipped_bit_is_rebuilt(tmp_path: Path) -> None:
    """A file that has no digests or differs from them by a single bit is not built upon."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    layout.database.chmod(0o640)
    content = bytearray(layout.database.read_bytes())
    content[len(content) // 2] ^= 1
    layout.database.write_bytes(content)
    assert published(layout, [FIRST, SECOND], "b").loaded == (FIRST.day, SECOND.day)
    layout.database.with_name(DIGESTS).unlink()
    assert published(layout, [FIRST, SECOND], "c").loaded == (FIRST.day, SECOND.day)


@pytest.mark.parametrize("share", some_daily([0.05, 0.0, 0.3, 0.6, 0.9, 1.0], 4))
def test_damage_anywhere_in_a_version_causes_a_rebuild(tmp_path: Path, share: float) -> None:
    """If any byte has changed, the next version is built from scratch.

    This is true even for a byte that the new night overwrites.
    """
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    layout.database.chmod(0o640)
    content = bytearray(layout.database.read_bytes())
    content[min(int(len(content) * share), len(content) - 1)] ^= 1
    layout.database.write_bytes(content)
    assert published(layout, [FIRST, SECOND], "b").loaded == (FIRST.day, SECOND.day)
    assert is_as_published(layout, layout.database)


@pytest.mark.torture
def test_an_extended_or_truncated_version_is_rebuilt(tmp_path: Path) -> None:
    """A file that was extended or truncated after its publication is not built upon."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    layout.database.chmod(0o640)
    layout.database.write_bytes(layout.database.read_bytes() + b"\0")
    assert published(layout, [FIRST, SECOND], "b").loaded == (FIRST.day, SECOND.day)
    layout.database.chmod(0o640)
    layout.database.write_bytes(layout.database.read_bytes()[:-1])
    assert published(layout, [FIRST, SECOND], "c").loaded == (FIRST.day, SECOND.day)


def test_a_missing_or_changed_parquet_file_stops_the_publish(tmp_path: Path) -> None:
    """A Parquet file that is missing or has a different SHA-256 stops the publish, and is named."""
    layout = Layout(tmp_path)
    contents = written(layout, [FIRST])
    for file in (
        contents.books[0].files["venues"],
        contents.nightly["requests"][FIRST.snapshot_id],
    ):
        told = replace(contents, digests={file: "0" * 64})
        with pytest.raises(FileChanged, match=f"{file.name} has the SHA-256"):
            publish_version(layout, told, version="a", built_at=BUILT_AT, program_version="0")
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(FileChanged, match="is missing"):
            publish_version(layout, contents, version="a", built_at=BUILT_AT, program_version="0")
        file.write_bytes(content)
    assert not layout.database.exists()


def test_a_changed_schema_causes_a_full_rebuild(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If tables, views or macros have changed, the file is built from scratch."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    monkeypatch.setattr("warehouse.database.publication.schema_version", lambda: "another")
    assert published(layout, [FIRST], "b").loaded == (FIRST.day,)


@pytest.mark.parametrize("version", ["", "../x", ".hidden", "a/b", "a"])
def test_an_invalid_or_used_version_name_is_refused(tmp_path: Path, version: str) -> None:
    """A version name is refused if it is not a plain name or is already published."""
    layout = Layout(tmp_path)
    published_once(layout, [FIRST], "a")
    with pytest.raises(ValueError, match="version"):
        published(layout, [FIRST], version)


def test_hostile_names_do_not_change(tmp_path: Path) -> None:
    """Quotes, newlines, NUL, formulas and emoji do not change in names, IDs and as-of macros."""
    layout = Layout(tmp_path)
    amounts = [
        Amount("1", HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),
        Amount("2", "x" * 4000, HOSTILE, HOSTILE, "", "trading", "free"),
    ]
    published(layout, [night("20261120T021500Z", amounts)], "a")
    found = rows(layout, "select account_name, other_text from account_balances order by total")
    assert found == [(HOSTILE, "1"), ("", None)]
    assert rows(layout, "select count(*) from holdings_as_of('2026-11-21')") == [(2,)]


def test_drift_is_summarized_over_all_nights(tmp_path: Path) -> None:
    """Drift has its first and last date, its first example and its count over all nights.

    Held nights are included.
    """
    seen = {"path": "data[].note", "kind": "unknown field", "word": "note"}
    nights = [
        replace(
            one,
            ops={
                "drift_by_night": [
                    row(
                        DRIFT,
                        one.day,
                        snapshot_id=one.snapshot_id,
                        **seen,
                        example=str(number),
                        seen=number + 1,
                    )
                ]
            },
        )
        for number, one in enumerate([FIRST, replace(SECOND, state="held", is_book=False)])
    ]
    nights = [replace(one, ops={**one.ops, "control_totals": totals(one)}) for one in nights]
    layout = Layout(tmp_path)
    published(layout, nights[:1], "a")
    published(layout, nights, "b")
    assert rows(layout, "select * from ops.drift") == [
        ("data[].note", "unknown field", "note", FIRST.day, SECOND.day, "0", 3)
    ]


def test_control_totals_are_compared_as_amounts(tmp_path: Path) -> None:
    """Control totals are compared as amounts, so an exponent or a trailing zero does not matter."""
    layout = Layout(tmp_path)
    lines = totals(SECOND)
    for line in lines:
        if line["asset_id"] == "BTC":
            line["in_lake"] = "40.0e-1"
    write(CONTROL_TOTALS, [rows_batch(CONTROL_TOTALS, lines)], tmp_path / "x.parquet", "x")
    published(layout, [replace(SECOND, ops={"control_totals": lines})], "a")
    assert rows(layout, "select total_text from holdings where asset_id = 'BTC'") == [("4",)]


AMOUNTS = st.builds(
    Amount,
    text=st.sampled_from(["0", "1", "-2.5", "1e30", "0.0000000000000000001", "9" * 19, ".5"]),
    portfolio=st.sampled_from(["p1", "p2"]),
    asset=st.sampled_from(["BTC", "ETH"]),
    venue=st.sampled_from(["v1", "v2"]),
    account=st.sampled_from(["main", "cold"]),
    bucket=st.sampled_from(["trading", "custody", "invented"]),
    state=st.sampled_from(["free", "locked"]),
    custom=st.booleans(),
)
BOOKS = st.lists(
    AMOUNTS,
    max_size=12,
    unique_by=lambda a: (a.portfolio, a.asset, a.custom, a.venue, a.account, a.bucket, a.state),
)


@settings(max_examples=2, deadline=None, derandomize=True)
@given(st.lists(st.none() | BOOKS, min_size=14, max_size=14))
def test_a_fortnight_with_gaps_keeps_every_row(
    tmp_path_factory: pytest.TempPathFactory, fortnight: list[list[Amount] | None]
) -> None:
    """Over a fortnight with gaps, history and the as-of macros return every row as it was written.

    The missing nights are gaps.
    """
    layout = Layout(tmp_path_factory.mktemp("fortnight"))
    days = [date(2026, 11, 1) + timedelta(number) for number in range(14)]
    nights = [
        night(f"{day:%Y%m%d}T021500Z", amounts)
        for day, amounts in zip(days, fortnight, strict=True)
        if amounts is not None
    ]
    published(layout, nights[: len(nights) // 2], "a")
    published(layout, nights, "b")
    with duckdb.connect(str(layout.database), read_only=True) as reader:
        for day in days:
            newest = max((one for one in nights if one.day <= day), key=_day, default=None)
            _same_book(reader, day, newest)
            held = {one.day for one in nights}
            gaps = reader.execute("select count(*) from ops.gaps where snapshot_date = ?", [day])
            between = nights and nights[0].day < day < nights[-1].day
            assert gaps.fetchall() == [(int(bool(between and day not in held)),)]


def _day(one: Night) -> date:
    return one.day


def _same_book(reader: duckdb.DuckDBPyConnection, day: date, one: Night | None) -> None:
    """Assert that history and the as-of macros return a night's rows, or fail if it is None."""
    if one is None:
        with pytest.raises(duckdb.InvalidInputException, match=f"no book on or before {day}"):
            reader.execute("select * from holdings_as_of(?)", [day]).fetchall()
        return
    balances = reader.execute("select * from balances_as_of(?)", [day]).fetchall()
    wanted = [tuple(line.values()) for line in one.rows["balances"]]
    assert sorted(balances, key=str) == sorted(wanted, key=str)
    found = reader.execute(
        "select portfolio_id, asset_id, is_custom_asset, total_text from holdings_as_of(?)", [day]
    ).fetchall()
    texts: dict[tuple[object, ...], list[str]] = {}
    for line in one.rows["balances"]:
        key = (line["portfolio_id"], line["asset_id"], line["is_custom_asset"])
        texts.setdefault(key, []).append(line["amount_text"])
    assert sorted(found) == sorted((*key, exact(group)) for key, group in texts.items())
    if one.day == day:
        for table in BOOK:
            query = (
                f"select * exclude (created_at) from history.{table.name} where snapshot_date = ?"
            )
            query = (
                query if "created_at" in table.names else query.replace("exclude (created_at)", "")
            )
            kept = reader.execute(query, [day]).fetchall()
            lines = [
                tuple(value for name, value in line.items() if name != "created_at")
                for line in one.rows[table.name]
            ]
            assert sorted(kept, key=str) == sorted(lines, key=str)


def test_a_copied_empty_warehouse_does_not_change_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of an empty warehouse, with which tests begin, does not change the published file.

    Each name, comment and row is the same as in a warehouse that was built without the copy.
    """
    layouts = Layout(tmp_path / "copied"), Layout(tmp_path / "made")
    published(layouts[0], [FIRST, SECOND], "a", fresh=True)
    monkeypatch.setattr("warehouse.database.load.create_empty", make_empty)
    published(layouts[1], [FIRST, SECOND], "a", fresh=True)
    described = [
        [
            rows(layout, f"select * exclude (database_oid, database_name) from duckdb_{what}()")
            for what in ("tables", "columns", "views", "functions", "constraints")
        ]
        for layout in layouts
    ]
    assert described[0] == described[1]
    assert everything(layouts[0]) == everything(layouts[1])
