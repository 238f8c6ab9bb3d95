"""Selection of tonight's ledgers from the inbox, with a reason for each file that is not used."""

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
from warehouse.spreadsheet.reading.files import (
    ARCHIVES,
    GZIP,
    ZIP,
    ArchiveMember,
    LedgerFile,
    UnreadableSpreadsheet,
    flat_root,
    members,
)
from warehouse.spreadsheet.reading.grid import OpenedFile, is_ledger_name, open_file

# Documents for human readers. If they are not read, the severity is only medium, because their
# amounts are also in other files.
_PAPERS = (".pdf", ".png", ".jpg", ".jpeg", ".docx", ".doc", ".eml", ".msg", ".md", ".log", ".asc")


@dataclass(frozen=True, slots=True)
class InboxContents:
    """The contents of the inbox for one day: ledgers to read, and files that cannot be used."""

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
    """Return a day's ledgers, and a reason for each file in the inbox that is not used.

    A family is the set of files that one source delivers every night. Their names are the same,
    apart from dates, digits and words like "copy". In each family, the newest file that is not for
    a later day is read. Files with the same bytes are read once. `ours` are the workbooks that we
    wrote, and `done` are the digests of finished days' ledgers. Raises `Ambiguous` if several files
    in a family may be the day's ledger.
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
            unused.append(
                _file(path, f"the date in its name ({stated}) is later than the book's date")
            )
        else:
            own = path.name if config.inbox_setting(path.name) == LEDGER else family(path.name)
            families.setdefault(own, []).append(path)
    chosen: list[OpenedFile] = []
    count = partial(count_fields, own_words=config.own_words)
    older: list[tuple[LedgerFile, LedgerFile]] = []
    for paths in families.values():
        *others, newest = sorted(paths, key=lambda path: _age(path, day))
        with reading_files():
            read = open_file(newest, count, pause)
        rivals = _rivals(others, newest, read.sha256, done)
        if rivals:
            raise _versions(rivals, newest)
        twin = next((file for file in chosen if file.sha256 == read.sha256), None)
        if twin is not None:
            message = f"it has the same content as {twin.path.name}, which was read"
            unused.append(_file(newest, message, "medium"))
        else:
            chosen.append(read)
        # A ledger that was read for an earlier day is not news.
        older += [(path, newest) for path in others if _digest(path) not in done]
    return InboxContents(tuple(chosen), (*unused, *_older(older)))


def _file(path: LedgerFile, reason: str, severity: str = "low") -> Unused:
    # A workbook cannot contain a file name that is not valid UTF-8, so show an invalid byte like
    # 0xff as `\udcff`.
    name = path.name.encode("utf-8", "backslashreplace").decode()
    return Unused(name, FilePart.FILE, name, reason, severity)


def files_in(path: Path) -> Iterator[tuple[LedgerFile, str]]:
    """Yield a file, or each file in an archive, with an error message or an empty string."""
    is_archive = path.suffix.lower() in (ZIP, GZIP) and path.is_file() and not path.is_symlink()
    if not is_archive or path.name.startswith("."):
        yield path, ""
        return
    try:
        yield from members(path)
    except UnreadableSpreadsheet as error:
        yield path, f"it {str(error).removeprefix(f'{path.name} ').rstrip('.')}"


def _put_aside(path: LedgerFile, config: Config, problem: str) -> Unused | None:
    """Return the file and the reason why it cannot be a ledger, or None if it may be a ledger."""
    archive = path.archive.name if isinstance(path, ArchiveMember) else path.name
    if UNUSED in (config.inbox_setting(path.name), config.inbox_setting(archive)):
        return _file(path, "it is set to unused under [inbox] in recon.toml", "medium")
    if problem:
        return _file(path, f"{problem}, {_settle(path)}", "high")
    if any("\ud800" <= letter <= "\udfff" for letter in path.name):
        return _file(path, "its name is not valid UTF-8. Rename the file, then rerun", "high")
    with reading_files():
        return next((_file(path, *found) for found in _reasons(path)), None)


def _settle(path: LedgerFile) -> str:
    return f"or add to recon.toml under [inbox] {setting(path.name, UNUSED)}"


def _reasons(path: LedgerFile) -> Iterator[tuple[str, str]]:
    """Yield reasons why a file cannot be a ledger, each with a severity. Only the first is used."""
    settle = _settle(path)
    name = path.name.rpartition("/")[2]
    if name.startswith(("~$", ".~lock.")):
        yield "it is a spreadsheet program's temporary file", "low"
    if isinstance(path, Path) and path.is_symlink():
        reason = f"it is a symbolic link, which is not read: copy the file itself here, {settle}"
        yield reason, "high" if path.exists() else "medium"
    if name.startswith("."):
        yield "it is a hidden file, because its name begins with a dot", "low"
    if isinstance(path, Path) and path.is_dir():
        has_files = any(file.is_file() for file in path.rglob("*"))
        reason = "this is a folder, and files in folders are not read: move them up into the inbox"
        yield f"{reason}, {settle}", "high" if has_files else "low"
    if not path.is_file():
        yield "it is not a regular file", "low"
    yield from _reasons_of_kind(path, settle)


def _reasons_of_kind(path: LedgerFile, settle: str) -> Iterator[tuple[str, str]]:
    """Yield reasons to reject a file by its extension, or by the first element of an XML file."""
    ending = path.suffix.lower() or "no extension"
    if ending in _PAPERS:
        yield f"files of this type ({ending}) are not read", "medium"
    if not is_ledger_name(path):
        remedy = "unpack it" if ending in ARCHIVES else "save its ledger as xlsx, ods or csv"
        yield f"files of this type ({ending}) are not read: {remedy}, {settle}", "high"
    if ending == ".xml" and not flat_root(path.read_bytes()):
        reason = "it is XML, but not a spreadsheet: save the ledger as xlsx, ods or csv"
        yield f"{reason}, {settle}", "high"


def _rivals(
    others: Sequence[LedgerFile], newest: LedgerFile, sha256: str, done: Collection[str]
) -> list[LedgerFile]:
    """Return the files with different content that may be for the same day as the newest file.

    A file is left out if its name contains a different date, or if it was already used for an
    earlier day.
    """
    stated = day_in(newest.name)
    # Do not rely on modification times, because a file that was copied yesterday may have older
    # content. So if files of the same family differ and their names contain no dates, a person must
    # decide.
    same_day = [path for path in others if stated is None or day_in(path.name) == stated]
    return [path for path in same_day if _digest(path) not in {sha256, *done}]


def _digest(path: LedgerFile) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _versions(rivals: Sequence[LedgerFile], newest: LedgerFile) -> Ambiguous:
    """Build the question that asks which of several files is the day's ledger."""
    files = [path.name for path in (*rivals, newest)]
    # The newest file may be the wrong one, because somebody may have opened and saved an old copy.
    lines = [setting(name, UNUSED) for name in files]
    lines += [f"{setting(path.name, LEDGER)}   # both files are read" for path in rivals]
    return Ambiguous(
        f"{' and '.join(files)} differ. They may be versions of one day's ledger, or separate "
        f"ledgers. {newest.name} was saved last.",
        choices("[inbox]", *lines),
    )


def _older(older: Sequence[tuple[LedgerFile, LedgerFile]]) -> Iterator[Unused]:
    """Yield one unused part for all older files that were never read."""
    if len(older) == 1:
        path, newest = older[0]
        yield _file(path, f"{newest.name} is newer")
    elif older:
        names = sorted(path.name for path, _ in older)
        reason = f"newer files were read instead of {count_of(len(older), 'older file')}"
        name = f"{names[0]} ... {names[-1]}"
        yield Unused(name, FilePart.FILE, name, reason, "low", len(older))


def _age(path: LedgerFile, day: date) -> tuple[bool, date, int, str]:
    """Return a sort key: the date in the name, then the file's timestamp.

    The day's files come last.
    """
    stated = day_in(path.name)
    return (stated == day, stated or date.min, path.stat().st_mtime_ns, path.name)
