"""Tests of the check that a finished workbook contains the rows that DuckDB counted."""

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.books import Amount, night, published_once
from tests.support.shared import some_daily
from warehouse.export import workbook
from warehouse.export.export import Exported, export
from warehouse.query.book import NotExported
from warehouse.spreadsheet.writing.format import Draft
from warehouse.spreadsheet.writing.splice import pack_faster, splice
from warehouse.storage.layout import Layout

AMOUNTS = [
    Amount("1.000000000000000001", asset="<A&B>"),
    Amount("2.5", asset="<A&B>", account="two"),
    Amount("-3", asset="=1+1", custom=True),
    Amount("1e30", asset="C" * 40_000),
    Amount("0.1", asset="_x0041_"),
]


def made(home: Path) -> Exported:
    """Export the workbook of one night."""
    layout = Layout(home)
    published_once(layout, [night("20260301T020000Z", AMOUNTS)], "a")
    return export(
        layout.database, layout.exports, as_of=None, formats=("xlsx",), program_version="0"
    )


def spoiling(change: Callable[[bytes], bytes]) -> Callable[..., None]:
    """Return a `splice` that changes one sheet while the file is written."""

    def act(draft: Draft, target: IO[bytes]) -> None:
        splice(draft, target)
        with zipfile.ZipFile(target) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = "xl/worksheets/sheet2.xml"
        spoiled = change(members[name])
        assert spoiled != members[name]
        target.seek(0)
        target.truncate()
        with zipfile.ZipFile(target, "w") as archive:
            for member, content in (members | {name: spoiled}).items():
                archive.writestr(member, content)

    return act


def test_a_workbook_with_hostile_names_passes_the_check(tmp_path: Path) -> None:
    """A workbook passes the check even if names have markup, escapes or 40,000 characters."""
    assert made(tmp_path).files[0].is_file()


def test_zipfile_has_the_attributes_that_we_replace() -> None:
    """`zipfile` has the two private attributes that we replace.

    If Python renames one of them, workbooks are packed or read back at half the speed.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x", "w") as member:
            assert hasattr(member, "_compressor")
            member.write(b"content")
        with archive.open("x") as member:
            assert hasattr(member, "_decompressor")


@given(st.lists(st.binary()))
def test_the_crc_of_a_member_matches_zlib(pieces: list[bytes]) -> None:
    """The CRC-32 of a member is the one that zlib computes, however its content was split.

    Other programs check it before they open the file.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("x", "w") as member:
        pack_faster(member)
        for piece in pieces:
            member.write(piece)
    assert zlib.crc32(b"".join(pieces)) == archive.getinfo("x").CRC


@pytest.mark.parametrize(
    "change",
    some_daily(
        [
            lambda sheet: sheet.replace(b">1.000000000000000001<", b">1.000000000000000002<"),
            lambda sheet: sheet.replace(b'<row r="3"', b'<row r="3"><c r="A3"/></row><row r="4"'),
            lambda sheet: sheet[: sheet.index(b'<row r="4"')] + b"</sheetData></worksheet>",
            lambda sheet: sheet.replace(b">2.5</t>", b">two</t>"),
            lambda sheet: sheet.replace(b"&lt;A&amp;B&gt;", b"Another"),
        ],
        3,
    ),
    ids=["a digit", "a row more", "rows are gone", "no amount", "another asset"],
)
def test_a_workbook_that_differs_is_deleted(
    change: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workbook in which one digit, row or name differs is deleted.

    The workbook before it does not change.
    """
    before = made(tmp_path).files[0]
    kept = before.read_bytes()
    monkeypatch.setattr(workbook, "splice", spoiling(change))
    with pytest.raises(NotExported, match="The Accounts sheet in the finished workbook differs"):
        export(
            Layout(tmp_path).database,
            Layout(tmp_path).exports,
            as_of=None,
            formats=("xlsx",),
            program_version="0",
        )
    assert before.read_bytes() == kept
    assert list(before.parent.iterdir()) == [before]
