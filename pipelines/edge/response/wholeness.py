"""Hints that a response is one of several pages, or incomplete for another reason.

The API document describes neither pages nor incomplete responses (§4.6), so hints may be in `meta`,
in other envelope members or in the headers. Some hints prove that the response is complete, for
example `hasMore: false`. This module does not send or receive anything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pipelines.edge.response.envelope import Envelope, raw_records
from pipelines.edge.response.hints import (
    BEFORE,
    COMPLETE,
    IN_PAGE,
    LATER,
    LEFT_OUT,
    MORE,
    MORE_RECORDS,
    OTHER_COUNT,
    SEVERAL,
    TOO_DEEP,
    Evidence,
    Hint,
    Member,
    is_negative,
    is_unrelated,
    judge_completeness,
    judge_position,
    split_name,
)

ENVELOPE, META = "$", "meta"
MAX_DEPTH = 64
# The maximum number of hints per response. Without a limit, a body with a million keys would fill
# the manifest.
MAX_HINTS = 40

_MAX_EXAMPLE = 120  # maximum number of characters that a hint quotes from a value
_MAX_UNKNOWN_EXAMPLE = 200  # maximum number of bytes quoted from an undocumented member
# Keys that occur only in records with money (§2.1, §2.3, §2.4). If they appear outside of `data`,
# there is money outside of `data`.
_RECORD_KEYS = {"positions", "accounts", "balance", "balances"}
_PAGE_WORDS = frozenset({"page", "pages", "paging", "pagination"})
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_REL = re.compile(r"""\brel\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,]+))""", re.IGNORECASE)
_RANGE = re.compile(r"\s*(\w+)\s+(?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)\s*", re.ASCII)
_RELATIONS = {"next": MORE, "prev": BEFORE, "previous": BEFORE}
# Standard HTTP headers that carry no information about records. Other headers are judged by their
# names.
_STANDARD_HEADERS = re.compile(
    "content-(?!range).*|accept-.*|access-control-.*|strict-.*|cross-origin-.*|sec-.*|alt-svc|age|"
    "allow|cache-control|connection|date|etag|expires|keep-alive|last-modified|location|nel|"
    "pragma|referrer-policy|report-to|retry-after|server|set-cookie|trailer|transfer-encoding|"
    "upgrade|vary|via|www-authenticate|x-content-type-options|x-frame-options|x-powered-by|"
    "x-xss-protection"
)

# A hint with its location and an example.
_Found = tuple[str, Hint, str]


@dataclass(frozen=True, slots=True, order=True)
class TruncationHint:
    """A member or header that indicates an incomplete response.

    `location` is a JSON path or a header name. `code` is the `Hint`'s code, which is stored and
    contains no value. `example` is the value, truncated to 120 characters.
    """

    location: str
    code: str
    example: str


class _Reader:
    """A reader that finds the hints in a response. Counts the records only if necessary."""

    def __init__(self, envelope: Envelope, resource: str) -> None:
        self._envelope, self._resource = envelope, resource
        self._record_count: int | None = None

    def read_body(self) -> Iterator[_Found]:
        """Yield the hints in `meta` and in the members next to `data`."""
        for name, raw in self._envelope.other_members.items():
            location, value = f"{ENVELOPE}.{_quote_key(name)}", msgspec.json.decode(raw)
            if _is_too_deep(value):
                yield location, TOO_DEEP, ""
                continue
            if _has_records(value):
                yield location, MORE_RECORDS, shorten(value)
            yield from self._read({name: value}, ENVELOPE)
        meta = msgspec.json.decode(self._envelope.meta)
        yield from [(META, TOO_DEEP, "")] if _is_too_deep(meta) else self._read(meta, META)

    def read_headers(self, headers: Mapping[str, str]) -> Iterator[_Found]:
        """Yield the hints in the response headers."""
        for name, text in headers.items():
            location = f"header {_quote_key(name.lower())}"
            for hint in self._judge_header(name.lower(), text):
                if hint is not None:
                    yield location, hint, text[:_MAX_EXAMPLE]

    def _judge_header(self, name: str, text: str) -> Iterable[Hint | None]:
        if name == "link":
            return _judge_link_header(text)
        if name == "content-range":
            return [self._judge_content_range(text)]
        if name == "warning":
            return [LEFT_OUT]
        if _STANDARD_HEADERS.fullmatch(name):
            return []
        words, value = split_name(name), _parse_header_value(text)
        return [self._judge(words, value, is_related=not is_unrelated(words), in_page=False)]

    def _read(
        self,
        value: Any,
        location: str,
        words: frozenset[str] = frozenset(),
        *,
        is_related: bool = True,
        in_page: bool = False,
    ) -> Iterator[_Found]:
        """Yield the hint in a member whose name has these words, or else the hints below it."""
        hint = self._judge(words, value, is_related=is_related, in_page=in_page)
        if hint is not None:
            yield location, hint, shorten(value)
            return
        in_page = in_page or bool(words & _PAGE_WORDS)
        if isinstance(value, list):
            for element in value:
                if isinstance(element, dict | list):
                    yield from self._read(
                        element, f"{location}[]", is_related=is_related, in_page=in_page
                    )
        if not isinstance(value, dict):
            return
        if any(isinstance(value.get(name), dict | list) for name in _RECORD_KEYS & value.keys()):
            yield location, MORE_RECORDS, shorten(value)
        yield from _judge_link_object(value, location)
        for name, inner in value.items():
            words = split_name(name)
            yield from self._read(
                inner,
                f"{location}.{_quote_key(name)}",
                words,
                is_related=is_related and not is_unrelated(words),
                in_page=in_page,
            )

    def _judge(
        self, words: frozenset[str], value: Any, *, is_related: bool, in_page: bool
    ) -> Hint | None:
        member = Member(words, value, self._count_records, self._resource, in_page)
        return judge_completeness(member) or (judge_position(member) if is_related else None)

    def _count_records(self) -> int | None:
        if self._record_count is None and self._envelope.is_list:
            spans = self._envelope.spans
            count = len(raw_records(self._envelope)) if spans is None else len(spans) // 2
            self._record_count = count
        return self._record_count

    def _judge_content_range(self, text: str) -> Hint | None:
        """Return the hint in a `Content-Range` header. Only a full range proves completeness."""
        content_range = _RANGE.fullmatch(text)
        if content_range is None or content_range[2] is None:
            return LEFT_OUT
        unit, first, last, total = content_range.groups()
        if int(first):
            return LATER
        if total == "*" or int(total) != int(last) + 1:
            return MORE
        is_other = unit.lower() != "bytes" and int(total) != self._count_records()
        return OTHER_COUNT if is_other else COMPLETE


def find_truncation_hints(
    envelope: Envelope, headers: Mapping[str, str], resource: str
) -> tuple[TruncationHint, ...]:
    """Return at most `MAX_HINTS` hints that a response is incomplete, sorted by location.

    `resource` is the kind of the records, for example `portfolios`.
    """
    reader = _Reader(envelope, resource)
    found = [*reader.read_body(), *reader.read_headers(headers)]
    # A page position (`page: 1`) does not count if another hint proves that the response is
    # complete (`hasMore: false`). Evidence of an incomplete response always counts.
    is_proved = any(hint.evidence is Evidence.COMPLETE for _, hint, _ in found)
    counted = (Evidence.INCOMPLETE,) if is_proved else (Evidence.INCOMPLETE, Evidence.PAGE)
    # For each location and code, keep the first example.
    first_hints = {
        (location, hint.code): TruncationHint(location, hint.code, example)
        for location, hint, example in sorted(found, key=lambda item: item[2], reverse=True)
        if hint.evidence in counted
    }
    return tuple(sorted(first_hints.values())[:MAX_HINTS])


def unknown_members(envelope: Envelope) -> Iterator[tuple[str, str, str]]:
    """Yield the path, name and example of each undocumented member in the envelope or in `meta`."""
    for name, raw in envelope.other_members.items():
        yield f"{ENVELOPE}.{_quote_key(name)}", name, _first_bytes(raw)
    for name, raw in msgspec.json.decode(envelope.meta, type=dict[str, msgspec.Raw]).items():
        yield f"{META}.{_quote_key(name)}", name, _first_bytes(raw)


def shorten(value: Any) -> str:
    """Return a value as JSON, truncated to 120 characters."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_EXAMPLE else text[:_MAX_EXAMPLE] + "…"


def _is_too_deep(value: Any) -> bool:
    """Return whether objects and lists are nested more than `MAX_DEPTH` levels deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for container in level
            for inner in (container.values() if isinstance(container, dict) else container)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def _has_records(value: Any) -> bool:
    """Return whether a value outside of `data` looks like a list of records, not of links."""
    return isinstance(value, list) and any(
        isinstance(element, dict) and "href" not in element for element in value
    )


def _judge_link_header(text: str) -> Iterator[Hint]:
    """Yield the hints in a `Link` header (RFC 8288), which may name a next or previous page."""
    targets: dict[str, str] = {}
    for target, parameters in _LINK.findall(text):
        for relations in _REL.findall(parameters):
            for relation in "".join(relations).lower().split():
                targets[relation] = target
                if relation in _RELATIONS:
                    yield _RELATIONS[relation]
    if hint := _judge_ends(targets.get("first", targets.get("self")), targets.get("last")):
        yield hint


def _judge_link_object(value: Mapping[str, Any], location: str) -> Iterator[_Found]:
    """Yield the hints from an object's links to the first and last page, or from its `rel`."""
    if hint := _judge_ends(value.get("first", value.get("self")), value.get("last")):
        yield f"{location}.last", hint, shorten(value.get("last"))
    relation = value.get("rel")
    if isinstance(relation, str) and relation.lower() in _RELATIONS:
        target = value.get("href", value.get("url", "?"))
        if not is_negative(target):
            yield f"{location}.rel", _RELATIONS[relation.lower()], shorten(value)


def _judge_ends(first: Any, last: Any) -> Hint | None:
    """Return the hint from the links to the first and last page. Equal links mean one page."""
    if not last or isinstance(last, bool | int | float):
        return None
    if first is None:
        return IN_PAGE
    return COMPLETE if first == last else SEVERAL


def _parse_header_value(text: str) -> bool | str:
    stripped = text.strip()
    return {"true": True, "false": False}.get(stripped.lower(), stripped)


def _quote_key(key: str) -> str:
    """Quote a key for a JSON path if the key contains special characters."""
    return key if re.fullmatch(r"[\w-]{1,64}", key) else msgspec.json.encode(key[:64]).decode()


def _first_bytes(raw: msgspec.Raw) -> str:
    """Return the beginning of a raw JSON value, without a partial character at the end."""
    return bytes(memoryview(raw)[:_MAX_UNKNOWN_EXAMPLE]).decode(errors="ignore")
