"""Tables as programs print them: between pipes and rules, or in columns made of spaces.

Every line is one row, so that its number is that of its line. Rules, page lines and notes are rows
with one cell right of all columns: neither an asset nor an amount, whichever column comes first.
"""

import re
from collections.abc import Callable, Collection, Sequence
from itertools import groupby

from warehouse.spreadsheet.reading.delimited_text import Row

_BARS = str.maketrans(dict.fromkeys("\u2502\u2503\u2551\u2506\u250a\u254e", "|"))
# A line of nothing but dashes, equals signs, box-drawing and what stands where they cross. Patterns
# of lines take each letter once: one with two ways to it went over a line of dashes for hours.
_RULE = re.compile("(?=(?s:.*)[\u2500-\u257f=_-]{3})[\\s|+:*\u2500-\u257f=_-]*")
_DIGIT = re.compile("[0-9]")
_DIGITS = re.compile("[0-9]+")
_PAGE = re.compile(
    r"\W*(?:page|pg|seite|blatt|pagina|p\u00e1gina|\u0441\u0442\u0440\u0430\u043d\u0438\u0446\u0430"
    r"|\u0441\u0442\u0440|\u30da\u30fc\u30b8)(?:\W+(?:no|nr))?\W*[0-9]+"
    r"(?:\W*(?:of|von|van|de|di|sur|\u0438\u0437)\W*[0-9]+|\W+[0-9]+)?\W*",
    re.IGNORECASE,
)
_FOOTER = re.compile(
    r"\(?[0-9,.]+ (?:rows?|records?|lines?)(?: selected)?\.?\)?|-+ ?end.*", re.IGNORECASE
)
_HEAD = 100  # lines in which a header is looked for
BOTH = 10  # what `recognised` says at least where both an asset and an amount are named
_Span = tuple[int, int]
Recognised = Callable[[Sequence[Row]], int]


def piped_rows(text: str, recognised: Recognised) -> list[Row] | None:
    """Return the rows of a table between pipes that has rules, or None where it is none."""
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
    """Return the lines as an editor numbers them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


def spaced_rows(text: str, recognised: Recognised) -> list[Row] | None:
    """Return the rows of a table in columns made of spaces, or None where they are not proven.

    They are where the same places are blank in the header and in every line below it that is not
    of a page, a rule or a note without a digit.
    """
    if "\t" in text:
        return None
    lines = _lines(text)
    for place, line in enumerate(lines[:_HEAD]):
        if recognised([line.split()]) < BOTH and recognised([re.split(" {2,}", line)]) < BOTH:
            continue
        rows = _rows_below(lines, place)
        if rows is not None and recognised([rows[place]]) >= BOTH:
            return rows
    return None


def _rows_below(lines: Sequence[str], header: int) -> list[Row] | None:
    above = {without_digits(line) for line in lines[:header]}
    asides = set(range(header))
    asides |= {place for place, line in enumerate(lines) if _is_aside(line, above)}
    body = [lines[place] for place in range(header, len(lines)) if place not in asides]
    spans = _spans(_blanks(body))
    # A note may go on where columns end: it is put aside if no digit is in it, and looked for only
    # where the columns do not stand without that.
    if _columns(body, spans) is None:
        notes = {place for place, line in enumerate(lines) if not _DIGIT.search(line)}
        asides |= {place for place in notes if lines[place].strip() != lines[header].strip()}
        body = [lines[place] for place in range(header, len(lines)) if place not in asides]
        spans = _spans(_blanks(body))
    columns = _columns(body, spans)
    if columns is None:
        return None
    return [
        _aside(line, len(columns))
        if place in asides
        else [line[start:end].strip() for start, end in columns]
        for place, line in enumerate(lines)
    ]


def is_page_number(text: str) -> bool:
    """Return whether a text says the number of a page and nothing else."""
    return bool(_PAGE.fullmatch(text))


def without_digits(text: str) -> str:
    """Return a text with 0 for each number, so that the headings of all pages are equal."""
    return _DIGITS.sub("0", text.strip())


def _is_aside(line: str, above: Collection[str]) -> bool:
    """Return whether a line is blank, a rule, a footer, or one of those above the first header.

    Those are repeated on every page, with other digits.
    """
    text = line.strip()
    patterns = (_RULE, _FOOTER, _PAGE)
    is_known = not text or any(pattern.fullmatch(text) for pattern in patterns)
    return is_known or without_digits(text) in above


def _blanks(lines: Sequence[str]) -> list[bool]:
    """Return for each place of the lines whether all of them are blank there."""
    blanks = [True] * max(map(len, lines), default=0)
    for line in dict.fromkeys(lines):
        for match in re.finditer(r"\S+", line):
            start, end = match.span()
            blanks[start:end] = [False] * (end - start)
    return blanks


def _spans(blanks: Sequence[bool]) -> list[_Span]:
    """Return where something stands between places that are blank in all lines."""
    spans = []
    place = 0
    for is_blank, run in groupby(blanks):
        length = len(list(run))
        if not is_blank:
            spans.append((place, place + length))
        place += length
    return spans


def _columns(lines: Sequence[str], spans: Sequence[_Span]) -> list[_Span] | None:
    """Return the columns that spans make, or None where they are not proven.

    A span under which nothing stands is the title of what follows without one, or the second word
    of a title; one without a title goes on with a name, or numbers the rows at the left.
    """
    if len(lines) < 2:  # noqa: PLR2004 - a header and a row
        return None
    header, *rows = lines
    columns: list[_Span] = []
    titles: list[int] = []  # where titles begin under which nothing stands
    for number, (start, end) in enumerate(spans):
        has_title = bool(header[start:end].strip())
        values = [value for row in rows if (value := row[start:end].strip())]
        if has_title and not values:
            titles.append(start)
            continue
        if has_title:
            columns = [*_with_second_word(columns, titles, start), (start, end)]
        elif len(titles) == 1:  # the title begins at the left, the amounts end at the right
            columns.append((titles[0], end))
        elif titles or not _is_part(spans, number, values):
            return None
        else:
            columns = [*columns[:-1], (columns[-1][0] if columns else start, end)]
        titles = []
    columns = _with_second_word(columns, titles, len(header))
    return columns if len(columns) > 1 else None


def _with_second_word(columns: list[_Span], titles: Sequence[int], end: int) -> list[_Span]:
    """Return columns of which the last one has a title of several words, if some are left over."""
    return [*columns[:-1], (columns[-1][0], end)] if titles and columns else columns


def _is_part(spans: Sequence[_Span], number: int, values: Sequence[str]) -> bool:
    """Return whether a span without a title numbers the rows, or goes on with the words before it.

    What has digits may be a part of an amount.
    """
    if number == 0:
        numbers = [str(place) for place in range(len(values) + 1)]
        return values in (numbers[:-1], numbers[1:])
    before = spans[number][0] - spans[number - 1][1]
    is_last = number + 1 == len(spans)
    after = spans[number + 1][0] - spans[number][1] if not is_last else before + 1
    return before < after and not any(_DIGIT.search(value) for value in values)
