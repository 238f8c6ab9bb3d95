"""Control totals computed from the landed JSON and from the lake, and the holdings tables."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation, localcontext
from operator import attrgetter
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from pipelines.edge import models
from pipelines.flatten.control_totals import reference
from pipelines.flatten.control_totals.reference import PortfolioCount, Raw, Sum, Totals
from pipelines.records import amounts
from pipelines.records.schema import shape_of
from warehouse.contract.book import BALANCES
from warehouse.contract.lake import HOLDINGS
from warehouse.exact import EXACT, exact, plain
from warehouse.sql.catalog import views
from warehouse.sql.files import open_files
from warehouse.storage.parquet import WrittenFile, conform, write

COUNTED = ("portfolios", "integrations", "positions", "accounts", "balances")
# Amounts are collected as strings and added up in batches. Small batches are slow because they have
# only a few amounts per asset, and large batches because they do not fit in the CPU's cache. CPU
# time for 1,259,451 amounts of 400 assets: 1.43 s with batches of 5,000, 0.90 s with 50,000, 1.06 s
# with 200,000, and 1.22 s with a single batch.
MAX_WAITING = 50_000
_PLAIN = b"0123456789.-"
_SHORT = 200
_TEXTS = 4  # approximate number of amounts per account
_SUMS_IN_LAKE = """
select
    asset_id,
    is_custom_asset,
    bucket,
    internal.exact_sums([internal.exact_part(amount, amount_text)])[1].text
from balances
group by all
"""


# The balance kinds and their amounts, from the models. Structs are decoded four times as fast as
# dicts of dicts (0.15 s of CPU time instead of 0.58 s for 300,000 accounts). Records that do not
# match the API document fail to decode, so `reference` counts them.
_PARTS = {
    kind: tuple(field.shape.fields)
    for kind, field in shape_of(models.Balance).fields.items()
    if field.shape is not None
}
_GETTERS = [
    (kind, attrgetter(kind), [attrgetter(name) for name in names]) for kind, names in _PARTS.items()
]
_BalanceAmounts = msgspec.defstruct(
    "_BalanceAmounts",
    [
        (
            kind,
            msgspec.defstruct(
                f"_{kind}", [(name, str) for name in names], forbid_unknown_fields=True, gc=False
            )
            | None,
            None,
        )
        for kind, names in _PARTS.items()
    ],
    forbid_unknown_fields=True,
    gc=False,
)


class _AccountAmounts(msgspec.Struct, rename="camel", gc=False):
    venue_id: str
    name: str
    balance: _BalanceAmounts  # type: ignore[valid-type] # created above from the models


class _PositionAmounts(msgspec.Struct, rename="camel"):
    asset_id: str
    is_custom_asset: bool
    accounts: list[_AccountAmounts]


class _IntegrationId(msgspec.Struct, gc=False):
    id: str


class _PortfolioAmounts(msgspec.Struct):
    id: str
    positions: list[_PositionAmounts]
    integrations: list[_IntegrationId] | None = None


_DECODER = msgspec.json.Decoder(_PortfolioAmounts)


class _Sums:
    """A calculator of exact sums, which collects amounts and adds them up in batches."""

    def __init__(self) -> None:
        self.amounts = 0
        self.totals: dict[Sum, Decimal] = {}
        self._texts: defaultdict[Sum, list[str]] = defaultdict(list)
        self._accounts: defaultdict[tuple[str, bool], list[_AccountAmounts]] = defaultdict(list)
        self._waiting = 0

    def add(self, key: Sum, texts: list[str]) -> None:
        """Collect strings for a sum. Strings that are not amounts are ignored later."""
        self._texts[key] += texts
        self._wait(len(texts))

    def add_accounts(self, position: _PositionAmounts) -> None:
        """Collect the accounts of a position that fits the API document."""
        # Collect several accounts for each asset, because one account has only a few amounts of
        # each kind.
        self._accounts[position.asset_id, position.is_custom_asset] += position.accounts
        self._wait(len(position.accounts) * _TEXTS)

    def _wait(self, texts: int) -> None:
        self._waiting += texts
        if self._waiting >= MAX_WAITING:
            self.add_waiting()

    def add_waiting(self) -> None:
        """Add the amounts collected so far to the sums."""
        for (asset_id, is_custom), accounts in self._accounts.items():
            for bucket, texts in _amount_texts(accounts).items():
                self._texts[Sum(asset_id, is_custom, bucket)] += texts
        with localcontext(EXACT):
            # `sum` is exact in this context, which has enough digits for any sum of valid amounts,
            # and raises an error if a digit is lost.
            for key, texts in self._texts.items():
                values = _values(texts)
                if values:
                    self.amounts += len(values)
                    self.totals[key] = sum(values, self.totals.get(key, Decimal(0)))
        self._texts.clear()
        self._accounts.clear()
        self._waiting = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTotal:
    """A measure with its totals from the JSON and the lake (a row in `ops.control_totals`)."""

    table_name: str
    measure: str
    asset_id: str = ""
    is_custom_asset: bool = False
    bucket: str = ""
    in_json: str
    in_lake: str

    @property
    def differs(self) -> bool:
        """True if the totals from the JSON and from the lake differ."""
        return self.in_json != self.in_lake


def of_portfolios(raws: Iterable[Raw], *, precise: bool = False) -> Totals:
    """Compute the totals of the five portfolio tables from the landed records."""
    rows = Counter(dict.fromkeys(COUNTED, 0))
    sums = _Sums()
    seen: set[str] = set()
    for raw in raws:
        documented = None if precise else _decode(raw)
        counted = reference.portfolio(raw) if documented is None else _count(documented)
        if counted is None or counted.identity in seen:
            continue
        seen.add(counted.identity)
        rows["portfolios"] += 1
        rows["integrations"] += counted.integrations
        rows["positions"] += counted.positions
        rows["accounts"] += counted.accounts
        for key, texts in counted.amounts:
            sums.add(key, texts)
        for position in documented.positions if documented is not None else ():
            sums.add_accounts(position)
    sums.add_waiting()
    rows["balances"] = sums.amounts
    return Totals(dict(rows), sums.totals)


def of_lake(files: Mapping[str, Path]) -> Totals:
    """Compute the totals from the lake's Parquet files. `files` maps each table to its file."""
    rows = {table: pq.read_metadata(path).num_rows for table, path in files.items()}
    if BALANCES.name not in files:
        return Totals(rows, {})
    with open_files({BALANCES.name: files[BALANCES.name]}) as connection:
        sums = connection.execute(_SUMS_IN_LAKE).fetchall()
    return Totals(rows, {Sum(*key): exact(total) for *key, total in sums})


def compare(in_json: Totals, in_lake: Totals) -> list[ControlTotal]:
    """Return each row count and sum from the JSON and from the lake, in a fixed order."""
    rows = [
        ControlTotal(
            table_name=table,
            measure="rows",
            in_json=str(in_json.rows.get(table, 0)),
            in_lake=str(in_lake.rows.get(table, 0)),
        )
        for table in sorted(in_json.rows.keys() | in_lake.rows.keys())
    ]
    zero = Decimal(0)
    return rows + [
        ControlTotal(
            table_name="balances",
            measure="sum",
            **key._asdict(),
            in_json=plain(in_json.sums.get(key, zero)),
            in_lake=plain(in_lake.sums.get(key, zero)),
        )
        for key in sorted(in_json.sums.keys() | in_lake.sums.keys())
    ]


def write_holdings(
    files: Mapping[str, Path], path_of: Callable[[str], Path], snapshot_id: str
) -> dict[str, WrittenFile]:
    """Write the holdings tables, sorted by their keys, to the paths that `path_of` returns.

    `files` maps the night's other tables to their Parquet files.
    """
    sql_of = {view.name: view.sql for view in views()}
    written = {}
    with open_files(files) as connection:
        for table in HOLDINGS:
            query = f"{sql_of[table.name]} order by {', '.join(table.key)}"
            rows = connection.sql(query).to_arrow_table()
            batch = conform(table, {name: rows[name] for name in table.names}, len(rows))
            written[table.name] = write(table, [batch], path_of(table.name), snapshot_id)
    return written


def _values(texts: list[str]) -> list[Decimal]:
    """Convert the strings that are amounts to decimal numbers. Skip all other strings."""
    # Nearly all strings consist of plain digits, so check all their characters at once. Decimal
    # then rejects a sign or a decimal point in the wrong place.
    letters = "".join(texts).encode(errors="surrogatepass")
    if not letters.translate(None, _PLAIN) and max(map(len, texts), default=0) <= _SHORT:
        with contextlib.suppress(
            InvalidOperation
        ):  # a sign or a decimal point is in the wrong place
            return list(map(Decimal, texts))
    return [value for text in texts if (value := amounts.parse(text)) is not None]


def _decode(raw: Raw) -> _PortfolioAmounts | None:
    """Decode a portfolio. Return None if it does not match the API document."""
    try:
        return _DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _count(portfolio: _PortfolioAmounts) -> PortfolioCount:
    """Count the rows of a documented portfolio. The amounts are added up separately."""
    return PortfolioCount(
        identity=portfolio.id,
        integrations=len({integration.id for integration in portfolio.integrations or ()}),
        positions=len({(p.asset_id, p.is_custom_asset) for p in portfolio.positions}),
        accounts=sum(len(p.accounts) for p in portfolio.positions),
        amounts=[],
    )


def _amount_texts(accounts: list[_AccountAmounts]) -> dict[str, list[str]]:
    """Return the amounts in the balances as strings, by balance kind."""
    texts_by_kind: dict[str, list[str]] = {}
    balances = [account.balance for account in accounts]
    for kind, part_of, text_getters in _GETTERS:
        if parts := [part for part in map(part_of, balances) if part is not None]:
            texts = texts_by_kind[kind] = []
            for text_of in text_getters:
                texts += map(text_of, parts)
    return texts_by_kind
