"""What was kept, as rows of the tables of `ops`.

A result has much that is not published: what is stands once more under `.published`, and is read
from there as long as the result is the same file. That folder may be removed at any time.
"""

import json
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

from warehouse.exact import exact, fit_decimal
from warehouse.reconcile.dimensions import CUSTOM, DIMENSIONS
from warehouse.reconcile.errors import NotReconciled
from warehouse.reconcile.store import archive
from warehouse.reconcile.store.archive import Folder, Json
from warehouse.storage.layout import read_json, written_aside

_SAME = ("episode", "result", "source", "placement", "cause", "note", "age_days", "change")
_SAID = ("status", "owner", "root_cause", "comment")
_PUBLISHED = ("fields", "run_id", "digest", "breaks")
Row = dict[str, Any]
Rows = dict[str, list[Row]]


def rows(folder: Folder) -> Rows:
    """Rows of `breaks`, `annotations` and `signoffs`, by the table's name.

    Raises `NotReconciled` where a kept file cannot be read.
    """
    try:
        return {
            "breaks": list(_breaks(folder)),
            "annotations": list(_annotations(folder)),
            "signoffs": list(_signoffs(folder)),
        }
    except NotReconciled:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotReconciled(
            f"What the reconciliation keeps under {folder.root} cannot be read "
            f"({type(error).__name__}: {str(error)[:200]}). ops.breaks, ops.annotations and "
            "ops.signoffs stay as they were; the book is not touched. Restore that folder from the "
            "backup."
        ) from error


def _facts(folder: Folder, day: date) -> Json:
    """What is published of the newest result of a day; nothing where there is none."""
    path = archive.newest(folder, day)
    if path is None:
        return {}
    about = path.stat()
    of = [path.name, about.st_size, about.st_mtime_ns]
    beside = folder.root / ".published" / f"{day}.json"
    known = _stored_rows(beside)
    if known.get("of") == of:
        return known
    found = archive.result(folder, day) or {}
    facts: Json = {"of": of} | {name: found[name] for name in _PUBLISHED}
    with written_aside(beside) as file:
        file.write(json.dumps(facts, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return facts


def _stored_rows(path: Path) -> Json:
    """What stands there already; nothing where it cannot be read, for it can be made again."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.keys() >= {"of", *_PUBLISHED} else {}


def _breaks(folder: Folder) -> Iterator[Row]:
    for day in archive.days(folder):
        found = _facts(folder, day)
        for break_ in found["breaks"]:
            yield _break(day, found["run_id"], found["fields"], break_)


def _break(day: date, run_id: str, fields: list[str], break_: Json) -> Row:
    key = dict(zip(fields, break_["key"], strict=True))
    asset = key["asset"]
    row: Row = {known.column: key.get(name) for name, known in DIMENSIONS.items()}
    row |= {name: break_[name] for name in (*_SAME, *_SAID)}
    return row | {
        "snapshot_date": day,
        "break_id": break_["id"],
        "run_id": run_id,
        "asset_id": asset.removesuffix(CUSTOM),
        "is_custom_asset": asset.endswith(CUSTOM),
        "ledger_text": break_["ledger"],
        "snapshot_text": break_["snapshot"],
        "difference": fit_decimal(exact(break_["difference"])),
        "difference_text": break_["difference"],
        "ledger_rows": break_["rows"],
        "first_seen": date.fromisoformat(break_["first_seen"]),
        "ever_seen": date.fromisoformat(break_["ever_seen"]),
    }


def _annotations(folder: Folder) -> Iterator[Row]:
    for entry_ in archive.annotations(folder):
        for number, entry in enumerate(entry_["entries"], 1):
            yield {
                "revision": entry_["no"],
                "entry_no": number,
                "break_id": entry["break_id"],
                "field": entry["field"],
                "value": entry["value"],
                "accepted_text": entry.get("accepted", ""),
                "who": entry_["who"],
                "said_at": datetime.fromisoformat(entry_["at"]),
                "source": entry_["source"],
                "sha256": entry_["sha256"],
            }


def _signoffs(folder: Folder) -> Iterator[Row]:
    for signoff in archive.signoffs(folder):
        day = date.fromisoformat(signoff["day"])
        newest = _facts(folder, day)
        yield {
            "snapshot_date": day,
            "signoff_no": signoff["no"],
            "role": signoff["role"],
            "who": signoff["who"],
            "signed_at": datetime.fromisoformat(signoff["at"]),
            "comment": signoff["comment"],
            "run_id": signoff["run_id"],
            "digest": signoff["digest"],
            "is_valid": newest.get("digest") == signoff["digest"],
        }
