"""Strategies for property tests: documents that the specification allows, and any JSON."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Json = Any
# Short IDs and names from a small set are often equal. The others are any text in UTF-8.
WORDS = st.sampled_from(["a", "A", "BTC", "main", "=1+1", "é", "e\u0301", "🦊", "", " ", "\x00"])
TEXTS = WORDS | st.text(max_size=8)
_DIGITS = "0123456789"


def digits(least: int, most: int) -> SearchStrategy[str]:
    """Generate strings of digits."""
    return st.text(_DIGITS, min_size=least, max_size=most)


@st.composite
def amounts(draw: st.DrawFn) -> str:
    """Generate any text that is a valid amount."""
    whole = draw(digits(0, 3) | digits(17, 24) | digits(0, 40))
    fraction = draw(digits(0, 2) | digits(17, 20) | digits(0, 40))
    point = "." if fraction or draw(st.booleans()) else ""
    if not whole and not fraction:
        whole = "0"
    exponents = st.builds(
        "{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 200)
    )
    exponent = draw(st.just("") | st.just("") | exponents)
    return draw(st.sampled_from(["", "-", "+"])) + whole + point + fraction + exponent


@st.composite
def moments(draw: st.DrawFn) -> str:
    """Generate ISO 8601 date-times with a zone, in every form."""
    local = draw(st.datetimes())
    compact = draw(st.booleans())
    colon = "" if compact else ":"
    day = local.strftime("%Y%m%d").zfill(8) if compact else local.date().isoformat()
    time = f"{local.hour:02}{colon}{local.minute:02}{colon}{local.second:02}"
    fraction = draw(st.just("") | digits(1, 9).map(lambda text: "." + text))
    zone = draw(st.sampled_from(["Z", "z", "+00:00", "-00:00", "+0530", "-08", "+14:00", "-23:59"]))
    edge = local.year in (1, 9999)  # an offset could move the year out of range
    return f"{day}{draw(st.sampled_from('Tt '))}{time}{fraction}{'Z' if edge else zone}"


def _kind(*states: str) -> SearchStrategy[Json]:
    return st.fixed_dictionaries(dict.fromkeys(states, amounts()))


KNOWN = {
    "trading": _kind("free", "locked"),
    "margin": _kind("locked"),
    "staking": _kind("locked"),
    "custody": _kind("free", "locked"),
}
INVENTED = st.dictionaries(WORDS, amounts(), min_size=1, max_size=3)
# The values of unknown fields: any JSON. Balances have no such fields, so they get no amounts.
NEWS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def record(fields: dict[str, SearchStrategy[Json]], **optional: SearchStrategy[Json]) -> Any:
    """Generate an object of the document, with its members in any order."""
    made = st.fixed_dictionaries(fields, optional=optional)
    return made.flatmap(lambda one: st.permutations(list(one.items())).map(dict))


def _more(one: SearchStrategy[Json], *, strange: bool) -> SearchStrategy[Json]:
    if not strange:
        return one
    more: SearchStrategy[Json] = (
        st.just({}) | st.just({}) | NEWS.map(lambda news: {"somethingNew": news})
    )
    return st.tuples(one, more).map(lambda both: {**both[0], **both[1]})


def _balances(*, strange: bool) -> SearchStrategy[Json]:
    invented = {"invented": INVENTED, "bonds": INVENTED} if strange else {}
    return _more(record({}, **KNOWN, **invented), strange=False)


def portfolios(*, strange: bool) -> SearchStrategy[Json]:
    """Generate a list of portfolios. With `strange`, some content is not in the specification."""
    account = record(
        {"venueId": TEXTS, "name": TEXTS, "balance": _balances(strange=strange)},
    )
    position = record(
        {
            "assetId": TEXTS,
            "isCustomAsset": st.booleans(),
            "accounts": st.lists(
                _more(account, strange=strange),
                max_size=3,
                unique_by=None if strange else lambda one: (one["venueId"], one["name"]),
            ),
        }
    )
    status = st.sampled_from(["requested", "verified"])
    integration = record(
        {"id": TEXTS, "venueId": TEXTS, "integrationStatus": status | TEXTS if strange else status}
    )
    portfolio = record(
        {
            "id": TEXTS,
            "resource": st.just("portfolio"),
            "name": TEXTS,
            "positions": st.lists(
                _more(position, strange=strange),
                max_size=3,
                unique_by=None if strange else lambda one: (one["assetId"], one["isCustomAsset"]),
            ),
            "createdAt": moments(),
            "updatedAt": moments(),
        },
        integrations=st.lists(
            _more(integration, strange=strange), max_size=2, unique_by=lambda one: str(one["id"])
        ),
    )
    listed = _more(portfolio, strange=strange)
    return st.lists(listed, max_size=3, unique_by=lambda one: str(one["id"]))


_CONSTRAINTS = (
    *("minBaseQty", "maxBaseQty", "minBaseIncrement", "minTermQty"),
    *("minPrice", "maxPrice", "minTick"),
)


def instruments(*, strange: bool) -> SearchStrategy[Json]:
    """Generate a list of instruments. All have the type `spot`, unless `strange` is set."""
    words = dict.fromkeys(["displayName", "feedId", "venueSymbol", "baseAsset", "termAsset"], TEXTS)
    one = record(
        {
            "id": TEXTS,
            "resource": st.just("instrument"),
            "type": st.sampled_from(["spot", "future"]) | TEXTS if strange else st.just("spot"),
            **words,
            "createdAt": moments(),
            "updatedAt": moments(),
        },
        expiration=moments(),
        tradingConstraints=record({}, **dict.fromkeys(_CONSTRAINTS, amounts())),
    )
    listed = _more(one, strange=strange)
    return st.lists(listed, max_size=3, unique_by=lambda each: str(each["id"]))


def venues(*, strange: bool) -> SearchStrategy[Json]:
    """Generate a list of venues with embedded instruments."""
    kinds = st.sampled_from(["exchange", "otc", "custodian"])
    status = st.sampled_from(["trading", "suspended", "unsupported"])
    embedded = record({"id": TEXTS, "type": st.just("spot"), "displayName": TEXTS})
    one = record(
        {
            "id": TEXTS,
            "resource": st.just("venue"),
            "type": st.lists(kinds | TEXTS if strange else kinds, max_size=3, unique=True),
            "displayName": TEXTS,
            "tradingStatus": status | TEXTS if strange else status,
            "createdAt": moments(),
            "updatedAt": moments(),
        },
        instruments=st.lists(_more(embedded, strange=strange), max_size=2),
    )
    listed = _more(one, strange=strange)
    return st.lists(listed, max_size=3, unique_by=lambda each: str(each["id"]))


# Any JSON text, including numbers of any size, repeated keys and halves of surrogate pairs.
_KEYS = st.sampled_from(
    [
        *("id", "resource", "name", "positions", "integrations", "createdAt", "updatedAt"),
        *("assetId", "isCustomAsset", "accounts", "venueId", "balance", "trading", "invented"),
        *("free", "locked", "custody", "type", "instruments", "displayName", "tradingStatus"),
        *("integrationStatus", "tradingConstraints", "minTick", "new.field", "\\ud800"),
    ]
)
_LEAVES = st.one_of(
    st.sampled_from(
        [
            *("null", "true", "false", "0", "-1", "1.5", "1e999", "9" * 400, "-0.0"),
            *('"1.5"', '"1e-8"', '"1e201"', '"NaN"', '""', '"portfolio"', '"spot"', '"\\ud800"'),
            *('"2024-01-01T00:00:00Z"', '"\\u0000"', '"' + "9" * 2000 + '"', '"x"'),
        ]
    ),
    amounts().map(json.dumps),
    TEXTS.map(json.dumps),
)


def _object(members: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{key}":{value}' for key, value in members) + "}"


def _list(elements: list[str]) -> str:
    return "[" + ",".join(elements) + "]"


ANYTHING = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(_list)
        | st.lists(st.tuples(_KEYS, inner), max_size=5).map(_object)
    ),
    max_leaves=12,
)


@st.composite
def broken(draw: st.DrawFn, whole: SearchStrategy[Json]) -> str:
    """Generate the JSON of a document with one to three parts replaced, deleted or repeated."""
    tree = draw(whole)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(tree))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        action = draw(st.sampled_from(["anything", "gone", "null", "twice"]))
        if action == "gone":
            del holder[key]
        elif action == "twice" and isinstance(holder, list):
            holder.append(holder[key])
        else:
            holder[key] = None if action == "null" else _Text(draw(ANYTHING))
    return _printed(tree)


class _Text(str):
    """JSON text that is printed unchanged."""

    __slots__ = ()


def _places(tree: Json) -> Any:
    members = list(tree.items()) if isinstance(tree, dict) else []
    members += list(enumerate(tree)) if isinstance(tree, list) else []
    for key, member in members:
        yield tree, key
        yield from _places(member)


def _printed(tree: Json) -> str:
    if isinstance(tree, _Text):
        return str(tree)
    if isinstance(tree, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_printed(v)}" for k, v in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(_printed, tree)) + "]"
    return json.dumps(tree)
