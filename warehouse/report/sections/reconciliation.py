"""The open breaks of the reconciliation: by age from night to night, and by who has them."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from warehouse.contract.wording import count_of
from warehouse.report import blocks, charts, wording
from warehouse.report.answers import Nights, QueryRows, Record, ask, query
from warehouse.report.blocks import Chart, Section, note
from warehouse.report.charts import Bar

MOST = 12
UNASSIGNED = "Unassigned"
AGES = {
    "to_1_day": "0-1 days",
    "to_4_days": "2-4 days",
    "to_29_days": "5-29 days",
    "from_30_days": "30+ days",
}


def sections(connection: DuckDBPyConnection, dates: Nights) -> Iterator[Section]:
    """Yield the trends of open breaks; nothing where no break was ever open."""
    nights = ask(connection, query("breaks_over_time"))
    if not nights.rows:
        return
    owners = ask(connection, query("breaks_by_owner"))
    newest = nights.rows[0]
    sentence = note(
        "{} on {}, the newest night with one. The workbook of the reconciliation has them all.",
        count_of(newest["open_breaks"], "open break"),
        wording.day(newest["snapshot_date"]),
    )
    columns = (
        blocks.date("Night", "snapshot_date"),
        *(blocks.count(label, name) for name, label in AGES.items()),
        blocks.count("Total", "open_breaks"),
    )
    drawn = (_by_night(nights), *((_by_owner(owners),) if owners.rows else ()))
    yield Section(
        "reconciliation",
        "Book against ledger",
        _figure(newest, dates),
        notes=(sentence,),
        charts=drawn,
        tables=(blocks.table("Open breaks by age", nights, columns),),
    )


def _figure(newest: Record, dates: Nights) -> str:
    """Return how many are open; of an older night than the book, which night that is."""
    if newest["snapshot_date"] == dates.book_day:
        return count_of(newest["open_breaks"], "open break")
    return f"{newest['open_breaks']:,} on {newest['snapshot_date']}"


def _by_night(nights: QueryRows) -> Chart:
    counts = {row["snapshot_date"]: tuple(row[name] for name in AGES) for row in nights.rows}
    legend = Markup(" ").join(
        note('<span class="key">{} {}</span>', charts.colour_mark(colour, label), label)
        for colour, label in zip(charts.AGE_COLOURS, AGES.values(), strict=True)
    )
    return Chart(
        note("Open breaks by age, night by night"),
        charts.stacks(counts, "Open breaks by age, night by night"),
        legend
        + note(
            " Number of breaks on the left, nights below; one without a bar has no open "
            "break, or was not compared."
        ),
        nights.sql,
    )


def _by_owner(owners: QueryRows) -> Chart:
    lines = [
        Bar(
            row["owner"] or UNASSIGNED,
            is_custom=False,
            parts=(float(row["open_breaks"]),),
            figure=f"{row['open_breaks']:,}",
        )
        for row in owners.rows[:MOST]
    ]
    return Chart(
        note("Open breaks by owner"),
        charts.bars(
            lines, "Open breaks by owner", most=f"{owners.rows[0]['open_breaks']:,} breaks"
        ),
        note("Who takes care of them, on the newest night with a break."),
        owners.sql,
    )
