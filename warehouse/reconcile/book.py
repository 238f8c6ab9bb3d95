"""A day's book: its amounts, and the names that ledgers may use for its IDs."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

import difflib
import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from warehouse.contract.book import KNOWN_BALANCES
from warehouse.contract.model import literal, quote_identifier
from warehouse.query.book import OpenBook
from warehouse.reconcile.model import UNMAPPED, DisplayNames, Key, Notice
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.toml import quote
from warehouse.reconcile.terms import (
    CUSTOM,
    NotReconciled,
    display_asset,
    key_expression,
)
from warehouse.spreadsheet.reading.text import fold
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, units

# The minimum length of a name to search for. File names may contain shorter names by chance.
_MIN_NAME_LENGTH = 3

_BREAK = re.compile(r"[\W_]+")

# The order in which dimensions are searched for a name. Venues come first, because few venues have
# the same name as an asset.
_NAMED_DIMENSIONS = ("venue", "portfolio", "asset", "account")
_DIMENSIONS = (*_NAMED_DIMENSIONS, "bucket")

_LOOKALIKES = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0456\u0455\u0458\u0501"
    "\u03b1\u03b2\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7",
    "abekmhopctyxisjdabeiknoptyx",
)

_OTHER_NAMES = {"xbt": "btc", "xdg": "doge", "bcc": "bch", "str": "xlm", "miota": "iota"}
_NON_CHARACTERS = re.compile("[\ufffe\uffff]")
_CUT_LENGTH, _DIGEST_LENGTH = 200, 16
_MIN_SIMILARITY = 0.8

# Maximum number of name comparisons in a run. More would not be worth the time, because suggestions
# are only hints.
_MAX_COMPARED = 50_000
_MAX_ACCOUNTS = 50_000

_DOCUMENTED = {(bucket, state) for bucket, states in KNOWN_BALANCES.items() for state in states}


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names in a book by dimension: IDs, display names and aliases.

    Each name is in lower case, and maps to a readable name of the same item. The mapping is empty
    if there is no book.
    """

    folded: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        names: Mapping[str, Mapping[str, Iterable[str]]],
        aliases: Mapping[str, Mapping[str, str]],
    ) -> "KnownNames":
        """Combine a book's names with the aliases from recon.toml."""
        folded: dict[str, dict[str, str]] = {}
        for dimension in _DIMENSIONS:
            of_dimension = folded.setdefault(dimension, {})
            for id_, others in names.get(dimension, {}).items():
                of_dimension.update(
                    {fold(name): min((*others, id_), key=_name_order) for name in (id_, *others)}
                )
            of_dimension.update({fold(name): name for name in aliases.get(dimension, {})})
        return cls(folded)

    def has(self, dimension: str, text: str) -> bool:
        """Return whether a string is the name of an item in this dimension, such as a venue."""
        return fold(text) in self.folded.get(dimension, {})

    def names(self, dimension: str) -> list[str]:
        """Return the readable names of all items in this dimension."""
        return sorted({*self.folded.get(dimension, {}).values()})

    def is_same(self, dimension: str, text: str, other: str) -> bool:
        """Return whether two strings are the same name, or two names for one ID."""
        names = self.folded.get(dimension, {})
        first, second = fold(text), fold(other)
        return first == second or (first in names and names[first] == names.get(second))

    def dimension_of(self, text: str) -> str:
        """Return the dimension in which this string is a name, or an empty string."""
        return next((name for name in _NAMED_DIMENSIONS if self.has(name, text)), "")

    def shared_dimension(self, texts: Collection[str]) -> str:
        """Return the dimension with the most names among these strings, or an empty string.

        At least two of the strings must be names in the dimension.
        """
        counts = {name: sum(self.has(name, text) for text in texts) for name in _NAMED_DIMENSIONS}
        best = max(counts, key=lambda name: counts[name])
        return best if counts[best] > 1 else ""

    def in_text(self, dimension: str, text: str) -> str:
        """Return the only name in this dimension that a string contains, or an empty string."""
        words = f" {_BREAK.sub(' ', fold(text))} "
        matches = {
            shown
            for name, shown in self.folded.get(dimension, {}).items()
            if len(name) >= _MIN_NAME_LENGTH and f" {_BREAK.sub(' ', name).strip()} " in words
        }
        return matches.pop() if len(matches) == 1 else ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result of looking up a name from a ledger: the ID, or a suggestion if no ID was found.

    `how` is `as written`, `folded`, `alias`, `unknown`, `ambiguous` or `wrong alias`. If the name
    is ambiguous, `suggestion` lists the possible names. For a wrong alias, `suggestion` is the name
    in recon.toml, which is not in the book. `name` is the ID's display name.
    """

    id: str | None
    how: str
    suggestion: str = ""
    name: str = ""

    @property
    def hint(self) -> str:
        """A hint to append to a message about an unknown name, or an empty string."""
        name = display_asset(self.suggestion)
        if self.how == "wrong alias":
            return f'; recon.toml has an alias for it, but "{name}" is not a name in the book'
        return f'; perhaps you mean "{name}"' if name else ""


class Names:
    """All names in one field: the IDs, their other names, and the aliases from recon.toml."""

    def __init__(
        self, field: str, known: Mapping[str, Iterable[str]], aliases: Mapping[str, str]
    ) -> None:
        self._field = field
        self._known = known
        # Use tuples instead of sets, which would need 330 MB more for a million accounts.
        self._exact: dict[str, tuple[str, ...]] = {}
        self._folded: dict[str, tuple[str, ...]] = {}
        self._aliases = {fold(name): target for name, target in aliases.items()}
        self._skeletons: dict[str, str] | None = None
        self._budget = _MAX_COMPARED
        for entry, others in known.items():
            for name in {form for spelling in (entry, *others) for form in _spellings(spelling)}:
                _add(self._exact, name, entry)
                _add(self._folded, fold(name), entry)

    def resolve(self, written: str) -> Resolution:
        """Look up the ID for a name from a ledger. A name that several IDs share is ambiguous."""
        ids = self._exact.get(written)
        if ids and len(ids) == 1:
            return Resolution(ids[0], "as written")
        # An alias in recon.toml takes precedence over a name that matches only if case is ignored.
        name = fold(written)
        if name in self._aliases:
            return self._follow_alias(name)
        ids = self._folded.get(name, ())
        if len(ids) == 1:
            id_ = ids[0]
            return Resolution(id_, "folded", name=self.display_name(id_))
        if ids:
            return Resolution(None, "ambiguous", " or ".join(sorted(map(self.display_name, ids))))
        return Resolution(None, "unknown", self._suggestion(name))

    def _follow_alias(self, name: str) -> Resolution:
        seen = [name]
        while seen[-1] in self._aliases:
            target = fold(self._aliases[seen[-1]])
            if target in seen:
                raise NotReconciled(
                    f"The aliases of {self._field} refer to each other in a circle: "
                    f"{' = '.join([*seen, target])}. Nothing was reconciled. Delete one of "
                    f"them under [alias.{self._field}] in recon.toml."
                )
            seen.append(target)
        target = self._aliases[seen[-2]]
        ids = self._exact.get(target) or self._folded.get(seen[-1], ())
        if len(ids) != 1:
            return Resolution(None, "wrong alias", target)
        id_ = ids[0]
        return Resolution(id_, "alias", name=self.display_name(id_))

    def _suggestion(self, name: str) -> str:
        if self._skeletons is None:
            self._skeletons = {skeleton(folded): folded for folded in sorted(self._folded)}
        # First try common alternative names (such as XBT for BTC) and names that look the same,
        # then names that differ by a few characters. The second search is slow because it checks
        # every name, so one budget limits it for the whole run.
        bare = skeleton(name)
        common = _OTHER_NAMES.get(bare, bare)
        if common in self._skeletons:
            return self._name_of(self._skeletons[common])
        self._budget -= len(self._skeletons)
        if self._budget < 0:
            return ""
        near = difflib.get_close_matches(bare, self._skeletons, n=1, cutoff=_MIN_SIMILARITY)
        return self._name_of(self._skeletons[near[0]]) if near else ""

    def _name_of(self, folded: str) -> str:
        return self.display_name(min(self._folded[folded]))

    def display_name(self, id_: str) -> str:
        """Return an ID's display name, or the ID itself if its display names are not unique."""
        names = (name for name in self._known.get(id_, ()) if name.strip())
        return next((name for name in names if self._exact.get(name) == (id_,)), id_)


def display_names(
    fields: Key, key: Sequence[str], names: DisplayNames, *, is_unmapped: bool
) -> dict[str, str]:
    """Return a key's display names by field. Names that are not in the book are in lower case."""
    texts = {}
    for name, id_ in zip(fields, key, strict=True):
        text = names.get(name, {}).get(id_, id_)
        text = display_asset(text) if name == "asset" else text
        texts[name] = text.removeprefix(UNMAPPED) if is_unmapped else text
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The IDs in the book and in earlier nights, each with all its names.

    `delivered` are the portfolios in this book. Other portfolios are known from earlier nights.
    `closed` has the status of each venue that is not trading. `accounts` are the account names in
    this book, which only help to find columns. They are empty if the book has too many.
    """

    names: Mapping[str, Mapping[str, Sequence[str]]]
    display_names: DisplayNames
    delivered: frozenset[str]
    closed: Mapping[str, str]
    notices: tuple[Notice, ...]
    accounts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def known_names(self, aliases: Mapping[str, Mapping[str, str]]) -> KnownNames:
        """Return all names, with the aliases from recon.toml."""
        return KnownNames.of({**self.names, "account": self.accounts}, aliases)


def copy_table(connection: DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Create a temporary table with the rows of an Arrow table."""
    connection.register("given_rows", table)
    connection.execute(f"create temp table {name} as select * from given_rows")
    connection.unregister("given_rows")


def copy_rows(
    connection: DuckDBPyConnection,
    name: str,
    types: Mapping[str, pa.DataType],
    rows: Iterable[Sequence[object]],
) -> None:
    """Create a temporary table from rows. `types` maps column names to column types."""
    cells = list(zip(*rows, strict=True)) or [()] * len(types)
    arrays = [pa.array(column, type_) for column, type_ in zip(cells, types.values(), strict=True)]
    copy_table(connection, name, pa.table(arrays, list(types)))


def amounts_before(source: OpenBook, fields: Key) -> dict[Key, str]:
    """Return the previous book's amounts by key."""
    day = day_before(source)
    return {} if day is None else amounts_of(source.connection, day, fields)


def day_before(source: OpenBook) -> date | None:
    """Return the previous book's day, or None if there is no previous book."""
    day = literal(source.day.isoformat())
    query = f"select max(snapshot_date) from ops.snapshots where is_book and snapshot_date < {day}"
    newest = source.connection.execute(query).fetchone()
    return newest[0] if newest else None


def in_name_cell(text: str) -> str:
    """Return a name as shown in a cell. Truncate a long name, and append its digest."""
    if 2 * len(text) <= CELL_LIMIT or units(text) <= CELL_LIMIT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_CUT_LENGTH]} ... ({len(text)} letters, {digest[:_DIGEST_LENGTH]})"


def skeleton(text: str) -> str:
    """Reduce a name to its letters and digits, so that names that look alike become equal.

    Letters that look like Latin ones become Latin.
    """
    bare = unicodedata.normalize("NFKD", fold(text)).translate(_LOOKALIKES)
    letters = "".join(letter for letter in bare if letter.isalnum())
    return letters.lstrip("0") or letters


def make_book_rows(connection: DuckDBPyConnection, day: date, fields: Key) -> None:
    """Create the table `book_rows` from a day's book, with the amounts summed by these fields."""
    connection.execute(f"create temp table book_rows as {book_query(day, fields)}")


def book_query(day: date, fields: Key) -> str:
    """Return the SQL query for a day's book: the columns for these fields, and the exact amount.

    The query has no row for a balance that the API does not report, because a missing balance is
    not zero.
    """
    # Read the tables instead of the view, because the view also calculates other columns, which
    # doubles the time (measured).
    keys = ", ".join(f"{key_expression(name)} as {name}" for name in fields)
    rows = f"select {keys}, amount, amount_text from history.balances where {_on(day)}"
    if "bucket" not in fields:
        # If the API reports no balances for an account, the account's total is zero.
        rows += (
            f" union all select {keys}, 0::decimal(38, 18), '0' from history.accounts "
            f"where {_on(day)} and coalesce(balance_count, 0) = 0"
        )
    # Nearly all amounts fit in DECIMAL(38,18), so adding up decimals is already exact. Calling
    # `exact_sums` only for sums with other amounts saves a third of the time (measured).
    return (
        f"select {', '.join(fields)}, case "
        "when part['whole'] is null and part['texts'] is null "
        "then regexp_replace(part['rest']::varchar, '\\.?0+$', '') "
        "else internal.exact_sums([part])[1]['text'] end as amount "
        f"from (select {', '.join(fields)}, internal.exact_part(amount, amount_text) as part "
        f"from ({rows}) group by all)"
    )


def amounts_of(connection: DuckDBPyConnection, day: date, fields: Key) -> dict[Key, str]:
    """Return the amounts in a day's book by key."""
    return {row[:-1]: row[-1] for row in connection.execute(book_query(day, fields)).fetchall()}


def read_reference(source: OpenBook, config: Config) -> Reference:
    """Read the names from this book and from earlier books."""
    ask = source.connection.execute
    day = f"date {literal(source.day.isoformat())}"
    portfolios = ask(
        "select portfolio_id, arg_max(name, snapshot_date), max(snapshot_date), "
        f"arg_max(updated_at, snapshot_date) from history.portfolios where snapshot_date <= {day} "
        "group by 1 order by 1"
    ).fetchall()
    venues = ask(
        f"select venue_id, display_name, trading_status from history.venues "
        f"where snapshot_date = {day} order by 1"
    ).fetchall()
    assets = ask(
        f"select distinct {key_expression('asset')} from history.positions "
        f"where snapshot_date <= {day} union "
        f"select distinct unnest([base_asset, term_asset]) from history.instruments "
        f"where snapshot_date = {day}"
    ).fetchall()
    accounts = ask(
        f"select distinct {key_expression('account')} from history.accounts "
        f"where snapshot_date = {day} limit {_MAX_ACCOUNTS + 1}"
    ).fetchall()
    current = [row for row in portfolios if row[2] == source.day]
    return Reference(
        names={
            "portfolio": {row[0]: [row[1]] if row[1] else [] for row in portfolios},
            "asset": asset_names(row[0] for row in assets if row[0]),
            "venue": {row[0]: [row[1]] if row[1] else [] for row in venues},
            "bucket": _buckets(source, day),
        },
        display_names={
            "portfolio": {row[0]: row[1] or row[0] for row in portfolios},
            "venue": {row[0]: row[1] or row[0] for row in venues},
        },
        delivered=frozenset(row[0] for row in current),
        closed={row[0]: row[2] or "unknown" for row in venues if row[2] != "trading"},
        notices=tuple(
            _stale(current, source.snapshot["started_at"], config.stale_hours, config.stale)
        ),
        accounts={row[0]: () for row in accounts} if len(accounts) <= _MAX_ACCOUNTS else {},
    )


def asset_names(keys: Iterable[str]) -> dict[str, list[str]]:
    """Map each asset key to its other names. Only custom assets have any, like `BTC (custom)`."""
    assets = sorted(set(keys))
    listed = {key for key in assets if not key.endswith(CUSTOM)}
    return {
        key: [display_asset(key), *({key.removesuffix(CUSTOM)} - listed)]
        if key not in listed
        else []
        for key in assets
    }


def columns(fields: Iterable[str]) -> str:
    """Return the fields as an SQL list of quoted columns."""
    return ", ".join(map(quote_identifier, fields))


def _name_order(name: str) -> tuple[bool, str]:
    """Return a sort key that sorts readable names before IDs."""
    return (bool(re.fullmatch("[0-9a-f-]{20,}", name)), name)


def _spellings(name: str) -> Iterator[str]:
    """Yield a name and, if a cell cannot store it unchanged, its spellings in a cell."""
    yield name
    if 2 * len(name) > CELL_LIMIT or _NON_CHARACTERS.search(name):
        cut = in_name_cell(name)
        yield cut
        yield _NON_CHARACTERS.sub(lambda match: f"_x{ord(match[0]):04X}_", cut)


def _add(names: dict[str, tuple[str, ...]], name: str, id_: str) -> None:
    """Add an ID to the IDs that share a name."""
    ids = names.get(name, ())
    if id_ not in ids:
        names[name] = (*ids, id_)


def _on(day: date) -> str:
    return f"snapshot_date = date {literal(day.isoformat())}"


def _buckets(source: OpenBook, day: str) -> dict[str, list[str]]:
    query = f"select distinct bucket, state from history.balances where snapshot_date = {day}"
    rows = source.connection.execute(query).fetchall()
    return {
        f"{bucket} {state}": [f"{bucket}{mark}{state}" for mark in "_./-"]
        for bucket, state in {*_DOCUMENTED, *rows}
    }


def _stale(
    portfolios: Iterable[Sequence[Any]], clock: datetime, hours: int, known: Mapping[str, str]
) -> Iterator[Notice]:
    """Yield a notice for each portfolio not updated in the `hours` before the book was read.

    Its severity is low if `known` has the portfolio's last update, because a person knows it then.
    """
    for portfolio, name, _, updated in portfolios:
        if updated is not None and (clock - updated) / timedelta(hours=1) > hours:
            last = f"{updated:%Y-%m-%d %H:%M}"
            is_known = known.get(portfolio) == last
            remedy = f". If this is known, add to recon.toml under [stale]: {quote(portfolio)} = "
            yield Notice(
                "low" if is_known else "medium",
                f'portfolio "{" ".join((name or portfolio).split())}" was last updated at '
                f"{last} UTC, more than {hours} hours before the book was read"
                + (", as recon.toml says" if is_known else f"{remedy}{quote(last)}"),
                "book",
                portfolio,
            )
