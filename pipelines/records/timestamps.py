"""API timestamps (ISO 8601, section 2), converted to UTC microseconds.

A timestamp without a time zone is rejected, because any guess could be wrong. Digits after the
microsecond are truncated, not rounded. If a nonzero digit is lost, the value is listed in
`ops.inexact`.
"""

import re
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.records.amounts import replace_at

TYPE = pa.timestamp("us", tz="UTC")
# Arrow parses these formats exactly if all digits after the microsecond are truncated first.
# Strings in other formats are parsed one by one.
GATE = (
    r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})$"
)
_EXTRA_DIGITS = r"(\.[0-9]{6})[0-9]+"
# Only strings longer than this can have more than six fractional digits.
_MAX_EXACT_LENGTH = len("2026-11-20T02:15:00.123456Z")
_LOST_DIGITS = r"\.[0-9]{6}0*[1-9]"
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2}|\d{8}|\d{4}-W\d{2}-\d)[Tt ](?!24)"
    r"(?:(\d{2}:\d{2}:\d{2}|\d{6})(?:[.,](\d+))?|(\d{2}(?::?\d{2})?))"
    r"([Zz]|[+-]\d{2}(?::?[0-5]\d)?)",
    re.ASCII,
)


def parse(text: str) -> tuple[datetime, bool] | None:
    """Parse a timestamp. Return the UTC time and whether it is exact, or None if it is invalid."""
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
    """Convert a column of strings to UTC microseconds.

    Also return the indexes of invalid strings, and the indexes of strings that lost digits.
    """
    gated = pc.match_substring_regex(texts, GATE)
    candidates = pc.if_else(gated, texts, pa.NULL)
    cut: list[int] = []
    # Arrow reads at most six fractional digits, so truncate longer fractions first. If a nonzero
    # digit is lost, return the string's index, so that the value is listed in `ops.inexact`.
    if (pc.max(pc.binary_length(candidates)).as_py() or 0) > _MAX_EXACT_LENGTH:
        cut = pc.indices_nonzero(pc.match_substring_regex(candidates, _LOST_DIGITS)).to_pylist()
        candidates = pc.replace_substring_regex(candidates, _EXTRA_DIGITS, r"\1")
    try:
        values = candidates.cast(TYPE)
        slow = pc.indices_nonzero(pc.fill_null(pc.invert(gated), fill_value=False)).to_pylist()
    except pa.ArrowInvalid:  # The column contains an impossible date, for example February 30.
        # One impossible date makes Arrow reject the whole column, so parse every string
        # individually.
        values, cut = pa.nulls(len(texts), TYPE), []
        slow = pc.indices_nonzero(pc.is_valid(texts)).to_pylist()
    if not slow:
        return values, [], cut
    parsed = {place: parse(texts[place].as_py()) for place in slow}
    filled = {place: moment[0] for place, moment in parsed.items() if moment}
    invalid = [place for place, moment in parsed.items() if moment is None]
    cut += [place for place, moment in parsed.items() if moment and not moment[1]]
    return replace_at(values, filled) if filled else values, invalid, sorted(cut)
