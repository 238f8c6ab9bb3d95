"""The vocabulary of ledgers: words for fields, roles, totals, units, debits and credits.

The words are in `words.toml` next to this module. A user can add words in a file with the same
format.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from warehouse.reconcile.settings.config import OWN_WORDS
from warehouse.reconcile.terms import NotReconciled
from warehouse.spreadsheet.reading.text import fold

_SHIPPED = Path(__file__).with_name("words.toml")
_HUMP = re.compile(r"(?<=[^\W\dA-Z_])(?=[A-Z])|(?<=[0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BESIDE = re.compile(r"\s*[\(\[].*?[\)\]]\s*$")
_KEPT = re.compile(r"[^\w/%#&]|_")
_OF = re.compile(r"(?:of|von|de|di|van|of the)\s+", re.IGNORECASE)
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})

# Currencies in the titles of value columns. If a ledger has the columns `Balance` and `Balance
# (USD)`, the second column contains the value of the balance.
_CURRENCY = r"(?:usd|eur|gbp|chf|jpy|cad|aud|hkd|sgd|cny|rub|brl|dollars?|euros?|francs?|[$€£¥])"
_OF_CURRENCY = re.compile(rf"\W*(?:in|en)?\W*{_CURRENCY}\W*", re.IGNORECASE)
_SHORT = re.compile(r"[A-Z0-9$€£¥]{1,6}")
_PIECES = re.compile("units?|shares?|tokens?|coins?|stück|stücke", re.IGNORECASE)
_BEFORE = "(?:in|en|em|x|\u00d7|\u0432)"
_AFTER = r"(?:of|de|di|von|van|units?|shares?|tokens?|coins?|stuck|stucke)"
_FACTORS = {"thousands": "1000", "millions": "1000000", "billions": "1000000000"}
OPPOSITE = {"debit": "credit", "credit": "debit", "positive": "negative", "negative": "positive"}
_SIGNS = {"+": "positive", "-": "negative", "\u2212": "negative", "\u2013": "negative"}
_CHECK_MARKS = ("\u2713", "\u2714")
_PART = re.compile(r"[^\W_]+")
# Do not search for shorter words, because names may contain them by chance.
_LONG_PART = 4
_FEW_PARTS = 4

# Word lists by group and kind, for example the list for the kind `asset` in the group `field`.
_Lists = dict[tuple[str, str], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The known words in titles and cells. Titles are looked up in all spellings.

    `tables` has the kinds of words by group and normalized word. `total` and `units` are patterns,
    and `factors` has each unit's factor.
    """

    tables: Mapping[str, Mapping[str, str]]
    total: re.Pattern[str]
    units: Mapping[str, re.Pattern[str]]
    factors: Mapping[str, str]

    def field_of(self, title: str) -> str:
        """Look up a title in all known languages. Return its field, or an empty string."""
        is_other = _is_valued(title) or self.native_factor(title)
        return "" if is_other else self._field(title, "field")

    def second_field_of(self, title: str) -> str:
        """Return the field for which a title is the second choice, or ""."""
        valued = self._field(title, "field") if _is_valued(title) else ""
        # A pivot table has titles like `Sum of Quantity`.
        summed = self._field(_OF.sub("", self.total_name(title) or ""), "field")
        summed = "amount" if summed == "amount" or self.native_factor(title) else ""
        return self._field(title, "second") or valued or summed

    def _kind(self, group: str, word: str) -> str:
        """Return a word's kind in a group, or an empty string."""
        return self.tables[group].get(_key(word), "")

    def _field(self, title: str, group: str) -> str:
        if self.unit_of(title):
            title = re.split(rf"\s{_BEFORE}\s|[,(\[]", title, maxsplit=1)[0]
        for written in _spellings(title):
            if field := self._kind(group, written):
                return field
        # A title may have two words for the same field, like `Coin / Token`.
        parts = {self._kind(group, part) for part in title.split("/")}
        return parts.pop() if len(parts) == 1 else ""

    def role_of(self, title: str) -> str:
        """Return a column's role among several amount columns, like `debit`, or ""."""
        for written in _spellings(title):
            key, known = _key(written), self.tables["role"]
            if key in known:
                return known[key]
            shorter = {key.removeprefix(word) for word in self.tables["beside"]}
            shorter |= {key.removesuffix(word) for word in self.tables["beside"]}
            roles = {known[part] for part in shorter if part in known}
            if len(roles) == 1:
                return roles.pop()
        return ""

    def part_of(self, cell: str) -> str:
        """Return `free` or `locked` if a cell names only that part of a balance, or ""."""
        # Ledgers write `Settled` next to whole balances.
        role = "" if fold(cell) == "settled" else self.role_of(cell)
        return role if role in ("free", "locked") else ""

    def is_cell(self, cell: str, kind: str) -> bool:
        """Return whether a cell is of this kind (debit, credit, currency, mark or unmarked)."""
        if fold(cell) in _CHECK_MARKS:
            return kind == "mark"
        return self._kind("cell", cell) == kind

    def side_of(self, cell: str) -> str:
        """Classify a cell as `debit`, `credit`, `positive` or `negative`.

        Return "" for other cells.
        """
        if sign := _SIGNS.get(cell.strip()):
            return sign
        kind = self._kind("cell", cell)
        return kind if kind in OPPOSITE else self._only(cell, "positive", "negative")

    def native_factor(self, title: str) -> str:
        """Return the factor of the small unit that an amount's title names (like wei), or ""."""
        words = re.findall(r"[^\W_]+", _HUMP.sub(" ", title))
        units = [word for word in words if self.factors.get(_key(word), "1").startswith("0.")]
        rest = " ".join(word for word in words if word not in units and fold(word) != "in")
        is_amount = len(units) == 1 and (not rest or self._kind("field", rest) == "amount")
        return self.factors[_key(units[0])] if is_amount else ""

    def is_void(self, cell: str) -> bool:
        """Return whether a cell like `VOID` means that its row does not count (yet)."""
        return self._kind("cell", cell) == "void" or bool(self._only(cell, "void"))

    def is_unmarked(self, cell: str) -> bool:
        """Return whether a cell is blank, or means that its title does not apply, like `no`."""
        return not _key(cell) or self.is_cell(cell, "unmarked")

    def factor_of(self, cell: str) -> str:
        """Return the factor of a unit like `k` or `sat`, or an empty string."""
        is_figure = cell[:1].isdecimal() and not cell.startswith("0")
        return "" if is_figure else self.factors.get(_key(cell), "")

    def _only(self, cell: str, *kinds: str) -> str:
        """Return the kind of a cell's longer words if only one of `kinds` occurs, or else ""."""
        parts = _PART.findall(_bare(cell))
        # Ignore cells like `short-term`, because they do not mean `short`.
        if len(parts) > _FEW_PARTS or "term" in parts:
            return ""
        found = {self.tables["cell"].get(part) for part in parts if len(part) >= _LONG_PART}
        said = found.intersection(kinds)
        return said.pop() or "" if len(said) == 1 else ""

    def is_title(self, title: str, kind: str) -> bool:
        """Return whether a title has a word of this kind.

        Kinds are: `figure` (prices, values and figures that are not amounts), `number` (counts and
        codes), `remark`, `description`, and `decimals` (the smallest unit's decimals).
        """
        if kind == "figure" and "%" in title:
            return True
        words = {
            word for name in title_words(title) for word in re.split(r"[\s.,:;/()\[\]-]+", name)
        }
        named = any(self._kind("column", word) == kind for word in words if word)
        return named or self._is_column(title, kind)

    def _is_column(self, title: str, kind: str) -> bool:
        """Return whether a whole title is of this kind, and not only one of its words."""
        return any(self._kind("column", written) == kind for written in _spellings(title))

    def is_remark(self, title: str) -> bool:
        """Return whether a column with this title contains remarks, or describes the asset."""
        is_about_asset = self.is_asset_name(title) or self._is_column(title, "of_asset")
        return is_about_asset or self.is_title(title, "remark")

    def is_description(self, title: str) -> bool:
        """Return whether a column with this title may contain asset names or descriptions."""
        fields = (self.field_of(title), self.second_field_of(title))
        is_named = "asset" in fields or self.is_asset_name(title)
        return is_named or self.is_title(title, "description")

    def is_asset_name(self, title: str) -> bool:
        """Return whether a column with this title contains a different name for the asset."""
        return self._is_column(title, "asset_name")

    def total_name(self, text: str) -> str | None:
        """Return `Kraken` for `Total Kraken`, "" for `Total`, or None for other strings."""
        bare = text.strip().rstrip(":").strip()
        if self._kind("total", bare) == "whole":
            return ""
        match = self.total.fullmatch(bare)
        return (match["after"] or match["before"] or "").strip() if match else None

    def unit_of(self, text: str) -> str:
        """Return the unit that a string names (`thousands`, `millions` or `billions`), or ""."""
        bare = _bare(text)
        return next((unit for unit, pattern in self.units.items() if pattern.search(bare)), "")


def title_words(title: str) -> Iterator[str]:
    """Yield a title as separate words, with and without the part in brackets at its end.

    `portfolioName` and `portfolio_name` are two words each.
    """
    for written in (title, _HUMP.sub(" ", title)):
        name = fold(written.replace("_", " "))
        yield name
        yield _BESIDE.sub("", name)


def _spellings(title: str) -> Iterator[str]:
    """Yield a title as written, then without text in brackets at its end, then without a unit."""
    yield title
    yield _BESIDE.sub("", title)
    name, unit = _unit_at_end(title)
    if _SHORT.fullmatch(unit) or _PIECES.fullmatch(unit):
        yield name


def _unit_at_end(title: str) -> tuple[str, str]:
    """Split a title at its last slash or comma. Without these, the second part is empty."""
    for mark in ("/", ","):
        name, _, unit = title.rpartition(mark)
        if name:
            return name, unit.strip()
    return title, ""


def _is_valued(title: str) -> bool:
    match = _BESIDE.search(title)
    return bool(_OF_CURRENCY.fullmatch(match[0] if match else _unit_at_end(title)[1]))


def _bare(text: str) -> str:
    """Convert a string to lower case and remove accents."""
    folded = fold(text)
    # Skip the normalization for ASCII strings, because it took half of the time for looking up
    # words.
    if folded.isascii():
        return folded
    letters = unicodedata.normalize("NFKD", folded)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@lru_cache(maxsize=1024)
def _key(text: str) -> str:
    """Normalize a word to the key that all its spellings share, mainly its letters and digits."""
    bare = _bare(text).strip()
    return _KEPT.sub("", f"{bare[:-1]} no" if bare.endswith("#") else bare)


def _keys(word: str) -> frozenset[str]:
    """Return a word's lookup keys.

    With an umlaut, there are two, because `ä` may be written `ae`.
    """
    return frozenset((_key(word), _key(word.translate(_UMLAUTS))))


@lru_cache(maxsize=8)
def words_of(own: str = "") -> Words:
    """Combine the known words with the user's words, which take precedence.

    `own` is the content of the user's `words.toml`. Raises `NotReconciled`, which lists all errors
    in that file.
    """
    shipped = _lists(tomllib.loads(_SHIPPED.read_text(encoding="utf-8")))
    theirs = _own_lists(own, shipped)
    groups = dict.fromkeys(group for group, _ in shipped)
    tables = {group: _by_key(group, shipped) for group in groups}
    own_tables = {group: _by_key(group, theirs) for group in tables}
    # A word that the user adds to one of these groups no longer belongs to the other group.
    for group, other in (("field", "second"), ("second", "field")):
        for word in own_tables[other]:
            tables[group].pop(word, None)
    tables = {group: table | own_tables[group] for group, table in tables.items()}
    lists = {place: [*theirs.get(place, ()), *words] for place, words in shipped.items()}
    return Words(
        tables=tables,
        total=_total_pattern(lists["total", "word"]),
        units={
            unit: _unit_pattern(lists["unit", unit], lists["unit_alone", unit])
            for unit in ("thousands", "millions", "billions")
        },
        factors={
            key: _FACTORS[unit]
            for group in ("unit", "unit_alone")
            for key, unit in tables[group].items()
        }
        | tables["scale"],
    )


def _lists(file: Mapping[str, Any]) -> _Lists:
    """Return a file's words by group and kind. A kind may have a list for each language."""
    return {
        (group, kind): [
            word
            for part in (words.values() if isinstance(words, dict) else [words])
            for word in _word_list(part)
        ]
        for group, kinds in file.items()
        for kind, words in kinds.items()
    }


def _word_list(value: object) -> list[str]:
    if isinstance(value, str | list):
        return [value] if isinstance(value, str) else value
    raise TypeError


def _own_lists(text: str, shipped: _Lists) -> _Lists:
    complaints = []
    lists: _Lists = {}
    try:
        lists = _lists(tomllib.loads(text.removeprefix("\ufeff")))
    except tomllib.TOMLDecodeError as error:
        complaints = [f"the file is not valid TOML: {error}"]
    except (AttributeError, TypeError):  # The file contains something other than lists in tables.
        complaints = ['each line must look like portfolio = ["our word", "another"] under [field]']
    for (group, kind), words in lists.items():
        if (group, kind) not in shipped:
            kinds = ", ".join(map(".".join, shipped))
            complaints.append(f"{group}.{kind} does not exist, expected one of {kinds}")
        bad = [word for word in words if not isinstance(word, str) or not _key(word)]
        complaints += [f"{group}.{kind} contains {word!r}, which is not a word" for word in bad]
    if not complaints:
        complaints = list(_words_of_two(lists))
    if complaints:
        raise NotReconciled(
            f"{OWN_WORDS} cannot be used: {'; '.join(complaints)}. Nothing was reconciled."
        )
    return lists


def _words_of_two(lists: _Lists) -> Iterator[str]:
    """Yield a complaint about each word that is listed under two kinds in one group."""
    kinds: dict[tuple[str, str], str] = {}
    for (group, kind), words in lists.items():
        space = "field" if group == "second" else group
        for word in words:
            others = {kinds.setdefault((space, key), kind) for key in _keys(word)} - {kind}
            yield from (
                f"{word!r} is in both {group}.{kind} and {space}.{other}" for other in others
            )


def _by_key(group: str, lists: _Lists) -> dict[str, str]:
    return {
        key: kind
        for (of, kind), words in lists.items()
        if of == group
        for word in words
        for key in _keys(word)
    }


def _either(words: list[str], gap: str) -> str:
    """Return a pattern that matches any of these words. Longer words come first."""
    spellings = {spelling for word in words for spelling in (word, word.translate(_UMLAUTS))}
    spellings |= {_bare(spelling) for spelling in spellings}
    in_order = sorted(spellings, key=lambda word: (-len(word), word))
    return "|".join(re.escape(word).replace(r"\ ", gap) for word in in_order)


def _total_pattern(words: list[str]) -> re.Pattern[str]:
    either = _either(words, r"[\s-]*")
    return re.compile(
        rf"(?:(?:{either})(?:[\s:\u2013-]+(?P<after>.+))?|(?P<before>.+?)[\s:\u2013-]+(?:{either}))",
        re.IGNORECASE | re.DOTALL,
    )


def _unit_pattern(words: list[str], alone: list[str]) -> re.Pattern[str]:
    # A single letter or a bare number is a unit only next to a currency, or in brackets.
    plain = _either([word for word in words if len(word) > 1], r"\s*")
    named = _either([word for word in words if word.isalpha() and len(word) > 1], r"\s*")
    every = _either(words, r"\s*")
    money = rf"(?:us)?{_CURRENCY}(?!\w)"
    end = rf"(?!\w)\.?(?=\s*(?:$|[,;:/)\]]|{_AFTER}(?!\w)|d'|{money}))"
    return re.compile(
        rf"[(\[]\s*(?:{_BEFORE}\s+)?(?:{money}\s*)?(?:{plain}){end}"
        rf"|(?<!\w){_BEFORE}\s+(?:(?:{money}\s*)?(?:{plain})|{money}\s*(?:{every})){end}"
        rf"|(?<!\w)(?:us)?{_CURRENCY}(?:\s+|(?<=[$€£¥]))(?:{every})(?!\w)"
        rf"|(?<![\w,.'])(?:{named})(?!\w)\.?\s*(?:{_AFTER}\s+|d')?{money}"
        rf"|(?<!\w)(?:{_either(alone, ' ')})(?!\w)"
    )
