"""How much of an amount a ledger keeps, as `keeps` in recon.toml says it.

Programs round to the nearest unit and differ in the middle alone (Excel and SQL go away from zero,
Python and Java's DecimalFormat to the even digit), or they cut off (TRUNC, ROUNDDOWN, integer
casts). Others calculate with doubles, which have 15 to 17 digits.
"""

import re
from dataclasses import dataclass
from enum import Enum

from warehouse.reconcile.settings.toml_table import TomlTable

_WORDS = re.compile(r"(?:(-?[0-9]{1,2}) (decimal|digit)s?(?:, (cut off|calculated))?)|doubles")


class Kept(Enum):
    """What is counted: digits behind the point, or all digits that are significant."""

    DECIMALS = "decimal"
    DIGITS = "digit"
    DOUBLES = "doubles"


class Way(Enum):
    """How the rest is dropped; what is `calculated` may be one unit off besides."""

    NEAREST = ""
    CUT_OFF = "cut off"
    CALCULATED = "calculated"


@dataclass(frozen=True, slots=True)
class Precision:
    """How much is kept of each amount of a ledger."""

    kept: Kept
    number: int = 0
    way: Way = Way.NEAREST

    @property
    def words(self) -> str:
        """As recon.toml has it, like `8 decimals, cut off`."""
        if self.kept is Kept.DOUBLES:
            return "doubles"
        unit = f"{self.number} {self.kept.value}{'' if self.number == 1 else 's'}"
        return ", ".join(filter(None, (unit, self.way.value)))


def precision_of(table: TomlTable, name: str) -> Precision | None:
    """Return the precision that a table says; None where it says nothing."""
    words = table.choice(name)
    if not words:
        return None
    match = _WORDS.fullmatch(words)
    if match and words == Kept.DOUBLES.value:
        return Precision(Kept.DOUBLES)
    if match is None or (match[2] == Kept.DIGITS.value and int(match[1]) < 1):
        table.complaints.append(
            f'{table.place} {name} is {words!r}, expected a text like "8 decimals", '
            '"8 decimals, cut off", "11 digits", "15 digits, calculated" or "doubles"'
        )
        return None
    return Precision(Kept(match[2]), int(match[1]), Way(match[3] or ""))
