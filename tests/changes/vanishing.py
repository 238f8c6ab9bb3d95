"""Slices of a book that vanish or change their scale, by name: no such night is accepted.

Unreadable values and answers that show that they are incomplete are in `tests.changes.losing`.
"""

from decimal import Decimal

from tests.changes.api import VENUES, Answers, Change

CHANGES: dict[str, Change] = {}


def change(made: Change) -> Change:
    """Register a change under the name of its function."""
    CHANGES[made.__name__.replace("_", " ")] = made
    return made


def scaled(name: str, factor: str, venue: str = "", portfolio: int | None = None) -> None:
    """Register a change of the unit of every amount, or of those of a venue or a portfolio."""

    def made(answers: Answers) -> None:
        if portfolio is not None:
            answers = Answers(portfolios=[answers.portfolios[portfolio]])
        for account in answers.accounts(venue):
            for part in account["balance"].values():
                for state, text in part.items():
                    part[state] = str(Decimal(text) * Decimal(factor))

    CHANGES[name] = made


# Missing slices.


@change
def no_portfolios(answers: Answers) -> None:
    """Return no portfolios, as the API does for a key without access."""
    answers.portfolios.clear()


@change
def one_portfolio_is_missing(answers: Answers) -> None:
    """Remove a portfolio, as the API does if the access to it was removed."""
    answers.portfolios.pop(1)


@change
def one_portfolio_of_four_is_left(answers: Answers) -> None:
    """Return only the first page, without a hint that there are more."""
    del answers.portfolios[1:]


@change
def no_positions_in_any_portfolio(answers: Answers) -> None:
    """Remove all positions, as if the service behind them were down."""
    for portfolio in answers.portfolios:
        portfolio["positions"] = []


@change
def no_positions_in_one_portfolio(answers: Answers) -> None:
    """Remove the positions of one portfolio, as if the service behind them were down."""
    answers.portfolios[2]["positions"] = []


@change
def no_accounts_in_one_portfolio(answers: Answers) -> None:
    """Keep the positions without their accounts."""
    for position in answers.portfolios[2]["positions"]:
        position["accounts"] = []


@change
def nothing_but_zeros_in_one_portfolio(answers: Answers) -> None:
    """Keep the complete structure, with every amount zero."""
    for position in answers.portfolios[2]["positions"]:
        for account in position["accounts"]:
            account["balance"] = {"trading": {"free": "0", "locked": "0"}}


def _without_venue(answers: Answers, venues: set[str]) -> None:
    for position in answers.positions():
        position["accounts"] = [one for one in position["accounts"] if one["venueId"] not in venues]


@change
def no_accounts_at_one_venue(answers: Answers) -> None:
    """Remove the accounts of a venue, as if its connection were down."""
    _without_venue(answers, {VENUES[3]})


@change
def no_accounts_at_half_of_the_venues(answers: Answers) -> None:
    """Remove the accounts of half of the venues, as if a region were down."""
    _without_venue(answers, set(VENUES[::2]))


@change
def nothing_but_zeros_at_one_venue(answers: Answers) -> None:
    """Report zeros for a venue, as if its connection were down."""
    for account in answers.accounts(VENUES[3]):
        account["balance"] = {"trading": {"free": "0", "locked": "0"}}


@change
def empty_balances_at_one_venue(answers: Answers) -> None:
    """Report empty balances for a venue, as if its connection were down."""
    for account in answers.accounts(VENUES[3]):
        account["balance"] = {}


@change
def half_of_all_accounts(answers: Answers) -> None:
    """Keep one of two accounts in every position."""
    for position in answers.positions():
        del position["accounts"][1:]


@change
def half_of_all_assets(answers: Answers) -> None:
    """Keep only the first three assets of every portfolio."""
    for portfolio in answers.portfolios:
        portfolio["positions"] = portfolio["positions"][:3]


@change
def a_balance_kind_that_is_gone(answers: Answers) -> None:
    """Remove everything that was in custody."""
    for account in answers.accounts():
        del account["balance"]["custody"]


@change
def the_free_amounts_are_gone(answers: Answers) -> None:
    """Leave out a required field."""
    for account in answers.accounts():
        del account["balance"]["trading"]["free"]


@change
def no_venues(answers: Answers) -> None:
    """Return an empty list of venues."""
    answers.venues.clear()
    answers.instruments.clear()


@change
def half_of_the_venues(answers: Answers) -> None:
    """Return one page of the venues."""
    del answers.venues[6:]
    answers.instruments = {name: answers.instruments[name] for name in VENUES[:6]}


@change
def the_instruments_of_three_venues_fail(answers: Answers) -> None:
    """Return errors for the instruments of a quarter of the venues."""
    answers.failed.update(VENUES[:3])


# Amounts on a different scale.

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
    """Duplicate every account, as a wrong join does."""
    for position in answers.positions():
        position["accounts"] += position["accounts"]


@change
def one_account_twice(answers: Answers) -> None:
    """List an identical account twice."""
    accounts = next(answers.positions())["accounts"]
    accounts.append(accounts[0])


@change
def one_account_twice_in_another_notation(answers: Answers) -> None:
    """List an account twice, with more zeros and with its members in a different order."""
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
    """List a whole position twice in its portfolio."""
    positions = answers.portfolios[0]["positions"]
    positions.append(positions[0])


# Amounts in unexpected fields.


@change
def balances_under_another_name(answers: Answers) -> None:
    """Move the balances to a new field, and leave the old object empty."""
    for account in answers.accounts():
        account["balances"], account["balance"] = account["balance"], {}


@change
def amounts_that_are_null(answers: Answers) -> None:
    """Set all amounts to null."""
    for part in answers.parts():
        part.update(dict.fromkeys(part))


@change
def positions_under_another_name(answers: Answers) -> None:
    """Move the positions to a new field, and leave the old list empty."""
    for portfolio in answers.portfolios:
        portfolio["holdings"], portfolio["positions"] = portfolio["positions"], []


@change
def accounts_in_groups(answers: Answers) -> None:
    """Nest the accounts one level deeper, and leave the old list empty."""
    for position in answers.positions():
        position["groups"], position["accounts"] = [{"accounts": position["accounts"]}], []
