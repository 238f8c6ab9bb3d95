"""See what was put into a warehouse: each book is shown, its totals are taken again and checked."""

from collections.abc import Iterable
from datetime import date

from duckdb import DuckDBPyConnection

from warehouse.contract.ops import CHECKS
from warehouse.contract.wording import and_more
from warehouse.database import work_copy
from warehouse.database.control_totals import count_totals
from warehouse.database.ddl import book_comments, newest_book
from warehouse.database.lake_nights import NativeWindow
from warehouse.database.load import Book, fill, newest_date
from warehouse.database.materialization import materialize_comparison
from warehouse.progress import Say, Tally
from warehouse.sql.checks import CheckResult, run_checks

SHOWN_PROBLEMS = 5


class NotPublished(Exception):
    """A book must not be shown; what people see has not changed.

    `snapshots` are the ids it is about, `problems` one sentence each with its numbers.
    """

    def __init__(self, snapshots: tuple[str, ...], problems: tuple[str, ...]) -> None:
        self.snapshots = snapshots
        self.problems = problems
        super().__init__(
            f"The book of {and_more(snapshots, SHOWN_PROBLEMS)} was not published: "
            f"{and_more(problems, SHOWN_PROBLEMS, '; ')}. The warehouse still shows what it "
            "showed before. Look at that snapshot's folder in the landing zone; reject it, or "
            "rebuild the lake from landing."
        )


def verify(
    connection: DuckDBPyConnection, loaded: list[Book], window: NativeWindow, say: Say
) -> tuple[CheckResult, ...]:
    """Run totals and checks of every book that was put in, and last of the newest one.

    `loaded` stands in the order of its dates.
    """
    newest = newest_date(connection)
    problems: list[str] = []
    wrong: list[str] = []
    results: tuple[CheckResult, ...] = ()
    checked = Tally(say, len(loaded), "nights checked")
    for book in loaded:
        # Each book is shown under the plain names while it is checked, so that checks and views are
        # the same queries for the newest night and for one that was loaded again.
        if book is not loaded[0]:
            work_copy.save(connection)
        show_book(connection, book.snapshot_date, window)
        failures = list(count_totals(connection, book, is_deduplicated=window.is_set))
        results = run_checks(connection)
        materialize_comparison(connection, book.snapshot_date)
        failures += [result.failure for result in results if result.stops]
        if failures:
            wrong.append(book.snapshot_id)
            problems += failures
        checked.add(1)
    if problems:
        raise NotPublished(tuple(wrong), tuple(problems))
    if not loaded or loaded[-1].snapshot_date != newest:
        show_book(connection, newest, window)
        results = run_checks(connection)
    work_copy.run_all(connection, book_comments())
    fill(connection, CHECKS, [_row_of(newest, result) for result in results if newest])
    return results


def compare_again(
    connection: DuckDBPyConnection, days: Iterable[date], window: NativeWindow
) -> None:
    """Compare books anew whose book before is another one now."""
    for day in days:
        show_book(connection, day, window)
        materialize_comparison(connection, day)


def show_book(connection: DuckDBPyConnection, day: date | None, window: NativeWindow) -> None:
    """Point the plain names of schema main at one day's book, and at the one before it."""
    before = newest_date(connection, day) if day else None
    work_copy.run_all(connection, newest_book(day, before, window.rows))


def _row_of(day: date, result: CheckResult) -> dict[str, object]:
    return {
        "snapshot_date": day,
        "check_name": result.name,
        "meaning": result.meaning,
        "severity": result.severity,
        "passed": result.is_ok,
        "wrong_rows": result.wrong_rows,
        "example": result.example,
    }
