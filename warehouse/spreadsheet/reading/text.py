"""Cell text, and detection of a text file's code page.

A code page is likely if every word decoded with it could be a word in some language. For example,
`Łódź` in the Central European code page becomes `£ódŸ` in the Western European one, which is not a
word. If another code page is equally likely, the notice says so.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")

# A match must begin at the start of a word. If a match could begin at any character, searching a
# long word would take hours.
_WORD = re.compile(rb"(?<![A-Za-z\x80-\xff])[A-Za-z]*[\x80-\xff][A-Za-z\x80-\xff]*")

# Characters between words, and characters that occur only at the ends of words.
_BETWEEN = re.compile("[\\s\u00a0\u2018\u2019\u2013\u2014\u2026]+")

_AT_ENDS = (
    "\u20ac\u00a3\u00a5\u00a7\u00b0\u00ab\u00bb\u201e\u201c\u201d\u201a\u00b7\u2022\u2122\u00ae\u00a9\u00b1\u2116"
    "\u2039\u203a\u00bf\u00a1"
)

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_MAX_WORDS = 5000
_SHOWN = 3
_CAMEL = re.compile("[a-z][A-Z]")
_SHORT = 2

# Two code pages are equally likely if their shares of rare letters differ by no more than this
# number.
_AS_LIKELY = 0.3


@dataclass(frozen=True, slots=True)
class _Language:
    """A language and its lower-case letters. For Latin scripts, the letters a to z are omitted.

    `pattern` matches all words of the language. `common` contains the most frequent letters, and is
    empty if the script is Latin.
    """

    name: str
    letters: str
    pattern: str = ""
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
_TURKISH = (_Language("Turkish", "çğıöşüâi̇"),)  # noqa: RUF001 - a Turkish letter

_BALTIC = (
    _Language("Lithuanian", "ąčęėįšųūž"),
    _Language("Latvian", "āčēģīķļņšūž"),
    _Language("Estonian", "äõöüšž"),
)

# If several code pages are equally likely, the first one in this list wins. So the code pages that
# only old programs use are at the end.
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
    """The result of decoding a file's words with one code page: languages and unknown words."""

    codec: str
    words: tuple[str, ...]
    unknown: tuple[str, ...]
    languages: tuple[str, ...]
    rare: float

    @property
    def cost(self) -> tuple[int, int, float]:
        """A sort key that puts the most likely code page first."""
        return len(self.unknown), len(self.languages), self.rare


def as_text(cell: object) -> str:
    """Return a cell's value as a spreadsheet shows it. For example, 123.0 becomes 123."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float):
        return format(cell, ".15g")
    return str(cell)


def text_at(row: Sequence[object], column: int | None) -> str:
    """Return a cell's stripped text, or an empty string if the row does not have that cell."""
    return as_text(row[column]).strip() if column is not None and len(row) > column else ""


def first_text(row: Sequence[object]) -> str:
    """Return the stripped text of a row's first cell with text, or "" for a blank row."""
    return next((text for cell in row if (text := as_text(cell).strip())), "")


def fold(text: str) -> str:
    """Return a name in lower case, without invisible characters or extra spaces."""
    if text.isascii() and text.isalnum():
        return text.lower()
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    return " ".join(visible.split()).casefold()


def decode(content: bytes) -> tuple[str, str]:
    """Decode a file that is not UTF-8. Return its text, and a notice about the code page."""
    matches = islice(_WORD.finditer(content), 50 * _MAX_WORDS)
    words = tuple(islice(dict.fromkeys(match[0] for match in matches), _MAX_WORDS))
    best, *others = sorted((_read(codec, words) for codec in _CODE_PAGES), key=lambda r: r.cost)
    text = content.decode(best.codec, "replace")
    return text, f"read as {best.codec}, because it is not UTF-8{_reason(best, others)}"


def _read(codec: str, words: tuple[bytes, ...]) -> _Reading:
    texts = tuple(word.decode(codec, "replace") for word in words)
    letters = [letter for text in texts for letter in text.lower() if not letter.isascii()]
    parts = dict.fromkeys(part.strip(_AT_ENDS) for text in texts for part in _BETWEEN.split(text))
    by_part = {part: _languages(part, codec) for part in parts if part and not part.isascii()}
    unknown = tuple(part for part, languages in by_part.items() if not languages)
    # Find a small set of languages that covers all words: repeatedly pick the language with the
    # most remaining words.
    needed: list[str] = []
    remaining = {part: [item.name for item in items] for part, items in by_part.items() if items}
    while remaining:
        names = [name for names in remaining.values() for name in names]
        needed.append(max(dict.fromkeys(names), key=names.count))
        remaining = {part: names for part, names in remaining.items() if needed[-1] not in names}
    common = "".join(item.common for item in _CODE_PAGES[codec] if item.name in needed)
    rare = sum(letter not in common for letter in letters) / len(letters) if common else 0.0
    return _Reading(codec=codec, words=texts, unknown=unknown, languages=tuple(needed), rare=rare)


def _languages(word: str, codec: str) -> list[_Language]:
    """Return the code page's languages that may contain this word."""
    # Ignore `ß`, because code pages do not have its capital form.
    plain = word.replace("ß", "")
    is_cased = plain in (plain.lower(), plain.upper()) or plain[1:] == plain[1:].lower()
    if not is_cased and not _CAMEL.search(word):
        return []
    folded = word.lower()
    accents = sum(not letter.isascii() for letter in word)
    has_few_accents = len(word) <= _SHORT or accents * 4 <= len(word) * 3
    return [
        language
        for language in _CODE_PAGES[codec]
        if set(folded) <= set(language.letters + ("" if language.common else _LATIN))
        and (language.common or has_few_accents)
        and re.fullmatch(language.pattern or ".*", folded)
    ]


def _reason(best: _Reading, others: list[_Reading]) -> str:
    """Return the end of the notice about a code page: languages, and an equally likely page."""
    if best.unknown:
        shown = ", ".join(map(repr, best.unknown[:_SHOWN]))
        return f", but no known code page gives readable words for {shown}. Save the file as UTF-8"
    rivals = (
        reading
        for reading in others
        if not reading.unknown and reading.words != best.words and reading.cost[1] == best.cost[1]
    )
    rival = next(rivals, None)
    languages = f" and contains {' and '.join(best.languages)} letters"
    if rival is None or best.rare + _AS_LIKELY < rival.rare:
        return languages if best.languages else ""
    index = next(index for index, word in enumerate(best.words) if word != rival.words[index])
    return (
        f"{languages}. As {rival.codec}, it contains {' and '.join(rival.languages)} letters, "
        f"and {best.words[index]!r} would be {rival.words[index]!r}. To be sure, save the file as "
        "UTF-8"
    )
