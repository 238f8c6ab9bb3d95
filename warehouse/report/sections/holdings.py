"""What is held and what is locked of each asset, and its amount from night to night."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal, localcontext
from itertools import groupby

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from warehouse.contract.model import count_of
from warehouse.report import blocks, charts, wording
from warehouse.report.answers import Nights, QueryRows, Record, ask, query
from warehouse.report.blocks import Chart, Section, note, sentence_section, with_rows
from warehouse.report.charts import Bar

MOST = 25
FOLLOWED = 6
LARGEST_DRAWN = Decimal("1e300")
AMOUNTS = (
    blocks.amount("Free", "free_text"),
    blocks.amount("Locked", "locked_text"),
    blocks.amount("Other", "other_text"),
    blocks.amount("Total", "total_text"),
)
_HOLDINGS = (
    blocks.asset(),
    *AMOUNTS,
    blocks.count("Portfolios", "portfolios"),
    blocks.count("Accounts", "accounts"),
)
_LOCKED = (
    blocks.asset(),
    blocks.name_column("Locked by", "bucket"),
    blocks.amount("Locked", "locked"),
    blocks.count("Portfolios", "portfolios"),
    blocks.count("Venues", "venues"),
    blocks.count("Accounts", "accounts"),
)


def section(connection: DuckDBPyConnection, nights: Nights) -> Section:
    """Return holdings and locked funds of the newest book."""
    if nights.book_day is None:
        return sentence_section("holdings", "Holdings", "no book", "There is no book yet.")
    assets = ask(connection, query("holdings", pinned_first=nights.pinned_first))
    locked = ask(connection, query("locked_funds", pinned_first=nights.pinned_first), MOST)
    figure = count_of(assets.count, "asset")
    sentence = note(
        "{} in the book of {}. Amounts of different assets are never added up.",
        figure,
        wording.day(nights.book_day),
    )
    return Section(
        "holdings",
        "Holdings",
        figure,
        notes=(sentence,),
        charts=(*_accounts(assets), *_shares(assets)),
        tables=with_rows(
            blocks.table("By asset", assets, _HOLDINGS, MOST),
            blocks.table("Locked funds", locked, _LOCKED),
        ),
    )


def _accounts(answered: QueryRows) -> Iterator[Chart]:
    rows = answered.rows[:MOST]
    if not any(row["accounts"] for row in rows):
        return
    bars = [
        Bar(row["asset_id"], row["is_custom_asset"], (row["accounts"],), f"{row['accounts']:,}")
        for row in rows
    ]
    yield Chart(
        Markup("Assets by accounts"),
        charts.bars(
            bars,
            "Assets by number of accounts",
            most=count_of(max(row["accounts"] for row in rows), "account"),
        ),
        note("How many accounts hold each asset, as in the table below."),
        answered.sql,
    )


def _shares(answered: QueryRows) -> Iterator[Chart]:
    """Yield how much of each asset is free, locked and other, as shares of its own total."""
    shares = [_parts(row) for row in answered.rows[:MOST]]
    if not any(shares):
        return
    bars = [
        Bar(
            row["asset_id"],
            row["is_custom_asset"],
            parts,
            f"{100 * parts[1]:.1f} %" if parts else "no share",
        )
        for row, parts in zip(answered.rows, shares, strict=False)
    ]
    yield Chart(
        Markup("Free and locked"),
        charts.bars(bars, "Share of each asset that is free, locked and other", most="100 %"),
        note(
            '<span class="key"><b class="dot main"></b>free</span> '
            '<span class="key"><b class="dot second"></b>locked, with its share</span> '
            '<span class="key"><b class="dot third"></b>other</span>'
        ),
        answered.sql,
    )


def _parts(row: Record) -> tuple[float, ...]:
    """Return free, locked and other as shares; nothing where a part is negative or all are zero."""
    with localcontext(prec=28, Emax=10**6, Emin=-(10**6)):
        parts = [Decimal(row[f"{part}_text"]) for part in ("free", "locked", "other")]
        whole = sum(parts)
        if not whole or min(parts) < 0:
            return ()
        return tuple(float(part / whole) for part in parts)


def over_time(connection: DuckDBPyConnection, nights: Nights) -> Section:
    """Return the most widely held assets from night to night, each on its own scale."""
    title = "Amounts over time"
    if nights.before_day is None:
        return sentence_section("time", title, "too early", "It takes two nights to show a change.")
    answered = ask(
        connection,
        query("totals_over_time", followed=FOLLOWED, pinned_first=nights.pinned_first),
    )
    days = [row["snapshot_date"] for row in nights.all if row["is_book"]]
    drawn = tuple(
        _line_chart(list(rows), min(days), max(days), answered.sql)
        for _, rows in groupby(
            answered.rows, key=lambda row: (row["asset_id"], row["is_custom_asset"])
        )
    )
    sentence = note(
        "The most widely held assets, each on a scale of its own that need not begin at zero. "
        "Where the line breaks there is no book of that night, or nothing of the asset in it."
    )
    figure = count_of(len(days), "night")
    return Section("time", title, figure, notes=(sentence,), charts=drawn)


def _line_chart(rows: list[Record], first: date, last: date, sql: str) -> Chart:
    points = {row["snapshot_date"]: _as_float(row["total"]) for row in rows}
    low = min(rows, key=lambda row: Decimal(row["total"]))
    high = max(rows, key=lambda row: Decimal(row["total"]))
    return Chart(
        note(
            "Amount of {}",
            wording.custom(rows[0]["asset_id"], is_custom=rows[0]["is_custom_asset"]),
        ),
        charts.over_time(
            points, first, last, f"Amount of {charts.fit_label(rows[0]['asset_id'])}, by night"
        ),
        note(
            "Highest {} ({}), lowest {} ({}), newest {} ({}).",
            wording.digits(high["total"]),
            wording.day(high["snapshot_date"]),
            wording.digits(low["total"]),
            wording.day(low["snapshot_date"]),
            wording.digits(rows[-1]["total"]),
            wording.day(rows[-1]["snapshot_date"]),
        ),
        sql,
    )


def _as_float(total: str) -> float:
    """Return an amount as the chart needs it; what a float cannot reach is drawn at its end."""
    return float(max(-LARGEST_DRAWN, min(LARGEST_DRAWN, Decimal(total))))
