"""Tests of `nightbook serve`: the pages say what the book says, and refuse everything else."""

import asyncio
import csv
import io
import json
import shutil
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
import pytest

from assets.commands.serve import application
from assets.nightbook import Nightbook
from pipelines.sandbox.server import serve
from tests.support.books import Amount, Night, night
from tests.support.browser import LOOKS, PRINTED, Look, chromium
from tests.support.operator_home import Keeper
from tests.support.priced_books import drop, publish
from warehouse.pages import version as version_module
from warehouse.pages.tables import LISTINGS
from warehouse.pages.version import Version
from warehouse.query.connect import open_database
from warehouse.storage.layout import Layout

FIRST, SECOND, THIRD = "20261119T021500Z", "20261120T021500Z", "20261121T021500Z"
SCRIPT, INJECTION, FORMULA = "<script>alert(1)</script>", "' or 1=1 --", "=cmd|' /C calc'!A0"
TURNED, LONG = "\u202egnp.exe\u2066\x00\x1b[31m", "x" * 10_000
NAMES = (SCRIPT, INJECTION, FORMULA, TURNED, LONG, "a&b=c#d?e%2f+", "../../etc/passwd", "{{7*7}}")
# From the smallest to the largest. Doubles, text and DECIMAL(38,18) sort them in different orders.
AMOUNTS = (
    *("-" + "9" * 41, "-10", "-2.55", "-2.5", "-2", "0.000000000000000000001", "0.1", "9", "10"),
    *("100000000000000000000.000000000000000001", "100000000000000000000.000000000000000002"),
    "9" * 41 + ".5",
)
NEEDED = {
    "search": {"q": "a"},
    "asset_history": {"asset_id": SCRIPT, "is_custom_asset": "false"},
    "venue_history": {"venue_id": INJECTION},
}
SAFE = {
    "content-security-policy": "default-src 'none'; style-src 'sha256-",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Got:
    """The status, the headers and the body of a response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8-sig")


@dataclass(frozen=True, slots=True)
class Site:
    """The pages of one home, without a socket."""

    application: Any
    layout: Layout

    def get(self, address: str, /, method: str = "GET", **headers: str) -> Got:
        """Send one request, and return the response."""
        path, _, query = address.partition("?")
        sent: list[Any] = []
        given = {"host": "127.0.0.1:3001"} | {k.replace("_", "-"): v for k, v in headers.items()}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in given.items()],
        }

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            await asyncio.sleep(3600)

        asyncio.run(self.application(scope, receive, send))
        found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return Got(sent[0]["status"], found, b"".join(part.get("body", b"") for part in sent[1:]))

    def json(self, page: str, **values: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        got = self.get(address(f"{page}.json", values))
        assert got.status == 200, got.text
        rows: list[dict[str, Any]] = json.loads(got.body)
        return rows

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query on the book without any of our code."""
        with duckdb.connect() as connection:
            connection.execute(f"attach '{self.layout.database}' as book (read_only)")
            connection.execute("use book")
            return connection.execute(query).fetchall()


def address(page: str, values: dict[str, str]) -> str:
    """Return the address of a page."""
    return f"/{page}?{urlencode(values)}"


def site_of(home: Path, *names: str) -> Site:
    """Return the pages of a home."""
    nightbook = Nightbook(lambda: {"NIGHTBOOK_HOME": str(home)}).with_fixed_variables()
    return Site(application(nightbook, names)[0], Layout(home))


def hostile(snapshot_id: str, amounts: tuple[str, ...] = AMOUNTS) -> Night:
    """Return a night in which every name is hostile."""

    def name(number: int) -> str:
        return NAMES[number % len(NAMES)]

    made = night(
        snapshot_id,
        [
            Amount(text, f"p{n}", name(n), name(n + 1), name(n + 2), custom=n >= len(NAMES))
            for n, text in enumerate(amounts)
        ],
    )
    portfolios = [{**row, "name": name(n)} for n, row in enumerate(made.rows["portfolios"])]
    return replace(made, rows={**made.rows, "portfolios": portfolios})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return the pages of two hostile nights with prices, which tests must not change."""
    home = tmp_path_factory.mktemp("serve") / "home"
    drop(home, "a.csv", f'"{SCRIPT}",false,USD,2.5,2026-11-19,x')
    nights = [hostile(FIRST), hostile(SECOND, ("7", *AMOUNTS[1:]))]
    publish(home, nights, currency="USD")
    return site_of(home)


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., Site]:
    """Return a function that publishes nights in a home of the test, and returns its pages."""

    def make(*nights: Night, version: str = "a") -> Site:
        publish(tmp_path / "home", nights, version)
        return site_of(tmp_path / "home")

    return make


@pytest.mark.parametrize("page", LISTINGS)
def test_each_table_is_a_page_a_csv_and_a_json_file(site: Site, page: str) -> None:
    """A page is safe HTML, and both files have the same rows, of which the page has the number."""
    query = NEEDED.get(page, {})
    shown = site.get(address(page, query))
    assert shown.status == 200, shown.text
    assert "<script" not in shown.text
    assert not any(mark in shown.text for mark in ("\u202e", "\u2066", "\x00", "\x1b", "49</"))
    assert all(shown.headers[name].startswith(text) for name, text in SAFE.items())
    rows = site.json(page, **query)
    assert f"{len(rows)} row{'s' * (len(rows) != 1)}" in shown.text
    file = site.get(address(f"{page}.csv", query))
    assert file.headers["content-disposition"] == f'attachment; filename="{page}.csv"'
    head, *lines = csv.reader(io.StringIO(file.text, newline=""))
    assert [len(line) for line in lines] == [len(head)] * len(rows)
    for line, row in zip(lines, rows, strict=True):
        texts = [
            "" if v is None else str(v).lower() if v in (True, False) else v for v in row.values()
        ]
        assert [cell.replace("'", "") for cell in line] == [str(t).replace("'", "") for t in texts]
        assert not any(cell.startswith(("=", "@", "+")) for cell in line)


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("holdings", "select portfolio_id, asset_id, total_text from holdings"),
        ("accounts", "select portfolio_id, account_name, total_text from account_balances"),
        ("assets", "select asset_id, is_custom_asset, total_text from holdings_by_asset"),
        ("venue_holdings", "select venue_id, asset_id, total_text from holdings_by_venue"),
        ("portfolios", "select portfolio_id, name from portfolios"),
        ("changes", "select portfolio_id, change, delta_text from changes"),
        ("value_history", "select snapshot_date::varchar, value_text from value_by_night('USD')"),
    ],
)
def test_a_file_equals_the_warehouse(site: Site, page: str, query: str) -> None:
    """A JSON file has the rows and the exact texts of the warehouse."""
    names = {"name": "portfolio_name", "snapshot_date::varchar": "snapshot_date"}
    columns = query.removeprefix("select ").partition(" from ")[0].split(", ")
    keys = [names.get(column, column) for column in columns]
    rows = [tuple(row[key] for key in keys) for row in site.json(page)]
    assert sorted(rows, key=repr) == sorted(site.ask(query), key=repr)
    assert rows


def test_an_asset_without_a_price_has_no_value(site: Site) -> None:
    """A missing price is a gap and never 0, and the start page counts the gaps."""
    values = {
        row["asset_id"]: row["value_text"] for row in site.json("assets") if row["value_text"]
    }
    assert values == {SCRIPT: "17.5"}
    unpriced = len(AMOUNTS) - 1
    assert f"{unpriced} without a price" in site.get("/").text
    [row] = site.json("value_history", sort="snapshot_date", order="desc")[:1]
    assert (row["value_text"], row["unpriced_assets"]) == ("17.5", unpriced)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_amounts_are_sorted_exactly(site: Site, order: str) -> None:
    """A page and a file sort amounts by value, beyond the digits of DECIMAL and of doubles."""
    rows = site.json("accounts", sort="total", order=order, as_of="2026-11-19")
    assert [row["total_text"] for row in rows] == list(AMOUNTS[:: 1 if order == "asc" else -1])
    assert sorted(map(Decimal, AMOUNTS)) == list(map(Decimal, AMOUNTS))
    shown = site.get(f"/accounts?sort=total&order={order}&as_of=2026-11-19").text
    places = [shown.index(f"portfolio_id={row['portfolio_id']}&") for row in rows]
    assert places == sorted(places)


def test_filters_are_exact_and_links_lead_back(site: Site) -> None:
    """A hostile name in the address is a value: only its own rows are found."""
    for number, name in enumerate(NAMES):
        values = {"asset_id": name, "is_custom_asset": "false"}
        rows = site.json("holdings", **values)
        assert [(row["portfolio_id"], row["asset_id"]) for row in rows] == [(f"p{number}", name)]
        assert site.get(address("asset_history", values)).status == 200
        found = site.json("search", q=name[:200])
        assert name in [row["id"] for row in found if row["kind"] == "asset"]


HOST, ORIGIN = "evil.example", "http://evil.example"
TABLE = "/holdings.csv"
WORDS = (INJECTION, "1; drop table x", "../../../etc/passwd", "\u202e", "x" * 9000, "$day", "%00")
REFUSED: list[tuple[int, str, str, dict[str, str]]] = [
    *((403, "GET", TABLE, {"host": host}) for host in (HOST, f"127.0.0.1.{HOST}", "", f"u@{HOST}")),
    *((403, "GET", TABLE, {"origin": origin}) for origin in (ORIGIN, "null", "http://127.0.0.1:1")),
    *((403, "GET", TABLE, {"sec_fetch_site": site}) for site in ("cross-site", "same-site", "x")),
    *(
        (405, method, TABLE, {})
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
    ),
    *(
        (404, "GET", path, {})
        for path in ("/../etc/passwd", "/x", "//", "/holdings/", "/trace.csv")
    ),
    *(
        (404, "GET", path, {})
        for path in ("/holdings.csv.csv", "/HOLDINGS", "/.csv", "/a\x00", "/é")
    ),
    *((400, "GET", f"{TABLE}?{query}", {}) for query in ("x=1", "page=1", "asset_id=%ff", "q=a")),
    (400, "GET", f"{TABLE}?asset_id=a&asset_id=b", {}),
    *((400, "GET", f"/holdings?page={page}", {}) for page in ("0", "-1", "1e9", "1;", "9" * 50)),
    (404, "GET", "/holdings?page=2", {}),
    (404, "GET", f"{TABLE}?as_of=2000-01-01", {}),
    *((400, "GET", path, {}) for path in ("/search", "/trace", "/asset_history?asset_id=a")),
    *((400, "GET", address("holdings.csv", {"sort": word}), {}) for word in WORDS),
    *((400, "GET", address("holdings.csv", {"order": word}), {}) for word in WORDS),
    *((400, "GET", address("holdings.csv", {"as_of": word}), {}) for word in WORDS),
    *((400, "GET", address("changes.csv", {"since": word}), {}) for word in WORDS),
    *((400, "GET", address("assets.csv", {"is_custom_asset": word}), {}) for word in WORDS),
    *((404, "GET", address("holdings.csv", {"portfolio_id": word}), {}) for word in WORDS),
    *((404, "GET", address("accounts", {"venue_id": f"{word}!"}), {}) for word in WORDS),
    (400, "GET", "/changes?since=2026-11-20", {}),
    (404, "GET", "/changes?as_of=2026-11-19", {}),
]


@pytest.mark.parametrize(("status", "method", "path", "headers"), REFUSED)
def test_hostile_requests_are_refused(
    site: Site, status: int, method: str, path: str, headers: dict[str, str]
) -> None:
    """A request of another page, or for something that does not exist, gets a sentence."""
    got = site.get(path, method, **headers)
    assert got.status == status, got.text
    assert "etag" not in got.headers
    assert "." in got.text
    assert "Traceback" not in got.text
    assert all(got.headers[name].startswith(text) for name, text in SAFE.items())


def test_a_proxy_name_is_accepted_only_if_it_is_given(site: Site) -> None:
    """With `--host-name`, a proxy's name is accepted."""
    proxied = site_of(site.layout.home, "books.example")
    assert proxied.get("/", host="books.example").status == 200
    assert site.get("/", host="books.example").status == 403


def test_an_etag_names_the_version_and_the_request(plain: Callable[..., Site]) -> None:
    """An unchanged table gives 304. After a publish, the tag and the rows are both new."""
    first = night(FIRST, [Amount("1")])
    site = plain(first)
    before = site.get("/holdings.csv")
    tag = before.headers["etag"]
    same = site.get("/holdings.csv", if_none_match=f'"x", W/{tag}')
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    assert site.get("/holdings.csv?sort=total", if_none_match=tag).status == 200
    assert site.get("/holdings.json", if_none_match=tag).status == 200
    head = site.get("/holdings.csv", "HEAD")
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", tag)
    publish(site.layout.home, [first, night(SECOND, [Amount("2")])], "b")
    after = site.get("/holdings.csv", if_none_match=tag)
    assert (after.status, "2026-11-20" in after.text) == (200, True)
    assert after.headers["etag"] != tag
    assert site.get("/holdings.csv?as_of=2026-11-19").text == before.text


def test_a_download_keeps_its_version(plain: Callable[..., Site]) -> None:
    """A download that began before a publish ends with its own rows, even if they were deleted."""
    many = [Amount(str(n), account=f"a{n}") for n in range(3000)]
    site = plain(night(FIRST, many))
    pages = site.application.application
    scope = {"method": "GET", "path": "/accounts.json", "query_string": b"", "headers": []}
    begun = pages._answer(scope)
    part = next(begun.body)
    publish(site.layout.home, [night(SECOND, many[:1])], "b")
    shutil.rmtree(site.layout.warehouse / "versions" / "a")
    rows = json.loads(part + b"".join(begun.body))
    assert {row["snapshot_date"] for row in rows} == {"2026-11-19"}
    assert len(rows) == 3000
    assert [row["snapshot_date"] for row in site.json("accounts")] == ["2026-11-20"]


def test_readers_and_a_publish_do_not_disturb_each_other(plain: Callable[..., Site]) -> None:
    """Twenty readers get no error during a publish, and a tag always has the same rows."""
    first = night(FIRST, [Amount("1")])
    site = plain(first)
    pages = ("/", "/holdings.csv", "/accounts.json", "/assets", "/holdings?sort=total")

    def read(number: int) -> list[tuple[str, Got]]:
        chosen = [pages[(number + turn) % len(pages)] for turn in range(10)]
        return [(page, site.get(page)) for page in chosen]

    with ThreadPoolExecutor(20) as readers:
        begun = readers.map(read, range(20))
        for number, version in enumerate("bcd", 1):
            last = night(f"2026112{number}T021500Z", [Amount(str(number))])
            publish(site.layout.home, [first, last], version)
        got = [found for several in begun for found in several]
    assert {found.status for _, found in got} == {200}
    bodies: dict[tuple[str, str], set[bytes]] = {}
    for page, found in got:
        if "etag" in found.headers:
            bodies.setdefault((page, found.headers["etag"]), set()).add(found.body)
    assert all(len(several) == 1 for several in bodies.values())
    [row] = site.json("holdings")
    assert row["total_text"] == "3"


def test_a_version_that_disappears_is_replaced_by_the_next(
    plain: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a version or its files are removed while they are opened or read, the next one is read."""
    first = night(FIRST, [Amount("1")])
    site = plain(first)
    rows = Version.rows
    failures = [FileNotFoundError("removed"), duckdb.IOException("removed")]

    def opening(path: Path) -> duckdb.DuckDBPyConnection:
        if len(failures) == 2:
            raise failures.pop(0)
        return open_database(path)

    def reading(version: Version, query: str, **values: object) -> list[dict[str, Any]]:
        if len(failures) == 1:
            publish(site.layout.home, [first, night(THIRD, [Amount("3")])], "c")
            raise failures.pop()
        return rows(version, query, **values)

    publish(site.layout.home, [first, night(SECOND, [Amount("2")])], "b")
    monkeypatch.setattr(version_module, "open_database", opening)
    monkeypatch.setattr(Version, "rows", reading)
    [row] = site.json("holdings")
    assert (row["total_text"], failures) == ("3", [])


def test_pages_are_cut_with_their_number_and_files_are_whole(plain: Callable[..., Site]) -> None:
    """A page shows 200 rows and says how many there are. The pages together have each row once."""
    site = plain(night(FIRST, [Amount("1", account=f"a{n}") for n in range(450)]))
    pages = [site.get(f"/accounts?sort=total&page={number}").text for number in (1, 2, 3)]
    assert all("450 rows" in page and "of 3" in page for page in pages)
    assert [page.count("<tr>") - 1 for page in pages] == [200, 200, 50]
    found = [n for n in range(450) for page in pages if f'account_name=a{n}"' in page]
    assert found == list(range(450))
    assert len(site.json("accounts")) == 450


def test_a_home_without_a_book_says_what_to_do(tmp_path: Path) -> None:
    """Without a book, each page gives the command to type, and no traceback."""
    (tmp_path / "warehouse").mkdir()
    got = site_of(tmp_path).get("/")
    assert got.status == 503
    assert "nightbook run" in got.text


def test_reading_writes_no_file(site: Site) -> None:
    """No response changes a file of the home."""

    def files() -> Iterator[tuple[str, int]]:
        for path in sorted(site.layout.home.rglob("*")):
            yield str(path), path.stat().st_mtime_ns

    before = list(files())
    for page in ("", "holdings.csv", "accounts.json", "assets", "changes"):
        assert site.get(f"/{page}").status == 200
    assert list(files()) == before


def test_an_amount_is_traced_to_its_bytes(nights: Keeper) -> None:
    """The page of a trace shows the request, its digest, and the bytes as the API sent them."""
    [(digest,)] = nights.ask(
        "select sha256 from ops.requests where operation = 'list_portfolios' and purpose = 'book' "
        "and snapshot_id = (select max(snapshot_id) from ops.snapshots)"
    )
    site = Site(application(nights.nightbook.with_fixed_variables())[0], nights.layout)
    [row, *_] = [row for row in site.json("accounts") if row["total_text"] != "0"]
    names = ("portfolio_id", "asset_id", "is_custom_asset", "venue_id", "account_name")
    values = {name: str(row[name]) for name in names}
    values["is_custom_asset"] = values["is_custom_asset"].lower()
    shown = site.get(address("trace", values)).text
    assert digest in shown
    assert "Every amount was found" in shown
    assert "&#34;balance&#34;:" in shown
    assert site.get(address("trace", {**values, "account_name": "no such"})).status == 404


def test_the_start_page_names_a_held_night(held: Keeper) -> None:
    """If a newer night is held, the start page says so, and that the book is not the newest."""
    site = Site(application(held.nightbook.with_fixed_variables())[0], held.layout)
    shown = site.get("/").text
    assert "The newer night of" in shown
    assert "is held" in shown
    assert "since then" in shown


def test_a_port_that_is_taken_is_an_error(nights: Keeper) -> None:
    """If the port is taken, the command says so, names another port, and starts nothing."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = nights("serve", "--port", str(port))
    assert said.code == 1
    assert f"Port {port} on this machine cannot be used" in said.err
    assert "serve --port" in said.err


def test_pages_are_readable_on_each_screen_and_on_paper(site: Site, tmp_path: Path) -> None:
    """No text is cut, hidden or faint, on a narrow or dark screen, and nothing else is loaded."""
    listed = address("holdings", {"sort": "value", "as_of": "2026-11-19"})
    with serve(site.application) as served, chromium(tmp_path / "profile") as browser:
        for page in ("/", listed, "/changes", "/value_history"):
            for look in (*LOOKS, PRINTED):
                seen = browser.look(served.origin + page, look)
                for measures in (seen.measures, seen.opened):
                    assert measures["wide"] <= 0, (page, look)
                    found = [measures[kind] for kind in ("out", "cut", "over", "faint")]
                    assert found == [[], [], [], []], (page, look)
                assert seen.asked == [served.origin + page]
                assert seen.said == []
        session = browser.open(f"{served.origin}/holdings", Look(400))
        browser.press(session, "Tab", 9)
        focused = "document.activeElement.textContent"
        assert browser.evaluate(session, focused) == "Skip to the content"


def test_the_value_on_the_start_page_is_the_value_of_the_night(site: Site) -> None:
    """The start page adds up the values itself, with the same result as `value_by_night`."""
    [shown] = site.ask(
        "select value_text, unpriced_assets, stale_assets from value_by_night('USD') "
        "order by snapshot_date desc limit 1"
    )
    pages = site.application.application
    pages._answer({"method": "GET", "path": "/", "query_string": b"", "headers": []})
    value = pages._versions.current().start["value"]
    assert shown == tuple(value[k] for k in ("value_text", "unpriced_assets", "stale_assets"))


def test_a_home_with_only_a_held_night_has_a_start_page(plain: Callable[..., Site]) -> None:
    """If the first night is held, the start page says so, and tables say that there is no book."""
    site = plain(night(FIRST, [Amount("1")], state="held", is_book=False))
    assert "There is no book yet" in site.get("/").text
    assert "is held" in site.get("/").text
    got = site.get("/holdings")
    assert (got.status, "does not have a book" in got.text) == (404, True)
