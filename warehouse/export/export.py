"""Exports of one book, or of a part of it: a workbook, CSV files, Parquet files or a database.

The published warehouse is the only source. Every file is written completely or not at all.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from warehouse.contract.model import quote_identifier
from warehouse.export import latest, staged_tables, workbook
from warehouse.export.staged_tables import columns_of, meanings
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.query.book import NAMES, Exhibit, NotExported, OpenBook, book
from warehouse.storage.layout import PUBLISHED_MODE, written_aside
from warehouse.storage.parquet import ROW_GROUP, stream_rows

__all__ = ["FORMATS", "Exported", "NotExported", "export"]

FORMATS = ("xlsx", "csv", "parquet")
DATABASE_FORMAT = "duckdb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The result of an export: the files, each table's row count, and the exported book.

    `as_of` is the exported book's date, which may be earlier than the requested date. The
    `notices` explain this, and everything else that a reader of the figures must know.
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
    workbook_rows: int | None = None,
    renews_latest: bool = False,
    part: str | None = None,
    say: ProgressCallback = silent,
) -> Exported:
    """Write the newest book, or the newest one on or before `as_of`, in these formats.

    With `workbook_rows`, accounts and holdings with more rows are left out, and the summary says
    so. With `renews_latest`, the workbook of the newest book is also written to `latest/`. If
    `database` is a part of a book, `part` is its name. All file names have it.

    Raises `FileNotFoundError` if no warehouse is published, and `NotExported` if there is no such
    book, a format is unknown, or a written file differs from the warehouse.
    """
    _require_formats(database, formats, part)
    files: list[Path] = []
    texts_only = set(formats) == {"xlsx"}
    with book(database, as_of, max_rows=workbook_rows, texts_only=texts_only) as opened:
        source = _with_progress(opened, formats, say)
        notices = source.notices
        suffix = f"{source.day}-part-{part}" if part else f"{source.day}"
        if part:
            files += _of_part(source, database, folder, formats, suffix)
        if "xlsx" in formats:
            files.append(folder / f"positions-{suffix}.xlsx")
            notices = workbook.write(source, files[-1], program_version=program_version)
            if renews_latest and source.day == source.build["newest_date"]:
                latest.write(
                    source,
                    folder,
                    program_version=program_version,
                    workbook_rows=workbook_rows,
                    written=(files[-1], notices),
                )
        for format_ in ("csv", "parquet"):
            if format_ in formats:
                files += _tables(source, folder, format_, suffix)
        return Exported(
            files=tuple(files),
            rows=source.rows,
            as_of=source.day,
            snapshot_id=source.snapshot_id,
            notices=notices,
        )


def _require_formats(database: Path, formats: Sequence[str], part: str | None) -> None:
    """Raise `NotExported` if a format is unknown, or no format is given."""
    if part is None and DATABASE_FORMAT in formats:
        raise NotExported(
            f"The whole book is already a DuckDB file, which you can copy: {database}. No file was "
            "written. For a part of the book, add --portfolio."
        )
    unknown = sorted(set(formats) - {*FORMATS, DATABASE_FORMAT})
    if unknown or not formats:
        raise NotExported(
            f"{'Unknown format: ' + ', '.join(unknown) if unknown else 'No format was given'}. "
            f"Use one or more of {', '.join(FORMATS)}. No file was written."
        )


def _of_part(
    source: OpenBook, database: Path, folder: Path, formats: Sequence[str], suffix: str
) -> Iterator[Path]:
    """Write the files that only a part has: its database, and the notices next to CSV files."""
    if DATABASE_FORMAT in formats:
        path = folder / f"book-{suffix}.duckdb"
        with database.open("rb") as draft, written_aside(path, PUBLISHED_MODE) as file:
            shutil.copyfileobj(draft, file)
        yield path
    if "csv" in formats:
        path = folder / f"about-{suffix}.txt"
        with written_aside(path) as file:
            file.write("".join(f"{notice}\n" for notice in source.notices).encode())
        yield path


def _with_progress(source: OpenBook, formats: Sequence[str], say: ProgressCallback) -> OpenBook:
    """Return a copy of the book that reports the number of rows written so far to `say`."""
    times = ("xlsx" in formats) + 2 * ("csv" in formats)
    rows = Tally(say, times * sum(source.rows.values()), "rows written")
    return replace(source, on_rows=rows.add)


def _parquet(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write an exhibit to a Parquet file, with the view's columns unchanged."""
    names = [name for name in columns_of(source, exhibit) if name not in NAMES]
    relation = source.connection.table(exhibit.staged_name).select(*map(quote_identifier, names))
    about = {"nightbook.view": exhibit.view, "nightbook.snapshot": source.snapshot_id}
    if source.is_part:
        about["nightbook.notices"] = "\n".join(source.notices)
    return stream_rows(relation.to_arrow_reader(ROW_GROUP), path, meanings(exhibit), about)


# Maps each export format to file extensions, and each extension to the function that writes it.
_WRITERS = {
    "csv": {"people.csv": staged_tables.for_people, "machines.csv": staged_tables.for_machines},
    "parquet": {"parquet": _parquet},
}


def _tables(source: OpenBook, folder: Path, format_: str, suffix: str) -> Iterator[Path]:
    """Write every table in one format. Raises `NotExported` if a file's row count is wrong."""
    for exhibit in source.exhibits:
        expected = source.rows[exhibit.title]
        for ending, write in _WRITERS[format_].items():
            path = folder / f"{exhibit.title.lower()}-{suffix}.{ending}"
            rows = write(source, exhibit, path)
            if rows != expected:
                raise NotExported(
                    f"{rows} rows of {exhibit.title} were written, but {expected} were expected. "
                    "Do not use these files. This is a bug in nightbook."
                )
            yield path
