"""Files in a ZIP archive, and one that is packed by gzip: each is read as a file of its own.

Nothing is unpacked onto the disk, so that no name can lead anywhere.
"""

import gzip
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from warehouse.spreadsheet.reading.safety import (
    UNREADABLE,
    UnreadableSpreadsheet,
    is_bomb,
    password_refusal,
    refusal,
    unpacks_too_far,
)

ZIP, GZIP = ".zip", ".gz"
ARCHIVES = (ZIP, GZIP, ".7z", ".rar", ".tar", ".tgz", ".bz2", ".xz", ".zst")
MOST_MEMBERS = 1000
_BLOCK = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """One file in an archive, for whoever reads files; its name begins with that of the archive.

    It has what a path has for that: `member` is its name in a ZIP archive, empty of what is packed
    by gzip.
    """

    archive: Path
    member: str = ""

    @property
    def name(self) -> str:
        """The name by which it is told: `archive.zip/folder/ledger.csv`, `ledger.csv.gz`."""
        place = self.member.replace("\\", "/")
        return f"{self.archive.name}/{place}" if place else self.archive.name

    @property
    def suffix(self) -> str:
        """The ending that says what it is."""
        return PurePosixPath(self.name if self.member else self.archive.stem).suffix

    def is_file(self) -> bool:
        """Whether its archive is there."""
        return self.archive.is_file()

    def stat(self) -> os.stat_result:
        """The size and times of its archive."""
        return self.archive.stat()

    def read_bytes(self) -> bytes:
        """Unpack it; raise `UnreadableSpreadsheet` where that is not to be had, or is too much."""
        try:
            if not self.member:
                return self._gunzip()
            with zipfile.ZipFile(self.archive) as file:
                info = file.getinfo(self.member)
                if info.flag_bits & 1:
                    raise password_refusal(self)
                if is_bomb([info], info.compress_size):
                    raise unpacks_too_far(self)
                return file.read(info)
        except UnreadableSpreadsheet:
            raise
        except (*UNREADABLE, KeyError, RuntimeError) as error:
            raise refusal(
                self, "cannot be unpacked", "Unpack it yourself, or copy its archive again"
            ) from error

    def _gunzip(self) -> bytes:
        size = self.archive.stat().st_size
        blocks: list[bytes] = []
        length = 0
        with gzip.open(self.archive) as file:
            while block := file.read(_BLOCK):
                length += len(block)
                blocks.append(block)
                if is_bomb([], size, length):
                    raise unpacks_too_far(self)
        return b"".join(blocks)


LedgerFile = Path | ArchiveMember


def members(archive: Path) -> Iterator[tuple[ArchiveMember, str]]:
    """Yield every file in an archive, and why it cannot be read, if it cannot.

    Raises `UnreadableSpreadsheet` where the archive as a whole cannot.
    """
    if archive.suffix.lower() == GZIP:
        yield ArchiveMember(archive), ""
        return
    try:
        with zipfile.ZipFile(archive) as file:
            # Not `is_dir`, which fails at a name of no letters.
            infos = [info for info in file.infolist() if not info.filename.endswith("/")]
    except UNREADABLE as error:
        raise refusal(
            archive, "is no whole archive: perhaps it was only half copied", "Copy it again"
        ) from error
    if len(infos) > MOST_MEMBERS:
        raise refusal(
            archive,
            f"holds {len(infos):,} files, more than {MOST_MEMBERS:,}",
            "Unpack it and put the ledgers into the inbox",
        )
    if is_bomb(infos, archive.stat().st_size):
        raise unpacks_too_far(archive)
    names = [info.filename for info in infos]
    for info in infos:
        yield ArchiveMember(archive, info.filename), _problem(info, names)


def _problem(info: zipfile.ZipInfo, names: list[str]) -> str:
    place = PurePosixPath(info.filename.replace("\\", "/"))
    if info.flag_bits & 1:
        return "it is protected by a password: put an unpacked copy into the inbox"
    if not place.parts:
        return "it has no name in the archive: put an unpacked copy into the inbox"
    if place.is_absolute() or ".." in place.parts or ":" in place.parts[0]:
        return "its name leads out of the archive: put an unpacked copy into the inbox"
    if names.count(info.filename) > 1:
        return "several files in the archive have this name: put an unpacked copy into the inbox"
    if place.suffix.lower() in ARCHIVES:
        return "it is an archive in an archive: unpack the inner one into the inbox"
    return ""
