"""The records of one resource: taken from landed answers, each id once, in batches.

The API promises no order (4.6), so records are ordered by id: the same book gives the same rows.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pipelines.records.issues import Notes, Reject
from pipelines.records.json_text import Members, read, text_of
from pipelines.records.schema import RecordShape

BATCH_BYTES = 4 * 1024 * 1024


class Element(msgspec.Struct, frozen=True, gc=False):
    """One record as it came: the answer it stood in, its number there, and its id if it is text."""

    # No tuple: the collector of garbage would walk a hundred thousand of them again and again.
    raw: msgspec.Raw
    request_no: int
    number: int
    identity: str | None


class _Id(msgspec.Struct, gc=False):
    id: str


_ID = msgspec.json.Decoder(_Id)
_FIRST = re.compile(rb'\{"id":"([ !#-\[\]-~]*)"[,}]')


def id_of(raw: msgspec.Raw) -> str | None:
    """Return the id of a record, or None where it has none that is text.

    Where it stands first in plain letters the rest is not looked at: a second `id` would be a key
    that stands twice, and such a record is taken by no reader.
    """
    # A pattern instead of a parser: the id stands first in nearly every record.
    if first := _FIRST.match(raw):
        return first[1].decode()
    try:
        return _ID.decode(raw).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class _PlainVenue(msgspec.Struct):
    instruments: list[_Id] | None = None


class _EmbeddingVenue(msgspec.Struct):
    instruments: list[msgspec.Raw] | None = None


_PLAIN, _VENUE = msgspec.json.Decoder(_PlainVenue), msgspec.json.Decoder(_EmbeddingVenue)


def embedded_ids(venue: msgspec.Raw) -> set[str] | None:
    """Return the ids of the instruments that a venue embeds; None where it does not say."""
    # Nearly every venue is read in one go; only one with a broken instrument is read twice.
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        plain = _PLAIN.decode(venue).instruments
        return None if plain is None else {instrument.id for instrument in plain}
    try:
        listed = _VENUE.decode(venue).instruments
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return None if listed is None else ids_of(listed)


def ids_of(raws: Iterable[msgspec.Raw]) -> set[str]:
    """Return the ids of records, of those that have one."""
    return {identity for raw in raws if (identity := id_of(raw)) is not None}


def once(
    elements: Iterable[Element],
    notes: Notes,
    *,
    carries_money: bool,
    shape: RecordShape | None = None,
) -> list[Element]:
    """Return each id once, ordered; repeated records are told in `ops.rejects`.

    Records that repeat another one word for word are taken once, also where only fields differ
    that a `shape` does not have: those are in no row. Where they differ otherwise nobody knows
    which is right: with money in them none is taken, otherwise the first by content is.
    """
    # The API promises no order (4.6). Sorting by id, and copies of an id by their content, gives
    # the same rows for the same book on every night, and the same files when a night is made again.
    by_id: dict[str, Element] = {}
    again: dict[str, list[Element]] = {}
    elements_once = []
    for element in elements:
        if element.identity is None:
            elements_once.append(element)
        elif by_id.setdefault(element.identity, element) is not element:
            again.setdefault(element.identity, []).append(element)
    for identity, element in sorted(by_id.items()):
        if identity in again:
            several = [element, *again[identity]]
            elements_once += _settle(several, notes, shape, carries_money=carries_money)
        else:
            elements_once.append(element)
    return elements_once


def _settle(
    several: list[Element], notes: Notes, shape: RecordShape | None, *, carries_money: bool
) -> list[Element]:
    texts = sorted(
        (_canonical(element_.raw), element_.request_no, element_.number, element_)
        for element_ in several
    )
    first, repeats = texts[0], texts[1:]
    # Word for word the same is one record, in whatever order its keys and lists came. Only where
    # that differs are the documented parts compared, which is slower.
    differ = any(text != first[0] for text, *_ in repeats) and _differ(several, shape)
    refused = texts if differ and carries_money else repeats
    for text, request_no, number, element in refused:
        same = f"repeats the id of data[{first[2]}]"
        if not differ:
            finding = "is the same" if text == first[0] else "differs in unknown fields alone"
            reason, money = f"{same} and {finding}: taken once", False
        else:
            outcome = "none of them is taken" if carries_money else "the first by content is taken"
            reason, money = f"{same} and differs: {outcome}", carries_money
        value = bytes(element.raw).decode()
        notes.rejects.append(
            Reject(
                request_no=request_no,
                path=f"data[{number}]",
                reason=reason,
                value=value,
                carries_money=money,
            )
        )
    return [] if differ and carries_money else [first[3]]


def _differ(several: list[Element], shape: RecordShape | None) -> bool:
    """Return whether records of one id differ in what is read of them."""
    if shape is None:
        return True
    try:
        trees = [_documented_part(read(bytes(element.raw)), shape) for element in several]
        return len({text_of(tree, canonical=True) for tree in trees}) > 1
    except (ValueError, RecursionError):
        return True


def _documented_part(value: Any, shape: RecordShape) -> Any:
    """Return a record without the fields that its shape does not have; a balance may have any."""
    if isinstance(value, list):
        return [_documented_part(element, shape) for element in value]
    if not isinstance(value, Members) or shape.name == "Balance":
        return value
    return Members(
        [
            (
                name,
                member
                if (inner := shape.fields[name].shape) is None
                else _documented_part(member, inner),
            )
            for name, member in value.pairs
            if name in shape.fields
        ]
    )


def _canonical(raw: msgspec.Raw) -> str:
    try:
        return text_of(read(bytes(raw)), canonical=True)
    except (ValueError, RecursionError):
        return bytes(raw).decode()


def batches(elements: list[Element]) -> Iterator[list[Element]]:
    """Yield consecutive elements of about `BATCH_BYTES`, which bounds the memory."""
    batch: list[Element] = []
    size = 0
    for element in elements:
        batch.append(element)
        size += len(element.raw)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
