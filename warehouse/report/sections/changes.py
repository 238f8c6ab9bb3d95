"""What changed since the book before: amounts, accounts, names and states."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_DOWN, Decimal, localcontext

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from warehouse.contract.model import count_of, literal
from warehouse.report import blocks, charts, wording
from warehouse.report.answers import Nights, QueryRows, Record, ask, query
from warehouse.report.blocks import (
    Chart,
    Section,
    TableColumn,
    note,
    sentence_section,
    with_rows,
)
from warehouse.report.charts import Bar

MOST = 15
FULL_SWING = 100.0
_TITLE = "What changed"
_BY_ASSET = (
    blocks.asset(),
    blocks.amount("Before", "before"),
    blocks.amount("Now", "now"),
    blocks.amount("Delta", "delta", signed=True),
    blocks.count("Amounts changed", "amounts"),
)
_ACCOUNTS = (
    blocks.name_or_id("Portfolio", "portfolio"),
    blocks.name_or_id("Venue", "venue"),
    blocks.name_column("Account", "account_name"),
    blocks.name_column("Of assets", "assets"),
)
_NAMES = (
    TableColumn("What", lambda row: f"{row['kind']} {row['what']}"),
    blocks.name_column("Id", "id"),
    blocks.name_column("Change", "change"),
    blocks.name_column("Before", "before"),
    blocks.name_column("Now", "now"),
)


@dataclass(frozen=True, slots=True)
class AssetMove:
    """An asset whose total moved: by which share of what it was, None where it was nothing."""

    share: Decimal | None
    row: Record


def by_asset(connection: DuckDBPyConnection, nights: Nights) -> QueryRows | None:
    """Return how the total of each asset changed; None where there is no book before."""
    if nights.before_day is None:
        return None
    day = _day(nights.before_day)
    return ask(connection, query("changes_by_asset", before=day, pinned_first=nights.pinned_first))


def _day(before: date) -> str:
    return f"date {literal(before.isoformat())}"


def section(connection: DuckDBPyConnection, nights: Nights, assets: QueryRows | None) -> Section:
    """Return everything that is not as it was in the book before."""
    if nights.book_day is None:
        return sentence_section("changes", _TITLE, "no book", "There is no book yet.")
    if nights.before_day is None or assets is None:
        sentence = note(
            "The book of {} is the first: there is nothing to compare it with.",
            wording.day(nights.book_day),
        )
        return Section("changes", _TITLE, "first night", notes=(sentence,))
    return _comparison(connection, assets, before=nights.before_day, book=nights.book_day)


def _comparison(
    connection: DuckDBPyConnection, assets: QueryRows, *, before: date, book: date
) -> Section:
    def rows(name: str, **values: str) -> QueryRows:
        return ask(connection, query(name, **values), MOST)

    day = _day(before)
    tables = [
        blocks.table("By asset", assets, _BY_ASSET, MOST),
        blocks.table(
            "By portfolio", rows("changes_by_portfolio"), _moves_columns("Portfolio", "portfolio")
        ),
        blocks.table("By venue", rows("changes_by_venue"), _moves_columns("Venue", "venue")),
        *(
            blocks.table(
                title, rows("changed_accounts", before=day, change=literal(change)), _ACCOUNTS
            )
            for title, change in (("New accounts", "new"), ("Accounts gone", "gone"))
        ),
        blocks.table("Names and states", rows("changed_names", before=day), _NAMES),
    ]
    notes = [
        note(
            "The book of {} against the one before it, of {}. A delta is exact; 0 means that "
            "amounts moved, and what one lost another gained.",
            wording.day(book),
            wording.day(before),
        )
    ]
    if unchanged := [table.title.lower() for table in tables if not table.rows]:
        notes.append(note("No change: {}.", ", ".join(unchanged)))
    figure = count_of(sum(row["amounts"] for row in assets.rows), "amount")
    return Section("changes", _TITLE, figure, notes=tuple(notes), tables=with_rows(*tables))


def _moves_columns(head: str, column: str) -> tuple[TableColumn, ...]:
    return (
        blocks.name_or_id(head, column),
        blocks.asset(),
        blocks.amount("Delta", "delta", signed=True),
        blocks.count("Amounts changed", "amounts"),
    )


def moves(answered: QueryRows) -> list[AssetMove]:
    """Return the assets whose total moved, the most widely held first."""
    return [
        AssetMove(_percent(row["before"], row["delta"]), row)
        for row in answered.rows
        if Decimal(row["delta"])
    ]


def swings(moved: Sequence[AssetMove], sql: str) -> Iterator[Chart]:
    """Yield the change of each asset against its own total before, in the order of the table."""
    # Of a huge total a share may be less than the least float: there is nothing to draw of it.
    shares = [float(move.share or 0) for move in moved]
    if not any(shares):
        return
    most = min(max(map(abs, shares)), FULL_SWING)
    bars = [
        Bar(move.row["asset_id"], move.row["is_custom_asset"], (share,), signed_share(move.share))
        for move, share in zip(moved, shares, strict=True)
    ]
    yield Chart(
        Markup("Assets by change"),
        charts.swings(bars, "Assets by change of their total in percent", most),
        note(
            "Each asset of the table against its own total before, in percent, rounded; a new "
            "asset has no share."
        ),
        sql,
    )


def _percent(before: str, delta: str) -> Decimal | None:
    """Return the change in percent; None where there was nothing before. Only for the eye."""
    # The product is exact and the quotient cut, not rounded: only what is all gone is -100 %.
    digits = max(len(before), len(delta)) + 4
    with localcontext(prec=digits, Emax=10**6, Emin=-(10**6), rounding=ROUND_DOWN):
        # Against the absolute value: a debt that grows is a move away from zero, to the left.
        base = abs(Decimal(before))
        return Decimal(delta) * 100 / base if base else None


def signed_share(share: Decimal | None) -> str:
    """Return a share of what was there before, rounded."""
    if share is None:
        return "new"
    size = share.copy_abs()  # not `abs`, which rounds to 28 digits
    if size >= 1000:  # noqa: PLR2004 - where decimals tell nothing and room is short
        return "> +1000 %" if share > 0 else "< -1000 %"
    if Decimal("99.995") <= size < 100:  # noqa: PLR2004 - what is left of it is not nothing
        return "> +99.99 %" if share > 0 else "< -99.99 %"
    if size < Decimal("0.01"):
        return "< +0.01 %" if share > 0 else "> -0.01 %"
    return f"{share:+.2f} %"
