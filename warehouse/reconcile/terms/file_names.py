"""What the name of a ledger's file says: its day, and what it shares with those of other nights."""

import glob
import re
from datetime import date
from pathlib import Path

_DAY = re.compile(r"(20[0-9]{2})[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12][0-9]|3[01])")
_DAY_FIRST = re.compile(r"(0?[1-9]|[12][0-9]|3[01])\.(0?[1-9]|1[0-2])\.(20[0-9]{2})")
_COPY = re.compile(
    r"[\W_]*(copy|kopie|copie|copia|\([0-9]+\)|final|new|v[0-9]+)(?!\w)", re.IGNORECASE
)


def day_in(name: str) -> date | None:
    """Return the date in a file's name, or None."""
    match, german = _DAY.search(name), _DAY_FIRST.search(name)
    parts = match.groups() if match else german.groups()[::-1] if german else None
    try:
        return date(*map(int, parts)) if parts else None
    except ValueError:
        return None


def family(name: str) -> str:
    """Return what the nightly files of one ledger have in common in their names."""
    stem = _DAY.sub("", " ".join(Path(part).stem for part in name.split("/")))
    return re.sub(r"[\W\d_]+", " ", _COPY.sub("", stem)).strip().casefold()


def name_pattern(name: str) -> str:
    """Return the pattern of the nightly files of a name for recon.toml: its date may be any."""
    return _DAY_FIRST.sub("*", _DAY.sub("*", glob.escape(name)))
