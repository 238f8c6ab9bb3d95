"""A request for a page: its path and its parameters, which are checked before anything is read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from urllib.parse import parse_qsl

from warehouse.pages.tables import COLUMNS, LISTINGS, Listing
from warehouse.query.formats import printable

PAGE, FORMATS = "", ("csv", "json")
START, TRACE = "", "trace"
TRACED = ("portfolio_id", "asset_id", "is_custom_asset", "venue_id", "account_name")
BAD_REQUEST, NOT_FOUND = 400, 404
_PATH = re.compile(r"/([a-z_]*)(?:\.(csv|json))?")
_FLAGS = {"true": True, "false": False}
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_LONGEST = 80


class Refused(ValueError):
    """A request that has no answer. The message says why, and `status` is its HTTP status."""

    def __init__(self, message: str, status: int = BAD_REQUEST) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A path with its parameters. `values` has the parsed values, and `texts` the text as sent."""

    page: str
    format: str
    values: Mapping[str, object]
    texts: Mapping[str, str]

    @property
    def listing(self) -> Listing:
        """The table of the page."""
        return LISTINGS[self.page]


def parse(path: str, query: str) -> PageRequest:
    """Parse a request. Raises `Refused` if the page or a parameter does not exist."""
    match = _PATH.fullmatch(path)
    page, format_ = match.groups(default=PAGE) if match else ("?", PAGE)
    if page not in LISTINGS and (page not in (START, TRACE) or format_):
        raise Refused(f"The page {_quote(path)} does not exist. The start page is /.", NOT_FOUND)
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict")
    except ValueError:
        raise Refused("The parameters are not valid UTF-8. Open the start page.") from None
    texts = dict(pairs)
    allowed, required = _parameters(page, is_page=not format_)
    for parameter in texts:
        if parameter not in allowed:
            raise Refused(
                f"/{page} has no parameter {_quote(parameter)}. It has: "
                f"{', '.join(allowed) or 'none'}."
            )
    if len(texts) < len(pairs):
        raise Refused("A parameter is given twice. Give each parameter once.")
    if missing := [parameter for parameter in required if not texts.get(parameter)]:
        raise Refused(
            f"/{page} needs the parameter {' and '.join(missing)}. Add it to the address."
        )
    values = {parameter: _value(page, parameter, text) for parameter, text in texts.items()}
    return PageRequest(page, format_, values, texts)


def _parameters(page: str, *, is_page: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of all parameters of a page, and of those that it needs."""
    if page == START:
        return (), ()
    if page == TRACE:
        return (*TRACED, "as_of"), TRACED[:3]
    listing = LISTINGS[page]
    named = {"$day": "as_of", "$since": "since", "$q": "q"}
    bound = [name for mark, name in named.items() if mark in listing.query]
    paging = ("page",) if is_page else ()
    required = (*listing.required, *(name for name in bound if name == "q"))
    return (*listing.filters, *bound, "sort", "order", *paging), required


def _value(page: str, parameter: str, text: str) -> object:
    """Parse the value of a parameter. Raises `Refused` if it is not valid."""
    if parameter == "is_custom_asset":
        return _choice(parameter, text, tuple(_FLAGS)) and _FLAGS[text]
    if parameter == "order":
        return _choice(parameter, text, ("asc", "desc"))
    if parameter == "sort":
        listing = LISTINGS[page]
        sorts = dict.fromkeys(COLUMNS[each].sort for each in (*listing.columns, *listing.valued))
        return _choice(parameter, text, tuple(sorts))
    if parameter in ("as_of", "since", "snapshot_date"):
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise Refused(
                f"{parameter} {_quote(text)} is not a valid date. Write it as YYYY-MM-DD, for "
                "example 2026-11-20."
            ) from None
    if parameter == "page":
        if not _NUMBER.fullmatch(text):
            raise Refused(f"page {_quote(text)} is not a page number. Write it as 1, 2 or 3.")
        return int(text)
    return text


def _choice(parameter: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise Refused(f"{parameter} {_quote(text)} is not one of {', '.join(choices)}.")
    return text


def _quote(text: str) -> str:
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"'{printable(cut)}'"
