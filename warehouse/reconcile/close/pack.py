"""A month's evidence pack: one ZIP file. The same month always produces the same bytes."""

import base64
import csv
import hashlib
import io
import re
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from operator import attrgetter, itemgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from warehouse.contract.model import count_of
from warehouse.query.formats import printable
from warehouse.reconcile.close.month import Month, closings_of
from warehouse.reconcile.model import (
    AGE_BANDS,
    BY_RULE,
    FINGERPRINT,
    TITLES,
    Break,
    Run,
    StatusDecision,
    count_ages,
    moment,
    to_json,
)
from warehouse.reconcile.record import tables
from warehouse.reconcile.record.annotations import acceptors, state
from warehouse.reconcile.record.archive import archived_path
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import trail
from warehouse.reconcile.settings.config import ROLES
from warehouse.reconcile.workbook.sign_off import with_signatures
from warehouse.spreadsheet.reading.files import GZIP
from warehouse.spreadsheet.writing.cells import is_hostile
from warehouse.storage.layout import BLOCK, json_bytes, make_directory, written_aside

FORMAT = 3
MANIFEST, FACTS, INDEX, TRAIL = "manifest.json", "closing.json", "index.html", "audit_trail.csv"
DAYS, LEDGERS, SETTINGS, STORE = "days/", "ledgers/", "settings/", "store/"

# Characters that some systems do not allow in a file name, and dots and spaces at either end.
_UNPORTABLE = re.compile(r'[<>:"\\|?*\x00-\x1f\x7f\ud800-\udfff]|^[. ]|[. ]+$')
# The maximum length of a file name (in bytes) and of its extension (in characters).
_MAX_NAME_BYTES, _MAX_ENDING_LENGTH = 150, 10
# A constant timestamp, so that equal content produces an identical file.
_ZIP_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
_MAX_BYTES = 16 << 30  # maximum unpacked size of a pack, in bytes
_MAX_MANIFEST_BYTES = 64 << 20
_MAX_BREAKS = 300  # maximum number of breaks on the first page
_HERE = Path(__file__).parent


class PackMember(NamedTuple):
    """One file in a pack."""

    name: str
    content: bytes


class MemberDigest(msgspec.Struct, frozen=True):
    """A file's digest and size, as listed in the manifest."""

    sha256: str
    size: int


class PackManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A pack's manifest, which lists all other files in the pack by name."""

    format: int
    month: str
    version: int
    members: dict[str, MemberDigest]

    @property
    def ledgers(self) -> dict[str, str]:
        """The ledgers' digests, by file name in the pack."""
        members = self.members.items()
        return {name: member.sha256 for name, member in members if name.startswith(LEDGERS)}


class PackFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a pack that its other files do not contain.

    `books` maps days to snapshot IDs. `changes` lists the differences from the previous version.
    `missing` lists files and signatures that should be in the pack but are missing. `wording` is
    the version of the wording on its pages.
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
    wording: int


def pack_name(month: str, version: int) -> str:
    """Return the file name of a pack. A month's first version has no number in its name."""
    return f"{month}.zip" if version == 1 else f"{month}_v{version}.zip"


def evidence(record: Record, month: Month) -> Iterator[PackMember]:
    """Yield a month's day files, stored records, ledgers and settings."""
    for day in month.days:
        files = record.day_files(day.day)
        for path in files if day.result else ():
            if path.is_file():
                content = path.read_bytes()
                if path == files.workbook:
                    content = with_signatures(content, day.signatures)
                yield PackMember(f"{DAYS}{day.day}/{path.name}", content)
    yield from _stored_records(record, month)
    names = ledger_names(record, month) | settings_names(month)
    for sha256, name in sorted(names.items(), key=itemgetter(1)):
        path = archived_path(record, sha256)
        if path.is_file():
            yield PackMember(name, path.read_bytes())


def _stored_records(record: Record, month: Month) -> Iterator[PackMember]:
    """Yield a month's stored rows and workbook cells, and all comments and signatures."""
    with record.open_for_queries() as connection:
        for table, rows in tables.export(connection, month.first, month.through):
            lines = "".join(f"{tables.to_json(row)}\n" for row in rows)
            yield PackMember(f"{STORE}{table}.jsonl", lines.encode("ascii"))
    written = {run.written for day in month.days for run in record.runs_of(day.day)}
    for identity in sorted(written - {""}):
        content = record.imprint(identity)
        if content is not None:
            yield PackMember(f"{STORE}written/{identity}.json.gz", content)


def settings_names(month: Month) -> dict[str, str]:
    """Map the digests of the month's recon.toml files to their file names in the pack."""
    return {day.settings: f"{SETTINGS}{day.settings}.toml" for day in month.closed_days}


def ledger_names(record: Record, month: Month) -> dict[str, str]:
    """Map the digests of the month's ledgers to their file names in the pack.

    The file name is the ledger's name in the inbox, in a folder named after the first day that read
    the ledger.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for day in month.days:
        for run in record.runs_of(day.day):
            for source in run.sources:
                if source.sha256 not in names:
                    name = _free_name(f"{LEDGERS}{day.day}/{_portable(source.name)}", taken)
                    names[source.sha256] = name
    return names


def _portable(name: str) -> str:
    """Convert a ledger's name to a file name that is valid on every system."""
    # The archive stores the unpacked bytes, so the name must not end with `.gz`.
    name = name[: -len(GZIP)] if name.lower().endswith(GZIP) else name
    parts = (_UNPORTABLE.sub("_", part) for part in name.split("/"))
    return "/".join(_cut(part) for part in parts if part)


def _cut(name: str) -> str:
    """Shorten a name so that it is valid on every file system, but keep its extension."""
    path = PurePosixPath(name)
    ending = path.suffix if len(path.suffix) <= _MAX_ENDING_LENGTH else ""
    stem = name.removesuffix(ending).encode()[:_MAX_NAME_BYTES]
    return stem.decode(errors="ignore") + ending


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name that is not in `taken`, with a number if necessary, and add it to `taken`.

    Upper and lower case count as the same.
    """
    path, number = PurePosixPath(name), 1
    while (key := unicodedata.normalize("NFC", name).casefold()) in taken:
        number += 1
        name = str(path.with_name(f"{path.stem} ({number}){path.suffix}"))
    taken.add(key)
    return name


def trail_table(record: Record, month: Month) -> bytes:
    """Return a month's audit trail as CSV. Strings that look like formulas are quoted."""
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\r\n")
    rows.writerow(TITLES)
    for line in trail(record, month.first, month.through):
        rows.writerow([f"'{cell}" if is_hostile(cell) else cell for cell in line])
    return table.getvalue().encode("utf-8-sig", "surrogatepass")


def write_pack(path: Path, facts: PackFacts, members: Iterator[PackMember]) -> tuple[str, int]:
    """Write a pack atomically. Return its SHA-256 and size."""
    digests: dict[str, MemberDigest] = {}
    with written_aside(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as names:
            for member in members:
                sha256 = hashlib.sha256(member.content).hexdigest()
                digests[member.name] = MemberDigest(sha256, len(member.content))
                _add(names, member)
            manifest = PackManifest(
                format=FORMAT, month=facts.month, version=facts.version, members=digests
            )
            _add(names, PackMember(MANIFEST, json_bytes(to_json(manifest))))
        size = file.tell()
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest(), size


def _add(names: zipfile.ZipFile, member: PackMember) -> None:
    entry = zipfile.ZipInfo(member.name, _ZIP_TIMESTAMP)
    entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
    entry.external_attr = 0o640 << 16
    names.writestr(entry, member.content)


def read_facts(content: bytes) -> PackFacts:
    """Decode the facts about a pack. Raises `ValueError` if they are invalid."""
    return msgspec.json.decode(content, type=PackFacts)


def read_manifest(names: zipfile.ZipFile) -> PackManifest:
    """Decode a pack's manifest. Raises `ValueError` if it is invalid, `KeyError` if missing."""
    entry = names.getinfo(MANIFEST)
    if entry.file_size > _MAX_MANIFEST_BYTES:
        raise ValueError(f"{MANIFEST} is too large")
    manifest = msgspec.json.decode(names.read(entry), type=PackManifest)
    if manifest.format != FORMAT:
        raise ValueError(
            f"the pack has format {manifest.format}, but this version of nightbook reads only "
            f"format {FORMAT}: verify it with the version that wrote it"
        )
    return manifest


@dataclass(slots=True)
class PackCheck:
    """The result of checking a pack: differences, compared parts, and parts not compared."""

    file: Path
    sha256: str = ""
    name: str = ""
    differences: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the check found no differences."""
        return not self.differences


def unpack(
    names: zipfile.ZipFile, manifest: PackManifest, record: Record, check: PackCheck
) -> bool:
    """Unpack the files in the manifest and check digests. Return whether the pack is intact."""
    check.name = f"{manifest.month}, version {manifest.version}"
    found = Counter(entry.filename for entry in names.infolist() if entry.filename != MANIFEST)
    unknown = sorted(found.keys() - manifest.members.keys())
    check.differences += [f"{name} is not in the manifest" for name in unknown]
    doubled = sorted(name for name, number in found.items() if number > 1)
    check.differences += [f"{name} is in the pack twice" for name in doubled]
    if sum(entry.file_size for entry in names.infolist()) > _MAX_BYTES:
        raise ValueError("the declared size of its files exceeds the limit for packs")
    for name, member in manifest.members.items():
        if name not in found:
            check.differences.append(f"{name} is missing")
        elif not _is_valid_name(name):
            raise ValueError(f"{name[:80]!r} is not a valid file name in a pack")
        elif _copy(names, name, record, member.size) != member.sha256:
            check.differences.append(f"{name} has changed since it was written")
    files = count_of(len(manifest.members), "file")
    check.compared.append(f"{files} with the manifest's SHA-256 and size")
    return not check.differences


def _is_valid_name(name: str) -> bool:
    path = PurePosixPath(name)
    is_plain = str(path) == name and not path.is_absolute() and ".." not in path.parts
    return is_plain and "\\" not in name and "\0" not in name


def _copy(names: zipfile.ZipFile, name: str, record: Record, size: int) -> str:
    """Unpack one file to its path in a reconciliation folder. Return its SHA-256."""
    entry = names.getinfo(name)
    if entry.file_size != size:
        return ""
    relative = name.removeprefix(STORE)
    if name.startswith(DAYS):
        relative = f"{record.out.name}/{name.removeprefix(DAYS)}"
    path, hashed = record.root / relative, hashlib.sha256()
    make_directory(path.parent)
    try:
        with names.open(entry) as source, path.open("wb") as target:
            while block := source.read(BLOCK):
                hashed.update(block)
                target.write(block)
    except (zipfile.BadZipFile, zlib.error):
        # The file does not match its ZIP checksum, so it was changed.
        return ""
    return hashed.hexdigest()


class LedgerLine(NamedTuple):
    """One of the month's ledgers: name, digest, days, and file name in the pack (if included).

    If two ledgers had the same content, the pack has it only once.
    """

    name: str
    sha256: str
    days: str
    member: str


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """A break accepted during the month, as of the last of `days`, with the people who did it."""

    break_: Break
    decision: StatusDecision
    days: tuple[date, ...]
    people: str

    @property
    def reason(self) -> str:
        """The root cause and the comment, on one line, or the rule that accepted the break."""
        rule = self.break_.note if self.is_by_rule else ""
        return "; ".join(filter(None, (rule, self.break_.root_cause, self.break_.comment)))

    @property
    def is_by_rule(self) -> bool:
        """Whether no person accepted the break, because its value is below the limit."""
        return self.break_.status == BY_RULE


def index_page(record: Record, month: Month, facts: PackFacts, archived: frozenset[str]) -> bytes:
    """Render the first page of a pack.

    `archived` contains the digests of the ledgers that are in the pack.
    """
    last = month.results[-1]
    unsolved = sorted(last.unsolved_breaks, key=attrgetter("first_seen", "id"))
    accepted = _accepted_lines(record, month)
    style = Markup((_HERE / "index.css").read_text("utf-8"))  # noqa: S704 - our own file
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    ours = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    ours.filters |= {"show": printable, "moment": moment, "count_of": count_of}
    ours.filters["days_in_words"] = _days_in_words
    labels = [label for label, _, _ in AGE_BANDS]
    page = ours.from_string((_HERE / "index.html").read_text("utf-8")).render(
        style=style,
        FINGERPRINT=FINGERPRINT,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        facts=facts,
        month=month,
        roles=ROLES,
        last=last,
        bands=list(zip(labels, count_ages(unsolved, last.day), strict=True)),
        unsolved=unsolved[:_MAX_BREAKS],
        count=len(unsolved),
        more=max(len(unsolved) - _MAX_BREAKS, 0),
        accepted=accepted[:_MAX_BREAKS],
        more_accepted=max(len(accepted) - _MAX_BREAKS, 0),
        said=state(record),
        ledgers=list(_ledger_lines(month, archived, ledger_names(record, month))),
        settings=_settings(month),
        earlier=closings_of(record, month.name),
        restatements=[item for item in record.restatements if item.day in month],
    )
    return page.encode("utf-8", "replace")


def _accepted_lines(record: Record, month: Month) -> list[AcceptedLine]:
    """Return the breaks that were accepted on any day of the month, those by rule last."""
    found: dict[tuple[str, str, str, StatusDecision], list[tuple[Run, Break]]] = {}
    for result in month.results:
        said = state(record, result.revision)
        for item in (*result.breaks, *result.not_compared):
            if not item.is_open:
                key = item.id, item.status, item.difference, said.decision(item.id)
                found.setdefault(key, []).append((result, item))
    lines = []
    for (id_, *_, decision), on_days in found.items():
        result, break_ = on_days[-1]
        days = tuple(earlier.day for earlier, _ in on_days)
        people = acceptors(record, id_, result.revision) if break_.currency else []
        lines.append(AcceptedLine(break_, decision, days, " and ".join(people) or decision.by))
    return sorted(
        lines,
        key=lambda line: (line.is_by_rule, -line.days[-1].toordinal(), line.break_.id),
    )


def _days_in_words(days: Sequence[date]) -> str:
    return str(days[0]) if len(days) == 1 else f"{len(days)} days, {days[0]} to {days[-1]}"


def _ledger_lines(
    month: Month, archived: frozenset[str], members: Mapping[str, str]
) -> Iterator[LedgerLine]:
    days: dict[tuple[str, str], dict[str, None]] = {}
    for result in month.results:
        for source in result.sources:
            days.setdefault((source.name, source.sha256), {})[str(result.day)] = None
    for (name, sha256), read_for in days.items():
        member = members[sha256] if sha256 in archived else ""
        yield LedgerLine(name, sha256, ", ".join(read_for), member)


def _settings(month: Month) -> dict[str, list[date]]:
    """Return the days on which each recon.toml was used, by digest."""
    days: dict[str, list[date]] = {}
    for day in month.closed_days:
        days.setdefault(day.settings, []).append(day.day)
    return days
