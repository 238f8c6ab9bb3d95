"""The pack of a month: one zip with all that stands behind it; the same month, the same bytes."""

import base64
import csv
import hashlib
import io
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from warehouse.contract.model import count_of
from warehouse.query.printable import printable
from warehouse.reconcile.close.month import Month, closings_of
from warehouse.reconcile.model import (
    AGE_BANDS,
    TITLES,
    Break,
    Run,
    State,
    StatusDecision,
    count_ages,
    moment,
    to_json,
)
from warehouse.reconcile.record import tables
from warehouse.reconcile.record.annotations import state
from warehouse.reconcile.record.archive import archived_path
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import trail
from warehouse.reconcile.settings.config import ROLES
from warehouse.reconcile.workbook.sign_off import with_signatures
from warehouse.spreadsheet.reading.archives import GZIP
from warehouse.spreadsheet.writing.cells import is_hostile
from warehouse.storage.layout import BLOCK, json_bytes, make_directory, written_aside

# In format 1 the name of a ledger was only its SHA-256. Up to format 2 the state was in JSON files,
# which were called as in the homes of that time.
FORMAT, _FIRST_FORMAT = 3, 1
NAMED_LEDGERS = 2

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


def evidence(record: Record, month: Month) -> Iterator[PackMember]:
    """Yield the files that stand behind a month, as they lie in the reconciliation's folder."""
    for day in month.days:
        files = record.day_files(day.day)
        for path in files if day.result else ():
            if path.is_file():
                content = path.read_bytes()
                if path == files.workbook:
                    content = with_signatures(content, day.signatures)
                yield PackMember(f"{DAYS}{day.day}/{path.name}", content)
    yield from _stored_records(record, month)
    names = ledger_names(record, month)
    names |= {day.settings: f"{SETTINGS}{day.settings}.toml" for day in month.closed_days}
    for sha256, name in sorted(names.items(), key=itemgetter(1)):
        path = archived_path(record, sha256)
        if path.is_file():
            yield PackMember(name, path.read_bytes())


def _stored_records(record: Record, month: Month) -> Iterator[PackMember]:
    """Yield the rows of every run of the month, and of everything that people wrote."""
    with record.open_for_queries() as connection:
        for table, rows in tables.export(connection, month.first, month.through):
            lines = "".join(f"{tables.to_json(row)}\n" for row in rows)
            yield PackMember(f"{STORE}{table}.jsonl", lines.encode("ascii"))
    written = {run.written for day in month.days for run in record.runs_of(day.day)}
    for identity in sorted(written - {""}):
        content = record.imprint(identity)
        if content is not None:
            yield PackMember(f"{STORE}written/{identity}.json.gz", content)


def ledger_names(record: Record, month: Month) -> dict[str, str]:
    """Return by digest the name that each ledger of a month has in its pack.

    It is the name that it had in the inbox, in a folder of the first day that read it.
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


def trail_table(record: Record, first: date, through: date) -> bytes:
    """Return the audit trail of a month as CSV; what a spreadsheet would run is text."""
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\r\n")
    rows.writerow(TITLES)
    for line in trail(record, first, through):
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
    if not _FIRST_FORMAT <= manifest.format <= FORMAT:
        known = f"{_FIRST_FORMAT} to {FORMAT}"
        raise ValueError(f"it has format {manifest.format}, and this nightbook reads {known}")
    return manifest


def ledgers_among(manifest: PackManifest) -> dict[str, str]:
    """Return the digests of the ledgers in a pack, by their names there."""
    return {
        name: member.sha256 for name, member in manifest.members.items() if name.startswith(LEDGERS)
    }


_MOST_BYTES = 16 << 30

_MOST_LIST = 64 << 20


@dataclass(slots=True)
class PackCheck:
    """What a pack came to: what differs, what was compared, and what could not be."""

    file: Path
    sha256: str = ""
    name: str = ""
    differences: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether everything that was compared is as it was."""
        return not self.differences


def read_list(names: zipfile.ZipFile, name: str) -> bytes:
    """Return a list of files; raise `ValueError` where it is longer than one is."""
    entry = names.getinfo(name)
    if entry.file_size > _MOST_LIST:
        raise ValueError(f"{name} is too long")
    return names.read(entry)


def unpack(
    names: zipfile.ZipFile, manifest: PackManifest, record: Record, check: PackCheck
) -> bool:
    """Unpack what the manifest lists, each file held against it; return whether all is whole."""
    check.name = f"{manifest.month}, version {manifest.version}"
    there = [entry.filename for entry in names.infolist() if entry.filename != MANIFEST]
    for name in sorted({*there} - manifest.members.keys()):
        check.differences.append(f"{name} is in no manifest")
    for name in sorted({name for name in there if there.count(name) > 1}):
        check.differences.append(f"{name} stands there twice")
    if sum(entry.file_size for entry in names.infolist()) > _MOST_BYTES:
        raise ValueError("it says that it is larger than packs are")
    for name, member in manifest.members.items():
        if name not in there:
            check.differences.append(f"{name} is missing")
        elif not _is_ours(name):
            raise ValueError(f"{name[:80]!r} is no name of a file in a pack")
        elif _copy(names, name, record, member.size) != member.sha256:
            check.differences.append(f"{name} is not as it was written")
    check.compared.append(f"{count_of(len(manifest.members), 'file')} with their SHA-256 and size")
    return not check.differences


def _is_ours(name: str) -> bool:
    path = PurePosixPath(name)
    is_plain = str(path) == name and not path.is_absolute() and ".." not in path.parts
    return is_plain and "\\" not in name and "\0" not in name


def _copy(names: zipfile.ZipFile, name: str, record: Record, size: int) -> str:
    """Unpack one file to where the folder of a reconciliation has it; return its SHA-256."""
    entry = names.getinfo(name)
    if entry.file_size != size:
        return ""
    place = name.removeprefix(STORE)
    if name.startswith(DAYS):
        place = f"{record.out.name}/{name.removeprefix(DAYS)}"
    path, hashed = record.root / place, hashlib.sha256()
    make_directory(path.parent)
    try:
        with names.open(entry) as source, path.open("wb") as target:
            while block := source.read(BLOCK):
                hashed.update(block)
                target.write(block)
    except (zipfile.BadZipFile, zlib.error):  # its own check sum says that it was changed
        return ""
    return hashed.hexdigest()


_HERE = Path(__file__).parent

_MOST_BREAKS = 300


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One ledger of the month: its name, digest and days, and its name in the pack, if it is there.

    One content under two names is in the pack once.
    """

    name: str
    sha256: str
    days: str
    member: str


@dataclass(frozen=True, slots=True)
class AcceptedLine:
    """A break that was accepted in the month: as of the last day of its acceptance, who and why."""

    break_: Break
    decision: StatusDecision
    days: tuple[date, ...]

    @property
    def on_days(self) -> str:
        """The days on which it was accepted."""
        return _days_in_words(self.days)

    @property
    def reason(self) -> str:
        """Root cause and comment in one text."""
        texts = (self.break_.root_cause, self.break_.comment)
        return "; ".join(filter(None, texts))


def index_page(record: Record, month: Month, facts: PackFacts, here: frozenset[str]) -> bytes:
    """Return the page; `here` are the digests of the ledgers that the pack has."""
    last = month.results[-1]
    unsolved = sorted(last.unsolved_breaks, key=lambda break_: (break_.first_seen, break_.id))
    accepted = _accepted_lines(record, month)
    style = Markup((_HERE / "index.css").read_text("utf-8"))  # noqa: S704 - our own file
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    ours = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    ours.filters |= {"show": printable, "moment": moment, "count_of": count_of}
    page = ours.from_string((_HERE / "index.html").read_text("utf-8")).render(
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        facts=facts,
        month=month,
        roles=ROLES,
        last=last,
        bands=[
            (band[0], count)
            for band, count in zip(AGE_BANDS, count_ages(unsolved, last.day), strict=True)
        ],
        unsolved=unsolved[:_MOST_BREAKS],
        count=len(unsolved),
        more=max(len(unsolved) - _MOST_BREAKS, 0),
        accepted=accepted[:_MOST_BREAKS],
        more_accepted=max(len(accepted) - _MOST_BREAKS, 0),
        said=state(record),
        ledgers=list(_ledgers(month, here, ledger_names(record, month))),
        settings=_settings(month),
        earlier=closings_of(record, month.name),
        restatements=[item for item in record.restatements if item.day in month],
    )
    return page.encode("utf-8", "replace")


def _accepted_lines(record: Record, month: Month) -> list[AcceptedLine]:
    """Return the breaks that were accepted on any day of a month, those of its last day first."""
    found: dict[tuple[str, str], list[tuple[Run, Break]]] = {}
    for result in month.results:
        for break_ in (*result.breaks, *result.not_compared):
            if not break_.is_open:
                found.setdefault((break_.id, break_.difference), []).append((result, break_))
    states: dict[int, State] = {}
    lines = []
    for accepted in found.values():
        result, break_ = accepted[-1]
        said = states.setdefault(result.revision, state(record, result.revision))
        days = tuple(day.day for day, _ in accepted)
        lines.append(AcceptedLine(break_, said.decision(break_.id), days))
    return sorted(lines, key=lambda line: (-line.days[-1].toordinal(), line.break_.id))


def _days_in_words(days: Sequence[date]) -> str:
    return str(days[0]) if len(days) == 1 else f"{len(days)} days, {days[0]} to {days[-1]}"


def _ledgers(
    month: Month, here: frozenset[str], members: Mapping[str, str]
) -> Iterator[LedgerLine]:
    days: dict[tuple[str, str], list[str]] = {}
    for result in month.results:
        for source in result.sources:
            of = days.setdefault((source.name, source.sha256), [])
            if str(result.day) not in of:
                of.append(str(result.day))
    for (name, sha256), of in days.items():
        member = members[sha256] if sha256 in here else ""
        yield LedgerLine(name, sha256, ", ".join(of), member)


def _settings(month: Month) -> Mapping[str, str]:
    """Return for each recon.toml of the month the first and last day that had it."""
    days: dict[str, list[date]] = {}
    for day in month.closed_days:
        days.setdefault(day.settings, []).append(day.day)
    return {digest: _days_in_words(of_digest) for digest, of_digest in days.items()}
