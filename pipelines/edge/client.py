"""A typed API client. Calls return checked responses or raise `EdgeError`.

    with EdgeClient("https://api.example.com", Credentials(key, secret)) as edge:
        for portfolio in edge.portfolios(integrations=True):
            print(portfolio.name, len(portfolio.positions))

`fetch` and `fetch_all` return responses with their exact bytes. Threads may share a client.
`sending.exchange` makes a single attempt, and `sending.retries` decides whether to retry it.
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
from pipelines.edge.errors import ClientClosed, EdgeError, MalformedResponseError
from pipelines.edge.models import Instrument, Portfolio, Venue, decode
from pipelines.edge.requests import Call, is_same_id
from pipelines.edge.response.body import Limits
from pipelines.edge.response.envelope import raw_records, require_strict
from pipelines.edge.sending.clock import Clock
from pipelines.edge.sending.exchange import ApiResponse, Sender
from pipelines.edge.sending.limiter import BREAKER_THRESHOLD, Limiter
from pipelines.edge.sending.retries import Event, RetryingSender, RetryMode
from pipelines.edge.sending.transport import OneShotTransport, parse_origin
from pipelines.edge.signing import Credentials

HEADERS = {
    "accept": "application/json",
    "accept-encoding": "gzip",
    # No cache on the way may answer or keep a response, because it would be tonight's book.
    "cache-control": "no-cache, no-store",
    "connection": "close",
    "user-agent": "nightbook",
}
# The maximum number of extra calls that may start while other calls wait for a retry. This many are
# enough to find out whether one venue or the whole service is failing.
MAX_REPLACEMENTS = BREAKER_THRESHOLD
_Finished = tuple[Call, ApiResponse | EdgeError | BaseException]
_Resource = TypeVar("_Resource", Portfolio, Venue)
_Model = TypeVar("_Model")


@dataclass(frozen=True, slots=True)
class ServiceCheck:
    """The result of testing the service with a single request.

    `skew_ms` is how far the server's clock is ahead of this machine's clock, in milliseconds. It is
    None if the response has no usable date. `error` is None after a success.
    """

    reached: bool
    status: int | None
    skew_ms: int | None
    error: EdgeError | None


def now_ms() -> int:
    """Return this machine's Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class EdgeClient:
    """A client for the API's five operations (§4). Thread-safe.

    `origin` is scheme, host and port. `concurrency` is the maximum number of simultaneous requests.
    `deadline` is the time limit for all of the client's calls, in seconds from now. `clock` returns
    Unix milliseconds. `on_event` receives retries, slowdowns, clock corrections and outages.
    `on_bytes` receives the size of each piece of a body. Both may be called from any thread.
    `ca_file` has the certificates of a private authority. Raises `InvalidOrigin` if the origin is
    invalid or would leak the key.
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
        ca_file: Path | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_bytes: Callable[[int], None] = lambda _: None,
    ) -> None:
        url = parse_origin(origin)
        deadline_time = None if deadline is None else monotonic() + deadline
        self._concurrency = concurrency
        self._http = httpx.Client(
            transport=transport or OneShotTransport(tls=url.scheme == "https", ca_file=ca_file),
            headers=HEADERS,
            trust_env=False,
            follow_redirects=False,
        )
        # Do not store cookies, so that the client never sends any.
        self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._limiter = Limiter(concurrency, deadline_time, monotonic, sleep)
        self._sender = Sender(
            http=self._http,
            origin=url,
            credentials=credentials,
            clock=Clock(clock),
            limits=limits or Limits(),
            monotonic=monotonic,
            deadline=deadline_time,
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
        """Return the seconds until the deadline, or None if there is no deadline."""
        return self._limiter.seconds_until_deadline()

    def close(self) -> None:
        """Stop sending, wake all waiting calls and interrupt requests in progress."""
        self._limiter.closed.set()
        self._http.close()

    def fetch(self, call: Call) -> ApiResponse:
        """Send a request and return the checked response. The caller must close its body.

        Raises `EdgeError` if the request still fails after all retries.
        """
        return self._retries.fetch(call)

    def fetch_all(
        self, calls: Iterable[Call], mode: RetryMode = RetryMode.OPTIONAL
    ) -> Iterator[tuple[Call, ApiResponse | EdgeError]]:
        """Run API calls in parallel. Yield each call with its response or error as it finishes.

        If the key is rejected, nothing more is sent, and the remaining calls get the same error. If
        the caller stops reading early, the client is closed. At most `concurrency` calls are
        running or waiting to be read, but while a call waits for its next attempt, another call may
        start. So a failing call does not delay the others.
        """
        remaining = iter(calls)
        finished: queue.SimpleQueue[_Finished | None] = queue.SimpleQueue()
        started = 0  # started calls that have not been yielded yet
        waiting = _WaitingCalls(lambda: finished.put(None))

        def run(call: Call) -> None:
            finished.put((call, self._fetch_or_error(call, waiting.count, mode)))

        pool = ThreadPoolExecutor(self._concurrency + MAX_REPLACEMENTS, "edge")
        try:
            while True:
                while (started - waiting.replaceable) < self._concurrency and (
                    call := next(remaining, None)
                ) is not None:
                    # Count the call before `submit`. If Ctrl-C interrupts `submit`, the count is
                    # then not 0, so the client is closed below.
                    started += 1
                    pool.submit(run, call)
                if not started:
                    return
                # None means that a call has started to wait for a retry, so another call may start.
                if (item := finished.get()) is None:
                    continue
                call, result = item
                started -= 1
                if not isinstance(result, ApiResponse | EdgeError):
                    raise result
                yield call, result
        finally:
            if started:
                # Interrupt the running requests. Otherwise, the pool would wait up to half a minute
                # if the service hangs.
                self.close()
            pool.shutdown(wait=True, cancel_futures=True)
            _close_bodies(finished)

    def portfolios(self, ids: Iterable[str] = (), *, integrations: bool = False) -> list[Portfolio]:
        """Return all portfolios that the key can read, or only those with the given IDs (§4.1)."""
        return self._records(requests.list_portfolios(ids, integrations=integrations), Portfolio)

    def portfolio(self, portfolio_id: str, *, integrations: bool = False) -> Portfolio:
        """Return the portfolio with the given ID (§4.2)."""
        call = requests.get_portfolio(portfolio_id, integrations=integrations)
        return self._record(call, portfolio_id, Portfolio)

    def venues(self, ids: Iterable[str] = (), *, instruments: bool = False) -> list[Venue]:
        """Return all venues, or only those with the given IDs (§4.3)."""
        return self._records(requests.list_venues(ids, instruments=instruments), Venue)

    def venue(self, venue_id: str, *, instruments: bool = False) -> Venue:
        """Return the venue with the given ID (§4.4)."""
        return self._record(requests.get_venue(venue_id, instruments=instruments), venue_id, Venue)

    def instruments(self, venue_id: str, kind: str | None = None) -> list[Instrument]:
        """Return a venue's instruments (§4.5). `kind` is `spot`, `future`, or None for both."""
        return self._records(requests.list_instruments(venue_id, kind), Instrument)

    def check(self) -> ServiceCheck:
        """Send one signed `GET /venues` without retries, and return the result.

        Raises `ClientClosed` if the client is closed. Every other error is returned in the result.
        """
        call = requests.list_venues()
        request_line = f"GET {call.path}"
        response = self._sender.send(call, request_line, self._limiter.accept_key)
        if isinstance(response, EdgeError):
            if self._limiter.closed.is_set():
                raise ClientClosed(request_line)
            return ServiceCheck(reached=False, status=None, skew_ms=None, error=response)
        skew_ms = None if response.skew is None else response.skew.ahead
        result = self._sender.check(call, request_line, response)
        response.body.close()
        error = result if isinstance(result, EdgeError) else None
        return ServiceCheck(reached=True, status=response.status, skew_ms=skew_ms, error=error)

    def _fetch_or_error(
        self, call: Call, on_waiting: Callable[[bool], None], mode: RetryMode
    ) -> ApiResponse | EdgeError | BaseException:
        try:
            return self._retries.fetch(call, on_waiting, mode)
        except BaseException as error:  # noqa: BLE001 - `fetch_all` raises it in the caller's thread
            return error

    def _records(self, call: Call, model: type[_Model]) -> list[_Model]:
        return self._decode(self.fetch(call), list[model])  # type: ignore[valid-type]  # built at run time

    def _record(self, call: Call, requested_id: str, model: type[_Resource]) -> _Resource:
        record = self._decode(self.fetch(call), model)
        if not is_same_id(requested_id, record.id):
            raise MalformedResponseError("the ID differs from the requested ID", f"GET {call.path}")
        return record

    def _decode(self, response: ApiResponse, model: type[_Model]) -> _Model:
        try:
            decoded = decode(response.envelope.data, model)
            require_strict(raw_records(response.envelope))
        except MalformedResponseError as error:
            defect = self._sender.credentials.scrub(error.defect)
        else:
            return decoded
        finally:
            response.body.close()
        raise MalformedResponseError(defect, f"GET {response.call.path}", response.attempts)


class _WaitingCalls:
    """A counter of calls that are waiting for a retry. Runs `on_more` when the count rises."""

    def __init__(self, on_more: Callable[[], None]) -> None:
        self._on_more, self._lock, self._count = on_more, threading.Lock(), 0

    @property
    def replaceable(self) -> int:
        """The number of extra calls that may start because other calls are waiting for a retry."""
        return min(self._count, MAX_REPLACEMENTS)

    def count(self, is_waiting: bool) -> None:  # noqa: FBT001 - the callback of `RetryingSender.fetch`
        """Add one to the count when a call starts waiting, and subtract one when it stops."""
        with self._lock:
            self._count += 1 if is_waiting else -1
        if is_waiting:
            self._on_more()


def _close_bodies(finished: "queue.SimpleQueue[_Finished | None]") -> None:
    """Close the bodies of responses that the caller never received."""
    while not finished.empty():
        item = finished.get()
        if item is not None and isinstance(item[1], ApiResponse):
            item[1].body.close()
