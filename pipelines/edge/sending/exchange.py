"""One attempt: sign, send, read to the end, and say what came of it. Never retries, never raises.

What goes wrong is handed back as a value and raised by the client, so that no traceback has a
frame that holds the request and with it the key.
"""

import contextlib
import re
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpcore
import httpx

from pipelines.edge.errors import (
    EdgeError,
    IdRefused,
    Misread,
    RedirectRefused,
    SpoolFailed,
    Stopped,
    TooLarge,
    Unreachable,
)
from pipelines.edge.requests import Call
from pipelines.edge.response.body import Body
from pipelines.edge.response.decode import Limits, decode_body, require_framing
from pipelines.edge.sending.clock import Clock
from pipelines.edge.sending.transport import AttemptTimeout
from pipelines.edge.signing import Credentials

# Bytes of an error answer that are read; a longer one has no error body for us.
ERROR_BODY = 1 << 20

_BROKEN = (
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
_PASSING_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What the service sent: times are milliseconds, `headers` are the answer's, never ours."""

    status: int
    headers: httpx.Headers
    signed_with: int | None
    sent: int
    received: int
    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """What every attempt needs."""

    http: httpx.Client
    origin: httpx.URL
    credentials: Credentials
    clock: Clock
    limits: Limits
    monotonic: Callable[[], float]
    ends: float | None
    spool_dir: Path | None
    on_bytes: Callable[[int], None]

    def attempt(self, call: Call, where: str, proved: Callable[[], None]) -> HttpAnswer | EdgeError:
        """Send one signed request; `proved` is called once the service accepts it."""
        body = Body(self.spool_dir)
        try:
            answer = self._exchange(call, body, proved)
        except (Misread, TooLarge, SpoolFailed, IdRefused) as error:
            failure: EdgeError = error.anew(where=where)
        except httpx.InvalidURL:
            failure = IdRefused(call.target, "makes an address that cannot be sent")
        except _BROKEN as error:
            failure = Unreachable(where, self._words(error), lasting=_is_lasting(error))
        except RuntimeError:  # httpx refuses to send through a closed client
            if not self.http.is_closed:
                raise
            failure = Stopped(where)
        else:
            if not 300 <= answer.status < 400:  # noqa: PLR2004 - 3xx
                return answer
            target = self.credentials.scrub(answer.headers.get("location", "nowhere"))
            failure = RedirectRefused(where, answer.status, target)
        body.close()
        return failure

    def _exchange(self, call: Call, body: Body, proved: Callable[[], None]) -> HttpAnswer:
        patience = AttemptTimeout(self.limits, self.ends, self.monotonic, self.monotonic())
        target = call.target.encode("ascii")
        request = self.http.build_request(
            "GET", self.origin.copy_with(raw_path=target), extensions={"patience": patience}
        )
        # httpx normalises some paths; one that leaves otherwise than it is signed names another
        # thing (5.2.3).
        if request.url.raw_path != target:
            raise IdRefused(call.path, "would be changed on its way")
        # Signed inside the slot and just before it leaves: a signature never ages in a queue (5.3).
        (offset, ahead), sent = self.clock.signing(), self.clock.machine()
        request.headers.update(self.credentials.headers("GET", call.path, sent + ahead))
        response = self.http.send(request, stream=True)
        try:
            received = self.clock.machine()
            if response.status_code == httpx.codes.OK:
                proved()
                self._read(response, body)
            else:
                body = self._read_error(response, body)
        finally:
            response.close()
        return HttpAnswer(
            status=response.status_code,
            headers=response.headers,
            signed_with=offset,
            sent=sent,
            received=received,
            body=body,
        )

    def _read(self, response: httpx.Response, body: Body) -> None:
        require_framing(response.headers, response.http_version)
        for piece in decode_body(*_raw(response), self.limits, self.credentials.scrub):
            _keep(body.write, piece)
            with contextlib.suppress(Exception):  # whoever cannot hear of it costs no request
                self.on_bytes(len(piece))
        _keep(body.flush)

    def _read_error(self, response: httpx.Response, body: Body) -> Body:
        """Read an error answer as far as it is one; a torn or foreign one counts by its status."""
        small = Limits(wire=ERROR_BODY, decoded=ERROR_BODY)
        try:
            for piece in decode_body(*_raw(response), small, self.credentials.scrub):
                _keep(body.write, piece)
        except (Misread, TooLarge, *_BROKEN):
            body.close()
            return Body()
        return body

    def _words(self, error: Exception) -> str:
        """Return the reason in a few words, on one line, without anything of ours."""
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
        message = " ".join(self.credentials.scrub(str(error)).split())[:200]
        return f"{kind}: {message}" if message else kind


def _raw(response: httpx.Response) -> tuple[Iterable[bytes], Mapping[str, str]]:
    """Return the body as it came, with its headers; an in-memory transport may have unpacked it."""
    if response.is_stream_consumed:
        return [response.content], {}
    return response.iter_raw(), response.headers


def _keep(write: Callable[..., None], *piece: bytes) -> None:
    reason = ""
    try:
        write(*piece)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    if reason:
        raise SpoolFailed("the body", reason)


def _is_lasting(error: BaseException) -> bool:
    """Return whether TLS itself was refused: a certificate or a protocol, not a lost connection."""
    return any(
        isinstance(cause, ssl.SSLError) and not isinstance(cause, _PASSING_TLS)
        for cause in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    step: BaseException | None = error
    for _ in range(10):
        if step is None:
            return
        yield step
        step = step.__cause__ or step.__context__
