"""Whether an answer says of itself that it is one page of several, or not whole.

The document has neither (4.6), so nobody knows where it would stand: it is looked for in `meta`,
at the top of the envelope and in the headers. What says that there is no more is a proof, not a
reason. Nothing here sends or reads anything.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pipelines.edge.response.envelope import Envelope, raw_records
from pipelines.edge.response.excerpt import plain_key, shorten
from pipelines.edge.response.hints import (
    BEFORE,
    IN_PAGE,
    LATER,
    LEFT_OUT,
    MORE,
    OTHER_COUNT,
    PROOF,
    SEVERAL,
    Hint,
    Member,
    Weight,
    completeness,
    is_nothing,
    is_unrelated,
    position,
    words_of,
)

TOP, META = "$", "meta"
BESIDE = Hint(Weight.DENIAL, "holds records beside `data`")
DEEP = Hint(Weight.DENIAL, "is nested too deeply to be understood")
DEEPEST = 64
# Signs of one answer that are told: a body of a million keys must not fill the manifest.
MOST = 40

_EXAMPLE = 200
# Members of records with money (2.1, 2.3, 2.4): where they stand elsewhere, money does.
_OF_RECORDS = {"positions", "accounts", "balance", "balances"}
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_REL = re.compile(r"""\brel\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,]+))""", re.IGNORECASE)
_RANGE = re.compile(r"\s*(\w+)\s+(?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)\s*", re.ASCII)
_RELATIONS = {"next": MORE, "prev": BEFORE, "previous": BEFORE}
# Headers that HTTP itself knows and that say nothing of records; all others are judged by name.
_USUAL = re.compile(
    "content-(?!range).*|accept-.*|access-control-.*|strict-.*|cross-origin-.*|sec-.*|alt-svc|age|"
    "allow|cache-control|connection|date|etag|expires|keep-alive|last-modified|location|nel|"
    "pragma|referrer-policy|report-to|retry-after|server|set-cookie|trailer|transfer-encoding|"
    "upgrade|vary|via|www-authenticate|x-content-type-options|x-frame-options|x-powered-by|"
    "x-xss-protection"
)


@dataclass(frozen=True, slots=True)
class Sign:
    """One place of an answer that says it is not whole; `words` never hold a value."""

    place: str
    words: str
    example: str


@dataclass(frozen=True, slots=True)
class _Seen:
    place: str
    hint: Hint
    example: str


def signs(envelope: Envelope, headers: Mapping[str, str], noun: str) -> tuple[Sign, ...]:
    """Return what an answer says against its being whole, in the order of places.

    `noun` is what the records are: a `venueCount` counts nothing of a list of portfolios.
    """
    reader = _Reader(envelope, noun)
    seen = [*reader.body(), *reader.headers(headers)]
    # A place among pages (`page: 1`) is no reason where something else proves the whole (`hasMore:
    # false`); a denial always is.
    is_proved = any(sign.hint.weight is Weight.PROOF for sign in seen)
    against = {
        Sign(sign.place, sign.hint.words, sign.example)
        for sign in seen
        if sign.hint.weight is Weight.DENIAL or (sign.hint.weight is Weight.PLACE and not is_proved)
    }
    first = {(sign.place, sign.words): sign for sign in sorted(against, key=_order, reverse=True)}
    return tuple(sorted(first.values(), key=_order)[:MOST])


def _order(sign: Sign) -> tuple[str, str, str]:
    return sign.place, sign.words, sign.example


def unknown(envelope: Envelope) -> Iterator[tuple[str, str, str]]:
    """Yield the members of the envelope and of `meta` that no document has: path, name, example."""
    for name, raw in envelope.others.items():
        yield f"{TOP}.{plain_key(name)}", name, _text(raw)
    if bytes(memoryview(envelope.meta)[:2]) != b"{}":
        members = msgspec.json.decode(envelope.meta, type=dict[str, msgspec.Raw])
        for name, raw in members.items():
            yield f"{META}.{plain_key(name)}", name, _text(raw)


def _text(raw: msgspec.Raw) -> str:
    """Return the beginning of a value as it came; what is cut within a letter loses that letter."""
    return bytes(memoryview(raw)[:_EXAMPLE]).decode(errors="ignore")


class _Reader:
    """Reads the members of one answer, and counts its records only where that is asked for."""

    def __init__(self, envelope: Envelope, noun: str) -> None:
        self._envelope, self._noun = envelope, noun
        self._counted: int | None = None

    def body(self) -> Iterator[_Seen]:
        """Yield what `meta` and the members beside `data` say."""
        for name, raw in self._envelope.others.items():
            place, value = f"{TOP}.{plain_key(name)}", msgspec.json.decode(raw)
            if _is_deep(value):
                yield _Seen(place, DEEP, "")
                continue
            if _is_records(value):
                yield _Seen(place, BESIDE, shorten(value))
            yield from self._members({name: value}, TOP, is_related=True, in_page=False)
        meta = self._envelope.meta
        if bytes(memoryview(meta)[:2]) != b"{}":
            value = msgspec.json.decode(meta)
            if _is_deep(value):
                yield _Seen(META, DEEP, "")
            else:
                yield from self._members(value, META, is_related=True, in_page=False)

    def headers(self, headers: Mapping[str, str]) -> Iterator[_Seen]:
        """Yield what the headers say."""
        for name, text in headers.items():
            place, low = f"header {plain_key(name.lower())}", name.lower()
            if low == "link":
                yield from (_Seen(place, hint, text[:120]) for hint in _link_header(text))
            elif low == "content-range":
                if hint := self._content_range(text):
                    yield _Seen(place, hint, text[:120])
            elif low == "warning":
                yield _Seen(place, LEFT_OUT, text[:120])
            elif not _USUAL.fullmatch(low):
                words = words_of(low)
                member = self._member(words, _plain_value(text), in_page=False)
                if hint := self._judge(member, is_related=not is_unrelated(words)):
                    yield _Seen(place, hint, text[:120])

    def _members(
        self, value: Any, place: str, *, is_related: bool, in_page: bool
    ) -> Iterator[_Seen]:
        if isinstance(value, list):
            for element in value:
                yield from self._members(
                    element, f"{place}[]", is_related=is_related, in_page=in_page
                )
        if not isinstance(value, dict):
            return
        if any(isinstance(value.get(name), dict | list) for name in _OF_RECORDS & value.keys()):
            yield _Seen(place, BESIDE, shorten(value))
        yield from _link_object(value, place)
        for name, inner in value.items():
            yield from self._inner(name, inner, place, is_related=is_related, in_page=in_page)

    def _inner(
        self, name: str, value: Any, above: str, *, is_related: bool, in_page: bool
    ) -> Iterator[_Seen]:
        place, words = f"{above}.{plain_key(name)}", words_of(name)
        is_related = is_related and not is_unrelated(words)
        hint = self._judge(self._member(words, value, in_page=in_page), is_related=is_related)
        if hint is not None:
            yield _Seen(place, hint, shorten(value))
        elif isinstance(value, dict | list):
            in_page = in_page or bool(words & {"page", "pages", "paging", "pagination"})
            yield from self._members(value, place, is_related=is_related, in_page=in_page)

    def _judge(self, member: Member, *, is_related: bool) -> Hint | None:
        return completeness(member) or (position(member) if is_related else None)

    def _member(self, words: frozenset[str], value: Any, *, in_page: bool) -> Member:
        return Member(
            words=words, value=value, records=self._records, noun=self._noun, in_page=in_page
        )

    def _records(self) -> int | None:
        if self._counted is None and self._envelope.is_list:
            spans = self._envelope.spans
            self._counted = len(raw_records(self._envelope)) if spans is None else len(spans) // 2
        return self._counted

    def _content_range(self, text: str) -> Hint | None:
        """Judge a `Content-Range`: nothing is left out where it is from 0 to the last."""
        content_range = _RANGE.fullmatch(text)
        if content_range is None or content_range[2] is None:
            return LEFT_OUT
        unit, first, last, total = content_range.groups()
        if int(first):
            return LATER
        if total == "*" or int(total) != int(last) + 1:
            return MORE
        is_other = unit.lower() != "bytes" and int(total) != self._records()
        return OTHER_COUNT if is_other else PROOF


def _is_deep(value: Any) -> bool:
    """Return whether objects and lists stand in each other more than `DEEPEST` times."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [
            inner
            for part in level
            for inner in (part.values() if isinstance(part, dict) else part)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def _is_records(value: Any) -> bool:
    """Return whether a member beside `data` is a list of objects, which are no links."""
    return isinstance(value, list) and any(
        isinstance(element, dict) and "href" not in element for element in value
    )


def _link_header(text: str) -> Iterator[Hint]:
    """Yield what a `Link` header names (RFC 8288): a next page, or one before."""
    ends: dict[str, str] = {}
    for target, parameters in _LINK.findall(text):
        for relation in _REL.findall(parameters):
            for word in "".join(relation).lower().split():
                ends[word] = target
                if word in _RELATIONS:
                    yield _RELATIONS[word]
    if hint := _ends(ends.get("first", ends.get("self")), ends.get("last")):
        yield hint


def _link_object(value: Mapping[str, Any], place: str) -> Iterator[_Seen]:
    """Yield what an object of links says by its ends, or a single link by its relation."""
    if hint := _ends(value.get("first", value.get("self")), value.get("last")):
        yield _Seen(f"{place}.last", hint, shorten(value.get("last")))
    relation = value.get("rel")
    if isinstance(relation, str) and relation.lower() in _RELATIONS:
        target = value.get("href", value.get("url", "?"))
        if not is_nothing(target):
            yield _Seen(f"{place}.rel", _RELATIONS[relation.lower()], shorten(value))


def _ends(first: Any, last: Any) -> Hint | None:
    """Return where the last page stands: at the first one, elsewhere, or nobody says."""
    if not last or isinstance(last, bool | int | float):
        return None
    if first is None:
        return IN_PAGE
    return PROOF if first == last else SEVERAL


def _plain_value(text: str) -> Any:
    low = text.strip().lower()
    return {"true": True, "false": False}.get(low, text.strip())
