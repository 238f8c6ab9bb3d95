"""Flattening of a landed snapshot into Parquet files in the staging folder.

The files depend only on the landed bytes, so flattening can be repeated. A snapshot has two parts:
portfolios (five tables) and venues (three tables). Each part stages its tables and then
`<part>.json`, which contains the part's counts, sums and findings. The guards read both parts.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from pipelines.flatten import listings, portfolios, resources, venues
from pipelines.flatten.carry_over import Carry, carry_nothing
from pipelines.flatten.control_totals import reference, totals
from pipelines.flatten.control_totals.reference import Totals
from pipelines.flatten.control_totals.totals import ControlTotal
from pipelines.flatten.landed_records import landed_elements, landed_responses
from pipelines.flatten.listings import Embedded
from pipelines.flatten.parts import PORTFOLIOS, VENUES, Part, VenuesPart, write_part
from pipelines.landing.manifest import Manifest, RequestRecord
from pipelines.records import identity, schema
from pipelines.records.fast_reader import batches
from pipelines.records.identity import Element, distinct_records, id_of
from pipelines.records.notes import Notes
from warehouse.contract.book import INSTRUMENTS
from warehouse.contract.model import Table
from warehouse.progress import ROWS, ProgressCallback, Tally, silent
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import Writer, WrittenFile


class _Instruments:
    """The instruments of all venues in a snapshot, from lists requested with and without a type.

    A venue's instruments are requested by type and, if necessary, without a type (the untyped
    list). `empty` contains the venues whose lists were read but are empty.
    """

    def __init__(
        self,
        layout: Layout,
        manifest: Manifest,
        notes: Notes,
        tables: dict[str, Writer],
        say: ProgressCallback,
    ) -> None:
        self._layout, self._manifest, self._notes = layout, manifest, notes
        self._tables, self._say = tables, say
        self._count = 0
        self._known: dict[str, set[str]] = {}
        self.empty: set[str] = set()

    def fill(self, embedded: Embedded) -> list[tuple[str, str, str]]:
        """Write the instruments in all lists. Return the lists' differences (see `unequal`)."""
        unequal: list[tuple[str, str, str]] = []
        whole = whole_venues(self._manifest)
        lists = Tally(self._say, len(whole), "venues with their instruments", ROWS)
        for venue_id, typed, more in self._lists(self._notes):
            elements = distinct_records([*typed, *more], self._notes, carries_money=False)
            listed: list[pa.StructArray] = []
            read = venues.instrument_resource(self._manifest.snapshot_date, venue_id, listed)
            filled = _fill_tables(elements, read, self._notes, self._tables)
            lists.add(1, sum(rows for _, rows in filled))
            typed_ids, more_ids = _ids(typed), _ids(more)
            known = self._known[venue_id] = typed_ids | more_ids
            self._count += len(known)
            if not typed and not more:
                self.empty.add(venue_id)
            unequal += listings.unequal(
                venue_id, embedded.get(venue_id), typed_ids, more_ids, listed
            )
        return unequal

    def fill_from_venues(self, embedded: Embedded, carried: dict[str, pa.Table]) -> None:
        """Write the instruments that are in a venue's record but not in its instrument lists."""
        day = self._manifest.snapshot_date
        for venue_id, rows in carried.items():
            self._known.setdefault(venue_id, set()).update(rows["instrument_id"].to_pylist())
        for venue_id in sorted(embedded.keys() & whole_venues(self._manifest)):
            known = self._known.get(venue_id, set())
            batch = listings.rows_beyond(day, venue_id, embedded[venue_id], known)
            if batch is not None:
                self._tables[INSTRUMENTS.name].write(batch)

    def count_from_venues(self, raws: list[msgspec.Raw], *, precise: bool) -> int:
        """Count the instruments that are in a venue's record but not in its instrument lists."""
        embedded = reference.embedded_instruments(raws) if precise else _instruments_of_venues(raws)
        whole = whole_venues(self._manifest)
        return sum(
            len(ids - self._known.get(venue_id, set()))
            for venue_id, ids in embedded.items()
            if venue_id in whole
        )

    def count_records(self, *, precise: bool) -> int:
        """Count the distinct instruments in the landed instrument lists."""
        if not precise:
            return self._count
        return sum(
            reference.identities(element.raw for element in (*typed, *more))
            for _, typed, more in self._lists(Notes())
        )

    def _lists(self, notes: Notes) -> Iterator[tuple[str, list[Element], list[Element]]]:
        """Yield each venue with its instruments from typed lists and from the untyped list.

        If an instrument is in both, it is left out of the untyped list.
        """
        answers: dict[str | None, list[RequestRecord]] = defaultdict(list)
        for answer in self._manifest.responses_of("list_instruments"):
            answers[answer.venue_id].append(answer)
        venues = sorted(whole_venues(self._manifest))
        ordered = [answer for venue_id in venues for answer in answers[venue_id]]
        landed = landed_responses(self._layout, self._manifest, ordered, notes)
        for venue_id in venues:
            typed: list[Element] = []
            untyped: list[Element] = []
            for answer in answers[venue_id]:
                into = typed if answer.query else untyped
                into += next(landed).elements
            listed = {element.identity for element in typed} if untyped else set()
            more = [element for element in untyped if element.identity not in listed]
            yield venue_id, typed, more


def flatten_portfolios(layout: Layout, manifest: Manifest, say: ProgressCallback = silent) -> Part:
    """Write the five portfolio tables of a snapshot to the staging folder. Return their metadata.

    Raises `landing.DamagedFile` if the landed bytes differ from the received bytes.
    """
    notes = Notes()
    elements, written = portfolio_tables(layout, manifest, notes, say)

    def count(*, precise: bool) -> Totals:
        return totals.of_portfolios((element.raw for element in elements), precise=precise)

    part = Part(
        tables=written,
        rejects=notes.rejects,
        inexact=notes.inexact,
        drift=list(notes.drift_rows()),
        totals=_control_totals(_files(layout, manifest, written), count, say),
    )
    write_part(layout.part(PORTFOLIOS, manifest.snapshot_id), part)
    return part


def portfolio_tables(
    layout: Layout, manifest: Manifest, notes: Notes, say: ProgressCallback = silent
) -> tuple[list[Element], dict[str, WrittenFile]]:
    """Write the five portfolio tables. Return the landed records and the written files."""
    landed = landed_elements(layout, manifest, manifest.responses_of("list_portfolios"), notes)
    elements = distinct_records(landed, notes, carries_money=True, shape=schema.PORTFOLIO)
    with _staging_writers(layout, manifest, portfolios.PORTFOLIO_TABLES) as tables:
        read = portfolios.portfolio_resource(manifest.snapshot_date)
        progress = Tally(say, len(elements), "portfolios", ROWS)
        for records, rows in _fill_tables(elements, read, notes, tables):
            progress.add(records, rows)
        return landed, _close_writers(tables)


def flatten_venues(
    layout: Layout, manifest: Manifest, carry: Carry = carry_nothing, say: ProgressCallback = silent
) -> VenuesPart:
    """Write the three venue tables of a snapshot to the staging folder. Return their metadata.

    If a venue's instrument list could not be read or is empty, `carry` returns the instruments that
    were last known for the venue.
    """
    notes = Notes()
    embedded: Embedded = {}
    landed = landed_elements(layout, manifest, manifest.responses_of("list_venues"), notes)
    elements = distinct_records(landed, notes, carries_money=False)
    with _staging_writers(layout, manifest, venues.VENUE_TABLES) as tables:
        read = venues.venue_resource(manifest.snapshot_date, embedded)
        progress = Tally(say, len(elements), "venues", ROWS)
        for records, rows in _fill_tables(elements, read, notes, tables):
            progress.add(records, rows)
        instruments = _Instruments(layout, manifest, notes, tables, say)
        unequal = instruments.fill(embedded)
        carried = carry(failed_venues(manifest), instruments.empty)
        carried_rows = _carry(tables, carried.rows)
        instruments.fill_from_venues(embedded, carried.rows)
        written = _close_writers(tables)

    def count(*, precise: bool) -> Totals:
        rows = reference.venues(element.raw for element in landed)
        raws = [element.raw for element in elements]
        listed = instruments.count_records(precise=precise)
        beyond = instruments.count_from_venues(raws, precise=precise)
        rows[INSTRUMENTS.name] = carried_rows + listed + beyond
        return Totals(rows, {})

    part = VenuesPart(
        tables=written,
        rejects=notes.rejects,
        inexact=notes.inexact,
        drift=list(notes.drift_rows()),
        totals=_control_totals(_files(layout, manifest, written), count, say),
        listings=unequal,
        stale_venues=sorted(carried.rows),
        emptied=list(carried.emptied),
    )
    write_part(layout.part(VENUES, manifest.snapshot_id), part)
    return part


def whole_venues(manifest: Manifest) -> set[str]:
    """Return the IDs of the venues whose instrument lists could all be read."""
    return _venues(manifest, failed=False) - failed_venues(manifest)


def failed_venues(manifest: Manifest) -> set[str]:
    """Return the IDs of the venues with an instrument list that could not be read."""
    return _venues(manifest, failed=True)


def _venues(manifest: Manifest, *, failed: bool) -> set[str]:
    return {
        answer.venue_id
        for answer in manifest.book
        if answer.venue_id is not None and (answer.file is None) is failed
    }


def _ids(elements: list[Element]) -> set[str]:
    return {element.identity for element in elements if element.identity is not None}


def _instruments_of_venues(raws: list[msgspec.Raw]) -> dict[str, set[str]]:
    embedded = ((id_of(raw), identity.embedded_ids(raw)) for raw in raws)
    return {venue_id: ids for venue_id, ids in embedded if venue_id is not None and ids}


@contextlib.contextmanager
def _staging_writers(
    layout: Layout, manifest: Manifest, tables: tuple[Table, ...]
) -> Iterator[dict[str, Writer]]:
    writers: dict[str, Writer] = {}
    try:
        for table in tables:
            path = layout.staged_file(table.name, manifest.snapshot_id)
            writers[table.name] = Writer(table, path, manifest.snapshot_id)
        yield writers
    except BaseException as error:
        for writer in writers.values():
            writer.close(error)
        raise


def _fill_tables(
    elements: list[Element], read: resources.Resource, notes: Notes, tables: dict[str, Writer]
) -> Iterator[tuple[int, int]]:
    """Write all records as table rows. After each batch, yield its record and row counts."""
    for batch in batches(elements):
        batches_by_table = resources.build_rows(batch, read, notes)
        for name, rows in batches_by_table.items():
            tables[name].write(rows)
        yield len(batch), sum(rows.num_rows for rows in batches_by_table.values())


def _carry(tables: dict[str, Writer], carried: dict[str, pa.Table]) -> int:
    count = 0
    for _, rows in sorted(carried.items()):
        for batch in rows.to_batches():
            tables[INSTRUMENTS.name].write(batch)
            count += batch.num_rows
    return count


def _close_writers(tables: dict[str, Writer]) -> dict[str, WrittenFile]:
    """Close all writers, and return the written files by table."""
    return {name: written for name, writer in tables.items() if (written := writer.close())}


def _files(layout: Layout, manifest: Manifest, tables: Iterable[str]) -> dict[str, Path]:
    return {name: layout.staged_file(name, manifest.snapshot_id) for name in tables}


def _control_totals(
    staged: dict[str, Path], count: Callable[..., Totals], say: ProgressCallback
) -> list[ControlTotal]:
    progress = Tally(say, 2, "control totals")
    in_lake = totals.of_lake(staged)
    progress.add(1)
    # The quick count is only valid for documented records. So if there is a difference, repeat the
    # comparison with the precise count.
    compared = totals.compare(count(precise=False), in_lake)
    if any(total.differs for total in compared):
        compared = totals.compare(count(precise=True), in_lake)
    progress.add(1)
    # Return Arrow's unused memory to the system, because the next steps need it (70 MB for 300,000
    # accounts).
    pa.default_memory_pool().release_unused()
    return compared
