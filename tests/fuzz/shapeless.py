"""Seeded documents of any shape: valid records of the API with any number of defects.

The JSON is written as text, because JSON libraries do not write many of the defects: repeated keys,
halves of surrogate pairs, NaN, numbers of any length, and bytes that are not UTF-8.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

Json = Any


class Verbatim(str):
    """Text that is copied into the document unchanged, even if it is not JSON."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object whose keys may occur more than once, in any order."""


MOMENTS = ("2024-05-06T07:08:09.123Z", "2024-05-06T07:08:09.123456789+05:30", "0001-01-01T00:00Z")
AMOUNTS = ("0", "1.5", "-0", ".5", "1e-8", "0.000000000000000000001", "9" * 40, "1" + "0" * 21)
NO_AMOUNTS = ("", "NaN", " 1", "1_000", "\u0661", "1e999", "0x1", "--1", "\u2212" + "1")
WORDS = ("", "null", '"null"', "a", "BTC", "\x00", "\u2028", "e\u0301", "🦊", "\ufeff", "x" * 300)
STRANGE = (
    *(
        "null",
        "null",
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "1.0",
        "1e5",
        "1E400",
        "-1e-400",
        "9" * 400,
    ),
    *("0." + "1" * 400, '""', '"null"', '"\\u0000"', '"\\ud83e\\udd8a"', '"\\/"', "[]", "[[]]"),
    *("[null]", "[1]", '["a",null]', "[{}]", "[{},1]", "{}", '{"":null}', '{"free":null}'),
    *('{"a":{"a":{"a":[]}}}', '{"free":"1","free":"2"}', '{"free":"1","locked":"2","odd":"3"}'),
)
NO_JSON = (
    *("NaN", "Infinity", "-Infinity", "nul", "tru", "01", "+1", ".5", "0x1", "", "//", "/**/1"),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\x"', '"\t"', '"unended ', '{"id":"x"}{"id":"y"}'),
    *("\\", "]", "}", "{", "[", ",", ":", '"a":1', "'a'"),
)


def _deep(rng: Random) -> Verbatim:
    depth = rng.choice((2, 20, 63, 64, 65, 127, 129, 500, 990, 1010, 3000))
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    return Verbatim(opening * depth + rng.choice(("1", '"x"', "null", "[]")) + closing * depth)


def _amount(rng: Random) -> str:
    if rng.random() < 0.8:
        return str(rng.randrange(10**6) / 1000)
    return rng.choice(AMOUNTS if rng.random() < 0.97 else NO_AMOUNTS)


def _moment(rng: Random) -> str:
    return rng.choice(MOMENTS)


def _word(rng: Random) -> str:
    return rng.choice(WORDS) if rng.random() < 0.1 else f"w{rng.randrange(10**4)}"


def _some(rng: Random, make: Callable[[Random], Json], most: int) -> list[Json]:
    return [make(rng) for _ in range(rng.randrange(most + 1))]


def _balance(rng: Random) -> Pairs:
    kinds = {
        "trading": ("free", "locked"),
        "margin": ("locked",),
        "staking": ("locked",),
        "custody": ("free", "locked"),
    }
    if rng.random() < 0.05:
        kinds["invented"] = ("free", "kept")
    return Pairs(
        (kind, Pairs((state, _amount(rng)) for state in states))
        for kind, states in kinds.items()
        if rng.random() < 0.6
    )


def _account(rng: Random) -> Pairs:
    return Pairs([("venueId", _word(rng)), ("name", _word(rng)), ("balance", _balance(rng))])


def _position(rng: Random) -> Pairs:
    custom = rng.random() < 0.5
    accounts = _some(rng, _account, 3)
    return Pairs([("assetId", _word(rng)), ("isCustomAsset", custom), ("accounts", accounts)])


def _integration(rng: Random) -> Pairs:
    status = rng.choice(("requested", "verified", "paused"))
    return Pairs([("id", _word(rng)), ("venueId", _word(rng)), ("integrationStatus", status)])


def _times(rng: Random) -> list[tuple[str, str]]:
    return [("createdAt", _moment(rng)), ("updatedAt", _moment(rng))]


def portfolio(rng: Random) -> Pairs:
    """Make a portfolio (2.1)."""
    made = Pairs([("id", _word(rng)), ("resource", "portfolio"), ("name", _word(rng))])
    if rng.random() < 0.8:
        made.append(("integrations", _some(rng, _integration, 2)))
    made.append(("positions", _some(rng, _position, 3)))
    return Pairs([*made, *_times(rng)])


def venue(rng: Random) -> Pairs:
    """Make a venue (2.6)."""
    made = Pairs([("id", _word(rng)), ("resource", "venue")])
    made.append(("type", [rng.choice(("exchange", "otc", "dex")) for _ in range(rng.randrange(3))]))
    made += [("displayName", _word(rng)), ("tradingStatus", rng.choice(("trading", "resting")))]
    if rng.random() < 0.7:
        made.append(("instruments", _some(rng, _embedded, 3)))
    return Pairs([*made, *_times(rng)])


def _embedded(rng: Random) -> Pairs:
    return Pairs([("id", _word(rng)), ("type", "spot"), ("displayName", _word(rng))])


def instrument(rng: Random) -> Pairs:
    """Make an instrument (2.8)."""
    made = Pairs([("id", _word(rng)), ("resource", "instrument"), ("type", "spot")])
    names = ("displayName", "feedId", "venueSymbol", "baseAsset", "termAsset")
    made += [(name, _word(rng)) for name in names]
    if rng.random() < 0.7:
        limits = ("minBaseQty", "maxPrice", "minTick")
        chosen = [(name, _amount(rng)) for name in limits if rng.random() < 0.6]
        made.append(("tradingConstraints", Pairs(chosen)))
    if rng.random() < 0.3:
        made.append(("expiration", _moment(rng)))
    return Pairs([*made, *_times(rng)])


def _containers(value: Json) -> list[Json]:
    found: list[Json] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Pairs):
            found.append(one)
            waiting += [inner for _, inner in one]
        elif isinstance(one, list):
            found.append(one)
            waiting += one
    return found


def _strange(rng: Random) -> Json:
    chance = rng.random()
    if chance < 0.1:
        return _deep(rng)
    if chance < 0.2:
        return rng.choice((*AMOUNTS, *NO_AMOUNTS, *WORDS))
    return Verbatim(rng.choice(NO_JSON if chance < 0.25 else STRANGE))


def _to_object(rng: Random, into: Pairs) -> None:
    if not into or rng.random() < 0.2:
        into.append((rng.choice(("new", "free", "", "id", "nul\\l")), _strange(rng)))
        return
    at = rng.randrange(len(into))
    name, value = into[at]
    match rng.randrange(6):
        case 0:
            del into[at]
        case 1:
            into.append((name, rng.choice((value, _strange(rng)))))
        case 2:
            into[at] = (rng.choice((name.upper(), name + " ", "null", "")), value)
        case 3:
            rng.shuffle(into)
        case _:
            into[at] = (name, _strange(rng))


def _to_list(rng: Random, into: list[Json]) -> None:
    match rng.randrange(3):
        case 0 if into:
            into[rng.randrange(len(into))] = _strange(rng)
        case 1 if into:
            into.append(rng.choice(into))
        case _:
            into.insert(rng.randrange(len(into) + 1), _strange(rng))


def _put_wrong(rng: Random, records: list[Json]) -> None:
    into = rng.choice(_containers(records))
    if isinstance(into, Pairs):
        _to_object(rng, into)
    else:
        _to_list(rng, into)


def _space(rng: Random) -> str:
    return rng.choice(("", "", "", "", " ", "\n", "\r\n", "\t", "\n\n"))


def _quoted(rng: Random, text: str) -> str:
    return json.dumps(text, ensure_ascii=rng.random() < 0.5)


def written(rng: Random, value: Json) -> str:
    """Return a value as JSON text, with white space in places that JSON allows."""
    if isinstance(value, Pairs):
        members = (f"{_quoted(rng, name)}:{written(rng, inner)}" for name, inner in value)
        return f"{{{_space(rng)}{f',{_space(rng)}'.join(members)}{_space(rng)}}}"
    if isinstance(value, list):
        return f"[{f'{_space(rng)},'.join(written(rng, one) for one in value)}]"
    if isinstance(value, Verbatim):
        return str(value)
    return _quoted(rng, value) if isinstance(value, str) else json.dumps(value)


def _bytes_wrong(rng: Random, body: bytes) -> bytes:
    at = rng.randrange(len(body) + 1)
    news = rng.choice((b"", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\x00", b"\n", b'"', b"null"))
    return body[:at] + news + body[at + rng.randrange(3) :]


def records(rng: Random, make: Callable[[Random], Pairs]) -> list[bytes]:
    """Make records of one kind with zero, one or many defects."""
    made: list[Json] = [make(rng) for _ in range(rng.choice((0, 1, 1, 2, 3, 4, 5, 40)))]
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3, 10))):
        _put_wrong(rng, made)
    texts = [written(rng, one).encode("utf-8", "surrogatepass") for one in made]
    if texts and rng.random() < 0.15:
        at = rng.randrange(len(texts))
        texts[at] = _bytes_wrong(rng, texts[at])
    return texts
