"""The calls that make one snapshot (design part 3): portfolios, venues, instruments per type.

Portfolios and venues must be read, or there is no snapshot. A venue whose instruments cannot be
read does not stop the night: the failed request is in the manifest, and its last good rows are
carried over later.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from pipelines import elements
from pipelines.edge import protocol
from pipelines.edge.attempts import Reply
from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import EdgeError, IdRefused, KeyRefused, Misread
from pipelines.landing import Answer, Manifest, Pulling

TYPES = ("spot", "future")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pull is: requests answered of those known so far, and bytes landed."""

    done: int
    known: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the snapshot, numbered when it is known: numbers do not depend on luck."""

    number: int
    name: str
    call: protocol.Call
    venue_id: str | None = None


class _Venue(msgspec.Struct):
    instruments: list[msgspec.Raw] | None = None


class Pull:
    """One snapshot being read: asks, lands, and remembers what came."""

    def __init__(
        self, client: EdgeClient, pulling: Pulling, tell: Callable[[Progress], None]
    ) -> None:
        self._client = client
        self._pulling = pulling
        self._tell = tell
        self._answers: list[Answer] = []
        self._known = 0
        self._bytes = 0
        self._skew: int | None = None
        self._notices: set[str] = set()
        self._embedded: dict[str, set[str]] = {}
        self._listed: dict[str, set[str]] = {}
        self._failed: set[str] = set()

    def take(self, now: Callable[[], datetime], origin: str, program_version: str) -> Manifest:
        """Read everything and land it.

        Raises `EdgeError` when there can be no snapshot; whatever is raised, nothing stays landed.
        """
        try:
            self._read()
            return self._pulling.finish(
                now().astimezone(UTC),
                tuple(self._answers),
                origin=origin,
                program_version=program_version,
                clock_skew_ms=self._skew,
                notices=tuple(sorted(self._notices)),
            )
        except BaseException:
            self._pulling.abandon()
            raise

    def _read(self) -> None:
        lists = [
            self._asked("portfolios", protocol.list_portfolios(integrations=True)),
            self._asked("venues", protocol.list_venues(instruments=True)),
        ]
        self._ask(lists, required=True)
        venues = sorted(self._embedded)
        self._ask(list(self._typed(venues)), required=False)
        self._ask(list(self._untyped(venues)), required=False)

    def _asked(self, name: str, call: protocol.Call, venue_id: str | None = None) -> Asked:
        self._known += 1
        return Asked(self._known, f"{self._known:04}-{name}", call, venue_id)

    def _typed(self, venues: list[str]) -> Iterator[Asked]:
        for venue_id in venues:
            for kind in TYPES:
                asked = self._instruments(venue_id, kind)
                if asked is not None:
                    yield asked

    def _untyped(self, venues: list[str]) -> Iterator[Asked]:
        """Venues that embed an instrument which neither typed list holds: read without a type."""
        for venue_id in venues:
            listed = self._listed.get(venue_id, set())
            if venue_id not in self._failed and self._embedded[venue_id] - listed:
                asked = self._instruments(venue_id, None)
                if asked is not None:
                    yield asked

    def _instruments(self, venue_id: str, kind: str | None) -> Asked | None:
        name = f"instruments-{kind or 'all'}"
        try:
            return self._asked(name, protocol.list_instruments(venue_id, kind), venue_id)
        except IdRefused as error:
            self._known += 1
            self._failed.add(venue_id)
            query = "" if kind is None else f"type={kind}"
            self._answers.append(
                Answer(
                    self._known,
                    "list_instruments",
                    venue_id,
                    "",
                    query,
                    None,
                    0,
                    None,
                    None,
                    None,
                    None,
                    None,
                    str(error),
                )
            )
            return None

    def _ask(self, asked: list[Asked], *, required: bool) -> None:
        by_call = {id(one.call): one for one in asked}
        for call, outcome in self._client.fetch_all([one.call for one in asked]):
            one = by_call[id(call)]
            if isinstance(outcome, EdgeError):
                if required or isinstance(outcome, KeyRefused):
                    raise outcome
                self._give_up(one, outcome)
            else:
                self._keep(one, outcome, required=required)
            self._tell(Progress(len(self._answers), self._known, self._bytes))

    def _give_up(self, asked: Asked, error: EdgeError) -> None:
        self._failed.add(str(asked.venue_id))
        self._answers.append(_failed(asked, error))

    def _keep(self, asked: Asked, reply: Reply, *, required: bool) -> None:
        try:
            self._note(asked, reply)
            file = self._pulling.land(asked.name, reply.body.buffer())
        except RecursionError:
            error = Misread("a record is nested too deeply", asked.call.path, reply.attempts)
            if required:
                raise error from None
            self._give_up(asked, error)
            return
        finally:
            reply.body.close()
        self._bytes += reply.size
        self._answers.append(
            Answer(
                asked.number,
                asked.call.operation,
                asked.venue_id,
                asked.call.path,
                _query(asked.call),
                reply.status,
                reply.attempts,
                reply.sent_at.isoformat(),
                reply.received_at.isoformat(),
                reply.size,
                reply.sha256,
                file,
                None,
            )
        )

    def _note(self, asked: Asked, reply: Reply) -> None:
        """Remember what decides on the next calls, and what must be told."""
        if reply.skew_ms is not None:
            self._skew = reply.skew_ms
        if hint := protocol.paging_hint(reply.envelope):
            self._notices.add(f"{asked.call.path}: {hint}")
        if asked.name.endswith("-venues"):
            for raw in elements.split(reply.envelope):
                if (venue_id := elements.id_of(raw)) is not None:
                    self._embedded.setdefault(venue_id, set()).update(_embedded(raw))
        elif asked.venue_id is not None:
            self._listed.setdefault(asked.venue_id, set()).update(
                _ids(elements.split(reply.envelope))
            )


def _embedded(venue: msgspec.Raw) -> set[str]:
    """The instruments that a venue embeds; what breaks the contract is rejected when flattened."""
    try:
        return _ids(msgspec.json.decode(venue, type=_Venue).instruments or ())
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return set()


def _ids(raws: Iterable[msgspec.Raw]) -> set[str]:
    return {identity for raw in raws if (identity := elements.id_of(raw)) is not None}


def _query(call: protocol.Call) -> str:
    return call.target.partition("?")[2]


def _failed(asked: Asked, error: EdgeError) -> Answer:
    return Answer(
        asked.number,
        asked.call.operation,
        asked.venue_id,
        asked.call.path,
        _query(asked.call),
        getattr(error, "status", None),
        getattr(error, "attempts", 0) or 0,
        None,
        None,
        None,
        None,
        None,
        str(error),
    )
