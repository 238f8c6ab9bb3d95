"""A simulated month of a book and its ledger, in which the cause of every difference is known.

Amounts and trades are realistic, and some are round, because round amounts are often equal by
chance. Tests compare the suggested causes with the real ones.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal, localcontext
from random import Random

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, Desk

FIRST = date(2026, 10, 1)
PORTFOLIOS, VENUES, ACCOUNTS = (
    ("p1", "p2", "p3"),
    ("v1", "v2", "v3"),
    (
        "main",
        "cold",
        "desk",
        "otc",
        "fees",
        "vault",
    ),
)
ASSETS = ("BTC", "ETH", "SOL", "USDC", "EUR", "DOT", "ADA", "SHIB")
NOT_BOOKED, TRANSFER, NOTHING = "not booked yet", "transfer", "no cause"
Key = tuple[str, str, str, str]
# Words in a suggestion, and the simulated cause that they mean.
SAID = {
    "A day behind": NOT_BOOKED,
    "Wrong sign": "sign",
    "The row is in": "twice",
    "Different unit": "unit",
    "Two digits": "transposed",
    "Rounded to": "rounded",
    "Nets to zero": TRANSFER,
    "one account under two names": "account renamed",
    "under a different account": "account renamed",
    "one asset under two names": "asset alias",
    "under a different asset": "asset alias",
    "one venue under two names": "venue renamed",
    "under a different venue": "venue renamed",
    "Difference unchanged": "static",
    "Accruing": "accruing",
}


@dataclass(slots=True)
class Month:
    """The amounts of the book and of the ledger, and the cause of each difference, by key."""

    rng: Random
    book: dict[Key, Decimal] = field(default_factory=dict)
    ledger: dict[Key, list[str]] = field(default_factory=dict)
    why: dict[Key, str] = field(default_factory=dict)
    since: dict[Key, int] = field(default_factory=dict)
    renamed: dict[Key, Key] = field(default_factory=dict)
    pairs: dict[Key, Key] = field(default_factory=dict)
    accruing: set[Key] = field(default_factory=set)

    def begin(self) -> None:
        """Create the first book, and a ledger without errors."""
        for portfolio in PORTFOLIOS:
            for asset in ASSETS:
                for venue in VENUES:
                    for account in ACCOUNTS:
                        if self.rng.random() < 0.6:
                            self.book[portfolio, asset, venue, account] = self._size()
        self._true(self.book)

    def _true(self, keys: Iterable[Key]) -> None:
        for key in list(keys):
            self.ledger[key] = [text(self.book[key])]
            self.why.pop(key, None)
            self.since.pop(key, None)

    def _size(self) -> Decimal:
        whole = self.rng.choice((10, 50, 100, 250, 1000, 5000, self.rng.randrange(1, 10**7)))
        places = self.rng.choice((0, 0, 2, 6, 8, 18))
        return Decimal(whole) + Decimal(self.rng.randrange(10**places)).scaleb(-places)

    def night(self, number: int) -> None:
        """Simulate trades, rewards and transfers. The ledger follows, except for new errors."""
        rng = self.rng
        clean = [key for key in self.book if key not in self.why and key not in self.accruing]
        rng.shuffle(clean)
        mended = [
            key
            for key in self.why
            if key in self.book and key not in self.accruing and rng.random() < 0.3
        ]
        for key in mended:
            self._mend(key)
        for key in clean[:30]:
            self.book[key] += self._trade()
            self._true([key])
        for key in self.accruing:
            self.book[key] += Decimal(rng.randrange(1, 10**6)).scaleb(-6)
        rest = iter(clean[30:])
        for kind, count in _TONIGHT.items():
            for _ in range(count):
                self._spoil(kind, next(rest), number)
        self._transfers(list(rest), number)

    def _trade(self) -> Decimal:
        size = self.rng.choice((1, 5, 10, 100, 9, 27, 90, self.rng.randrange(1, 10**4)))
        places = self.rng.choice((0, 0, 2, 8))
        return Decimal(size) + Decimal(self.rng.randrange(10**places)).scaleb(-places)

    def _mend(self, key: Key) -> None:
        if key in self.pairs:
            self._true([self.pairs.pop(key)])
        other = self.renamed.pop(key, None)
        if other is not None:
            del self.ledger[other]
            self.why.pop(other, None)
        self._true([key])

    def _spoil(self, kind: str, key: Key, number: int) -> None:
        made = spoilt(kind, self.book[key], self.rng)
        if kind in ("late", "trade", "reward"):
            self.book[key] += self._trade()
            if kind == "reward":
                self.accruing.add(key)
            kind = NOT_BOOKED
        elif kind in _RENAMED:
            del self.ledger[key]
            place, name = _RENAMED[kind]
            portfolio, asset, venue, account = (
                part + name * (at == place) for at, part in enumerate(key)
            )
            other = (portfolio, asset, venue, account)
            self.renamed[key] = other
            self.ledger[other] = [text(self.book[key])]
            self.why[other] = kind
        elif kind == "forgotten key":
            del self.ledger[key]
            kind = NOTHING
        elif kind == "typing":
            self.ledger[key] = [text(self.book[key] + self._trade())]
            kind = NOTHING
        elif made is None:
            return
        else:
            self.ledger[key] = made
        self.why[key] = kind
        self.since[key] = number

    def _transfers(self, keys: list[Key], number: int) -> None:
        """Move money between accounts of the book, but not in the ledger."""
        pairs: dict[tuple[str, str], list[Key]] = {}
        for key in keys:
            pairs.setdefault(key[:2], []).append(key)
        for one, other in [found[:2] for found in pairs.values() if len(found) > 1][:2]:
            moved = min(self.book[one] / 4, Decimal(10)).quantize(Decimal("0.01"))
            self.book[one] -= moved
            self.book[other] += moved
            self.why |= {one: TRANSFER, other: TRANSFER}
            self.pairs |= {one: other, other: one}
            self.since |= {one: number, other: number}

    def truth(self, key: Key, number: int) -> str:
        """Return why a key differs tonight. Unbooked amounts become static or accruing later."""
        why = self.why.get(key, NOTHING)
        if number > self.since.get(key, number):
            if key in self.accruing:
                return "accruing"
            if why in (NOT_BOOKED, NOTHING):
                return "static"
        return why


_TONIGHT = {
    "late": 3,
    "trade": 2,
    "reward": 1,
    "sign": 2,
    "twice": 2,
    "unit": 2,
    "transposed": 2,
    "rounded": 3,
    "account renamed": 1,
    "asset alias": 1,
    "venue renamed": 1,
    "forgotten key": 2,
    "typing": 3,
}
_RENAMED = {"account renamed": (3, " 2"), "asset alias": (1, ".OLD"), "venue renamed": (2, "x")}


def text(amount: Decimal) -> str:
    """Return an amount in plain digits."""
    return format(amount, "f")


def spoilt(kind: str, amount: Decimal, rng: Random) -> list[str] | None:
    """Return the ledger rows with this error, or None if the amount cannot have it."""
    made = {"sign": _flipped, "twice": _doubled, "unit": _scaled, "rounded": _rounded}
    made["transposed"] = _swapped
    with localcontext(prec=100):
        return made[kind](amount, rng) if amount and kind in made else None


def _flipped(amount: Decimal, rng: Random) -> list[str]:
    del rng
    return [text(-amount)]


def _doubled(amount: Decimal, rng: Random) -> list[str]:
    del rng
    return [text(amount)] * 2


def _scaled(amount: Decimal, rng: Random) -> list[str]:
    return [text(amount * 10 ** rng.choice((3, 6, 8, 18)))]


def _rounded(amount: Decimal, rng: Random) -> list[str] | None:
    made = amount.quantize(Decimal(1).scaleb(-rng.choice((0, 2, 4))))
    return [text(made)] if made not in (amount, 0) else None


def _swapped(amount: Decimal, rng: Random) -> list[str] | None:
    given = text(amount)
    swaps = [
        n
        for n in range(len(given) - 1)
        if "." not in given[n : n + 2] and given[n] != given[n + 1] and (n or given[1] != "0")
    ]
    if not swaps:
        return None
    at = rng.choice(swaps)
    return [given[:at] + given[at + 1] + given[at] + given[at + 2 :]]


def nights(desk: Desk, count: int, seed: int = 3) -> Iterator[tuple[str, str]]:
    """Reconcile `count` nights. Yield the real and the suggested cause of each break."""
    month = Month(Random(seed))
    month.begin()
    desk.folder.make()
    for number in range(count):
        if number:
            month.night(number)
        day = FIRST + timedelta(number)
        rows = [Amount(text(amount), *key) for key, amount in month.book.items()]
        desk.publish(rows, f"{day:%Y%m%d}T021500Z")
        lines = [";".join([*key, one]) for key, of in month.ledger.items() for one in of]
        desk.put(HEAD + "\n".join(lines) + "\n")
        desk.run()
        for one in desk.breaks():
            key = [str(part) for part in one["key"]]
            names = one["names"]
            portfolio, venue = key[0], key[2]
            written = (portfolio, str(names["asset"]), venue, str(names["account"]))
            found = next((key_ for key_ in month.why if _same(key_, written)), None)
            truth = month.truth(found, number) if found else NOTHING
            yield (
                truth,
                next((to for words, to in SAID.items() if words in one["cause"]), NOTHING),
            )


def _same(key: Key, written: Key) -> bool:
    return tuple(part.casefold() for part in key) == tuple(
        part.removeprefix("?").casefold() for part in written
    )


def table(found: Counter[tuple[str, str]]) -> dict[str, tuple[int, int, int]]:
    """Count for each cause how often it was real, suggested, and suggested correctly."""
    causes = {*SAID.values()}
    return {
        cause: (
            sum(count for (truth, _), count in found.items() if truth == cause),
            sum(count for (_, said), count in found.items() if said == cause),
            found[cause, cause],
        )
        for cause in sorted(causes)
    }
