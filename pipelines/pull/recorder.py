"""Record the responses of a night, and check that they fit together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import (
    AccessDenied,
    AuthenticationFailed,
    EdgeError,
    InvalidId,
    MalformedResponse,
    ResourceNotFound,
)
from pipelines.edge.requests import Call, list_instruments
from pipelines.edge.response.envelope import raw_records
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
from pipelines.records import fast_reader
from pipelines.records.fast_reader import id_of
from warehouse.contract.model import and_more
from warehouse.progress import Tally

# Seconds between a list that has lost portfolios and the second read that confirms it.
CONFIRM_AFTER = 10.0
# Portfolios that are asked for by their id.
MOST_ASKED = 10
SHOWN = 3

# Of every record of a list, by its id, what changes when it is changed.
Marks = Mapping[str, tuple[str | None, ...]]


class _Fingerprint(msgspec.Struct, rename="camel", gc=False):
    updated_at: str | None = None
    trading_status: str | None = None


_MARK = msgspec.json.Decoder(_Fingerprint)


def marks(raws: Iterable[msgspec.Raw]) -> Marks:
    """Return what can be compared of a list; records that break the contract are left out."""
    return {id_: (mark.updated_at, mark.trading_status) for id_, mark in _readable(raws)}


def _readable(raws: Iterable[msgspec.Raw]) -> Iterator[tuple[str, _Fingerprint]]:
    for raw in raws:
        try:
            mark = _MARK.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # Named as everywhere else, also where an id stands twice.
        if (identity := id_of(raw)) is not None:
            yield identity, mark


def changed_ids(first: Marks, last: Marks) -> set[str]:
    """Return the ids that are new, gone or changed."""
    return {id_ for id_ in first.keys() | last.keys() if first.get(id_) != last.get(id_)}


def difference(list_name: str, first: Marks, last: Marks) -> str:
    """Return what differs between two reads of a list in one sentence; empty where nothing does."""
    new, gone = last.keys() - first.keys(), first.keys() - last.keys()
    changed = changed_ids(first, last) - new - gone
    parts = (("new", new), ("gone", gone), ("changed", changed))
    differences = [
        f"{len(ids)} {word} ({and_more([id_[:60] for id_ in sorted(ids)], SHOWN)})"
        for word, ids in parts
        if ids
    ]
    return f"{list_name}: {', '.join(differences)}" if differences else ""


def to_request(before: Mapping[str, bool], listed: Iterable[str]) -> list[str]:
    """Return some portfolios that a list has lost, those with money first."""
    # Where money is among what is gone, or nothing is left at all, it is worth asking.
    gone = sorted(
        before.keys() - set(listed),
        key=lambda portfolio_id: (not before[portfolio_id], portfolio_id),
    )
    is_worth = any(before[portfolio_id] for portfolio_id in gone) or len(gone) == len(before)
    return gone[:MOST_ASKED] if is_worth else []


def final_state(error: EdgeError | None) -> str:
    """Return what `GET /portfolios/{id}` said of a portfolio that the list lacks (4.2)."""
    if error is None:
        return THERE
    if isinstance(error, AccessDenied):
        return REFUSED
    return DELETED if isinstance(error, ResourceNotFound) else UNTOLD


_GIVE_BACK = 1 << 25


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request of the snapshot, numbered when it is known: numbers do not depend on luck."""

    number: int
    name: str
    call: Call
    venue_id: str | None = None
    purpose: str = BOOK

    @property
    def record(self) -> RequestRecord:
        """Its record while nothing has come of it."""
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
    """Sends requests, lands what comes, and remembers what decides on the next ones.

    `marks` has what can be compared of each list by its number, `errors` what was given up;
    `embedded` the instruments that venues embed (None where one does not say), `listed` those that
    their lists hold; `failed` the venues of which a list could not be read; `skew` is the
    correction in force, and `told` what the answers say of this machine's clock at best.
    """

    def __init__(self, client: EdgeClient, pulling: PendingSnapshot, requests: Tally) -> None:
        self._client, self._pulling, self._requests = client, pulling, requests
        self._known = 0
        self.answers: list[RequestRecord] = []
        self.skew: int | None = None
        self.told: Skew | None = None
        self._by_machine: set[int] = set()  # answers whose times are by this machine's own clock
        self.notices = NoticeCounter()
        self.marks: dict[int, Marks] = {}
        self.errors: dict[int, EdgeError] = {}
        self.embedded: dict[str, set[str] | None] = {}
        self.listed: dict[str, set[str]] = {}
        self.failed: set[str] = set()

    def next_request(
        self, name: str, call: Call, venue_id: str | None = None, purpose: str = BOOK
    ) -> PlannedRequest:
        """Return a request with the next number."""
        self._known += 1
        self._requests.add(known=1)
        return PlannedRequest(
            number=self._known,
            name=f"{self._known:04}-{name}",
            call=call,
            venue_id=venue_id,
            purpose=purpose,
        )

    def instruments(self, venue_id: str, kind: str | None) -> PlannedRequest | None:
        """Plan to read a list of instruments; None, and recorded, where no path can name it."""
        name = f"instruments-{kind or 'all'}"
        try:
            return self.next_request(name, list_instruments(venue_id, kind), venue_id)
        except InvalidId as error:
            self._known += 1
            self._requests.add(1, known=1)
            self.failed.add(venue_id)
            query = "" if kind is None else f"type={kind}"
            self.answers.append(
                RequestRecord(
                    request_no=self._known,
                    operation="list_instruments",
                    venue_id=venue_id,
                    path="",
                    query=query,
                    error=str(error),
                )
            )
            return None

    def send(self, asked: Iterable[PlannedRequest], *, required: bool = False) -> None:
        """Send requests and keep the answers; raises `EdgeError` where one is required."""
        by_call = {id(request.call): request for request in asked}
        mode = RetryMode.REQUIRED if required else RetryMode.OPTIONAL
        calls = [request.call for request in by_call.values()]
        for call, outcome in self._client.fetch_all(calls, mode):
            request = by_call[id(call)]
            if isinstance(outcome, EdgeError):
                if required or isinstance(outcome, AuthenticationFailed):
                    raise outcome
                self._give_up(request, outcome)
            else:
                self._keep(request, outcome, required=required)
            self._requests.add(1)

    def answers_by_clock(self, skew: timedelta | None) -> Iterator[RequestRecord]:
        """Yield the answers with their times by the clock of the night, which is `skew` ahead."""
        for answer in self.answers:
            if skew is None or answer.request_no not in self._by_machine:
                yield answer
            else:
                sent, received = answer.sent_at, answer.received_at
                yield replace(
                    answer, sent_at=_later(sent, skew), received_at=_later(received, skew)
                )

    def replace(
        self, operation: str, *, but: int | None = None, venues: Iterable[str | None] = (None,)
    ) -> None:
        """Let what was read of an operation and these venues no longer be the book, but for one."""
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

    def _give_up(self, asked: PlannedRequest, error: EdgeError) -> None:
        self.errors[asked.number] = error
        if asked.venue_id is not None:
            self.failed.add(asked.venue_id)
        status, attempts = getattr(error, "status", None), getattr(error, "attempts", 0) or 0
        self.answers.append(
            replace(asked.record, status=status, attempts=attempts, error=str(error))
        )

    def _keep(self, asked: PlannedRequest, reply: ApiResponse, *, required: bool) -> None:
        file = None
        try:
            self._note(asked, reply)
            if asked.purpose != CLOSING:
                reply.body.release_pages()
                file = self._pulling.land(asked.name, reply.body.buffer())
        except RecursionError:
            error = MalformedResponse(
                "a record is nested too deeply", asked.call.path, reply.attempts
            )
            if required:
                raise error from None
            self._give_up(asked, error)
            return
        finally:
            reply.body.close()
        self.answers.append(
            replace(
                asked.record,
                status=reply.status,
                attempts=reply.attempts,
                sent_at=reply.sent_at.isoformat(),
                received_at=reply.received_at.isoformat(),
                byte_count=reply.size,
                sha256=reply.sha256,
                file=file,
            )
        )

    def _note(self, asked: PlannedRequest, reply: ApiResponse) -> None:
        """Remember what decides on the next calls, and what must be told."""
        if reply.skew_ms is not None:
            self.skew = reply.skew_ms
        else:
            self._by_machine.add(asked.number)
        skew = reply.measured_skew
        if skew is not None and (self.told is None or skew.uncertainty < self.told.uncertainty):
            self.told = skew
        operation = asked.call.operation
        self.notices.note(operation, reply.truncation_hints)
        if operation == "list_instruments":
            ids = fast_reader.ids_of(raw_records(reply.envelope))
            self.listed.setdefault(str(asked.venue_id), set()).update(ids)
        else:
            self.marks[asked.number] = marks(_records(reply))
        if operation == "list_venues" and asked.purpose == BOOK:
            self.embedded = _embedded_by_venue(raw_records(reply.envelope))


def _later(moment: str | None, by: timedelta) -> str | None:
    return moment and (datetime.fromisoformat(moment) + by).isoformat()


def _records(reply: ApiResponse) -> Iterator[msgspec.Raw]:
    """Yield the records of a list; of a large body, give pages back on the way."""
    spans = reply.envelope.spans
    if spans is None:
        yield from raw_records(reply.envelope)
        return
    view, given_back = memoryview(reply.envelope.data), 0
    for first, end in zip(spans[::2], spans[1::2], strict=True):
        yield msgspec.Raw(view[first:end])
        if end - given_back > _GIVE_BACK:
            reply.body.release_pages()
            given_back = end


def _embedded_by_venue(raws: Iterable[msgspec.Raw]) -> dict[str, set[str] | None]:
    """Return what each venue embeds; of a repeated venue only what both copies say."""
    ids_by_venue: dict[str, set[str] | None] = {}
    for raw in raws:
        if (venue_id := fast_reader.id_of(raw)) is not None:
            before, ids = ids_by_venue.get(venue_id, set()), fast_reader.embedded_ids(raw)
            ids_by_venue[venue_id] = None if before is None or ids is None else before | ids
    return ids_by_venue
