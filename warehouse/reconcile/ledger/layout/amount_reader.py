"""The amount of a row: one cell or several, with the sign and the unit said beside them."""

from dataclasses import dataclass
from decimal import Decimal

from warehouse.reconcile.ledger.cells.amounts import BLANK, Amount, Rules, add_up, negate, read
from warehouse.reconcile.ledger.header.amount_columns import Layer
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.text import fold, text_at


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountReader:
    """How the amounts of a sheet are written: their decimals, their unit, and their columns."""

    head: Header
    rules: Rules
    unit: Decimal = Decimal(1)

    def read(self, cells: Row, layer: Layer) -> Amount | str:
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
        is_plain = len(parts) == 1 and self.unit == 1
        amount = parts[0] if is_plain else add_up(parts, self.unit)
        return amount if self.head.sign is None else self._apply_sign(amount, cells)

    def _apply_sign(self, amount: Amount, cells: Row) -> Amount | str:
        """Return an amount with the sign that a word beside it says."""
        words = self.head.words
        word = text_at(cells, self.head.sign)
        negative = self.head.shape.negative_word
        sides = [(words.is_debit(text), words.is_credit(text)) for text in (word, negative)]
        if word and (fold(word) == fold(negative) or (sides[0] == sides[1] and any(sides[0]))):
            return negate(amount)
        if any(sides[0]) or word == "+" or (not word and amount.text == "0"):
            return amount
        return f"the sign {word[:40]!r} is not understood"
