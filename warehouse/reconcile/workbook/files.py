"""The files of a run: the workbook, and for machines the breaks and every key."""

import csv
import hashlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from warehouse.query.lookup_key import key_of_names
from warehouse.reconcile.store.records import RunResult
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.dimensions import WITH_IDS
from warehouse.reconcile.workbook import positions, write
from warehouse.reconcile.workbook.content import WorkbookContent
from warehouse.reconcile.workbook.readback import imprint
from warehouse.storage.layout import written_aside


def write_files(store: Store, content: WorkbookContent, result: RunResult) -> tuple[Path, ...]:
    """Write the workbook, and for machines the breaks and every key."""
    files = store.day_files(content.day)
    write.write(replace(content, written=result.written), files.workbook)
    written = files.workbook.read_bytes()
    imprint.store_imprint(store, result.written, written)
    text = io.StringIO()
    csv.writer(text).writerows(_rows_of_breaks(content))
    positions.write_positions(content, files.positions)
    with written_aside(files.breaks) as file:
        file.write(text.getvalue().encode())
    # What we wrote need not be read back.
    store.add_workbooks([hashlib.sha256(written).hexdigest()])
    return files.workbook, files.breaks, files.positions


def _rows_of_breaks(content: WorkbookContent) -> Iterator[list[str]]:
    """Yield the breaks as a table for machines: every text as it is."""
    fields = content.outcome.fields
    ids = [name for name in WITH_IDS if name in fields]
    heads = ["ledger", "snapshot", "difference", "first_seen", "cause", "lookup_key"]
    yield ["break_id", "result", *fields, *heads, *(f"{name}_id" for name in ids), "ever_seen"]
    for break_ in content.outcome.breaks:
        names = [break_.names[name] for name in fields]
        key = dict(zip(fields, break_.key, strict=True))
        yield [
            break_.id,
            break_.result,
            *names,
            break_.ledger or "",
            break_.snapshot or "",
            break_.difference,
            break_.first_seen.isoformat(),
            break_.cause,
            key_of_names(key.items()),
            *(key[name] for name in ids),
            break_.ever_seen.isoformat(),
        ]
