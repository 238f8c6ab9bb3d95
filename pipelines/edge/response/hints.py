"""Rules that use the names and values of members to judge whether a response is complete.

The API document describes neither pages (§4.6) nor partial responses, so the names of such members
are not known in advance. The rules judge a member by the words in its name.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.0+)?", re.ASCII)
_NO_VALUES = {"", "false", "no", "none", "null", "0", "ok", "n/a"}
_YES_VALUES = {"true", "yes", "complete", "full", "whole", "100", "100%", "1"}
_MAX_NAME_LENGTH = 2000


class Evidence(Enum):
    """A hint's kind of evidence: complete response, incomplete response, or page position.

    `PAGE` is a page position, which proves nothing by itself. It counts only if no hint is
    `COMPLETE`. An `INCOMPLETE` hint always counts.
    """

    COMPLETE = "complete"
    PAGE = "page"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Hint:
    """A conclusion about whether a response is complete, drawn from one member or header.

    `code` never changes, even if its wording is poor, because it is stored in the nights'
    manifests, and lessons refer to it. `message` is for people.
    """

    code: str
    message: str
    evidence: Evidence = Evidence.INCOMPLETE


@dataclass(frozen=True, slots=True)
class Member:
    """A JSON member or an HTTP header that may show whether a response is complete.

    `words` are the lower-case words in its name. `count_records` returns the number of records in
    the response, or None if the response is not a list. `resource` is the kind of record, for
    example `portfolios`. `in_page` is True if the member is inside an object that describes a page.
    """

    words: frozenset[str]
    value: Any
    count_records: Callable[[], int | None]
    resource: str
    in_page: bool = False


COMPLETE = Hint("is whole", "shows that the response is complete", Evidence.COMPLETE)
MORE = Hint("says that there is more", "indicates more records")
BEFORE = Hint("says that there are records before it", "indicates a previous page")
LATER = Hint("says that it is not the first page", "shows that this is not the first page")
SEVERAL = Hint("says that there are several pages", "shows that there are several pages")
OTHER_COUNT = Hint(
    "says another number of records than came",
    "does not match the number of records in the response",
)
LEFT_OUT = Hint("says that something is left out", "indicates that something is missing")
IN_PAGE = Hint(
    "names a page, and nothing says that it is the only one",
    "contains a page number, and nothing shows that this is the only page",
    Evidence.PAGE,
)
MORE_RECORDS = Hint("holds records beside `data`", "contains records outside of `data`")
TOO_DEEP = Hint("is nested too deeply to be understood", "is nested too deeply to be checked")
_HINTS = (COMPLETE, MORE, BEFORE, LATER, SEVERAL, OTHER_COUNT, LEFT_OUT, IN_PAGE, MORE_RECORDS)
_MESSAGES = {hint.code: hint.message for hint in (*_HINTS, TOO_DEEP)}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
_RESOURCES = _words("portfolio portfolios venue venues instrument instruments")
_FILLERS = _words("x odata num number of n is has")
_INCOMPLETE = _words(
    "partial partially truncated truncation incomplete degraded warning warnings error errors "
    "failure failures failed skipped omitted missing excluded unavailable dropped capped sampled "
    "stale filtered limited restricted hidden redacted exceeded"
)
_FLAGS = _words("partial truncated incomplete")
_COMPLETE = _words("complete completeness exhaustive coverage")
_INCOMPLETE_VALUES = _words("partial partially truncated incomplete degraded")
# A name with one of these words, for example `rateLimit` or `nextUpdateAt`, is not about pages,
# whatever else it contains.
_UNRELATED = _words(
    "rate ratelimit quota throttle request requests retry retries attempt attempts time timing "
    "timestamp timeout ms millis seconds latency duration elapsed took generated date at update "
    "updated modified created expires refresh reset window maintenance release version build "
    "sunset deprecated server host region trace correlation cache cached ttl runtime uptime schema "
    "api uuid cost credits bytes weight usage cpu memory connection connections help docs "
    "documentation policy"
)
_ABOUT = _words("info details about")
_NOT_INCOMPLETE = _words("rate ratio policy help docs documentation contact threshold info")
# The words in a name, the words that exclude the rule, and the hints for a value that means "no"
# and for any other value.
_RULES = ((_MORE, _ABOUT, COMPLETE, MORE), (_BEFORE, frozenset[str](), None, BEFORE))
# The hint in a flag, such as `last` or `isLastPage`, by the words in its name and its value.
_PAGE_FLAGS = {
    (_words("last"), True): COMPLETE,
    (_words("last"), False): MORE,
    (_words("first"), False): LATER,
}
_KNOWN_WORDS = sorted(
    _MORE | _BEFORE | _CURSOR | _OFFSET | _LIMIT | _COUNTED | _RESOURCES | _INCOMPLETE | _COMPLETE
    | _words("page pages paging first last has is token rate request link links"),
    key=len,
    reverse=True,
)  # fmt: skip
_JOINED = re.compile(f"(?:{'|'.join(_KNOWN_WORDS)})+")
_KNOWN_WORD = re.compile("|".join(_KNOWN_WORDS))


def describe(code: str) -> str:
    """Return the message for a hint's stored code, or the code itself if it is unknown."""
    return _MESSAGES.get(code, code)


def split_name(name: str) -> frozenset[str]:
    """Split a name (`hasMore`, `has_more` or `hasmore`) into lower-case words (`has`, `more`)."""
    name_words: list[str] = []
    # Split a name written as one word (`hasmore`) into known words, longest first. Leave the name
    # unchanged if parts of it are not known words.
    for word in (word.lower() for word in _WORD.findall(name[:_MAX_NAME_LENGTH])):
        name_words += _KNOWN_WORD.findall(word) if _JOINED.fullmatch(word) else [word]
    return frozenset(name_words)


def is_unrelated(words: frozenset[str]) -> bool:
    """Return whether a name shows that a member and its contents are not about pages."""
    return bool(words & _UNRELATED)


def is_negative(value: Any) -> bool:
    """Return whether a value means "no": null, false, zero, or a container of only such values."""
    if isinstance(value, dict):
        return all(map(is_negative, value.values()))
    if isinstance(value, list):
        return all(map(is_negative, value))
    if isinstance(value, str):
        return value.strip().lower() in _NO_VALUES
    return not value


def judge_completeness(member: Member) -> Hint | None:
    """Return the hint in a member such as `partial`, `warnings` or `complete`, or None."""
    words, value = member.words, member.value
    if words & _INCOMPLETE and not words & _NOT_INCOMPLETE:
        if not is_negative(value):
            return LEFT_OUT
        return COMPLETE if words & _FLAGS and value is False else None
    if words & _COMPLETE and not is_unrelated(words) and not isinstance(value, dict | list):
        if value is None or value == "":
            return None
        return COMPLETE if str(value).strip().lower() in _YES_VALUES else LEFT_OUT
    is_incomplete = isinstance(value, str) and split_name(value) & _INCOMPLETE_VALUES
    return LEFT_OUT if is_incomplete else None


def judge_position(member: Member) -> Hint | None:
    """Return the hint in a JSON member (a page position, link or count), or None."""
    words, value = member.words, member.value
    for names, others, if_no, if_yes in _RULES:
        if words & names and not words & others:
            return if_no if is_negative(value) else if_yes
    if isinstance(value, dict | list) or value is None:
        return None
    if isinstance(value, bool):
        return _PAGE_FLAGS.get((words - {"is", "page"}, value))
    if words & _CURSOR or words >= {"page", "token"}:
        return None if is_negative(value) else IN_PAGE
    return _judge_number(member, _parse_whole(value))


def _judge_number(member: Member, number: int | None) -> Hint | None:
    words = member.words
    is_page = "page" in words or (member.in_page and words <= _words("number current index last"))
    if "pages" in words or (is_page and words & _words("total count last max")):
        return IN_PAGE if number is None else COMPLETE if number <= 1 else SEVERAL
    if words & _LIMIT and words <= _LIMIT | _words("page x max items records results"):
        count = member.count_records()
        return None if number is None or count is None or number > count else IN_PAGE
    if is_page or words & _OFFSET:
        first = 0 if words & _OFFSET else 1
        return IN_PAGE if number is None or number <= first else LATER
    return _judge_count(member, number)


def _judge_count(member: Member, number: int | None) -> Hint | None:
    words = member.words - _FILLERS
    # Ignore counts of other resources. In a list of portfolios, `venueCount` does not count the
    # records.
    other_resources = (words & _RESOURCES) - {member.resource, member.resource.removesuffix("s")}
    if other_resources or not words or not words <= _COUNTED | _RESOURCES:
        return None
    count = member.count_records()
    if count is None:
        return None
    if number is None:
        return IN_PAGE
    # A count that differs from the number of records is the strongest hint. An equal count proves
    # that the response is complete if it counts all records (`total`), but not if it counts the
    # returned records (`rows`).
    if number != count:
        return OTHER_COUNT
    return COMPLETE if words & _TOTAL else None


def _parse_whole(value: Any) -> int | None:
    """Parse a whole number, or a string that contains one. Return None for other values."""
    text = str(value).strip()
    return int(text.partition(".")[0]) if _WHOLE_NUMBER.fullmatch(text) else None
