"""Times: ISO 8601 date-times of the API (section 2) as UTC microseconds.

A time needs its zone: without one it is not a moment, and is rejected rather than guessed.
Digits below the microsecond are cut, never rounded, and such a value is listed in `ops.inexact`.
"""

import contextlib
import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.records.amounts import replace_at

TYPE = pa.timestamp("us", tz="UTC")
# The forms that Arrow reads exactly, once they are cut; all others are read one by one.
GATE = (
    r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})$"
)
# In microseconds, without pyarrow: its first value looks for pandas, which no night needs.
_YEAR_1000, _YEAR_3000 = (
    (datetime(year, 1, 1, tzinfo=UTC) - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
    for year in (1000, 3000)
)
_BELOW = r"(\.[0-9]{6})[0-9]+"
_LONGEST_WHOLE = len("2026-11-20T02:15:00.123456Z")  # more digits of a second make more letters
_LOST = r"\.[0-9]{6}0*[1-9]"
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2}|\d{8}|\d{4}-W\d{2}-\d)[Tt ](?!24)"
    r"(?:(\d{2}:\d{2}:\d{2}|\d{6})(?:[.,](\d+))?|(\d{2}(?::?\d{2})?))"
    r"([Zz]|[+-]\d{2}(?::?[0-5]\d)?)",
    re.ASCII,
)


def parse(text: str) -> tuple[datetime, bool] | None:
    """Read a time as UTC, and whether microseconds hold it; None where it is no time."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    day, seconds, fraction, minutes, zone = match.groups()
    micro = "." + fraction[:6].ljust(6, "0") if fraction else ""
    try:
        local = datetime.fromisoformat(f"{day}T{seconds or minutes}{micro}{zone.upper()}")
        moment = local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment, not (fraction and fraction[6:].strip("0"))


def column(texts: pa.Array) -> tuple[pa.Array, list[int], list[int]]:
    """Return texts as UTC microseconds; the places that are no time; the places that were cut."""
    # What Arrow reads of these years is what `parse` reads, or nothing: compared for 29,000 texts
    # that it took. Where it refuses one, each is looked at.
    with contextlib.suppress(pa.ArrowInvalid):
        values = texts.cast(TYPE)
        first, last = pc.min_max(values.view(pa.int64())).values()
        if not first.is_valid or _YEAR_1000 <= first.as_py() <= last.as_py() < _YEAR_3000:
            return values, [], []
    gated = pc.match_substring_regex(texts, GATE)
    candidates = pc.if_else(gated, texts, pa.NULL)
    cut: list[int] = []
    # Arrow reads at most six digits of a second, so more are cut first; where something other than
    # zeros was lost, the place is returned to be listed.
    if (pc.max(pc.binary_length(candidates)).as_py() or 0) > _LONGEST_WHOLE:
        cut = pc.indices_nonzero(pc.match_substring_regex(candidates, _LOST)).to_pylist()
        candidates = pc.replace_substring_regex(candidates, _BELOW, r"\1")
    try:
        values = candidates.cast(TYPE)
        slow = pc.indices_nonzero(pc.fill_null(pc.invert(gated), fill_value=False)).to_pylist()
    except pa.ArrowInvalid:  # the 30th of February: right in form only
        # One impossible date refuses the whole column: then every text is read by itself.
        values, cut = pa.nulls(len(texts), TYPE), []
        slow = pc.indices_nonzero(pc.is_valid(texts)).to_pylist()
    if not slow:
        return values, [], cut
    read = {place: parse(texts[place].as_py()) for place in slow}
    filled = {place: moment[0] for place, moment in read.items() if moment}
    wrong = [place for place, moment in read.items() if moment is None]
    cut += [place for place, moment in read.items() if moment and not moment[1]]
    return replace_at(values, filled) if filled else values, wrong, sorted(cut)
