"""Text of cells, and the code page of a text file."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice


def as_text(cell: object) -> str:
    """Return a cell as the text its reader sees: 123.0 is 123."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float):
        return format(cell, ".15g")
    return str(cell)


def text_at(row: Sequence[object], place: int | None) -> str:
    """Return the text of a cell without spaces around it; nothing where there is no such cell."""
    return as_text(row[place]).strip() if place is not None and len(row) > place else ""


def first_text(row: Sequence[object]) -> str:
    """Return the first text of a row without spaces around it; nothing of a blank row."""
    return next((text for cell in row if (text := as_text(cell).strip())), "")


_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def fold(text: str) -> str:
    """Return the name without case, outer and double spaces, and zero widths."""
    if text.isascii() and text.isalnum():
        return text.lower()
    seen = _UNSEEN.sub("", unicodedata.normalize("NFC", text))
    return " ".join(seen.split()).casefold()


# It begins where a word does: looked for from each of its letters, a long one takes hours.
_WORD = re.compile(rb"(?<![A-Za-z\x80-\xff])[A-Za-z]*[\x80-\xff][A-Za-z\x80-\xff]*")
# What stands between words, and what stands at their ends only.
_BETWEEN = re.compile("[\\s\u00a0\u2018\u2019\u2013\u2014\u2026]+")
_AT_ENDS = (
    "\u20ac\u00a3\u00a5\u00a7\u00b0\u00ab\u00bb\u201e\u201c\u201d\u201a\u00b7\u2022\u2122\u00ae\u00a9\u00b1\u2116"
    "\u2039\u203a\u00bf\u00a1"
)
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_MOST_WORDS = 5000
_SHOWN = 3
_CAMEL = re.compile("[a-z][A-Z]")
_SHORT = 2
_AS_LIKELY = 0.3  # of rare letters more than another reading has


@dataclass(frozen=True, slots=True)
class _Language:
    """The letters of a language beside a to z, in lower case; of another script, all of them.

    `where` is a pattern that its words follow, `common` are the most frequent letters of a script.
    """

    name: str
    letters: str
    where: str = ""
    common: str = ""


_WESTERN = (
    _Language("German", "äöüß"),
    _Language("French", "àâçéèêëîïôûùœæ", "(?:[^ùè]|(?<![ae])è)*|.*où"),
    _Language("Spanish", "áéíñóúü", "(?:[^ñ]|ñ(?=[aeiouáéíóú]))*"),
    _Language("Italian", "àèéìòù", "[a-z]*[àèéìòù]?"),
    _Language("Portuguese", "ãõáâàçéêíóôú", "(?:[^ãõ]|ã(?=[eo]|$)|õ(?=e))*"),
    _Language("Danish or Norwegian", "æøå"),
    _Language("Swedish or Finnish", "åäöé"),
)
_CENTRAL = (
    _Language("Polish", "ąćęłńóśźż"),
    _Language(
        "Czech or Slovak", "áčďéěíňóřšťúůýžľĺŕôä", "(?:[^ŕĺ]|[ŕĺ](?=[bcdfghjklmnpqrstvxz]))*"
    ),
    _Language("Hungarian", "áéíóöőúüű"),
    _Language("Croatian or Slovene", "čćđšž"),
    _Language("Romanian", "ăâîşţ"),
    _Language("German", "äöüß"),
)
_CYRILLIC = (
    _Language("Russian", "абвгдежзийклмнопрстуфхцчшщъыьэюяё", common="оеаинтсрвл"),
    _Language("Ukrainian", "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя", common="оаниітверк"),
    _Language("Serbian", "абвгдђежзијклљмнњопрстћуфхцчџш", common="аоиенртсук"),
)
_GREEK = (_Language("Greek", "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋ", common="αοιετσνηυρ"),)
_TURKISH = (_Language("Turkish", "çğıöşüâi̇"),)  # noqa: RUF001 - a letter of Turkish
_BALTIC = (
    _Language("Lithuanian", "ąčęėįšųūž"),
    _Language("Latvian", "āčēģīķļņšūž"),
    _Language("Estonian", "äõöüšž"),
)
# In this order, where their words are as plausible: Windows before what only old programs write.
_CODE_PAGES = {
    "cp1252": _WESTERN,
    "cp1250": _CENTRAL,
    "cp1251": _CYRILLIC,
    "cp1253": _GREEK,
    "cp1254": _TURKISH,
    "cp1257": _BALTIC,
    "iso8859-15": _WESTERN,
    "iso8859-2": _CENTRAL,
    "koi8-r": _CYRILLIC[:1],
    "cp850": _WESTERN,
    "mac-roman": _WESTERN,
}


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a code page makes of the words: those of no language, and of which the others are."""

    codec: str
    words: tuple[str, ...]
    odd: tuple[str, ...]
    languages: tuple[str, ...]
    rare: float

    @property
    def cost(self) -> tuple[int, int, float]:
        """Less is more plausible."""
        return len(self.odd), len(self.languages), self.rare


def decode(content: bytes) -> tuple[str, str]:
    """Return the text of a file that is no UTF-8, and a sentence on how it was read."""
    matches = islice(_WORD.finditer(content), 50 * _MOST_WORDS)
    words = tuple(islice(dict.fromkeys(match[0] for match in matches), _MOST_WORDS))
    best, *others = sorted((_read(codec, words) for codec in _CODE_PAGES), key=lambda r: r.cost)
    text = content.decode(best.codec, "replace")
    return text, f"read as {best.codec}: it is no UTF-8{_reason(best, others)}"


def _read(codec: str, words: tuple[bytes, ...]) -> _Reading:
    texts = tuple(word.decode(codec, "replace") for word in words)
    letters = [letter for text in texts for letter in text.lower() if not letter.isascii()]
    parts = dict.fromkeys(part.strip(_AT_ENDS) for text in texts for part in _BETWEEN.split(text))
    by_part = {part: _languages(part, codec) for part in parts if part and not part.isascii()}
    odd = tuple(part for part, languages in by_part.items() if not languages)
    # The fewest languages that have all words: always the one that has most of those left.
    needed: list[str] = []
    left = {part: [item.name for item in items] for part, items in by_part.items() if items}
    while left:
        names = [name for names in left.values() for name in names]
        needed.append(max(dict.fromkeys(names), key=names.count))
        left = {part: names for part, names in left.items() if needed[-1] not in names}
    common = "".join(item.common for item in _CODE_PAGES[codec] if item.name in needed)
    rare = sum(letter not in common for letter in letters) / len(letters) if common else 0.0
    return _Reading(codec=codec, words=texts, odd=odd, languages=tuple(needed), rare=rare)


def _languages(word: str, codec: str) -> list[_Language]:
    """Return the languages of a code page that a word may be of."""
    plain = word.replace("ß", "")  # it has no capital
    is_cased = plain in (plain.lower(), plain.upper()) or plain[1:] == plain[1:].lower()
    if not is_cased and not _CAMEL.search(word):
        return []
    folded = word.lower()
    marks = sum(not letter.isascii() for letter in word)
    has_few_marks = len(word) <= _SHORT or marks * 4 <= len(word) * 3
    return [
        language
        for language in _CODE_PAGES[codec]
        if set(folded) <= set(language.letters + ("" if language.common else _LATIN))
        and (language.common or has_few_marks)
        and re.fullmatch(language.where or ".*", folded)
    ]


def _reason(best: _Reading, others: list[_Reading]) -> str:
    """Return why a reading was taken, and which other one is as plausible."""
    if best.odd:
        shown = ", ".join(map(repr, best.odd[:_SHOWN]))
        return f", and no code page makes words of all its letters, like {shown}: save it as UTF-8"
    rivals = (
        reading
        for reading in others
        if not reading.odd and reading.words != best.words and reading.cost[1] == best.cost[1]
    )
    rival = next(rivals, None)
    languages = f", and its letters are those of {' and '.join(best.languages)}"
    if rival is None or best.rare + _AS_LIKELY < rival.rare:
        return languages if best.languages else ""
    at = next(place for place, word in enumerate(best.words) if word != rival.words[place])
    return (
        f"{languages}; in {rival.codec} they may be {' and '.join(rival.languages)}: "
        f"{best.words[at]!r} would be {rival.words[at]!r}. Save it as UTF-8 to be sure"
    )
