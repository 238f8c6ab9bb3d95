"""The first screen: what waits for a decision, what is new since the book before, what moved."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from warehouse.contract.model import count_of
from warehouse.contract.states import COMPLETE
from warehouse.report import blocks, wording
from warehouse.report.answers import Nights, QueryRows, ask, query
from warehouse.report.blocks import Section, TableColumn, note
from warehouse.report.sections import changes, findings, reconciliation
from warehouse.report.sections.findings import News

MOST = 4
MOVES = 6


def panels(
    connection: DuckDBPyConnection, nights: Nights, moves: QueryRows | None, news: News | None
) -> Iterator[Section]:
    """Yield the panels of the first screen."""
    yield _waiting(connection)
    if news is not None:
        yield _news(news)
    if moves is not None:
        yield _moves(nights, moves)


def _waiting(connection: DuckDBPyConnection) -> Section:
    """Return the nights that nobody has decided on, and the open breaks."""
    title = "Waits for a decision"
    waiting = ask(connection, query("waiting"), MOST)
    owners = ask(connection, query("breaks_by_owner"))
    breaks = sum(row["open_breaks"] for row in owners.rows)
    reconciled = ask(connection, query("reconciled")).rows
    notes = [reconciliation.extent(row) for row in reconciled if reconciliation.is_partial(row)]
    if breaks:
        unowned = sum(row["open_breaks"] for row in owners.rows if row["owner"] is None)
        notes.append(
            note(
                "{} of the book of {} against the ledger, {} of them unassigned.",
                count_of(breaks, "open break"),
                wording.day(owners.rows[0]["snapshot_date"]),
                f"{unowned:,}",
            )
        )
    if not waiting.count:
        notes.insert(0, note("No night waits."))
        figure = count_of(breaks, "break") if breaks else "nothing"
        return Section("waiting", title, figure, notes=tuple(notes))
    columns = (
        blocks.date("Night", "snapshot_date"),
        TableColumn("State", lambda row: _STATES.get(row["state"], row["state"])),
        TableColumn("Why", lambda row: wording.printable(row["reason"] or "", 300)),
        TableColumn(
            "What to type", lambda row: note("<code>nightbook accept {}</code>", row["snapshot_id"])
        ),
    )
    table = blocks.table("Nights without a decision", waiting, columns)
    figure = count_of(waiting.count, "night")
    return Section("waiting", title, figure, notes=tuple(notes), tables=(table,))


_STATES = {COMPLETE: "not judged yet"}


def _news(news: News) -> Section:
    """Return the findings that the book before did not have, the worst first."""
    new = tuple(row for row in news.current.rows if row["since"] == "new")
    old, solved = news.count("old"), news.solved.count
    sentence = note("The first book: every finding of it is new.")
    if not news.is_first:
        sentence = note(
            "Against the book before: <b>{} new</b>, {} solved, {} as before.",
            f"{len(new):,}",
            f"{solved:,}",
            f"{old:,}",
        )
    answered = QueryRows(news.current.sql, new, len(new))
    tables = (blocks.table("New, the worst first", answered, findings.columns(), MOST),)
    return Section(
        "news",
        "New findings",
        f"{len(new):,}" if new else "none",
        notes=(sentence,),
        tables=tables if new else (),
    )


def _moves(nights: Nights, moves: QueryRows) -> Section:
    """Return the assets whose total moved, by share and amount; table and chart are of the same."""
    moved = changes.moves(moves)
    rows = tuple({**move.row, "share": changes.signed_share(move.share)} for move in moved)
    sentence = note(
        "{} moved since the book of {}{}.",
        count_of(len(moved), "total") if moved else "No total",
        wording.day(nights.before_day),
        ", the most widely held first; an underlined figure is rounded and opens to the exact text"
        if moved
        else "",
    )
    columns = (
        blocks.asset(),
        TableColumn("Share", lambda row: row["share"], is_number=True),
        blocks.amount("Delta", "delta", signed=True),
        blocks.amount("Now", "now"),
    )
    table = blocks.table(
        "Moved, the most widely held first", QueryRows(moves.sql, rows, len(rows)), columns, MOVES
    )
    return Section(
        "moved",
        "What moved",
        count_of(len(moved), "asset") if moved else "nothing",
        notes=(sentence,),
        charts=tuple(changes.swings(moved[:MOVES], moves.sql)),
        tables=(table,) if rows else (),
    )
