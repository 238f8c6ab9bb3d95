"""A renderer of rows in Python, cell by cell, as the reference for the rows from DuckDB."""

import re
from collections.abc import Iterable, Mapping, Sequence

from xlsxwriter.utility import xl_col_to_name

from warehouse.spreadsheet.writing.cells import (
    CELL_LIMIT,
    SIGNIFICANT,
    Digits,
    number,
    text_cell,
)
from warehouse.spreadsheet.writing.layout import (
    DECIMALS,
    MIN_DECIMALS,
    SheetColumn,
    SheetColumnKind,
)
from warehouse.spreadsheet.writing.rows import HIGHEST, LINE, Styles

_REMEMBERED = 10_000
_AMOUNTS = re.compile(r"(?:-?[0-9]+(?:\.[0-9]+)?,)*", re.ASCII)
_DIGITS = re.compile(r"[0-9.-]*", re.ASCII)
Values = Mapping[str, Sequence[object]]


def must_be_amounts(texts: Iterable[object]) -> None:
    """Raise `ValueError` if a text is not an amount in plain digits."""
    # Match all texts at once, which needs only one call of the regular expression.
    amounts = [str(text) for text in texts if text is not None]
    if _AMOUNTS.fullmatch(",".join([*amounts, ""])):
        return
    wrong = next(text for text in amounts if not _AMOUNTS.fullmatch(f"{text},") or "," in text)
    raise ValueError(f"{wrong[:60]!r} is not an amount in plain digits, so no file was written")


def is_digits(texts: Iterable[object]) -> bool:
    """Return whether the texts have only digits, dots and signs, and each fits in a cell."""
    amounts = [str(text) for text in texts if text is not None]
    return (
        bool(_DIGITS.fullmatch("".join(amounts)))
        and max(map(len, amounts), default=0) <= CELL_LIMIT
    )


def _row(number: str, inside: str) -> str:
    """Return a row that is high enough for its texts, because programs do not measure them."""
    if "\n" not in inside:
        return f'<row r="{number}">{inside}</row>'
    lines = 1 + max(cell.count("\n") for cell in inside.split("<c "))
    height = min(lines * LINE, HIGHEST)
    return f'<row r="{number}" ht="{height}" customHeight="1">{inside}</row>'


class Rows:
    """A renderer for the rows of one sheet."""

    def __init__(
        self, columns: tuple[SheetColumn, ...], styles: Styles, shown: Mapping[str, str]
    ) -> None:
        self._columns = columns
        self._styles = styles
        self._shown = shown
        self._memory: dict[str, dict[object, str]] = {}
        # A printed cell without a value is blank. Other cells without a value are left out.
        self._blank = {
            letter: f'" s="{style}"/>' if column.is_printed else ""
            for (letter, style), column in zip(styles.plain.items(), columns, strict=True)
        }

    def render(self, values: Values, first: int) -> bytes:
        """Return the rows of one batch as XML. `first` is the number of its first row."""
        count = len(next(iter(values.values())))
        numbers = [str(row) for row in range(first, first + count)]
        ranks = [Digits.EXACT] * count
        # Render the amounts first, because the flag depends on them and may be left of them.
        order = sorted(
            enumerate(self._columns),
            key=lambda indexed: indexed[1].kind is not SheetColumnKind.NUMBER,
        )
        amounts = [
            values[column.source]
            for column in self._columns
            if column.kind is SheetColumnKind.NUMBER
        ]
        # All amounts of a row show the same number of decimals, so that people can compare them.
        scales = [max(map(_decimals, line)) for line in zip(*amounts, strict=True)]
        cells: dict[int, list[str]] = {}
        for index, column in order:
            letter = str(xl_col_to_name(index))
            if column.kind is SheetColumnKind.NUMBER:
                cells[index] = self._numbers(
                    letter, values[column.source], (numbers, scales), ranks
                )
            elif column.kind is SheetColumnKind.DIGITS:
                words = [digits.words for digits in ranks]
                cells[index] = self._texts(letter, words, numbers)
            elif column.kind is SheetColumnKind.EXACT:
                cells[index] = self._exacts(letter, values[column.source], numbers)
            elif column.kind is SheetColumnKind.COUNT:
                cells[index] = self._counts(letter, values[column.source], numbers)
            else:
                cells[index] = self._texts(letter, values[column.source], numbers)
        columns = (cells[index] for index in range(len(self._columns)))
        rows = zip(numbers, map("".join, zip(*columns, strict=True)), strict=True)
        return "".join([_row(row, inside) for row, inside in rows]).encode()

    def _numbers(
        self,
        letter: str,
        texts: Sequence[object],
        lines: tuple[list[str], list[int]],
        ranks: list[Digits],
    ) -> list[str]:
        """Render amounts. `lines` has the row numbers and the decimals of the rows."""
        start, blank = f'<c r="{letter}', self._blank[letter]
        # The XML before the value of a cell, by the number of decimals.
        middles = [f'" s="{style}"><v>' for style in self._styles.amounts]
        middles = [*middles[:1] * MIN_DECIMALS, *middles]
        must_be_amounts(texts)
        cells = []
        for index, (text, row, scale) in enumerate(zip(texts, *lines, strict=True)):
            value = str(text or "")
            # A text of up to fifteen characters is its own number. A longer one may be rounded
            # by a double.
            decimals = scale if scale <= DECIMALS else max(DECIMALS, _decimals(value))
            if len(value) > SIGNIFICANT:
                value, digits = number(value)
                ranks[index] = max(ranks[index], digits)
            if value:
                middle = middles[min(DECIMALS + 1, decimals)]
                cells.append(f"{start}{row}{middle}{value}</v></c>")
            else:
                cells.append(blank and f"{start}{row}{blank}")
        return cells

    def _counts(self, letter: str, counts: Sequence[object], numbers: list[str]) -> list[str]:
        start, middle = f'<c r="{letter}', f'" s="{self._styles.plain[letter]}"><v>'
        return [
            "" if count is None else f"{start}{row}{middle}{count}</v></c>"
            for count, row in zip(counts, numbers, strict=True)
        ]

    def _exacts(self, letter: str, texts: Sequence[object], numbers: list[str]) -> list[str]:
        """Render exact amounts as text."""
        # Match the whole column at once. If it matches, no text in it needs escaping.
        if not is_digits(texts):
            return self._texts(letter, texts, numbers)
        start = f'<c r="{letter}'
        middle = f'" s="{self._styles.plain[letter]}" t="inlineStr"><is><t>'
        return [
            "" if text is None else f"{start}{row}{middle}{text}</t></is></c>"
            for text, row in zip(texts, numbers, strict=True)
        ]

    def _texts(self, letter: str, texts: Sequence[object], numbers: list[str]) -> list[str]:
        # Names repeat from row to row, so build the XML of each text only once. Clear the memory if
        # a column has too many different texts, like account names.
        memory = self._memory.setdefault(letter, {})
        if len(memory) > _REMEMBERED:
            memory.clear()
        start = f'<c r="{letter}'
        cells = []
        for text, row in zip(texts, numbers, strict=True):
            inside = memory.get(text)
            if inside is None:
                inside = memory[text] = self._text(letter, text)
            cells.append(inside and f"{start}{row}{inside}")
        return cells

    def _text(self, letter: str, value: object) -> str:
        if value is None:
            return self._blank[letter]
        text = str(value)
        if 2 * len(text) > CELL_LIMIT:
            text = self._shown.get(text, text)
        return text_cell(text, self._styles.plain[letter], self._styles.hostile[letter])


def _decimals(text: object) -> int:
    return len(str(text).partition(".")[2]) if text else 0
