"""Tests of the hints that a response is incomplete, and of the proofs that it is complete."""

import json
import time
import tracemalloc
from typing import Any

import pytest

from pipelines.edge.errors import MalformedResponseError
from pipelines.edge.response import hints
from pipelines.edge.response.envelope import read_envelope
from pipelines.edge.response.wholeness import find_truncation_hints, unknown_members
from pipelines.landing.notices import NoticeCounter, reasons
from pipelines.landing.reasons import Reason

Json = Any
RECORDS = 3
MORE = "says that there is more"


def read(
    meta: Json = None, headers: dict[str, str] | None = None, *, single: bool = False, **top: Json
) -> list[str]:
    """Return the hints in a response with three records, or with a single record."""
    data = {"id": "x"} if single else [{"id": str(number)} for number in range(RECORDS)]
    body = json.dumps({"data": data, "meta": meta or {}, **top}).encode()
    envelope = read_envelope(body, single=single)
    return [
        f"{hint.location}: {hint.code}"
        for hint in find_truncation_hints(envelope, headers or {}, "portfolios")
    ]


DENIALS: dict[str, Json] = {
    "next": {"next": "/edge/v1beta/portfolios?page=2"},
    "next page": {"nextPage": 2},
    "next cursor": {"nextCursor": "x"},
    "next token in snake case": {"next_page_token": "x"},
    "in small letters": {"hasmore": True},
    "has more": {"hasMore": True},
    "has more as text": {"hasMore": "true"},
    "has next in a page object": {"pageInfo": {"hasNextPage": True, "endCursor": "x"}},
    "odata": {"@odata.nextLink": "https://h/p?$skip=3"},
    "remaining": {"remaining": 4},
    "continuation": {"continuationToken": "x"},
    "cursor": {"cursor": "x"},
    "cursors": {"cursors": {"after": "x", "next": "y"}},
    "links": {"links": {"self": "/p", "next": "/p?page=2"}},
    "links in a list": {"links": [{"rel": "next", "href": "/p?page=2"}]},
    "links with ends": {"links": {"first": "/p?page=1", "last": "/p?page=2"}},
    "a next link as object": {"_links": {"next": {"href": "/p?page=2"}}},
    "previous": {"previous": "/p?page=1"},
    "not the first page": {"page": 2},
    "a page": {"page": 1},
    "several pages": {"page": 1, "pages": 4},
    "pages counted": {"pageCount": 2},
    "total pages": {"page": {"number": 0, "totalPages": 7}},
    "last page": {"currentPage": 1, "lastPage": 3},
    "not the last": {"page": {"first": True, "last": False}},
    "not the first": {"page": {"first": False, "last": True}},
    "offset": {"offset": 3},
    "offset from the start": {"offset": 0, "limit": 3},
    "a limit that is reached": {"limit": RECORDS},
    "total": {"total": 100},
    "total as text": {"total": "100"},
    "total in an object": {"pagination": {"total": 100}},
    "fewer than came": {"count": 2},
    "records counted": {"recordCount": 4},
    "its own kind counted": {"portfolioCount": 4},
    "total elements": {"totalElements": 4},
    "a total against a proof": {"hasMore": False, "total": 4},
    "partial": {"partial": True},
    "partial as text": {"isPartial": "yes"},
    "truncated": {"truncated": True},
    "incomplete": {"incompleteResults": True},
    "not complete": {"complete": False},
    "completeness": {"completeness": 0.97},
    "status in words": {"status": "partial"},
    "message in words": {"message": "The list was truncated to 100 records."},
    "warnings": {"warnings": ["a venue did not answer"]},
    "warning": {"warning": {"code": 7}},
    "errors": {"errors": [{"error": "X"}]},
    "failures": {"failedVenues": ["kestrel"]},
    "skipped": {"skipped": 2},
    "omitted": {"omittedAccounts": 2},
    "degraded": {"degraded": True},
    "stale": {"stale": True},
    "partial in a server's own": {"server": {"partial": True}},
    "records of their own": {"archived": [{"id": "p9", "positions": []}]},
    "too deep": {"a": json.loads("[" * 200 + "]" * 200)},
}


@pytest.mark.parametrize("name", DENIALS)
@pytest.mark.parametrize("where", ["meta", "top"])
def test_an_incomplete_response_results_in_hints(name: str, where: str) -> None:
    """Signs of an incomplete response are found in `meta` and next to `data` (2.9, 4.6)."""
    if where == "top" and name == "errors":
        with pytest.raises(MalformedResponseError):
            read(None, **DENIALS[name])
        return
    assert read(DENIALS[name]) if where == "meta" else read(None, **DENIALS[name])


PROOFS: dict[str, Json] = {
    "next null": {"next": None},
    "next false": {"next": False},
    "next empty": {"next": ""},
    "next an empty list": {"next": []},
    "next an empty object": {"next": {}},
    "next without a target": {"links": {"self": "/p", "next": {"href": None}}},
    "link to next without a target": {"links": [{"rel": "next", "href": None}]},
    "links to itself": {"links": {"self": "/p"}},
    "ends that are one": {"links": {"self": "/p", "first": "/p", "last": "/p", "next": None}},
    "has more": {"hasMore": False},
    "has more as text": {"hasMore": "false"},
    "has next in a page object": {
        "pageInfo": {"hasNextPage": False, "hasPreviousPage": False, "endCursor": "x"}
    },
    "cursor null": {"cursor": None},
    "total": {"total": RECORDS},
    "total as text": {"totalCount": str(RECORDS)},
    "count": {"count": RECORDS},
    "page of one": {"page": 1, "pages": 1},
    "page of one from zero": {"page": {"number": 0, "size": 20, "totalPages": 1}},
    "spring": {"page": {"number": 0, "size": 20, "totalElements": RECORDS, "last": True}},
    "offset with total": {"offset": 0, "limit": 100, "total": RECORDS},
    "a full page that is all": {"limit": RECORDS, "total": RECORDS},
    "a limit that is not reached": {"limit": RECORDS + 1},
    "remaining none": {"remaining": 0},
    "not partial": {"partial": False, "truncated": False},
    "complete": {"complete": True},
    "completeness": {"completeness": 1},
    "no warnings": {"warnings": []},
    "no errors": {"errors": None, "errorCount": 0},
    "nothing skipped": {"skipped": 0, "omitted": [], "failed": {}},
}


@pytest.mark.parametrize("name", PROOFS)
@pytest.mark.parametrize("where", ["meta", "top"])
def test_proof_of_a_complete_response_gives_no_hint(name: str, where: str) -> None:
    """Members that prove a complete response, such as `hasMore: false`, result in no hints."""
    assert (read(PROOFS[name]) if where == "meta" else read(None, **PROOFS[name])) == []


UNRELATED: dict[str, Json] = {
    "request count": {"requestCount": 7},
    "rate limit": {"rateLimit": {"limit": 100, "remaining": 99, "reset": 1, "total": 100}},
    "rate limit, flat": {"rateLimitRemaining": 99},
    "times": {"totalTimeMs": 12, "took": 3, "pageGeneratedAt": "2026-11-20T02:15:00Z"},
    "retries": {"retryCount": 2},
    "the next update": {"nextUpdateAt": "2026-11-21T02:15:00Z"},
    "maintenance": {"nextMaintenanceWindow": "2026-12-01"},
    "version": {"version": "1.4", "apiVersion": "1.4.0-beta", "schemaVersion": 3},
    "request id": {"requestId": "01J", "traceId": "x"},
    "server": {"server": "edge-7", "region": "eu"},
    "another kind counted": {"venueCount": 12, "instrumentCount": 900},
    "accounts counted": {"accountCount": 87},
    "null": {"page": None, "total": None, "limit": None, "complete": None},
    "names": {"fullName": "x", "organization": {"name": "x"}},
    "more to read": {"moreInfo": "https://docs"},
    "the error rate": {"errorRate": 0.2},
    "lists of words": {"features": ["a", "b"], "environment": "production"},
}


@pytest.mark.parametrize("name", UNRELATED)
def test_keys_unrelated_to_pages_give_no_hint(name: str) -> None:
    """Keys that have nothing to do with pages result in no hints."""
    assert read(UNRELATED[name]) == []


HEADERS: dict[str, tuple[dict[str, str], bool]] = {
    "link next": ({"link": '</p?page=2>; rel="next"'}, True),
    "link next without quotes": ({"Link": "</p>; rel=self, </p?page=2>; rel=next"}, True),
    "link previous": ({"link": '</p>; rel="prev"'}, True),
    "link with ends": ({"link": '</p?page=1>; rel="first", </p?page=9>; rel="last"'}, True),
    "link to itself": ({"link": '</p>; rel="self", </docs>; rel="help"'}, False),
    "link with one end": ({"link": '</p>; rel="first", </p>; rel="last"'}, False),
    "content range": ({"content-range": "items 0-2/100"}, True),
    "content range of unknown size": ({"content-range": "items 0-2/*"}, True),
    "content range unread": ({"content-range": "what"}, True),
    "content range from the middle": ({"content-range": "portfolios 3-5/6"}, True),
    "content range of all": ({"content-range": "items 0-2/3"}, False),
    "warning": ({"warning": '199 - "one source did not answer"'}, True),
    "total": ({"x-total-count": "100"}, True),
    "total of all": ({"x-total-count": "3"}, False),
    "pages": ({"x-total-pages": "2"}, True),
    "next page": ({"x-next-page": "2"}, True),
    "next page none": ({"x-next-page": "", "x-page": "1", "x-per-page": "100"}, False),
    "more": ({"x-has-more": "true"}, True),
    "no more": ({"x-has-more": "false"}, False),
    "cursor": ({"next-cursor": "x"}, True),
    "partial": ({"x-result": "partial"}, True),
    "truncated": ({"x-truncated": "true"}, True),
    "rate limit": ({"x-ratelimit-remaining": "99", "ratelimit-limit": "100"}, False),
    "usual": (
        {
            "content-type": "application/json",
            "content-length": "99",
            "date": "Fri, 20 Nov 2026 02:15:00 GMT",
            "last-modified": "Fri, 20 Nov 2026 02:15:00 GMT",
            "x-request-id": "next",
            "x-cache": "Error from cache",
            "x-powered-by": "Next.js",
            "retry-after": "0",
            "nel": '{"failure_fraction":0.0}',
        },
        False,
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_hints_are_found_in_headers_too(name: str) -> None:
    """Hints are also found in `Link`, `Content-Range` and the service's own headers."""
    headers, is_sign = HEADERS[name]
    assert bool(read(headers=headers)) is is_sign


def test_a_hint_has_the_same_text_every_night() -> None:
    """A hint's text is the same every night and contains no value, so lessons can refer to it."""
    assert read({"next": "a"}) == read({"next": "b"}) == [f"meta.next: {MORE}"]
    assert read(None, next="a") == [f"$.next: {MORE}"]
    assert read(headers={"Link": '<x>; rel="next"'}) == [f"header link: {MORE}"]
    assert read({"links": [{"a": 1}, {"next": 1}]}) == [f"meta.links[].next: {MORE}"]
    assert read({"x\ny": {"next": 1}}) == [f'meta."x\\ny".next: {MORE}']


def test_at_most_40_hints_are_returned() -> None:
    """At most 40 hints are returned for one response."""
    assert len(read({f"next{number}": 1 for number in range(60)})) == 40


def test_counts_do_not_apply_to_a_single_record() -> None:
    """Counts do not apply to a response with a single record (4.2), but other hints do."""
    assert read({"total": 9}, single=True) == []
    assert read({"partial": True}, single=True)


@pytest.mark.parametrize("errors", ["null", "[]", "[ ]", "{}", "{ }", '""'])
def test_an_empty_errors_member_means_success(errors: str) -> None:
    """Empty `errors` next to `data` mean success, and are listed as an unknown member."""
    body = f'{{"data":[],"errors":{errors},"meta":{{"a":1.10,"b c":[]}}}}'.encode()
    assert list(unknown_members(read_envelope(body, single=False))) == [
        ("$.errors", "errors", errors),
        ("meta.a", "a", "1.10"),
        ('meta."b c"', "b c", "[]"),
    ]


@pytest.mark.parametrize("errors", ['[{"error":"X","message":""}]', "[null]", '{"a":1}', '"x"'])
def test_data_with_errors_that_are_not_empty_is_malformed(errors: str) -> None:
    """A response with `data` and with `errors` that are not empty is malformed."""
    with pytest.raises(MalformedResponseError, match="both `data` and `errors`"):
        read_envelope(f'{{"data":[],"errors":{errors},"meta":{{}}}}'.encode(), single=False)


def test_a_hostile_link_header_is_checked_quickly() -> None:
    """Even a hostile `Link` header of 60,000 characters is checked in less than a second."""
    began = time.process_time()
    assert read(headers={"link": "<" * 60_000}) == []
    assert time.process_time() - began < 1


def test_values_that_always_differ_are_not_kept_in_memory() -> None:
    """Values that differ in each response are not kept in memory."""
    tracemalloc.start()
    for number in range(100):
        read({"requestId": f"{number}" * 50_000})
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2_000_000


def test_the_codes_of_hints_never_change() -> None:
    """The codes are in manifests and in the keys of lessons, so they never change."""
    codes = {
        *("is whole", "says that there is more", "says that there are records before it"),
        *("says that it is not the first page", "says that there are several pages"),
        "says another number of records than came",
        "says that something is left out",
        "names a page, and nothing says that it is the only one",
        *("holds records beside `data`", "is nested too deeply to be understood"),
    }
    all_hints = [value for value in vars(hints).values() if isinstance(value, hints.Hint)]
    assert {hint.code for hint in all_hints} == codes
    assert all(hints.describe(code) not in {"", code} for code in codes)
    assert hints.describe("a code of a later version") == "a code of a later version"


def test_no_lesson_changes_if_a_message_is_reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a reason is built from the code. Only its sentence has the message."""

    def reason() -> Reason:
        noticing = NoticeCounter()
        envelope = read_envelope(b'{"data":[],"meta":{"next":1}}', single=False)
        noticing.note("list_venues", find_truncation_hints(envelope, {}, "venues"))
        notices = noticing.all()
        [found] = reasons([notice.text for notice in notices], notices)
        return found

    before = reason()
    monkeypatch.setattr(hints, "_MESSAGES", dict.fromkeys(hints._MESSAGES, "REWORDED"))
    after = reason()
    assert before.key == after.key == f"notice: meta.next: {MORE}"
    assert "meta.next: indicates more records (in list_venues, like 1)" in before.words
    assert "meta.next: REWORDED (in list_venues, like 1)" in after.words
