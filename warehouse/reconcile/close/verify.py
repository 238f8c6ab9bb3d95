"""Verification of a pack. It works on any machine, and needs neither a home nor a book.

It compares each file with the manifest, each workbook with its stored result, each result with its
day's positions, and each signature with its result.
"""

import tempfile
import zipfile
from datetime import date
from pathlib import Path

import duckdb

from warehouse.contract.model import count_of
from warehouse.reconcile.book import copy_table
from warehouse.reconcile.close import pack
from warehouse.reconcile.close.month import Month, first_and_last, month_of
from warehouse.reconcile.close.pack import PackCheck, PackFacts, PackManifest
from warehouse.reconcile.match import compare
from warehouse.reconcile.model import Run
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import NotReconciled
from warehouse.reconcile.workbook import write
from warehouse.reconcile.workbook.content import WORDING
from warehouse.reconcile.workbook.sign_off import describe_unshown, unshown
from warehouse.reconcile.workbook.verify import verify_workbook
from warehouse.spreadsheet.reading.files import UNREADABLE
from warehouse.storage.layout import digest_of

# `zipfile` raises RuntimeError if a file has a password.
_UNSUITED = (*UNREADABLE, LookupError, RuntimeError)
_AMOUNTS = {"ledger_text": "ledger", "snapshot_text": "snapshot"}


def is_pack(file: Path) -> bool:
    """Return whether a file name has a pack's suffix. Workbooks have a different suffix."""
    return file.suffix.lower() == ".zip"


def verify_pack(file: Path, program_version: str) -> PackCheck:
    """Compare every file of a pack with the rest of the pack.

    Raises `NotReconciled` if the file is not a complete pack.
    """
    if not file.exists():
        raise NotReconciled(f"{file} does not exist. Nothing was verified.")
    check = PackCheck(file)
    try:
        with (
            zipfile.ZipFile(file) as names,
            tempfile.TemporaryDirectory(prefix="nightbook-pack-") as scratch,
        ):
            check.sha256 = digest_of(file)
            record = Record(Path(scratch) / "reconcile")
            manifest = pack.read_manifest(names)
            if pack.unpack(names, manifest, record, check):
                record.import_tables()
                facts = pack.read_facts((record.root / pack.FACTS).read_bytes())
                if facts.wording != WORDING:
                    raise ValueError(
                        "an older version of nightbook wrote it: verify it with the version that "
                        "wrote it"
                    )
                _compare(record, manifest, facts, check, program_version)
    except _UNSUITED as error:
        raise NotReconciled(
            f"{file.name} is not a month's pack, or it is incomplete: {type(error).__name__}: "
            f"{str(error)[:200]}. Nothing was verified."
        ) from error
    return check


def _compare(
    record: Record, manifest: PackManifest, facts: PackFacts, check: PackCheck, program_version: str
) -> None:
    book_ids = {date.fromisoformat(day): book for day, book in facts.books.items()}
    first, last = first_and_last(facts.month)
    if not first <= facts.through <= last:
        raise ValueError(f"the pack is for {facts.month}, but its last day is {facts.through}")
    month = month_of(record, facts.month, book_ids, facts.through)
    if not month.results:
        raise ValueError("the pack does not contain any results")
    try:
        check.compared.append(_compare_results(record, month, check))
    except duckdb.Error as error:
        check.differences.append(f"results cannot be read: {str(error)[:200]}")
    check.compared.append(_compare_workbooks(record, month, facts, check))
    check.compared.append(_compare_signatures(record, month, check))
    check.compared.append(_compare_inputs(record, month, manifest, check))
    pages = {pack.TRAIL: pack.trail_table(record, month)}
    # Rerender the first page only if the same program version wrote the pack.
    if facts.program == program_version:
        archived = frozenset(manifest.ledgers.values())
        pages[pack.INDEX] = pack.index_page(record, month, facts, archived)
    _compare_pages(record, pages, facts, check)
    check.uncompared += [
        f"already missing when the pack was made: {words}" for words in facts.missing
    ]


def _compare_pages(
    record: Record, pages: dict[str, bytes], facts: PackFacts, check: PackCheck
) -> None:
    """Compare the human-readable pages in the pack with the rerendered `pages`."""
    if pack.INDEX not in pages:
        check.uncompared.append(
            f"{pack.INDEX}: written by a different version of nightbook ({facts.program}), so "
            "compared only with the manifest"
        )
    for name, content in pages.items():
        if (record.root / name).read_bytes() != content:
            check.differences.append(f"{name} does not match the other files in the pack")
    check.compared.append(" and ".join(pages))


def _compare_results(record: Record, month: Month, check: PackCheck) -> str:
    """Recompute each result's digest from the positions, and compare it with the stored digest."""
    compared = keys = 0
    for result in month.results:
        path = record.day_files(result.day).positions
        # This is not a difference, because the pack may have been written without the file.
        if not path.is_file():
            check.uncompared.append(f"the result of {result.day}: {path.name} is missing")
            continue
        try:
            digest, count = _digest(path, result)
        except NotReconciled as error:
            check.differences.append(str(error))
            continue
        compared, keys = compared + 1, keys + count
        if digest != result.digest:
            check.differences.append(
                f"{result.day}: the digest of the positions is {digest}, but the result has "
                f"{result.digest}"
            )
        if count != result.position_count:
            check.differences.append(
                f"{result.day}: the file has {count} positions, but the result has "
                f"{result.position_count}"
            )
    return f"{count_of(compared, 'result')} with the SHA-256 of their {count_of(keys, 'position')}"


def _digest(path: Path, result: Run) -> tuple[str, int]:
    """Return the digest of the stored positions, and the number of positions."""
    table = write.read_positions(path, result.run_id, result.fields)
    table = table.rename_columns([_AMOUNTS.get(name, name) for name in table.column_names])
    with duckdb.connect(":memory:") as connection:
        copy_table(connection, "compared", table.append_column("no", [list(range(table.num_rows))]))
        also = [result.name, str(result.day), result.snapshot_id]
        return compare.digest(connection, result.fields, also), table.num_rows


def _compare_workbooks(record: Record, month: Month, facts: PackFacts, check: PackCheck) -> str:
    compared = 0
    for day in month.days:
        result, path = day.result, record.day_files(day.day).workbook
        if result is None:
            continue
        if not path.is_file():
            check.uncompared.append(f"{path.name} is missing")
            continue
        try:
            workbook = verify_workbook(record, path)
        except NotReconciled as error:
            check.differences.append(str(error))
            continue
        compared += 1
        check.differences += [f"{path.name}: {words}" for words in workbook.differences]
        check.uncompared += [f"{path.name}: {words}" for words in workbook.uncompared]
        if workbook.run_id != result.run_id:
            check.differences.append(
                f"{path.name} shows run {workbook.run_id}, which is not the day's latest run"
            )
        unsigned = (
            describe_unshown(path, signature)
            for signature in unshown(path.read_bytes(), day.signatures)
        )
        check.differences += [
            f"{words}, is missing" for words in unsigned if words not in facts.missing
        ]
    return f"{count_of(compared, 'workbook')} with every cell that nightbook wrote"


def _compare_signatures(record: Record, month: Month, check: PackCheck) -> str:
    signatures = [item for item in record.signatures if item.day in month]
    for signature in signatures:
        result = record.result_of(signature.run_id)
        if result is None or (result.digest, result.day) != (signature.digest, signature.day):
            check.differences.append(
                f"{signature.day}: {signature.description}, but the pack has no matching result"
            )
    return f"{count_of(len(signatures), 'signature')} with the result that was signed"


def _compare_inputs(record: Record, month: Month, manifest: PackManifest, check: PackCheck) -> str:
    """Check by digest that the pack's ledgers and recon.toml files are the files that were read."""
    expected = pack.ledger_names(record, month)
    expected |= pack.settings_names(month)
    found = {
        name: member.sha256
        for name, member in manifest.members.items()
        if name.startswith((pack.LEDGERS, pack.SETTINGS))
    }
    check.differences += [
        f"{name} is not the file that nightbook read under this name"
        for name, digest in found.items()
        if expected.get(digest) != name
    ]
    settings = len(found) - len(manifest.ledgers)
    return f"{count_of(len(manifest.ledgers), 'ledger')} and {settings} recon.toml by SHA-256"
