"""Rules that use the names and values of members to judge whether a response is complete.

The API document describes neither pages (§4.6) nor partial responses, so the names of such members
are not known in advance. The rules judge a member by the words in its name.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any


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
    manifests, and lessons refer to it. `describe` returns a message for people.
    """

    evidence: Evidence
    code: str


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


COMPLETE = Hint(Evidence.COMPLETE, "is whole")
MORE = Hint(Evidence.INCOMPLETE, "says that there is more")
BEFORE = Hint(Evidence.INCOMPLETE, "says that there are records before it")
LATER = Hint(Evidence.INCOMPLETE, "says that it is not the first page")
SEVERAL = Hint(Evidence.INCOMPLETE, "says that there are several pages")
OTHER_COUNT = Hint(Evidence.INCOMPLETE, "says another number of records than came")
LEFT_OUT = Hint(Evidence.INCOMPLETE, "says that something is left out")
IN_PAGE = Hint(Evidence.PAGE, "names a page, and nothing says that it is the only one")
MORE_RECORDS = Hint(Evidence.INCOMPLETE, "holds records beside `data`")
TOO_DEEP = Hint(Evidence.INCOMPLETE, "is nested too deeply to be understood")
_MESSAGES = {
    COMPLETE.code: "shows that the response is complete",
    MORE.code: "indicates more records",
    BEFORE.code: "indicates a previous page",
    LATER.code: "shows that this is not the first page",
    SEVERAL.code: "shows that there are several pages",
    OTHER_COUNT.code: "does not match the number of records in the response",
    LEFT_OUT.code: "indicates that something is missing",
    IN_PAGE.code: "contains a page number, and nothing shows that this is the only page",
    MORE_RECORDS.code: "contains records outside of `data`",
    TOO_DEEP.code: "is nested too deeply to be checked",
}


def describe(code: str) -> str:
    """Return the message for a hint's stored code, or the code itself if it is unknown."""
    return _MESSAGES.get(code, code)


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
_KNOWN_WORDS = sorted(
    _MORE | _BEFORE | _CURSOR | _OFFSET | _LIMIT | _COUNTED | _RESOURCES | _INCOMPLETE | _COMPLETE
    | _words("page pages paging first last has is token rate request link links"),
    key=len,
    reverse=True,
)  # fmt: skip
_JOINED = re.compile(f"(?:{'|'.join(_KNOWN_WORDS)})+")
_KNOWN_WORD = re.compile("|".join(_KNOWN_WORDS))
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.0+)?", re.ASCII)
_NO_VALUES = {"", "false", "no", "none", "null", "0", "ok", "n/a"}
_YES_VALUES = {"true", "yes", "complete", "full", "whole", "100", "100%", "1"}
_MAX_NAME_LENGTH = 2000


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
    if words & _MORE and not words & _ABOUT:
        return COMPLETE if is_negative(value) else MORE
    if words & _BEFORE:
        return None if is_negative(value) else BEFORE
    if isinstance(value, dict | list) or value is None:
        return None
    if isinstance(value, bool):
        return _judge_flag(words, is_true=value)
    if words & _CURSOR or words >= {"page", "token"}:
        return None if is_negative(value) else IN_PAGE
    return _judge_number(member, _parse_whole(value))


def _judge_flag(words: frozenset[str], *, is_true: bool) -> Hint | None:
    """Return the hint in a flag named `first` or `last` (true or false), or None."""
    if words - {"is", "page"} == {"last"}:
        return COMPLETE if is_true else MORE
    if words - {"is", "page"} == {"first"}:
        return None if is_true else LATER
    return None


def _judge_number(member: Member, number: int | None) -> Hint | None:
    words = member.words
    is_page = "page" in words or (member.in_page and words <= _words("number current index last"))
    if "pages" in words or (is_page and words & _words("total count last max")):
        return _judge_page_count(number)
    if words & _LIMIT and words <= _LIMIT | _words("page x max items records results"):
        count = member.count_records()
        return None if number is None or count is None or number > count else IN_PAGE
    if is_page or words & _OFFSET:
        first = 0 if words & _OFFSET else 1
        return IN_PAGE if number is None or number <= first else LATER
    return _judge_count(member, number)


def _judge_page_count(number: int | None) -> Hint:
    if number is None:
        return IN_PAGE
    return COMPLETE if number <= 1 else SEVERAL


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
