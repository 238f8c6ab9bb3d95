"""What a person should look at: findings, freshness, what the document lacks, rejects."""

from collections import Counter
from dataclasses import dataclass

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from warehouse.contract.model import count_of, literal
from warehouse.report import blocks, wording
from warehouse.report.answers import Nights, QueryRows, Record, ask, query
from warehouse.report.blocks import Section, TableColumn, note, sentence_section, with_rows

MOST = 25
_LONG = 200
_LIGHTS = {
    "read": ("good", "●"),
    "fresh": ("good", "●"),
    "ageing": ("warn", "▲"),
    "old": ("bad", "■"),
    "not read": ("bad", "■"),
    "no time": ("muted", "○"),
}
_FRESHNESS = (
    TableColumn("Light", lambda row: light(_LIGHTS, row["light"])),
    blocks.name_column("What", "kind"),
    TableColumn(
        "Name", lambda row: wording.name(row["id"] if row["name"] is None else row["name"])
    ),
    blocks.count("Days", "days_unchanged"),
    blocks.moment("Changed", "updated_at"),
    blocks.date("Read last", "stale_since"),
)
_REFUSALS = (
    blocks.name_column("Where", "path"),
    blocks.name_column("Expected", "reason"),
    blocks.name_column("Came", "value"),
    TableColumn("Money", lambda row: "yes" if row["carries_money"] else "no"),
    blocks.count("Request", "request_no"),
)
_INEXACT = (
    TableColumn("Column", lambda row: f"{row['table_name']}.{row['column_name']}"),
    blocks.name_column("Where", "path"),
    blocks.name_column("Text", "value"),
)
SEVERITIES = {"high": ("bad", "■"), "medium": ("warn", "▲"), "low": ("muted", "●")}


def light(colours: dict[str, tuple[str, str]], value: str) -> Markup:
    """Return a coloured mark with its word; the shape tells it without the colour."""
    colour, mark = colours.get(value, ("muted", "○"))
    return note(
        '<span class="lit"><span class="light {}">{}</span> {}</span>',
        colour,
        mark,
        wording.name(value),
    )


@dataclass(frozen=True, slots=True)
class News:
    """The findings of the newest book, each new or old, and those that are solved since."""

    current: QueryRows
    solved: QueryRows
    is_first: bool

    def count(self, since: str) -> int:
        """Return how many are new, or old."""
        return sum(row["since"] == since for row in self.current.rows)


def news(connection: DuckDBPyConnection, nights: Nights) -> News | None:
    """Return the findings against those of the book before; None without a book."""
    if nights.book is None:
        return None
    before = "null" if nights.before_day is None else literal(nights.before_day.isoformat())
    current, solved = (
        ask(connection, query(name, before=f"{before}::date", most=MOST))
        for name in ("findings", "findings_solved")
    )
    return News(current, solved, nights.before_day is None)


def columns(*, with_assets: bool = True) -> tuple[TableColumn, ...]:
    """Return what is shown of a finding."""
    return (
        TableColumn("Severity", lambda row: light(SEVERITIES, row["severity"])),
        TableColumn("Kind", lambda row: row["kind"].replace("_", " ")),
        blocks.name_or_id("Portfolio", "portfolio"),
        blocks.name_or_id("Venue", "venue"),
        *((TableColumn("Asset and amount", _assets, is_number=True),) if with_assets else ()),
        TableColumn("Finding", lambda row: wording.printable(row["words"], _LONG)),
    )


def _assets(row: Record) -> Markup:
    """Return the first assets that a finding is about, with what there is of them, or was."""
    if not row["assets"]:
        return wording.MISSING
    lines = [
        wording.custom(held["asset_id"], is_custom=held["is_custom_asset"])
        + Markup(" ")
        + wording.amount(held["amount"])
        for held in row["assets"]
    ]
    left = row["asset_count"] - len(lines)
    lines += [note("and {} more", f"{left:,}")] if left else []
    # The comma is for texts without lines, like the report in short.
    return Markup('<span class="comma">, </span>').join(
        note('<div class="held">{}</div>', line) for line in lines
    )


def findings(news: News | None) -> Section:
    """Return what only this API can tell, the worst first."""
    if news is None:
        return sentence_section("findings", "Findings", "no book", "There is no book yet.")
    answered = news.current
    if not answered.count and not news.solved.count:
        return sentence_section("findings", "Findings", "none", "There are none.")
    counted = Counter(row["severity"] for row in answered.rows)
    severities = Markup(", ").join(
        note("{} {}", f"{counted[severity]:,}", light(SEVERITIES, severity))
        for severity in SEVERITIES
        if counted[severity]
    )
    since = TableColumn("Since", lambda row: row["since"])
    solved = columns(with_assets=False)  # of which there is no amount any more
    worst = next((severity for severity in SEVERITIES if counted[severity]), None)
    return Section(
        "findings",
        "Findings",
        f"{counted[worst]:,} {worst}" if worst else "none",
        notes=(severities,) if worst else (note("There are none any more."),),
        tables=with_rows(
            blocks.table("The worst first", answered, (since, *columns()), MOST),
            blocks.table("Solved since the book before", news.solved, solved, MOST),
        ),
    )


def freshness(connection: DuckDBPyConnection, nights: Nights) -> Section:
    """Return how old each portfolio and venue was when it was read."""
    if nights.book is None:
        return sentence_section("freshness", "Freshness", "no book", "There is no book yet.")
    answered = ask(connection, query("freshness"))
    counted = Counter((row["kind"], row["light"]) for row in answered.rows)
    notes = [
        note(
            "A portfolio by the time at which the API says that it last changed: fresh up to a "
            "day, ageing up to thirty, old beyond, which is not wrong. A venue by whether its "
            "instruments were read last night; those of one not read are of an earlier night."
        )
    ]
    for kind in ("portfolio", "venue"):
        lights = [
            note("{} {}", f"{counted[kind, name]:,}", light(_LIGHTS, name))
            for name in _LIGHTS
            if counted[kind, name]
        ]
        notes.append(note("{}s: {}", kind.capitalize(), Markup(", ").join(lights or ["none"])))
    return Section(
        "freshness",
        "Freshness",
        _oldest(counted),
        notes=tuple(notes),
        tables=with_rows(blocks.table("The oldest first", answered, _FRESHNESS, MOST)),
    )


def _oldest(counted: Counter[tuple[str, str]]) -> str:
    unread = counted["venue", "not read"]
    if unread:
        return f"{unread:,} not read"
    portfolios = sum(count for (kind, _), count in counted.items() if kind == "portfolio")
    return f"{counted['portfolio', 'fresh']:,} of {portfolios:,} fresh"


def unknown(connection: DuckDBPyConnection, nights: Nights) -> Section:
    """Return fields, words and balance kinds that the API's document does not list."""
    answered = ask(connection, query("drift"), MOST)
    title = "Unknown fields and values"
    if not answered.count:
        return sentence_section(
            "unknown", title, "none", "The API sent nothing that its document lacks."
        )
    last = None if nights.last is None else nights.last["snapshot_date"]

    def show_first_day(row: Record) -> Markup:
        mark = note(' <span class="mark">new</span>') if row["first_seen"] == last else Markup()
        return wording.day(row["first_seen"]) + mark

    columns = (
        blocks.name_column("What", "kind"),
        blocks.name_column("Name", "word"),
        blocks.name_column("Where", "path"),
        TableColumn("First seen", show_first_day),
        blocks.date("Last seen", "last_seen"),
        blocks.count("Times", "seen"),
        blocks.name_column("Example", "example"),
    )
    sentence = note("Kept as they came. {} in all.", count_of(answered.count, "thing"))
    table = blocks.table("The newest first", answered, columns)
    return Section("unknown", title, f"{answered.count:,}", notes=(sentence,), tables=(table,))


def rejects(connection: DuckDBPyConnection, nights: Nights) -> Section:
    """Return what of last night breaks the contract, and what is kept as text only."""
    title = "Rejects"
    if nights.last is None:
        return sentence_section("rejects", title, "none", "There are none yet.")
    of_last_night = f"where snapshot_id = {literal(nights.last['snapshot_id'])}"
    refused = ask(
        connection,
        "select request_no, path, reason, left(value, 200) as value, carries_money\n"
        f"from ops.rejects\n{of_last_night}\norder by carries_money desc, request_no, path",
        MOST,
    )
    inexact = ask(
        connection,
        "select table_name, column_name, path, left(value, 200) as value\n"
        f"from ops.inexact\n{of_last_night}\norder by request_no, path",
        MOST,
    )
    notes = (
        note("{} last night broke the contract.", count_of(refused.count, "thing")),
        note(
            "{} kept as text only, for DECIMAL(38,18) does not hold it exactly.",
            count_of(inexact.count, "value"),
        ),
    )
    tables = with_rows(
        blocks.table("What broke the contract", refused, _REFUSALS),
        blocks.table("Kept as text only", inexact, _INEXACT),
    )
    figure = f"{refused.count:,}" if refused.count else "none"
    return Section("rejects", title, figure, notes=notes, tables=tables)
