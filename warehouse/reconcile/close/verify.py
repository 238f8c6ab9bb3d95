"""A pack held against itself, on any machine: without a home, a book or a folder of its own.

Each file is held against the manifest, each workbook against its stored result, each result
against the positions of its day, each signature against the result it is of.
"""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import duckdb

from warehouse.contract.model import count_of
from warehouse.reconcile.book import copy_table
from warehouse.reconcile.close import pack
from warehouse.reconcile.close.month import Month, first_and_last, month_of
from warehouse.reconcile.close.pack import (
    PackCheck,
    PackFacts,
    PackManifest,
    index_page,
    read_list,
    unpack,
)
from warehouse.reconcile.match import compare
from warehouse.reconcile.model import Run
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import NotReconciled
from warehouse.reconcile.workbook import write
from warehouse.reconcile.workbook.content import WORDING
from warehouse.reconcile.workbook.sign_off import unshown, unshown_words
from warehouse.reconcile.workbook.verify import verify_workbook
from warehouse.spreadsheet.reading.safety import UNREADABLE
from warehouse.storage.layout import digest_of

_SHOWS_SIGNATURES = 4  # the wording from which workbooks in packs show all signatures

_UNSUITED = (*UNREADABLE, LookupError, RuntimeError)  # the last one of a file with a password


def is_pack(file: Path) -> bool:
    """Return whether a file is a pack of a month, by its ending: a workbook has another."""
    return file.suffix.lower() == ".zip"


def verify_pack(file: Path, program_version: str) -> PackCheck:
    """Hold every file of a pack against what the pack says of it.

    Raises `NotReconciled` where it is no pack.
    """
    check = PackCheck(file)
    try:
        with (
            zipfile.ZipFile(file) as names,
            tempfile.TemporaryDirectory(prefix="nightbook-pack-") as scratch,
        ):
            check.sha256 = digest_of(file)
            record = Record(Path(scratch) / "reconcile")
            manifest = pack.read_manifest(read_list(names, pack.MANIFEST))
            is_whole = unpack(names, manifest, record, check)
            if is_whole:
                facts = pack.read_facts((record.root / pack.FACTS).read_bytes())
                _compare(record, manifest, facts, check, program_version)
    except _UNSUITED as error:
        raise NotReconciled(
            f"{file.name} is no pack of a month, or it is cut: {type(error).__name__}: "
            f"{str(error)[:200]}. Nothing was verified."
        ) from error
    return check


def _compare(
    record: Record, manifest: PackManifest, facts: PackFacts, check: PackCheck, program_version: str
) -> None:
    book_ids = {date.fromisoformat(day): book for day, book in facts.books.items()}
    first, last = first_and_last(facts.month)
    if not first <= facts.through <= last:
        raise ValueError(f"it says that it is of {facts.month} through {facts.through}")
    month = month_of(record, facts.month, book_ids, facts.through)
    if not month.results:
        raise ValueError("it has no result")
    with _telling(check, "results"):
        _compare_results(record, month, check)
    _compare_workbooks(record, month, facts, check)
    _compare_signatures(record, month, check)
    _compare_inputs(record, month, manifest, check)
    _compare_pages(record, month, manifest, facts, check, program_version=program_version)
    check.uncompared += [f"not in the pack when it was made: {words}" for words in facts.missing]


def _compare_pages(
    record: Record,
    month: Month,
    manifest: PackManifest,
    facts: PackFacts,
    check: PackCheck,
    *,
    program_version: str,
) -> None:
    """Render the pages for people again, unless another nightbook or other words wrote them."""
    pages = {}
    if facts.wording == WORDING:
        pages[pack.TRAIL] = pack.trail_table(record, month.first, month.through)
        if facts.program == program_version:
            here = frozenset(pack.ledgers_among(manifest).values())
            pages[pack.INDEX] = index_page(record, month, facts, here)
    if left := [name for name in (pack.TRAIL, pack.INDEX) if name not in pages]:
        check.uncompared.append(
            f"{' and '.join(left)} by an older nightbook ({facts.program}): only with the manifest"
        )
    for name, content in pages.items():
        if (record.root / name).read_bytes() != content:
            check.differences.append(f"{name} does not say what the files of the pack say")
    if pages:
        check.compared.append(" and ".join(pages))


@contextmanager
def _telling(check: PackCheck, what: str) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        check.differences.append(f"{what} cannot be read: {str(error)[:200]}")


def _compare_results(record: Record, month: Month, check: PackCheck) -> None:
    """Make the digest of each result again, from the positions of its day."""
    number = keys = 0
    for result in month.results:
        path = record.day_files(result.day).positions
        if not path.is_file():  # told as missing where it was when the pack was made
            check.uncompared.append(f"the result of {result.day}: {path.name} is not there")
            continue
        try:
            digest, count = _digest(path, result)
        except NotReconciled as error:
            check.differences.append(str(error))
            continue
        number, keys = number + 1, keys + count
        if digest != result.digest:
            check.differences.append(
                f"{result.day}: the positions come to {digest}, and the result says {result.digest}"
            )
        if count != sum(result.counts.values()):
            check.differences.append(f"{result.day}: {count} positions, and the result says others")
    check.compared.append(
        f"{count_of(number, 'result')} with the digest of their {count_of(keys, 'position')}"
    )


def _digest(path: Path, result: Run) -> tuple[str, int]:
    table = write.read_positions(path, result.run_id, result.fields)
    table = table.rename_columns(
        [
            {"ledger_text": "ledger", "snapshot_text": "snapshot"}.get(n, n)
            for n in table.column_names
        ]
    )
    with duckdb.connect(":memory:") as connection:
        numbered = table.append_column("no", [list(range(table.num_rows))])
        copy_table(connection, "compared", numbered)
        also = [result.name, str(result.day), result.snapshot_id]
        return compare.digest(connection, result.fields, also), table.num_rows


def _compare_workbooks(record: Record, month: Month, facts: PackFacts, check: PackCheck) -> None:
    number = 0
    for day in month.days:
        result, path = day.result, record.day_files(day.day).workbook
        if result is None:
            continue
        if not path.is_file():
            check.uncompared.append(f"{path.name} is not there")
            continue
        try:
            workbook = verify_workbook(record, path)
        except NotReconciled as error:
            check.differences.append(str(error))
            continue
        number += 1
        check.differences += [f"{path.name}: {words}" for words in workbook.differences]
        check.uncompared += [f"{path.name}: {words}" for words in workbook.uncompared]
        if workbook.run_id != result.run_id:
            check.differences.append(f"{path.name} shows run {workbook.run_id}")
        if facts.wording >= _SHOWS_SIGNATURES:
            unsigned = (
                unshown_words(path, signature)
                for signature in unshown(path.read_bytes(), day.signatures)
            )
            check.differences += [
                f"{words}: it is not there" for words in unsigned if words not in facts.missing
            ]
    check.compared.append(f"{count_of(number, 'workbook')} with every cell that nightbook wrote")


def _compare_signatures(record: Record, month: Month, check: PackCheck) -> None:
    signatures = [item for item in record.signatures if item.day in month]
    for signature in signatures:
        result = record.result_of(signature.run_id)
        if result is None or result.digest != signature.digest or result.day != signature.day:
            check.differences.append(f"{signature.day}: {signature.words} is of no result here")
    check.compared.append(f"{count_of(len(signatures), 'signature')} with the result it is of")


def _compare_inputs(record: Record, month: Month, manifest: PackManifest, check: PackCheck) -> None:
    """Check that each ledger and recon.toml is what its name says, and what the results read."""
    ledgers = pack.ledgers_among(manifest)
    expected = pack.ledger_names(record, month)
    if manifest.format < pack.NAMED_LEDGERS:
        expected = {digest: f"{pack.LEDGERS}{digest}" for digest in expected}
    expected |= {day.settings: f"{pack.SETTINGS}{day.settings}.toml" for day in month.closed_days}
    there = {
        name: member.sha256
        for name, member in manifest.members.items()
        if name.startswith((pack.LEDGERS, pack.SETTINGS))
    }
    for name, digest in there.items():
        if expected.get(digest) != name:
            check.differences.append(f"{name} is not what its name says, or no result read it")
    check.compared.append(
        f"{count_of(len(ledgers), 'ledger')} and {len(there) - len(ledgers)} recon.toml by digest"
    )
