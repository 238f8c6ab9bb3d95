"""Accounts and balances, as JSON in the landed responses and as table rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.edge import models
from pipelines.flatten.columns import Level, UnfitValue
from pipelines.flatten.landed_records import LandedResponse, landed_responses
from pipelines.landing.manifest import Manifest
from pipelines.records import schema
from pipelines.records.identity import Element, distinct_records
from pipelines.records.json_text import Members, read_json
from pipelines.records.notes import Notes
from pipelines.records.tolerant_reader import JsonPath, TolerantReader, UnusableRecordError, leaves
from warehouse.progress import BYTES, ProgressCallback, Tally, silent
from warehouse.storage.layout import Layout

Raw = msgspec.Raw
_LIST = msgspec.json.Decoder(list[Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


_ACCOUNT = schema.shape_of(models.Account)


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedElement:
    """One JSON element of a landed response: its request, JSON path, byte position and text."""

    request_no: int
    json_path: str
    first_byte: int
    byte_count: int
    as_it_came: str


class Stated(NamedTuple):
    """The key of an amount within an account: its bucket and state, as in table `balances`."""

    bucket: str
    state: str


@dataclass(frozen=True, slots=True)
class LandedAccount:
    """An account in a landed response, with its amounts as strings and as JSON elements."""

    venue_id: str
    name: str
    element: LandedElement
    texts: Mapping[Stated, str]
    amounts: Mapping[Stated, LandedElement]


@dataclass(frozen=True, slots=True)
class LandedPosition:
    """A position in a landed response. The API can send several positions for the same asset."""

    element: LandedElement
    accounts: tuple[LandedAccount, ...]


class _PositionKey(msgspec.Struct, rename="camel"):
    asset_id: str
    is_custom_asset: bool
    accounts: Raw = Raw()


class _Positions(msgspec.Struct):
    positions: list[Raw]


_PORTFOLIO = msgspec.json.Decoder(_Positions)
_POSITION = msgspec.json.Decoder(_PositionKey)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A record and the body that contains it, used to locate JSON elements in the body."""

    body: Any
    record: Element

    @property
    def place(self) -> JsonPath:
        return JsonPath(f"data[{self.record.number}]", "data[]")

    def element(self, raw: Raw, place: JsonPath) -> LandedElement:
        """Return a JSON element and its position in the body. `raw` must be a view of the body."""
        view = memoryview(raw)
        return LandedElement(
            request_no=self.record.request_no,
            json_path=place.path,
            first_byte=_address(view) - _address(self.body),
            byte_count=len(view),
            as_it_came=bytes(view).decode(),
        )


class AmountField(NamedTuple):
    """One amount field in a balance, for example `free` in `trading`."""

    bucket: str
    state: str
    source: str


PARTS = tuple(
    AmountField(bucket.name, state.name, state.source)
    for bucket in schema.shape_of(models.Balance).fields.values()
    if bucket.shape is not None
    for state in bucket.shape.fields.values()
)


class Amounts(NamedTuple):
    """Columns with one row per amount: account index, bucket, state and amount as a string."""

    accounts: Any
    buckets: pa.Array
    states: pa.Array
    texts: pa.Array


def landed_positions(
    layout: Layout,
    manifest: Manifest,
    portfolio_id: str,
    asset: tuple[str, bool],
    say: ProgressCallback = silent,
) -> list[LandedPosition]:
    """Return all positions of a portfolio in an asset, as the API sent them.

    `asset` is a pair: the asset's ID, and True if it is a custom asset. Raises
    `landing.DamagedFile` if the landed bytes differ from the received bytes.
    """
    answers = manifest.responses_of("list_portfolios")
    progress = Tally(say, len(answers), "landed answers", BYTES)
    bodies: dict[int, LandedResponse] = {}
    read_bytes = partial(progress.add, 0)
    landed_bodies = landed_responses(layout, manifest, answers, Notes(), read_bytes)
    for answer, landed in zip(answers, landed_bodies, strict=True):
        bodies[answer.request_no] = landed
        progress.add(1)
    copies = [
        element
        for landed in bodies.values()
        for element in landed.elements
        if element.identity == portfolio_id
    ]
    # If the record was received several times, choose the copy that flattening chose.
    return [
        position
        for element in distinct_records(copies, Notes(), carries_money=True, shape=schema.PORTFOLIO)
        for position in _positions(_Cut(bodies[element.request_no].body, element), asset)
    ]


def read_amounts(accounts: Level) -> Amounts:
    """Return all amounts in a batch, ordered by account and then by field (section 2.5)."""
    texts = [accounts.columns[part.source] for part in PARTS]
    # `valid` has a row for each account and a column for each amount field. The true cells identify
    # the account and the field of each amount, so the code need not create an object per amount.
    valid = np.column_stack([text.is_valid().to_numpy(zero_copy_only=False) for text in texts])
    flat = np.flatnonzero(valid.ravel())
    account, part = np.divmod(flat, len(PARTS))
    documented = Amounts(
        account,
        pa.array([p.bucket for p in PARTS], pa.string()).take(pa.array(part)),
        pa.array([p.state for p in PARTS], pa.string()).take(pa.array(part)),
        # In the concatenated columns, the values of a field start at the field's number times the
        # number of rows.
        pa.concat_arrays(texts).take(pa.array(part * accounts.rows + account)),
    )
    undocumented = accounts.columns.get("Account.other")
    return documented if undocumented is None else _with(documented, undocumented)


def count_per_account(accounts: Level) -> pa.Array:
    """Return the number of amounts in each account, or NULL if its balance could not be read."""
    listed = accounts.columns.get("Account.balance#")
    if listed is not None:
        return listed
    valid = [
        accounts.columns[part.source].is_valid().to_numpy(zero_copy_only=False) for part in PARTS
    ]
    return pa.array(np.sum(valid, axis=0, dtype=np.int32), pa.int32())


def locate_amount(value: UnfitValue, amounts: Amounts) -> UnfitValue:
    """Return a copy of an amount's `UnfitValue`, with the row of the account and the JSON path."""
    bucket, state = amounts.buckets[value.row].as_py(), amounts.states[value.row].as_py()
    account = int(amounts.accounts[value.row])
    return value._replace(row=account, tail=f".balance.{bucket}.{state}")


def _address(buffer: Any) -> int:
    address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return address


def _positions(cut: _Cut, asset: tuple[str, bool]) -> Iterator[LandedPosition]:
    for number, raw in enumerate(_PORTFOLIO.decode(cut.record.raw).positions):
        try:
            key = _POSITION.decode(raw)
        except _UNREADABLE:
            continue
        if (key.asset_id, key.is_custom_asset) != asset or _has_twins(raw, key.accounts):
            continue
        place = cut.place.member("positions").element(number)
        accounts = tuple(_accounts(cut, key.accounts, place.member("accounts")))
        yield LandedPosition(cut.element(raw, place), accounts)


def _has_twins(position: Raw, accounts: Raw) -> bool:
    """Return whether a position was rejected because it contains a duplicate key."""
    # Parse the position without its accounts, because it can have many of them.
    whole, inner = memoryview(position), memoryview(accounts)
    first = _address(inner) - _address(whole) if inner else len(whole)
    around = [whole[:first], b"null" if inner else b"", whole[first + len(inner) :]]
    members = read_json(b"".join(around))
    return not isinstance(members, Members) or members.repeated


def _accounts(cut: _Cut, accounts: Raw, place: JsonPath) -> Iterator[LandedAccount]:
    try:
        raws = _LIST.decode(accounts) if memoryview(accounts) else []
    except _UNREADABLE:
        return
    for number, raw in enumerate(raws):
        here = place.element(number)
        members = read_json(bytes(raw))
        reader = TolerantReader(cut.record.request_no, Notes(), schema.PORTFOLIO.name)
        try:
            reader.record(members, _ACCOUNT, here, money=True)
        except UnusableRecordError:
            continue
        stated = dict(_amounts(cut, raw, members.get("balance"), here))
        yield LandedAccount(
            venue_id=members["venueId"],
            name=members["name"],
            element=cut.element(raw, here),
            texts={key: text for key, (text, _) in stated.items()},
            amounts={key: element for key, (_, element) in stated.items()},
        )


def _amounts(
    cut: _Cut, account: Raw, balance: Any, place: JsonPath
) -> Iterator[tuple[Stated, tuple[str, LandedElement]]]:
    """Yield all documented and undocumented amounts in a balance, as strings and elements."""
    if not isinstance(balance, Members) or balance.repeated:
        return
    for bucket, part in balance.items():
        for leaf in leaves(part):
            if (text := leaf.amount) is None:
                continue
            names = ("balance", bucket, *leaf.names)
            raw, here = account, place
            for name in names:
                raw, here = _MEMBERS.decode(raw)[name], here.member(name)
            yield Stated(bucket, leaf.state), (text, cut.element(raw, here))


def _with(documented: Amounts, undocumented: pa.ListArray) -> Amounts:
    rows = pc.list_flatten(undocumented)
    return Amounts(
        np.concatenate(
            [
                documented.accounts,
                pc.list_parent_indices(undocumented).to_numpy(zero_copy_only=False),
            ]
        ),
        pa.concat_arrays([documented.buckets, pc.struct_field(rows, "bucket")]),
        pa.concat_arrays([documented.states, pc.struct_field(rows, "state")]),
        pa.concat_arrays([documented.texts, pc.struct_field(rows, "amount")]),
    )
