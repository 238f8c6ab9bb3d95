"""A single attempt: sign a request, send it and read the response, without retries.

Errors are returned, not raised. The caller raises them later, so that no traceback contains a frame
with the request, which contains the key.
"""

import contextlib
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import httpcore
import httpx

from pipelines.edge.errors import (
    ClientClosed,
    ConnectionFailed,
    EdgeError,
    InvalidId,
    MalformedResponseError,
    ResponseTooLarge,
    SpoolFailed,
    UnexpectedRedirect,
)
from pipelines.edge.requests import Call
from pipelines.edge.response.body import Body, Limits, decode_body, require_framing
from pipelines.edge.response.envelope import Envelope
from pipelines.edge.response.freshness import OldSign, find_old_signs
from pipelines.edge.response.refusal import MAX_ERROR_BODY, check_response
from pipelines.edge.response.wholeness import TruncationHint, find_truncation_hints
from pipelines.edge.sending.clock import (
    Clock,
    Skew,
    measure_skew,
    parse_http_date,
    requested_wait,
    to_utc,
)
from pipelines.edge.sending.transport import AttemptTimeout
from pipelines.edge.signing import Credentials

_ERROR_LIMITS = Limits(wire=MAX_ERROR_BODY, decoded=MAX_ERROR_BODY)
_NETWORK_ERRORS = (
    httpx.HTTPError,
    httpx.StreamError,
    httpcore.ConnectionNotAvailable,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    OSError,
)
_LOST_CONNECTIONS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """An HTTP response with any status, whose content has not been checked.

    `sent` and `received` are this machine's time in Unix milliseconds. `signed_with` is the clock
    correction used to sign the request, in milliseconds, or None.
    """

    status: int
    headers: httpx.Headers
    signed_with: int | None
    sent: int
    received: int
    body: Body

    @property
    def skew(self) -> Skew | None:
        """The clock skew according to the `Date` header, or None if the header is not usable."""
        return measure_skew(self.headers, self.sent, self.received)

    @property
    def requested_wait(self) -> float | None:
        """The number of seconds that the server asks the client to wait, or None."""
        return requested_wait(self.headers, self.status, self.received + (self.signed_with or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """A checked, successful response. The caller must close its `body`.

    `sent_at` and `received_at` are in UTC, by the corrected clock. `skew_ms` is the correction used
    to sign the request, in milliseconds (positive if the server is ahead), or None. `size` (bytes)
    and `sha256` describe the body after content decoding. `truncation_hints` indicate that the
    response may be incomplete. `measured_skew` is the skew according to the `Date` header, or None.
    It is not measured for instrument lists, because there are many of them. `old_signs` are signs
    that the response was made more than five minutes ago, and `date` is its `Date` header.
    """

    call: Call
    status: int
    sent_at: datetime
    received_at: datetime
    attempts: int
    size: int
    sha256: str
    body: Body
    envelope: Envelope
    skew_ms: int | None
    truncation_hints: tuple[TruncationHint, ...] = ()
    measured_skew: Skew | None = None
    old_signs: tuple[OldSign, ...] = ()
    date: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A sender of single requests, without retries. Thread-safe.

    `deadline` is a time of the `monotonic` clock in seconds, or None. Bodies above 1 MiB are
    spooled to `spool_dir`. `on_bytes` receives the size of each decoded piece of a body, in any
    thread.
    """

    http: httpx.Client
    origin: httpx.URL
    credentials: Credentials
    clock: Clock
    limits: Limits
    monotonic: Callable[[], float]
    deadline: float | None
    spool_dir: Path | None
    on_bytes: Callable[[int], None]

    def send(
        self, call: Call, request_line: str, on_accepted: Callable[[], None]
    ) -> HttpResponse | EdgeError:
        """Sign and send one request (§5.2). Return the response, or an error if the request failed.

        `on_accepted` is called once the API has accepted the key, before the body is read. A
        redirect is an error, because following it would send the key to another server.
        """
        body = Body(self.spool_dir)
        try:
            response = self._exchange(call, body, on_accepted)
        except (MalformedResponseError, ResponseTooLarge, SpoolFailed, InvalidId) as error:
            failure: EdgeError = error.copy_with(request_line=request_line)
        except httpx.InvalidURL:
            failure = InvalidId(call.target, "results in an invalid URL")
        except _NETWORK_ERRORS as error:
            failure = ConnectionFailed(
                request_line, self._reason(error), is_permanent=_is_tls_refusal(error)
            )
        except RuntimeError:  # httpx raises RuntimeError if its client is closed.
            if not self.http.is_closed:
                raise
            failure = ClientClosed(request_line)
        else:
            if not 300 <= response.status < 400:  # noqa: PLR2004 - 3xx
                return response
            target = self.credentials.scrub(response.headers.get("location", "nowhere"))
            failure = UnexpectedRedirect(request_line, response.status, target)
        body.close()
        return failure

    def check(self, call: Call, request_line: str, response: HttpResponse) -> Envelope | EdgeError:
        """Check a response. Return the envelope of a success (§2.9), or else the error (§7)."""
        scrub = self.credentials.scrub
        return check_response(call, request_line, response.status, response.body, scrub)

    def success(
        self, call: Call, response: HttpResponse, envelope: Envelope, attempts: int
    ) -> ApiResponse:
        """Build the result of a successful request from the response and its checked envelope."""
        offset, scrub = response.signed_with or 0, self.credentials.scrub
        resource = call.operation.partition("_")[2]
        sent_at = to_utc(response.sent + offset)
        received_at = to_utc(response.received + offset)
        # If the clock jumped in between, the earlier time does not make a response look old.
        asked_at = min(sent_at, received_at)
        date = parse_http_date(response.headers.get("date", ""))
        return ApiResponse(
            call=call,
            status=response.status,
            sent_at=sent_at,
            received_at=received_at,
            attempts=attempts,
            size=response.body.size,
            sha256=response.body.sha256,
            body=response.body,
            envelope=envelope,
            skew_ms=response.signed_with,
            truncation_hints=tuple(
                TruncationHint(scrub(hint.location), hint.code, scrub(hint.example))
                for hint in find_truncation_hints(envelope, response.headers, resource)
            ),
            measured_skew=None if call.operation == "list_instruments" else response.skew,
            old_signs=tuple(
                replace(sign, location=scrub(sign.location), example=scrub(sign.example))
                for sign in find_old_signs(response.headers, envelope.meta, asked_at, date)
            ),
            date=date,
        )

    def _exchange(self, call: Call, body: Body, on_accepted: Callable[[], None]) -> HttpResponse:
        timeout = AttemptTimeout(self.limits, self.deadline, self.monotonic, self.monotonic())
        target = call.target.encode("ascii")
        request = self.http.build_request(
            "GET", self.origin.copy_with(raw_path=target), extensions={"attempt_timeout": timeout}
        )
        # httpx normalises some paths, but the path that is sent must be the signed path (5.2.3).
        if request.url.raw_path != target:
            raise InvalidId(call.path, "would be changed by URL normalisation")
        # Sign just before sending, because a signature would expire while a request is queued
        # (§5.3).
        (correction, signing_offset), sent = self.clock.offsets(), self.clock.machine_time()
        request.headers.update(self.credentials.headers("GET", call.path, sent + signing_offset))
        response = self.http.send(request, stream=True)
        try:
            received = self.clock.machine_time()
            if response.status_code == httpx.codes.OK:
                on_accepted()
                self._read_success(response, body)
            else:
                body = self._read_error(response, body)
        finally:
            response.close()
        return HttpResponse(
            status=response.status_code,
            headers=response.headers,
            signed_with=correction,
            sent=sent,
            received=received,
            body=body,
        )

    def _read_success(self, response: httpx.Response, body: Body) -> None:
        require_framing(response.headers, response.http_version)
        for piece in decode_body(*_raw_body(response), self.limits, self.credentials.scrub):
            _spool(body, body.write, piece)
            # An error in the callback (the progress display) must not make the request fail.
            with contextlib.suppress(Exception):
                self.on_bytes(len(piece))
        _spool(body, body.flush)

    def _read_error(self, response: httpx.Response, body: Body) -> Body:
        """Read an error body. Return an empty body if it is truncated, malformed or too large."""
        try:
            for piece in decode_body(*_raw_body(response), _ERROR_LIMITS, self.credentials.scrub):
                _spool(body, body.write, piece)
        except (MalformedResponseError, ResponseTooLarge, *_NETWORK_ERRORS):
            body.close()
            return Body()
        return body

    def _reason(self, error: Exception) -> str:
        """Describe a network error in one short line, without the key and the secret."""
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
        message = " ".join(self.credentials.scrub(str(error)).split())[:200]
        return f"{name}: {message}" if message else name


def _raw_body(response: httpx.Response) -> tuple[Iterable[bytes], Mapping[str, str]]:
    """Return the body and its headers. If httpx has decoded the body, return no headers."""
    if response.is_stream_consumed:
        return [response.content], {}
    return response.iter_raw(), response.headers


def _spool(body: Body, write: Callable[..., None], *piece: bytes) -> None:
    """Write a piece of the body. Raises `SpoolFailed` if the disk is full or fails."""
    try:
        write(*piece)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SpoolFailed("the body", reason, body.folder) from None


def _is_tls_refusal(error: BaseException) -> bool:
    """Return whether TLS failed in a way that a retry cannot fix, like a rejected certificate."""
    cause: BaseException | None = error
    for _ in range(10):
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, _LOST_CONNECTIONS):
            return True
        cause = cause and (cause.__cause__ or cause.__context__)
    return False
