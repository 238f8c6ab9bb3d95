"""Many rows as a sheet's XML, a batch of columns at a time.

XlsxWriter takes 9 microseconds for a cell (measured: 22 s of CPU for 100 thousand accounts). So it
writes everything but the rows of long tables, and these are made here, in its own cell styles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlsxwriter.utility import xl_col_to_name

from warehouse.workbook.cells import CELL_LIMIT, Digits, is_hostile, number, string
from warehouse.workbook.columns import Column, Kind

_REMEMBERED = 50_000
Values = Mapping[str, Sequence[object]]


@dataclass(frozen=True, slots=True)
class Styles:
    """Style numbers of one sheet by column letter, as the skeleton has them.

    `hostile` are those of texts that would be a formula if somebody typed them.
    """

    plain: Mapping[str, str]
    hostile: Mapping[str, str]


class Rows:
    """Renders the rows of one sheet; `worst` counts the rows by how their numbers are shown."""

    def __init__(
        self, columns: tuple[Column, ...], styles: Styles, shown: Mapping[str, str]
    ) -> None:
        self._columns = columns
        self._styles = styles
        self._shown = shown
        self._memory: dict[tuple[str, str], str] = {}
        self.worst = dict.fromkeys(Digits, 0)

    def render(self, values: Values, first: int) -> bytes:
        """The rows of one batch as XML; `first` is the number of the first one on the sheet."""
        count = len(next(iter(values.values())))
        numbers = [str(row) for row in range(first, first + count)]
        cells = []
        ranks = [Digits.EXACT] * count
        for place, column in enumerate(self._columns):
            letter = str(xl_col_to_name(place))
            if column.kind is Kind.NUMBER:
                cells.append(self._numbers(letter, values[column.source], numbers, ranks))
            elif column.kind is Kind.DIGITS:
                cells.append(self._digits(letter, ranks, numbers))
            elif column.kind is Kind.COUNT:
                cells.append(self._counts(letter, values[column.source], numbers))
            else:
                cells.append(self._texts(letter, values[column.source], numbers))
        rows = zip(numbers, map("".join, zip(*cells, strict=True)), strict=True)
        return "".join([f'<row r="{row}">{inside}</row>' for row, inside in rows]).encode()

    def _numbers(
        self, letter: str, texts: Sequence[object], numbers: list[str], ranks: list[Digits]
    ) -> list[str]:
        style = self._styles.plain[letter]
        cells = []
        for place, (text, row) in enumerate(zip(texts, numbers, strict=True)):
            if text is None:
                cells.append("")
                continue
            value, digits = number(str(text))
            if digits:
                ranks[place] = max(ranks[place], digits)
            cells.append(f'<c r="{letter}{row}" s="{style}"><v>{value}</v></c>' if value else "")
        return cells

    def _digits(self, letter: str, ranks: list[Digits], numbers: list[str]) -> list[str]:
        for digits in Digits:
            self.worst[digits] += ranks.count(digits)
        return self._texts(letter, [digits.words for digits in ranks], numbers)

    def _counts(self, letter: str, counts: Sequence[object], numbers: list[str]) -> list[str]:
        style = self._styles.plain[letter]
        return [
            "" if count is None else f'<c r="{letter}{row}" s="{style}"><v>{count}</v></c>'
            for count, row in zip(counts, numbers, strict=True)
        ]

    def _texts(self, letter: str, texts: Sequence[object], numbers: list[str]) -> list[str]:
        memory = self._memory
        if len(memory) > _REMEMBERED:
            memory.clear()
        cells = []
        for text, row in zip(texts, numbers, strict=True):
            if text is None:
                cells.append("")
                continue
            key = (letter, str(text))
            inside = memory.get(key)
            if inside is None:
                inside = memory[key] = self._text(*key)
            cells.append(f'<c r="{letter}{row}"{inside}')
        return cells

    def _text(self, letter: str, text: str) -> str:
        if 2 * len(text) > CELL_LIMIT:
            text = self._shown.get(text, text)
        styles = self._styles.hostile if is_hostile(text) else self._styles.plain
        return f' s="{styles[letter]}" t="inlineStr">{string(text)}</c>'
