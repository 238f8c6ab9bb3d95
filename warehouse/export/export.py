"""Positions for people and machines: the workbook, CSV files, Parquet, of one book.

Everything is read from the published warehouse and nothing from the wire; every file appears whole
or not at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from warehouse.export import csv_files, parquet_files, workbook
from warehouse.progress import Say, Tally, silent
from warehouse.query.book import EXHIBITS, NotExported, OpenBook, book

__all__ = ["FORMATS", "Exported", "NotExported", "export"]

FORMATS = ("xlsx", "csv", "parquet")


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote: the files, the rows of each table, the book, and what to know of it.

    `as_of` is the date of the book that was exported, which may be before the one asked for; then
    `notices` says so, like everything else that the reader of the figures must know.
    """

    files: tuple[Path, ...]
    rows: Mapping[str, int]
    as_of: date
    snapshot_id: str
    notices: tuple[str, ...]


def export(
    database: Path,
    folder: Path,
    *,
    as_of: date | None,
    formats: Sequence[str],
    program_version: str,
    say: Say = silent,
) -> Exported:
    """Write the newest book, or the newest on or before `as_of`, in these formats.

    Raises `FileNotFoundError` where no warehouse is published, `NotExported` where there is no
    such book, a format is unknown, or what was written is not what the warehouse holds.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown or not formats:
        raise NotExported(
            f"{', '.join(unknown) or 'nothing'} was given as format; expected some of "
            f"{', '.join(FORMATS)}. No file was written."
        )
    files: list[Path] = []
    with book(database, as_of) as opened:
        source = _with_progress(opened, formats, say)
        notices = source.notices
        if "xlsx" in formats:
            files.append(folder / f"positions-{source.day}.xlsx")
            notices = workbook.write(source, files[-1], program_version=program_version)
        if "csv" in formats:
            files += _csv(source, folder)
        if "parquet" in formats:
            files += _parquet(source, folder)
        return Exported(tuple(files), source.rows, source.day, source.snapshot_id, notices)


def _with_progress(source: OpenBook, formats: Sequence[str], say: Say) -> OpenBook:
    """Return the same, telling of rows of sheets and CSV files; Parquet is done at once."""
    times = ("xlsx" in formats) + 2 * ("csv" in formats)
    rows = Tally(say, times * sum(source.rows.values()), "rows written")
    return replace(source, on_rows=rows.add)


def _csv(source: OpenBook, folder: Path) -> list[Path]:
    made = []
    for exhibit in EXHIBITS:
        name = f"{exhibit.title.lower()}-{source.day}"
        people, machines = folder / f"{name}.people.csv", folder / f"{name}.machines.csv"
        _whole(source, exhibit.title, csv_files.for_people(source, exhibit, people))
        _whole(source, exhibit.title, csv_files.for_machines(source, exhibit, machines))
        made += [people, machines]
    return made


def _parquet(source: OpenBook, folder: Path) -> list[Path]:
    made = []
    for exhibit in EXHIBITS:
        made.append(folder / f"{exhibit.title.lower()}-{source.day}.parquet")
        _whole(source, exhibit.title, parquet_files.write(source, exhibit, made[-1]))
    return made


def _whole(source: OpenBook, title: str, rows: int) -> None:
    if rows != source.rows[title]:
        raise NotExported(
            f"{rows} rows of {title} were written and {source.rows[title]} were expected: do not "
            "use these files. This is a fault of the program."
        )
