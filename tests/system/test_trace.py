"""Tests of `nightbook trace`: each figure of a hostile night leads to the landed bytes.

The tests parse the bytes a second time, with `json` alone.
"""

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.support import nights
from tests.support.books import exact
from tests.support.operator_home import Clock, Keeper, Said, Sandbox
from warehouse.contract.states import HELD

Json = Any
TIMES = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
WORDS = (
    "a",
    "A",
    "main",
    "=1+1",
    "é",
    "e\u0301",
    "🦊 desk",
    "",
    " ",
    "\x00",
    '"q"',
    "-x",
    "a.b",
    "\r\n",
)
AMOUNTS = (
    *("99999999999999999999.9", "1e40", "-1e40", "1e-30", "0.1234567890123456789012345", "-0"),
    *("0.000000000000000001", "+5", ".5", "7.", "1.10", "-7.25", "1" + "0" * 60, "00012"),
)
BROKEN = ("1,000", "NaN", 5, None, ["1"], {"free": {"x": "3"}}, True)
STEP = re.compile(r'\[(\d+)\]|\.?("(?:[^"\\]|\\.)*"|[\w-]+)')
OF_ASSET = "asset_id", "is_custom_asset"


def spelt(value: Json, pick: random.Random) -> str:
    """Return a value as JSON with insignificant white space and escapes."""
    blank = pick.choice(["", "", " ", "\n\t"])
    if isinstance(value, dict):
        members = (f"{spelt(key, pick)}{blank}:{spelt(part, pick)}" for key, part in value.items())
        return f"{{{blank}{f'{blank},'.join(members)}{blank}}}"
    if isinstance(value, list):
        return f"[{blank}{f',{blank}'.join(spelt(part, pick) for part in value)}{blank}]"
    if isinstance(value, str) and value.isascii() and pick.random() < 0.1:
        return '"' + "".join(f"\\u{ord(letter):04x}" for letter in value) + '"'
    return json.dumps(value, ensure_ascii=pick.random() < 0.5)


def balance(pick: random.Random) -> Json:
    """Return a balance with known, unknown and nested kinds, and sometimes an invalid amount."""

    def amount() -> Json:
        return pick.choice(BROKEN) if pick.random() < 0.05 else pick.choice(AMOUNTS)

    kinds = {
        "trading": {"free": amount(), "locked": amount()},
        "margin": {"locked": amount(), "isolated": amount()},
        "custody": {"free": amount(), "locked": amount()},
        "invented": {"due": amount(), "a.b": {"c": amount(), "": amount()}},
        'odd "kind"': amount(),
        "staking": amount(),
    }
    names = pick.sample(sorted(kinds), pick.randrange(len(kinds)))
    return {name: kinds[name] for name in names}


def portfolio(number: int, pick: random.Random) -> Json:
    """Return a portfolio with repeated accounts, assets and names, and with undocumented fields."""

    def account() -> Json:
        more = {"note": {"balance": "1"}} if pick.random() < 0.2 else {}
        place = {"venueId": pick.choice(WORDS[:5]), "name": pick.choice(WORDS)}
        return more | place | {"balance": balance(pick)}

    positions = [
        {
            "isCustomAsset": pick.random() < 0.3,
            "accounts": [account() for _ in range(pick.randrange(6))],
            "assetId": pick.choice(["BTC", "ETH", "a.b", "", "🦊"]),
        }
        for _ in range(8)
    ]
    name = pick.choice(WORDS)
    return {
        "id": f"p{number}",
        "resource": "portfolio",
        "name": name,
        "positions": positions,
    } | TIMES


def hostile_book(seed: int) -> nights.Book:
    """Return a night with such portfolios in random order, one of them listed twice."""
    pick = random.Random(seed)
    listed = [portfolio(number, pick) for number in range(12)]
    listed.append(listed[3])
    pick.shuffle(listed)
    words = {"displayName": "Émile & Söhne", "tradingStatus": "trading", "type": ["otc"]}
    venues = [{"id": name, "resource": "venue", **words, **TIMES} for name in WORDS[:4]]
    return nights.Book(spelt(listed, pick).encode(), venues)


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Keeper:
    """Return the keeper of a home with a hostile night, which a person has accepted."""
    keeper = Keeper(tmp_path_factory.mktemp("trace") / "home", Sandbox(Clock()))
    taken = nights.take(keeper.layout, hostile_book(1))
    assert taken.state == HELD
    assert keeper("accept", taken.snapshot_id, "--why", "a test").code == 0
    return keeper


def traced(keeper: Keeper, row: dict[str, Any], *words: str) -> tuple[Said, Json]:
    """Run `trace` for a row of balances, and return its output and the parsed JSON."""
    custom = "--custom" if row["is_custom_asset"] else "--no-custom"
    asked = [f"--asset={row['asset_id']}", custom, f"--portfolio={row['portfolio_id']}", *words]
    said = keeper("trace", *asked, "--format", "json")
    return said, json.loads(said.out) if said.out else None


def landed_body(keeper: Keeper, found: Json) -> bytes:
    """Return the decompressed response body that a trace names, and check its SHA-256."""
    [request] = found["requests"]
    night = found["snapshot"]
    folder = keeper.layout.landing / night["snapshot_date"] / night["snapshot_id"]
    with pa.CompressedInputStream(pa.OSFile(str(folder / request["file"])), "zstd") as source:
        body: bytes = source.read()
    assert hashlib.sha256(body).hexdigest() == request["sha256"]
    assert len(body) == request["byte_count"]
    return body


def at(document: Json, path: str) -> Json:
    """Return the value at a JSON path."""
    assert "".join(step[0] for step in STEP.finditer(path)) == path
    for step in STEP.finditer(path):
        number, name = step.groups()
        key = int(number) if number else json.loads(name) if name.startswith('"') else name
        document = document[key]
    return document


def check_element(element: Json, body: bytes, document: Json) -> Json:
    """Check an element against the bytes and its JSON path, and return its value."""
    first, count = element["first_byte"], element["byte_count"]
    assert body[first : first + count] == element["as_it_came"].encode()
    value = json.loads(element["as_it_came"])
    assert value == at(document, element["json_path"])
    return value


def balances(keeper: Keeper) -> list[dict[str, Any]]:
    """Return every amount of the book."""
    names = [name for (name,) in keeper.ask("select column_name from (describe balances)")]
    return [dict(zip(names, row, strict=True)) for row in keeper.ask("from balances order by all")]


def parts(rows: list[dict[str, Any]], key: Json) -> list[str]:
    """Return the amounts of the rows that have this key."""
    return [r["amount_text"] for r in rows if all(r[name] == key[name] for name in key)]


@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.torture)])
def test_a_figure_leads_to_its_landed_bytes(keeper: Keeper, count: int) -> None:
    """For random amounts, the traced element has the exact text, and all sums equal their parts."""
    rows = balances(keeper)
    pick = random.Random(count)
    for row in pick.choices(rows, k=count):
        place = f"--venue={row['venue_id']}", f"--account={row['account_name']}"
        said, found = traced(keeper, row, *place)
        assert (said.code, said.err) == (0, "")
        body = landed_body(keeper, found)
        document = json.loads(body)
        [account] = [a for a in found["accounts"] if a["duplicate_no"] == row["duplicate_no"]]
        record = check_element(account["record"], body, document)
        assert (record["venueId"], record["name"]) == (row["venue_id"], row["account_name"])
        [amount] = [
            a
            for a in account["amounts"]
            if (a["bucket"], a["state"]) == (row["bucket"], row["state"])
        ]
        assert check_element(amount["element"], body, document) == row["amount_text"]
        assert amount["element"]["json_path"].startswith(account["record"]["json_path"])
        check_sums(found, [r for r in rows if all(r[name] == row[name] for name in OF_ASSET)])


def check_sums(found: Json, of_asset: list[dict[str, Any]]) -> None:
    """Check that each sum equals the sum of its parts, and that no published sum is missing."""
    views = defaultdict(list)
    for line in found["sums"]:
        texts = parts(of_asset, line["key"])
        assert set(line["figures"].values()) == {line["sum_of_parts"]} == {exact(texts)}
        assert (line["parts"], line["ties_out"]) == (len(texts), True)
        views[line["view"]].append(line["key"])
    buckets = {a["bucket"] for account in found["accounts"] for a in account["amounts"]}
    assert {key["bucket"] for key in views["ops.control_totals"]} == buckets
    assert len(views["account_balances"]) == len(found["accounts"])
    assert [len(views[name]) for name in ("holdings", "holdings_by_asset")] == [1, 1]


@pytest.mark.torture
def test_every_account_leads_to_its_own_record(keeper: Keeper) -> None:
    """Each account of the book has its own record, even if the account has no balances."""
    positions = keeper.ask(
        "select portfolio_id, asset_id, is_custom_asset, account_count from positions"
    )
    used: list[str] = []
    for portfolio_id, asset_id, is_custom, count in positions:
        row = {"portfolio_id": portfolio_id, "asset_id": asset_id, "is_custom_asset": is_custom}
        said, found = traced(keeper, row)
        assert said.code == 0
        assert found["positions"]
        assert len(found["accounts"]) == count
        used += [account["record"]["json_path"] for account in found["accounts"]]
    assert len(set(used)) == len(used) == keeper.ask("select count(*) from accounts")[0][0]


def test_the_trace_macro_returns_request_digest_and_path(keeper: Keeper) -> None:
    """The `trace` macro returns request, SHA-256 and an RFC 9535 path that selects by ID."""
    rows = balances(keeper)
    for row in rows[:: len(rows) // 5]:
        given = [row["portfolio_id"], row["asset_id"]]
        texts = [text.replace("'", "''") for text in given]
        found = keeper.ask(
            "select amount_text, json_path, sha256, request_no, byte_count from "
            f"trace('{texts[0]}', '{texts[1]}') order by all"
        )
        expected = [r["amount_text"] for r in rows if [r["portfolio_id"], r["asset_id"]] == given]
        assert sorted(text for text, *_ in found) == sorted(expected)
        _, trace = traced(keeper, row)
        assert {tuple(line[2:]) for line in found} == {
            (request["sha256"], request["request_no"], request["byte_count"])
            for request in trace["requests"]
        }
        wanted = "].accounts[?@.venueId==" + json.dumps(row["venue_id"], ensure_ascii=False)
        assert any(wanted in path for _, path, *_ in found)


def told(keeper: Keeper, *words: str) -> tuple[int, str]:
    """Run `trace`, and return its exit code and its error message."""
    said = keeper("trace", *words)
    return said.code, said.err


def test_trace_accepts_a_unique_portfolio_name(keeper: Keeper) -> None:
    """`trace` accepts a unique portfolio name. If portfolios share the name, it lists their IDs."""
    rows = balances(keeper)
    names: dict[str, list[str]] = defaultdict(list)
    for portfolio_id, name in keeper.ask("select portfolio_id, name from portfolios order by all"):
        names[name].append(portfolio_id)
    single = next(row for row in rows for ids in names.values() if ids == [row["portfolio_id"]])
    name = next(name for name, ids in names.items() if ids == [single["portfolio_id"]])
    by_id, by_name = traced(keeper, single)[1], traced(keeper, single | {"portfolio_id": name})[1]
    assert by_id == by_name
    shared, ids = next((name, ids) for name, ids in names.items() if len(ids) > 1)
    code, words = told(keeper, f"--portfolio={shared}", "--asset=BTC")
    assert code == 2
    assert all(f"'{portfolio_id}'" in words for portfolio_id in ids)
    assert f"--portfolio {ids[0]}" in words


def test_trace_explains_an_unknown_or_ambiguous_value(keeper: Keeper) -> None:
    """For an unknown or ambiguous value, `trace` exits with 2 and explains the problem.

    For a portfolio, asset or kind of asset, it also lists the possible values.
    """
    [(portfolio_id, asset_id)] = keeper.ask(
        "select portfolio_id, asset_id from positions group by all having count(*) > 1 "
        "order by all limit 1"
    )
    asked = f"--portfolio={portfolio_id}", f"--asset={asset_id}"
    code, words = told(keeper, "--portfolio=P-nothing", "--asset=BTC")
    assert code == 2
    assert "It has 12 portfolios: " in words
    code, words = told(keeper, asked[0], "--asset=DOGE")
    assert code == 2
    assert "'BTC'" in words
    code, words = told(keeper, *asked)
    assert code == 2
    assert "--custom or --no-custom" in words
    code, words = told(keeper, *asked, "--custom", "--venue=nowhere")
    assert code == 2
    assert "There is no venue 'nowhere'" in words
    code, words = told(keeper, *asked, "--custom", "--as-of", "2000-01-01")
    assert code == 2
    assert "no book on or before 2000-01-01" in words


@pytest.fixture
def small(tmp_path: Path) -> Keeper:
    """Return the keeper of a home with two quiet nights, ten days apart."""
    keeper = Keeper(tmp_path / "home", Sandbox(Clock()))
    for days in (0, 10):
        nights.take(
            keeper.layout, nights.small(f"{days}.50"), nights.STARTED + timedelta(days=days)
        )
    assert keeper("rebuild", "--from-landing").code == 0
    return keeper


ASKED = "--portfolio", "P", "--asset", "BTC"


def test_a_trace_fits_on_one_screen(small: Keeper, golden: Callable[[str, str], None]) -> None:
    """The text output shows a trace on one screen, and the JSON output contains all details."""
    said = small("trace", *ASKED, "--venue", "Venue")
    assert (said.code, said.err) == (0, small("query", "select 1").err)
    shown = said.out.replace(str(small.home), "HOME")
    shown = re.sub(r"(?<=accepted by guards at ).*", "TIME", shown)
    golden("trace.txt", shown)
    document = small("trace", *ASKED, "--format", "json").out
    golden("trace-document.txt", re.sub(r'(?<="decided_at": ").*?(?=")', "TIME", document))


def test_trace_reports_missing_or_damaged_bytes(small: Keeper) -> None:
    """If the landed bytes are damaged or missing, `trace` shows the recorded figures and fails."""
    [body] = small.layout.landing.glob("2026-11-30/*/0001-*")
    kept = body.read_bytes()
    body.write_bytes(kept[:-1] + b"x")
    said = small("trace", *ASKED)
    assert said.code == 1
    assert "margin.locked = 10.50" in said.out
    assert "✗ The landed bytes could not be read." in said.out
    body.unlink()
    said = small("trace", *ASKED)
    assert said.code == 1
    assert "SHA-256" in said.out
    assert "are not in this home (0001-body.json.zst)" in said.out
    assert "read just now" not in said.out


def test_trace_fails_if_the_book_differs_from_the_bytes(small: Keeper) -> None:
    """`trace` fails if the book differs from the landed bytes."""
    database = small.layout.database
    database.chmod(0o640)
    with duckdb.connect(str(database)) as connection:
        connection.execute("update history.balances set amount_text = '10.51'")
    said = small("trace", *ASKED)
    assert said.code == 1
    assert "The landed bytes lack 1 account of the book, or contain different amounts" in said.out
    assert "is not the sum of its parts, 10.51" in said.out


def test_trace_of_a_pruned_night_reports_its_digests(small: Keeper) -> None:
    """For a pruned night, `trace` reports that it was pruned, and the SHA-256 of its responses."""
    manifest = json.loads(next(small.layout.landing.glob("2026-11-20/*/manifest.json")).read_text())
    assert small("prune", "--keep", "1", "--no-month-ends").code == 0
    code, words = told(small, *ASKED, "--as-of", "2026-11-20")
    assert code == 1
    assert "was pruned" in words
    assert manifest["answers"][0]["sha256"] in words
    assert small("trace", *ASKED).code == 0
