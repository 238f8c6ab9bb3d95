"""The keys of the shelf's objects: each is used once, for it says what it holds.

`landing/<date>/<snapshot_id>-<sha>.bodies` holds all bodies of a night one after the other,
`lake/<table>/snapshot_date=<date>/<snapshot_id>-<sha>.parquet` one table, and
`manifests/<snapshot_id>-<generation>.json` says that they are the night. `LATEST` names the newest
manifest.
"""

import re
from datetime import date

LATEST = "LATEST"
PROBE = "probe"
FOLDER = "manifests"
SHORT = 16  # digits of a SHA-256: enough to tell apart what one night's table ever was
_MANIFEST = re.compile(rf"{FOLDER}/([0-9]{{8}}T[0-9]{{6}}Z)-([0-9]{{4,9}})\.json")


def manifest_key(snapshot_id: str, generation: int) -> str:
    """Return the key of a generation of a night."""
    return f"{FOLDER}/{snapshot_id}-{generation:04}.json"


def generation_of(key: str) -> tuple[str, int]:
    """Return the night and generation of a manifest's key; an empty night for another key."""
    match = _MANIFEST.fullmatch(key)
    return (match[1], int(match[2])) if match else ("", 0)


def bodies_key(day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of a night's bodies."""
    return f"landing/{day}/{snapshot_id}-{sha256[:SHORT]}.bodies"


def table_key(table: str, day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of a table of a night."""
    return f"lake/{table}/snapshot_date={day}/{snapshot_id}-{sha256[:SHORT]}.parquet"


def part_key(part: str, day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of what was noted while a part of a night was flattened."""
    return f"lake/parts/snapshot_date={day}/{snapshot_id}-{part}-{sha256[:SHORT]}.json"
