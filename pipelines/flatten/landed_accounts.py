"""Where the accounts of a position stand in the landed bytes: JSON path, bytes and text.

Rows carry no place. The records are taken apart once more by what flattening takes them apart with,
and nothing is printed anew: every text is cut out of the body whose SHA-256 was checked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pipelines.edge import models
from pipelines.flatten.landed_records import LandedAnswer, landed_answers
from pipelines.flatten.record_batches import COLUMNS
from pipelines.landing.manifest import Manifest
from pipelines.records import schema
from pipelines.records.issues import Notes
from pipelines.records.json_text import Members, read
from pipelines.records.schema import RecordShape
from pipelines.records.split import Element, once
from pipelines.records.tolerant_reader import AnswerPath, TolerantReader, UnusableRecord
from pipelines.records.unknown_amounts import leaves
from warehouse.progress import BYTES, Say, Tally, silent
from warehouse.storage.layout import Layout

Raw = msgspec.Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedElement:
    """One JSON element as it came: its request, its path, its bytes in the body, and their text."""

    request_no: int
    json_path: str
    first_byte: int
    byte_count: int
    as_it_came: str


class Stated(NamedTuple):
    """Which amount of an account: bucket and state, as `balances` has them."""

    bucket: str
    state: str


@dataclass(frozen=True, slots=True)
class LandedAccount:
    """One account as it came; `texts` are its amounts, and `amounts` where each stands."""

    venue_id: str
    name: str
    element: LandedElement
    texts: Mapping[Stated, str]
    amounts: Mapping[Stated, LandedElement]


@dataclass(frozen=True, slots=True)
class LandedPosition:
    """One position as it came: the API may send several of an asset."""

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
_LIST = msgspec.json.Decoder(list[Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _account_shape() -> RecordShape:
    for field in schema.every_field(schema.PORTFOLIO):
        if field.shape is not None and field.shape.name == models.Account.__name__:
            return field.shape
    raise TypeError("a portfolio has no accounts: teach this module where they are")


_ACCOUNT = _account_shape()


def landed_positions(
    layout: Layout,
    manifest: Manifest,
    portfolio_id: str,
    asset: tuple[str, bool],
    say: Say = silent,
) -> list[LandedPosition]:
    """Return every position of an asset (and whether it is custom) that a portfolio's record has.

    Raises `landing.Damaged` where the landed bytes are not those that were received.
    """
    answers = manifest.answers_of("list_portfolios")
    progress = Tally(say, len(answers), "landed answers", BYTES)
    bodies: dict[int, LandedAnswer] = {}
    read_bytes = partial(progress.add, 0)
    landed_bodies = landed_answers(layout, manifest, answers, Notes(), read_bytes)
    for answer, landed in zip(answers, landed_bodies, strict=True):
        bodies[answer.request_no] = landed
        progress.add(1)
    several = [
        element
        for landed in bodies.values()
        for element in landed.elements
        if element.identity == portfolio_id
    ]
    # Of copies the rows are made of one, and it is found as flattening finds it.
    return [
        position
        for element in once(several, Notes(), carries_money=True, shape=schema.PORTFOLIO)
        for position in _positions(_Cut(bodies[element.request_no].body, element), asset)
    ]


@dataclass(frozen=True, slots=True)
class _Cut:
    """Cuts elements of one record out of its body."""

    body: Any
    record: Element

    @property
    def place(self) -> AnswerPath:
        return AnswerPath(f"data[{self.record.number}]", "data[]")

    def element(self, raw: Raw, place: AnswerPath) -> LandedElement:
        """Return an element with where its bytes begin; `raw` is a view of the body's own."""
        view = memoryview(raw)
        return LandedElement(
            request_no=self.record.request_no,
            json_path=place.path,
            first_byte=_address(view) - _address(self.body),
            byte_count=len(view),
            as_it_came=bytes(view).decode(),
        )


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
    """Return whether a position has a key twice: such a one is in no table."""
    # Its accounts may be many; all that is looked at is what stands around them.
    whole, inner = memoryview(position), memoryview(accounts)
    first = _address(inner) - _address(whole) if inner else len(whole)
    around = [whole[:first], b"null" if inner else b"", whole[first + len(inner) :]]
    members = read(b"".join(around))
    return not isinstance(members, Members) or members.repeated


def _accounts(cut: _Cut, accounts: Raw, place: AnswerPath) -> Iterator[LandedAccount]:
    try:
        raws = _LIST.decode(accounts) if memoryview(accounts) else []
    except _UNREADABLE:
        return
    for number, raw in enumerate(raws):
        here = place.element(number)
        members = read(bytes(raw))
        reader = TolerantReader(cut.record.request_no, Notes(), COLUMNS, schema.PORTFOLIO.name)
        try:
            reader.record(members, _ACCOUNT, here, money=True)
        except UnusableRecord:
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
    cut: _Cut, account: Raw, balance: Any, place: AnswerPath
) -> Iterator[tuple[Stated, tuple[str, LandedElement]]]:
    """Yield every amount under a balance, known or not, with the text and where it stands."""
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
