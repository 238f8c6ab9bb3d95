"""The undecoded records of landed responses."""

import mmap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pipelines.edge.response import wholeness
from pipelines.edge.response.envelope import raw_records, read_envelope
from pipelines.landing import zone
from pipelines.landing.manifest import Manifest, RequestRecord
from pipelines.records.identity import Element, id_of
from pipelines.records.notes import UNKNOWN_FIELD, Notes
from warehouse.storage.layout import Layout


class LandedResponse(NamedTuple):
    """A landed response: its body and its undecoded records."""

    body: bytes | mmap.mmap
    elements: list[Element]


def landed_elements(
    layout: Layout, manifest: Manifest, answers: list[RequestRecord], notes: Notes
) -> list[Element]:
    """Read landed responses and return their records. Add unknown envelope fields to `notes`."""
    landed = landed_responses(layout, manifest, answers, notes)
    return [element for answer in landed for element in answer.elements]


def landed_responses(
    layout: Layout,
    manifest: Manifest,
    answers: list[RequestRecord],
    notes: Notes,
    on_bytes: Callable[[int], object] = int,
) -> Iterator[LandedResponse]:
    """Yield landed responses with their records. Add unknown envelope fields to `notes`."""
    # The call stack limits how deeply JSON can be nested. A new thread starts with an empty stack,
    # so a body that could be read during the pull can be read here as well.
    with ThreadPoolExecutor(1, "elements") as bottom:
        for answer in answers:
            body = zone.body(layout, manifest, answer, on_bytes)
            elements = bottom.submit(_split, body, answer.request_no, notes).result()
            yield LandedResponse(body, elements)


def _split(body: bytes | mmap.mmap, request_no: int, notes: Notes) -> list[Element]:
    envelope = read_envelope(body, single=False)
    for path, name, example in wholeness.unknown_members(envelope):
        notes.add_drift(path, UNKNOWN_FIELD, name, example)
    # The tolerant reader rejects records that are not objects, so that all other records are still
    # read.
    raws = raw_records(envelope)
    return [Element(raw, request_no, number, id_of(raw)) for number, raw in enumerate(raws)]
