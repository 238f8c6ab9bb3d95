"""Tests of a firm's book, which combines the published warehouses of several homes."""

import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pytest

from tests.support.books import Amount, Night, night, published_once
from tests.support.shared import some_daily
from warehouse import open_book
from warehouse.contract.book import BOOK
from warehouse.contract.firm import OF_SOURCES
from warehouse.database.ddl import stored_as
from warehouse.database.firm import ddl, publish
from warehouse.database.firm.gate import UNREADABLE
from warehouse.database.firm.publish import FirmBook, FirmBuild, publish_firm
from warehouse.database.versions import VERSIONS_GB, is_as_published
from warehouse.storage.firm import FIRM, FirmWrong, read_firm
from warehouse.storage.layout import Layout

FIRST, SECOND = "20261120T021500Z", "20261121T021500Z"
DAY = date(2026, 11, 21)


@dataclass(slots=True)
class Homes:
    """A firm's home, the homes next to it, their nights, and the number of published versions."""

    root: Path
    nights: dict[str, list[Night]] = field(default_factory=dict)
    versions: int = 0

    @property
    def layout(self) -> Layout:
        """The layout of the firm's home."""
        return Layout(self.root / "firm")

    def take(self, name: str, amounts: Iterable[Amount], snapshot_id: str = SECOND) -> Layout:
        """Publish one more night of an organisation, or a second night of the same date.

        Amounts of the portfolio `p1` are moved to a portfolio that only this organisation has.
        """
        layout = Layout(self.root / name / "data")
        own = [
            replace(amount, portfolio=name) if amount.portfolio == "p1" else amount
            for amount in amounts
        ]
        made = night(snapshot_id, own)
        kept = [
            replace(each, is_book=each.is_book and each.day != made.day)
            for each in self.nights.get(name, [])
            if each.snapshot_id != snapshot_id
        ]
        self.nights[name] = sorted([*kept, made], key=lambda each: each.snapshot_id)
        self.versions += 1
        published_once(layout, self.nights[name], f"v{self.versions}")
        return layout

    def publish(
        self, *names: str, fresh: bool = False, day: date = DAY, versions_gb: int = VERSIONS_GB
    ) -> FirmBook:
        """Publish the book of a firm with these organisations."""
        self.describe("".join(f'"{name}" = "../{name}"\n' for name in names))
        self.versions += 1
        build = FirmBuild(
            firm=read_firm(self.layout.home),
            version=f"v{self.versions}",
            built_at=datetime(2026, 11, 21, 6, self.versions, tzinfo=UTC),
            program_version="0",
            day=day,
        )
        return publish_firm(self.layout, build, fresh=fresh, versions_gb=versions_gb)

    def describe(self, sources: str, more: str = "") -> None:
        """Write firm.toml."""
        self.layout.home.mkdir(exist_ok=True)
        (self.layout.home / FIRM).write_text(f"{more}[sources]\n{sources}", "utf-8")

    def ask(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query on the firm's book."""
        with duckdb.connect(str(self.layout.database), read_only=True) as connection:
            return connection.execute(query).fetchall()

    def rows(self) -> Mapping[str, list[tuple[object, ...]]]:
        """Return all rows of each table with a source column."""
        tables = [stored_as(table) for table in OF_SOURCES]
        with duckdb.connect(str(self.layout.database), read_only=True):  # Keep the file open.
            return {name: self.ask(f"select * from {name} order by all") for name in tables}


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    """Publish two organisations with one night each, and with equal venue and asset IDs."""
    made = Homes(tmp_path)
    made.take("alpha", [Amount("1.5"), Amount("7", asset="OWN", custom=True)])
    made.take("beta", [Amount("2.25"), Amount("11", asset="OWN", custom=True)])
    return made


def test_sums_over_organisations_are_exact(homes: Homes) -> None:
    """Sums over organisations are exact to the 18th decimal, even beyond the largest decimal."""
    homes.take("large", [Amount("90000000000000000000.000000000000000001")])
    homes.take("larger", [Amount("90000000000000000000.000000000000000002")])
    homes.take("largest", [Amount("1e30")])
    homes.publish("large", "larger", "largest")
    [(amount, text, sources)] = homes.ask(
        "select total, total_text, sources from firm_holdings_by_asset"
    )
    assert amount is None
    assert (text, sources) == ("1000000000180000000000000000000.000000000000000003", 3)


def test_custom_assets_of_two_organisations_stay_separate(homes: Homes) -> None:
    """Custom assets with the same ID stay separate, because each belongs to one organisation.

    A listed asset is the same asset in all organisations.
    """
    homes.publish("alpha", "beta")
    rows = homes.ask(
        "select asset_id, custom_of, total_text from firm_holdings_by_asset order by all"
    )
    assert rows == [("BTC", None, "3.75"), ("OWN", "alpha", "7"), ("OWN", "beta", "11")]


@pytest.mark.torture
def test_an_updated_book_equals_a_book_built_from_scratch(
    homes: Homes,
) -> None:
    """A book that was updated has the same rows as a book that was built from scratch.

    The update adds an earlier night, and a second read of a night.
    """
    homes.take("alpha", [Amount("4")], FIRST)
    homes.publish("alpha", "beta")
    homes.take("beta", [Amount("3")], "20261121T041500Z")
    homes.take("beta", [Amount("8", asset="ETH")], FIRST)
    homes.publish("alpha", "beta")
    built_upon = homes.rows()
    homes.publish("alpha", "beta", fresh=True)
    assert homes.rows() == built_upon
    assert homes.ask("select total_text from holdings where source = 'beta'") == [("3",)]


def test_an_unreadable_organisation_keeps_its_known_rows(homes: Homes) -> None:
    """If the warehouse of an organisation is missing, its known rows are kept.

    The next night reports it as unreadable, and no total of that night includes it.
    """
    homes.publish("alpha", "beta")
    before = homes.ask("select * from history.balances where source = 'beta' order by all")
    current = Layout(homes.root / "beta" / "data").warehouse / "current"
    current.rename(current.with_name("away"))
    homes.take("alpha", [Amount("6")], "20261122T021500Z")
    book = homes.publish("alpha", "beta")
    assert book.newest == date(2026, 11, 22)
    [told] = [each for each in book.nights if each.source == "beta"]
    assert (told.state, told.is_in_book, told.as_of) == (UNREADABLE, False, DAY)
    assert homes.ask("select * from history.balances where source = 'beta' order by all") == before
    held = homes.ask("select source_names, missing_sources, total_text from firm_holdings_by_asset")
    assert held == [("alpha", "beta", "6")]


def test_rows_that_differ_from_control_totals_are_not_loaded(homes: Homes) -> None:
    """An amount that was changed in a warehouse after its publication is not loaded.

    The rows no longer add up to their control totals, so the firm keeps the older rows.
    """
    homes.publish("alpha", "beta")
    file = homes.take("beta", [Amount("5")], "20261122T021500Z").database.resolve()
    file.chmod(0o640)
    with duckdb.connect(str(file)) as connection:
        connection.execute("update history.balances set amount = 6, amount_text = '6'")
    book = homes.publish("alpha", "beta", day=date(2026, 11, 22))
    [told] = [each for each in book.nights if each.source == "beta"]
    assert told.state == UNREADABLE
    assert "BTC on 2026-11-22: 5 expected, 6 found" in told.reason
    assert any("beta cannot be read" in change for change in book.changes)
    kept = homes.ask("select amount_text from history.balances where source = 'beta' order by all")
    assert kept == [("11",), ("2.25",)]


@pytest.mark.torture
def test_a_damaged_firm_file_is_rebuilt(homes: Homes) -> None:
    """If bytes of the firm's file change after its publication, the next version is a new build.

    All its data is loaded from the sources.
    """
    homes.publish("alpha", "beta")
    rows, file = homes.rows(), homes.layout.database.resolve()
    content = bytearray(file.read_bytes())
    for place in range(4096, len(content), 64 * 1024):
        content[place] ^= 1
    file.chmod(0o640)
    file.write_bytes(content)
    homes.publish("alpha", "beta")
    assert homes.rows() == rows


@pytest.mark.torture
def test_older_firm_versions_stay_within_their_budget(homes: Homes) -> None:
    """Older versions of a firm's book are deleted if they exceed the budget, as in any home.

    The published version and the one before it are always kept.
    """
    for _ in range(3):
        homes.publish("alpha", versions_gb=0)
    assert len(list((homes.layout.warehouse / "versions").iterdir())) == 2


# Kills itself before the N-th call that changes the firm's home, or prints the number of calls.
PUBLISH_AND_DIE = """
import os, signal, sys
from datetime import date
from pathlib import Path
from tests.warehouse.database.test_firm import Homes

root, version, point = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
homes, calls = Homes(root, versions=version), 0
homes.describe('alpha = "../alpha"\\nbeta = "../beta"\\n')

def count(event, args):
    global calls
    changes = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.chmod")
    opened = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)
    if (changes or opened) and "/firm" in str(args[0]):
        calls += 1
        if calls == point:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
homes.publish("alpha", "beta", day=date(2026, 11, 22))
print(calls)
"""
POINTS = range(1, 13)
MIDDLE_FIRST = sorted(POINTS, key=lambda point: abs(point - 6))


def published_in_child(homes: Homes, point: int) -> tuple[int, str]:
    """Publish in a process that kills itself before the given number of changes.

    Return its exit status and its output.
    """
    command = [sys.executable, "-c", PUBLISH_AND_DIE, str(homes.root), str(homes.versions)]
    done = subprocess.run([*command, str(point)], stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("point", some_daily(MIDDLE_FIRST, len(POINTS)))
def test_a_killed_firm_publish_leaves_a_complete_book(homes: Homes, point: int) -> None:
    """If a publish is killed at any time, readers see the complete old or new book.

    The next publish succeeds without manual repair.
    """
    homes.publish("alpha", "beta")
    before = homes.rows()
    homes.take("alpha", [Amount("6")], "20261122T021500Z")
    status, said = published_in_child(homes, point)
    assert status == -signal.SIGKILL or (status == 0 and 0 < int(said) < point <= POINTS[-1])
    assert is_as_published(homes.layout, homes.layout.database)
    seen = homes.rows()
    homes.versions += 1
    homes.publish("alpha", "beta", day=date(2026, 11, 22))
    after = homes.rows()
    assert before != after
    assert seen in (before, after)
    names = [path.name for path in homes.layout.warehouse.rglob("*")]
    assert not [name for name in names if name.startswith(".")]


def test_a_new_or_removed_organisation_is_reported_once(homes: Homes) -> None:
    """A new or removed organisation is reported once, and stays in `ops.sources`.

    No table of the book includes a removed organisation.
    """
    assert homes.publish("alpha").changes == ()
    [came] = homes.publish("alpha", "beta").changes
    assert "beta is new" in came
    [gone] = homes.publish("beta").changes
    assert "alpha is no longer in firm.toml" in gone
    assert homes.publish("beta").changes == ()
    assert homes.ask("select source, is_listed from ops.sources order by all") == [
        ("alpha", False),
        ("beta", True),
    ]
    for table in BOOK:
        assert homes.ask(f"select distinct source from {table.name}") in ([("beta",)], [])


def test_a_rebuild_keeps_an_unreadable_source(
    homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build from scratch keeps an unreadable source, after an upgrade or in a rebuild.

    Its amounts in a portfolio that counts for a different source stay excluded.
    """
    homes.take("delta", [Amount("2.25"), Amount("5", portfolio="alpha")])
    homes.publish("alpha", "delta")
    before = homes.rows()
    home = Layout(homes.root / "delta" / "data").home
    home.rename(home.with_name("away"))
    version = ddl.schema_version()
    monkeypatch.setattr(ddl, "schema_version", lambda: f"{version} upgraded")
    for fresh in (False, True):
        book = homes.publish("alpha", "delta", fresh=fresh)
        assert homes.rows() == before
        [told] = [each for each in book.nights if each.source == "delta"]
        assert (told.state, told.as_of) == ("accepted", DAY)
        assert "delta" in book.state.problems
    assert homes.ask("select source, amount_text from balances order by all") == [
        ("alpha", "1.5"),
        ("alpha", "7"),
        ("delta", "2.25"),
    ]


def test_rows_of_an_unreadable_source_survive_an_upgrade(
    homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of an unreadable source are copied from a file of an older nightbook.

    A column that is missing from the older file is NULL for these rows. Amounts do not change.
    """
    homes.publish("alpha", "beta")
    balances = homes.ask("select * from history.balances order by all")
    file = homes.layout.database.resolve()
    file.chmod(0o640)
    with duckdb.connect(str(file)) as connection:
        connection.execute("alter table ops.decisions drop column decision_id")
    monkeypatch.setattr(publish, "newest_whole", lambda _: file)
    home = Layout(homes.root / "beta" / "data").home
    home.rename(home.with_name("away"))
    homes.publish("alpha", "beta", fresh=True)
    assert homes.ask("select * from history.balances order by all") == balances
    assert homes.ask(
        "select distinct source, decision_id is null from ops.decisions order by all"
    ) == [("alpha", False), ("beta", True)]


@pytest.mark.parametrize("reason", ["damaged", "different columns"])
def test_a_publish_that_would_lose_a_source_is_refused(
    homes: Homes, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """A publish is refused if it would lose the rows of an unreadable source.

    This happens if the columns have changed, or if every version of the file is damaged.
    """
    homes.publish("alpha", "beta")
    home = Layout(homes.root / "beta" / "data").home
    home.rename(home.with_name("away"))
    shown = homes.layout.database.resolve()
    shown.chmod(0o640)
    if reason == "damaged":
        with shown.open("r+b") as file:
            file.seek(8192)
            file.write(b"changed")
    else:
        monkeypatch.setattr(publish, "carry_source", lambda *_: False)
    with pytest.raises(publish.HistoryAtRisk, match=f"beta cannot be read.* {reason}"):
        homes.publish("alpha", "beta", fresh=True)
    assert homes.layout.database.resolve() == shown
    homes.publish("alpha", fresh=True)


def test_the_home_of_a_different_organisation_is_not_read(homes: Homes) -> None:
    """A home whose known nights have different finish times is not read.

    It belongs to a different organisation. Cron starts nights in the same second, so the IDs may be
    equal.
    """
    homes.publish("alpha", "beta")
    before = homes.rows()
    file = Layout(homes.root / "beta" / "data").database.resolve()
    file.chmod(0o640)
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "update ops.snapshots set finished_at = finished_at + to_milliseconds(1)"
        )
    for fresh in (False, True):
        book = homes.publish("alpha", "beta", fresh=fresh)
        assert "Does the home belong to a different organisation?" in book.state.problems["beta"]
        assert homes.rows() == before


def test_an_unreadable_env_file_does_not_stop_the_firm(homes: Homes) -> None:
    """If the `.env` of an organisation cannot be read, the firm's book is still published.

    It keeps the last book of that organisation, with the reason.
    """
    homes.publish("alpha", "beta")
    (homes.root / "beta" / ".env").write_bytes(b"\xff\xfe")
    homes.take("alpha", [Amount("6")], "20261122T021500Z")
    book = homes.publish("alpha", "beta", day=date(2026, 11, 22))
    assert book.newest == date(2026, 11, 22)
    assert ".env in its folder" in book.state.problems["beta"]


def test_a_portfolio_counts_for_the_last_source_that_saw_it(homes: Homes) -> None:
    """A portfolio that several sources can see counts for the source that last saw it.

    A source that no longer has the portfolio stops counting it. A source without a night keeps it,
    so its amounts are missing from the total.
    """
    shared = Amount("1000", portfolio="both")
    homes.take("east", [Amount("1"), shared], FIRST)
    homes.take("west", [Amount("2"), shared], FIRST)
    homes.take("east", [Amount("3")], SECOND)
    homes.take("west", [Amount("4"), shared], SECOND)
    homes.take("east", [Amount("5"), shared], "20261122T021500Z")
    homes.take("west", [Amount("6"), shared], "20261122T021500Z")
    homes.take("west", [Amount("7"), shared], "20261123T021500Z")
    homes.publish("east", "west", day=date(2026, 11, 23))
    totals = "select day(snapshot_date), source, exact_sum(amount_text) from history.balances "
    assert homes.ask(f"{totals} group by all order by all") == [
        *((20, "east", "1001"), (20, "west", "2")),
        *((21, "east", "3"), (21, "west", "1004")),
        *((22, "east", "1005"), (22, "west", "6")),
        (23, "west", "7"),
    ]
    newest = "select total_text, missing_sources from firm_holdings_by_asset"
    assert homes.ask(newest) == [("7", "east")]
    last_known = (
        "select exact_sum(held.total_text) from history.holdings as held "
        "inner join ops.nights as nights "
        "on nights.source = held.source and nights.as_of = held.snapshot_date "
        "where nights.snapshot_date = (select max(snapshot_date) from ops.nights)"
    )
    assert homes.ask(last_known) == [("1012",)]


def test_data_frames_list_missing_organisations(homes: Homes) -> None:
    """Each data frame lists the missing organisations and undecided portfolios in `attrs`."""
    homes.take("delta", [Amount("2.25"), Amount("5", portfolio="alpha")])
    homes.take("gamma", [Amount("9")], FIRST)
    homes.publish("alpha", "delta", "gamma")
    with open_book(homes.layout.home) as book:
        frame = book.holdings(by="asset")
        assert book.days == (date(2026, 11, 20), DAY)
        night_ = frame.attrs["night"]
        assert night_["missing_sources"] == ["gamma"]
        assert night_["undecided_portfolios"] == ["alpha"]
        assert "without gamma" in repr(book)


@pytest.mark.parametrize(
    ("sources", "more", "words"),
    [
        ('a = "../alpha"\nb = "../firm/../alpha"\n', "", "the same home"),
        ('a = "../alpha"\nA = "../beta"\n', "", "differ only in letter case"),
        ('"a / b" = "../alpha"\n', "", "no slash between spaces"),
        ('"a\\u200bb" = "../alpha"\n', "", "visible"),
        ('" " = "../alpha"\n', "", "visible"),
        ("a = 1\n", "", "no folder"),
        ("", "", r"no \[sources\] table"),
        ('a = "../alpha"\n', "shards = 0\n", "above 0"),
        ('a = "../alpha"\n', "shard = 2\n", "not a setting"),
        ('a = "../alpha"\n[portfolios]\np1 = "b"\n', "", "not one of its organisations"),
        ('a = "../alpha"\n[portfolios]\np1 = ["a"]\n', "", "not one of its organisations"),
        ('a = "../alpha"\n', "portfolios = 1\n", "not a table"),
        ('a = "../alpha\n', "", "cannot be read"),
    ],
)
def test_an_invalid_firm_toml_is_rejected(
    tmp_path: Path, sources: str, more: str, words: str
) -> None:
    """An invalid firm.toml is rejected with a message that names the problem.

    For example, two names for one home would count its money twice.
    """
    homes = Homes(tmp_path)
    homes.describe(sources, more)
    with pytest.raises(FirmWrong, match=words) as refused:
        read_firm(homes.layout.home)
    assert "[sources]" in str(refused.value).splitlines()  # Users can paste the example.
