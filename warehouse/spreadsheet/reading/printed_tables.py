"""Detection of printed tables, which are refused because their columns may be cut in wrong places.

The columns of a printed table are separated by pipes and rules, or aligned with spaces.
"""

import re
from collections.abc import Callable, Sequence

from warehouse.spreadsheet.reading.delimited_text import Row

BOTH = 10  # Rows with at least this score from `recognised` name both an asset and an amount.
PRINTED = "is a printed table, whose columns are separated by lines or aligned with spaces"
REMEDY = "Open it in the program that created it, and save it as xlsx or CSV"
_BARS = str.maketrans(dict.fromkeys("\u2502\u2503\u2551\u2506\u250a\u254e", "|"))
_MAX_LINES, _MAX_CHARACTERS = 100, 200_000  # the part of a file in which to look for a table
# The characters of a rule, and the characters between the runs of dashes in a rule.
_RULE = re.compile("[ |+:*\u2500-\u257f=_-]+")
_BETWEEN_RUNS = re.compile("[ |+:*\u252c\u253c\u2533\u254b]+")
_MIN_RUN_LENGTH = 3
_GAP = re.compile(r"[^\s;,|] {2,}[^\s;,|]")
Recognised = Callable[[Sequence[Row]], int]


def has_piped_header(text: str, recognised: Recognised) -> bool:
    """Return whether a text has a ledger's titles between pipes, and a line of dashes."""
    lines = _first_lines(text)
    titles = [line.split("|") for line in lines if "|" in line]
    return any(map(_runs, lines)) and recognised(titles) >= BOTH


def is_printed(text: str) -> bool:
    """Return whether a text without a known header looks like a printed table.

    A rule has several runs of dashes, or at least half of the lines have gaps between words.
    """
    lines = _first_lines(text)
    words = [line for line in lines if line.strip() and not _runs(line)]
    gaps = sum(bool(_GAP.search(line)) for line in words)
    return 0 < len(words) <= 2 * gaps or any(_runs(line) > 1 for line in lines)


def _first_lines(text: str) -> list[str]:
    return text[:_MAX_CHARACTERS].translate(_BARS).splitlines()[:_MAX_LINES]


def _runs(line: str) -> int:
    """Return the number of runs of dashes if a line is a rule, otherwise 0."""
    is_rule = _RULE.fullmatch(line) is not None
    runs = _BETWEEN_RUNS.split(line) if is_rule else []
    return sum(len(run) >= _MIN_RUN_LENGTH for run in runs)
