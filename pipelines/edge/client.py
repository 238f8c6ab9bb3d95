"""The API as a typed Python client: calls in, checked answers out, whatever the network does.

    with EdgeClient("https://api.example.com", Credentials(key, secret)) as edge:
        for portfolio in edge.portfolios(integrations=True):
            print(portfolio.name, len(portfolio.positions))

`fetch` and `fetch_all` give the exact bytes for those who keep them. One client is shared by
threads. One attempt is in `sending.exchange`, the retry policy in `sending.retries`.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx

from pipelines.edge import requests
from pipelines.edge.errors import EdgeError, Misread, Stopped
from pipelines.edge.models import Instrument, Portfolio, Venue, decode
from pipelines.edge.requests import Call, is_same_id
from pipelines.edge.response.decode import Limits
from pipelines.edge.response.envelope import raw_records
from pipelines.edge.response.strict import require_strict
from pipelines.edge.sending.clock import Clock
from pipelines.edge.sending.exchange import ApiResponse, Sender
from pipelines.edge.sending.limiter import BREAKER_THRESHOLD, Limiter
from pipelines.edge.sending.retries import Event, RetryingSender, RetryMode
from pipelines.edge.sending.transport import OneShotTransport, parse_origin
from pipelines.edge.signing import Credentials

_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "gzip",
    "connection": "close",
    "user-agent": "nightbook",
}
# Calls that may go while others rest: enough to tell a venue that fails from a service.
SPARE = BREAKER_THRESHOLD
_Done = tuple[Call, ApiResponse | EdgeError | BaseException]
_Resource = TypeVar("_Resource", Portfolio, Venue)
_Model = TypeVar("_Model")


@dataclass(frozen=True, slots=True)
class ServiceCheck:
    """What a single request to the service found out, for a doctor."""

    reached: bool
    status: int | None
    skew_ms: int | None  # how far the server's clock is ahead of ours, where its answer told
    error: EdgeError | None


def now_ms() -> int:
    """Return this machine's time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


class EdgeClient:
    """The five operations of the API over one shared, guarded connection policy.

    `origin` is scheme, host and port. `deadline` is seconds for everything this client does,
    counted from here. `clock` gives Unix milliseconds. `on_event` is told of retries, of a slower
    pace, of a corrected clock and of a tripped breaker, `on_bytes` of each piece of a body, from
    any thread. Raises `OriginRefused` where the origin would leak the key.
    """

    def __init__(
        self,
        origin: str,
        credentials: Credentials,
        *,
        concurrency: int = 8,
        deadline: float | None = None,
        clock: Callable[[], int] = now_ms,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        rng: Callable[[], float] = random.random,
        transport: httpx.BaseTransport | None = None,
        limits: Limits | None = None,
        spool_dir: Path | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_bytes: Callable[[int], None] = lambda _: None,
    ) -> None:
        url = parse_origin(origin)
        ends = None if deadline is None else monotonic() + deadline
        self._concurrency = concurrency
        self._http = httpx.Client(
            transport=transport or OneShotTransport(tls=url.scheme == "https"),
            headers=_HEADERS,
            trust_env=False,
            follow_redirects=False,
        )
        # No cookie is kept, so none is ever sent.
        self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._limiter = Limiter(concurrency, ends, monotonic, sleep)
        self._sender = Sender(
            http=self._http,
            origin=url,
            credentials=credentials,
            clock=Clock(clock),
            limits=limits or Limits(),
            monotonic=monotonic,
            deadline=ends,
            spool_dir=spool_dir,
            on_bytes=on_bytes,
        )
        self._retries = RetryingSender(self._sender, self._limiter, rng=rng, on_event=on_event)

    def __repr__(self) -> str:
        return f"EdgeClient({str(self._sender.origin)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def seconds_until_deadline(self) -> float | None:
        """Return seconds until the deadline; None without one."""
        return self._limiter.seconds_until_deadline()

    def close(self) -> None:
        """Send nothing more, wake whoever waits to, and end what is under way."""
        self._limiter.closed.set()
        self._http.close()

    def fetch(self, call: Call) -> ApiResponse:
        """Return the checked answer to a call, whose body the caller closes; raises `EdgeError`."""
        return self._retries.fetch(call)

    def fetch_all(
        self, calls: Iterable[Call], mode: RetryMode = RetryMode.OPTIONAL
    ) -> Iterator[tuple[Call, ApiResponse | EdgeError]]:
        """Yield every call with its answer or its error, as they come, within the bound.

        After a refused key nothing more is sent: the remaining calls have that error too. Whoever
        stops reading early closes the client. At most `concurrency` answers wait to be read; while
        a call rests between two attempts another one goes, so that one that fails keeps up nobody.
        """
        waiting = iter(calls)
        done: queue.SimpleQueue[_Done | None] = queue.SimpleQueue()
        under_way = 0
        resting = _WaitingCalls(lambda: done.put(None))

        def work(call: Call) -> None:
            done.put((call, self._outcome(call, resting.note, mode)))

        pool = ThreadPoolExecutor(self._concurrency + SPARE, "edge")
        try:
            while True:
                while (under_way - resting.count) < self._concurrency and (
                    call := next(waiting, None)
                ) is not None:
                    under_way += 1  # first, for Ctrl-C comes at any instant
                    pool.submit(work, call)
                if not under_way:
                    return
                if (ready := done.get()) is None:
                    continue
                call, outcome = ready
                under_way -= 1
                if not isinstance(outcome, ApiResponse | EdgeError):
                    raise outcome
                yield call, outcome
        finally:
            if under_way:
                self.close()  # a service that hangs would be waited for, half a minute
            pool.shutdown(wait=True, cancel_futures=True)
            _drop(done)

    def portfolios(self, ids: Iterable[str] = (), *, integrations: bool = False) -> list[Portfolio]:
        """Return the portfolios the key may see, or those of `ids` among them (4.1)."""
        return self._records(requests.list_portfolios(ids, integrations=integrations), Portfolio)

    def portfolio(self, portfolio_id: str, *, integrations: bool = False) -> Portfolio:
        """Return one portfolio (4.2)."""
        call = requests.get_portfolio(portfolio_id, integrations=integrations)
        return self._record(call, portfolio_id, Portfolio)

    def venues(self, ids: Iterable[str] = (), *, instruments: bool = False) -> list[Venue]:
        """Return the venues, or those of `ids` (4.3)."""
        return self._records(requests.list_venues(ids, instruments=instruments), Venue)

    def venue(self, venue_id: str, *, instruments: bool = False) -> Venue:
        """Return one venue (4.4)."""
        call = requests.get_venue(venue_id, instruments=instruments)
        return self._record(call, venue_id, Venue)

    def instruments(self, venue_id: str, kind: str | None = None) -> list[Instrument]:
        """Return the instruments of a venue, of one type or of both (4.5)."""
        return self._records(requests.list_instruments(venue_id, kind), Instrument)

    def check(self) -> ServiceCheck:
        """Send one signed `GET /venues`, never twice, and say what it found out.

        Raises `Stopped` if the client is closed. Every other error is in the result.
        """
        call = requests.list_venues()
        where = f"GET {call.path}"
        response = self._sender.send(call, where, self._limiter.accept_key)
        if isinstance(response, EdgeError):
            if self._limiter.closed.is_set():
                raise Stopped(where)
            return ServiceCheck(reached=False, status=None, skew_ms=None, error=response)
        skew_ms = None if response.skew is None else response.skew.ahead
        result = self._sender.check(call, where, response)
        response.body.close()
        error = result if isinstance(result, EdgeError) else None
        return ServiceCheck(reached=True, status=response.status, skew_ms=skew_ms, error=error)

    def _outcome(
        self, call: Call, rests: Callable[[bool], None], mode: RetryMode
    ) -> ApiResponse | EdgeError | BaseException:
        try:
            return self._retries.fetch(call, rests, mode)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            return error

    def _records(self, call: Call, model: type[_Model]) -> list[_Model]:
        reply = self.fetch(call)
        return self._decode(reply, list[model])  # type: ignore[valid-type]  # a type made at run time

    def _record(self, call: Call, asked: str, model: type[_Resource]) -> _Resource:
        record = self._decode(self.fetch(call), model)
        if not is_same_id(record.id, asked):
            raise Misread("another id than the one asked for", f"GET {call.path}")
        return record

    def _decode(self, reply: ApiResponse, model: type[_Model]) -> _Model:
        try:
            decoded = decode(reply.envelope.data, model)
            require_strict(raw_records(reply.envelope))
        except Misread as error:
            defect = self._sender.credentials.scrub(error.found)
        else:
            return decoded
        finally:
            reply.body.close()
        raise Misread(defect, f"GET {reply.call.path}", reply.attempts)


class _WaitingCalls:
    """How many calls wait between two attempts; `wake` is called when one more does."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake, self._lock, self._count = wake, threading.Lock(), 0

    @property
    def count(self) -> int:
        """Those for which another may go."""
        return min(self._count, SPARE)

    def note(self, begins: bool) -> None:  # noqa: FBT001 - one event with two ends
        """Count one more, or one less."""
        with self._lock:
            self._count += 1 if begins else -1
        if begins:
            self._wake()


def _drop(done: "queue.SimpleQueue[_Done | None]") -> None:
    """Free the bodies nobody will read."""
    while not done.empty():
        ready = done.get()
        if ready is not None and isinstance(ready[1], ApiResponse):
            ready[1].body.close()
