"""Tests of the morning report: exact, complete, self-contained, and safe with any names."""

import base64
import doctest
import hashlib
import re
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.books import BUILT_AT, Amount, Night, night, row, written
from tests.support.priced_books import drop, publish, read_at
from warehouse.contract import model as counts
from warehouse.contract.ops import DRIFT, INEXACT, REJECTS, REQUESTS
from warehouse.database.publication import publish_version
from warehouse.query.read import run
from warehouse.report import charts, figures, formats, render
from warehouse.report.build import LATEST, ReportFailed, load_report, write_report
from warehouse.report.render import render_markdown, render_page
from warehouse.storage.layout import Layout

GOLDEN = Path(__file__).parents[2] / "golden" / "report.txt"
NOW = datetime(2026, 11, 20, 6, tzinfo=UTC)
NONE = formats.MISSING.striptags()
VOID = {"meta", "wbr", "path", "br"}
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section"),
    *("footer", "p", "h1", "h2", "h3", "div", "ul", "li", "a", "span", "b", "i", "bdi", "wbr"),
    *(
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "figure",
        "figcaption",
        "svg",
        "path",
        "text",
    ),
    *("details", "summary", "pre", "code", "time"),
}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><style>*{display:none}</style>",
    "]]></svg><svg onload=alert(1)>",
    "url(https://evil.invalid/x) @import",
    "{{ 7 * 7 }}{% raw %}{0}",
    "$\\frac{1}{0}$ &lt;b&gt; %s",
    "\u202egnp.exe\x1b[31m\x01",
    "名" * 40,
    "W" * 5000,
    "",
)


@dataclass
class Read(HTMLParser):
    """A strict parser that collects the tags, attributes, texts and queries of a page."""

    tags: set[str] = field(default_factory=set)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    style: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "pre":
            self.queries.append("")
        if tag in {"p", "h1", "h2", "h3", "tr", "caption", "figcaption", "pre"}:
            self.texts.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        if tag == "summary" and "td" in self.open:
            self.texts.append(" = ")
        if tag in {"td", "th", "text"}:
            self.texts.append(" | ")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        elif self.open and self.open[-1] == "pre":
            self.queries[-1] += data
        else:
            self.texts.append(data if data.strip() else " ")

    @property
    def text(self) -> str:
        """The text that a person reads, with one line for each row and paragraph."""
        lines = "".join(self.texts).splitlines()
        return "\n".join(" ".join(line.split()) for line in lines if line.strip(" |"))


def read(html: str) -> Read:
    """Parse a page, and assert that every element is closed."""
    found = Read()
    found.feed(html)
    found.close()
    assert found.open == []
    return found


def warehouse(home: Path, nights: Iterable[Night], **last: Any) -> Path:
    """Publish a warehouse with these nights. `last` sets values of the newest snapshot."""
    layout = Layout(home)
    made = list(nights)
    contents = written(layout, made)
    snapshots = [dict(snapshot) for snapshot in contents.snapshots]
    for one, snapshot in zip(made, snapshots, strict=True):
        start = datetime.strptime(one.snapshot_id, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        snapshot.update(
            started_at=start,
            finished_at=start + timedelta(seconds=63),
            decided_by="guards",
            decided_at=start,
            account_count=len(one.rows["accounts"]),
            request_count=26,
            byte_count=283_222,
        )
    if snapshots:
        snapshots[-1] |= last
    publish_version(
        layout,
        replace(contents, snapshots=tuple(snapshots)),
        version="a",
        built_at=BUILT_AT,
        program_version="0.0.0",
    )
    return layout.database


def page(
    database: Path,
    *,
    now: datetime = NOW,
    program_version: str = "0.0.0",
    pinned: Sequence[str] = (),
) -> str:
    """Render the page of a warehouse."""
    return render_page(load_report(database, now, pinned), program_version)


def shown(database: Path, now: datetime = NOW) -> Read:
    """Render the page of a warehouse and parse it."""
    return read(page(database, now=now))


def renamed(one: Night, **names: str) -> Night:
    """Return the night with different portfolio names."""
    portfolios = [
        line | {"name": names.get(line["portfolio_id"], line["name"])}
        for line in one.rows["portfolios"]
    ]
    return replace(one, rows={**one.rows, "portfolios": portfolios})


def closed(one: Night, venue: str) -> Night:
    """Return the night with one venue that does not trade."""
    venues = [
        line | {"trading_status": "suspended" if line["venue_id"] == venue else "trading"}
        for line in one.rows["venues"]
    ]
    return replace(one, rows={**one.rows, "venues": venues})


def two_nights() -> list[Night]:
    """Return two nights of a small book, with every kind of change and several problems."""
    old = [
        Amount("1.5"),
        Amount("2", "p2", "ETH", "v2"),
        Amount("1e30", "p2", "HUGE"),
        Amount("7", "p3", state="locked"),
    ]
    new = [
        Amount("1.750000000000000001"),
        Amount("4", asset="BTC", custom=True),
        Amount("2.00", "p2", "ETH", "v2"),
        Amount("0.5", "p2", "HUGE"),
        Amount("1234567.25", "p2", account="cold", bucket="staking", state="locked"),
        Amount("3", "p2", bucket="invented", state="lent"),
    ]
    before, now = "20261119T021500Z", "20261120T021500Z"
    day = date(2026, 11, 20)
    reject = row(
        REJECTS, day, snapshot_id=now, request_no=1, path="data[3].name", reason="text", value="7"
    )
    inexact = row(
        INEXACT,
        day,
        snapshot_id=now,
        request_no=1,
        path="data[0].balance",
        table_name="balances",
        column_name="amount",
        value="1e-30",
    )
    drift = row(
        DRIFT, day, snapshot_id=now, path="data[].note", kind="unknown field", word="note", seen=2
    )
    ops = {"rejects": [reject], "inexact": [inexact], "drift_by_night": [drift]}
    later = night(now, new, ops=ops)
    return [night(before, old), renamed(closed(later, "v2"), p2="Growth")]


def hostile_night(snapshot_id: str, **about: Any) -> Night:
    """Return a night in which everything with a name has a hostile name."""
    amounts = [
        Amount(f"{number}.5", name, name, name, name, state="locked" if number % 2 else "free")
        for number, name in enumerate(HOSTILE)
    ]
    amounts += [replace(amounts[0], bucket=name, text="-1e60") for name in HOSTILE[:5]]
    day = date.fromisoformat(snapshot_id[:8])
    about["ops"] = {
        "rejects": [
            row(REJECTS, day, snapshot_id=snapshot_id, path=name, reason=name, value=name)
            for name in HOSTILE
        ],
        "drift_by_night": [
            row(DRIFT, day, snapshot_id=snapshot_id, path=name, kind=name, word=name, example=name)
            for name in HOSTILE
        ],
        "requests": [
            row(
                REQUESTS, day, snapshot_id=snapshot_id, request_no=number, error=name, venue_id=name
            )
            for number, name in enumerate(HOSTILE)
        ],
    }
    made = night(snapshot_id, amounts, **about)
    called = {
        line["portfolio_id"]: f"{snapshot_id} {line['portfolio_id']}"
        for line in made.rows["portfolios"]
    }
    venues = [
        line | {"display_name": line["venue_id"], "trading_status": line["venue_id"]}
        for line in made.rows["venues"]
    ]
    portfolios = [line | {"name": called[line["portfolio_id"]]} for line in made.rows["portfolios"]]
    return replace(made, rows={**made.rows, "venues": venues, "portfolios": portfolios})


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish a warehouse with the two nights."""
    return warehouse(tmp_path_factory.mktemp("small"), two_nights())


def test_a_night_in_the_future_has_no_age(small: Path) -> None:
    """If the night is later than the current time, the page does not show its age.

    `demo --next` simulates the night of tomorrow, which is not read before the page is made.
    """
    found = shown(small, NOW - timedelta(days=1))
    assert "Read at 2026-11-20 02:15:00 UTC." in found.text


def test_a_small_report_matches_the_golden_file(small: Path) -> None:
    """The text of a small report is exactly the text of the golden file."""
    found = shown(small)
    text = re.sub(r"DuckDB [0-9.]+[0-9a-z]", "DuckDB 0.0.0", found.text) + "\n"
    assert text == GOLDEN.read_text("utf-8")


def test_rendering_twice_gives_the_same_page(small: Path) -> None:
    """The page does not depend on a clock or on chance, so rendering it twice gives equal pages."""
    pages = {page(small, now=NOW, program_version="0.0.0") for _ in range(2)}
    assert len(pages) == 1


def test_every_query_on_the_page_runs(small: Path) -> None:
    """Every query that the page shows can be run unchanged."""
    found = shown(small)
    assert len(found.queries) >= 15
    assert found.queries == [query for query in found.queries if run(small, query).columns]


def test_changes_on_the_page_keep_every_digit(small: Path) -> None:
    """Changes keep every digit, even beyond DECIMAL. Assets with the same name stay separate."""
    text = shown(small).text
    assert f"HUGE | 1.00e30 = 1{'0' * 30} | 0.5 | -1.00e30 = -{'9' * 30}.5" in text
    assert "+1234560.500000000000000001" not in text
    assert "1234567.25" in text
    assert "BTC custom | 0 | 4 | +4" in text


@given(st.from_regex(r"-?[0-9]{1,60}(\.[0-9]{1,60})?", fullmatch=True))
def test_grouping_changes_no_digit(amount: str) -> None:
    """Without its tags, a grouped amount is the original amount, whatever its length."""
    assert re.sub(r"<[^>]*>", "", formats.digits(amount)) == amount


@pytest.mark.parametrize("state", ["accepted", "held"])
def test_a_hostile_name_cannot_do_harm(tmp_path: Path, state: str) -> None:
    """Names appear only as text, and add no tag, attribute, style or address to the page."""
    nights = [
        hostile_night("20261118T021500Z"),
        renamed(night("20261119T021500Z", [Amount("1", HOSTILE[0])]), **{HOSTILE[0]: HOSTILE[1]}),
        hostile_night("20261120T021500Z", state=state, is_book=state == "accepted"),
    ]
    found = shown(warehouse(tmp_path, nights, reason=" ".join(HOSTILE), decided_by=HOSTILE[0]))
    assert found.tags <= TAGS
    names = {name for _, name, _ in found.attributes}
    assert not {name for name in names if name.startswith("on") or name in {"style", "src"}}
    assert "href" not in names
    assert "evil" not in found.style
    for _, name, value in found.attributes:
        if name not in {"content", "aria-label"}:
            assert not set(value) & set("<>\"'"), value
    for harm in HOSTILE[:4]:
        assert harm in found.text
    assert "\\u202egnp.exe\\x1b[31m\\x01" in found.text
    assert "W" * 700 not in found.text
    assert not re.search("[\u202e\x1b\x01]", found.text)


def test_the_markdown_report_has_exact_figures_and_no_links(small: Path, tmp_path: Path) -> None:
    """The report in Markdown has the headline, the exact figures and the findings.

    No name can end a table cell or create a link.
    """
    short = render_markdown(load_report(small, NOW))
    assert short.startswith(
        "**Last night's book is ready. The night of 2026-11-20 is complete and is the book.**"
    )
    assert f"| HUGE | 1{'0' * 30} | 0.5 | -{'9' * 30}.5 |" in short
    hostile = hostile_night("20261120T021500Z")
    database = warehouse(tmp_path, [hostile], reason=" ".join(HOSTILE))
    told = render_markdown(load_report(database, NOW))
    assert len(told) < 30_000
    unescaped = re.sub(r"(`+) .*? \1(?!`)", "", re.sub(r"\\[!-~]", "", told))
    assert not re.search(r"[<>]|\]\(|https?:|www\.", unescaped)
    for line in told.splitlines():
        assert not re.search("[\u202e\x1b\x01]", line)
        if line.startswith("| "):
            assert line.endswith(" |")


def test_the_page_makes_no_requests(small: Path) -> None:
    """The page requests nothing, because it has no address, script or import.

    Its own policy forbids everything except its style.
    """
    html = page(small, now=NOW, program_version="0.0.0")
    assert not re.search(r"https?:|url\(|@import|src=|<script|<link|<iframe|<img|javascript:", html)
    found = read(html)
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    policy = next(value for tag, name, value in found.attributes if "default-src" in value)
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_a_held_night_shows_its_reason_and_the_command(tmp_path: Path) -> None:
    """A held night is reported first, with its reason and the command to accept it.

    The figures are from the book before it.
    """
    first, second = two_nights()
    held = replace(second, state="held", is_book=False)
    reason = "BTC fell by 40 %, more than the 12 % of our own nights"
    text = shown(
        warehouse(tmp_path, [first, held], reason=reason, decided_by=None, decided_at=None)
    ).text
    head = text.partition("Last night")[0]
    sentence = (
        "is held, and a person must decide. The figures below are from the book of 2026-11-19."
    )
    assert sentence in head
    assert f"Reason: {reason} (not decided yet)" in head
    assert "nightbook accept 20261120T021500Z" in head
    assert "The book of 2026-11-19 is the first" in text
    assert "1 night in the book, 1 held." in text


def test_a_night_with_rejected_values_is_not_complete(tmp_path: Path) -> None:
    """The headline says how many values are not in the book, and never that it is complete."""
    text = shown(warehouse(tmp_path, two_nights(), reject_count=1320)).text
    headline = "is the book, but 1 320 values from the API are not in it."
    assert headline in text.partition("Needs attention")[0]
    assert "1320 values are not in the book of 2026-11-20" in text
    assert "is complete" not in text


@pytest.mark.parametrize(
    ("nights", "words"),
    [
        ([], ["No night has been taken yet.", "nightbook run"]),
        (
            [replace(two_nights()[0], state="held", is_book=False)],
            ["There is no book yet.", "accept 20261119T021500Z"],
        ),
        (
            [replace(two_nights()[0], state="rejected", is_book=False)],
            ["was rejected. There is no book yet."],
        ),
        (two_nights()[:1], ["is the first, so there is nothing to compare", "3 assets"]),
        ([night("20261120T021500Z", [])], ["0 assets in the book", "is complete"]),
    ],
    ids=["nothing", "held only", "rejected only", "one night", "empty book"],
)
def test_the_page_explains_a_missing_or_empty_book(
    tmp_path: Path, nights: list[Night], words: list[str]
) -> None:
    """Without nights or a book, with one night or with an empty book, the page says so."""
    text = shown(warehouse(tmp_path, nights)).text
    for said in words:
        assert said in text


def test_findings_are_new_old_or_resolved(tmp_path: Path) -> None:
    """A finding that the previous book also had is old, even if its figures changed.

    A finding that only the previous book had is resolved.
    """
    amounts = [Amount("2", "p2", "ETH", "v2"), Amount("5", asset="BTC")]
    nights = [
        closed(night("20261118T021500Z", [*amounts, Amount("1", "p3", "ETH", "v2")]), "v2"),
        closed(night("20261119T021500Z", [*amounts, Amount("1", "p2", "BTC", "v2")]), "v2"),
        closed(night("20261120T021500Z", [*amounts, Amount("1", "p1", "ETH", "v1")]), "v1"),
    ]
    second = shown(warehouse(tmp_path / "two", nights[:2])).text
    assert "0 resolved" not in second
    assert "old | ■ high | money at closed venue | Portfolio p2 | Venue v2 | BTC 1, ETH 2" in second
    third = shown(warehouse(tmp_path / "three", nights)).text
    assert "new | ■ high | money at closed venue | Portfolio p1 | Venue v1 | BTC 5, ETH 1" in third
    solved = third.partition("Resolved since the previous book")[2]
    assert "■ high | money at closed venue | Portfolio p2 | Venue v2 | Money (2 assets)" in solved


def test_a_rounded_amount_opens_to_its_exact_text() -> None:
    """A rounded amount opens to its exact text. An amount that is shown in full does not open."""
    assert "<details" not in formats.amount("1234567.25")
    for text in ("0.123456789", "1e40".replace("e40", "0" * 40), "1.000000000000000001"):
        shown_first, exact = formats.amount(text).split("</summary>")
        assert re.sub("<[^>]*>", "", exact) == text
        assert text not in re.sub("<[^>]*>", "", shown_first)


def test_table_and_chart_begin_with_the_most_widely_held_assets(tmp_path: Path) -> None:
    """The table and the chart show the same assets, beginning with the most widely held.

    An asset of two portfolios is before an asset that changed more. Pinned assets are first.
    """
    held = {"AAA": ["p1"], "LP-GLM-USDC": ["p1"], "BTC": ["p1", "p2"], "ETH": ["p2"]}
    nights = [
        night(
            f"202611{day}T021500Z",
            [
                Amount(str(100 + moved * (100 if asset == "AAA" else 1)), portfolio, asset)
                for asset, portfolios in held.items()
                for portfolio in portfolios
            ],
        )
        for day, moved in ((19, 0), (20, 1))
    ]
    text = shown(warehouse(tmp_path, nights)).text
    panel = text.partition("Totals that changed 4 assets")[2]
    assert re.findall(r"BTC|AAA|ETH|LP-GLM-USDC", panel)[:8] == [*MOVED, *MOVED]
    database = Layout(tmp_path).database
    pinned = page(database, now=NOW, program_version="0", pinned=["LP-GLM-USDC", "ETH"])
    panel = re.sub(r"<[^>]*>", "", pinned[pinned.index("Totals that changed") :])
    order = ["LP-GLM-USDC", "ETH", "BTC", "AAA"]
    assert re.findall(r"BTC|AAA|ETH|LP-GLM-USDC", panel)[:4] == order
    assert "Assets by accounts BTC" in text
    assert "Free and locked BTC" in text


MOVED = ["BTC", "AAA", "ETH", "LP-GLM-USDC"]


def test_a_late_page_reports_a_missing_night(small: Path) -> None:
    """A page that is made long after the last night says that a night is missing.

    A page of the same morning does not.
    """
    assert "a night is missing" not in shown(small).text
    late = shown(small, NOW + timedelta(hours=24)).text
    assert "The last night was read 27 h 45 min before this page was made" in late
    assert "This book is not from last night." in late


def test_rows_that_are_not_shown_are_counted(tmp_path: Path) -> None:
    """A long list is cut, and the sentence below it counts the rows that are not shown."""
    amounts = [Amount(str(number + 1), asset=f"A{number:02}") for number in range(40)]
    more = [replace(amount, text=f"{amount.text}.5") for amount in amounts]
    nights = [night("20261119T021500Z", amounts), night("20261120T021500Z", more)]
    text = shown(warehouse(tmp_path, nights)).text
    assert text.count("25 more rows not shown here. The query returns all rows.") == 3
    assert "15 more rows not shown here. The query returns all rows." in text
    assert "The change of each asset in percent of its total before" in text


def test_a_change_too_small_to_draw_is_in_the_table(tmp_path: Path) -> None:
    """A change that is too small for a float has no bar, but it is in the table."""
    texts = (f"1{'0' * 400}", f"1{'0' * 399}1")
    ids = ("20261119T021500Z", "20261120T021500Z")
    nights = [night(id_, [Amount(text)]) for id_, text in zip(ids, texts, strict=True)]
    text = shown(warehouse(tmp_path, nights)).text
    assert "1 total moved since the book of 2026-11-19" in text
    assert "BTC | < +0.01 %" in text


def test_a_failed_request_is_on_the_page(tmp_path: Path) -> None:
    """If a venue was not read, the page names the venue and the error."""
    first, second = two_nights()
    day = date(2026, 11, 20)
    failed = row(
        REQUESTS,
        day,
        snapshot_id=second.snapshot_id,
        request_no=3,
        operation="list_instruments",
        venue_id="v2",
        attempts=5,
        error="the connection was reset",
    )
    second = replace(second, ops={**second.ops, "requests": [failed]})
    text = shown(warehouse(tmp_path, [first, second], failed_request_count=1)).text
    assert "26, 1 of them failed" in text
    assert 'list_instruments | v2 | "" | \u2013 | 5 | the connection was reset' in text


def test_the_report_file_is_named_after_the_local_date(small: Path, tmp_path: Path) -> None:
    """The file is named after the date of `now` in its own time zone.

    The newest report also has a fixed name.
    """
    folder = tmp_path / "reports"
    now = datetime(2026, 11, 20, 23, 30, tzinfo=UTC).astimezone(timezone(timedelta(hours=9)))
    file = write_report(small, folder, now=now, program_version="0.0.0")
    assert file == folder / "2026-11-21.html"
    assert sorted(path.name for path in folder.iterdir()) == ["2026-11-21.html", LATEST]
    assert (folder / LATEST).read_bytes() == file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_missing_or_invalid_warehouse_gives_no_report(tmp_path: Path) -> None:
    """If the file is missing or is not a warehouse, an error says so and nothing is written."""
    missing, other = tmp_path / "nothing.duckdb", tmp_path / "other.duckdb"
    duckdb.connect(str(other)).close()
    with pytest.raises(FileNotFoundError, match="no warehouse"):
        write_report(missing, tmp_path / "reports", now=NOW, program_version="0.0.0")
    with pytest.raises(ReportFailed, match="No report was written"):
        write_report(other, tmp_path / "reports", now=NOW, program_version="0.0.0")
    assert not (tmp_path / "reports").exists()


@pytest.mark.torture
def test_the_page_of_a_year_is_small_and_quick(tmp_path: Path) -> None:
    """The page of a year with gaps is rendered in less than five seconds.

    Its file is smaller than a megabyte.
    """
    first = date(2025, 11, 20)
    days = [first + timedelta(days=number) for number in (0, 182, 364, 365)]
    nights = [hostile_night(f"{day:%Y%m%d}T021500Z") for day in days]
    database = warehouse(tmp_path, nights)
    start = time.process_time()
    html = page(database, now=NOW, program_version="0.0.0")
    assert time.process_time() - start < 5
    assert len(html.encode()) < 1_000_000
    assert "4 nights in the book, 362 no snapshot." in read(html).text


def test_a_chart_label_is_plain_text() -> None:
    """A label is a text node, so formulas and markup in it are only characters."""
    drawn = charts.bars(
        [charts.Bar(name, name == "", (1.0,), "1") for name in HOSTILE], "Bars", most="1"
    )
    found = read(drawn)
    assert found.tags == {"svg", "path", "text"}
    assert "$\\frac{1}{0}$ &l…" in found.text
    assert '"" (custom)' in found.text


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0], [-1e300, 1e300, 0.0], [0.0]])
def test_any_amounts_can_be_drawn(values: list[float]) -> None:
    """A chart can show one night, equal nights, and amounts at the limits of a float."""
    first = date(2026, 11, 1)
    points = {first + timedelta(days=2 * number): value for number, value in enumerate(values)}
    drawn = charts.over_time(points, first, max(points), "One asset")
    assert "nan" not in drawn
    assert "inf" not in drawn
    assert read(drawn).tags == {"svg", "path", "text"}


@pytest.mark.parametrize(
    "module", [counts, formats, figures, charts, render], ids=lambda module: module.__name__
)
def test_examples_in_docstrings_are_correct(module: ModuleType) -> None:
    """The examples in docstrings have the results that they show."""
    tried = doctest.testmod(module)
    assert tried.attempted
    assert not tried.failed


def test_the_page_escapes_unmarked_strings(small: Path) -> None:
    """The page escapes strings that are not marked as safe, such as a query with `<` in it."""
    html = page(small, now=NOW, program_version="<0>")
    assert "days_unchanged &lt;= 30" in html
    assert "nightbook &lt;0&gt;" in html


def test_a_missing_night_splits_the_line() -> None:
    """Consecutive nights are one line. A night without a book splits the line into two."""
    first = date(2026, 11, 1)
    for gap, lines in ((0, 1), (1, 2)):
        days = [first + timedelta(days=number + gap * (number > 1)) for number in range(4)]
        points = {day: float(number) for number, day in enumerate(days)}
        drawn = charts.over_time(points, days[0], days[-1], "One asset")
        assert drawn.count("s-main") == lines


def test_the_value_names_what_has_no_price(tmp_path: Path) -> None:
    """With a currency, the report has the value, its coverage, and each asset without a price."""
    drop(tmp_path, "a.csv", "BTC,,USD,10,2026-11-20,", "ETH,,USD,1,2026-11-01,")
    drop(tmp_path, "desks/a.csv", "portfolio_id,desk", "p1,Macro")
    amounts = [Amount("2000"), Amount("5", asset="ETH"), Amount("7", "p2", custom=True)]
    book = [read_at("20261120T021500Z", amounts)]
    layout = publish(tmp_path, book, currency="USD", max_age=3)
    text = render_markdown(load_report(layout.database, NOW))
    assert "20000 USD for 1 of 3 assets; 1 price is stale; 1 price is missing." in text
    assert "| ETH | stale | 2026-11-01 | 1 |" in text
    assert f"| BTC custom | missing | {NONE} | 1 |" in text
    assert "| Macro | 20000 | 2 | 0 | 1 |" in text
    assert f"| {NONE} | {NONE} | 1 | 1 | 0 |" in text  # the custom asset has no label
