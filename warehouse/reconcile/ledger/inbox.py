"""The inbox: the ledgers of tonight, and the reason why each other file is not used."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path

from warehouse.contract.model import count_of
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.model import FilePart, Unused
from warehouse.reconcile.settings.config import LEDGER, Config
from warehouse.reconcile.settings.layout import UNUSED, day_in, family
from warehouse.reconcile.settings.toml import setting
from warehouse.reconcile.terms import Ambiguous, choices, reading_files
from warehouse.spreadsheet.reading.archives import (
    ARCHIVES,
    GZIP,
    ZIP,
    ArchiveMember,
    LedgerFile,
    members,
)
from warehouse.spreadsheet.reading.formats.kinds import FLAT, kind_of
from warehouse.spreadsheet.reading.grid import OpenedFile, is_ledger_name, open_file
from warehouse.spreadsheet.reading.safety import UnreadableSpreadsheet

# Files that are read by people: what they say of amounts stands elsewhere as well.
_PAPERS = (".pdf", ".png", ".jpg", ".jpeg", ".docx", ".doc", ".eml", ".msg", ".md", ".log", ".asc")


@dataclass(frozen=True, slots=True)
class InboxContents:
    """The contents of the inbox for one day: ledgers to read, and files that are not used."""

    ledgers: tuple[OpenedFile, ...]
    unused: tuple[Unused, ...] = ()


def find_ledgers(
    inbox: Path,
    day: date,
    *,
    ours: Collection[Path] = (),
    pause: Callable[[], None],
    config: Config,
    done: Collection[str] = (),
) -> InboxContents:
    """Return the ledgers of a day, and every other file of the inbox with why it is not used.

    Of each family the newest file that is not of a later day is read; the same bytes count once.
    `ours` are workbooks of ours, `done` the digests of ledgers of days that are done. Raises
    `Ambiguous` where two files of a family may each be the one of the day.
    """
    families: dict[str, list[LedgerFile]] = {}
    unused: list[Unused] = []
    files = (files_in(path) for path in sorted(inbox.glob("*")) if path not in ours)
    for path, problem in chain.from_iterable(files):
        reason = _put_aside(path, config, problem)
        stated = day_in(path.name)
        if reason is not None:
            unused.append(reason)
        elif stated is not None and stated > day:
            unused.append(_file(path, f"its name is of {stated}, after the day of the book"))
        else:
            own = path.name if config.inbox_setting(path.name) == LEDGER else family(path.name)
            families.setdefault(own, []).append(path)
    chosen: list[OpenedFile] = []
    count = partial(count_fields, own_words=config.own_words)
    older: list[tuple[LedgerFile, LedgerFile]] = []
    # A family is what one source delivers night after night, told by its name without dates, digits
    # and words like "copy". Its newest file is read; the rest is older, unless it may be another
    # version of the same day, which only a person can tell.
    for paths in families.values():
        *others, newest = sorted(paths, key=lambda path: _age(path, day))
        with reading_files():
            starts = config.of_file(newest.name).shape.column_starts
            read = open_file(newest, count, pause, starts)
        rivals = _rivals(others, newest, read.sha256, done)
        if rivals:
            raise _versions(rivals, newest)
        twin = next((file for file in chosen if file.sha256 == read.sha256), None)
        if twin is not None:
            words = f"it is the same file as {twin.path.name}, which was read once"
            unused.append(_file(newest, words, "medium"))
        else:
            chosen.append(read)
        older += [(path, newest) for path in others]
    return InboxContents(tuple(chosen), (*unused, *_older(older)))


def _file(path: LedgerFile, reason: str, severity: str = "low") -> Unused:
    return Unused(path.name, FilePart.FILE, path.name, reason, severity)


def files_in(path: Path) -> Iterator[tuple[LedgerFile, str]]:
    """Yield a file of the inbox, or what lies in an archive, each with why it cannot be read."""
    is_archive = path.suffix.lower() in (ZIP, GZIP) and path.is_file() and not path.is_symlink()
    if not is_archive or path.name.startswith("."):
        yield path, ""
        return
    try:
        yield from members(path)
    except UnreadableSpreadsheet as error:
        yield path, f"it {str(error).removeprefix(f'{path.name} ').rstrip('.')}"


def _put_aside(path: LedgerFile, config: Config, problem: str) -> Unused | None:
    """Return why a file cannot be a ledger, or None if it can."""
    archive = path.archive.name if isinstance(path, ArchiveMember) else path.name
    if UNUSED in (config.inbox_setting(path.name), config.inbox_setting(archive)):
        return _file(path, "recon.toml says under [inbox] that it is unused", "medium")
    if problem:
        words = f"{problem}, or say in recon.toml under [inbox] {setting(path.name, UNUSED)}"
        return _file(path, words, "high")
    with reading_files():
        return next(_reasons(path), None)


def _reasons(path: LedgerFile) -> Iterator[Unused]:
    """Yield why a file cannot be a ledger by what it is and by its name, the first that counts."""
    settle = f"or say in recon.toml under [inbox] {setting(path.name, UNUSED)}"
    name = path.name.rpartition("/")[2]
    if name.startswith(("~$", ".~lock.")):
        yield _file(path, "it marks that a spreadsheet is open in a program")
    if isinstance(path, Path) and path.is_symlink():
        words = "it is a link, and what lies behind it may be any file: copy the file itself here"
        yield _file(path, f"{words}, {settle}", "high" if path.exists() else "medium")
    if name.startswith("."):
        yield _file(path, "its name begins with a point, as those of hidden files do")
    if isinstance(path, Path) and path.is_dir():
        has_files = any(file.is_file() for file in path.rglob("*"))
        words = "it is a folder, and what lies in it is not read: move it up"
        yield _file(path, f"{words}, {settle}", "high" if has_files else "low")
    if not path.is_file():
        yield _file(path, "it is no ordinary file")
    yield from _reasons_of_kind(path, settle)


def _reasons_of_kind(path: LedgerFile, settle: str) -> Iterator[Unused]:
    """Yield why a file cannot be a ledger by its ending, and of XML by its first element."""
    ending = path.suffix.lower() or "no ending"
    if ending in _PAPERS:
        yield _file(path, f"files with {ending} are not read", "medium")
    if not is_ledger_name(path):
        remedy = "unpack it" if ending in ARCHIVES else "save its ledger as xlsx, ods or csv"
        words = f"files with {ending} are not read: {remedy}"
        yield _file(path, f"{words}, {settle}", "high")
    if ending == ".xml" and kind_of(path.read_bytes()) not in FLAT:
        words = "it is XML, but no spreadsheet: save its ledger as xlsx, ods or csv"
        yield _file(path, f"{words}, {settle}", "high")


def _rivals(
    others: Sequence[LedgerFile], newest: LedgerFile, sha256: str, done: Collection[str]
) -> list[LedgerFile]:
    """Return the files that may be of the same day as the newest one and hold something else.

    One of an earlier day by its name is none, nor one with which an earlier day was reconciled.
    """
    stated = day_in(newest.name)
    # Time stamps say nothing here: a file copied yesterday may be newer than its content. So two
    # different files of a family, neither dated apart nor used before, are a question.
    rivals = []
    for path in others:
        if stated is not None and day_in(path.name) != stated:
            continue
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != sha256 and digest not in done:
            rivals.append(path)
    return rivals


def _versions(rivals: Sequence[LedgerFile], newest: LedgerFile) -> Ambiguous:
    """Return the question which of several files of a day is the ledger."""
    files = [path.name for path in (*rivals, newest)]
    # The newest file need not be the right one: it may be a copy that somebody opened and saved.
    lines = [setting(name, UNUSED) for name in files]
    lines += [f"{setting(path.name, LEDGER)}   # both are read" for path in rivals]
    return Ambiguous(
        f"{' and '.join(files)} differ, and may be versions of one ledger of the same day, or "
        f"several ledgers. {newest.name} was saved last.",
        choices("[inbox]", *lines),
    )


def _older(older: Sequence[tuple[LedgerFile, LedgerFile]]) -> Iterator[Unused]:
    """Yield one line for all older files together: there is one more every night."""
    if len(older) == 1:
        path, newest = older[0]
        yield _file(path, f"{newest.name} is newer")
    elif older:
        names = sorted(path.name for path, _ in older)
        words = f"{count_of(len(older), 'older file')}, of which newer ones were read"
        name = f"{names[0]} ... {names[-1]}"
        yield Unused(name, FilePart.FILE, name, words, "low", len(older))


def _age(path: LedgerFile, day: date) -> tuple[bool, date, int, str]:
    """Sort files of the day itself last, then by the date in the name, then by their time."""
    stated = day_in(path.name)
    return (stated == day, stated or date.min, path.stat().st_mtime_ns, path.name)
