"""Recording of a night's responses, and comparison of two reads of the same list."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import (
    AccessDenied,
    AuthenticationFailed,
    EdgeError,
    InvalidId,
    MalformedResponseError,
    ResourceNotFound,
)
from pipelines.edge.requests import Call, list_instruments
from pipelines.edge.response.envelope import raw_records
from pipelines.edge.response.freshness import DATE, MAX_AGE, OldSign
from pipelines.edge.response.wholeness import TruncationHint
from pipelines.edge.sending.clock import Skew
from pipelines.edge.sending.exchange import ApiResponse
from pipelines.edge.sending.retries import RetryMode
from pipelines.landing.manifest import (
    BOOK,
    CLOSING,
    DELETED,
    REFUSED,
    REPLACED,
    THERE,
    UNTOLD,
    RequestRecord,
)
from pipelines.landing.notices import NoticeCounter
from pipelines.landing.zone import PendingSnapshot
from pipelines.records import identity
from pipelines.records.identity import id_of
from warehouse.contract.model import and_more
from warehouse.progress import Tally

# Seconds between two reads of a list. The second read confirms that portfolios are missing.
CONFIRM_AFTER = 10.0
# Seconds before an old response is requested again.
ASK_AGAIN_AFTER = 2.0
# The maximum number of portfolios to request by ID.
MAX_ASKED = 10
MAX_SHOWN = 3

# Maps each record's ID to the fields that show whether the record has changed.
Marks = Mapping[str, tuple[str | None, ...]]
_NO_LAG = timedelta(0)
_RELEASE_INTERVAL = 1 << 25  # number of bytes to read from a body before releasing memory pages


class _Fingerprint(msgspec.Struct, rename="camel", gc=False):
    updated_at: str | None = None
    trading_status: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request that a pull has planned, and may already have sent.

    Requests are numbered when they are planned, so the numbers do not depend on timing.
    """

    number: int
    name: str
    call: Call
    venue_id: str | None = None
    purpose: str = BOOK

    @property
    def record(self) -> RequestRecord:
        """The request as a record, without the fields that depend on the response."""
        call, query = self.call, self.call.target.partition("?")[2]
        return RequestRecord(
            request_no=self.number,
            operation=call.operation,
            venue_id=self.venue_id,
            path=call.path,
            query=query,
            purpose=self.purpose,
        )


class Recorder:
    """A sender of a pull's requests, which lands the responses and remembers parts of them.

    `marks` contains, by request number, the fields that show whether records have changed, and
    `errors` contains the errors of failed requests. `embedded` contains the instruments that each
    venue embeds (None if it does not list them), and `listed` the instruments in its separate
    lists. `failed` contains the venues with an unreadable list. `skew` is the client's latest clock
    correction in milliseconds, and `told` is the most precise skew measured from a response.
    """

    def __init__(
        self,
        client: EdgeClient,
        pulling: PendingSnapshot,
        requests: Tally,
        pause: Callable[[float], None],
    ) -> None:
        self._client, self._pulling, self._requests = client, pulling, requests
        self._pause = pause
        # How far the `Date` of a server that is not a cache is behind the corrected clock.
        self._lag = timedelta(0)
        self._count = 0
        self.answers: list[RequestRecord] = []
        self.skew: int | None = None
        self.told: Skew | None = None
        # The numbers of requests whose timestamps come from this machine's uncorrected clock.
        self._machine_times: set[int] = set()
        self.notices = NoticeCounter()
        self.marks: dict[int, Marks] = {}
        self.errors: dict[int, EdgeError] = {}
        self.embedded: dict[str, set[str] | None] = {}
        self.listed: dict[str, set[str]] = {}
        self.failed: set[str] = set()

    def next_request(
        self, name: str, call: Call, venue_id: str | None = None, purpose: str = BOOK
    ) -> PlannedRequest:
        """Plan a request, and assign the next request number to it."""
        self._count += 1
        self._requests.add(known=1)
        return PlannedRequest(
            number=self._count,
            name=f"{self._count:04}-{name}",
            call=call,
            venue_id=venue_id,
            purpose=purpose,
        )

    def instruments(self, venue_id: str, kind: str | None) -> PlannedRequest | None:
        """Plan a request for a venue's instrument list.

        If the venue ID cannot be sent in a path, record a failed request and return None.
        """
        name = f"instruments-{kind or 'all'}"
        try:
            return self.next_request(name, list_instruments(venue_id, kind), venue_id)
        except InvalidId as error:
            self._count += 1
            self._requests.add(1, known=1)
            self.failed.add(venue_id)
            query = "" if kind is None else f"type={kind}"
            self.answers.append(
                RequestRecord(
                    request_no=self._count,
                    operation="list_instruments",
                    venue_id=venue_id,
                    path="",
                    query=query,
                    error=str(error),
                )
            )
            return None

    def send(self, requests: Iterable[PlannedRequest], *, required: bool = False) -> None:
        """Send requests and record the responses. Send a request again if its response is old.

        If `required`, raise `EdgeError` for the first failure.
        """
        old: dict[int, ApiResponse] = {}
        again: list[PlannedRequest] = []
        for request, reply in self._replies(requests, required=required):
            if self._old_signs(reply):
                reply.body.close()
                old[request.number] = reply
                again.append(request)
            else:
                self._keep(request, reply, required=required)
                self._requests.add(1)
        if again:
            # A server's `Date` has whole seconds. If it is the same after this wait, it is cached.
            self._pause(ASK_AGAIN_AFTER)
        for request, reply in self._replies(again, required=required):
            self._note_age(request, old[request.number], reply)
            self._keep(request, reply, required=required)
            self._requests.add(1)

    def _replies(
        self, requests: Iterable[PlannedRequest], *, required: bool
    ) -> Iterator[tuple[PlannedRequest, ApiResponse]]:
        """Send requests and yield the successful responses. Record the failures, or raise one."""
        by_call = {id(request.call): request for request in requests}
        mode = RetryMode.REQUIRED if required else RetryMode.OPTIONAL
        calls = [request.call for request in by_call.values()]
        for call, outcome in self._client.fetch_all(calls, mode):
            request = by_call[id(call)]
            if isinstance(outcome, EdgeError):
                if required or isinstance(outcome, AuthenticationFailed):
                    raise outcome
                self._give_up(request, outcome)
                self._requests.add(1)
            else:
                yield request, outcome

    def _old_signs(self, reply: ApiResponse) -> list[OldSign]:
        """Return the signs that a response is old, except an old `Date` that the clock explains."""
        return [
            sign
            for sign in reply.old_signs
            if sign.location != DATE or (sign.age or _NO_LAG) - self._lag > MAX_AGE
        ]

    def _note_age(self, request: PlannedRequest, first: ApiResponse, reply: ApiResponse) -> None:
        """Note that a response is still old when it is requested again."""
        # If the date went on, a server wrote it, so this machine's clock or the server's is wrong.
        if reply.date is not None and reply.date != first.date:
            self._lag = max(self._lag, min(reply.sent_at, reply.received_at) - reply.date)
        hints = [
            TruncationHint(sign.location, sign.code, sign.example)
            for sign in self._old_signs(reply)
        ]
        self.notices.note(request.call.operation, hints)

    def answers_by_clock(self, skew: timedelta | None) -> Iterator[RequestRecord]:
        """Yield the rows for `ops.requests`, with all timestamps converted to the corrected clock.

        `skew` is how far the corrected clock is ahead of this machine's clock.
        """
        for answer in self.answers:
            if skew is None or answer.request_no not in self._machine_times:
                yield answer
            else:
                sent, received = answer.sent_at, answer.received_at
                yield replace(
                    answer, sent_at=_later(sent, skew), received_at=_later(received, skew)
                )

    def replace(
        self, operation: str, *, but: int | None = None, venues: Iterable[str | None] = (None,)
    ) -> None:
        """Mark an operation's earlier responses as replaced, except for request number `but`."""
        chosen = set(venues)
        self.answers = [
            replace(answer, purpose=REPLACED)
            if answer.purpose == BOOK
            and answer.operation == operation
            and answer.venue_id in chosen
            and answer.request_no != but
            else answer
            for answer in self.answers
        ]

    def _give_up(self, request: PlannedRequest, error: EdgeError) -> None:
        """Record that a request failed, and why."""
        self.errors[request.number] = error
        if request.venue_id is not None:
            self.failed.add(request.venue_id)
        status, attempts = getattr(error, "status", None), getattr(error, "attempts", 0) or 0
        self.answers.append(
            replace(request.record, status=status, attempts=attempts, error=str(error))
        )

    def _keep(self, request: PlannedRequest, reply: ApiResponse, *, required: bool) -> None:
        """Record a request as a success, and store the body unless it was only compared."""
        file = None
        try:
            self._note(request, reply)
            if request.purpose != CLOSING:
                reply.body.release_pages()
                file = self._pulling.land(request.name, reply.body.buffer())
        except RecursionError:
            error = MalformedResponseError(
                "a record is nested too deeply", request.call.path, reply.attempts
            )
            if required:
                raise error from None
            self._give_up(request, error)
            return
        finally:
            reply.body.close()
        self.answers.append(
            replace(
                request.record,
                status=reply.status,
                attempts=reply.attempts,
                sent_at=reply.sent_at.isoformat(),
                received_at=reply.received_at.isoformat(),
                byte_count=reply.size,
                sha256=reply.sha256,
                file=file,
            )
        )

    def _note(self, request: PlannedRequest, reply: ApiResponse) -> None:
        """Remember the parts of a response that are needed after its body has been closed."""
        if reply.skew_ms is not None:
            self.skew = reply.skew_ms
        else:
            self._machine_times.add(request.number)
        skew = reply.measured_skew
        if skew is not None and (self.told is None or skew.uncertainty < self.told.uncertainty):
            self.told = skew
        operation = request.call.operation
        self.notices.note(operation, reply.truncation_hints)
        if operation == "list_instruments":
            ids = identity.ids_of(raw_records(reply.envelope))
            self.listed.setdefault(str(request.venue_id), set()).update(ids)
        else:
            self.marks[request.number] = marks(_records(reply))
        if operation == "list_venues" and request.purpose == BOOK:
            self.embedded = _embedded_by_venue(raw_records(reply.envelope))


_MARK = msgspec.json.Decoder(_Fingerprint)


def marks(raws: Iterable[msgspec.Raw]) -> Marks:
    """Map the ID of each valid record to the fields that show whether the record has changed."""
    found = {}
    for raw in raws:
        try:
            mark = _MARK.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # Use `id_of` everywhere, so that a record with two IDs is always known by the same ID.
        if (identity := id_of(raw)) is not None:
            found[identity] = (mark.updated_at, mark.trading_status)
    return found


def changed_ids(first: Marks, last: Marks) -> set[str]:
    """Return the IDs of the records that differ between two reads: new, missing and changed."""
    return {id_ for id_ in first.keys() | last.keys() if first.get(id_) != last.get(id_)}


def difference(list_name: str, first: Marks, last: Marks) -> str:
    """Describe the differences between two reads of a list, or return "" if there are none."""
    new, gone = last.keys() - first.keys(), first.keys() - last.keys()
    changed = changed_ids(first, last) - new - gone
    parts = (("new", new), ("gone", gone), ("changed", changed))
    differences = [
        f"{len(ids)} {word} ({and_more([id_[:60] for id_ in sorted(ids)], MAX_SHOWN)})"
        for word, ids in parts
        if ids
    ]
    return f"{list_name}: {', '.join(differences)}" if differences else ""


def to_request(previous: Mapping[str, bool], listed: Iterable[str]) -> list[str]:
    """Return the IDs of the missing portfolios to request. Portfolios with money come first."""
    # Request missing portfolios only if one of them had money, or if all portfolios are missing.
    gone = sorted(
        previous.keys() - set(listed),
        key=lambda portfolio_id: (not previous[portfolio_id], portfolio_id),
    )
    is_worthwhile = any(previous[portfolio_id] for portfolio_id in gone) or len(gone) == len(
        previous
    )
    return gone[:MAX_ASKED] if is_worthwhile else []


def final_state(error: EdgeError | None) -> str:
    """Classify the result of `GET /portfolios/{id}` (§4.2) for a portfolio that is not listed."""
    if error is None:
        return THERE
    if isinstance(error, AccessDenied):
        return REFUSED
    return DELETED if isinstance(error, ResourceNotFound) else UNTOLD


def _later(moment: str | None, by: timedelta) -> str | None:
    """Add a time difference to an ISO 8601 timestamp. Return None if there is no timestamp."""
    return moment and (datetime.fromisoformat(moment) + by).isoformat()


def _records(reply: ApiResponse) -> Iterator[msgspec.Raw]:
    """Yield the records of a list. Release a large body's memory pages along the way."""
    spans = reply.envelope.spans
    if spans is None:
        yield from raw_records(reply.envelope)
        return
    view, given_back = memoryview(reply.envelope.data), 0
    for first, end in zip(spans[::2], spans[1::2], strict=True):
        yield msgspec.Raw(view[first:end])
        if end - given_back > _RELEASE_INTERVAL:
            reply.body.release_pages()
            given_back = end


def _embedded_by_venue(raws: Iterable[msgspec.Raw]) -> dict[str, set[str] | None]:
    """Map each venue to the IDs of its embedded instruments, or to None if it embeds no list.

    If a response contains several records for a venue, combine their instruments.
    """
    ids_by_venue: dict[str, set[str] | None] = {}
    for raw in raws:
        if (venue_id := identity.id_of(raw)) is not None:
            previous, ids = ids_by_venue.get(venue_id, set()), identity.embedded_ids(raw)
            ids_by_venue[venue_id] = None if previous is None or ids is None else previous | ids
    return ids_by_venue
