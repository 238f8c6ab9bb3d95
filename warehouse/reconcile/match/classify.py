"""Results for unequal pairs, decided in SQL, and limits on the sum of ignored differences."""

# ruff: noqa: S608 - names are ours, and values are quoted by literal

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from duckdb import DuckDBPyConnection

from warehouse.contract.model import and_more, count_of, literal
from warehouse.exact import EXACT, exact, exact_sum, plain, subtract
from warehouse.reconcile.book import columns, copy_rows
from warehouse.reconcile.match import compare
from warehouse.reconcile.match.compare import IS_BREAK, decimals_of
from warehouse.reconcile.match.precision import are_cells_of, largest_loss, rounding_loss
from warehouse.reconcile.model import FLOAT_DIGITS, Key, Notice, RejectedRow, Result
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import Kept, Precision, Way
from warehouse.reconcile.terms import display_asset

# A sum of rounding differences up to this amount is always allowed, because it is tiny for any
# asset.
_DUST = Decimal("0.000001")
# If fewer keys than this have ignored differences, only the limit for each asset applies, not the
# limit over all assets.
_MIN_COUNT = 3

# An SQL condition for differences that are ignored because of a setting. It excludes differences
# that arise because a number cell has only 15 digits.
_IS_FORGIVEN = (
    f"(result = '{Result.TOLERANCE.value}' "
    f"or result = '{Result.PRECISION.value}' and kind <> 'number cell')"
)

# A query that returns all unequal pairs and the first rule that applies to each of them.
_JUDGED = Path(__file__).with_name("judged.sql").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A break: its key, its amounts, its result, and the rule that applied.

    `difference` is the ledger's amount minus the snapshot's, and a missing amount counts as zero.
    `lines` are the row numbers in the ledger. If the break and other breaks add up to zero within a
    field, for example within a portfolio, `placement` is that field.
    """

    key: Key
    result: Result
    difference: Decimal
    no: int
    ledger: str | None
    snapshot: str | None
    rows: int
    lines: Sequence[int]
    is_unmapped: bool
    rule: str
    placement: str = ""

    @property
    def amounts(self) -> tuple[Decimal, Decimal]:
        """The ledger's amount and the snapshot's amount. A missing amount is zero."""
        return exact(self.ledger or "0"), exact(self.snapshot or "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRules:
    """All settings and facts that a result depends on, except the two amounts.

    `undelivered` are portfolios that only an earlier book contains. `kept` has the precision by
    file number, and `totals` has the book's totals by asset.
    """

    fields: Key
    config: Config
    undelivered: Collection[str]
    rejected: Mapping[Key, Sequence[RejectedRow]]
    kept: Mapping[int, Precision]
    totals: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class Forgiven:
    """The sum of an asset's ignored differences, counted as positive amounts.

    `total` is the book's total for the asset, and `largest` is the largest difference that one key
    may have. `tolerated` of the `keys` are within tolerance, and the other keys are within the
    ledger's precision.
    """

    total: Decimal
    keys: int = 0
    amount: Decimal = Decimal(0)
    largest: Decimal = Decimal(0)
    tolerated: int = 0

    def plus(self, amount: Decimal, allowed: Decimal) -> "Forgiven":
        """Return a copy with one more key, which may differ by at most `allowed`."""
        total, largest = EXACT.add(self.amount, amount), max(self.largest, allowed)
        return replace(self, keys=self.keys + 1, amount=total, largest=largest)

    @property
    def share(self) -> Decimal:
        """The sum of ignored differences as a share of the book's total."""
        return self.amount / self.total if self.total else Decimal(self.amount != 0)

    def is_over(self, limit: Decimal) -> bool:
        """Return whether the sum exceeds both the limit and the largest difference for one key."""
        return self.amount > max(self.largest, EXACT.multiply(limit, self.total))


def judge(connection: DuckDBPyConnection, rules: MatchRules) -> dict[str, Forgiven]:
    """Create the table `judged` for unequal pairs, and the views `compared` and `broken`.

    Return the sums of ignored differences by asset. If an asset's sum is over the limit, its
    differences are breaks instead.
    """
    compare.store_keys(connection, "rejected_keys", rules.fields, rules.rejected)
    _store_settings(connection, rules)
    with _exact_functions(connection, rules):
        connection.execute(f"create temp table judged as {_judged_query(rules)}")
    connection.execute(
        "create temp view compared as select pairs.*, "
        f"coalesce(result, '{Result.MATCHED.value}') as result "
        "from pairs left join judged on judged.no = pairs.no"
    )
    connection.execute(
        "create temp view broken as select pairs.*, result, difference, rule, "
        "coalesce(lines, [line]) as lines from pairs join judged on judged.no = pairs.no "
        f"left join ledger_sums on first = line where {IS_BREAK}"
    )
    forgiven = _sum_forgiven(connection, rules.totals)
    over = assets_over_limit(forgiven, rules)
    connection.execute(
        f"update judged set result = '{Result.DIFFERS.value}', is_over = true, rule = rule || ', "
        f"but the sum of all such differences is too large' where {_IS_FORGIVEN} and "
        "list_contains(?, asset)",
        [sorted(over)],
    )
    return {asset: amount for asset, amount in forgiven.items() if asset not in over}


def _judged_query(rules: MatchRules) -> str:
    """Return the SQL query for `judged`."""
    config = rules.config
    # An amount below 1e19 with at most 18 decimals fits in a DECIMAL(37,18), and subtracting two
    # such amounts is exact. For other amounts, the cast would round.
    numbers = [
        f"case when {decimals_of(side)} <= 18 then try_cast({side} as decimal(37, 18)) end"
        for side in ("coalesce(ledger, '0')", "coalesce(snapshot, '0')")
    ]
    half = "case when decimals < 0 then '5' || repeat('0', -decimals - 1) "
    half += "else '0.' || repeat('0', decimals) || '5' end"
    portfolios = ", ".join(map(literal, sorted(rules.undelivered)))
    has_missing = portfolios and "portfolio" in rules.fields
    return _JUDGED.format(
        key=columns(rules.fields),
        pair_key=", ".join(f"pairs.{name}" for name in rules.fields),
        ledger_number=numbers[0],
        snapshot_number=numbers[1],
        is_undelivered=f"portfolio in ({portfolios})" if has_missing else "false",
        decimals=decimals_of("ledger"),
        absolute=plain(config.absolute),
        relative=plain(config.relative),
        rounding=config.ledger_rounding,
        digits=FLOAT_DIGITS,
        is_within_half=_is_at_most("size", "half"),
        is_within_written=_is_at_most("size", f"({half})"),
        is_relative_lower=_is_at_most("relative_limit", "absolute"),
        is_tolerated=_is_at_most("size", "rule.allowed"),
    )


def _is_at_most(first: str, second: str) -> str:
    """Return an SQL condition for `first <= second`. Both are canonical amounts without a sign."""
    # The amount with the longer whole part is larger. If both whole parts are equally long, the
    # amount that sorts last as a string is larger. This comparison is exact for any number of
    # decimal places.
    whole, other = (f"strlen(split_part({amount}, '.', 1))" for amount in (first, second))
    return f"({whole} < {other} or {whole} = {other} and {first} <= {second})"


def _store_settings(connection: DuckDBPyConnection, rules: MatchRules) -> None:
    """Create the tables `tolerances` by asset and `file_precisions` by file number."""
    text = pa.string()
    tolerances = (
        (asset, plain(amount), f" for {display_asset(asset)}")
        for asset, amount in rules.config.per_asset.items()
    )
    columns_ = dict.fromkeys(("asset", "absolute", "whose"), text)
    copy_rows(connection, "tolerances", columns_, tolerances)
    rows = []
    for file, precision in rules.kept.items():
        # Use SQL to check amounts that are rounded to decimal places, because a file may contain a
        # million such amounts.
        is_nearest = (precision.kept, precision.way) == (Kept.DECIMALS, Way.NEAREST)
        half = largest_loss(precision, Decimal(0))
        simple = (precision.number, plain(half), plain(dust(half)))
        is_simple = is_nearest and precision.number >= 0
        rows.append((file, precision.notation, *(simple if is_simple else (None, None, None))))
    types = {"file": pa.int64(), "wording": text, "places": pa.int64(), "half": text, "loss": text}
    copy_rows(connection, "file_precisions", types, rows)


@contextmanager
def _exact_functions(connection: DuckDBPyConnection, rules: MatchRules) -> Iterator[None]:
    """Register two SQL functions for arithmetic that DECIMAL(38,18) cannot do exactly."""

    def allowance(rule: str, files: list[int], amounts: list[str], snapshot: str) -> str:
        """Return the difference that a rule allows, or "" if the rule does not apply."""
        ledger, book = list(map(exact, amounts)), exact(snapshot)
        if rule == "number cell":
            return "0" if are_cells_of(ledger, book) else ""
        if rule == "relative":
            return plain(EXACT.multiply(rules.config.relative, EXACT.abs(book)))
        if not {*files} <= rules.kept.keys():
            return ""
        loss = rounding_loss([rules.kept[file] for file in files], ledger, book)
        return "" if loss is None else plain(dust(loss))

    text = "VARCHAR"
    connection.create_function("exact_subtract", subtract, [text, text], text)
    connection.create_function("allowance", allowance, [text, "BIGINT[]", "VARCHAR[]", text], text)
    try:
        yield
    finally:
        connection.remove_function("exact_subtract")
        connection.remove_function("allowance")


def dust(allowed: Decimal) -> Decimal:
    """Return the part of the allowed difference that is too small to count towards a limit."""
    # Only tiny amounts are exempt from the limit, because rounding can also lose a lot: half a
    # Bitcoin if a ledger keeps only whole numbers. All other amounts count, even for a single key.
    return min(allowed, _DUST)


def _sum_forgiven(
    connection: DuckDBPyConnection, totals: Mapping[str, Decimal]
) -> dict[str, Forgiven]:
    """Return the sums of ignored differences by asset."""
    allowed = "{'digits': strlen(split_part(allowed, '.', 1)), 'amount': allowed}"
    rows = connection.execute(
        f"select asset, count(*), exact_sum(ltrim(difference, '-')), max({allowed})['amount'], "
        f"count(*) filter (where result = '{Result.TOLERANCE.value}') "
        f"from judged where {_IS_FORGIVEN} group by asset order by min(no)"
    ).fetchall()
    return {
        asset: Forgiven(totals[asset], keys, exact(amount), exact(largest), tolerated)
        for asset, keys, amount, largest, tolerated in rows
    }


def assets_over_limit(sums: Mapping[str, Forgiven], rules: MatchRules) -> set[str]:
    """Return the assets over their limit, or all assets if the mean share is over its limit."""
    # A tolerance is meant for random differences, whose sum is small. If every key is short by a
    # thousandth, the whole book is short by a thousandth, although each key is within its
    # tolerance. So there are two limits: one for the sum of each asset, and one for the mean share
    # over all assets.
    keys = sum(amount.keys for amount in sums.values())
    if keys >= _MIN_COUNT and _mean_share(sums, rules.totals) > rules.config.limit_in_all:
        return set(sums)
    return {asset for asset, amount in sums.items() if amount.is_over(rules.config.limit)}


def _mean_share(sums: Mapping[str, Forgiven], totals: Mapping[str, Decimal]) -> Decimal:
    """Return the mean share of ignored differences over all assets in the book."""
    # Skip tiny sums, because an asset's whole total may be just as tiny, and a share of it would be
    # meaningless.
    larger = (amount for amount in sums.values() if amount.amount > _DUST)
    shares = sum((amount.share for amount in larger), Decimal(0))
    return shares / max(len(totals), 1)


def forgiven_lines(
    sums: Mapping[str, Forgiven], totals: Mapping[str, Decimal]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield sums of ignored differences: asset, number of keys by rule, sum, and book total.

    The asset with the largest share comes first, and the mean over all assets comes last.
    """
    for asset, sum_ in sorted(sums.items(), key=lambda item: (-item[1].share, item[0])):
        share = f"{plain(sum_.total)} ({sum_.share:.2e} of it)"
        yield display_asset(asset), _by_rule([sum_]), plain(sum_.amount), share
    if sums:
        mean = _mean_share(sums, totals)
        of = f"each of {count_of(len(totals), 'asset')}, on average"
        yield "all", _by_rule(sums.values()), f"{mean:.2e}" if mean else "0", of


def _by_rule(sums: Collection[Forgiven]) -> str:
    """Describe how many keys are within tolerance, and how many are within ledger precision."""
    tolerated = sum(sum_.tolerated for sum_ in sums)
    rounded = sum(sum_.keys for sum_ in sums) - tolerated
    counts = ((tolerated, "by tolerance"), (rounded, "by ledger precision"))
    return ", ".join(f"{count_of(number, 'position')} {by}" for number, by in counts if number)


def over_limit(connection: DuckDBPyConnection) -> Iterator[Notice]:
    """Yield a notice if the sum of ignored differences is over a limit."""
    query = "select count(*), bool_and(kind = 'kept'), list(distinct asset) from judged"
    [(number, is_kept, assets)] = connection.execute(f"{query} where is_over").fetchall()
    if number:
        rule = "ledger precision" if is_kept else "tolerance"
        shown = and_more(sorted(map(display_asset, assets)), 10)
        yield Notice(
            "high",
            f"the differences allowed by {rule} are too large in total: "
            f"{count_of(number, 'position')} in {shown} "
            f"{'is a break' if number == 1 else 'are breaks'}. The sum for an asset must not be "
            "more than `limit`, as a fraction of the asset's total, and the mean fraction over all "
            "assets must not be more than `limit_in_all`. To change the limits, set them in "
            "recon.toml under [tolerance]",
        )


def settlements(
    connection: DuckDBPyConnection, fields: Key, keys: Collection[Key]
) -> dict[Key, str]:
    """Return the reasons why settings now ignore earlier breaks, by key."""
    compare.store_keys(connection, "keys_before", fields, keys)
    rows = connection.execute(
        f"select {columns(fields)}, result, rule from compared semi join keys_before "
        f"using ({columns(fields)}) join (select no, kind, rule from judged) using (no) "
        f"where {_IS_FORGIVEN} order by no"
    ).fetchall()
    return {tuple(key): f"{Result(result).label}: {rule}" for *key, result, rule in rows}


def broken_pairs(connection: DuckDBPyConnection, fields: Key, every: int = 1) -> list[Mismatch]:
    """Return the breaks in key order. If `every` is above 1, sample about one break in `every`."""
    rows = connection.execute(
        f"select [{columns(fields)}], result, difference, no, ledger, snapshot, rows, "
        "list_filter(lines, lambda line: line is not null), is_unmapped, rule "
        f"from broken where hash(no) % {every} = 0 order by no"
    ).fetchall()
    pairs = [
        Mismatch(tuple(key), Result(result), exact(difference), *row)
        for key, result, difference, *row in rows
    ]
    placements = _placements(pairs, fields)
    return [replace(pair, placement=placements.get(pair.no, "")) for pair in pairs]


def _placements(pairs: Sequence[Mismatch], fields: Key) -> dict[int, str]:
    """Find breaks that add up to zero within a field. Return the field by pair number."""
    # Try narrow groups first. If breaks add up to zero within an account, they are explained, so
    # wider groups must not include them.
    placements: dict[int, str] = {}
    for depth in range(len(fields) - 1, fields.index("asset"), -1):
        groups: defaultdict[Key, list[Mismatch]] = defaultdict(list)
        for pair in pairs:
            if pair.no not in placements:
                groups[pair.key[:depth]].append(pair)
        for group in groups.values():
            is_read = all(pair.result is not Result.REJECTED for pair in group)
            if len(group) > 1 and is_read and not exact_sum(pair.difference for pair in group):
                placements |= {pair.no: fields[depth - 1] for pair in group}
    return placements
