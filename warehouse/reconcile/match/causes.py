"""Likely causes of breaks, suggested only if the amounts support them."""

# ruff: noqa: S608 - names are ours

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from duckdb import DuckDBPyConnection

from warehouse.contract.model import count_of
from warehouse.exact import EXACT, exact, plain
from warehouse.query.book import OpenBook
from warehouse.reconcile.book import columns, day_before
from warehouse.reconcile.match.classify import Mismatch
from warehouse.reconcile.match.precision import digits
from warehouse.reconcile.model import (
    UNMAPPED,
    Alias,
    Break,
    Key,
    Ledger,
    Notice,
    RejectedRow,
    Result,
)

_ROUNDING = Context(prec=EXACT.prec)

# A file is reported as a day behind only if at least this many differing positions have the amount
# of the previous book. A smaller number may be chance, or amounts that were booked late.
_MIN_BEHIND = 3

# Do not suggest a factor of 100 for amounts with fewer significant digits, because the factor may
# be chance.
_MIN_DIGITS = 3

# The powers of ten that convert between common units.
_UNIT_POWERS = frozenset({2, 3, 6, 8, 9, 12, 18})

_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The data needed to build a break.

    `earlier` is the same break in the previous run. `snapshot_before` is the key's amount in the
    previous book. `rounding` is the cause if the whole file seems to be rounded. `rejected` are the
    key's rows that could not be read.
    """

    pair: Mismatch
    id: str
    names: Mapping[str, str]
    earlier: Break | None = None
    snapshot_before: str | None = None
    rounding: str = ""
    rejected: Sequence[RejectedRow] = ()
    venue_note: str = ""

    @property
    def ledger(self) -> Decimal:
        """The ledger's amount, or zero if the key is not in the ledger."""
        return self.pair.amounts[0]

    @property
    def snapshot(self) -> Decimal:
        """The snapshot's amount, or zero if the key is not in the snapshot."""
        return self.pair.amounts[1]

    @property
    def is_day_behind(self) -> bool:
        """Whether the ledger has the amount from the previous book, and not from this book."""
        amount = self.pair.ledger
        return amount == self.snapshot_before and amount not in {None, "0", self.pair.snapshot}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePair:
    """An amount that the ledger and the book contain under different names.

    An alias can map the ledger's name to the book's name, unless the book also contains the
    ledger's name (`has_name`).
    """

    field: str
    ledger: Case
    book: Case
    has_name: bool

    @property
    def names(self) -> tuple[str, str]:
        """The names under which the ledger and the book contain the amount."""
        return self.ledger.names[self.field], self.book.names[self.field]

    def cause(self, other: Case) -> str:
        """Return the cause to show for one break of the pair. `other` is the other break."""
        if self.has_name:
            written, known = self.names
            names = f"{written!r} in the ledger, {known!r} in the book"
            return f"Booked under a different {self.field}? {names} ({other.id})"
        return f"Same amount as {other.id}: one {self.field} under two names? See the Mapping sheet"


def suggest_causes(
    connection: DuckDBPyConnection,
    cases: Mapping[int, Case],
    fields: Key,
    pairs: Sequence[NamePair],
) -> dict[str, str]:
    """Map each break ID to its most likely cause. `cases` contains the breaks by pair number."""
    # Try different names and opposite differences first, because each of them explains two breaks
    # completely. Try the causes of a single break last, because an amount that happens to be
    # doubled or negated is weaker evidence than two amounts that add up to zero.
    causes = {
        case.id: f"Nets to zero within the {case.pair.placement}: booked in a different place"
        for case in cases.values()
        if case.pair.placement
    }
    causes |= _opposites(connection, cases, fields)
    for pair in pairs:
        causes |= {pair.ledger.id: pair.cause(pair.book), pair.book.id: pair.cause(pair.ledger)}
    for case in cases.values():
        if case.id not in causes and (cause := _cause_of_one(case)):
            causes[case.id] = cause
    return causes | {case.id: case.rounding for case in cases.values() if case.rounding}


def pair_names(
    connection: DuckDBPyConnection, cases: Mapping[int, Case], fields: Key
) -> Iterator[NamePair]:
    """Yield the amounts that occur once on each side, with keys that differ in only one field."""
    pairs = [case.pair for case in cases.values()]
    one_sided = [pair for pair in pairs if (pair.ledger is None) != (pair.snapshot is None)]
    in_book = _accounts_in_book(connection, one_sided, fields) if "account" in fields else set()
    for place, field in enumerate(fields):
        groups = defaultdict[object, list[Mismatch]](list)
        for pair in one_sided if field != "bucket" else ():
            if (amount := pair.ledger or pair.snapshot) != "0":
                groups[pair.key[:place], pair.key[place + 1 :], amount].append(pair)
        for group in groups.values():
            ledger = [pair for pair in group if pair.snapshot is None]
            book = [pair for pair in group if pair.ledger is None]
            if len(ledger) == len(book) == 1:
                name = ledger[0].key[place]
                has_name = not name.startswith(UNMAPPED)
                yield NamePair(
                    field=field,
                    ledger=cases[ledger[0].no],
                    book=cases[book[0].no],
                    has_name=name in in_book if field == "account" else has_name,
                )


def suggest_aliases(pairs: Sequence[NamePair]) -> tuple[Alias, ...]:
    """Return aliases that would resolve breaks, each with the number of positions it affects."""
    counts = Counter((pair.field, *pair.names) for pair in pairs if not pair.has_name)
    return tuple(
        Alias(field=field, written=written, id="", how="suggested", rows=rows, suggestion=name)
        for (field, written, name), rows in counts.items()
    )


def behind_notices(source: OpenBook, cases: Collection[Case], ledger: Ledger) -> Iterator[Notice]:
    """Yield a notice for each file whose differing amounts are mostly from the previous book."""
    counts: defaultdict[int, Counter[bool]] = defaultdict(Counter)
    for case in cases:
        for file in {ledger.lines[line].file for line in case.pair.lines}:
            counts[file][case.is_day_behind] += 1
    for file, found in sorted(counts.items()):
        # Require two thirds of the amounts, because the remaining differences may be real errors. A
        # few amounts from the previous book are normal even in a file for the right day.
        if found[True] >= _MIN_BEHIND and found[True] >= 2 * found[False]:
            message = f"these are the balances for {day_before(source)}, not for {source.day}: "
            message += f"{found[True]:,} of {count_of(found.total(), 'position')} that differ have "
            message += "the amount from the book of the day before. In the inbox, replace this "
            message += f"file with the ledger for {source.day}, then rerun"
            yield Notice("high", message, ledger.sources[file].place_name)


def _accounts_in_book(
    connection: DuckDBPyConnection, pairs: Sequence[Mismatch], fields: Key
) -> set[str]:
    """Return the accounts of unmatched ledger rows that also occur in the book."""
    place = fields.index("account")
    names = [pair.key[place] for pair in pairs if pair.snapshot is None]
    query = "select distinct account from compared semi join (select unnest(?) as account) "
    query += "using (account) where snapshot is not null"
    rows = connection.execute(query, [names]).fetchall() if names else []
    return {account for (account,) in rows}


def _opposites(
    connection: DuckDBPyConnection, cases: Mapping[int, Case], fields: Key
) -> Iterator[tuple[str, str]]:
    """Yield IDs and causes for pairs of breaks that net to zero within a portfolio and asset."""
    shared = columns(name for name in fields if name in ("portfolio", "asset"))
    # If three breaks have the same size, nobody can tell which two of them belong together.
    rows = connection.execute(
        f"select min(no), max(no) from broken where result <> '{Result.REJECTED.value}' "
        f"and difference <> '0' group by {shared}, ltrim(difference, '-') "
        "having count(*) = 2 and count(distinct difference) = 2"
    ).fetchall()
    for pair in rows:
        for no, other in (pair, pair[::-1]):
            cause = f"Nets to zero with {cases[other].id}: a transfer, or a move between free and "
            yield cases[no].id, cause + "locked, is not booked"


def _cause_of_one(case: Case) -> str:
    """Return the first cause that explains the break on its own, or an empty string."""
    if case.is_day_behind:
        return "A day behind: the ledger has the amount from the previous day's book"
    if case.pair.result is not Result.DIFFERS:
        return ""
    return next((cause for test in _TESTS if (cause := test(case))), "")


def _sign(case: Case) -> str:
    is_swapped = case.ledger == EXACT.minus(case.snapshot) != 0
    return "Wrong sign (plus and minus swapped)" if is_swapped else ""


def _twice(case: Case) -> str:
    doubled = case.pair.rows == _TWO and case.ledger == EXACT.multiply(2, case.snapshot)
    return "The row is in the ledger twice" if doubled else ""


def _unit(case: Case) -> str:
    sides = (("ledger", case.ledger), ("book", case.snapshot))
    for (larger, amount), (smaller, base) in (sides, sides[::-1]):
        for power in _UNIT_POWERS:
            is_chance = power == min(_UNIT_POWERS) and digits(base) < _MIN_DIGITS
            if base and amount == base.scaleb(power, EXACT) and not is_chance:
                return f"Different unit: the {larger} is {10**power:,} times the {smaller}"
    return ""


def _transposition(case: Case) -> str:
    ledger, snapshot = plain(case.ledger), plain(case.snapshot)
    is_swapped = len(ledger) == len(snapshot) and any(
        ledger[:n] + ledger[n : n + 2][::-1] + ledger[n + 2 :] == snapshot
        for n in range(len(ledger) - 1)
        if "." not in ledger[n : n + 2]
    )
    return "Two digits transposed" if is_swapped else ""


def _rounding(case: Case) -> str:
    if case.ledger == 0:
        return ""
    decimals = len(plain(case.ledger).partition(".")[2])
    unit = Decimal(1).scaleb(-decimals, EXACT)
    is_near = case.snapshot.quantize(unit, ROUND_HALF_EVEN, _ROUNDING) == case.ledger
    return f"Rounded to {decimals} decimal places" if is_near else ""


def _moving(case: Case) -> str:
    if case.earlier is None:
        return ""
    if exact(case.earlier.difference) == case.pair.difference:
        return f"Difference unchanged since {case.earlier.first_seen}"
    if case.earlier.ledger == case.pair.ledger:
        return "Accruing: the book changes but the ledger does not (rewards, interest, fees)"
    return ""


_TESTS = (_sign, _twice, _unit, _transposition, _rounding, _moving)
