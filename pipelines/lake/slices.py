"""Slices of a book: what all of a venue, a portfolio or a balance kind lost, or gained, at once.

One asset alone is no slice: it is sold out, bought, swept and netted every day. So a slice says
something only where it held two assets or more, and nearly all of them moved the same way. What
is compared is how much there is (amounts without their sign, so that long and short do not cancel
out), roughly: totals are compared exactly, in `pipelines.lake.guards`. Half a million amounts
against half a million of the night before take 0.4 s.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.records import amounts

GONE, FELL, ROSE = "gone", "fell", "rose"
VENUE, PORTFOLIO, KIND = "venue", "portfolio", "balance kind"
COLUMNS = {VENUE: "venue_id", PORTFOLIO: "portfolio_id", KIND: "bucket"}
# What grew or shrank by more than this is no trade in every asset at once, but a scale.
SCALE = 8.0
NEARLY_ALL = 0.9
FEWEST = 2
_DENSE = 4
_TEXTS = [*COLUMNS.values(), "asset_id"]
Numbers = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of which nearly all went one way: `change` is gone, fell or rose.

    `assets` are how many it held, `moved` how many of them moved so.
    """

    kind: str
    identity: str
    change: str
    assets: int
    moved: int


@dataclass(frozen=True, slots=True)
class _Levels:
    """How much of an asset there is in a slice, in the book before and now: a place for each."""

    slices: Numbers
    assets: Numbers
    before: Numbers
    now: Numbers


def moves(before: Path, now: Path) -> list[Slice]:
    """Return the slices of which nearly all is gone, fell or rose between two files of balances."""
    return moves_between(read(before), read(now))


def read(path: Path) -> pa.Table:
    """Return what is compared of a file of balances: `level` is how much there is, roughly."""
    with pq.ParquetFile(path, read_dictionary=_TEXTS) as file:
        rows = file.read([*_TEXTS, "is_custom_asset", "amount"])
    return rows.drop_columns("amount").append_column("level", pa.array(_magnitudes(rows, path)))


def without(rows: pa.Table, portfolios: Collection[str]) -> pa.Table:
    """Return the rows of all portfolios but these."""
    names = pa.array(sorted(portfolios), pa.string())
    return rows.filter(pc.invert(pc.is_in(rows["portfolio_id"].cast(pa.string()), names)))


def moves_between(before: pa.Table, now: pa.Table) -> list[Slice]:
    """Return the same between what was read of two books."""
    rows, first = pa.concat_tables([before, now]).unify_dictionaries(), len(before)
    levels = rows["level"].to_numpy()
    assets = _codes(rows, "asset_id") * 2 + rows["is_custom_asset"].to_numpy()
    book = _sums_by_slice(np.zeros(len(levels), np.int64), assets, levels, first)
    lost = np.bincount(book.assets, np.abs(book.now - book.before), int(assets.max(initial=0)) + 1)
    moved: list[Slice] = []
    for kind, column in COLUMNS.items():
        held = _sums_by_slice(_codes(rows, column), assets, levels, first)
        names = rows[column].chunk(0).dictionary if rows.num_rows else pa.array([])
        moved += _moves(kind, names, held, lost if kind == KIND else None)
    return sorted(moved, key=lambda part: (part.kind, part.identity))


def _codes(rows: pa.Table, name: str) -> Numbers:
    chunks = [chunk.indices.to_numpy() for chunk in rows[name].chunks]
    return np.concatenate([np.zeros(0, np.int64), *chunks]).astype(np.int64)


def _magnitudes(rows: pa.Table, path: Path) -> Numbers:
    """Return roughly how large each amount is, without its sign."""
    column = rows["amount"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if not len(column):
        return np.zeros(0)
    # A decimal is 16 bytes, two's complement, low half first: two columns of unsigned numbers. A
    # negative one is turned round by hand, the low half's carry included.
    halves = np.frombuffer(column.buffers()[1], np.uint64)
    halves = halves[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = halves[::2], halves[1::2]
    negative = high >> np.uint64(63) == 1
    high = np.where(negative, ~high + (low == 0), high)
    low = np.where(negative, ~low + np.uint64(1), low)
    levels = (high * 2.0**64 + low) * 1e-18
    if column.null_count:
        places = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        texts = pq.read_table(path, columns=["amount_text"])["amount_text"].take(places).to_pylist()
        levels[places] = [float(abs(amounts.parse(text) or Decimal(0))) for text in texts]
    return levels


def _sums_by_slice(slices: Numbers, assets: Numbers, levels: Numbers, first: int) -> _Levels:
    """Return the sums of each asset in each slice; a book that is sparse is numbered before."""
    width = int(assets.max(initial=0)) + 1
    # One number for each pair of slice and asset, so that `bincount` adds up all of them in one
    # pass; where most pairs do not occur they are numbered anew, or the table would be mostly
    # empty.
    keys = slices * width + assets
    size = int(keys.max(initial=-1)) + 1
    places = np.arange(size)
    if size > _DENSE * len(keys):
        places, keys = np.unique(keys, return_inverse=True)
        size = len(places)
    before = np.bincount(keys[:first], levels[:first], size)
    now = np.bincount(keys[first:], levels[first:], size)
    return _Levels(places // width, places % width, before, now)


def _moves(kind: str, names: pa.Array, held: _Levels, lost: Numbers | None) -> Iterator[Slice]:
    """Yield the slices that moved; with `lost`, those whose assets the book lost as well."""
    # What is unlocked leaves one balance kind for another, and the book keeps it.
    is_held = held.before > 0
    fell = is_held & (held.now < held.before / SCALE)
    rose = is_held & (held.now > held.before * SCALE)
    came = ~is_held & (held.now > 0)
    if lost is not None:
        # Money that leaves trading for staking makes one kind fall and the other rise; the book as
        # a whole still has it, and no slice is told.
        left = lost[held.assets] > held.before / 2
        fell, rose = fell & left, rose & left

    def count(flags: Numbers) -> Numbers:
        return np.bincount(held.slices, flags, len(names))

    assets, fallen, risen = count(is_held), count(fell), count(rose)
    # What came in place of what went tells a purchase, or a new name, from a loss.
    is_down = (fallen >= NEARLY_ALL * assets) & (risen == 0) & (count(came) == 0)
    is_up = risen >= NEARLY_ALL * assets
    there = count(held.now > 0)
    for place in np.flatnonzero((assets >= FEWEST) & (is_down | is_up)):
        down = FELL if there[place] else GONE
        change, moved = (down, fallen) if is_down[place] else (ROSE, risen)
        yield Slice(
            kind=kind,
            identity=names[place].as_py(),
            change=change,
            assets=int(assets[place]),
            moved=int(moved[place]),
        )
