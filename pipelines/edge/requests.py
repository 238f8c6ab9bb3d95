"""Functions that build requests for the API's five operations (§4), exactly as they are sent."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pipelines.edge.errors import InvalidId

PREFIX = "/edge/v1beta"

_MAX_ID_LENGTH = 256
# Characters that are sent in a path without percent-encoding. The percent sign is included, because
# the path may already be encoded.
_SAFE = "/%:@!$&'()*+,;=~-._"
_OPERATIONS = {
    ("portfolios",): "list_portfolios",
    ("portfolios", "*"): "get_portfolio",
    ("venues",): "list_venues",
    ("venues", "*"): "get_venue",
    ("venues", "*", "instruments"): "list_instruments",
}
_SINGLE = ("get_portfolio", "get_venue")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Call:
    """A GET request to the API. `path` includes the prefix and is percent-encoded as sent.

    `single` is True if the response contains one record, and False if it contains a list.
    """

    operation: str
    path: str
    query: tuple[tuple[str, str], ...]
    single: bool

    @property
    def target(self) -> str:
        """The path with the encoded query, as it appears in the request line."""
        if not self.query:
            return self.path
        pairs = (f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.query)
        return f"{self.path}?{'&'.join(pairs)}"


def is_same_id(requested: str, received: str) -> bool:
    """Return whether two IDs are equal, ignoring case if they are UUIDs (§2.1)."""
    if requested == received:
        return True
    return requested.lower() == received.lower() and bool(_UUID.fullmatch(requested))


def list_portfolios(ids: Iterable[str] = (), *, integrations: bool = False) -> Call:
    """Build the request `GET /portfolios` (§4.1). Without `ids`, it lists all portfolios."""
    query = (*_id_query(ids), *_include("integrations", is_included=integrations))
    return Call("list_portfolios", f"{PREFIX}/portfolios", query, single=False)


def get_portfolio(portfolio_id: str, *, integrations: bool = False) -> Call:
    """Build the request `GET /portfolios/{id}` (§4.2)."""
    query = _include("integrations", is_included=integrations)
    path = f"{PREFIX}/portfolios/{_encode_segment(portfolio_id)}"
    return Call("get_portfolio", path, query, single=True)


def list_venues(ids: Iterable[str] = (), *, instruments: bool = False) -> Call:
    """Build the request `GET /venues` (§4.3). Without `ids`, it lists all venues."""
    query = (*_id_query(ids), *_include("instruments", is_included=instruments))
    return Call("list_venues", f"{PREFIX}/venues", query, single=False)


def get_venue(venue_id: str, *, instruments: bool = False) -> Call:
    """Build the request `GET /venues/{id}` (§4.4)."""
    query = _include("instruments", is_included=instruments)
    return Call("get_venue", f"{PREFIX}/venues/{_encode_segment(venue_id)}", query, single=True)


def list_instruments(venue_id: str, kind: str | None = None) -> Call:
    """Build the request `GET /venues/{id}/instruments` (§4.5), optionally for only one `kind`."""
    query = () if kind is None else _check_query((("type", kind),))
    path = f"{PREFIX}/venues/{_encode_segment(venue_id)}/instruments"
    return Call("list_instruments", path, query, single=False)


def raw_call(path: str, query: Sequence[tuple[str, str]] = ()) -> Call:
    """Build the request for a path that a person typed, with or without the API's prefix.

    IDs in the path may be percent-encoded. The operation is `other` if the path does not match any
    of the five operations. Raises `InvalidId` if the path cannot be sent unchanged.
    """
    full_path = path if path.startswith(f"{PREFIX}/") else f"{PREFIX}/{path.lstrip('/')}"
    if "?" in full_path or "#" in full_path:
        raise InvalidId(path, "contains ? or #, which are not allowed in a path")
    segments = full_path.removeprefix(f"{PREFIX}/").split("/")
    for segment in segments:
        _require_sendable(segment)
    pattern = tuple("*" if index == 1 else part for index, part in enumerate(segments))
    operation = _OPERATIONS.get(pattern, "other")
    return Call(operation, quote(full_path, safe=_SAFE), _check_query(query), operation in _SINGLE)


def _encode_segment(value: str) -> str:
    _require_sendable(value)
    return quote(value, safe="")


def _id_query(ids: Iterable[str]) -> tuple[tuple[str, str], ...]:
    values = tuple(ids)
    for value in values:
        _require_sendable(value)
        if "," in value:
            raise InvalidId(value, "contains a comma, which separates IDs in a list")
    return (("id", ",".join(values)),) if values else ()


def _include(name: str, *, is_included: bool) -> tuple[tuple[str, str], ...]:
    return (("include", name),) if is_included else ()


def _check_query(query: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the query as a tuple. Raise `InvalidId` if it contains half of a surrogate pair."""
    for text in itertools.chain.from_iterable(query):
        _require_no_surrogate(text)
    return tuple(query)


def _require_sendable(value: str) -> None:
    """Raise `InvalidId` if an ID or a path segment cannot be sent to the API unchanged."""
    if value in {"", ".", ".."}:
        raise InvalidId(value, "is empty, '.' or '..', which URL normalisation removes")
    if len(value) > _MAX_ID_LENGTH:
        raise InvalidId(
            value, f"has {len(value)} characters, but at most {_MAX_ID_LENGTH} are allowed"
        )
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):  # noqa: PLR2004 - C0, DEL and C1
        raise InvalidId(value, "contains control characters")
    _require_no_surrogate(value)


def _require_no_surrogate(value: str) -> None:
    if any(0xD800 <= ord(c) <= 0xDFFF for c in value):  # noqa: PLR2004 - the surrogate range
        raise InvalidId(value, "contains half of a surrogate pair")
