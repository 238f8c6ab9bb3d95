"""Tests of a firm whose homes vanish, return, share portfolios, are renamed or are removed."""

import contextlib
import io
import json
import random
import shutil
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import duckdb
import openpyxl
import pytest

from assets.cli import main
from assets.commands import firm as firm_command
from assets.home.source_nights import take_nights
from assets.nightbook import Nightbook
from assets.publishing import firm as publishing
from tests.support.books import Amount, Night, night, published_once
from tests.warehouse.query.test_connect_older_clients import OLDER, differences
from warehouse.storage.firm import FIRM
from warehouse.storage.layout import Layout

FIRST = date(2026, 11, 1)
NAMES = ("alpha", "beta", "gamma", "delta")
POOL = ("shared 1", "shared 2", "shared 3")
# Replaces `nightbook run` of an organisation, and leaves a file in its home as evidence.
STARTED = "import pathlib; pathlib.Path('data').mkdir(exist_ok=True); open('data/started', 'a')"
Totals = Mapping[str, Decimal]
Holdings = dict[str, dict[str, Decimal]]


@dataclass
class Organisation:
    """One organisation: the nights of its real home, and the current location of that home."""

    folder: Path
    nights: list[Night] = field(default_factory=list)
    is_there: bool = True
    versions: int = 0

    @property
    def layout(self) -> Layout:
        """The layout of the home, which exists only while `is_there` is true."""
        return Layout(self.folder / "data")

    def take(self, day: date, holdings: Holdings, state: str = "accepted") -> None:
        """Take a night in the home, and publish it there."""
        amounts = [
            Amount(str(amount), portfolio=portfolio, asset=asset)
            for portfolio, amounts_ in holdings.items()
            for asset, amount in amounts_.items()
        ]
        hour = 2 + sum(one.day == day for one in self.nights)
        snapshot_id = f"{day:%Y%m%d}T{hour:02}1500Z"
        made = night(snapshot_id, amounts, state=state, is_book=state == "accepted")
        self.nights.append(made)
        self.versions += 1
        published_once(self.layout, self.nights, f"v{self.versions}")
        for one in self.nights:
            self.layout.snapshot(one.day, one.snapshot_id).mkdir(parents=True, exist_ok=True)

    def vanish(self, *, is_empty: bool) -> None:
        """Unmount the disk, which leaves no folder or an empty one."""
        self.folder.joinpath("data").rename(self.folder / "elsewhere")
        self.is_there = False
        if is_empty:
            self.folder.joinpath("data").mkdir()

    def come_back(self) -> None:
        """Mount the disk with its whole content."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        self.folder.joinpath("elsewhere").rename(self.folder / "data")
        self.is_there = True


@dataclass
class Firm:
    """A firm, with a second calculation of the content that its book must have."""

    root: Path
    day: date = FIRST
    owners: dict[str, str] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)
    organisations: dict[str, Organisation] = field(default_factory=dict)
    known: dict[str, dict[date, Holdings]] = field(default_factory=lambda: defaultdict(dict))
    removed: set[str] = field(default_factory=set)
    published: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name in NAMES:
            self.add(name, name)

    def add(self, name: str, organisation: str) -> None:
        """List an organisation under a name, and create its folder if it is new."""
        folder = self.root / organisation
        folder.mkdir(exist_ok=True, parents=True)
        self.organisations.setdefault(organisation, Organisation(folder))
        self.listed[name] = organisation
        self.removed.discard(name)

    def remove(self, name: str) -> None:
        """Remove a name from firm.toml, with its portfolios and known books."""
        del self.listed[name]
        self.owners = {key: owner for key, owner in self.owners.items() if owner != name}
        self.known.pop(name, None)
        self.removed |= {name} & self.published  # a name that was never published is not missed

    @property
    def layout(self) -> Layout:
        """The home of the firm."""
        return Layout(self.root / "firm")

    def of(self, name: str) -> Organisation:
        """Return the organisation that firm.toml lists under a name."""
        return self.organisations[self.listed[name]]

    def command(self, *words: str) -> tuple[int, str, str]:
        """Run a command in the home of the firm, and return exit code, output and error output."""
        home = {"NIGHTBOOK_HOME": str(self.layout.home)}
        moment = datetime(self.day.year, self.day.month, self.day.day, 6, tzinfo=UTC)
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            code = main(words, Nightbook(lambda: home, lambda: moment))
        return code, out.getvalue(), errors.getvalue()

    def publish(self, command: str) -> tuple[int, str]:
        """Write firm.toml, run a publishing command, and record the books that must be known."""
        lines = ["[sources]"]
        lines += [f"{json.dumps(name)} = '../{folder}'" for name, folder in self.listed.items()]
        lines += ["[portfolios]"] * bool(self.owners)
        lines += [f"{json.dumps(key)} = {json.dumps(name)}" for key, name in self.owners.items()]
        self.layout.home.mkdir(exist_ok=True)
        (self.layout.home / FIRM).write_text("\n".join(lines), "utf-8")
        code, out, _ = self.command(command)
        self.published |= self.listed.keys()
        for name in self.listed:
            if (organisation := self.of(name)).is_there:
                self.known[name] = {
                    one.day: held(one) for one in organisation.nights if one.is_book
                }
        return code, out

    def claims(self, day: date) -> dict[str, str]:
        """Return the organisation for which each portfolio counts, by the last known books.

        If firm.toml names an organisation that has the portfolio, the portfolio counts for it.
        Otherwise, the portfolio counts for the first organisation by name.
        """
        found: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self.known):
            if last := max((one for one in self.known[name] if one <= day), default=None):
                for portfolio in self.known[name][last]:
                    found[portfolio].append(name)
        return {
            portfolio: self.owners[portfolio] if self.owners.get(portfolio) in names else names[0]
            for portfolio, names in found.items()
        }

    def totals(self, day: date) -> Totals:
        """Return the total of each asset over the organisations that have a book of the day."""
        sums = defaultdict[str, Decimal](Decimal)
        for name, nights in self.known.items():
            for asset, total in total_of(nights.get(day, {}), self.counted(name, day)).items():
                sums[asset] += total
        return sums

    def moves(self) -> dict[tuple[str, str], tuple[Decimal, Decimal]]:
        """Return the totals of each source and asset in the previous and in the newest book."""
        newest = max(day for nights in self.known.values() for day in nights)
        found = dict[tuple[str, str], tuple[Decimal, Decimal]]()
        for name, nights in self.known.items():
            days = [day for day in (*sorted(nights)[-2:-1], newest) if newest in nights]
            totals = [total_of(nights[day], self.counted(name, day)) for day in days]
            was, now = (*[defaultdict[str, Decimal](Decimal)] * (2 - len(days)), *totals)[:2]
            for asset in was.keys() | now.keys():
                found[name, asset] = was[asset], now[asset]
        return found

    def counted(self, name: str, day: date) -> set[str]:
        """Return the portfolios that count for an organisation on a day."""
        return {portfolio for portfolio, owner in self.claims(day).items() if owner == name}

    def shared(self) -> set[str]:
        """Return the portfolios of several organisations for which firm.toml names none of them."""
        undecided = {}
        for day in sorted({day for nights in self.known.values() for day in nights}):
            seen = defaultdict[str, list[str]](list)
            for name, nights in self.known.items():
                if last := max((one for one in nights if one <= day), default=None):
                    for portfolio in nights[last]:
                        seen[portfolio].append(name)
            for portfolio, names in seen.items():
                if len(names) > 1:
                    undecided[portfolio] = self.owners.get(portfolio) not in names
        return {portfolio for portfolio, is_open in undecided.items() if is_open}


def held(one: Night) -> Holdings:
    """Return the holdings of each portfolio of a night."""
    holdings: Holdings = {row["portfolio_id"]: {} for row in one.rows["portfolios"]}
    for row in one.rows["balances"]:
        holdings[row["portfolio_id"]][row["asset_id"]] = Decimal(row["amount_text"])
    return holdings


def total_of(holdings: Holdings, portfolios: set[str]) -> defaultdict[str, Decimal]:
    """Return the total of each asset over some portfolios."""
    sums = defaultdict[str, Decimal](Decimal)
    for portfolio in holdings.keys() & portfolios:
        for asset, amount in holdings[portfolio].items():
            sums[asset] += amount
    return sums


def drawn(random_: random.Random, name: str) -> Holdings:
    """Draw the holdings of an organisation: its own portfolio, and up to two from the pool."""
    portfolios = [f"own of {name}", *random_.sample(POOL, random_.randint(0, 2))]
    return {
        portfolio: {
            asset: Decimal(random_.randint(1, 10**12)).scaleb(-9)
            for asset in random_.sample(("BTC", "ETH", "USD"), 2)
        }
        for portfolio in portfolios
    }


def require_sums(firm: Firm) -> None:
    """Check that each table with sums counts every portfolio exactly once."""
    days = sorted({day for nights in firm.known.values() for day in nights})
    sums = {
        "history.balances": "amount_text",
        "history.holdings": "total_text",
        "history.holdings_by_asset": "total_text",
        "history.holdings_by_venue": "total_text",
    }
    newest = {
        "account_balances": "total_text",
        "holdings": "total_text",
        "roll_forward": "closing_text",
        "firm_holdings_by_asset": "total_text",
        "firm_holdings_by_venue": "total_text",
    }
    with duckdb.connect(str(firm.layout.database), read_only=True) as book:
        for table, column in sums.items():
            rows = book.execute(
                f"select snapshot_date, asset_id, exact_sum({column}) from {table} group by all"
            ).fetchall()
            found = {(day, asset): Decimal(text) for day, asset, text in rows}
            expected = {
                (day, asset): total for day in days for asset, total in firm.totals(day).items()
            }
            assert found == expected, table
        for table, column in newest.items():
            rows = book.execute(
                f"select asset_id, exact_sum({column}) from {table} group by all"
            ).fetchall()
            found_now = {asset: Decimal(text) for asset, text in rows if Decimal(text)}
            assert found_now == firm.totals(days[-1]), table
    require_moves(firm)


def require_moves(firm: Firm) -> None:
    """Check that the comparisons of the newest book with the previous one count in the same way."""
    with duckdb.connect(str(firm.layout.database), read_only=True) as book:

        def found(query: str) -> dict[tuple[str, str], tuple[Decimal, ...]]:
            rows = book.execute(f"select source, asset_id, {query} group by all").fetchall()
            return {(source, asset): tuple(map(Decimal, rest)) for source, asset, *rest in rows}

        moves = firm.moves()
        has_before = book.execute("select distinct source from portfolios_before").fetchall()
        moved = found("exact_sum(before_text), exact_sum(after_text) from asset_moves")
        assert moved == {
            (name, asset): (was, now)
            for (name, asset), (was, now) in moves.items()
            if was != now and not (was and now and 4 * was <= 5 * now <= 6 * was)
            if (name,) in has_before
        }
        rolled = found("exact_sum(opening_text), exact_sum(closing_text) from roll_forward")
        assert rolled == moves
        deltas = found("exact_sum(delta_text) from changes")
        assert {key: now - was for key, (was, now) in moves.items() if was != now} == {
            key: delta for key, (delta,) in deltas.items() if delta
        }


def require_words(firm: Firm, missing: Iterable[str]) -> None:
    """Check that status, report and query name each organisation and portfolio with a problem."""
    code, status, _ = firm.command("status")
    _, _, note = firm.command("query", "select 1")
    _, said, _ = firm.command("report")
    page = Path(said.splitlines()[-1]).read_text("utf-8")
    undecided = firm.shared()
    names = {*missing, *firm.removed}
    for text, expected in ((status, names | undecided), (page, names | undecided), (note, names)):
        assert not [name for name in expected if name not in text], text
    assert ("A shared portfolio counts for only one organisation" in note) == bool(undecided)
    is_held = any(one.state == "held" for name in firm.listed for one in firm.of(name).nights)
    if undecided or is_held:
        assert code == 3, status
    else:
        assert code == bool([*missing]), status


def take_night(firm: Firm, random_: random.Random) -> set[str]:
    """Take a night of most organisations, and return the names of those without a new book."""
    missing = set()
    for name, folder in firm.listed.items():
        organisation = firm.organisations[folder]
        if organisation.is_there and random_.random() < 0.9:
            state = "held" if random_.random() < 0.05 else "accepted"
            organisation.take(firm.day, drawn(random_, folder), state)
            missing |= {name} if state == "held" else set()
        else:
            missing.add(name)
    return missing


def happen(firm: Firm, random_: random.Random) -> None:
    """Apply one random event to the firm."""
    name = random_.choice(sorted(firm.listed))
    organisation = firm.of(name)
    if not organisation.is_there:
        organisation.come_back()
    elif (what := random_.randrange(6)) < 2 and firm.known.get(name):
        organisation.vanish(is_empty=what == 0)
    elif what == 2 and len(firm.listed) > 2:
        firm.remove(name)
    elif what == 3:
        folder = firm.listed[name]
        firm.remove(name)
        firm.add(f"{folder} {firm.day.day}", folder)
    elif what == 4:
        firm.owners[random_.choice(POOL)] = name
    elif lost := sorted(set(NAMES) - set(firm.listed.values())):
        firm.add(lost[0], lost[0])


@pytest.fixture
def firm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Firm:
    """Return a firm of alpha and beta, which starts no real runs and writes no report files."""
    command = (sys.executable, "-c", STARTED)
    monkeypatch.setattr(firm_command, "take_nights", partial(take_nights, command=command))
    monkeypatch.setattr(publishing, "write_files", lambda *_: [])
    made = Firm(tmp_path)
    for name in ("gamma", "delta"):
        made.remove(name)
    made.removed.clear()
    return made


SHARED: Holdings = {"shared 1": {"BTC": Decimal("18055.25")}}
ALPHA: Holdings = {"own of alpha": {"BTC": Decimal("45008.75")}}
BETA: Holdings = {"own of beta": {"BTC": Decimal(100), "ETH": Decimal(7)}}


def test_a_shared_portfolio_counts_once_as_firm_toml_decides(
    firm: Firm,
) -> None:
    """A portfolio that two organisations report counts once, for the one that firm.toml names.

    Until firm.toml names one, run and status exit with 3, and status and export name the portfolio
    and its organisations.
    """
    firm.of("alpha").take(FIRST, {**ALPHA, **SHARED})
    firm.of("beta").take(FIRST, {**BETA, "shared 1": {"BTC": Decimal("18055.26")}})
    code, said = firm.publish("run")
    assert code == 3, said
    assert firm.totals(FIRST)["BTC"] == Decimal(45008 + 18055 + 100 + 1)
    require_sums(firm)
    require_words(firm, ())
    code, said, _ = firm.command("status")
    assert "Portfolio shared 1: seen by alpha, beta, with different amounts" in said
    [line] = [line for line in said.splitlines() if line.strip().startswith('"shared 1"')]
    code, said, _ = firm.command("export")
    assert "shared 1 (seen by alpha, beta; counted for alpha)" in said
    book = openpyxl.load_workbook(said.splitlines()[-1].strip())
    summary = [str(cell) for row in book["Summary"].iter_rows(values_only=True) for cell in row]
    assert any("ties out to the last digit" in cell for cell in summary)
    ids = ("query", "select snapshot_id from firm_nights", "--format", "csv")
    before = firm.command(*ids)[1]

    # The line that status prints is valid TOML. Here, the other organisation gets the portfolio.
    assert tomllib.loads(f"[portfolios]\n{line}") == {"portfolios": {"shared 1": "alpha"}}
    firm.owners["shared 1"] = "beta"
    code, said = firm.publish("rebuild")
    assert (code, "shared 1" in said) == (0, False), said
    assert firm.totals(FIRST)["BTC"] == Decimal("63164.01")
    require_sums(firm)
    require_words(firm, ())
    assert differences([firm.layout.database], ["duckdb12"]) == {}
    # A book with different content has a different snapshot ID, so reconciliations see the change.
    assert before != firm.command(*ids)[1]


def test_an_empty_home_is_an_error_and_keeps_its_history(firm: Firm) -> None:
    """If a home is empty, status fails, nothing is started there, and its history is kept.

    This is also true after a rebuild, and if its own schedule takes a night in the empty home. When
    the complete home is back, its nights continue.
    """
    firm.of("alpha").take(FIRST, ALPHA)
    firm.of("beta").take(FIRST, BETA)
    assert firm.publish("run")[0] == 0
    firm.of("beta").vanish(is_empty=True)
    # Tonight's book exists, but status still reports that the home is missing.
    code, status, _ = firm.command("status")
    assert code == 1
    assert "beta: " in status
    assert "lacks 1 of the 1 snapshot that this book loaded from it" in status
    assert "beta home " in firm.command("doctor")[1]
    assert firm.publish("rebuild")[0] == 1
    firm.of("beta").come_back()
    code, status, _ = firm.command("status")
    assert (code, "beta: when this book was built, " in status) == (1, True)
    firm.of("beta").vanish(is_empty=True)
    firm.day += timedelta(days=1)
    firm.of("alpha").take(firm.day, ALPHA)
    for command in ("run", "rebuild"):
        code, said = firm.publish(command)
        assert code == 1, said
        assert not (firm.of("beta").layout.home / "started").exists()
        require_sums(firm)
        require_words(firm, ["beta"])
    stranger = Organisation(firm.of("beta").folder)
    stranger.take(firm.day, {"own of beta": {"BTC": Decimal(1)}})
    for command in ("run", "rebuild"):
        assert firm.publish(command)[0] == 1
        require_sums(firm)
    _, _, note = firm.command("query", "select * from firm_holdings_by_asset")
    assert note.startswith(
        f"The book of {firm.day} does not include beta (unreadable, last book {FIRST})."
    )
    assert note.count("\n") == 1
    firm.of("beta").come_back()
    firm.of("beta").take(firm.day, BETA)
    assert firm.publish("run")[0] == 0
    require_sums(firm)
    assert firm.command("query", "select 1")[2] == ""


def test_a_renamed_organisation_without_its_home_is_not_new(firm: Firm) -> None:
    """An organisation that is renamed while its home is missing is not started as a new one.

    This is also true on later nights, and if it gets its old name back. When the complete home is
    back, the organisation has its history.
    """
    firm.of("alpha").take(FIRST, ALPHA)
    firm.of("beta").take(FIRST, BETA)
    firm.publish("run")
    away = firm.of("beta")
    away.vanish(is_empty=True)
    for number, name in enumerate(("fund", "fund", "beta")):
        if name not in firm.listed:
            firm.remove(({*firm.listed} - {"alpha"}).pop())
            firm.add(name, "beta")
        firm.day = FIRST + timedelta(days=number)
        code, said = firm.publish("run")
        assert (code, (away.layout.home / "started").exists()) == (1, False)
        assert "data has no nights, and firm.toml no longer lists" in said
    require_words(firm, [name])
    away.come_back()
    away.take(firm.day, BETA)
    firm.publish("run")
    require_sums(firm)
    assert firm.known["beta"].keys() == {FIRST, firm.day}
    firm.add("gamma", "gamma")
    firm.publish("run")
    assert (firm.of("gamma").folder / "data" / "started").exists()


def test_a_rebuild_keeps_removed_sources_and_missing_nights(firm: Firm) -> None:
    """A rebuild keeps `ops.sources` and the rows of `ops.nights`, which exist in no other file."""
    firm.of("alpha").take(FIRST, ALPHA)
    firm.of("beta").take(FIRST, BETA)
    firm.publish("run")
    firm.remove("beta")
    firm.day += timedelta(days=1)
    assert firm.publish("run")[0] == 1
    nights = "select source, snapshot_date, state from ops.nights order by all"
    sources = "select source, is_listed, since, gone_since from ops.sources order by all"
    before = [firm.command("query", query)[1] for query in (nights, sources)]
    assert str(firm.day) in before[0]
    assert "beta" in before[1]
    for _ in range(2):
        assert firm.publish("rebuild")[0] == 1
        assert [firm.command("query", query)[1] for query in (nights, sources)] == before
    require_words(firm, ["alpha"])


def test_status_names_each_home_that_has_a_held_night(
    firm: Firm,
) -> None:
    """The status command exits with 3, as in their homes, and names each home with its command."""
    for name, holdings in (("alpha", ALPHA), ("beta", BETA)):
        firm.of(name).take(FIRST, holdings)
        firm.of(name).take(FIRST, {}, "held")
    assert firm.publish("run")[0] == 3
    code, said, _ = firm.command("status")
    assert (code, said.splitlines()[0]) == (3, f"book of {FIRST}: 2 of 2 organisations")
    for name in firm.listed:
        home = firm.of(name).layout.home.resolve()
        assert f"{name}: 1 held night waits for a decision" in said
        assert f"--home {home} snapshots" in said
    rows = json.loads(firm.command("status", "--format", "json")[1])
    assert [row["held_nights"] for row in rows] == [1, 1]


def test_verify_checks_the_warehouse_file_of_the_firm(firm: Firm) -> None:
    """`verify` checks the firm's warehouse file, and names the commands that check the nights."""
    firm.of("alpha").take(FIRST, ALPHA)
    firm.remove("beta")
    firm.publish("run")
    code, said, _ = firm.command("verify")
    assert (code, "0 nights" in said) == (0, False)
    assert "1 version of the firm's warehouse, all unchanged" in said
    assert said.splitlines()[-1].endswith("/alpha/data verify")
    file = firm.layout.database.resolve()
    file.chmod(0o640)
    with file.open("r+b") as database:
        database.seek(8192)
        database.write(b"changed")
    code, _, errors = firm.command("verify")
    assert code == 1
    assert "nightbook.duckdb: changed" in errors


def test_a_restored_firm_has_the_same_book(firm: Firm, tmp_path: Path) -> None:
    """After a restore, the firm has the same book. The backup names the homes that it lacks."""
    firm.of("alpha").take(FIRST, ALPHA)
    firm.of("beta").take(FIRST, BETA)
    firm.publish("run")
    notes = firm.layout.home / "reconcile" / "inbox" / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("a file of finance", "utf-8")
    file = str(tmp_path / "firm.tar")
    code, said, errors = firm.command("backup", file)
    assert code == 0, errors
    assert "beta: " in said
    query = ("query", "select * from firm_holdings_by_asset order by all")
    expected = firm.command(*query)[1]
    shutil.rmtree(firm.layout.home)
    code, said, _ = firm.command("restore", file, "--dry-run")
    assert (code, firm.layout.home.exists()) == (0, False)
    assert f"  {FIRM}" in said
    code, said, errors = firm.command("restore", file)
    assert code == 0, said + errors
    assert notes.read_text("utf-8") == "a file of finance"
    assert firm.command(*query)[1] == expected
    code, _, errors = firm.command("restore", file)
    assert code == 0, errors


def test_a_firm_toml_outside_the_home_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If firm.toml is outside the firm's home, each command fails and says how to fix that."""
    (tmp_path / FIRM).write_text('[sources]\nalpha = "../alpha"\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    for words in (["run"], ["status"], ["query", "select 1"], ["doctor"]):
        assert main(words, Nightbook(dict)) == 2
        said = "".join(capsys.readouterr())
        assert "firm.toml belongs in the firm's home" in said
        assert "If this folder is that home: " in said
        assert "--home . run" in said


@pytest.mark.parametrize(
    ("seed", "nights"),
    [(9, 3), *(pytest.param(seed, 20, marks=pytest.mark.torture) for seed in (1, 2, 3))],
)
def test_a_firm_counts_each_portfolio_once_after_any_events(
    firm: Firm, seed: int, nights: int
) -> None:
    """After any mix of events, each portfolio counts once, and missing organisations are named.

    Homes vanish, return empty or complete, share portfolios, are renamed and are removed.
    """
    random_ = random.Random(seed)
    for name in ("gamma", "delta"):
        firm.add(name, name)
    for number in range(nights):
        firm.day = FIRST + timedelta(days=number)
        for _ in range(2 * (number > 0)):
            happen(firm, random_)
        missing = take_night(firm, random_)
        code, said = firm.publish("run")
        assert code != 0 or not missing, said
        for name in firm.listed:
            if not (organisation := firm.of(name)).is_there:
                assert not (organisation.folder / "data" / "started").exists()
        require_sums(firm)
        require_words(firm, missing)
        if random_.random() < 0.3:
            firm.publish("rebuild")
            require_sums(firm)
            require_words(firm, missing)
    if nights == 20:
        assert differences([firm.layout.database], OLDER) == {}
