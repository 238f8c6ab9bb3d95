"""A landed snapshot into staged Parquet: a pure function of its landed bytes.

Two parts: portfolios (five tables) and venues (three). Each part stages its tables and then a
`<part>.json` with what was counted, summed and noted; the snapshot is judged from both.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from pipelines import control, landing, portfolios, resources, venues
from pipelines.edge import protocol
from pipelines.elements import Element, batches, id_of, once
from pipelines.landing import Answer, Manifest
from pipelines.notes import Notes
from warehouse.contract import Table
from warehouse.layout import Layout, write_json
from warehouse.parquet import Writer, Written
from warehouse.tables import INSTRUMENTS

Tell = Callable[[int], None]
Part = dict[str, Any]


def flatten_portfolios(layout: Layout, manifest: Manifest, tell: Tell = lambda _: None) -> Part:
    """Stage portfolios, integrations, positions, accounts and balances; returns the part's facts.

    Raises `landing.Damaged` where the landed bytes are not those that were received.
    """
    notes = Notes()
    found = list(_elements(layout, manifest, manifest.answered("list_portfolios")))
    kept = [element for _, element in once(found, notes, carries_money=True)]
    with _staged(layout, manifest, portfolios.PORTFOLIO_TABLES) as tables:
        read = portfolios.resource(manifest.snapshot_date)
        _fill(batches(kept), read, notes, tables, tell)
    in_json = control.of_portfolios(element.raw for element in found)
    facts = _finished(layout, manifest, tables, notes, in_json)
    return _kept(layout, manifest, "portfolios", facts)


def flatten_venues(
    layout: Layout, manifest: Manifest, carried: dict[str, pa.Table], tell: Tell = lambda _: None
) -> Part:
    """Stage venues, venue_types and instruments; returns the part's facts.

    `carried` has last good instruments by venue, for venues that could not be read tonight; their
    `stale_since` is set already.
    """
    notes = Notes()
    embedded: dict[str, set[str]] = {}
    found = list(_elements(layout, manifest, manifest.answered("list_venues")))
    kept = [element for _, element in once(found, notes, carries_money=False)]
    rows = control.of_venues(element.raw for element in found)
    with _staged(layout, manifest, venues.VENUE_TABLES) as tables:
        read = venues.venues(manifest.snapshot_date, embedded)
        _fill(batches(kept), read, notes, tables, tell)
        instruments = _Instruments(layout, manifest, notes, tables, tell)
        listings = instruments.fill(embedded)
        rows[INSTRUMENTS.name] = instruments.count + _carry(tables, carried)
    facts = _finished(layout, manifest, tables, notes, control.Totals(rows, {}))
    facts |= {"listings": listings, "stale_venues": sorted(carried)}
    return _kept(layout, manifest, "venues", facts)


class _Instruments:
    """The instruments of every venue of a snapshot, from its typed and untyped lists."""

    def __init__(
        self,
        layout: Layout,
        manifest: Manifest,
        notes: Notes,
        tables: dict[str, Writer],
        tell: Tell,
    ) -> None:
        self._layout, self._manifest, self._notes = layout, manifest, notes
        self._tables, self._tell = tables, tell
        self.count = 0

    def fill(self, embedded: dict[str, set[str]]) -> list[list[str]]:
        """Write them all; returns (venue, instrument, missing from) of unequal lists."""
        listings: list[list[str]] = []
        for venue_id in sorted(whole_venues(self._manifest)):
            typed, untyped = self._lists(venue_id)
            typed_ids = {id_of(element.raw) for element in typed}
            more = [element for element in untyped if id_of(element.raw) not in typed_ids]
            kept = [one for _, one in once([*typed, *more], self._notes, carries_money=False)]
            read = venues.instruments(self._manifest.snapshot_date, venue_id)
            _fill(batches(kept), read, self._notes, self._tables, self._tell)
            self.count += _distinct_ids([*typed, *more])
            listings += _unequal(venue_id, embedded.get(venue_id), typed, more)
        return listings

    def _lists(self, venue_id: str) -> tuple[list[Element], list[Element]]:
        typed: list[Element] = []
        untyped: list[Element] = []
        for answer in self._manifest.answered("list_instruments"):
            if answer.venue_id == venue_id:
                into = typed if answer.query else untyped
                into += _elements(self._layout, self._manifest, [answer])
        return typed, untyped


def whole_venues(manifest: Manifest) -> set[str]:
    """Venues whose instruments were all read."""
    asked = [a for a in manifest.answers if a.operation == "list_instruments" and a.venue_id]
    failed = {a.venue_id for a in asked if a.file is None}
    return {str(a.venue_id) for a in asked} - {str(venue) for venue in failed}


def failed_venues(manifest: Manifest) -> set[str]:
    """Venues of which a list of instruments could not be read."""
    return {
        str(a.venue_id)
        for a in manifest.answers
        if a.operation == "list_instruments" and a.venue_id and a.file is None
    }


def _unequal(
    venue_id: str, embedded: set[str] | None, typed: list[Element], more: list[Element]
) -> list[list[str]]:
    if embedded is None:
        return []
    typed_ids = {str(one) for element in typed if (one := id_of(element.raw)) is not None}
    more_ids = {str(one) for element in more if (one := id_of(element.raw)) is not None}
    rows = [[venue_id, one, "venues"] for one in (typed_ids | more_ids) - embedded]
    rows += [[venue_id, one, "instruments"] for one in embedded - typed_ids - more_ids]
    rows += [[venue_id, one, "typed lists"] for one in more_ids]
    return sorted(rows)


def _elements(layout: Layout, manifest: Manifest, answers: list[Answer]) -> Iterator[Element]:
    for answer in answers:
        envelope = protocol.read_envelope(landing.body(layout, manifest, answer), single=False)
        for number, raw in enumerate(protocol.split(envelope)):
            yield Element(raw, answer.request_no, number)


def _distinct_ids(elements: Iterable[Element]) -> int:
    return len({one for element in elements if (one := id_of(element.raw)) is not None})


@contextlib.contextmanager
def _staged(
    layout: Layout, manifest: Manifest, tables: tuple[Table, ...]
) -> Iterator[dict[str, Writer]]:
    writers: dict[str, Writer] = {}
    try:
        for table in tables:
            path = layout.staged(table.name, manifest.snapshot_id)
            writers[table.name] = Writer(table, path)
        yield writers
    except BaseException as error:
        for writer in writers.values():
            writer.close(error)
        raise


def _fill(
    groups: Iterable[list[Element]],
    read: resources.Resource,
    notes: Notes,
    tables: dict[str, Writer],
    tell: Tell,
) -> None:
    for batch in groups:
        for name, rows in resources.rows(batch, read, notes).items():
            tables[name].write(rows)
        tell(sum(len(memoryview(element.raw)) for element in batch))


def _carry(tables: dict[str, Writer], carried: dict[str, pa.Table]) -> int:
    count = 0
    for _, rows in sorted(carried.items()):
        for batch in rows.to_batches():
            tables[INSTRUMENTS.name].write(batch)
            count += batch.num_rows
    return count


def _finished(
    layout: Layout,
    manifest: Manifest,
    tables: dict[str, Writer],
    notes: Notes,
    in_json: control.Totals,
) -> Part:
    written: dict[str, Written] = {}
    for name, writer in tables.items():
        done = writer.close()
        if done is not None:
            written[name] = done
    counted = {
        name: layout.staged(name, manifest.snapshot_id) for name in written if name in in_json.rows
    }
    in_lake = control.of_lake(counted)
    return {
        "tables": {name: asdict(one) for name, one in written.items()},
        "rejects": [asdict(reject) for reject in notes.rejects],
        "inexact": [asdict(one) for one in notes.inexact],
        "drift": list(notes.drift_rows()),
        "totals": list(control.compared("balances", in_json, in_lake)),
    }


def _kept(layout: Layout, manifest: Manifest, part: str, facts: Part) -> Part:
    write_json(layout.staged(part, manifest.snapshot_id).with_suffix(".json"), facts)
    return facts
