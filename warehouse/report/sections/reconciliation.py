"""The open breaks of the reconciliation: by age from night to night, and by who has them."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from warehouse.contract.model import count_of
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
    """Yield the extent of the newest reconciliation and the trends of open breaks, if any."""
    reconciled = ask(connection, query("reconciled"))
    if not reconciled.rows:
        return
    newest = reconciled.rows[0]
    nights = ask(connection, query("breaks_over_time"))
    notes = [extent(newest)]
    drawn: tuple[Chart, ...] = ()
    if nights.rows:
        owners = ask(connection, query("breaks_by_owner"))
        drawn = (_by_night(nights), *((_by_owner(owners),) if owners.rows else ()))
        last = nights.rows[0]
        notes.append(
            note(
                "{} on {}, the newest night with one. The workbook of the reconciliation has all.",
                count_of(last["open_breaks"], "open break"),
                wording.day(last["snapshot_date"]),
            )
        )
    columns = (
        blocks.date("Night", "snapshot_date"),
        *(blocks.count(label, name) for name, label in AGES.items()),
        blocks.count("Total", "open_breaks"),
    )
    table = blocks.table("Open breaks by age", nights, columns)
    yield Section(
        "reconciliation",
        "Book against ledger",
        _figure(newest, dates),
        notes=tuple(notes),
        charts=drawn,
        tables=(table,) if nights.rows else (),
    )


def is_partial(newest: Record) -> bool:
    """Return whether the newest reconciliation compared less than the whole book, or nothing."""
    compared, positions = newest["positions_compared"], newest["positions"]
    return bool(not compared or compared != positions or newest["pending_breaks"])


def extent(newest: Record) -> Markup:
    """Return how many positions of the book the newest reconciliation compared."""
    compared, positions = newest["positions_compared"], newest["positions"]
    words = count_of(compared, "position")
    if compared != positions:
        words = f"{compared:,} of {count_of(positions, 'position')}"
    sentence = note("{} compared on {}.", words, wording.day(newest["snapshot_date"]))
    if newest["pending_breaks"]:
        pending = count_of(newest["pending_breaks"], "open break")
        sentence += note(" Not compared: {} of earlier nights.", pending)
    return sentence


def _figure(newest: Record, dates: Nights) -> str:
    """Return how many are open; of an older night than the book, which night that is."""
    if not newest["positions_compared"]:
        return f"nothing compared on {newest['snapshot_date']}"
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
