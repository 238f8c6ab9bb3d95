"""The amount of a row: one cell or several, with the sign and the unit said beside them."""

from dataclasses import dataclass
from decimal import Decimal

from warehouse.reconcile.ledger.cells.amounts import BLANK, Amount, Rules, add_up, negate, read
from warehouse.reconcile.ledger.header.amount_columns import Layer
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.header.words import OPPOSITE
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.text import fold, text_at


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountReader:
    """How the amounts of a sheet are written: their decimals, their unit, and their columns.

    `positive_word` is the only word of the column of signs that recon.toml does not name.
    """

    head: Header
    rules: Rules
    unit: Decimal = Decimal(1)
    positive_word: str = ""

    def read(self, cells: Row, layer: Layer, asset: str = "") -> Amount | str:
        """Return the amount of a row, added up of its columns, or why it cannot be used."""
        # Of free and locked one may be blank: nothing is locked. All of them blank are no zero.
        parts: list[Amount] = []
        for term in layer.terms:
            part = read(cells[term.place] if len(cells) > term.place else "", self.rules)
            if isinstance(part, Amount):
                parts.append(negate(part) if term.is_negative else part)
            elif part != BLANK or len(layer.terms) == 1:
                return part
        if not parts:
            return BLANK
        unit = self._unit(cells, asset)
        if isinstance(unit, str):
            return unit
        is_plain = len(parts) == 1 and unit == 1
        amount = parts[0] if is_plain else add_up(parts, unit)
        return amount if self.head.sign is None else self._apply_sign(amount, cells)

    def _unit(self, cells: Row, asset: str) -> Decimal | str:
        """Return the factor of a row, or the reason why its unit cannot be used."""
        if self.head.unit is None:
            return self.unit
        word = text_at(cells, self.head.unit)
        factor = factor_of(word, self.head, asset)
        return f"the unit {word[:40]!r} is not understood" if factor is None else factor * self.unit

    def _apply_sign(self, amount: Amount, cells: Row) -> Amount | str:
        """Return an amount with the sign that a word beside it says."""
        word = text_at(cells, self.head.sign)
        is_minus = is_negative(word, self.head)
        if is_minus is None and word and fold(word) == fold(self.positive_word):
            is_minus = False
        if is_minus is None and not word and amount.text == "0":
            return amount
        if is_minus is None:
            return f"the sign {word[:40]!r} is not understood"
        return negate(amount) if is_minus else amount


def is_negative(word: str, head: Header) -> bool | None:
    """Return whether a word of the column of signs makes an amount negative; None if unknown."""
    shape, words = head.shape, head.words
    name = fold(word)
    if name in map(fold, shape.negative_words):
        return True
    if name in map(fold, shape.positive_words) or word == "+":
        return False
    side = words.side_of(word)
    negative = {words.side_of(text) for text in shape.negative_words}
    if side and side in negative:
        return None if OPPOSITE[side] in negative else True
    return False if OPPOSITE.get(side, "") in negative else None


def factor_of(word: str, head: Header, asset: str) -> Decimal | None:
    """Return by what a unit multiplies an amount of an asset; None if that is unknown."""
    name = fold(word)
    for known, factor in head.shape.unit_words.items():
        if fold(known) == name:
            return factor
    return Decimal(1) if name and name == fold(asset) else None
