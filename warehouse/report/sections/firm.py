"""A firm's report: which organisations the book holds, what they hold together, what is new."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from warehouse.contract.model import count_of
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.query.firm_state import FirmState
from warehouse.report import blocks, wording
from warehouse.report.answers import QueryRows, ask, query
from warehouse.report.blocks import Section, TableColumn, note, sentence_section
from warehouse.report.sections.findings import SEVERITIES, light
from warehouse.report.sections.findings import columns as findings_columns
from warehouse.report.sections.holdings import AMOUNTS

MOST = 40
_LATE = timedelta(days=2)  # of business dates: in one zone a night may be of the day before
_IN_BOOK = {"in the book": ("good", "●"), "not in it": ("bad", "■")}
_SOURCE = blocks.name_column("Organisation", "source")
_GATE = (
    _SOURCE,
    TableColumn("Tonight", lambda row: light(_IN_BOOK, [*_IN_BOOK][not row["is_in_book"]])),
    blocks.name_column("State", "state"),
    blocks.date("Last book", "as_of"),
    blocks.count("Accounts", "accounts"),
    blocks.count("Changed", "changed"),
    blocks.count("Findings", "findings"),
    blocks.count("High", "high"),
)
_HOLDINGS = (
    blocks.asset(),
    TableColumn(
        "Defined by",
        lambda row: wording.name(row["custom_of"]) if row["is_custom_asset"] else Markup(),
    ),
    *AMOUNTS,
    blocks.count("Organisations", "sources"),
    blocks.count("Accounts", "accounts"),
)
_MOVES = (
    _SOURCE,
    TableColumn("Severity", lambda row: light(SEVERITIES, row["severity"])),
    blocks.asset(),
    blocks.name_column("Move", "move"),
    blocks.amount("Before", "before_text"),
    blocks.amount("Now", "after_text"),
)
_SHARED = (
    blocks.name_column("Portfolio", "portfolio_name"),
    blocks.name_column("Id", "portfolio_id"),
    blocks.name_column("Seen by", "sources"),
    blocks.name_column("Counts for", "counted_for"),
    TableColumn("Settled", lambda row: "yes" if row["is_settled"] else "no"),
    TableColumn("Amounts", lambda row: "different" if row["differs"] else "equal"),
    blocks.date("Last", "snapshot_date"),
)
_FINDINGS = (_SOURCE, *findings_columns(with_assets=False))


def sources(connection: DuckDBPyConnection) -> QueryRows:
    """Return every organisation in the newest night that was to be taken."""
    return ask(connection, query("firm_sources"))


def headline(answered: QueryRows, state: FirmState, now: datetime) -> tuple[str, Markup]:
    """Return the state of the firm's night as one word for the eye, and in a sentence."""
    if not answered.rows:
        return "none", note("No organisation has published a night yet.")
    within = sum(row["is_in_book"] for row in answered.rows)
    day = answered.rows[0]["snapshot_date"]
    words = note(
        "The firm's book of <b>{}</b> holds <b>{} of {}</b>.",
        wording.day(day),
        f"{within:,}",
        count_of(len(answered.rows), "organisation"),
    )
    if now.date() - day >= _LATE:
        return "stale", note("<b>This book is not tonight's.</b> ") + words
    if within == len(answered.rows):
        if state.is_whole:
            return (HELD if state.waits else ACCEPTED), words
        return "stale", words
    is_held = any(row["state"] == HELD for row in answered.rows)
    return (HELD if is_held and within else "stale"), words


def warnings(answered: QueryRows, state: FirmState) -> Iterator[Markup]:
    """Yield what the figures lack, and what a person must know or decide."""
    for row in answered.rows:
        if not row["is_in_book"]:
            last = (
                note("its last book is of {}", wording.day(row["as_of"]))
                if row["as_of"]
                else note("it has no book yet")
            )
            yield note(
                "<b>{}</b> is in no figure of this page: {}, because {}; {}.",
                wording.name(row["source"]),
                row["state"],
                wording.printable(row["reason"] or "the guards stopped it", 300),
                last,
            )
        elif problem := state.problems.get(row["source"]):
            yield note(
                "<b>{}</b> is in these figures, but its home cannot be read: {}.",
                wording.name(row["source"]),
                wording.printable(problem, 300),
            )
    for name, (snapshot_id, count) in state.waiting.items():
        yield note(
            "<b>{}</b>: {} must be decided there, the newest is {}.",
            wording.name(name),
            count_of(count, "held night"),
            snapshot_id,
        )
    if state.unsettled_portfolios:
        yield note(
            "<b>{} in the books of several organisations.</b> Each counts once, for the first of "
            "them by name. firm.toml must say for which: see nightbook status.",
            f"{count_of(len(state.unsettled_portfolios), 'portfolio')} "
            f"{'is' if len(state.unsettled_portfolios) == 1 else 'are'}",
        )
    for name, since in state.removed.items():
        yield note(
            "<b>{}</b> is not in firm.toml since {}: no figure holds it.",
            wording.name(name),
            wording.day(since.date()),
        )


def shared_portfolios(connection: DuckDBPyConnection, state: FirmState) -> Section:
    """Return the portfolios that several organisations can see, and for which each counts."""
    title, total = "Portfolios of several organisations", len(state.shared)
    if not total:
        return sentence_section("shared", title, "none", "No portfolio is in two books.")
    undecided = len(state.unsettled_portfolios)
    figure = f"{undecided:,} to settle" if undecided else f"{total:,} settled"
    answered = ask(connection, query("firm_shared"), MOST)
    table = blocks.table("Each counts once", answered, _SHARED)
    return Section("shared", title, figure, tables=(table,))


def gate(answered: QueryRows) -> Section:
    """Return the table of all organisations: those that the book lacks come first."""
    missing = sum(not row["is_in_book"] for row in answered.rows)
    figure = f"{missing:,} missing" if missing else "all"
    sentence = note("The report of each organisation is in its own home.")
    table = blocks.table("In tonight's book", answered, _GATE)
    return Section("sources", "Organisations", figure, notes=(sentence,), tables=(table,))


def sections(connection: DuckDBPyConnection) -> Iterator[Section]:
    """Yield what the organisations of the book hold together, what moved and what was found."""
    held = ask(connection, query("firm_holdings"), MOST)
    missing = held.rows[0]["missing_sources"] if held.rows else None
    sentence = note(
        "Sums are exact, over the organisations of this book and no others. A portfolio that "
        "several of them can see counts once."
    )
    if missing is not None:
        sentence += note(" <b>Not in them: {}.</b>", wording.printable(missing, 300))
    yield Section(
        "holdings",
        "Holdings of the firm",
        count_of(held.count, "asset"),
        notes=(sentence,),
        tables=(blocks.table("By asset", held, _HOLDINGS),),
    )
    moves = ask(connection, query("firm_moves"), MOST)
    yield _list("moves", "Totals that moved", "move", moves, _MOVES)
    rows = ask(connection, query("firm_findings"), MOST)
    yield _list("findings", "Findings", "finding", rows, _FINDINGS)


def _list(
    key: str, title: str, noun: str, answered: QueryRows, columns: tuple[TableColumn, ...]
) -> Section:
    if not answered.count:
        return sentence_section(key, title, "none", "There are none.")
    table = blocks.table("The worst first", answered, columns)
    return Section(key, title, count_of(answered.count, noun), tables=(table,))
