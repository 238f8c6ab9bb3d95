"""Control totals: counted and summed in the landed JSON, and again in the lake.

The JSON is walked by plain typed decoding, the lake by Arrow: neither shares code with the way
rows are made, so a row or a digit lost on the way shows. Sums are exact.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines import amounts

Json = Any
COUNTED = ("portfolios", "integrations", "positions", "accounts", "balances")
# The documented amounts of a balance (2.5); any other kind counts when it is amounts alone.
_KNOWN = {
    "trading": {"free", "locked"},
    "margin": {"locked"},
    "staking": {"locked"},
    "custody": {"free", "locked"},
}


class Sum(NamedTuple):
    """What is summed: an asset in a bucket."""

    asset_id: str
    is_custom_asset: bool
    bucket: str


class Totals(NamedTuple):
    """Rows by table, and the exact sum of each asset and bucket."""

    rows: dict[str, int]
    sums: dict[Sum, Decimal]


class _Account(msgspec.Struct):
    venueId: str  # noqa: N815 - the document's spelling, so that nothing is renamed here
    name: str
    balance: dict[str, dict[str, str]]


class _Position(msgspec.Struct):
    assetId: str  # noqa: N815 - the document's spelling
    isCustomAsset: bool  # noqa: N815 - the document's spelling
    accounts: list[_Account]


class _Integration(msgspec.Struct):
    id: str


class _Portfolio(msgspec.Struct):
    id: str
    positions: list[_Position]
    integrations: list[_Integration] | None = None


def of_portfolios(raws: Iterable[msgspec.Raw]) -> Totals:
    """Totals of landed portfolios, each id once, for the five tables that come of them."""
    rows = Counter(dict.fromkeys(COUNTED, 0))
    texts: defaultdict[Sum, list[str]] = defaultdict(list)
    seen: set[str] = set()
    decoder = msgspec.json.Decoder(_Portfolio)
    for raw in raws:
        portfolio: _Portfolio | None
        try:
            portfolio = decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            portfolio = _leniently(raw)
        if portfolio is None or portfolio.id in seen:
            continue
        seen.add(portfolio.id)
        rows["portfolios"] += 1
        rows["integrations"] += len({one.id for one in portfolio.integrations or ()})
        rows["positions"] += len({(p.assetId, p.isCustomAsset) for p in portfolio.positions})
        for position in portfolio.positions:
            rows["accounts"] += len(position.accounts)
            _gather(position, texts)
    values = {key: _legal(several) for key, several in texts.items()}
    rows["balances"] = sum(map(len, values.values()))
    return Totals(dict(rows), {key: amounts.exact_sum(v) for key, v in values.items() if v})


class _Venue(msgspec.Struct):
    id: str
    type: Json = None


def of_venues(raws: Iterable[msgspec.Raw]) -> dict[str, int]:
    """How many venues and venue types were landed, each venue's id once."""
    types: dict[str, set[str]] = {}
    for raw in raws:
        try:
            venue = msgspec.json.decode(raw, type=_Venue)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        words = venue.type if isinstance(venue.type, list) else []
        types.setdefault(venue.id, {word for word in words if isinstance(word, str)})
    return {"venues": len(types), "venue_types": sum(map(len, types.values()))}


def _gather(position: _Position, texts: defaultdict[Sum, list[str]]) -> None:
    for account in position.accounts:
        for bucket, parts in account.balance.items():
            known = _KNOWN.get(bucket)
            if known is None:
                stated = list(parts.values()) if len(_legal(parts.values())) == len(parts) else []
            elif parts.keys() <= known:
                stated = list(parts.values())
            else:
                stated = [text for state, text in parts.items() if state in known]
            texts[Sum(position.assetId, position.isCustomAsset, bucket)].extend(stated)


def _legal(texts: Iterable[str]) -> list[Decimal]:
    return [value for text in texts if (value := amounts.parse(text)) is not None]


def _leniently(raw: msgspec.Raw) -> _Portfolio | None:
    """A record that is not as documented, as far as it can be counted."""
    try:
        tree = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(tree, dict) or not isinstance(tree.get("id"), str):
        return None
    positions = [
        _Position(asset, custom, [*_accounts(position)])
        for position in _objects(tree.get("positions"))
        if isinstance(asset := position.get("assetId"), str)
        and isinstance(custom := position.get("isCustomAsset"), bool)
    ]
    integrations = [
        _Integration(one["id"])
        for one in _objects(tree.get("integrations"))
        if isinstance(one.get("id"), str)
    ]
    return _Portfolio(tree["id"], positions, integrations)


def _accounts(position: dict[str, Json]) -> Iterator[_Account]:
    for account in _objects(position.get("accounts")):
        venue, name, balance = (account.get(key) for key in ("venueId", "name", "balance"))
        if isinstance(venue, str) and isinstance(name, str):
            parts = balance if isinstance(balance, dict) else {}
            yield _Account(venue, name, dict(_parts(parts)))


def _parts(balance: dict[str, Json]) -> Iterator[tuple[str, dict[str, str]]]:
    for bucket, parts in balance.items():
        if not isinstance(parts, dict):
            continue
        stated = {state: text for state, text in parts.items() if isinstance(text, str)}
        if bucket in _KNOWN or len(stated) == len(parts):
            yield bucket, stated


def _objects(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def of_lake(files: dict[str, Path]) -> Totals:
    """The same totals of Parquet files, by table."""
    rows = {table: pq.read_metadata(path).num_rows for table, path in files.items()}
    balances = files.get("balances")
    return Totals(rows, {} if balances is None else _summed(balances))


def _summed(path: Path) -> dict[Sum, Decimal]:
    names = ["asset_id", "is_custom_asset", "bucket", "amount", "amount_text"]
    sums: dict[Sum, Decimal] = {}
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=names, batch_size=256 * 1024):
            for key, value in _batch_sums(pa.Table.from_batches([batch])):
                sums[key] = amounts.EXACT.add(sums.get(key, Decimal(0)), value)
    return sums


def _batch_sums(rows: pa.Table) -> Iterator[tuple[Sum, Decimal]]:
    # In 256 bits no sum of DECIMAL(38,18) can wrap; what has no such value is summed by its text.
    wide = rows.set_column(3, "amount", rows["amount"].cast(pa.decimal256(76, 18)))
    grouped = wide.group_by(["asset_id", "is_custom_asset", "bucket"]).aggregate(
        [("amount", "sum")]
    )
    for row in grouped.to_pylist():
        value = row["amount_sum"]
        yield _key(row), Decimal(0) if value is None else value
    for row in rows.filter(pc.is_null(rows["amount"])).to_pylist():
        yield _key(row), amounts.parse(row["amount_text"]) or Decimal(0)


def _key(row: dict[str, Any]) -> Sum:
    return Sum(row["asset_id"], row["is_custom_asset"], row["bucket"])


def compared(table_of_sums: str, in_json: Totals, in_lake: Totals) -> Iterator[dict[str, Any]]:
    """Both totals side by side, as rows of `ops.control_totals` without the snapshot."""
    for table in sorted(in_json.rows.keys() | in_lake.rows.keys()):
        yield {
            "table_name": table,
            "measure": "rows",
            "asset_id": "",
            "is_custom_asset": False,
            "bucket": "",
            "in_json": str(in_json.rows.get(table, 0)),
            "in_lake": str(in_lake.rows.get(table, 0)),
        }
    for key in sorted(in_json.sums.keys() | in_lake.sums.keys()):
        yield {
            "table_name": table_of_sums,
            "measure": "sum",
            **key._asdict(),
            "in_json": amounts.plain(in_json.sums.get(key, Decimal(0))),
            "in_lake": amounts.plain(in_lake.sums.get(key, Decimal(0))),
        }
