"""What is held, added up exactly from the files of a night: by portfolio, by venue, by asset.

Made once and here, so that nobody must add up in an engine whose sums wrap. Positions, accounts and
amounts are put below each other as rows of one kind, and grouped: first by place, which is an asset
of a portfolio at a venue, and then those by portfolio, by venue and by asset.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.records import amounts
from warehouse.contract.book import KNOWN_BALANCES
from warehouse.contract.lake import HOLDINGS, SUMS
from warehouse.contract.model import Table
from warehouse.exact import EXACT, fit_decimal, plain
from warehouse.storage.parquet import WrittenFile, conform, write

# In 256 bits no sum of DECIMAL(38,18) can wrap.
WIDE = pa.decimal256(76, 18)
_FREE, _LOCKED, _OTHER, _TOTAL = SUMS
_PLACE = ("portfolio_id", "venue_id", "asset_id", "is_custom_asset")
_NAMES = {
    "portfolio_name": ("portfolios", "portfolio_id", "name"),
    "venue_name": ("venues", "venue_id", "display_name"),
}
_TEXTS = ["portfolio_id", "venue_id", "asset_id", "bucket", "state"]
# What only text holds: by place, and by kind (free, locked, other).
Texts = list[tuple[dict[str, Any], str, Decimal]]


def write_holdings(
    files: Mapping[str, Path],
    path_of: Callable[[str], Path],
    snapshot_date: date,
    snapshot_id: str,
) -> dict[str, WrittenFile]:
    """Write each table of what is held, made of a night's files, where `path_of` says."""
    return {
        table.name: write(table, [rows], path_of(table.name), snapshot_id)
        for table, rows in holdings(files, snapshot_date)
    }


def holdings(
    files: Mapping[str, Path], snapshot_date: date
) -> Iterator[tuple[Table, pa.RecordBatch]]:
    """Yield each table of what is held, with its rows in the order of its key."""
    sums, texts = _amounts(files["balances"])
    listed = _read(files["positions"], [*_PLACE[:1], *_PLACE[2:]])
    accounts = _read(files["accounts"], _PLACE)
    accounts = accounts.append_column("accounts", pa.repeat(pa.scalar(1), len(accounts)))
    for table, unordered in zip(HOLDINGS, _groups(listed, accounts, sums), strict=True):
        grouped = _in_order(unordered, table.key[1:])
        columns = {name: grouped[name] for name in table.names if name in grouped.column_names}
        # An asset may be listed without an account.
        columns["accounts"] = pc.fill_null(grouped["accounts"], 0)
        columns["snapshot_date"] = pa.repeat(pa.scalar(snapshot_date, pa.date32()), len(grouped))
        for kind in SUMS:
            own = _texts_of(table, kind, grouped, texts)
            columns[kind], columns[f"{kind}_text"] = _exact(_column(grouped, kind), own)
        for name in _NAMES.keys() & set(table.names):
            columns[name] = _names(files, name, grouped)
        yield table, conform(table, columns, len(grouped))


def _amounts(path: Path) -> tuple[pa.Table, Texts]:
    """Return the sums of each place by kind, and the amounts that only text holds."""
    sums, texts = [_NOTHING], Texts()
    with pq.ParquetFile(path, read_dictionary=_TEXTS) as file:
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number, [*_PLACE, "bucket", "state", "amount"])
            rows = rows.combine_chunks().unify_dictionaries()
            is_text = pc.is_null(rows["amount"])
            wide = rows.select(_PLACE).append_column("amount", rows["amount"].cast(WIDE))
            wide = wide.append_column("kind", _kinds(rows))
            grouped = wide.group_by([*_PLACE, "kind"], use_threads=False)
            sums.append(grouped.aggregate([("amount", "sum")]))
            if rows["amount"].null_count:
                stated = file.read_row_group(number, ["amount_text"])
                odd = wide.append_column("text", stated["amount_text"]).filter(is_text)
                for row in odd.to_pylist():
                    texts.append((row, row["kind"], amounts.parse(row["text"]) or Decimal(0)))
    gathered, nothing = _together(sums), pa.scalar(None, WIDE)
    own = gathered["amount_sum"]
    for kind in (_FREE, _LOCKED, _OTHER):
        is_kind = pc.equal(gathered["kind"], kind)
        if pc.any(is_kind).as_py():  # a column costs as much where nothing is in it
            gathered = gathered.append_column(kind, pc.if_else(is_kind, own, nothing))
    gathered = gathered.append_column(_TOTAL, own)
    return gathered.drop_columns(["kind", "amount_sum"]), texts


def _kinds(rows: pa.Table) -> pa.DictionaryArray:
    """Return whether each part of a balance is free, locked or other (2.5)."""
    # Of a million rows a few pairs of words differ: these are looked up, by number, in a tenth of
    # the time that comparing the words of each row takes (0.17 s of CPU).
    buckets, states = (rows[name].combine_chunks() for name in ("bucket", "state"))
    width = len(states.dictionary)
    pairs = pc.add(pc.multiply(buckets.indices.cast(pa.int64()), width), states.indices)
    encoded, kinds = pairs.dictionary_encode(), [*SUMS]
    words = (
        (buckets.dictionary[pair // width].as_py(), states.dictionary[pair % width].as_py())
        for pair in encoded.dictionary.to_pylist()
    )
    kind_of_pair = [kinds.index(_kind(bucket, state)) for bucket, state in words]
    indices = pa.array(kind_of_pair, pa.int32()).take(encoded.indices)
    return pa.DictionaryArray.from_arrays(indices, kinds)


def _kind(bucket: str, state: str) -> str:
    is_known = state in KNOWN_BALANCES.get(bucket, ()) and state in (_FREE, _LOCKED)
    return state if is_known else _OTHER


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    texts = [name for name in columns if name in _TEXTS]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        return file.read(list(columns))


def _together(tables: list[pa.Table]) -> pa.Table:
    """Return tables one below the other; what one has not is NULL. Texts are numbers of words."""
    # To group by numbers costs a sixth of what it costs to group by texts.
    return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()


_WORDS = pa.dictionary(pa.int32(), pa.string())
# Not by `empty_table`, which imports pandas.
_NOTHING = pa.Table.from_batches(
    [],
    pa.schema(
        [(name, pa.bool_() if name.startswith("is_") else _WORDS) for name in (*_PLACE, "kind")]
        + [("amount_sum", WIDE)]
    ),
)


def _groups(listed: pa.Table, accounts: pa.Table, sums: pa.Table) -> Iterator[pa.Table]:
    """Yield what each portfolio, each venue and all of them hold of each asset.

    `listed` has the assets that portfolios list, also without an account; `accounts` a row for each
    account; `sums` some rows for each place.
    """
    # Each is made of rows that are fewer already, and what differs is counted as rows of those: to
    # group all rows three times and count what differs took 0.39 s of CPU, this takes 0.2.
    portfolio_id, venue_id, *asset = _PLACE
    places = _add_up([accounts, sums], _PLACE)
    by_portfolio = _add_up([listed, places], [portfolio_id, *asset], venues=venue_id)
    by_venue = _add_up([places], [venue_id, *asset], portfolios=portfolio_id)
    of_assets = [by_portfolio, by_venue.select([venue_id, *asset])]
    yield by_portfolio
    yield by_venue
    yield _add_up(of_assets, asset, portfolios=portfolio_id, venues=venue_id)


def _add_up(tables: list[pa.Table], key: Sequence[str], **counts: str) -> pa.Table:
    """Return the sums of each key, and as `counts` in how many of its rows a column has a value."""
    rows = _together(tables)
    sums = [name for name in ("accounts", *SUMS) if name in rows.column_names]
    measures = [(column, "count") for column in counts.values()] + [(name, "sum") for name in sums]
    added = rows.group_by([*key], use_threads=False).aggregate(measures)
    columns = {name: added[name] for name in key}
    columns |= {name: added[f"{column}_count"] for name, column in counts.items()}
    return pa.table(columns | {name: added[f"{name}_sum"] for name in sums})


def _in_order(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return rows in the order of their key, its texts as texts."""
    for number, name in enumerate(rows.column_names):
        if pa.types.is_dictionary(rows[name].type):
            rows = rows.set_column(number, name, rows[name].cast(pa.string()))
    return rows.sort_by([(name, "ascending") for name in key])


def _texts_of(table: Table, kind: str, grouped: pa.Table, texts: Texts) -> dict[int, Decimal]:
    """Return what only text holds, by the number of the row that it is part of."""
    own = [(row, value) for row, of, value in texts if kind in (of, _TOTAL)]
    if not own:
        return {}
    keys = zip(*(grouped[name].to_pylist() for name in table.key[1:]), strict=True)
    numbers = {key: number for number, key in enumerate(keys)}
    sums: dict[int, Decimal] = {}
    for row, value in own:
        number = numbers[tuple(row[name] for name in table.key[1:])]
        sums[number] = EXACT.add(sums.get(number, Decimal(0)), value)
    return sums


def _column(grouped: pa.Table, kind: str) -> pa.Array:
    """Return the sums of a kind; NULL where no amount is of it."""
    if kind in grouped.column_names:
        return grouped[kind].combine_chunks()
    return pa.nulls(len(grouped), WIDE)


def _exact(sums: pa.Array, texts: Mapping[int, Decimal]) -> tuple[pa.Array, pa.Array]:
    """Return sums as DECIMAL(38,18), NULL where that cannot hold them, and as exact texts."""
    wide = pc.fill_null(sums, pa.scalar(Decimal(0), WIDE))
    most = Decimal(10) ** 20
    is_large = pc.or_(
        pc.greater_equal(wide, pa.scalar(most, WIDE)), pc.less_equal(wide, pa.scalar(-most, WIDE))
    )
    places = sorted({*pc.indices_nonzero(is_large).to_pylist(), *texts})
    values = {
        place: EXACT.add(wide[place].as_py(), texts.get(place, Decimal(0))) for place in places
    }
    small = pc.if_else(is_large, pa.scalar(None, WIDE), wide).cast(amounts.TYPE)
    return (
        _replace(small, {place: fit_decimal(value) for place, value in values.items()}),
        _replace(_plain(small), {place: plain(value) for place, value in values.items()}),
    )


def _plain(decimals: pa.Array) -> pa.Array:
    """Return decimals in plain digits, without needless zeros."""
    texts = decimals.cast(pa.string())
    # Arrow writes an exponent where the first digit stands behind the sixth place, and for zero.
    zero = pc.equal(decimals, pa.scalar(Decimal(0), decimals.type))
    texts = pc.if_else(zero, "0.", texts)
    tiny = pc.indices_nonzero(pc.match_substring(texts, "E")).to_pylist()
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    return _replace(trimmed, {place: plain(decimals[place].as_py()) for place in tiny})


def _replace(array: pa.Array, values: Mapping[int, Any]) -> pa.Array:
    """Return an array with other values in some places."""
    if not values:
        return array
    mask = pc.is_in(pa.array(range(len(array))), pa.array(list(values)))
    return pc.replace_with_mask(
        array, mask, pa.array([values[n] for n in sorted(values)], array.type)
    )


def _names(files: Mapping[str, Path], column: str, grouped: pa.Table) -> pa.ChunkedArray:
    table, key, name = _NAMES[column]
    named = pq.read_table(files[table], columns=[key, name])
    return named[name].take(pc.index_in(grouped[key], named[key].combine_chunks()))
