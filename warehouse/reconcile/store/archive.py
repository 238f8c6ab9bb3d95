"""What the reconciliation keeps, as files under its folder; each appears whole or not at all.

`results/<day>/<no>-<run>.json`, `annotations/<no>.json` and `signoffs/<no>.json` are only ever
added to.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from warehouse.reconcile.errors import NotReconciled
from warehouse.storage.layout import make_directory, read_json, written_aside

Json = dict[str, Any]
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of the reconciliation, `<home>/reconcile`."""

    root: Path

    @property
    def config(self) -> Path:
        """What a person settled."""
        return self.root / "recon.toml"

    @property
    def inbox(self) -> Path:
        """Where ledgers and edited workbooks are put."""
        return self.root / "inbox"

    @property
    def out(self) -> Path:
        """Where workbooks are written, one folder a day."""
        return self.root / "out"

    @property
    def mappings(self) -> Path:
        """What was learned of ledgers by their headers."""
        return self.root / "mappings.json"

    def make(self) -> None:
        """Make the folders that people use."""
        make_directory(self.inbox)
        make_directory(self.out)


def _plain(value: object) -> str:
    if isinstance(value, date | datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no place in a stored file")


def write(path: Path, content: Any) -> None:
    """Write JSON with dates as texts, whole or not at all."""
    text = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True, default=_plain)
    with written_aside(path) as file:
        file.write(text.encode("utf-8", "surrogatepass") + b"\n")


def _read(path: Path) -> Any:
    """What stands in one of our files; raises `NotReconciled` where it is damaged."""
    try:
        return read_json(path)
    except (OSError, ValueError) as error:
        raise NotReconciled(
            f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]}): it was changed "
            "or damaged. Nothing was reconciled and nothing was changed. Restore that folder from "
            "the backup."
        ) from error


def mappings(folder: Folder) -> dict[str, dict[str, str]]:
    """What was learned of ledgers by their headers."""
    return dict(_read(folder.mappings)) if folder.mappings.exists() else {}


def _numbered_files(place: Path) -> list[Path]:
    return sorted(path for path in place.glob("[0-9]*.json")) if place.is_dir() else []


def _add(place: Path, name: str, content: Json) -> int:
    kept = _numbered_files(place)
    number = int(kept[-1].name[:_DIGITS]) + 1 if kept else 1
    write(place / f"{number:0{_DIGITS}}{name}.json", content | {"no": number})
    return number


def add_annotations(folder: Folder, content: Json) -> int:
    """Add what one workbook, or the engine, said; returns the new revision."""
    return _add(folder.root / "annotations", "", content)


def annotations(folder: Folder) -> Iterator[Json]:
    """All of it in the order in which it came."""
    return (dict(_read(path)) for path in _numbered_files(folder.root / "annotations"))


def add_signoff(folder: Folder, content: Json) -> int:
    """Add one signature."""
    return _add(folder.root / "signoffs", "", content)


def signoffs(folder: Folder) -> Iterator[Json]:
    """All signatures in the order in which they came."""
    return (dict(_read(path)) for path in _numbered_files(folder.root / "signoffs"))


def add_result(folder: Folder, result: Json) -> None:
    """Keep the result of a run; the same result again is not kept twice."""
    place = folder.root / "results" / str(result["day"])
    kept = _numbered_files(place)
    if kept and kept[-1].stem.endswith(result["run_id"]):
        write(kept[-1], result | {"no": len(kept)})
        return
    _add(place, f"-{result['run_id']}", result)


def days(folder: Folder) -> list[date]:
    """The days that have a result, oldest first."""
    place = folder.root / "results"
    names = sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    return [date.fromisoformat(name) for name in names if _numbered_files(place / name)]


def is_newest(folder: Folder, day: date) -> bool:
    """Whether no later day has a result."""
    known = days(folder)
    return not known or day >= known[-1]


def newest(folder: Folder, day: date) -> Path | None:
    """The file of the newest result of a day."""
    kept = _numbered_files(folder.root / "results" / day.isoformat())
    return kept[-1] if kept else None


def result(folder: Folder, day: date) -> Json | None:
    """The newest result of a day."""
    path = newest(folder, day)
    return dict(_read(path)) if path else None


def result_of(folder: Folder, run_id: str) -> Json | None:
    """The result of one run, as it was kept last."""
    for path in sorted((folder.root / "results").glob("*/*.json"), reverse=True):
        if path.stem.partition("-")[2] == run_id:
            return dict(_read(path))
    return None


def before(folder: Folder, day: date) -> Json | None:
    """The newest result of an earlier day."""
    earlier = [day_ for day_ in days(folder) if day_ < day]
    return result(folder, earlier[-1]) if earlier else None


def by_id(result_: Mapping[str, Any] | None) -> dict[str, Json]:
    """The breaks of a result by their id."""
    return {break_["id"]: break_ for break_ in (result_ or {}).get("breaks", [])}


def read_before(folder: Folder, day: date) -> frozenset[str]:
    """Return the digests of ledgers with which an earlier day was reconciled."""
    path = folder.root / "read.json"
    known = dict(_read(path)) if path.exists() else {}
    last = before(folder, day) or {}
    return frozenset(
        [*(digest for digest, at in known.items() if at < day.isoformat())]
        + [source_["sha256"] for source_ in last.get("sources", [])]
    )


def add_read(folder: Folder, digests: Iterable[str], day: date) -> None:
    """Remember the first day that each ledger was read for."""
    path = folder.root / "read.json"
    known = dict(_read(path)) if path.exists() else {}
    for digest in digests:
        known[digest] = min(known.get(digest, day.isoformat()), day.isoformat())
    write(path, known)


def read_digests(folder: Folder) -> frozenset[str]:
    """Digests of workbooks that were read back, or written, already."""
    path = folder.root / "seen.json"
    known = _read(path) if path.exists() else []
    return frozenset([*known, *(entry["sha256"] for entry in annotations(folder))])


def add_digests(folder: Folder, digests: Iterable[str]) -> None:
    """Remember them."""
    write(folder.root / "seen.json", sorted({*read_digests(folder), *digests}))
