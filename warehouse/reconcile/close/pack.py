"""The pack of a month: one zip with all that stands behind it; the same month, the same bytes."""

import csv
import hashlib
import io
import re
import unicodedata
import zipfile
from collections.abc import Iterator
from datetime import date
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from warehouse.reconcile.close.month import Month
from warehouse.reconcile.comments.trail import TITLES, trail
from warehouse.reconcile.store.input_archive import archived_path
from warehouse.reconcile.store.records import to_json
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.workbook.sign_off import with_signatures
from warehouse.spreadsheet.reading.archives import GZIP
from warehouse.spreadsheet.writing.cells import is_hostile
from warehouse.storage.layout import json_bytes, written_aside

# In format 1 the name of a ledger was its SHA-256, and no more.
FORMAT, _FIRST_FORMAT = 2, 1
MANIFEST, FACTS, INDEX, TRAIL = "manifest.json", "closing.json", "index.html", "audit_trail.csv"
DAYS, LEDGERS, SETTINGS, STORE = "days/", "ledgers/", "settings/", "store/"
# Characters that some system does not allow in a name, and dots and blanks at an end of it.
_UNPORTABLE = re.compile(r'[<>:"\\|?*\x00-\x1f\x7f\ud800-\udfff]|^[. ]|[. ]+$')
_LONGEST_NAME, _LONGEST_ENDING = 150, 10  # bytes, and characters
_MOMENT = (1980, 1, 1, 0, 0, 0)  # of every member: the same content is the same file


class PackMember(NamedTuple):
    """One file of a pack."""

    name: str
    content: bytes


class MemberDigest(msgspec.Struct, frozen=True):
    """What the manifest says of one file."""

    sha256: str
    size: int


class PackManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Every file of a pack but this one, by its name."""

    format: int
    month: str
    version: int
    members: dict[str, MemberDigest]


class PackFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a pack says of itself that does not follow from what is in it.

    `books` are snapshots by day, `changes` what is another than in the version before, `missing`
    what should be in the pack and was not there any more. `wording` is that of its pages.
    """

    month: str
    version: int
    first: date
    through: date
    who: str
    at: str
    program: str
    books: dict[str, str]
    changes: tuple[str, ...]
    missing: tuple[str, ...]
    wording: int = 1


def pack_name(month: str, version: int) -> str:
    """Return the name of a version's file: the first one is named after its month alone."""
    return f"{month}.zip" if version == 1 else f"{month}_v{version}.zip"


def evidence(store: Store, month: Month) -> Iterator[PackMember]:
    """Yield the files that stand behind a month, as they lie in the reconciliation's folder."""
    for day in month.days:
        files = store.day_files(day.day)
        for path in files if day.result else ():
            if path.is_file():
                content = path.read_bytes()
                if path == files.workbook:
                    content = with_signatures(content, day.signatures)
                yield PackMember(f"{DAYS}{day.day}/{path.name}", content)
    yield from _stored_records(store, month)
    names = ledger_names(store, month)
    names |= {day.settings: f"{SETTINGS}{day.settings}.toml" for day in month.closed_days}
    for sha256, name in sorted(names.items(), key=itemgetter(1)):
        path = archived_path(store, sha256)
        if path.is_file():
            yield PackMember(name, path.read_bytes())


def _stored_records(store: Store, month: Month) -> Iterator[PackMember]:
    """Yield the results of every run, and all that people wrote."""
    for day in (day.day for day in month.days):
        for path in store.result_paths(day):
            yield _of_store(store, path)
            written = store.root / "written" / f"{store.result_at(path).written}.json.gz"
            if written.is_file():
                yield _of_store(store, written)
    for records in (store.annotations, store.signatures, store.restatements, store.closings):
        yield from (_of_store(store, path) for path in records.paths())


def _of_store(store: Store, path: Path) -> PackMember:
    return PackMember(STORE + path.relative_to(store.root).as_posix(), path.read_bytes())


def ledger_names(store: Store, month: Month) -> dict[str, str]:
    """Return by digest the name that each ledger of a month has in its pack.

    It is the name that it had in the inbox, in a folder of the first day that read it.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for day in month.days:
        for path in store.result_paths(day.day):
            for source in store.result_at(path).sources:
                if source.sha256 not in names:
                    name = _free_name(f"{LEDGERS}{day.day}/{_portable(source.name)}", taken)
                    names[source.sha256] = name
    return names


def _portable(name: str) -> str:
    """Return the name of a ledger as any system can unpack it."""
    # The archive has what was packed, so the ending of gzip would be wrong.
    name = name[: -len(GZIP)] if name.lower().endswith(GZIP) else name
    parts = (_UNPORTABLE.sub("_", part) for part in name.split("/"))
    return "/".join(_cut(part) for part in parts if part)


def _cut(name: str) -> str:
    """Return a name that no file system finds too long, with the ending that it has."""
    path = PurePosixPath(name)
    ending = path.suffix if len(path.suffix) <= _LONGEST_ENDING else ""
    stem = name.removesuffix(ending).encode()[:_LONGEST_NAME]
    return stem.decode(errors="ignore") + ending


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name that no other file has on any system, and remember it."""
    path, number = PurePosixPath(name), 1
    while (key := unicodedata.normalize("NFC", name).casefold()) in taken:
        number += 1
        name = str(path.with_name(f"{path.stem} ({number}){path.suffix}"))
    taken.add(key)
    return name


def trail_table(store: Store, first: date, through: date) -> bytes:
    """Return the audit trail of a month as CSV; what a spreadsheet would run is text."""
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\r\n")
    rows.writerow(TITLES)
    for line in trail(store, first, through):
        rows.writerow([f"'{cell}" if is_hostile(cell) else cell for cell in line])
    return table.getvalue().encode("utf-8-sig", "surrogatepass")


def write_pack(path: Path, facts: PackFacts, members: Iterator[PackMember]) -> tuple[str, int]:
    """Write a pack, whole or not at all; return its SHA-256 and size. Members are in order."""
    digests: dict[str, MemberDigest] = {}
    with written_aside(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as names:
            for member in members:
                sha256 = hashlib.sha256(member.content).hexdigest()
                digest = digests.setdefault(member.name, MemberDigest(sha256, len(member.content)))
                if digest.sha256 != sha256:
                    raise ValueError(f"{member.name} has two contents")
                if names.NameToInfo.get(member.name) is None:
                    _add(names, member)
            manifest = PackManifest(
                format=FORMAT, month=facts.month, version=facts.version, members=digests
            )
            _add(names, PackMember(MANIFEST, json_bytes(to_json(manifest))))
        size = file.tell()
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest(), size


def _add(names: zipfile.ZipFile, member: PackMember) -> None:
    entry = zipfile.ZipInfo(member.name, _MOMENT)
    entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
    entry.external_attr = 0o640 << 16
    names.writestr(entry, member.content)


def read_facts(content: bytes) -> PackFacts:
    """Return what a pack says of itself; raise `ValueError` where that is no such file."""
    return msgspec.json.decode(content, type=PackFacts)


def read_manifest(content: bytes) -> PackManifest:
    """Return the manifest of a pack; raise `ValueError` where that is no such file."""
    manifest = msgspec.json.decode(content, type=PackManifest)
    if manifest.format not in (_FIRST_FORMAT, FORMAT):
        known = f"{_FIRST_FORMAT} and {FORMAT}"
        raise ValueError(f"it has format {manifest.format}, and this nightbook reads {known}")
    return manifest


def ledgers_among(manifest: PackManifest) -> dict[str, str]:
    """Return the digests of the ledgers in a pack, by their names there."""
    return {
        name: member.sha256 for name, member in manifest.members.items() if name.startswith(LEDGERS)
    }
