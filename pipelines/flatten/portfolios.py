"""Table rows for portfolios, integrations, positions, accounts and balances (2.1 to 2.5)."""

from collections.abc import Iterable
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa

from pipelines.flatten import accounts as balances
from pipelines.flatten import columns
from pipelines.flatten.columns import Level, UnfitValue
from pipelines.flatten.resources import Resource, TableBatch
from pipelines.records.defects import repeated_integration
from pipelines.records.json_text import Members, text_of
from pipelines.records.schema import PORTFOLIO
from pipelines.records.tolerant_reader import JsonPath, TolerantReader
from warehouse.contract.book import ACCOUNTS, BALANCES, INTEGRATIONS, PORTFOLIOS, POSITIONS
from warehouse.contract.model import Table

PORTFOLIO_TABLES = (PORTFOLIOS, INTEGRATIONS, POSITIONS, ACCOUNTS, BALANCES)
_ABOVE = ("Portfolio.id", "Position.assetId", "Position.isCustomAsset")
_KEYS = (
    ("Integration.id",),
    ("Position.assetId", "Position.isCustomAsset"),
    ("Account.venueId", "Account.name"),
)


def portfolio_resource(snapshot_date: date) -> Resource:
    """Return the rules that turn portfolio records into table rows for a business date."""
    fill = partial(_fill, snapshot_date)
    return Resource(PORTFOLIO, carries_money=True, fill=fill, merge_repeats=_merge_repeats)


def _fill(snapshot_date: date, records: pa.StructArray) -> TableBatch:
    tops = columns.top_level(records, PORTFOLIO)
    links = columns.inner_level(tops, "integrations")
    positions = columns.inner_level(tops, "positions")
    accounts = columns.inner_level(positions, "accounts")
    lengths = {
        "position_count": columns.list_lengths(tops, "Portfolio.positions"),
        "integration_count": columns.list_lengths(tops, "Portfolio.integrations"),
    }
    account_counts = {"account_count": columns.list_lengths(positions, "Position.accounts")}
    filled = {
        PORTFOLIOS.name: _rows(PORTFOLIOS, tops, snapshot_date, lengths),
        INTEGRATIONS.name: _rows(INTEGRATIONS, links, snapshot_date, {}),
        POSITIONS.name: _rows(POSITIONS, positions, snapshot_date, account_counts),
        ACCOUNTS.name: _rows(ACCOUNTS, accounts, snapshot_date, _account_facts(accounts)),
    }
    filled[BALANCES.name] = _balances(filled[ACCOUNTS.name][0], accounts)
    keyed = (links, positions, accounts)
    return TableBatch(
        {name: batch for name, (batch, _) in filled.items()},
        [value for _, unfit in filled.values() for value in unfit],
        tuple(_key(level, sources) for level, sources in zip(keyed, _KEYS, strict=True)),
    )


def _rows(
    table: Table, level: Level, snapshot_date: date, computed: dict[str, Any]
) -> tuple[pa.RecordBatch, list[UnfitValue]]:
    sources = columns.inherit_columns(level, (*level.columns, *_ABOVE))
    day = columns.constant_column(snapshot_date, level.rows, pa.date32())
    computed = {"snapshot_date": day} | computed
    return columns.pick_columns(table, level, sources, computed, level.rows)


def _account_facts(accounts: Level) -> dict[str, Any]:
    duplicate = accounts.columns.get("Account.duplicate#")
    return {
        "duplicate_no": columns.constant_column(0, accounts.rows, pa.int32())
        if duplicate is None
        else duplicate,
        "balance_count": balances.count_per_account(accounts),
    }


def _balances(
    account_rows: pa.RecordBatch, accounts: Level
) -> tuple[pa.RecordBatch, list[UnfitValue]]:
    amounts = balances.read_amounts(accounts)
    own = [name for name in BALANCES.names if name in account_rows.schema.names]
    owners = account_rows.select(own).take(pa.array(amounts.accounts))
    computed: dict[str, Any] = {name: owners.column(name) for name in own}
    computed |= {"bucket": amounts.buckets, "state": amounts.states, "amount_text": amounts.texts}
    source = {BALANCES.column("amount").source: amounts.texts}
    count = len(amounts.texts)
    rows, unfit = columns.pick_columns(BALANCES, accounts, source, computed, count)
    return rows, [balances.locate_amount(value, amounts) for value in unfit]


def _key(level: Level, sources: tuple[str, ...]) -> dict[str, Any]:
    """Return the columns whose combined values must be unique: the parent and the key columns."""
    return {"parent": pa.array(level.parents)} | {name: level.columns[name] for name in sources}


def _merge_repeats(record: dict[str, Any], reader: TolerantReader, place: JsonPath) -> None:
    """Merge positions of one asset, number duplicate accounts, and drop repeated integrations."""
    if record["positions"] is not None:
        record["positions"] = _merge_positions(record["positions"])
    if record["integrations"] is not None:
        record["integrations"] = _integrations_once(record["integrations"], reader, place)


def _merge_positions(positions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    merged: dict[tuple[str, bool], dict[str, Any]] = {}
    for position in positions:
        first = merged.setdefault((position["assetId"], position["isCustomAsset"]), position)
        if first is not position:
            _join(first, position)
    for position in merged.values():
        _number(position["accounts"] or ())
    return list(merged.values())


def _join(first: dict[str, Any], repeated: dict[str, Any]) -> None:
    """Append a repeated position's accounts to the first position for the same asset.

    If one of the account lists is damaged, the total number of accounts is unknown, but all
    readable accounts are still appended.
    """
    counts = (first.get("accounts#"), repeated.get("accounts#"))
    first["accounts"] = [*(first["accounts"] or ()), *(repeated["accounts"] or ())]
    first["accounts#"] = None if None in counts else sum(counts)


def _number(accounts: Iterable[dict[str, Any]]) -> None:
    same: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for account in accounts:
        same.setdefault((account["venueId"], account["name"]), []).append(account)
    # Two accounts can have the same venue and name. Sort such accounts by content before numbering
    # them, because their order can change from one response to the next.
    for several in same.values():
        ordered = sorted(several, key=_content) if len(several) > 1 else several
        for number, account in enumerate(ordered):
            account["duplicate#"] = number


def _content(value: dict[str, Any]) -> str:
    """Return a record as canonical JSON, so that equal records become equal strings."""
    return text_of(_members(value), canonical=True)


def _members(value: Any) -> Any:
    if isinstance(value, dict):
        return Members([(key, _members(member)) for key, member in value.items()])
    return [_members(element) for element in value] if isinstance(value, list) else value


def _integrations_once(
    integrations: list[dict[str, Any]], reader: TolerantReader, place: JsonPath
) -> list[dict[str, Any]]:
    """Remove repeated integrations. If copies differ, keep the copy whose JSON sorts first."""
    by_id: dict[str, list[dict[str, Any]]] = {}
    for integration in integrations:
        by_id.setdefault(integration["id"], []).append(integration)
    for several in by_id.values():
        if len(several) > 1:
            several.sort(key=_content)
            defect, value = repeated_integration(len(several)), _members(several[1:])
            reader.reject(place.member("integrations"), defect, value, money=False)
    return [several[0] for several in by_id.values()]
