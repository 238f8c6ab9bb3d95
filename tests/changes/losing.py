"""Changes of the API that hide or lose money, or that show that a list is incomplete, by name.

Each one alters the answers of one night (`tests.changes.api.Answers`) after ordinary nights. None
of these nights may be accepted, so no money is missing without a message.
"""

from collections.abc import Callable, Iterator
from typing import Any

Answers = Any
Change = Callable[[Answers], None]


def _accounts(answers: Answers) -> Iterator[Any]:
    for portfolio in answers.portfolios:
        for position in portfolio["positions"]:
            yield from position["accounts"]


def _balances(alter: Callable[[Any], object]) -> Change:
    """Return a change that alters every balance."""

    def change(answers: Answers) -> None:
        for account in _accounts(answers):
            alter(account["balance"])

    return change


def _one_balance(alter: Callable[[Any], object]) -> Change:
    """Return a change that alters the first balance."""

    def change(answers: Answers) -> None:
        alter(next(_accounts(answers))["balance"])

    return change


def _meta(only: str = "", **members: Any) -> Change:
    """Return a change that sets members of `meta`, in every answer or in those of one operation."""

    def change(answers: Answers) -> None:
        answers.meta, answers.only = members, only

    return change


def _beside(only: str = "", **members: Any) -> Change:
    """Return a change that adds members next to `data`."""

    def change(answers: Answers) -> None:
        answers.envelope, answers.only = members, only

    return change


def _headers(only: str = "", **headers: str) -> Change:
    """Return a change that sets headers. An underscore in a name becomes a hyphen."""

    def change(answers: Answers) -> None:
        answers.headers = {name.replace("_", "-"): text for name, text in headers.items()}
        answers.only = only

    return change


def _half(answers: Answers) -> None:
    """Keep the first half of the portfolios, with the total of all of them in `meta`."""
    whole = len(answers.portfolios)
    answers.portfolios = answers.portfolios[: whole // 2]
    answers.meta, answers.only = {"total": whole}, LIST


def _portfolios(alter: Callable[[Any], object]) -> Change:
    """Return a change that alters the first portfolio."""

    def change(answers: Answers) -> None:
        alter(answers.portfolios[0])

    return change


def _positions(alter: Callable[[Any], object]) -> Change:
    """Return a change that alters the first position."""

    def change(answers: Answers) -> None:
        alter(answers.portfolios[0]["positions"][0])

    return change


def _account(alter: Callable[[Any], object]) -> Change:
    """Return a change that alters the first account."""

    def change(answers: Answers) -> None:
        alter(next(_accounts(answers)))

    return change


def _twice_unlike(answers: Answers) -> None:
    """List a portfolio twice, with different positions."""
    first = answers.portfolios[0]
    answers.portfolios.append({**first, "positions": first["positions"][1:]})


def _moved_out(answers: Answers) -> None:
    """Move the accounts of a portfolio to a field with a different name."""
    for position in answers.portfolios[0]["positions"]:
        position["holdings"] = position.pop("accounts")


LIST = "list_portfolios"
MONEY: dict[str, Change] = {
    # Amounts that are not valid amount strings, so no row contains them.
    "a loan that is a number": _balances(lambda one: one.update(loan=4000000)),
    "one loan that is a number": _one_balance(lambda one: one.update(loan=4000000)),
    "a loan with separators": _balances(lambda one: one.update(loan="4,000,000.00")),
    "a loan with its unit": _balances(lambda one: one.update(loan="4000000 USD")),
    "a loan of 1,001 digits": _balances(lambda one: one.update(loan="1" * 1001)),
    "a loan in other digits": _balances(lambda one: one.update(loan="٤٠٠٠٠٠٠")),
    "a list of loans": _balances(lambda one: one.update(loans=["4000000", "2"])),
    "a list of objects with amounts": _balances(
        lambda one: one.update(loans=[{"free": "4000000"}])
    ),
    "a number deep in a new kind": _balances(
        lambda one: one.update(invented={"free": "1", "term": {"days30": {"principal": 5}}})
    ),
    "a list deep in a new kind": _balances(
        lambda one: one.update(invented={"free": "1", "term": {"tranches": ["5", "7"]}})
    ),
    "not a number": _balances(lambda one: one.update(invented={"free": "NaN"})),
    "a number in a known part": _balances(lambda one: one["trading"].update(pending=7)),
    "a list in a known part": _balances(lambda one: one["trading"].update(lots=["1", "2"])),
    "a known amount that is a number": _balances(lambda one: one["trading"].update(free=1000.25)),
    "a known amount that is a list": _balances(lambda one: one["trading"].update(free=["1000"])),
    "a known part that is a number": _balances(lambda one: one.update(trading=1000)),
    "a known part that is a list": _balances(lambda one: one.update(trading=[{"free": "1"}])),
    "amounts with a thousands mark": _balances(lambda one: one["trading"].update(free="1_000.25")),
    "amounts with a decimal comma": _balances(lambda one: one["trading"].update(free="1000,25")),
    "amounts in scientific words": _balances(lambda one: one["trading"].update(free="1e999")),
    # Malformed records that contain money.
    "a balance that is a text": _account(lambda one: one.update(balance="1000.25")),
    "a balance that is a list": _account(lambda one: one.update(balance=[{"trading": "1"}])),
    "a balance that is a number": _account(lambda one: one.update(balance=1000.25)),
    "accounts by venue instead of in a list": _positions(
        lambda one: one.update(accounts={"venue01": one["accounts"][0]})
    ),
    "an account without a venue": _account(lambda one: one.pop("venueId")),
    "an account whose name is a number": _account(lambda one: one.update(name=7)),
    "an account that is a text": _positions(lambda one: one["accounts"].append("main: 1000")),
    "a position without an asset": _positions(lambda one: one.pop("assetId")),
    "a position whose asset is an object": _positions(
        lambda one: one.update(assetId={"symbol": "BTC"})
    ),
    "a position that does not say whether it is custom": _positions(
        lambda one: one.pop("isCustomAsset")
    ),
    "positions by asset instead of in a list": _portfolios(
        lambda one: one.update(positions={"BTC": one["positions"][0]})
    ),
    "a portfolio without an id": _portfolios(lambda one: one.pop("id")),
    "a portfolio whose id is a number": _portfolios(lambda one: one.update(id=7)),
    "a portfolio twice, not the same": _twice_unlike,
    "accounts under another name": _moved_out,
    "a portfolio that is gone": lambda answers: answers.portfolios.pop(0),
    "all portfolios gone": lambda answers: answers.portfolios.clear(),
    "all venues gone": lambda answers: answers.venues.clear(),
}
WHOLENESS: dict[str, Change] = {
    "half a list and its total": _half,
    "a next page in meta": _meta(next="/edge/v1beta/portfolios?page=2"),
    "a next page of portfolios alone": _meta(LIST, nextPage=2),
    "a next page of instruments alone": _meta("list_instruments", nextPage=2),
    "a cursor in meta": _meta(pagination={"nextCursor": "bmV4dA=="}),
    "more in meta": _meta(hasMore=True),
    "more in small letters": _meta(hasmore="true"),
    "page one of three": _meta(page=1, pages=3),
    "a page object": _meta(page={"number": 0, "size": 2, "totalPages": 9}),
    "page two": _meta(LIST, page=2),
    "an offset": _meta(LIST, offset=100),
    "a total in meta": _meta(LIST, total=1000),
    "a total that is text": _meta(LIST, totalCount="1000"),
    "links in meta": _meta(links={"self": "/portfolios", "next": "/portfolios?page=2"}),
    "links in a list": _meta(links=[{"rel": "next", "href": "/portfolios?page=2"}]),
    "partial in meta": _meta(partial=True),
    "truncated in meta": _meta(truncated=True),
    "incomplete in words": _meta(message="This answer is incomplete."),
    "a completeness in meta": _meta(completeness=0.93),
    "not complete": _meta(complete=False),
    "warnings in meta": _meta(warnings=[{"code": "SOURCE_TIMED_OUT"}]),
    "errors in meta": _meta(errors=["a source did not answer"]),
    "venues that failed": _meta(failedVenues=["venue03"]),
    "accounts left out": _meta(skippedAccounts=3),
    "a degraded status": _meta(status="degraded"),
    "next beside data": _beside(next="/edge/v1beta/portfolios?page=2"),
    "more beside data": _beside(hasMore=True),
    "links beside data": _beside(links={"next": {"href": "/portfolios?page=2"}}),
    "a total beside data": _beside(LIST, total=1000),
    "partial beside data": _beside(partial=True),
    "truncated beside data": _beside(truncated="yes"),
    "warnings beside data": _beside(warnings=["the list was cut"]),
    "an error beside data": _beside(error={"code": 7}),
    "more records beside data": _beside(LIST, archived=[{"id": "p9", "positions": []}]),
    "a link header": _headers(link='</edge/v1beta/portfolios?page=2>; rel="next"'),
    "a link header with ends": _headers(link='</p?page=1>; rel="first", </p?page=3>; rel="last"'),
    "a content range": _headers(content_range="items 0-3/100"),
    "a content range without an end": _headers(content_range="items 0-3/*"),
    "a total header": _headers(LIST, x_total_count="1000"),
    "a page header": _headers(x_total_pages="3", x_page="1"),
    "a next page header": _headers(x_next_page="2"),
    "a cursor header": _headers(x_next_cursor="abc"),
    "a more header": _headers(x_has_more="true"),
    "a warning header": _headers(warning='199 - "a source did not answer"'),
    "a partial header": _headers(x_partial_result="true"),
}
LOSING: dict[str, Change] = MONEY | WHOLENESS

# Changes that hide nothing: the amounts are in rows and in every total.
ROWS: dict[str, Change] = {
    "a bare loan": _balances(lambda one: one.update(loan="4")),
    "invented": _balances(lambda one: one.update(invented={"free": "4"})),
    "rewards deep in staking": _balances(
        lambda one: one.update(staking={"locked": "0", "rewards": {"pending": "4"}})
    ),
    "margin that is free": _balances(lambda one: one.update(margin={"locked": "0", "free": "4"})),
    "a known part that is a text": _balances(lambda one: one.update(margin="4")),
    "amounts beside a null, a time and a name": _balances(
        lambda one: one.update(
            invented={"free": "4", "since": "2026-11-20T02:15:00Z", "to": None, "asset": "USD"}
        )
    ),
}
