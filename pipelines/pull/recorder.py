"""Asking the API for the answers of one snapshot: sent, landed, remembered.

What is asked, and what comes of it, is in `pipelines.pull.pull` and `pipelines.pull.recheck`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import EdgeError, IdRefused, KeyRefused, Misread
from pipelines.edge.requests import Call, list_instruments
from pipelines.edge.response.envelope import raw_records
from pipelines.edge.sending.attempts import Reply
from pipelines.edge.sending.backoff import Persistence
from pipelines.edge.sending.clock import Skew
from pipelines.landing.manifest import BOOK, CLOSING, REPLACED, RequestRecord
from pipelines.landing.notices import Noticing
from pipelines.landing.zone import PendingSnapshot
from pipelines.pull.consistency import Marks, marks
from pipelines.records import split
from warehouse.progress import Tally

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
        self.notices = Noticing()
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
        except IdRefused as error:
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

    def ask(self, asked: Iterable[PlannedRequest], *, required: bool = False) -> None:
        """Send requests and keep the answers; raises `EdgeError` where one is required."""
        by_call = {id(request.call): request for request in asked}
        persistence = Persistence.REQUIRED if required else Persistence.OPTIONAL
        calls = [request.call for request in by_call.values()]
        for call, outcome in self._client.fetch_all(calls, persistence):
            request = by_call[id(call)]
            if isinstance(outcome, EdgeError):
                if required or isinstance(outcome, KeyRefused):
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

    def _keep(self, asked: PlannedRequest, reply: Reply, *, required: bool) -> None:
        file = None
        try:
            self._note(asked, reply)
            if asked.purpose != CLOSING:
                reply.body.give_back()
                file = self._pulling.land(asked.name, reply.body.buffer())
        except RecursionError:
            error = Misread("a record is nested too deeply", asked.call.path, reply.attempts)
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

    def _note(self, asked: PlannedRequest, reply: Reply) -> None:
        """Remember what decides on the next calls, and what must be told."""
        if reply.skew_ms is not None:
            self.skew = reply.skew_ms
        else:
            self._by_machine.add(asked.number)
        skew = reply.told_skew
        if skew is not None and (self.told is None or skew.doubt < self.told.doubt):
            self.told = skew
        operation = asked.call.operation
        self.notices.note(operation, reply.signs)
        if operation == "list_instruments":
            ids = split.ids_of(raw_records(reply.envelope))
            self.listed.setdefault(str(asked.venue_id), set()).update(ids)
        else:
            self.marks[asked.number] = marks(_records(reply))
        if operation == "list_venues" and asked.purpose == BOOK:
            self.embedded = _embedded_by_venue(raw_records(reply.envelope))


def _later(moment: str | None, by: timedelta) -> str | None:
    return moment and (datetime.fromisoformat(moment) + by).isoformat()


def _records(reply: Reply) -> Iterator[msgspec.Raw]:
    """Yield the records of a list; of a large body, give pages back on the way."""
    spans = reply.envelope.spans
    if spans is None:
        yield from raw_records(reply.envelope)
        return
    view, given_back = memoryview(reply.envelope.data), 0
    for first, end in zip(spans[::2], spans[1::2], strict=True):
        yield msgspec.Raw(view[first:end])
        if end - given_back > _GIVE_BACK:
            reply.body.give_back()
            given_back = end


def _embedded_by_venue(raws: Iterable[msgspec.Raw]) -> dict[str, set[str] | None]:
    """Return what each venue embeds; of a repeated venue only what both copies say."""
    ids_by_venue: dict[str, set[str] | None] = {}
    for raw in raws:
        if (venue_id := split.id_of(raw)) is not None:
            before, ids = ids_by_venue.get(venue_id, set()), split.embedded_ids(raw)
            ids_by_venue[venue_id] = None if before is None or ids is None else before | ids
    return ids_by_venue
