"""What the name of a member and its value say of the whole: more to come, or nothing left out.

The document has neither pages (4.6) nor partial answers, so their names are not known beforehand:
they are judged by the words in them. A name that has nothing to do with either says nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any


class Weight(Enum):
    """How much a hint counts: `PROOF` of the whole outweighs a `PLACE` in it, never a `DENIAL`."""

    PROOF = "the answer is whole"
    PLACE = "a place among pages, which alone proves nothing"
    DENIAL = "the answer is not whole"


@dataclass(frozen=True, slots=True)
class Hint:
    """What one member says; `words` hold no value, so that they are the same every night."""

    weight: Weight
    words: str


@dataclass(frozen=True, slots=True)
class Member:
    """A name and its value; `records` counts what came, and gives None where that is no list."""

    words: frozenset[str]
    value: Any
    records: Callable[[], int | None]
    noun: str
    in_page: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PROOF = Hint(Weight.PROOF, "is whole")
MORE = Hint(Weight.DENIAL, "says that there is more")
BEFORE = Hint(Weight.DENIAL, "says that something stands before it")
LATER = Hint(Weight.DENIAL, "says that it is not the first page")
SEVERAL = Hint(Weight.DENIAL, "says that there are several pages")
OTHER_COUNT = Hint(Weight.DENIAL, "says another number of records than came")
LEFT_OUT = Hint(Weight.DENIAL, "says that something is left out")
IN_PAGE = Hint(Weight.PLACE, "names a page, and nothing says that it is the only one")

_MORE = _words("next more continuation continue remaining")
_BEFORE = _words("previous prev")
_CURSOR = _words("cursor cursors marker scroll")
_OFFSET = _words("offset skip")
_LIMIT = _words("limit per size")
_TOTAL = _words("total count all available found matched hits")
_COUNTED = _TOTAL | _words(
    "length records record results result items item elements element entries rows returned data "
    "documents objects"
)
_NOUNS = _words("portfolio portfolios venue venues instrument instruments")
_FILLING = _words("x odata num number of n is has")
_PARTIAL = _words(
    "partial partially truncated truncation incomplete degraded warning warnings error errors "
    "failure failures failed skipped omitted missing excluded unavailable dropped capped sampled "
    "stale filtered limited restricted hidden redacted exceeded"
)
_FLAGS = _words("partial truncated incomplete")
_COMPLETE = _words("complete completeness exhaustive coverage")
_SPOKEN = _words("partial partially truncated incomplete degraded")
# A name with one of these is not about pages, whatever else is in it: `rateLimit`, `nextUpdateAt`.
_UNRELATED = _words(
    "rate ratelimit quota throttle request requests retry retries attempt attempts time timing "
    "timestamp timeout ms millis seconds latency duration elapsed took generated date at update "
    "updated modified created expires refresh reset window maintenance release version build "
    "sunset deprecated server host region trace correlation cache cached ttl runtime uptime schema "
    "api uuid cost credits bytes weight usage cpu memory connection connections help docs "
    "documentation policy"
)
_ABOUT = _words("info details about")
_NO_PART = _words("rate ratio policy help docs documentation contact threshold info")
_KNOWN = sorted(
    _MORE | _BEFORE | _CURSOR | _OFFSET | _LIMIT | _COUNTED | _NOUNS | _PARTIAL | _COMPLETE
    | _words("page pages paging first last has is token rate request link links"),
    key=len,
    reverse=True,
)  # fmt: skip
_JOINED = re.compile(f"(?:{'|'.join(_KNOWN)})+")
_KNOWN_WORD = re.compile("|".join(_KNOWN))
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.0+)?", re.ASCII)
_NOTHING = {"", "false", "no", "none", "null", "0", "ok", "n/a"}
_YES = {"true", "yes", "complete", "full", "whole", "100", "100%", "1"}
_LONGEST = 2000


def words_of(name: str) -> frozenset[str]:
    """Split a name into lower-case words: `hasMore`, `has_more` and `hasmore` are alike."""
    return _words_of(name[:_LONGEST])


@lru_cache(maxsize=4096)  # names repeat, and whoever sends others all the time fills no memory
def _words_of(name: str) -> frozenset[str]:
    name_words: list[str] = []
    # Names written as one word (`hasmore`) are taken apart by the words that are known, longest
    # first; a word that is not wholly made of them stays as it is.
    for word in (word.lower() for word in _WORD.findall(name)):
        name_words += _KNOWN_WORD.findall(word) if _JOINED.fullmatch(word) else [word]
    return frozenset(name_words)


def is_unrelated(words: frozenset[str]) -> bool:
    """Return whether a name, and all below it, has nothing to do with pages."""
    return bool(words & _UNRELATED)


def is_nothing(value: Any) -> bool:
    """Return whether a value says no: null, false, zero, empty, or only such things within."""
    if isinstance(value, dict):
        return all(map(is_nothing, value.values()))
    if isinstance(value, list):
        return all(map(is_nothing, value))
    if isinstance(value, str):
        return value.strip().lower() in _NOTHING
    return not value


def completeness(member: Member) -> Hint | None:
    """Return what a member says of the answer being cut: `partial`, `warnings`, `complete`."""
    words, value = member.words, member.value
    if words & _PARTIAL and not words & _NO_PART:
        if not is_nothing(value):
            return LEFT_OUT
        return PROOF if words & _FLAGS and value is False else None
    if words & _COMPLETE and not is_unrelated(words) and not isinstance(value, dict | list):
        if value is None or value == "":
            return None
        return PROOF if str(value).strip().lower() in _YES else LEFT_OUT
    is_spoken = isinstance(value, str) and words_of(value) & _SPOKEN
    return LEFT_OUT if is_spoken else None


def position(member: Member) -> Hint | None:
    """Return what a member says of pages and counts; None where it says nothing of them."""
    words, value = member.words, member.value
    if words & _MORE and not words & _ABOUT:
        return PROOF if is_nothing(value) else MORE
    if words & _BEFORE:
        return None if is_nothing(value) else BEFORE
    if isinstance(value, dict | list) or value is None:
        return None
    if isinstance(value, bool):
        return _flag(words, is_true=value)
    if words & _CURSOR or words >= {"page", "token"}:
        return None if is_nothing(value) else IN_PAGE
    return _number(member, _whole(value))


def _flag(words: frozenset[str], *, is_true: bool) -> Hint | None:
    """Return the `first` and `last` of a page object."""
    if words - {"is", "page"} == {"last"}:
        return PROOF if is_true else MORE
    if words - {"is", "page"} == {"first"}:
        return None if is_true else LATER
    return None


def _number(member: Member, number: int | None) -> Hint | None:
    words = member.words
    is_page = "page" in words or (member.in_page and words <= _words("number current index last"))
    if "pages" in words or (is_page and words & _words("total count last max")):
        return _counted_pages(number)
    if words & _LIMIT and words <= _LIMIT | _words("page x max items records results"):
        came = member.records()
        return None if number is None or came is None or number > came else IN_PAGE
    if is_page or words & _OFFSET:
        first = 0 if words & _OFFSET else 1
        return IN_PAGE if number is None or number <= first else LATER
    return _count(member, number)


def _counted_pages(number: int | None) -> Hint:
    if number is None:
        return IN_PAGE
    return PROOF if number <= 1 else SEVERAL


def _count(member: Member, number: int | None) -> Hint | None:
    words = member.words - _FILLING
    others = (words & _NOUNS) - {member.noun, member.noun.removesuffix("s")}
    if others or not words or not words <= _COUNTED | _NOUNS or (came := member.records()) is None:
        return None
    if number is None:
        return IN_PAGE
    # A total that differs from what came is the strongest sign there is; one that agrees is proof
    # only where the word means all (`total`), not what was returned (`count` of `rows`).
    if number != came:
        return OTHER_COUNT
    return PROOF if words & _TOTAL else None


def _whole(value: Any) -> int | None:
    """Return a number of things, also as text; None for anything else."""
    text = str(value).strip()
    return int(text.partition(".")[0]) if _WHOLE_NUMBER.fullmatch(text) else None
