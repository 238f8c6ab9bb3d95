"""The records of landed answers, split but not read, and what is news in their envelopes."""

import mmap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pipelines.edge.response import wholeness
from pipelines.edge.response.envelope import raw_records, read_envelope
from pipelines.landing import zone
from pipelines.landing.manifest import Manifest, RequestRecord
from pipelines.records.issues import UNKNOWN_FIELD, Notes
from pipelines.records.split import Element, id_of
from warehouse.storage.layout import Layout


class LandedAnswer(NamedTuple):
    """One landed answer: its body, and its records in it."""

    body: bytes | mmap.mmap
    elements: list[Element]


def landed_elements(
    layout: Layout, manifest: Manifest, answers: list[RequestRecord], notes: Notes
) -> list[Element]:
    """Split answers into records; what only their envelopes have goes to `notes`."""
    landed = landed_answers(layout, manifest, answers, notes)
    return [element for answer in landed for element in answer.elements]


def landed_answers(
    layout: Layout,
    manifest: Manifest,
    answers: list[RequestRecord],
    notes: Notes,
    on_bytes: Callable[[int], object] = int,
) -> Iterator[LandedAnswer]:
    """Yield answers with their records; what only their envelopes have goes to `notes`."""
    # How deep JSON may nest is counted from where its reader stands: a new thread stands at the
    # bottom, so what could be read when it was pulled can be read again from anywhere.
    with ThreadPoolExecutor(1, "elements") as bottom:
        for answer in answers:
            body = zone.body(layout, manifest, answer, on_bytes)
            elements = bottom.submit(_split, body, answer.request_no, notes).result()
            yield LandedAnswer(body, elements)


def _split(body: bytes | mmap.mmap, request_no: int, notes: Notes) -> list[Element]:
    envelope = read_envelope(body, single=False, with_records=True)
    for path, name, example in wholeness.unknown(envelope):
        notes.saw(path, UNKNOWN_FIELD, name, example)
    # What is no object is for the tolerant reader: such a record must not hide its siblings.
    raws = raw_records(envelope)
    return [Element(raw, request_no, number, id_of(raw)) for number, raw in enumerate(raws)]
