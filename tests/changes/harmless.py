"""Lasting changes of the API that lose nothing: each may ask a person at most once.

Each is a change that a beta may make to its answers over a year. The name describes the change,
and the docstring gives its cause or details.
"""

from collections.abc import Callable
from typing import Any

from tests.changes.api import ASSETS, TIMES, VENUES, Answers, Change

CHANGES: dict[str, Change] = {}


def change(made: Change) -> Change:
    """Register a change under the name of its function."""
    CHANGES[made.__name__.replace("_", " ")] = made
    return made


def first(answers: Answers) -> Any:
    """Return the first account of the first position."""
    return answers.portfolios[0]["positions"][0]["accounts"][0]


def of_each(name: str, alter: Callable[[Answers, Any], None], which: str = "accounts") -> None:
    """Register a change of every record. `which` names the records in the answers."""

    def made(answers: Answers) -> None:
        records = getattr(answers, which)
        for record in list(records() if callable(records) else records):
            alter(answers, record)

    CHANGES[name] = made


def kind(name: str, value: Any) -> None:
    """Register a change that adds an undocumented balance kind to one account."""

    def made(answers: Answers) -> None:
        first(answers)["balance"]["invented"] = value(answers) if callable(value) else value

    CHANGES[name] = made


def envelope(name: str, *, only: str = "", **more: Any) -> None:
    """Register a change next to the records: in `meta`, the envelope or the headers."""

    def made(answers: Answers) -> None:
        answers.only = only
        for place, value in more.items():
            setattr(answers, place, value(answers) if callable(value) else value)

    CHANGES[name] = made


# Balances that differ from the documentation.


def _locked(value: Any) -> Change:
    def made(answers: Answers) -> None:
        for account in answers.accounts():
            account["balance"]["trading"] = {"free": account["balance"]["trading"]["free"]} | value

    return made


CHANGES["locked is missing"] = _locked({})
CHANGES["locked is null"] = _locked({"locked": None})
CHANGES["locked is empty"] = _locked({"locked": ""})


@change
def the_balance_of_an_idle_account_is_null(answers: Answers) -> None:
    """Add a new account that has no balance yet."""
    account = {"venueId": VENUES[0], "name": "idle", "balance": None}
    answers.portfolios[0]["positions"][0]["accounts"].append(account)


@change
def the_accounts_of_a_watched_asset_are_null(answers: Answers) -> None:
    """Add an asset that is only watched."""
    position = {"assetId": "WATCH", "isCustomAsset": False, "accounts": None}
    answers.portfolios[0]["positions"].append(position)


@change
def a_position_without_accounts(answers: Answers) -> None:
    """Add a position in which the key is left out, because there are no accounts."""
    answers.portfolios[0]["positions"].append({"assetId": "WATCH", "isCustomAsset": False})


@change
def a_name_is_null(answers: Answers) -> None:
    """Remove the name of one portfolio."""
    answers.portfolios[1]["name"] = None


@change
def all_names_are_null(answers: Answers) -> None:
    """Remove the names, which moved to another service."""
    for portfolio in answers.portfolios:
        portfolio["name"] = None


@change
def an_empty_portfolio_without_positions(answers: Answers) -> None:
    """Add a new portfolio that has no content yet."""
    answers.portfolios.append({"id": "new", "resource": "portfolio", "name": "New", **TIMES})


@change
def an_empty_portfolio_with_null_positions(answers: Answers) -> None:
    """Add a new portfolio that has no content yet."""
    new = {"id": "new", "resource": "portfolio", "name": "New", "positions": None, **TIMES}
    answers.portfolios.append(new)


@change
def a_null_in_the_list_of_accounts(answers: Answers) -> None:
    """Leave a null in the list, as a deleted record may do."""
    answers.portfolios[0]["positions"][0]["accounts"].append(None)


@change
def a_null_in_the_list_of_positions(answers: Answers) -> None:
    """Leave a null in the list, as a deleted record may do."""
    answers.portfolios[0]["positions"].append(None)


@change
def a_null_in_the_list_of_portfolios(answers: Answers) -> None:
    """Leave a null in the list, as a deleted record may do."""
    answers.portfolios.append(None)


kind("a new kind with amounts and a null", {"free": "1", "rate": None})
kind("a new kind with a timestamp", {"free": "1", "since": "2026-11-01T00:00:00Z"})
kind("a new kind with an asset's name", {"free": "1", "asset": "BTC"})
kind("a new kind as a list of objects", [{"amount": "1", "id": "a"}])
kind("a new kind by date", lambda a: {f"2026-12-{a.number:02}": {"amount": "1", "rate": None}})
kind("a new kind by loan", lambda a: {f"loan-{a.number + n}": {"x": None} for n in range(3)})
kind("a new kind with a number of days", {"free": "1", "days": 30})
kind("a new kind of amounts alone", {"free": "1", "locked": "2"})
kind("a new kind that is empty", {})
kind("a new kind that is null", None)
kind("a new kind that is a flag", True)
kind("a new kind that is a text", "none")
kind("a new kind that is a number", lambda a: 7 + a.number)
of_each("a version in every balance", lambda _, one: one["balance"].update(version=3))
of_each("a time in every balance", lambda a, one: one["balance"].update(asOf=f"night {a.number}"))
of_each("a new state of a known kind", lambda _, one: one["balance"]["trading"].update(pending="0"))
of_each(
    "a known kind renamed",
    lambda _, one: one["balance"].update(vault=one["balance"].pop("custody")),
)
of_each("a number in a known kind", lambda _, one: one["balance"]["custody"].update(apy=0.5))


# Formats of amounts and times.


def _written(write: Callable[[str], str]) -> Callable[[Answers, Any], None]:
    def made(_: Answers, part: Any) -> None:
        part.update({name: write(text) for name, text in part.items()})

    return made


of_each("amounts with trailing zeros", _written(lambda t: f"{t}00" if "." in t else t), "parts")
of_each("amounts with an exponent", _written(lambda text: f"{text}e0"), "parts")
of_each("amounts with a sign", _written(lambda text: f"+{text}"), "parts")
of_each(
    "amounts of twenty decimals",
    _written(lambda text: f"{text}{'0' * 17}1" if "." in text else text),
    "parts",
)
of_each(
    "times with an offset",
    lambda _, one: one.update(updatedAt="2026-11-01T02:00:00+02:00"),
    "portfolios",
)
of_each(
    "times with nanoseconds",
    lambda _, one: one.update(updatedAt="2026-11-01T00:00:00.123456789Z"),
    "portfolios",
)
of_each("times as numbers", lambda _, one: one.update(updatedAt=1793491200), "portfolios")
of_each("times that are null", lambda _, one: one.update(updatedAt=None), "venues")
of_each("times that are gone", lambda _, one: one.pop("createdAt"), "venues")


# Unknown fields and values.

of_each("a note of every account", lambda a, one: one.update(note=f"n{a.number}"))
of_each("tags of every portfolio", lambda _, one: one.update(tags=["a", "b"]), "portfolios")
of_each("a new word for the resource", lambda _, one: one.update(resource="fund"), "portfolios")
of_each("a new type of venue", lambda _, one: one.update(type=["exchange", "dex"]), "venues")
of_each("no type of venue", lambda _, one: one.update(type=None), "venues")
of_each("a new trading status", lambda _, one: one.update(tradingStatus="maintenance"), "venues")
of_each("integrations are left out", lambda _, one: one.pop("integrations"), "portfolios")
of_each(
    "integrations of a new status",
    lambda _, one: one.update(
        integrations=[{"id": "i", "venueId": VENUES[0], "integrationStatus": "paused"}]
    ),
    "portfolios",
)


@change
def instruments_of_a_new_type(answers: Answers) -> None:
    """Add options to the existing instruments."""
    for venue, instruments in answers.instruments.items():
        new = instruments[0] | {"id": f"{venue}-option", "type": "option"}
        instruments.append(new)


@change
def instruments_without_a_feed(answers: Answers) -> None:
    """Set a required field to null in all instruments."""
    for instruments in answers.instruments.values():
        for instrument in instruments:
            instrument["feedId"] = None


# Copies, order, and records that appear and disappear.


@change
def an_unknown_field_that_differs_between_two_copies_of_a_portfolio(answers: Answers) -> None:
    """List a portfolio twice, as read from two replicas."""
    copy = answers.portfolios[3]
    answers.portfolios[3] = copy | {"replica": 1}
    answers.portfolios.append(copy | {"replica": 2})


@change
def a_portfolio_that_is_listed_twice(answers: Answers) -> None:
    """List an identical copy of a portfolio."""
    answers.portfolios.append(answers.portfolios[0])


@change
def a_venue_that_is_listed_twice_and_differs(answers: Answers) -> None:
    """List a copy of a venue with a different name."""
    answers.venues.append(answers.venues[0] | {"displayName": "Other"})


@change
def everything_the_other_way_round(answers: Answers) -> None:
    """Reverse all lists, because the API promises no order."""
    answers.portfolios.reverse()
    answers.venues.reverse()
    for position in answers.positions():
        position["accounts"].reverse()


@change
def an_account_for_each_strategy(answers: Answers) -> None:
    """Add two empty accounts, one for each strategy, next to every account."""
    for position in answers.positions():
        more = [
            {"venueId": one["venueId"], "name": f"{one['name']}/{name}", "balance": {}}
            for one in position["accounts"]
            for name in ("a", "b")
        ]
        position["accounts"] += more


@change
def two_of_twelve_venues_without_instruments(answers: Answers) -> None:
    """Return an empty list of instruments with status 200 for two venues."""
    for venue in VENUES[:2]:
        answers.instruments[venue] = []


@change
def two_of_twelve_venues_that_fail(answers: Answers) -> None:
    """Return an error for the instruments of two venues, from now on."""
    answers.failed.update(VENUES[:2])


@change
def twice_as_many_instruments(answers: Answers) -> None:
    """Add pairs against the euro to each venue."""
    for instruments in answers.instruments.values():
        instruments += [one | {"id": f"{one['id']}-eur", "termAsset": "EUR"} for one in instruments]


@change
def a_new_portfolio_with_new_assets(answers: Answers) -> None:
    """Add a portfolio that is as large as the others."""
    positions = [one | {"assetId": f"N{one['assetId']}"} for one in answers.positions()][:6]
    answers.portfolios.append(answers.portfolios[0] | {"id": "new", "positions": positions})


@change
def a_portfolio_that_was_closed(answers: Answers) -> None:
    """Remove a portfolio with its money, which a person confirms once."""
    answers.portfolios.pop()


@change
def new_ids_of_all_portfolios(answers: Answers) -> None:
    """Replace the IDs of all portfolios."""
    for portfolio in answers.portfolios:
        portfolio["id"] = f"pf-{portfolio['id'][-4:]}"


@change
def new_ids_of_all_venues(answers: Answers) -> None:
    """Replace the IDs of all venues, in accounts and in lists."""
    for venue in answers.venues:
        venue["id"] = f"v-{venue['id']}"
    for account in answers.accounts():
        account["venueId"] = f"v-{account['venueId']}"
    answers.instruments = {f"v-{name}": some for name, some in answers.instruments.items()}


@change
def new_names_of_all_assets(answers: Answers) -> None:
    """Add the chain in front of every asset ID."""
    for position in answers.positions():
        position["assetId"] = f"main:{position['assetId']}"


@change
def a_venue_that_was_left(answers: Answers) -> None:
    """Move all accounts of one venue to a different venue."""
    for account in answers.accounts(VENUES[0]):
        account["venueId"] = VENUES[6]
        account["name"] += " moved"


# A single asset is not a slice of the book.


@change
def the_last_unit_is_sold(answers: Answers) -> None:
    """Remove an asset from all portfolios."""
    for portfolio in answers.portfolios:
        portfolio["positions"] = [
            one for one in portfolio["positions"] if one["assetId"] != ASSETS[0]
        ]


@change
def a_sign_that_turns(answers: Answers) -> None:
    """Change an asset from owned to owed."""
    for account in answers.accounts(asset=ASSETS[1]):
        account["balance"]["trading"]["free"] = "-90000"


@change
def a_cash_sweep(answers: Answers) -> None:
    """Move the cash of all accounts into one account."""
    accounts = list(answers.accounts(asset="EUR"))
    for account in accounts[1:]:
        account["balance"] = {"trading": {"free": "0", "locked": "0"}}
    accounts[0]["balance"]["trading"]["free"] = "9000"


@change
def dust_that_is_replaced_by_other_dust(answers: Answers) -> None:
    """Replace an almost worthless asset with a new one every night."""
    for position in answers.positions():
        if position["assetId"] == "DOGE":
            position["assetId"] = f"DUST{answers.number}"


@change
def one_asset_is_bought_en_masse(answers: Answers) -> None:
    """Raise the free amount of an asset in each account to a million."""
    for account in answers.accounts(asset="SOL"):
        account["balance"]["trading"]["free"] = "1e6"


# Changes next to the records.

envelope("a count of requests in meta", meta=lambda a: {"requestCount": 17 + a.number})
envelope("a rate limit in meta", meta={"rateLimit": {"limit": 100, "remaining": 42}})
envelope("how long it took in meta", meta=lambda a: {"totalTimeMs": 12 + a.number})
envelope("a cursor in meta that never leads anywhere", meta=lambda a: {"cursor": f"c{a.number}"})
envelope("a next review in meta", meta=lambda a: {"next": f"2026-12-{a.number + 1:02}"})
envelope("a page in meta", meta={"page": 1})
envelope("no next in meta", meta={"next": None, "hasMore": False})
envelope(
    "a total of everything in the account",
    only="list_portfolios",
    meta=lambda a: {"total": 40 + a.number},
)
envelope("an id of every answer", envelope=lambda a: {"requestId": f"r{a.number}"})
envelope("links to itself", envelope={"links": {"self": "/edge/v1beta/portfolios"}})
envelope("a notice in the envelope", envelope=lambda a: {"notice": f"maintenance on {a.number}"})
envelope("warnings that are about nothing", envelope={"warnings": ["v1beta ends next year"]})
envelope("a header of pages", headers={"X-Total-Pages": "2"})
