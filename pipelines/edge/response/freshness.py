"""Signs that a response was not made now: a cache answered, or the data is from an earlier time.

The API returns what portfolios hold now (§1), so an old response would be stored as tonight's book.
A cache states an age in `Age` (RFC 9111), repeats an old `Date`, or warns (110, 111). A service may
also state the time of its data in `meta`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from pipelines.edge.response.hints import split_name
from pipelines.edge.response.wholeness import MAX_DEPTH, META, shorten

# A response that is older than this is not tonight's. Services compute balances every few minutes.
MAX_AGE = timedelta(minutes=5)
# The codes of notices about old responses, by the least age. They are stored in manifests, and
# lessons refer to them, so a lesson about minutes does not cover a response that is days old.
AGE_CODES = {
    timedelta(days=1): "is days old",
    timedelta(hours=1): "is hours old",
    timedelta(0): "is minutes old",
}
UNKNOWN_AGE = "is from a cache"
OLD_CODES = {*AGE_CODES.values(), UNKNOWN_AGE}
DATE = "header date"
_CACHE_STATUS = re.compile(r"\b(stale|updating)\b", re.IGNORECASE)
_HIT = re.compile(r"(?<![a-z])hit\b", re.IGNORECASE)
_CACHE_HEADERS = ("x-cache", "cf-cache-status", "cache-status", "x-cache-status", "x-proxy-cache")
_STALE_WARNING = re.compile(r"(^|,)\s*11[01]\b")
_AGE = re.compile(r"\s*([0-9]{1,10})\s*", re.ASCII)
# Names of times in `meta` that say when the data was made, and words of names that are about
# something else, for example `apiVersionUpdatedAt`.
_MADE = frozenset(
    {"as", "generated", "computed", "calculated", "snapshot", "cached", "updated", "data", "valued"}
)
_TIME = frozenset({"of", "at", "on", "time", "timestamp", "date"})
_ABOUT_OTHERS = frozenset(
    {
        "api",
        "version",
        "release",
        "schema",
        "build",
        "deploy",
        "server",
        "started",
        "key",
        "expires",
        "next",
        "until",
        "docs",
        "reset",
        "sunset",
        "deprecated",
        "created",
    }
)
_PLAIN = ({"timestamp"}, {"time"}, {"date"})
_SECONDS, _MILLISECONDS = 10, 13  # digits of a Unix time


@dataclass(frozen=True, slots=True, order=True)
class OldSign:
    """A sign that a response is old: its location, its text, and the age if it is known."""

    location: str
    example: str
    age: timedelta | None

    @property
    def code(self) -> str:
        """The code of the notice about this sign."""
        if self.age is None:
            return UNKNOWN_AGE
        return next(code for least, code in AGE_CODES.items() if self.age >= least)


def find_old_signs(
    headers: Mapping[str, str], meta: msgspec.Raw | bytes, asked: datetime, date: datetime | None
) -> tuple[OldSign, ...]:
    """Return the signs that a response is older than five minutes.

    `asked` is the time of the request by the corrected clock, and `date` is the `Date` header of
    the response. Times are in UTC.
    """
    return tuple(
        sign
        for sign in (*_by_headers(headers, asked, date), *_by_meta(meta, asked))
        if sign.age is None or sign.age > MAX_AGE
    )


def parse_age(headers: Mapping[str, str]) -> timedelta | None:
    """Return the age that a cache states, or None if there is no valid `Age` header."""
    valid = _AGE.fullmatch(headers.get("age", ""))
    return timedelta(seconds=int(valid[1])) if valid else None


def _by_headers(
    headers: Mapping[str, str], asked: datetime, date: datetime | None
) -> Iterator[OldSign]:
    age = parse_age(headers)
    if age is not None:
        yield OldSign("header age", headers["age"].strip(), age)
    if date is not None:
        yield OldSign(DATE, headers["date"], asked - date)
    if _STALE_WARNING.search(headers.get("warning", "")):
        yield OldSign("header warning", headers["warning"][:120], age)
    for name in _CACHE_HEADERS:
        text = headers.get(name, "")
        if _CACHE_STATUS.search(text) or (age is None and _HIT.search(text)):
            yield OldSign(f"header {name}", text[:120], None)


def _by_meta(meta: msgspec.Raw | bytes, asked: datetime) -> Iterator[OldSign]:
    for location, name, value in _leaves(msgspec.json.decode(meta), META):
        if _says_when(split_name(name)) and (moment := _moment(value)) is not None:
            yield OldSign(location, shorten(value), asked - moment)


def _leaves(value: Any, location: str, depth: int = 0) -> Iterator[tuple[str, str, Any]]:
    """Yield the location, name and value of each member of an object and of its objects."""
    if not isinstance(value, dict) or depth > MAX_DEPTH:
        return
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{location}.{name[:60]}", depth + 1)
        else:
            yield f"{location}.{name[:60]}", name, inner


def _says_when(words: frozenset[str]) -> bool:
    """Return whether a name says when the data was made, for example `asOf` or `generatedAt`."""
    if words & _ABOUT_OTHERS:
        return False
    is_made = bool(words & _MADE) and (words <= _MADE or bool(words & _TIME))
    return words in _PLAIN or is_made


def _moment(value: Any) -> datetime | None:
    """Parse an ISO 8601 time, date or Unix time as UTC. A date means the end of that day."""
    text = str(value).strip() if isinstance(value, str | int) and value is not True else ""
    try:
        if text.isdigit() and len(text) in (_SECONDS, _MILLISECONDS):
            return datetime.fromtimestamp(int(text[:_SECONDS]), tz=UTC)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    if len(text) <= len("2026-11-20"):
        # Somewhere on Earth, a day ends 12 hours later than in UTC.
        return moment.replace(tzinfo=UTC) + timedelta(days=1, hours=12)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
