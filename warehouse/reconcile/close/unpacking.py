"""A pack unpacked into a folder, each file held against the manifest before anything is read."""

import hashlib
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from warehouse.contract.wording import count_of
from warehouse.reconcile.close import pack
from warehouse.reconcile.close.pack import PackManifest
from warehouse.reconcile.store.store import Store
from warehouse.storage.layout import BLOCK, make_directory

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


def unpack(names: zipfile.ZipFile, manifest: PackManifest, store: Store, check: PackCheck) -> bool:
    """Unpack what the manifest lists, each file held against it; return whether all is whole."""
    check.name = f"{manifest.month}, version {manifest.version}"
    there = [entry.filename for entry in names.infolist() if entry.filename != pack.MANIFEST]
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
        elif _copy(names, name, store, member.size) != member.sha256:
            check.differences.append(f"{name} is not as it was written")
    check.compared.append(f"{count_of(len(manifest.members), 'file')} with their SHA-256 and size")
    return not check.differences


def _is_ours(name: str) -> bool:
    path = PurePosixPath(name)
    is_plain = str(path) == name and not path.is_absolute() and ".." not in path.parts
    return is_plain and "\\" not in name and "\0" not in name


def _copy(names: zipfile.ZipFile, name: str, store: Store, size: int) -> str:
    """Unpack one file to where the folder of a reconciliation has it; return its SHA-256."""
    entry = names.getinfo(name)
    if entry.file_size != size:
        return ""
    place = name.removeprefix(pack.STORE)
    if name.startswith(pack.DAYS):
        place = f"{store.out.name}/{name.removeprefix(pack.DAYS)}"
    path, hashed = store.root / place, hashlib.sha256()
    make_directory(path.parent)
    try:
        with names.open(entry) as source, path.open("wb") as target:
            while block := source.read(BLOCK):
                hashed.update(block)
                target.write(block)
    except (zipfile.BadZipFile, zlib.error):  # its own check sum says that it was changed
        return ""
    return hashed.hexdigest()
