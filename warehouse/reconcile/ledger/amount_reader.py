"""A reader for amounts that applies a sheet's unit and signs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial

from warehouse.reconcile.ledger.amounts import BLANK, Rules, add_up, negate, read
from warehouse.reconcile.ledger.header import Header, Layer
from warehouse.reconcile.ledger.words import OPPOSITE
from warehouse.reconcile.model import Amount
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.text import fold, text_at


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountReader:
    """A reader for a sheet's amounts that knows their decimal convention, unit and signs.

    `positive_word` is the only word in the sign column that recon.toml does not list.
    """

    head: Header
    rules: Rules
    unit: Decimal = Decimal(1)
    positive_word: str = ""

    def read_all(
        self, layer: Layer, rows: Iterable[Row], assets: Iterable[str]
    ) -> list[Amount | str]:
        """Return each row's amount, or the reason why it cannot be used.

        Each distinct cell is parsed only once.
        """
        parse = lru_cache(maxsize=None, typed=True)(partial(read, rules=self.rules))
        places = [term.column for term in layer.terms]
        terms = ([parse(row[at] if len(row) > at else "") for at in places] for row in rows)
        return list(map(partial(self._add_terms, layer), rows, terms, assets))

    def _add_terms(
        self, layer: Layer, cells: Row, terms: Sequence[Amount | str], asset: str
    ) -> Amount | str:
        """Add up the columns of a row's amount, then apply the row's unit and sign."""
        # Some columns that are added up may be blank, for example `locked` if nothing is locked. If
        # all of them are blank, the sum is blank too, not 0.
        parts: list[Amount] = []
        for term, part in zip(layer.terms, terms, strict=True):
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
        """Return the factor for a row's unit, or the reason why the unit cannot be used."""
        if self.head.unit is None:
            return self.unit
        word = text_at(cells, self.head.unit)
        factor = factor_of(word, self.head, asset)
        return f"the unit {word[:40]!r} is unknown" if factor is None else factor * self.unit

    def _apply_sign(self, amount: Amount, cells: Row) -> Amount | str:
        """Apply the sign that a word in the same row specifies."""
        word = text_at(cells, self.head.sign)
        is_minus = is_negative(word, self.head)
        if is_minus is None and word and fold(word) == fold(self.positive_word):
            is_minus = False
        if is_minus is None and not word and amount.text == "0":
            return amount
        if is_minus is None:
            return f"the sign {word[:40]!r} is unknown"
        return negate(amount) if is_minus else amount


def is_negative(word: str, head: Header) -> bool | None:
    """Return whether a word in the sign column makes an amount negative, or None if unknown."""
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
    """Return a unit's factor for an asset, or None if the unit is unknown."""
    name = fold(word)
    for known, factor in head.shape.unit_words.items():
        if fold(known) == name:
            return factor
    return Decimal(1) if name and name == fold(asset) else None
