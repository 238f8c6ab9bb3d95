"""The five operations of the API (4) as values: what to ask for, exactly as it goes on the wire."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pipelines.edge.errors import IdRefused

PREFIX = "/edge/v1beta"

_LONGEST = 256
# What a path may hold besides letters and digits, and what is already percent-encoded.
_KEPT = "/%:@!$&'()*+,;=~-._"
_SHAPES = {
    ("portfolios",): "list_portfolios",
    ("portfolios", "*"): "get_portfolio",
    ("venues",): "list_venues",
    ("venues", "*"): "get_venue",
    ("venues", "*", "instruments"): "list_instruments",
}
_SINGLE = ("get_portfolio", "get_venue")


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def is_same_id(asked: str, answered: str) -> bool:
    """Return whether both name one thing: the same text, or a uuid in whatever letters (2.1)."""
    return asked == answered or (asked.lower() == answered.lower() and bool(_UUID.fullmatch(asked)))


@dataclass(frozen=True, slots=True)
class Call:
    """One request to make: `path` is encoded, from the prefix, exactly as it goes on the wire."""

    operation: str
    path: str
    query: tuple[tuple[str, str], ...]
    single: bool

    @property
    def target(self) -> str:
        """Path and encoded query: what stands in the request line."""
        if not self.query:
            return self.path
        pairs = (f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.query)
        return f"{self.path}?{'&'.join(pairs)}"


def list_portfolios(ids: Iterable[str] = (), *, integrations: bool = False) -> Call:
    """Return `GET /portfolios` (4.1); an empty `ids` asks for all."""
    query = (*_ids(ids), *_include("integrations", wanted=integrations))
    return Call("list_portfolios", f"{PREFIX}/portfolios", query, single=False)


def get_portfolio(portfolio_id: str, *, integrations: bool = False) -> Call:
    """Return `GET /portfolios/{id}` (4.2)."""
    query = _include("integrations", wanted=integrations)
    path = f"{PREFIX}/portfolios/{_segment(portfolio_id)}"
    return Call("get_portfolio", path, query, single=True)


def list_venues(ids: Iterable[str] = (), *, instruments: bool = False) -> Call:
    """Return `GET /venues` (4.3); an empty `ids` asks for all."""
    query = (*_ids(ids), *_include("instruments", wanted=instruments))
    return Call("list_venues", f"{PREFIX}/venues", query, single=False)


def get_venue(venue_id: str, *, instruments: bool = False) -> Call:
    """Return `GET /venues/{id}` (4.4)."""
    query = _include("instruments", wanted=instruments)
    return Call("get_venue", f"{PREFIX}/venues/{_segment(venue_id)}", query, single=True)


def list_instruments(venue_id: str, kind: str | None = None) -> Call:
    """Return `GET /venues/{id}/instruments` (4.5); without `kind` for spot and future."""
    query = () if kind is None else _sendable((("type", kind),))
    path = f"{PREFIX}/venues/{_segment(venue_id)}/instruments"
    return Call("list_instruments", path, query, single=False)


def raw_call(path: str, query: Sequence[tuple[str, str]] = ()) -> Call:
    """Return any path a person types, with or without the prefix; ids in it may be encoded already.

    The operation is `other` where the path is none of the five.
    """
    full = path if path.startswith(f"{PREFIX}/") else f"{PREFIX}/{path.lstrip('/')}"
    if "?" in full or "#" in full:
        raise IdRefused(path, "holds ? or #, which belong to the query")
    segments = full.removeprefix(f"{PREFIX}/").split("/")
    for segment in segments:
        _require_sendable(segment)
    shape = tuple(s if i != 1 else "*" for i, s in enumerate(segments))
    operation = _SHAPES.get(shape, "other")
    return Call(operation, quote(full, safe=_KEPT), _sendable(query), operation in _SINGLE)


def _segment(value: str) -> str:
    _require_sendable(value)
    return quote(value, safe="")


def _ids(ids: Iterable[str]) -> tuple[tuple[str, str], ...]:
    values = tuple(ids)
    for value in values:
        _require_sendable(value)
        if "," in value:
            raise IdRefused(value, "holds a comma, which separates ids in a list")
    return (("id", ",".join(values)),) if values else ()


def _sendable(query: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a query, which carry anything that is text, also nothing."""
    for text in itertools.chain.from_iterable(query):
        _require_text(text)
    return tuple(query)


def _include(name: str, *, wanted: bool) -> tuple[tuple[str, str], ...]:
    return (("include", name),) if wanted else ()


def _require_sendable(value: str) -> None:
    """Raise IdRefused for what would be changed, dropped or refused between here and the API."""
    if value in {"", ".", ".."}:
        raise IdRefused(value, "is empty or a path of its own, and is normalised away on the way")
    if len(value) > _LONGEST:
        raise IdRefused(value, f"has {len(value)} characters, more than {_LONGEST}")
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):  # noqa: PLR2004 - C0, DEL and C1
        raise IdRefused(value, "holds control characters")
    _require_text(value)


def _require_text(value: str) -> None:
    if any(0xD800 <= ord(c) <= 0xDFFF for c in value):  # noqa: PLR2004 - the surrogate range
        raise IdRefused(value, "holds half of a surrogate pair")
