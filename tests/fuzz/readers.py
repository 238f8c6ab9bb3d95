"""A process that reads documents of any shape with both readers and compares the results.

`python -m tests.fuzz.readers SEED FIRST COUNT [unguarded]` writes the number of each document to
standard error before it reads the document. If the interpreter crashes, the last number names the
document. Standard output is one line of JSON with the counts and all differences.
"""

import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

from pipelines.edge.errors import MalformedResponseError
from pipelines.edge.response import envelope
from pipelines.edge.response.envelope import raw_records, read_envelope
from pipelines.flatten import portfolios, resources, venues
from pipelines.flatten.resources import Resource
from pipelines.records import fast_reader
from pipelines.records.identity import Element, distinct_records, id_of
from pipelines.records.notes import Notes
from tests.fuzz import shapeless

DAY = date(2026, 11, 20)
Made = tuple[dict[str, list[str]], dict[str, list[str]]]
RESOURCES: tuple[tuple[Callable[[Random], shapeless.Pairs], Callable[[], Resource]], ...] = (
    (shapeless.portfolio, lambda: portfolios.portfolio_resource(DAY)),
    (shapeless.venue, lambda: venues.venue_resource(DAY, {})),
    (shapeless.instrument, lambda: venues.instrument_resource(DAY, "v", [])),
)


def _told(rows: dict[str, pa.RecordBatch], notes: Notes) -> Made:
    for batch in rows.values():
        batch.validate(full=True)
    listed = {"rejects": notes.rejects, "inexact": notes.inexact, "drift": notes.drift_rows()}
    return (
        {name: [repr(row) for row in batch.to_pylist()] for name, batch in rows.items()},
        {name: sorted(map(repr, each)) for name, each in listed.items()},  # type: ignore[call-overload]  # three kinds
    )


def _by(reader: Callable[..., Any], batch: list[Element], how: Resource) -> Made:
    notes = Notes()
    return _told(reader(batch, how, notes), notes)


def compared(batch: list[Element], how: Callable[[], Resource]) -> str:
    """Return `equal`, `refused` if the fast reader refuses the batch, or the difference."""
    tolerant = _by(resources._tolerant_rows, batch, how())
    try:
        fast = _by(resources._plain_rows, batch, how())
    except fast_reader.UndocumentedRecordError:
        if _by(resources.build_rows, batch, how()) != tolerant:
            return "what was refused left something behind"
        return "refused"
    return "equal" if fast == tolerant else f"fast {fast} but tolerant {tolerant}"


def _cut_out(body: bytes, *, walked: bool) -> list[bytes] | None:
    """Return the records of a response, or None if it is refused.

    If `walked`, the response is walked like a large one.
    """
    envelope._MIN_WALKED, envelope._MIN_SLICED = (1, 0) if walked else (1 << 24, 1 << 12)
    try:
        read = read_envelope(body, single=False)
        return [bytes(raw) for raw in raw_records(read)]
    except (MalformedResponseError, RecursionError):
        return None


def _checked(raws: list[bytes]) -> list[Element] | None:
    """Return the records as a night reads them, or None if the whole response is refused."""
    body = b'{"data":[' + b",".join(raws) + b'],"meta":{}}'
    cut_out = _cut_out(body, walked=False)
    if cut_out != _cut_out(body, walked=True):
        raise RuntimeError("a walked answer has other records, or is refused where it was not")
    if cut_out is None:
        return None
    found = [msgspec.Raw(raw) for raw in cut_out]
    elements = [Element(raw, 1, number, id_of(raw)) for number, raw in enumerate(found)]
    return distinct_records(elements, Notes(), carries_money=False)


def _unchecked(raws: list[bytes]) -> list[Element]:
    """Return the records that are valid JSON, without the checks of a whole response."""
    found = []
    for number, raw in enumerate(raws):
        try:
            msgspec.json.decode(raw)
            raw.decode()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        found.append(Element(msgspec.Raw(raw), 1, number, None))
    return found


def one(seed: int, number: int) -> tuple[str, list[bytes]]:
    """Read one document. Return the outcome and the records."""
    rng = Random(f"{seed} {number}")
    make, how = RESOURCES[number % len(RESOURCES)]
    raws = shapeless.records(rng, make)
    elements = _checked(raws) if rng.random() < 0.8 else _unchecked(raws)
    if elements is None:
        return "answer refused", raws
    if not elements:
        return "empty", raws
    return compared(elements, how), raws


def main(seed: int, first: int, count: int) -> dict[str, Any]:
    """Read `count` documents, from number `first`. Return the counts and the differences."""
    counts: Counter[str] = Counter()
    wrong = []
    for number in range(first, first + count):
        os.write(2, f"{number}\n".encode())
        told, raws = one(seed, number)
        counts[told if len(told) < 20 else "different"] += 1
        if len(told) >= 20:
            wrong.append(f"{seed} {number} {raws!r}: {told}"[:3000])
    return {"counts": counts, "wrong": wrong}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "unguarded" in sys.argv:
        fast_reader._prove = lambda *_: None
    print(json.dumps(main(*map(int, sys.argv[1:4]))))
