"""Printed tables, whose columns are separated by pipes and rules or aligned with spaces.

Every line is one row, so row numbers are line numbers. Rules, page numbers and notes become rows
with a single cell to the right of all columns, so they are never mistaken for an asset or an
amount.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby, pairwise

from warehouse.spreadsheet.reading.delimited_text import Row

_BARS = str.maketrans(dict.fromkeys("\u2502\u2503\u2551\u2506\u250a\u254e", "|"))
# A pattern for lines that consist of dashes, equals signs or box-drawing characters. Patterns for
# whole lines must not be ambiguous, because an ambiguous pattern took hours to match a line of
# dashes.
_RULE = re.compile("(?=(?s:.*)[\u2500-\u257f=_-]{3})[\\s|+:*\u2500-\u257f=_-]*")
_DIGIT = re.compile("[0-9]")
_DIGITS = re.compile("[0-9]+")
_PAGE = re.compile(
    r"\W*(?:page|pg|seite|blatt|pagina|p\u00e1gina|\u0441\u0442\u0440\u0430\u043d\u0438\u0446\u0430"
    r"|\u0441\u0442\u0440|\u30da\u30fc\u30b8)(?:\W+(?:no|nr))?\W*[0-9]+"
    r"(?:\W*(?:of|von|van|de|di|sur|\u0438\u0437)\W*[0-9]+|\W+[0-9]+)?\W*",
    re.IGNORECASE,
)
# A pattern for one or more words with single spaces between them.
_SPACED = re.compile(r"\S+(?: \S+)*")
_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"\S+(?: \S+){2,}")
_FIGURE = (
    r"[^\w\s()+-]?[0-9][0-9.,'\u2019]*(?: [0-9]{3})*(?:[.,][0-9]+)?(?:e[-+]?[0-9]+)?"
    r"(?: ?[^\w\s()+-])?"
)
_AMOUNT = re.compile(
    rf"(?:\({_FIGURE}\)|[-+]?{_FIGURE}-?)(?: ?[A-Z]{{1,6}})?|-+",
    re.IGNORECASE,
)
_FIRST_GROUP = re.compile(r"[-+(]?[0-9]{1,3}")
_GROUPS = re.compile(r"[0-9]{3}(?: [0-9]{3})*(?:[.,][0-9]+)?[-)]?(?: ?[A-Z%]{1,6})?", re.IGNORECASE)
_FOOTER = re.compile(
    r"\(?[0-9,.]+ (?:rows?|records?|lines?)(?: selected)?\.?\)?|-+ ?end.*", re.IGNORECASE
)
_HEAD = 100  # number of lines at the beginning in which to search for a header
BOTH = 10  # Rows with at least this score from `recognised` name both an asset and an amount.
_Span = tuple[int, int]
Recognised = Callable[[Sequence[Row]], int]


def piped_rows(text: str, recognised: Recognised) -> list[Row] | None:
    """Return a table's rows if its columns are separated by pipes and rules, otherwise None."""
    head = text[:200_000].translate(_BARS).splitlines()[:_HEAD]
    if not any(_RULE.fullmatch(line) for line in head):
        return None
    if recognised([_between_bars(line) for line in head]) < BOTH:
        return None
    width = max(len(_between_bars(line)) for line in head)
    return [_between_bars(line.translate(_BARS), width) for line in _lines(text)]


def _between_bars(line: str, width: int = 0) -> Row:
    if _RULE.fullmatch(line) or "|" not in line:
        return _aside(line, width)
    cells = [cell.strip() for cell in line.split("|")]
    first = 1 if line.lstrip().startswith("|") else 0
    return cells[first : -1 if line.rstrip().endswith("|") else None]


def _aside(line: str, width: int) -> Row:
    return [*[""] * width, line.strip()] if line.strip() else []


def _lines(text: str) -> list[str]:
    """Split a string into lines the way an editor counts them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def spaced_rows(text: str, recognised: Recognised) -> list[Row] | None:
    """Return the rows of a table if its columns are provably aligned with spaces, otherwise None.

    The columns are proven if every line below the header is blank between them and no other edge
    is possible. Page headings, rules and notes are ignored.
    """
    if "\t" in text:
        return None
    lines = _lines(text)
    for number, line in enumerate(lines[:_HEAD]):
        for titles in _titles(line, recognised):
            if recognised([[line[start:end] for start, end in titles]]) < BOTH:
                continue
            rows = _rows_below(lines, number, titles)
            if rows is not None and recognised([rows[number]]) >= BOTH:
                return rows
    return None


def _titles(line: str, recognised: Recognised) -> Iterator[list[_Span]]:
    """Yield two ways to split a line into titles: at double spaces, and then at single spaces."""
    yield [match.span() for match in _SPACED.finditer(line)]
    titles: list[_Span] = []
    for match in _WORD.finditer(line):
        start, end = match.span()
        before = titles[-1] if titles and titles[-1][1] + 1 == start else None
        if before and recognised(
            [[line[before[0] : end]]]
        ):  # A title may consist of two words, like `Account name`.
            titles[-1] = before[0], end
        else:
            titles.append((start, end))
    yield titles


def _rows_below(lines: Sequence[str], header: int, titles: Sequence[_Span]) -> list[Row] | None:
    above = {without_digits(line) for line in lines[:header]}
    asides = set(range(header))
    asides |= {number for number, line in enumerate(lines) if _is_aside(line, above)}
    title = lines[header].strip()
    others = [(number, line) for number, line in enumerate(lines) if line.strip() != title]
    without_digit = {number for number, line in others if not _DIGIT.search(line)}
    sentences = {number for number, line in others if _SENTENCE.fullmatch(line.strip())}
    # A note may cross the edge between two columns. If the columns cannot be found with all lines,
    # leave out lines that may be notes: first the lines without a digit, then also the sentences
    # with single spaces.
    for notes in (set[int](), without_digit, without_digit | sentences):
        left_out = asides | notes
        body = [lines[number] for number in range(header, len(lines)) if number not in left_out]
        columns = _columns(body, titles)
        if columns is None:
            continue
        if any(_is_row(lines[number], body[1:], columns) for number in notes - asides):
            continue
        rows = [
            _aside(line, len(columns))
            if number in left_out
            else [line[start:end].strip() for start, end in columns]
            for number, line in enumerate(lines)
        ]
        # If a cell contains two spaces in a row, they probably separate two cells.
        if not any("  " in str(cell) for row in rows for cell in row[: len(columns)]):
            return rows
    return None


def _is_row(line: str, body: Sequence[str], columns: Sequence[_Span]) -> bool:
    """Return whether a line that looks like a note may be a misaligned row."""
    words = line.split()
    if not any(_AMOUNT.fullmatch(word) for word in words):
        return False
    cells = {row[start:end].strip() for row in body for start, end in columns}
    names = {cell for cell in cells if cell and not _AMOUNT.fullmatch(cell)}
    return any(f" {name} " in f" {' '.join(words)} " for name in names)


def is_page_number(text: str) -> bool:
    """Return whether a string is only a page number."""
    return bool(_PAGE.fullmatch(text))


def without_digits(text: str) -> str:
    """Replace each number in a string with 0, so that headings of different pages are equal."""
    return _DIGITS.sub("0", text.strip())


def _is_aside(line: str, above: Collection[str]) -> bool:
    """Return whether a line is blank, a rule, a footer, or one of the lines above the header.

    Programs repeat the lines above the header on every page, with different digits.
    """
    text = line.strip()
    patterns = (_RULE, _FOOTER, _PAGE)
    is_known = not text or any(pattern.fullmatch(text) for pattern in patterns)
    return is_known or without_digits(text) in above


def _columns(lines: Sequence[str], titles: Sequence[_Span]) -> list[_Span] | None:
    """Return the columns below the titles, or None if it is uncertain where a column begins."""
    if len(lines) < 2 or len(titles) < 2:  # noqa: PLR2004 - a header and a row, two columns
        return None
    rows = [row for row in dict.fromkeys(lines[1:]) if row.strip() != lines[0].strip()]
    titles = [*_numbering(rows, titles[0]), *titles]
    runs = _blank_runs(lines)
    end = max(map(len, lines))
    columns: list[_Span] = []
    for left, right in reversed(list(pairwise(titles))):
        between = [run for run in runs if run[1] > left[0] + 1 and run[0] < right[1] - 1]
        edge = _edge(between, left, right, end, rows)
        if edge is None:
            return None
        columns.append((edge, end))
        end = edge
    return [(0, end), *reversed(columns)]


def _numbering(rows: Sequence[str], first: _Span) -> list[_Span]:
    """Return the column of row numbers to the left of the first title, if there is one."""
    numbers = [row.split(maxsplit=1)[0] for row in rows if row.strip()]
    counted = [str(number) for number in range(len(numbers) + 1)]
    end = max((len(row) - len(row.lstrip()) + len(row.split()[0]) for row in rows), default=0)
    is_numbering = numbers in (counted[:-1], counted[1:]) and end <= first[0]
    return [(0, end)] if is_numbering else []


def _blank_runs(lines: Sequence[str]) -> list[_Span]:
    """Return the character ranges that are blank in all lines."""
    blanks = [True] * max(map(len, lines))
    for line in dict.fromkeys(lines):
        for match in _WORD.finditer(line):
            start, end = match.span()
            blanks[start:end] = [False] * (end - start)
    runs = []
    position = 0
    for is_blank, run in groupby(blanks):
        length = len(list(run))
        if is_blank:
            runs.append((position, position + length))
        position += length
    return runs


def _edge(
    runs: Sequence[_Span], left: _Span, right: _Span, end: int, rows: Sequence[str]
) -> int | None:
    """Return the index where the second of two columns begins, or None if it is uncertain.

    `end` is the index where the right column ends. If all names have a space at the same position,
    there are several blank ranges. Then one of the columns must begin or end at its title, or the
    right column must contain only amounts.
    """
    for run in runs:
        cells = [row[run[1] : end].rstrip() for row in rows]
        if run[1] == right[0] and all(cell[0] != " " for cell in cells if cell):
            return _edge_of_amounts(runs, run, rows, cells) if _are_amounts(cells) else run[1]
    for run in reversed(runs):
        cells = [row[run[1] : end].strip() for row in rows]
        if _are_amounts(cells):
            return _edge_of_amounts(runs, run, rows, cells)
    for start, edge in runs:
        cells = [row[:start] for row in rows]
        if start == left[1] and all(cell[-1] != " " for cell in cells if cell[left[0] :].strip()):
            return edge
    return runs[0][1] if len(runs) == 1 else None


def _are_amounts(cells: Sequence[str]) -> bool:
    return any(cells) and all(not cell or _AMOUNT.fullmatch(cell) for cell in cells)


def _edge_of_amounts(
    runs: Sequence[_Span], run: _Span, rows: Sequence[str], cells: Sequence[str]
) -> int | None:
    """Return the index where a column of amounts begins, or None if it is uncertain.

    An amount may have spaces as thousands separators.
    """
    for row, cell in zip(rows, cells, strict=True):
        before = row[: row.find(cell, run[1])] if cell else row[: run[1]]
        last = before.split()[-1] if before.strip() else ""
        if not _FIRST_GROUP.fullmatch(last):
            continue
        if not cell:  # The amount is to the left of the column edge, so the edge may be wrong.
            return None
        if before[-2:].strip() and _GROUPS.fullmatch(cell):
            # `Desk   1 234.50` has the amount 1 234.50, but `Desk 1 234.50` is ambiguous.
            is_apart = before.rstrip()[: -len(last)].endswith("  ")
            earlier = [other for other in runs if other[1] <= run[0]]
            return earlier[-1][1] if is_apart and earlier else None
    return run[1]


def cut_rows(text: str, starts: Sequence[int]) -> list[Row]:
    """Return the rows of a table whose columns begin at these positions (counted from 1).

    If a word crosses a column edge, its row gets an extra cell after the last column.
    """
    lines = _lines(text)
    edges = [0, *(start - 1 for start in starts[1:])]
    columns = list(zip(edges, [*edges[1:], max(map(len, lines), default=0)], strict=True))
    whole = [line for line in lines if not _is_cut(line, edges)]
    rows: list[Row] = []
    for line in lines:
        is_note = _SENTENCE.fullmatch(line.strip()) and not _is_row(line, whole, columns)
        if _is_aside(line, ()) or (is_note and _is_cut(line, edges)):
            rows.append(_aside(line, len(columns)))
        else:
            cells = [line[start:end].strip() for start, end in columns]
            rows.append([*cells, line.strip()] if _is_cut(line, edges) else cells)
    return rows


def _is_cut(line: str, edges: Sequence[int]) -> bool:
    """Return whether a word in a line crosses a column edge."""
    return any(not line[edge - 1 : edge + 1].count(" ") and len(line) > edge for edge in edges[1:])


def likely_starts(text: str, recognised: Recognised) -> tuple[int, ...]:
    """Guess where each column begins (counted from 1), for tables whose columns are uncertain.

    Return an empty tuple if no line is a header, or if most lines have no gap.
    """
    lines = _lines(text)
    for number, line in enumerate(lines[:_HEAD]):
        for titles in _titles(line, recognised):
            if recognised([[line[start:end] for start, end in titles]]) >= BOTH:
                rows = [row for row in lines[number + 1 :] if not _is_aside(row, ())]
                if 2 * sum("  " in row.strip() for row in rows) < len(rows):
                    continue
                pairs = pairwise(titles)
                return (1, *(_likely_edge(left, right, rows) + 1 for left, right in pairs))
    return ()


def _likely_edge(left: _Span, right: _Span, rows: Sequence[str]) -> int:
    """Return the most likely index where the second of two columns begins.

    This is the index that follows a blank in most rows or, if there is a tie, the start of the
    title.
    """
    best, most = right[0], -1
    for position in (right[0], *range(right[0] - 1, left[0], -1), *range(right[0] + 1, right[1])):
        blanks = sum(not row[position - 1 : position].strip() for row in rows)
        if blanks > most:
            best, most = position, blanks
    return best
