"""Slices of a book that vanish or change their scale, by name: no such night is accepted.

What cannot be read, and answers that say that they are not whole, are in `tests.changes.losing`.
"""

from decimal import Decimal

from tests.changes.api import VENUES, Answers, Change

CHANGES: dict[str, Change] = {}


def change(made: Change) -> Change:
    """Name a change by its function."""
    CHANGES[made.__name__.replace("_", " ")] = made
    return made


def scaled(name: str, factor: str, venue: str = "", portfolio: int | None = None) -> None:
    """Every amount, or those of a venue or a portfolio, in another unit."""

    def made(answers: Answers) -> None:
        if portfolio is not None:
            answers = Answers(portfolios=[answers.portfolios[portfolio]])
        for account in answers.accounts(venue):
            for part in account["balance"].values():
                for state, text in part.items():
                    part[state] = str(Decimal(text) * Decimal(factor))

    CHANGES[name] = made


# Slices that are gone.


@change
def no_portfolios(answers: Answers) -> None:
    """What the API answers to a key that sees nothing."""
    answers.portfolios.clear()


@change
def one_portfolio_is_missing(answers: Answers) -> None:
    """Access to it was taken away."""
    answers.portfolios.pop(1)


@change
def one_portfolio_of_four_is_left(answers: Answers) -> None:
    """The first page, and no word of others."""
    del answers.portfolios[1:]


@change
def no_positions_in_any_portfolio(answers: Answers) -> None:
    """The service behind it was away."""
    for portfolio in answers.portfolios:
        portfolio["positions"] = []


@change
def no_positions_in_one_portfolio(answers: Answers) -> None:
    """The same, for one."""
    answers.portfolios[2]["positions"] = []


@change
def no_accounts_in_one_portfolio(answers: Answers) -> None:
    """Its positions are there, and empty."""
    for position in answers.portfolios[2]["positions"]:
        position["accounts"] = []


@change
def nothing_but_zeros_in_one_portfolio(answers: Answers) -> None:
    """The shape is whole."""
    for position in answers.portfolios[2]["positions"]:
        for account in position["accounts"]:
            account["balance"] = {"trading": {"free": "0", "locked": "0"}}


def _without_venue(answers: Answers, venues: set[str]) -> None:
    for position in answers.positions():
        position["accounts"] = [one for one in position["accounts"] if one["venueId"] not in venues]


@change
def no_accounts_at_one_venue(answers: Answers) -> None:
    """Its connection was down."""
    _without_venue(answers, {VENUES[3]})


@change
def no_accounts_at_half_of_the_venues(answers: Answers) -> None:
    """A region was down."""
    _without_venue(answers, set(VENUES[::2]))


@change
def nothing_but_zeros_at_one_venue(answers: Answers) -> None:
    """Its connection was down, and told so as zeros."""
    for account in answers.accounts(VENUES[3]):
        account["balance"] = {"trading": {"free": "0", "locked": "0"}}


@change
def empty_balances_at_one_venue(answers: Answers) -> None:
    """Its connection was down, and told so as nothing."""
    for account in answers.accounts(VENUES[3]):
        account["balance"] = {}


@change
def half_of_all_accounts(answers: Answers) -> None:
    """One of two, of every position."""
    for position in answers.positions():
        del position["accounts"][1:]


@change
def half_of_all_assets(answers: Answers) -> None:
    """The longer names are cut off."""
    for portfolio in answers.portfolios:
        portfolio["positions"] = portfolio["positions"][:3]


@change
def a_balance_kind_that_is_gone(answers: Answers) -> None:
    """All that was in custody."""
    for account in answers.accounts():
        del account["balance"]["custody"]


@change
def the_free_amounts_are_gone(answers: Answers) -> None:
    """A required field, left out."""
    for account in answers.accounts():
        del account["balance"]["trading"]["free"]


@change
def no_venues(answers: Answers) -> None:
    """The list is empty."""
    answers.venues.clear()
    answers.instruments.clear()


@change
def half_of_the_venues(answers: Answers) -> None:
    """A page of them."""
    del answers.venues[6:]
    answers.instruments = {name: answers.instruments[name] for name in VENUES[:6]}


@change
def the_instruments_of_three_venues_fail(answers: Answers) -> None:
    """A quarter of the venues."""
    answers.failed.update(VENUES[:3])


# Amounts of another scale.

scaled("every amount a thousandfold", "1000")
scaled("every amount a thousandth", "0.001")
scaled("every amount tenfold", "10")
scaled("every amount halved", "0.5")
scaled("every amount doubled", "2")
scaled("every sign turned", "-1")
scaled("one venue a thousandfold", "1000", VENUES[2])
scaled("one venue in wei", "1000000000000000000", VENUES[2])
scaled("one venue a hundredth", "0.01", VENUES[2])
scaled("one portfolio a thousandfold", "1000", portfolio=1)
scaled("one portfolio in cents", "100", portfolio=1)
scaled("one portfolio a millionth", "0.000001", portfolio=1)


@change
def every_account_twice(answers: Answers) -> None:
    """A join that went wrong."""
    for position in answers.positions():
        position["accounts"] += position["accounts"]


@change
def one_account_twice(answers: Answers) -> None:
    """The same bytes once more in the same list."""
    accounts = next(answers.positions())["accounts"]
    accounts.append(accounts[0])


@change
def one_account_twice_in_another_notation(answers: Answers) -> None:
    """The same amounts with more zeros, and the members in another order."""
    accounts = next(answers.positions())["accounts"]
    balance = {
        bucket: {state: f"{text}.00" if "." not in text else f"{text}0" for state, text in part}
        for bucket, part in (
            (bucket, sorted(part.items(), reverse=True))
            for bucket, part in reversed(accounts[0]["balance"].items())
        )
    }
    accounts.append({**accounts[0], "balance": balance})


@change
def one_asset_twice(answers: Answers) -> None:
    """A whole position once more in its portfolio."""
    positions = answers.portfolios[0]["positions"]
    positions.append(positions[0])


# Amounts that stand where nobody looks.


@change
def balances_under_another_name(answers: Answers) -> None:
    """The old object stays, empty."""
    for account in answers.accounts():
        account["balances"], account["balance"] = account["balance"], {}


@change
def amounts_that_are_null(answers: Answers) -> None:
    """All of them."""
    for part in answers.parts():
        part.update(dict.fromkeys(part))


@change
def positions_under_another_name(answers: Answers) -> None:
    """The old list stays, empty."""
    for portfolio in answers.portfolios:
        portfolio["holdings"], portfolio["positions"] = portfolio["positions"], []


@change
def accounts_in_groups(answers: Answers) -> None:
    """A level more, and the old list is empty."""
    for position in answers.positions():
        position["groups"], position["accounts"] = [{"accounts": position["accounts"]}], []
