"""Which files are tonight's ledgers, and which are workbooks that people wrote into."""

import hashlib
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from warehouse.reconcile.grids import Opened, is_ledger_name, opened
from warehouse.reconcile.headers import recognised
from warehouse.reconcile.ledger import Notice
from warehouse.reconcile.readback import Edited, edited
from warehouse.reconcile.store import Folder

_DAY = re.compile(r"(20[0-9]{2})[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12][0-9]|3[01])")
_DAY_FIRST = re.compile(r"(0?[1-9]|[12][0-9]|3[01])\.(0?[1-9]|1[0-2])\.(20[0-9]{2})")
_COPY = re.compile(
    r"[\W_]*(copy|kopie|copie|copia|\([0-9]+\)|final|new|v[0-9]+)(?!\w)", re.IGNORECASE
)
_WORKBOOKS = (".xlsx", ".xlsm", ".ods")


@dataclass(frozen=True, slots=True)
class Found:
    """What lies in the inbox for one day: ledgers to read, and what to say of the others."""

    ledgers: tuple[Opened, ...]
    notices: tuple[Notice, ...]


def day_in(name: str) -> date | None:
    """The date in a file's name, or None."""
    found, german = _DAY.search(name), _DAY_FIRST.search(name)
    parts = found.groups() if found else german.groups()[::-1] if german else None
    try:
        return date(*map(int, parts)) if parts else None
    except ValueError:
        return None


def family(name: str) -> str:
    """What the nightly files of one ledger have in common in their names."""
    stem = _DAY.sub("", Path(name).stem)
    return re.sub(r"[\W\d_]+", " ", _COPY.sub("", stem)).strip().casefold()


def workbooks(folder: Folder, seen: Container[str]) -> tuple[list[Edited], list[Path]]:
    """Workbooks of ours that were not read yet, the oldest change first, and all of ours."""
    found: list[Edited] = []
    ours: list[Path] = []
    for path in sorted([*folder.out.rglob("*"), *folder.inbox.glob("*")]):
        is_workbook = path.suffix.lower() in _WORKBOOKS and is_ledger_name(path)
        if not is_workbook or not path.is_file():
            continue
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() in seen:
            ours.append(path)
            continue
        read = edited(path, content)
        if read is not None:
            found.append(read)
            ours.append(path)
    return sorted(found, key=lambda one: (one.at, one.name, one.sha256)), ours


def ledgers(folder: Folder, day: date, ours: Sequence[Path], pause: Callable[[], None]) -> Found:
    """The newest file of each family that is not of a later day; the same bytes count once."""
    families: dict[str, list[Path]] = {}
    notices: list[Notice] = []
    for path in sorted(folder.inbox.glob("*")):
        stated = day_in(path.name)
        if not path.is_file() or not is_ledger_name(path) or path in ours:
            continue
        if stated is None or stated <= day:
            families.setdefault(family(path.name), []).append(path)
    chosen: list[Opened] = []
    for paths in families.values():
        *older, newest = sorted(paths, key=lambda one: _age(one, day))
        read = opened(newest, recognised, pause)
        twin = next((one for one in chosen if one.sha256 == read.sha256), None)
        if twin is not None:
            words = f"is the same file as {twin.path.name}: it was read once"
            notices.append(Notice("medium", words, newest.name))
            continue
        chosen.append(read)
        notices += [_unread(path, newest) for path in older]
    return Found(tuple(chosen), tuple(notices))


def _unread(path: Path, newest: Path) -> Notice:
    """What is said of a file that a newer one of its family stands for."""
    words = f"not read: {newest.name} is newer"
    if day_in(path.name) or _bare(path) == _bare(newest):
        return Notice("low", words, path.name)
    words += ", and files whose names differ in numbers only are taken for versions of one ledger"
    return Notice("high", f"{words}: give them a name each if both are to be read", path.name)


def _bare(path: Path) -> str:
    """The name without marks of a copy, numbers kept."""
    return re.sub(r"[\W_]+", " ", _COPY.sub("", path.stem)).strip().casefold()


def _age(path: Path, day: date) -> tuple[bool, date, int, str]:
    """Files of the day itself last, then by the date in the name, then by their time."""
    stated = day_in(path.name)
    return (stated == day, stated or date.min, path.stat().st_mtime_ns, path.name)
