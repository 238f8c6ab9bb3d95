"""Tests of unused content, which is reported and settled once, and of each file's own level."""

import re
import shutil
import tracemalloc
from datetime import date
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.pasted_answers import answer
from tests.support.reconciliation_home import NOW, SNAPSHOT, Desk, ledger
from tests.support.shared import some_daily
from tests.warehouse.reconcile.ledger.test_columns_unread import CASES, Place, database, place
from warehouse.reconcile import service
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.model import Annotation, Entry, Run
from warehouse.reconcile.record import views
from warehouse.reconcile.settings.config import TEMPLATE, parse_config
from warehouse.reconcile.settings.layout import name_pattern
from warehouse.reconcile.settings.toml import quote, setting
from warehouse.reconcile.terms import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.files import UnreadableSpreadsheet
from warehouse.spreadsheet.reading.grid import open_file

pytestmark = pytest.mark.usefixtures("no_workbook")

__all__ = ["database", "place"]
BOOK = [Amount("10"), Amount("5", venue="v2", account="cold"), Amount("7", portfolio="p2")]
MOVED = [Amount("9"), Amount("6", venue="v2", account="cold"), Amount("7", portfolio="p2")]
ASKED = (
    "an unknown column of the portfolios, and units moved between them",
    "a column without a title that holds the accounts",
    "a tab that is not understood, with an adjustment",
    "a hidden tab with an adjustment",
    "two columns of amounts",
    "a pivot's total",
    "an archive in an archive",
    "a link to a ledger elsewhere",
    "a copy of the same day with another number",
    "a date of the last movement",
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a desk with a book of three amounts for 2026-11-20."""
    made = Desk(tmp_path)
    made.publish(BOOK)
    return made


def summary(path: Path) -> list[str]:
    """Return the texts of the first sheet."""
    sheet = openpyxl.load_workbook(path, data_only=True)["Summary"]
    return [str(cell) for row in sheet.iter_rows(values_only=True) for cell in row if cell]


@pytest.mark.parametrize("name", some_daily(ASKED, 3))
def test_a_question_is_settled_by_its_proposed_line(place: Place, name: str) -> None:
    """After its line is pasted below recon.toml, the question is not asked again."""
    put, _ = CASES[name]
    put(place)
    try:
        (high,) = [one for one in place.run().unused if one.severity == "high"]
        line = "[inbox]\n" + high.reason.partition("[inbox] ")[2]
    except Ambiguous as error:
        line = answer(error.line)
    place.settle(line)
    ran = place.run()
    assert all(one.severity != "high" for one in ran.unused)
    assert ran.exit_code == (3 if ran.open_breaks else 0)


def test_two_answers_may_name_the_same_table(place: Place) -> None:
    """Two answers may name the same table, although TOML does not allow this."""
    place.settle('[ledger."0a1b2c3d"]\nsheet = "A"\n[tolerance]\nlimit = "1"')
    place.settle('[ledger."0a1b2c3d"]\nunused = ["B", "C"]')
    place.put(ledger([]) + "p1;BTC;v1;main;10\n")
    assert place.run().counts["Matched"] == 1


def test_the_proposed_line_treats_brackets_as_text() -> None:
    """The proposed line for a download such as `ledger [1].csv` treats the brackets as text."""
    name = "ledger [1] 2026-11-20.csv"
    table = f"[file.{quote(name_pattern(name))}]\n"
    lines = '[ledger."0a1b2c3d"]\namount = "X"\n' + table + 'amount = "Y"\n'
    config = parse_config(f"{lines}{table}venue = 'v1'\n".encode(), Path("recon.toml"))
    assert config.shapes["0a1b2c3d"].columns == {"amount": "X"}
    settled = config.of_file(name.replace("20.csv", "21.csv"))
    assert (settled.shape.columns, settled.covers) == ({"amount": "Y"}, {"venue": ("v1",)})


def test_lines_for_recon_toml_escape_special_characters() -> None:
    """Lines for recon.toml escape line separators and all other characters that need it in TOML."""
    letters = [chr(code) for code in (*range(0x300), *range(0x2000, 0x2070), 0xFEFF, 0x1F4B0)]
    lines = "".join(f"{setting(f'a{letter}b', f'c{letter}d')}\n" for letter in letters)
    config = parse_config(f"[alias.account]\n{lines}".encode(), Path("recon.toml"))
    assert config.aliases["account"] == {f"a{letter}b": f"c{letter}d" for letter in letters}


@pytest.mark.parametrize("tab", ["Spot", "Vault"])
def test_an_expected_tab_is_reported_only_if_it_is_missing(desk: Desk, tab: str) -> None:
    """A tab that recon.toml expects is reported only if the workbook does not contain it."""
    desk.settle(f'[file."custody.xlsx!{tab}"]\nexpected = true\n')
    desk.folder.make()
    book = openpyxl.Workbook()
    book.active.title = "Spot"
    for row in ledger(BOOK).splitlines():
        book.active.append(row.split(";"))
    book.save(desk.folder.inbox / "custody.xlsx")
    missed = [item.name for item in desk.run().unused]
    assert missed == ([] if tab == "Spot" else ["custody.xlsx!Vault"])


def test_older_ledgers_are_reported_in_one_line(desk: Desk) -> None:
    """The older ledgers of a month are reported in a single line."""
    for day in range(1, 21):
        desk.put(ledger(BOOK), f"ledger-2026-11-{day:02}.csv")
    ran = desk.run()
    assert ran.notices == ()
    (unused,) = ran.unused
    assert (unused.count, unused.severity) == (19, "low")
    assert unused.name == "ledger-2026-11-01.csv ... ledger-2026-11-19.csv"


@pytest.mark.torture
def test_ledgers_of_earlier_nights_may_stay_in_the_inbox(desk: Desk) -> None:
    """Ledgers of earlier nights may stay in the inbox, and are not versions of tonight's ledger."""
    desk.put(ledger(BOOK))
    desk.run(date(2026, 11, 20))
    for day in (21, 22):
        desk.publish(BOOK, f"202611{day}T021500Z")
        desk.put(ledger(BOOK) + f"p1;BTC;v1;new-{day};0\n", f"ledger ({day}).csv")
        ran = desk.run(date(2026, 11, day))
        assert (ran.exit_code, ran.counts["Matched (zero)"]) == (0, 1)


@pytest.mark.usefixtures("workbook")
def test_lines_are_sorted_by_severity(desk: Desk) -> None:
    """In the result, on the first sheet and in Notices, the most severe lines are at the top."""
    desk.settle(TEMPLATE.replace("# SHIB", "SHIB"))
    (desk.folder.inbox / "custody.zip").write_bytes(b"PK")
    desk.put("p", "scan.pdf")
    desk.put(ledger(BOOK) + "p1;BTC;v1;cold;much\np1;Bitcoins;v1;main;1\n")
    ran = desk.run()
    found = [one.severity for one in ran.notices]
    order = ["high", "medium", "low"]
    assert found == sorted(found, key=order.index)
    assert set(found) == set(order)
    sheet = openpyxl.load_workbook(ran.files[0])["Notices"]
    told = [cell.value for cell in sheet["A"] if cell.value in order]
    assert told == sorted(told, key=order.index)
    lines = [text for text in summary(ran.files[0]) if text.startswith("NOT USED")]
    assert lines == ["NOT USED (high)", "NOT USED (medium)"]


def test_the_message_gives_the_level_and_the_unused_counts(desk: Desk) -> None:
    """The message gives the level of the comparison, and how many columns and rows are not used."""
    desk.put(
        "portfolio;asset;venue;amount;price\n" + "p1;BTC;v1;10;9\np1;BTC;v2;5;9\n\nTotal;;;15;\n"
    )
    words = desk.run().message
    assert "3 positions compared per portfolio, asset and venue; 2 equal, 1 break (" in words
    assert words.endswith("2 of 3 matched (66.6 %); not used: 1 column, 2 rows.")
    desk.put(ledger(BOOK))
    assert desk.run().message.endswith("not used: nothing.")


def test_status_returns_exit_code_3_for_an_unread_file(desk: Desk) -> None:
    """As long as nobody has decided about an unread file, `status` and the run return exit code 3.

    This is so even if every key matches.
    """
    desk.put(ledger(BOOK))
    (desk.folder.inbox / "custody.zip").write_bytes(b"PK")
    ran = desk.run()
    assert (ran.exit_code, ran.breaks) == (3, 0)
    standing = service.status(desk.folder.root).run
    assert standing.exit_code == 3
    assert standing.coverage is not None
    assert standing.coverage.message.endswith("not used: 1 file.")
    assert [words.partition(":")[0] for words in standing.unread] == ["custody.zip"]
    desk.settle('[inbox]\n"*.zip" = "unused"\n')
    assert desk.run().exit_code == service.status(desk.folder.root).run.exit_code == 0


def test_an_empty_inbox_passes_but_an_unreadable_file_does_not(desk: Desk) -> None:
    """An empty inbox is not a failure, because the ledger may be late.

    If the inbox has only a file that cannot be read, the exit code is 3.
    """
    assert desk.run().exit_code == 0
    (desk.folder.inbox / "ledger.zip").write_bytes(b"PK")
    ran = desk.run()
    assert ran.exit_code == 3
    assert "no file in the inbox could be read as the ledger for 2026-11-20" in ran.message


@pytest.mark.torture
@pytest.mark.parametrize("text", ["please call me\n", "what;who\nnotes;Ada\nmore;Bob\n"])
def test_a_file_that_is_not_a_ledger_may_be_set_aside(desk: Desk, text: str) -> None:
    """A note in the inbox stops the run. The line in the message sets the note aside."""
    desk.put(ledger(BOOK))
    desk.put(text, "readme.txt")
    with pytest.raises((Ambiguous, NotReconciled)) as asked:
        desk.run()
    assert '"readme.txt" = "unused"' in str(asked.value)
    desk.settle('[inbox]\n"readme.txt" = "unused"\n')
    ran = desk.run()
    assert (ran.exit_code, [one.name for one in ran.unused]) == (0, ["readme.txt"])


def test_a_coarse_file_does_not_make_a_fine_file_coarser(desk: Desk) -> None:
    """Units moved between accounts are breaks in a fine file, even next to a coarse file."""
    desk.put(ledger(MOVED[:2]), "fine.csv")
    desk.put("portfolio;asset;amount\np2;BTC;7\n", "coarse.csv")
    ran = desk.run()
    assert (ran.breaks, ran.counts["Matched"]) == (2, 1)
    assert ran.level == (
        "coarse.csv at portfolio, asset; fine.csv at portfolio, asset, venue, account"
    )
    assert {one["names"]["account"] for one in desk.breaks()} == {"main", "cold"}


def test_a_coarse_file_is_compared_with_the_rest_of_the_book(desk: Desk) -> None:
    """A coarse file is compared with the part of the book that the finer files do not contain."""
    desk.put(ledger(BOOK[:1]), "fine.csv")
    desk.put("asset;amount\nBTC;13\n", "coarse.csv")
    ran = desk.run()
    assert (ran.breaks, ran.counts["Matched"]) == (1, 1)
    (found,) = desk.breaks()
    assert (found["ledger"], found["snapshot"], found["names"]["venue"]) == ("13", "12", "(all)")


def test_a_rejected_row_of_a_coarse_file_has_a_coarse_key(desk: Desk) -> None:
    """A rejected row of a coarse file has a coarse key, so no finer key counts as rejected."""
    desk.put(ledger(BOOK[:2]), "fine.csv")
    desk.put("portfolio;asset;amount\np2;BTC;seven\n", "coarse.csv")
    ran = desk.run()
    assert (ran.counts["Matched"], ran.counts["Rejected"]) == (2, 0)
    assert ran.exit_code == 3


@pytest.mark.usefixtures("workbook")
def test_the_sum_of_ignored_differences_is_shown(desk: Desk) -> None:
    """Small differences are ignored, and the first sheet shows their sum."""
    desk.settle('[tolerance]\nabsolute = "0.001"\n')
    desk.put(ledger([Amount("10.0004"), BOOK[1], Amount("6.9996", portfolio="p2")]))
    ran = desk.run()
    assert (ran.exit_code, ran.counts["Within tolerance"]) == (0, 2)
    told = summary(ran.files[0])
    assert "Ignored differences: BTC" in told
    assert "0.0008 of 22 (3.64e-5 of it)" in told
    assert "3.64e-5 of each of 1 asset, on average" in told


def test_differences_within_tolerance_are_limited_in_total(desk: Desk) -> None:
    """If the differences within tolerance are too large in total, all of them are breaks.

    The limit for this total is a setting.
    """
    short = [Amount("9.91"), Amount("4.956", venue="v2", account="cold"), BOOK[2]]
    desk.put(ledger(short))
    desk.settle('[tolerance]\nrelative = "0.01"\n')
    ran = desk.run()
    assert (ran.exit_code, ran.breaks) == (3, 2)
    assert ran.notices[0].message.startswith(
        "the differences allowed by tolerance are too large in total: 2 positions in BTC"
    )
    desk.settle('[tolerance]\nrelative = "0.01"\nlimit = "0.01"\n')
    assert (desk.run().exit_code, desk.run().breaks) == (0, 0)


def test_a_line_of_many_megabytes_is_refused_before_decoding(tmp_path: Path) -> None:
    """A line of 60 MB is refused before its bytes are decoded."""
    path = tmp_path / "ledger.csv"
    path.write_bytes(b"BTC;1;" * 10_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableSpreadsheet, match="has a line of more than 10,000,000 bytes"):
            open_file(path, count_fields)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * path.stat().st_size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('asset = "amount"', "covers the asset 'amount', which the book does not have"),
        (
            'asset = ["BTC", "BTCC"]',
            "'BTCC', which the book does not have; perhaps you mean \"BTC\"",
        ),
        ('venue = "v3"', "covers the venue 'v3', which the book does not have"),
        ('account = "Konto"', "covers the account 'Konto', which the book does not have"),
        ('portfolio = "portfolio"', "column title, and the portfolio with this name is 'p1'"),
    ],
)
def test_a_file_cannot_cover_an_unknown_name(tmp_path: Path, line: str, words: str) -> None:
    """A file that covers an unknown name or a column's title is an error, and nothing is stored."""
    made = Desk(tmp_path)
    book = [Amount("10"), Amount("5", venue="v2", account="cold")]
    made.publish(book, change={"portfolios": {"name": "portfolio"}})
    made.settle(f'[file."*"]\n{line}\n')
    path = made.put(ledger(book))
    with pytest.raises(NotReconciled, match=re.escape(words)) as refused:
        made.run()
    assert "write the column's title under [ledger.\"" in str(refused.value)
    assert sorted(one.name for one in made.folder.root.iterdir()) == ["inbox", "out", "recon.toml"]
    with pytest.raises(NotReconciled, match=re.escape(words)):
        service.preview(made.layout.database, made.folder.root, path)


def test_covered_names_are_found_in_any_case_and_earlier_books(desk: Desk) -> None:
    """A file may cover an account in a different case, or a venue that only an earlier book has."""
    desk.put(ledger(BOOK))
    desk.settle('[file."*"]\naccount = "MAIN "\n')
    assert "2 of 3 positions compared" in desk.run().message
    desk.publish(BOOK[:1], SNAPSHOT.replace("20261120", "20261121"))
    desk.settle('[file."*"]\nvenue = ["v1", "venue v2"]\naccount = ["main", "cold"]\n')
    assert "3 positions compared" in desk.run().message


@pytest.mark.usefixtures("workbook")
def test_a_run_without_compared_positions_is_reported(desk: Desk) -> None:
    """If no position was compared, the run, `status`, the banner and the sign-off report it.

    This is so even if no break is open.
    """
    desk.publish([*BOOK, Amount("3", asset="SOL")], SNAPSHOT.replace("20261120", "20261119"))
    desk.put(ledger(BOOK))
    desk.settle('[file."*"]\nasset = "SOL"\n')
    ran = desk.run()
    assert (ran.exit_code, ran.breaks) == (3, 0)
    assert "0 of 3 positions compared" in ran.message
    assert banner(ran.files[0]) == ("0 open breaks (0 in total); 0 of 3 positions compared", RED)
    standing = service.status(desk.folder.root).run
    assert (standing.exit_code, standing.extent) == (3, "0 of 3 positions compared")
    with pytest.raises(
        NotReconciled, match="did not compare any positions, so there is nothing to sign"
    ):
        service.sign(desk.folder.root, role="preparer", who="ada", now=NOW)


RED, AMBER, GREEN = "FFFFC7CE", "FFFFF2CC", "FFE2EFDA"


def banner(path: Path) -> tuple[str, str]:
    """Return the text of the banner as programs show it, and its colour."""
    shown = openpyxl.load_workbook(path, data_only=True)["Summary"]
    cell = next(cell for (cell,) in shown.iter_rows(max_col=1) if "in total)" in str(cell.value))
    return cell.value, cell.fill.fgColor.rgb


@pytest.mark.usefixtures("workbook")
def test_the_number_of_compared_positions_is_reported(desk: Desk) -> None:
    """The run, `status` and the banner say how many positions of the book were compared."""
    desk.put(ledger(BOOK))
    ran = desk.run()
    assert (ran.exit_code, banner(ran.files[0])[1]) == (0, GREEN)
    desk.settle('[file."*"]\nvenue = "v1"\n')
    ran = desk.run()
    words = "2 of 3 positions compared"
    assert f"{words} per portfolio, asset, venue and account; 2 equal, 0 breaks" in ran.message
    assert banner(ran.files[0]) == (f"0 open breaks (0 in total); {words}", AMBER)
    assert service.status(desk.folder.root).run.extent == words
    (row,) = views.ops_rows(desk.folder)["reconciliations"]
    assert (row["positions_compared"], row["positions_not_compared"]) == (2, 1)


COARSE, FINE = "portfolio;asset;amount\np1;", "portfolio;asset;account;amount\np1;"


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Publish four nights with two venues. At the second venue, the amount changes each night."""
    made = Desk(tmp_path_factory.mktemp("nights"))
    for day in range(20, 24):
        moved = Amount(str(day), asset="ETH", venue="v2")
        rest = [Amount("10"), Amount("7", asset="SOL"), Amount("3", asset="SOL", account="cold")]
        made.publish([moved, *rest], SNAPSHOT.replace("20261120", f"202611{day}"))
    return made


@pytest.fixture
def two_files(nights: Desk, tmp_path: Path) -> Desk:
    """Copy the four nights, and configure a file for each venue."""
    shutil.copytree(nights.home, tmp_path / "home", symlinks=True)
    made = Desk(tmp_path / "home", nights.versions, list(nights.nights))
    made.settle('[file."a*"]\nvenue = "v1"\nasset = "BTC"\n[file."b*"]\nvenue = "v2"\n')
    return made


def night(desk: Desk, day: int, **texts: str) -> Run:
    """Return the result of a day. The keys of `texts` are the beginnings of the file names."""
    for file in desk.folder.inbox.glob("*.csv"):
        file.unlink()
    for name, text in texts.items():
        desk.put(text, f"{name}_2026-11-{day}.csv")
    desk.run(as_of=date(2026, 11, day))
    result = desk.folder.result(date(2026, 11, day))
    assert result is not None
    return result


def test_a_break_survives_two_missing_nights_and_a_new_level(
    two_files: Desk,
) -> None:
    """A break keeps its age and its comment although its file is missing for two nights.

    In these nights, the other file gains a column, so the level of the run changes.
    """
    first = night(two_files, 20, a=f"{COARSE}BTC;11\n", b=f"{COARSE}ETH;22\n")
    missed = first.breaks[1]
    for day in (21, 22):
        result = night(two_files, day, a=f"{FINE}BTC;main;11\n")
        assert [one.key for one in result.not_compared] == [("p1", "ETH", "v2")]
    said = Entry(break_id=missed.id, field="comment", value="asked the custodian")
    two_files.folder.annotations.add(
        Annotation(
            who="ada",
            at="2026-11-22T09:00:00+00:00",
            source="",
            sha256="",
            run_id="",
            base_revision=0,
            entries=(said,),
        )
    )
    result = night(two_files, 23, a=f"{FINE}BTC;main;11\n", b=f"{COARSE}ETH;25\n")
    again = result.breaks[1]
    assert again.key == ("p1", "ETH", "v2", "(all)")
    assert (again.first_seen, again.age_days) == (first.day, 3)
    assert (again.comment, again.change) == ("asked the custodian", "unchanged")
    assert result.resolved == ()


def test_a_break_keeps_its_age_if_its_file_gains_a_column(
    two_files: Desk,
) -> None:
    """A break keeps its age if the level of its file changes but the level of the run does not."""
    first = night(two_files, 20, a=f"{FINE}BTC;main;10\n", b=f"{COARSE}ETH;22\n")
    second = night(two_files, 21, a=f"{FINE}BTC;main;10\n", b=f"{FINE}ETH;main;23\n")
    (break_,) = second.breaks
    assert (break_.key[-1], break_.first_seen, second.resolved) == ("main", first.day, ())


def test_a_matching_key_is_resolved_despite_a_new_fine_break(
    two_files: Desk,
) -> None:
    """A key that is compared and matches is resolved, even if there is a new break next to it."""
    two_files.settle('[file."*"]\nasset = "SOL"\n')
    night(two_files, 20, fine=f"{FINE}SOL;main;7\n", rest=f"{COARSE}SOL;5\n")
    second = night(two_files, 21, fine=f"{FINE}SOL;main;8\n", rest=f"{COARSE}SOL;3\n")
    (break_,) = second.breaks
    assert (break_.key, break_.change) == (("p1", "SOL", "main"), "new")
    (resolved,) = second.resolved
    assert (resolved.key[-1], resolved.closed_because.split(",")[0]) == ("(all)", "it now matches")


def test_yesterdays_amount_has_the_level_of_its_own_file(two_files: Desk) -> None:
    """Yesterday's amount of a key is calculated at the level of the key's own file."""
    night(two_files, 20, a=f"{FINE}BTC;main;10\n", b=f"{COARSE}ETH;20\n")
    second = night(two_files, 21, a=f"{FINE}BTC;main;10\n", b=f"{COARSE}ETH;20\n")
    (break_,) = second.breaks
    assert break_.cause.startswith("A day behind")


def test_a_break_that_is_now_within_tolerance_is_closed(two_files: Desk) -> None:
    """A break that was not compared in between is closed because it is now within tolerance."""
    night(two_files, 20, a=f"{COARSE}BTC;10\n", b=f"{COARSE}ETH;20.5\n")
    two_files.settle(two_files.folder.config.read_text() + "expected = false\n")
    night(two_files, 21, a=f"{COARSE}BTC;10\n")
    standing = service.status(two_files.folder.root).run
    words = "1 of 3 positions compared, 1 open break from earlier nights could not be compared"
    assert (standing.exit_code, standing.extent) == (3, words)
    settled = two_files.folder.config.read_text()
    two_files.settle('[tolerance]\nabsolute = "1"\n' + settled)
    third = night(two_files, 22, a=f"{COARSE}BTC;10\n", b=f"{COARSE}ETH;22.5\n")
    assert [one.closed_because for one in third.resolved] == ["Within tolerance: absolute 1"]


def test_a_break_whose_level_is_gone_is_not_reported_as_matched(two_files: Desk) -> None:
    """If two earlier breaks may be one coarser break now, neither is reported as matched."""
    two_files.settle('[file."*"]\nasset = "SOL"\n')
    fine = f"{FINE}SOL;main;8\np1;SOL;cold;4\n"
    assert len(night(two_files, 20, ledger=fine).breaks) == 2
    second = night(two_files, 21, ledger=f"{COARSE}SOL;12\n")
    assert len(second.breaks) == 1
    reasons = {one.closed_because for one in second.resolved}
    level = "portfolio, asset, account"
    how = "it now matches, is on neither side, or is a break at a different level"
    assert reasons == {f"no longer compared per {level}: {how}"}
